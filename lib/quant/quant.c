/* SPDX-License-Identifier: MIT */
#include "quant/quant.h"
#include "base/util.h"
#include "quant/blocks.h"
#include <assert.h>
#include <string.h>

static void convert_f32(const uint8_t *src, float *dst, size_t n) {
        if (n)
                memcpy(dst, src, n * sizeof(*dst));
}

static void convert_f16(const uint8_t *src, float *dst, size_t n) {
        for (size_t i = 0; i < n; i++)
                dst[i] = quant_f16_to_f32(quant_load_u16(src + 2 * i));
}

static void convert_bf16(const uint8_t *src, float *dst, size_t n) {
        for (size_t i = 0; i < n; i++)
                dst[i] = quant_bf16_to_f32(quant_load_u16(src + 2 * i));
}

/* Rows: a type of floats; blocks of 32 or 256 values, without and with an offset; and a type of
 * which only the size is known. */
#define KNOWN(n, values, size)                                                                     \
        { .name = (n), .block_values = (values), .block_size = (size) }
#define ROW(n, values, size, ...)                                                                  \
        {                                                                                          \
                .name = (n), .block_values = (values), .block_size = (size), .supported = true,    \
                __VA_ARGS__                                                                        \
        }
#define FLOATS(n, size, fn) ROW(n, 1, size, .convert = (fn))
#define BLOCK32(n, size, fn) ROW(n, 32, size, .unpack32 = (fn))
#define BLOCK32_MIN(n, size, fn) ROW(n, 32, size, .has_min = true, .unpack32 = (fn))
#define BLOCK256(n, size, fn) ROW(n, 256, size, .unpack256 = (fn))
#define BLOCK256_MIN(n, size, fn) ROW(n, 256, size, .has_min = true, .unpack256 = (fn))

static const struct quant_info types[QUANT_N_TYPES] = {
        [QUANT_F32] = FLOATS("F32", 4, convert_f32),
        [QUANT_F16] = FLOATS("F16", 2, convert_f16),
        [QUANT_Q4_0] = BLOCK32("Q4_0", 18, quant_unpack_q4_0),
        [QUANT_Q4_1] = BLOCK32_MIN("Q4_1", 20, quant_unpack_q4_1),
        [QUANT_Q5_0] = BLOCK32("Q5_0", 22, quant_unpack_q5_0),
        [QUANT_Q5_1] = BLOCK32_MIN("Q5_1", 24, quant_unpack_q5_1),
        [QUANT_Q8_0] = BLOCK32("Q8_0", 34, quant_unpack_q8_0),
        [9] = KNOWN("Q8_1", 32, 36),
        [QUANT_Q2_K] = BLOCK256_MIN("Q2_K", 84, quant_unpack_q2_k),
        [QUANT_Q3_K] = BLOCK256("Q3_K", 110, quant_unpack_q3_k),
        [QUANT_Q4_K] = BLOCK256_MIN("Q4_K", 144, quant_unpack_q4_k),
        [QUANT_Q5_K] = BLOCK256_MIN("Q5_K", 176, quant_unpack_q5_k),
        [QUANT_Q6_K] = BLOCK256("Q6_K", 210, quant_unpack_q6_k),
        [15] = KNOWN("Q8_K", 256, 292),
        [16] = KNOWN("IQ2_XXS", 256, 66),
        [17] = KNOWN("IQ2_XS", 256, 74),
        [18] = KNOWN("IQ3_XXS", 256, 98),
        [19] = KNOWN("IQ1_S", 256, 50),
        [QUANT_IQ4_NL] = BLOCK32("IQ4_NL", 18, quant_unpack_iq4_nl),
        [21] = KNOWN("IQ3_S", 256, 110),
        [22] = KNOWN("IQ2_S", 256, 82),
        [QUANT_IQ4_XS] = BLOCK256("IQ4_XS", 136, quant_unpack_iq4_xs),
        [24] = KNOWN("I8", 1, 1),
        [25] = KNOWN("I16", 1, 2),
        [26] = KNOWN("I32", 1, 4),
        [27] = KNOWN("I64", 1, 8),
        [28] = KNOWN("F64", 1, 8),
        [29] = KNOWN("IQ1_M", 256, 56),
        [QUANT_BF16] = FLOATS("BF16", 2, convert_bf16),
        [34] = KNOWN("TQ1_0", 256, 54),
        [35] = KNOWN("TQ2_0", 256, 66),
        [QUANT_MXFP4] = BLOCK32("MXFP4", 17, quant_unpack_mxfp4),
        [40] = KNOWN("NVFP4", 64, 36),
        [41] = KNOWN("Q1_0", 128, 18),
        [42] = KNOWN("Q2_0", 64, 18),
};

const struct quant_info *quant_info(uint32_t type) {
        return type < QUANT_N_TYPES && types[type].block_values ? &types[type] : NULL;
}

size_t quant_row_size(uint32_t type, size_t n) {
        const struct quant_info *info = quant_info(type);
        size_t size;

        if (!info || n % info->block_values ||
                mul_overflow(n / info->block_values, info->block_size, &size))
                return 0;
        return size;
}

static void dequantize32(const struct quant_info *info, const uint8_t *src, float *dst) {
        struct quant_block32 b;

        info->unpack32(src, &b);
        for (int i = 0; i < 32; i++)
                dst[i] = info->has_min ? b.d * (float)b.q[i] + b.m : b.d * (float)b.q[i];
}

static void dequantize256(const struct quant_info *info, const uint8_t *src, float *dst) {
        struct quant_block256 b;

        info->unpack256(src, &b);
        for (int g = 0; g < 16; g++) {
                float d = b.d * (float)b.scales[g], m = b.dmin * (float)b.mins[g];

                for (int i = 16 * g; i < 16 * g + 16; i++)
                        dst[i] = info->has_min ? d * (float)b.q[i] - m : d * (float)b.q[i];
        }
}

void quant_dequantize(uint32_t type, const void *src, float *dst, size_t n) {
        const struct quant_info *info = quant_info(type);
        const uint8_t *p = src;

        assert(info && info->supported);
        assert(n % info->block_values == 0);
        if (info->convert) {
                info->convert(p, dst, n);
                return;
        }
        for (size_t i = 0; i < n; i += info->block_values, p += info->block_size)
                if (info->unpack32)
                        dequantize32(info, p, dst + i);
                else
                        dequantize256(info, p, dst + i);
}
