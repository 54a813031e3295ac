/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of rounded activations where no instruction set has one of its own. A unit of more than
 * ROWS_MAX tokens is packed: a lane is a token (packed-block.h). In other units a lane is a block:
 * per token scales of all blocks (rounded up to 8), sums of the int8 of all blocks, then the int8, by
 * pairs of the blocks i and i + 4 of each 8: first halves of both, second halves of both.
 */
#include "kern/x86/avx2.h"
#include "kern/kern-block.h"

#define ROWS_MAX 8

static inline bool unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > ROWS_MAX;
}

static inline size_t n_packed_units(const struct kern_act *a) {
        return a->n_tokens / KERN_ACT_UNIT + (a->n_tokens % KERN_ACT_UNIT > ROWS_MAX);
}

void kern_avx2_act_round(const struct kern_act *a, size_t unit, uint8_t *dst);
/* The first n_units units, which must be packed. */
#define X(name, type, ...)                                                                         \
        void kern_avx2_packed_##name(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units);
BLOCK_KINDS(X)
#undef X
