/* SPDX-License-Identifier: MIT */
/* Rounding of activations to int8 blocks of 256, in the layouts of packed-k.h and repacked-layout.h. */
#include "kern/x86/avx2.h"
#include "kern/x86/matmul-k.h"
#include "kern/x86/packed-k.h"
#include "kern/x86/repacked-layout.h"

/* The scale of a block; *ret_inverse is 1/d, or 0 where all values become 0. */
static float block_scale(const float *x, float *ret_inverse) {
        __m256i sign = _mm256_set1_epi32(INT32_MIN), m = _mm256_setzero_si256();
        uint32_t lanes[8], amax = 0;
        float d, id;

        for (int i = 0; i < KERN_ACT_SUPER; i += 8)
                m = _mm256_max_epu32(
                        m, _mm256_andnot_si256(sign, _mm256_loadu_si256((const __m256i *)(x + i))));
        _mm256_storeu_si256((__m256i *)lanes, m);
        for (int i = 0; i < 8; i++)
                amax = lanes[i] > amax ? lanes[i] : amax;
        d = kern_from_bits(amax) / 127;
        id = 1 / d;
        *ret_inverse = d > 0 && d < INFINITY && id < INFINITY ? id : 0;
        return d;
}

/* 32 values at 1/d = inverse. */
static __m256i round32(const float *x, __m256 inverse) {
        /* The packs keep to 128-bit lanes; this puts the eight groups of four in order. */
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        __m256i v[4];

        for (int i = 0; i < 4; i++)
                v[i] = _mm256_max_epi32(
                        _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse)),
                        _mm256_set1_epi32(-127));
        v[0] = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        return _mm256_permutevar8x32_epi32(v[0], order);
}

/* Rounds one block; sums are in the order of kern_act_super_sum(). Returns the scale. */
static float round_block(const float *x, int8_t *q, int16_t *sums) {
        __m256i s[8], low, high;
        float inverse, d = block_scale(x, &inverse);

        if (inverse == 0) {
                memset(q, 0, KERN_ACT_SUPER);
                memset(sums, 0, KERN_ACT_SUPER_SUMS * sizeof(*sums));
                return d;
        }

        for (int i = 0; i < 8; i++) {
                __m256i v = round32(x + 32 * i, _mm256_set1_ps(inverse));

                _mm256_storeu_si256((__m256i *)(q + 32 * i), v);
                s[i] = _mm256_madd_epi16(
                        _mm256_maddubs_epi16(_mm256_set1_epi8(1), v), _mm256_set1_epi16(1));
        }
        /* The first halves of the 32s gather in the lower 128 bits. */
        low = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
        high = _mm256_hadd_epi32(_mm256_hadd_epi32(s[4], s[5]), _mm256_hadd_epi32(s[6], s[7]));
        _mm256_storeu_si256((__m256i *)sums, _mm256_packs_epi32(low, high));
        return d;
}

/* One block of the n tokens from x on. */
static void round_packed(const float *x, size_t ldx, size_t n, uint8_t *dst) {
        int8_t q[KERN_ACT_SUPER];
        int16_t sums[KERN_ACT_SUPER_SUMS];
        float *d = (float *)(dst + K_PACKED_SCALES);

        if (n < KERN_ACT_UNIT)
                memset(dst, 0, K_PACKED_SIZE);
        for (size_t t = 0; t < n; t++) {
                d[t] = round_block(x + t * ldx, q, sums);
                for (size_t k = 0; k < KERN_ACT_SUPER / 4; k++)
                        memcpy(dst + 64 * k + 4 * t, q + 4 * k, 4);
                for (size_t s = 0; s < 8; s++) {
                        int16_t pair[2] = {sums[s], sums[s + 8]};

                        memcpy(dst + K_PACKED_SUMS + 64 * s + 4 * t, pair, sizeof(pair));
                }
        }
}

void kern_avx2_act_round_q8k(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_SUPER, t0 = unit * KERN_ACT_UNIT;
        size_t n = a->n_tokens - t0 < KERN_ACT_UNIT ? a->n_tokens - t0 : KERN_ACT_UNIT;
        const float *x = a->x + t0 * a->ldx;

        if (k_unit_is_packed(a, unit)) {
                for (size_t b = 0; b < n_blocks; b++)
                        round_packed(x + b * KERN_ACT_SUPER, a->ldx, n, dst + b * K_PACKED_SIZE);
                return;
        }
        for (size_t t = 0; t < n; t++, x += a->ldx, dst += a->quantised_row_size) {
                struct kern_act_super to = kern_act_super(dst, a->n_in);

                for (size_t b = 0; b < n_blocks; b++)
                        to.d[b] = round_block(x + b * KERN_ACT_SUPER, to.q + b * KERN_ACT_SUPER,
                                to.sums + b * KERN_ACT_SUPER_SUMS);
                /* Lanes without a block are computed and dropped; what lies here by chance may
                 * make subnormals, which are slow. */
                for (size_t b = n_blocks; b % 8; b++)
                        to.d[b] = 0;
        }
}

/* Pairs of 16 bits: numbers 4i and 4i + 2, 4i + 1 and 4i + 3 of n. */
static void put_pairs(const int16_t *sums, size_t n, uint8_t *dst) {
        for (size_t i = 0; i < n; i += 4) {
                int16_t pairs[4] = {sums[i], sums[i + 2], sums[i + 1], sums[i + 3]};

                memcpy(dst + 2 * i, pairs, sizeof(pairs));
        }
}

/* One block of a token of a tile. */
static void round_super(const float *x, uint8_t *dst) {
        int16_t sums[KERN_ACT_SUPER_SUMS], of16[KERN_ACT_SUPER_SUMS], of32[8];
        float d = round_block(x, (int8_t *)dst, sums);

        memcpy(dst + REPACKED_SUPER_SCALE, &d, sizeof(d));
        for (size_t i = 0; i < KERN_ACT_SUPER_SUMS; i++) {
                int32_t zero;

                of16[i] = sums[kern_act_super_sum(i)];
                zero = -32 * of16[i];
                memcpy(dst + REPACKED_SUPER_ZERO32 + 4 * i, &zero, sizeof(zero));
        }
        for (size_t i = 0; i < 8; i++)
                of32[i] = (int16_t)(of16[2 * i] + of16[2 * i + 1]);
        put_pairs(of32, 8, dst + REPACKED_SUPER_SUMS32);
        put_pairs(of16, KERN_ACT_SUPER_SUMS, dst + REPACKED_SUPER_SUMS16);
}

static void round_repacked(const float *x, size_t n_in, size_t t, uint8_t *dst) {
        size_t n_blocks = n_in / KERN_ACT_SUPER;

        dst += t * REPACKED_SUPER_TOKEN;
        for (size_t i = 0, b = 0; i < n_blocks; i++, b = repacked_next(b, n_blocks))
                round_super(x + b * KERN_ACT_SUPER, dst + i * REPACKED_SUPER_SIZE);
}

void kern_avx2_act_round_q8k_repacked(const struct kern_act *a, size_t unit, uint8_t *dst) {
        repacked_round(a, unit, dst, round_repacked);
}
