/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Activations of 16 tokens, packed: per block of 32 values 8 registers of int8 (64 bytes each;
 * register k: values 4k..4k+3 of each token), 16 scales, 16 sums of the int8. Missing tokens are
 * zero. Blocks b with equal b % 8 stand together, in order (packed-block.c says why).
 */
#include <stddef.h>

#define PACKED_SIZE 640
#define PACKED_SCALES 512
#define PACKED_SUMS 576

/* Where block b of @n_blocks stands. */
static inline size_t packed_place(size_t b, size_t n_blocks) {
        return b % 8 * ((n_blocks + 7) / 8) + b / 8;
}
