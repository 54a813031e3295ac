/* SPDX-License-Identifier: MIT */
#pragma once
/* Products of weights in blocks of 32 by units of tokens that are packed (packed-layout.h). */
#include "kern/kern-block.h"
#include "kern/x86/level.h"
#include "kern/x86/packed-layout.h"

/* A unit of more tokens is packed. */
#define ROWS_MAX 8

static inline bool unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > ROWS_MAX;
}

static inline size_t n_packed_units(const struct kern_act *a) {
        return a->n_tokens / KERN_ACT_UNIT + (a->n_tokens % KERN_ACT_UNIT > ROWS_MAX);
}

/* Rows [row0, row1) by the first n_units units, which must be packed. */
#define X(name, type, ...)                                                                         \
        void LEVEL(packed_##name)(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy, size_t n_units);
BLOCK_KINDS(X)
#undef X
