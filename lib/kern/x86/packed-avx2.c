/* SPDX-License-Identifier: MIT */
/* packed-block.h with vectors of 8 tokens and products of two. */
#include "kern/x86/block-avx2.h"
#include "kern/x86/packed-block.h"

#define X(name, type, ...)                                                                         \
        void kern_avx2_packed_##name(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n_units);         \
        }
BLOCK_KINDS(X)
#undef X
