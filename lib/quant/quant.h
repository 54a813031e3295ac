/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tensor types of GGUF files: sizes, block layouts and conversion to float32.
 * Pure functions, any thread. Source: GGUF type table and block formulas (ggml spec).
 *
 * A type is one row of the table in quant.c. A type of blocks is described there by one function,
 * which takes a block apart into integers and scales; conversion to float and the generic products
 * of lib/kern follow from that.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The file format's numbers of the supported types. The table knows the sizes of others too. */
enum quant_type {
        QUANT_F32 = 0,
        QUANT_F16 = 1,
        QUANT_Q4_0 = 2,
        QUANT_Q4_1 = 3,
        QUANT_Q5_0 = 6,
        QUANT_Q5_1 = 7,
        QUANT_Q8_0 = 8,
        QUANT_Q2_K = 10,
        QUANT_Q3_K = 11,
        QUANT_Q4_K = 12,
        QUANT_Q5_K = 13,
        QUANT_Q6_K = 14,
        QUANT_IQ4_NL = 20,
        QUANT_IQ4_XS = 23,
        QUANT_BF16 = 30,
        QUANT_MXFP4 = 39,
        QUANT_N_TYPES = 43
};

/* A block of 32 values taken apart: x[i] = d * q[i] + m. */
struct quant_block32 {
        float d, m; /* m: only of types with has_min, else 0 */
        int8_t q[32];
};

/* A block of 256 values taken apart: x[i] = (d * scales[i/16]) * q[i] - dmin * mins[i/16]. */
struct quant_block256 {
        float d, dmin; /* dmin and mins: only of types with has_min, else 0 */
        int16_t scales[16], mins[16];
        int8_t q[256];
};

struct quant_info {
        const char *name;      /* "Q8_0" */
        uint32_t block_values; /* values per block: 1, 32 or 256 if supported */
        uint32_t block_size;   /* bytes per block */
        bool supported;        /* false: only the size is known */
        bool has_min;          /* blocks have an offset */
        /* One of these is not NULL if the type is supported. @src needs no alignment. */
        void (*convert)(const uint8_t *src, float *dst, size_t n); /* floats, n values */
        void (*unpack32)(const uint8_t *src, struct quant_block32 *ret);
        void (*unpack256)(const uint8_t *src, struct quant_block256 *ret);
};

/* NULL for a type id that does not exist (or was removed). */
const struct quant_info *quant_info(uint32_t type);
/* Bytes of a row of @n values; 0 if @n is no multiple of the block or the type is unknown. */
size_t quant_row_size(uint32_t type, size_t n);
/* @n values (a multiple of the block) from @src to @dst. Type must be supported. Each operation of
 * the formulas above is rounded to float32. */
void quant_dequantize(uint32_t type, const void *src, float *dst, size_t n);

/* The values behind the 4-bit codes: of IQ4_NL and IQ4_XS; of MXFP4, doubled. */
extern const int8_t quant_iq4_values[16];
extern const int8_t quant_mxfp4_values[16];
/* The scale of MXFP4's doubled values, 2^(e-128): exact, for e < 2 a subnormal. */
float quant_mxfp4_scale(uint8_t e);

/* IEEE half <-> float, round to nearest even, same bits as F16C for every finite value and inf. */
float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f);
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);
