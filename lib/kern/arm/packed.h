/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How rounded activations lie in memory, and the functions that go by it.
 *
 * A unit of more than ROWS_MAX tokens is packed: a lane is then a token, and 4 tokens, a quad, are a register.
 * Other units are in rows: one token after the other, and a lane is a part of a block.
 *
 * Rows of blocks of 32, per token: scales of all blocks (rounded up to 8), sums of the int8 of all blocks, then
 * the int8. Rows of blocks of 256: kern_act_super().
 *
 * Packed, per block: for each of the 4 quads registers of int8 (register k: values 4k..4k+3 of each of its
 * tokens), then for all 16 tokens their scales, and their sums: of a block of 32, int32; of one of 256, int16
 * for each 16 values. Missing tokens are zero. That is never more than rows take.
 */
#include "kern/kern-isa.h"

#define ROWS_MAX 4
#define N_QUADS (KERN_ACT_UNIT / 4)

#define PACKED_QUAD (KERN_ACT_BLOCK * 4)
#define PACKED_SCALES (N_QUADS * PACKED_QUAD)
#define PACKED_SUMS (PACKED_SCALES + KERN_ACT_UNIT * 4)
#define PACKED_SIZE (PACKED_SUMS + KERN_ACT_UNIT * 4)

#define K_PACKED_QUAD (KERN_ACT_SUPER * 4)
#define K_PACKED_SCALES (N_QUADS * K_PACKED_QUAD)
#define K_PACKED_SUMS (K_PACKED_SCALES + KERN_ACT_UNIT * 4)
#define K_PACKED_SIZE (K_PACKED_SUMS + KERN_ACT_SUPER_SUMS * KERN_ACT_UNIT * 2)

static inline bool unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > ROWS_MAX;
}

static inline size_t n_packed_units(const struct kern_act *a) {
        return a->n_tokens / KERN_ACT_UNIT + (a->n_tokens % KERN_ACT_UNIT > ROWS_MAX);
}

/* Tokens of the unit. */
static inline size_t unit_tokens(const struct kern_act *a, size_t unit) {
        size_t left = a->n_tokens - unit * KERN_ACT_UNIT;

        return left < KERN_ACT_UNIT ? left : KERN_ACT_UNIT;
}

void kern_neon_act_round_q8(const struct kern_act *a, size_t unit, uint8_t *dst);
void kern_neon_act_round_q8k(const struct kern_act *a, size_t unit, uint8_t *dst);
