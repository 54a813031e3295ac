/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of rounded activations for AVX-512 with VNNI. A unit of more than ROWS_MAX tokens is packed: a
 * lane is a token. In other units a lane is a block.
 *
 * rows: per token, per 8 blocks: 4 registers of int8 (low halves of blocks 0-3, high halves of 0-3,
 * low of 4-7, high of 4-7), 16 scales, 16 sums of int8 (both in the order of group_lane()).
 * Missing blocks (to fill the 8) are zero.
 * packed: packed-layout.h.
 */
#include "kern/x86/avx512.h"
#include "kern/x86/packed-block.h"

#define GROUP_SIZE 384
#define GROUP_SCALES 256
#define GROUP_SUMS 320

/* Lane l of a group product belongs to this block; lanes 2 and 3 of each 4 are of a second row. */
static inline unsigned group_lane(unsigned l) {
        return l / 4 + l % 2 * 4;
}

void kern_avx512_vnni_act_round(const struct kern_act *a, size_t unit, uint8_t *dst);
/* KERN_ACT_Q8_REPACKED, as repacked-layout.h has it. */
void kern_avx512_vnni_act_round_repacked(const struct kern_act *a, size_t unit, uint8_t *dst);
