/* SPDX-License-Identifier: MIT */
#pragma once
/* What both ways of multiplying packed tokens begin with (packed-block.c, packed-direct.h). */
#include "kern/kern-block.h"
#include "kern/x86/packed-layout.h"
#include "kern/x86/vec.h"

/* Takes the zero point off the sums of rows of a block. @x: the block's activations. */
KERN_INLINE vi packed_zero_point(const struct block_kind kind, const uint8_t *x) {
        return kind.min ? vi_zero()
                        : vi_sub(vi_zero(), vi_slli(vi_load(x + PACKED_SUMS), kind.shift));
}
