/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Makes quantised data of every tensor type: the product only reads it. Needs lib/quant.
 *
 * The rounding is a plain one: a block's range decides its scale. Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and
 * MXFP4 come out as the format's reference makes them; the types with blocks of 256 a little worse,
 * since the reference searches for scales.
 */
#include <stddef.h>
#include <stdint.h>

/* All supported types. */
extern const uint32_t test_quant_types[];
extern const size_t test_n_quant_types;

/* Round @n floats (a multiple of the block) to @type, which must be supported. Values that are not
 * finite give some block, not undefined behaviour. */
void test_quantize(uint32_t type, const float *src, void *dst, size_t n);
/* Fill @n values (a multiple of the block) with random bits; scales are finite, and values stay
 * within about +-30. splitmix64 from @state on. */
void test_random_blocks(uint32_t type, uint64_t *state, void *dst, size_t n);
/* Bytes from the start of a block: of its scale, and of its second one (offset, min); -1 if it has
 * none. MXFP4's scale is one byte, others are f16; floats have none. */
void test_scales_at(uint32_t type, int *ret_d, int *ret_min);
