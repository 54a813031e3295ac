/* SPDX-License-Identifier: MIT */
#include "util/quantize.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/quant.h"

const uint32_t test_quant_types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q4_0, QUANT_Q4_1,
        QUANT_Q5_0, QUANT_Q5_1, QUANT_Q8_0, QUANT_IQ4_NL, QUANT_MXFP4, QUANT_Q2_K, QUANT_Q3_K,
        QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_IQ4_XS};
const size_t test_n_quant_types = sizeof(test_quant_types) / sizeof(test_quant_types[0]);

static void store_u16(uint8_t *p, unsigned v) {
        p[0] = (uint8_t)v;
        p[1] = (uint8_t)(v >> 8);
}

/* v cut to an integer within [low, high]; NaN gives low. */
static int to_int(float v, int low, int high) {
        return v > (float)low ? v < (float)high ? (int)v : high : low;
}

/* Half away from zero. */
static int nearest(float v, int low, int high) {
        float t = truncf(v), rest = v - t; /* exact */

        return to_int(rest >= 0.5f ? t + 1 : rest <= -0.5f ? t - 1 : t, low, high);
}

static float inverse(float d) {
        return d != 0 ? 1 / d : 0;
}

/* The first value of greatest magnitude. */
static float greatest(const float *x, int n) {
        float m = 0;

        for (int j = 0; j < n; j++)
                if (fabsf(x[j]) > fabsf(m))
                        m = x[j];
        return m;
}

static int nearest_code(const int8_t *values, float v) {
        float best = FLT_MAX;
        int code = 0;

        for (int i = 0; i < 16; i++)
                if (fabsf(v - values[i]) < best) {
                        best = fabsf(v - values[i]);
                        code = i;
                }
        return code;
}

static void store_nibbles(const int *q, uint8_t *dst) {
        for (int j = 0; j < 16; j++)
                dst[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void store_fifth_bits(const int *q, uint8_t *dst) {
        memset(dst, 0, 4);
        for (int j = 0; j < 32; j++)
                dst[j / 8] |= (uint8_t)((q[j] >> 4 & 1) << j % 8);
}

static void quantize_q8_0(const float *x, uint8_t *dst) {
        float d = fabsf(greatest(x, 32)) / 127, id = inverse(d);

        store_u16(dst, quant_f32_to_f16(d));
        for (int j = 0; j < 32; j++)
                dst[2 + j] = (uint8_t)(int8_t)nearest(x[j] * id, -127, 127);
}

/* Symmetric: the value of greatest magnitude becomes -half; codes 0 to 2 * half - 1. */
static void symmetric(const float *x, int half, int *q, uint8_t *d_to) {
        float d = greatest(x, 32) / (float)-half, id = inverse(d);

        store_u16(d_to, quant_f32_to_f16(d));
        for (int j = 0; j < 32; j++)
                q[j] = to_int(x[j] * id + ((float)half + 0.5f), 0, 2 * half - 1);
}

static void quantize_q4_0(const float *x, uint8_t *dst) {
        int q[32];

        symmetric(x, 8, q, dst);
        store_nibbles(q, dst + 2);
}

static void quantize_q5_0(const float *x, uint8_t *dst) {
        int q[32];

        symmetric(x, 16, q, dst);
        store_fifth_bits(q, dst + 2);
        store_nibbles(q, dst + 6);
}

/* From the least to the greatest value; codes 0 to @top. */
static void with_min(const float *x, int top, int *q, uint8_t *to) {
        float low = x[0], high = x[0], d, id;

        for (int j = 1; j < 32; j++) {
                low = x[j] < low ? x[j] : low;
                high = x[j] > high ? x[j] : high;
        }
        d = (high - low) / (float)top;
        id = inverse(d);
        store_u16(to, quant_f32_to_f16(d));
        store_u16(to + 2, quant_f32_to_f16(low));
        for (int j = 0; j < 32; j++)
                q[j] = to_int((x[j] - low) * id + 0.5f, 0, top);
}

static void quantize_q4_1(const float *x, uint8_t *dst) {
        int q[32];

        with_min(x, 15, q, dst);
        store_nibbles(q, dst + 4);
}

static void quantize_q5_1(const float *x, uint8_t *dst) {
        int q[32];

        with_min(x, 31, q, dst);
        store_fifth_bits(q, dst + 4);
        store_nibbles(q, dst + 8);
}

static void quantize_iq4_nl(const float *x, uint8_t *dst) {
        float d = greatest(x, 32) / -127, id = inverse(d);
        int q[32];

        store_u16(dst, quant_f32_to_f16(d));
        for (int j = 0; j < 32; j++)
                q[j] = nearest_code(quant_iq4_values, x[j] * id);
        store_nibbles(q, dst + 2);
}

static void quantize_mxfp4(const float *x, uint8_t *dst) {
        float amax = fabsf(greatest(x, 32));
        int q[32], exponent = 0;

        if (amax > 0 && amax <= FLT_MAX)
                frexpf(amax, &exponent); /* amax = m * 2^exponent, m < 1: floor(log2) is one less */
        dst[0] = (uint8_t)(amax > 0 ? nearest((float)(exponent - 1 - 2 + 127), 0, 254) : 0);
        for (int j = 0; j < 32; j++)
                q[j] = nearest_code(quant_mxfp4_values, x[j] / quant_mxfp4_scale(dst[0]));
        store_nibbles(q, dst + 1);
}

/*
 * Blocks of 256: ranges of sub-blocks give their scales (and mins), whose greatest gives the block's.
 */
struct super {
        uint16_t d, dmin; /* f16 */
        int scales[16], mins[16], q[256];
};

/* @size: values in a sub-block; scales and mins up to @top_scale, codes up to @top. */
static void super_with_min(const float *x, int size, int top_scale, int top, struct super *ret) {
        float scale[16], min[16], most = 0, lowest = 0;

        for (int s = 0; s < 256 / size; s++) {
                float low = 0, high = 0;

                for (int i = s * size; i < (s + 1) * size; i++) {
                        low = x[i] < low ? x[i] : low;
                        high = x[i] > high ? x[i] : high;
                }
                scale[s] = (high - low) / (float)top;
                min[s] = -low;
                most = scale[s] > most ? scale[s] : most;
                lowest = min[s] > lowest ? min[s] : lowest;
        }
        ret->d = quant_f32_to_f16(most / (float)top_scale);
        ret->dmin = quant_f32_to_f16(lowest / (float)top_scale);
        for (int i = 0; i < 256; i++) {
                float d = quant_f16_to_f32(ret->d), dmin = quant_f16_to_f32(ret->dmin);
                int s = i / size, g = i / 16;

                ret->scales[g] = nearest(scale[s] * inverse(d), 0, top_scale);
                ret->mins[g] = nearest(min[s] * inverse(dmin), 0, top_scale);
                d *= (float)ret->scales[g];
                dmin *= (float)ret->mins[g];
                ret->q[i] = nearest((x[i] + dmin) * inverse(d), 0, top);
        }
}

/* Signed scales up to @top_scale; the value of greatest magnitude becomes @lowest (negative). With
 * @values these are the codes' values, else codes are [lowest, -lowest - 1]. */
static void super_symmetric(const float *x, int size, int top_scale, int lowest,
        const int8_t *values, struct super *ret) {
        float scale[16], d;

        for (int s = 0; s < 256 / size; s++)
                scale[s] = greatest(x + s * size, size) / (float)lowest;
        ret->d = quant_f32_to_f16(fabsf(greatest(scale, 256 / size)) / (float)top_scale);
        d = quant_f16_to_f32(ret->d);
        for (int i = 0; i < 256; i++) {
                int s = i / size, g = i / 16;
                float v;

                ret->scales[g] = nearest(scale[s] * inverse(d), -top_scale, top_scale);
                v = x[i] * inverse(d * (float)ret->scales[g]);
                ret->q[i] = values ? nearest_code(values, v) : nearest(v, lowest, -lowest - 1);
        }
}

static void store_two_bits(const int *q, uint8_t *dst) {
        memset(dst, 0, 64);
        for (int i = 0; i < 256; i++)
                dst[i / 128 * 32 + i % 32] |= (uint8_t)((q[i] & 3) << i % 128 / 32 * 2);
}

static void store_pairs(const int *q, uint8_t *dst) {
        memset(dst, 0, 128);
        for (int i = 0; i < 256; i++)
                dst[i / 64 * 32 + i % 32] |= (uint8_t)((q[i] & 15) << i % 64 / 32 * 4);
}

static void quantize_q2_k(const float *x, uint8_t *dst) {
        struct super b;

        super_with_min(x, 16, 15, 3, &b);
        for (int g = 0; g < 16; g++)
                dst[g] = (uint8_t)(b.scales[g] | b.mins[g] << 4);
        store_two_bits(b.q, dst + 16);
        store_u16(dst + 80, b.d);
        store_u16(dst + 82, b.dmin);
}

static void quantize_q3_k(const float *x, uint8_t *dst) {
        struct super b;

        super_symmetric(x, 16, 31, -4, NULL, &b);
        memset(dst, 0, 32);
        memset(dst + 96, 0, 12);
        for (int i = 0; i < 256; i++) {
                dst[i % 32] |= (uint8_t)((b.q[i] >= 0) << i / 32);
                b.q[i] += 4;
        }
        for (int g = 0; g < 16; g++) {
                dst[96 + g % 8] |= (uint8_t)(((b.scales[g] + 32) & 15) << g / 8 * 4);
                dst[104 + g % 4] |= (uint8_t)(((b.scales[g] + 32) >> 4) << g / 4 * 2);
        }
        store_two_bits(b.q, dst + 32);
        store_u16(dst + 108, b.d);
}

static void store_scales_and_mins(const struct super *b, uint8_t *dst) {
        store_u16(dst, b->d);
        store_u16(dst + 2, b->dmin);
        for (int s = 0; s < 4; s++) {
                int scale = b->scales[2 * s + 8], min = b->mins[2 * s + 8];

                dst[4 + s] = (uint8_t)(b->scales[2 * s] | scale >> 4 << 6);
                dst[8 + s] = (uint8_t)(b->mins[2 * s] | min >> 4 << 6);
                dst[12 + s] = (uint8_t)((scale & 15) | (min & 15) << 4);
        }
}

static void quantize_q4_k(const float *x, uint8_t *dst) {
        struct super b;

        super_with_min(x, 32, 63, 15, &b);
        store_scales_and_mins(&b, dst);
        store_pairs(b.q, dst + 16);
}

static void quantize_q5_k(const float *x, uint8_t *dst) {
        struct super b;

        super_with_min(x, 32, 63, 31, &b);
        store_scales_and_mins(&b, dst);
        memset(dst + 16, 0, 32);
        for (int i = 0; i < 256; i++)
                dst[16 + i % 32] |= (uint8_t)((b.q[i] >> 4) << i / 32);
        store_pairs(b.q, dst + 48);
}

static void quantize_q6_k(const float *x, uint8_t *dst) {
        struct super b;
        int high[256];

        super_symmetric(x, 16, 127, -32, NULL, &b);
        memset(dst, 0, 128);
        for (int i = 0; i < 256; i++) {
                int part = i % 128 / 32, q = b.q[i] + 32;

                dst[i / 128 * 64 + part % 2 * 32 + i % 32] |= (uint8_t)((q & 15) << part / 2 * 4);
                high[i] = q >> 4;
        }
        store_two_bits(high, dst + 128);
        for (int g = 0; g < 16; g++)
                dst[192 + g] = (uint8_t)(int8_t)b.scales[g];
        store_u16(dst + 208, b.d);
}

static void quantize_iq4_xs(const float *x, uint8_t *dst) {
        struct super b;
        unsigned high = 0;

        super_symmetric(x, 32, 31, -127, quant_iq4_values, &b);
        memset(dst + 4, 0, 4);
        for (int s = 0; s < 8; s++) {
                unsigned scale = (unsigned)(b.scales[2 * s] + 32);

                dst[4 + s / 2] |= (uint8_t)((scale & 15) << s % 2 * 4);
                high |= scale >> 4 << 2 * s;
                store_nibbles(b.q + 32 * s, dst + 8 + 16 * s);
        }
        store_u16(dst, b.d);
        store_u16(dst + 2, high);
}

static void quantize_f32(const float *x, uint8_t *dst) {
        memcpy(dst, x, sizeof(*x));
}

static void quantize_f16(const float *x, uint8_t *dst) {
        store_u16(dst, quant_f32_to_f16(*x));
}

static void quantize_bf16(const float *x, uint8_t *dst) {
        store_u16(dst, quant_f32_to_bf16(*x));
}

/* What makes a block, and where its scales are. */
static const struct {
        void (*quantize)(const float *x, uint8_t *dst);
        int d_at, min_at;
} makers[QUANT_N_TYPES] = {
        [QUANT_F32] = {quantize_f32, -1, -1},
        [QUANT_F16] = {quantize_f16, -1, -1},
        [QUANT_BF16] = {quantize_bf16, -1, -1},
        [QUANT_Q4_0] = {quantize_q4_0, 0, -1},
        [QUANT_Q4_1] = {quantize_q4_1, 0, 2},
        [QUANT_Q5_0] = {quantize_q5_0, 0, -1},
        [QUANT_Q5_1] = {quantize_q5_1, 0, 2},
        [QUANT_Q8_0] = {quantize_q8_0, 0, -1},
        [QUANT_IQ4_NL] = {quantize_iq4_nl, 0, -1},
        [QUANT_MXFP4] = {quantize_mxfp4, 0, -1},
        [QUANT_Q2_K] = {quantize_q2_k, 80, 82},
        [QUANT_Q3_K] = {quantize_q3_k, 108, -1},
        [QUANT_Q4_K] = {quantize_q4_k, 0, 2},
        [QUANT_Q5_K] = {quantize_q5_k, 0, 2},
        [QUANT_Q6_K] = {quantize_q6_k, 208, -1},
        [QUANT_IQ4_XS] = {quantize_iq4_xs, 0, -1},
};

void test_quantize(uint32_t type, const float *src, void *dst, size_t n) {
        const struct quant_info *info = quant_info(type);
        uint8_t *p = dst;

        assert(info && makers[type].quantize);
        assert(n % info->block_values == 0);
        for (size_t i = 0; i < n; i += info->block_values, p += info->block_size)
                makers[type].quantize(src + i, p);
}

void test_scales_at(uint32_t type, int *ret_d, int *ret_min) {
        assert(type < QUANT_N_TYPES && makers[type].quantize);
        *ret_d = makers[type].d_at;
        *ret_min = makers[type].min_at;
}

/* splitmix64 */
static uint64_t next(uint64_t *state) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

static float uniform(uint64_t *state) {
        return (float)(int32_t)(uint32_t)next(state) * 0x1p-31f;
}

/* The greatest value of a block whose scale is 1 (and of a block of 256, whose scales are greatest). */
static float reach(uint32_t type, const struct quant_info *info) {
        if (info->unpack256)
                return type == QUANT_Q2_K   ? 45
                       : type == QUANT_Q3_K ? 128
                       : type == QUANT_Q4_K ? 945
                       : type == QUANT_Q5_K ? 1953
                                            : 4096;
        return type == QUANT_Q8_0 || type == QUANT_IQ4_NL ? 128 : 31;
}

void test_random_blocks(uint32_t type, uint64_t *state, void *dst, size_t n) {
        const struct quant_info *info = quant_info(type);
        int d_at, min_at;
        uint8_t *p = dst;

        test_scales_at(type, &d_at, &min_at);
        for (size_t i = 0; i < n; i += info->block_values, p += info->block_size) {
                if (d_at < 0) {
                        float x = uniform(state) * 30;

                        test_quantize(type, &x, p, 1);
                        continue;
                }
                for (size_t j = 0; j < info->block_size; j++)
                        p[j] = (uint8_t)next(state);
                if (type == QUANT_MXFP4)
                        p[0] = (uint8_t)(118 + next(state) % 11); /* 2^-10 to 2^0 */
                else
                        store_u16(p + d_at,
                                quant_f32_to_f16(uniform(state) * 15 / reach(type, info)));
                if (min_at >= 0)
                        store_u16(p + min_at, quant_f32_to_f16(uniform(state) * 15 /
                                                               (!info->unpack256            ? 1
                                                                       : type == QUANT_Q2_K ? 15
                                                                                            : 63)));
        }
}
