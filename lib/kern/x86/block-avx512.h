/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of rounded activations for AVX-512. A unit of more than ROWS_MAX tokens is packed: a
 * lane is a token. In other units a lane is a block.
 *
 * rows: per token, per 8 blocks: 4 registers of int8 (low halves of blocks 0-3, high halves of 0-3,
 * low of 4-7, high of 4-7), 16 scales, 16 sums of int8 (both in the order of group_lane()).
 * packed: per block: 8 registers of int8 (register k: values 4k..4k+3 of each token), 16 scales,
 * 16 sums of int8 (of the tokens).
 * Missing blocks (to fill the 8) and tokens (to fill the 16) are zero.
 */
#include "kern/x86/avx512.h"

#define ROWS_MAX 8
#define GROUP_SIZE 384
#define GROUP_SCALES 256
#define GROUP_SUMS 320
#define PACKED_SIZE 640
#define PACKED_SCALES 512
#define PACKED_SUMS 576

/* Lane l of a group product belongs to this block; lanes 2 and 3 of each 4 are of a second row. */
static inline unsigned group_lane(unsigned l) {
        return l / 4 + l % 2 * 4;
}

static inline bool unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > ROWS_MAX;
}

/* Weight blocks: bytes, and the zero point that makes their values unsigned, as a shift. */
struct block_kind {
        size_t size;
        unsigned shift;
        bool nibbles;
};
#define BLOCK_Q8_0 ((struct block_kind){34, 7, false})
#define BLOCK_Q4_0 ((struct block_kind){18, 3, true})

void kern_avx512_act_round(const struct kern_act *a, size_t unit, uint8_t *dst);
/* All units from unit0 to unit1, which must be packed. */
void kern_avx512_packed_q8_0(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy, size_t n_units);
void kern_avx512_packed_q4_0(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy, size_t n_units);
