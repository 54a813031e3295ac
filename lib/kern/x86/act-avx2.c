/* SPDX-License-Identifier: MIT */
/* Rounding of activations to int8 blocks, in the layouts of block-avx2.h. */
#include "kern/x86/block-avx2.h"
#include "kern/x86/packed-layout.h"
#include "kern/x86/repacked-layout.h"
#include "kern/x86/transpose8.h"

/* Round one block of x at 1/d = inverse to q; returns the sum of the int8. */
static int32_t round_block(const float *x, float inverse, int8_t *q) {
        /* The packs keep to 128-bit lanes; this puts the four groups of four in order. */
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        __m256i v[4], s;
        __m128i t;

        for (int i = 0; i < 4; i++)
                v[i] = _mm256_max_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i),
                                                _mm256_set1_ps(inverse))),
                        _mm256_set1_epi32(-127));
        s = _mm256_add_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
        v[0] = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((__m256i *)q, _mm256_permutevar8x32_epi32(v[0], order));
        t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
        return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

/* The scale of a block; *ret_inverse is 1/d, or 0 where all values become 0. */
static float block_scale(const float *x, float *ret_inverse) {
        __m256i sign = _mm256_set1_epi32(INT32_MIN), m = _mm256_setzero_si256();
        uint32_t lanes[8], amax = 0;
        float d, id;

        for (int i = 0; i < 4; i++)
                m = _mm256_max_epu32(m, _mm256_andnot_si256(sign,
                                                _mm256_loadu_si256((const __m256i *)(x + 8 * i))));
        _mm256_storeu_si256((__m256i *)lanes, m);
        for (int i = 0; i < 8; i++)
                amax = lanes[i] > amax ? lanes[i] : amax;
        d = kern_from_bits(amax) / 127;
        id = 1 / d;
        *ret_inverse = d > 0 && d < INFINITY && id < INFINITY ? id : 0;
        return d;
}

/* One block of the n tokens from x on. */
static void round_packed(const float *x, size_t ldx, size_t n, uint8_t *dst) {
        _Alignas(32) int8_t q[KERN_ACT_UNIT][KERN_ACT_BLOCK];
        float d[KERN_ACT_UNIT] = {0};
        int32_t sums[KERN_ACT_UNIT] = {0};

        for (size_t t = 0; t < KERN_ACT_UNIT; t++) {
                float inverse = 0;

                if (t < n)
                        d[t] = block_scale(x + t * ldx, &inverse);
                if (inverse != 0)
                        sums[t] = round_block(x + t * ldx, inverse, q[t]);
                else
                        memset(q[t], 0, sizeof(q[t]));
        }
        for (size_t t = 0; t < KERN_ACT_UNIT; t += 8)
                transpose8((const __m256i *)q[t], dst + 4 * t);
        memcpy(dst + PACKED_SCALES, d, sizeof(d));
        memcpy(dst + PACKED_SUMS, sums, sizeof(sums));
}

static void round_row(const float *x, size_t n_in, uint8_t *dst, size_t size) {
        size_t n_blocks = n_in / KERN_ACT_BLOCK, n8 = kern_act_n_blocks8(n_in);
        float *d = (float *)dst;
        int32_t *sums = (int32_t *)(d + n8);
        int8_t *q = (int8_t *)(sums + n8);

        memset(dst, 0, size);
        for (size_t b = 0; b < n_blocks; b++, x += KERN_ACT_BLOCK) {
                int8_t *pair = q + b / 8 * 256 + b % 4 * 64 + b / 4 % 2 * 16, v[KERN_ACT_BLOCK];
                float inverse;

                d[b] = block_scale(x, &inverse);
                if (inverse == 0)
                        continue;
                sums[b] = round_block(x, inverse, v);
                memcpy(pair, v, 16);
                memcpy(pair + 32, v + 16, 16);
        }
}

void kern_avx2_act_round(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_BLOCK, t0 = unit * KERN_ACT_UNIT;
        size_t n = a->n_tokens - t0 < KERN_ACT_UNIT ? a->n_tokens - t0 : KERN_ACT_UNIT;
        const float *x = a->x + t0 * a->ldx;

        if (unit_is_packed(a, unit)) {
                for (size_t b = 0; b < n_blocks; b++)
                        round_packed(x + b * KERN_ACT_BLOCK, a->ldx, n,
                                dst + packed_place(b, n_blocks) * PACKED_SIZE);
                return;
        }
        for (size_t t = 0; t < n; t++, x += a->ldx, dst += a->quantised_row_size)
                round_row(x, a->n_in, dst, a->quantised_row_size);
}

/* Token t of a tile. */
static void round_repacked(const float *x, size_t n_in, size_t t, uint8_t *dst) {
        size_t n_blocks = n_in / KERN_ACT_BLOCK;

        for (size_t i = 0, b = 0; i < n_blocks; i++, b = repacked_next(b, n_blocks)) {
                int8_t *q = (int8_t *)dst + KERN_ACT_BLOCK * t;
                float inverse, d = block_scale(x + b * KERN_ACT_BLOCK, &inverse);
                int32_t sum = 0;

                if (inverse != 0)
                        sum = round_block(x + b * KERN_ACT_BLOCK, inverse, q);
                else
                        memset(q, 0, KERN_ACT_BLOCK);
                repacked_act_put(dst, t, d, sum);
                dst += REPACKED_ACT_SIZE;
        }
}

void kern_avx2_act_round_repacked(const struct kern_act *a, size_t unit, uint8_t *dst) {
        repacked_round(a, unit, dst, round_repacked);
}
