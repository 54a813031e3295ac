/* SPDX-License-Identifier: MIT */
#include "quant/quant.h"
#include "base/util.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define BLOCK 32     /* values in a block of Q4_0 and Q8_0 */
#define Q4_0_SIZE 18 /* d f16, 16 bytes of nibbles: value j low, value j + 16 high in byte j */
#define Q8_0_SIZE 34 /* d f16, 32 int8 */

static const struct quant_info types[QUANT_N_TYPES] = {
        [0] = {"F32", 1, 4, true},
        [1] = {"F16", 1, 2, true},
        [2] = {"Q4_0", 32, 18, true},
        [3] = {"Q4_1", 32, 20, false},
        [6] = {"Q5_0", 32, 22, false},
        [7] = {"Q5_1", 32, 24, false},
        [8] = {"Q8_0", 32, 34, true},
        [9] = {"Q8_1", 32, 36, false},
        [10] = {"Q2_K", 256, 84, false},
        [11] = {"Q3_K", 256, 110, false},
        [12] = {"Q4_K", 256, 144, false},
        [13] = {"Q5_K", 256, 176, false},
        [14] = {"Q6_K", 256, 210, false},
        [15] = {"Q8_K", 256, 292, false},
        [16] = {"IQ2_XXS", 256, 66, false},
        [17] = {"IQ2_XS", 256, 74, false},
        [18] = {"IQ3_XXS", 256, 98, false},
        [19] = {"IQ1_S", 256, 50, false},
        [20] = {"IQ4_NL", 32, 18, false},
        [21] = {"IQ3_S", 256, 110, false},
        [22] = {"IQ2_S", 256, 82, false},
        [23] = {"IQ4_XS", 256, 136, false},
        [24] = {"I8", 1, 1, false},
        [25] = {"I16", 1, 2, false},
        [26] = {"I32", 1, 4, false},
        [27] = {"I64", 1, 8, false},
        [28] = {"F64", 1, 8, false},
        [29] = {"IQ1_M", 256, 56, false},
        [30] = {"BF16", 1, 2, true},
        [34] = {"TQ1_0", 256, 54, false},
        [35] = {"TQ2_0", 256, 66, false},
        [39] = {"MXFP4", 32, 17, false},
        [40] = {"NVFP4", 64, 36, false},
        [41] = {"Q1_0", 128, 18, false},
        [42] = {"Q2_0", 64, 18, false},
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

static uint16_t load_u16(const uint8_t *p) {
        return (uint16_t)(p[0] | p[1] << 8);
}

static void store_u16(uint8_t *p, uint16_t v) {
        p[0] = (uint8_t)v;
        p[1] = (uint8_t)(v >> 8);
}

static void dequantize_q4_0(const uint8_t *src, float *dst) {
        float d = quant_f16_to_f32(load_u16(src));

        for (int j = 0; j < BLOCK / 2; j++) {
                dst[j] = (float)((src[2 + j] & 15) - 8) * d;
                dst[j + BLOCK / 2] = (float)((src[2 + j] >> 4) - 8) * d;
        }
}

static void dequantize_q8_0(const uint8_t *src, float *dst) {
        float d = quant_f16_to_f32(load_u16(src));

        for (int j = 0; j < BLOCK; j++)
                dst[j] = (float)(int8_t)src[2 + j] * d;
}

void quant_dequantize(uint32_t type, const void *src, float *dst, size_t n) {
        const uint8_t *p = src;

        assert(quant_info(type) && quant_info(type)->supported);
        assert(n % quant_info(type)->block_values == 0);
        switch (type) {
        case QUANT_F32:
                if (n)
                        memcpy(dst, src, n * sizeof(*dst));
                break;
        case QUANT_F16:
                for (size_t i = 0; i < n; i++)
                        dst[i] = quant_f16_to_f32(load_u16(p + 2 * i));
                break;
        case QUANT_BF16:
                for (size_t i = 0; i < n; i++)
                        dst[i] = quant_bf16_to_f32(load_u16(p + 2 * i));
                break;
        case QUANT_Q4_0:
                for (size_t i = 0; i < n; i += BLOCK, p += Q4_0_SIZE)
                        dequantize_q4_0(p, dst + i);
                break;
        case QUANT_Q8_0:
                for (size_t i = 0; i < n; i += BLOCK, p += Q8_0_SIZE)
                        dequantize_q8_0(p, dst + i);
                break;
        }
}

/* Round half away from zero, kept within [-127, 127]; NaN (from scales that overflowed) gives 0. */
static int round_away(float v) {
        int t;
        float rest;

        if (v != v)
                return 0;
        v = MIN(MAX(v, -127.0f), 127.0f);
        t = (int)v;
        rest = v - (float)t; /* exact */
        return rest >= 0.5f ? t + 1 : rest <= -0.5f ? t - 1 : t;
}

static void quantize_q4_0(const float *src, uint8_t *dst) {
        float m = 0, d, inverse;

        for (int j = 0; j < BLOCK; j++)
                if (fabsf(src[j]) > fabsf(m))
                        m = src[j];
        d = m / -8;
        inverse = d != 0 ? 1 / d : 0;
        store_u16(dst, quant_f32_to_f16(d));
        for (int j = 0; j < BLOCK; j++) {
                float v = src[j] * inverse + 8.5f;
                int q = v >= 0 && v < 15 ? (int)v : v >= 15 ? 15 : 0; /* NaN: 0 */

                if (j < BLOCK / 2)
                        dst[2 + j] = (uint8_t)q;
                else
                        dst[2 + j - BLOCK / 2] |= (uint8_t)(q << 4);
        }
}

static void quantize_q8_0(const float *src, uint8_t *dst) {
        float amax = 0, d, inverse;

        for (int j = 0; j < BLOCK; j++)
                amax = MAX(amax, fabsf(src[j]));
        d = amax / 127;
        inverse = d != 0 ? 1 / d : 0;
        store_u16(dst, quant_f32_to_f16(d));
        for (int j = 0; j < BLOCK; j++)
                dst[2 + j] = (uint8_t)(int8_t)round_away(src[j] * inverse);
}

void quant_quantize(uint32_t type, const float *src, void *dst, size_t n) {
        uint8_t *p = dst;

        assert(quant_info(type) && quant_info(type)->supported);
        assert(n % quant_info(type)->block_values == 0);
        switch (type) {
        case QUANT_F32:
                if (n)
                        memcpy(dst, src, n * sizeof(*src));
                break;
        case QUANT_F16:
                for (size_t i = 0; i < n; i++)
                        store_u16(p + 2 * i, quant_f32_to_f16(src[i]));
                break;
        case QUANT_BF16:
                for (size_t i = 0; i < n; i++)
                        store_u16(p + 2 * i, quant_f32_to_bf16(src[i]));
                break;
        case QUANT_Q4_0:
                for (size_t i = 0; i < n; i += BLOCK, p += Q4_0_SIZE)
                        quantize_q4_0(src + i, p);
                break;
        case QUANT_Q8_0:
                for (size_t i = 0; i < n; i += BLOCK, p += Q8_0_SIZE)
                        quantize_q8_0(src + i, p);
                break;
        }
}
