/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of rounded activations where no instruction set has one of its own. A unit of more than
 * ROWS_MAX tokens is packed: a lane is a token (packed-layout.h). In other units a lane is a block:
 * per token scales of all blocks (rounded up to 8), sums of the int8 of all blocks, then the int8, by
 * pairs of the blocks i and i + 4 of each 8: first halves of both, second halves of both.
 */
#include "kern/x86/avx2.h"
#include "kern/x86/packed-block.h"

void kern_avx2_act_round(const struct kern_act *a, size_t unit, uint8_t *dst);
/* KERN_ACT_Q8_REPACKED, as repacked-layout.h has it. */
void kern_avx2_act_round_repacked(const struct kern_act *a, size_t unit, uint8_t *dst);
