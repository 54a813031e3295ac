/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tensor types of GGUF files: sizes, block layouts and the reference conversion to float32.
 * Pure functions, any thread. Source: GGUF type table and block formulas (ggml spec).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The file format's numbers. Known: the size is known; supported: quant_dequantize() handles it. */
enum quant_type {
        QUANT_F32 = 0,
        QUANT_F16 = 1,
        QUANT_Q4_0 = 2,
        QUANT_Q8_0 = 8,
        QUANT_BF16 = 30,
        QUANT_N_TYPES = 43
};

struct quant_info {
        const char *name;      /* "Q8_0" */
        uint32_t block_values; /* values per block, 0: unknown type */
        uint32_t block_size;   /* bytes per block */
        bool supported;
};

/* NULL for a type id that does not exist (or was removed). */
const struct quant_info *quant_info(uint32_t type);
/* Bytes of a row of @n values; 0 if @n is no multiple of the block or the type is unknown. */
size_t quant_row_size(uint32_t type, size_t n);
/* @n values (a multiple of the block) from @src to @dst. Type must be supported. */
void quant_dequantize(uint32_t type, const void *src, float *dst, size_t n);
/* Round @n floats to @type (F32, F16, BF16, Q8_0, Q4_0), as the format's reference does. */
void quant_quantize(uint32_t type, const float *src, void *dst, size_t n);

/* IEEE half <-> float, round to nearest even, same bits as F16C for every finite value and inf. */
float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f);
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);
