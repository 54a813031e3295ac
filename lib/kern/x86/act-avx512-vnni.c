/* SPDX-License-Identifier: MIT */
/* Rounding of activations to int8 blocks, in the layouts of block-avx512-vnni.h. */
#include "kern/x86/block-avx512-vnni.h"
#include "kern/x86/repacked-layout.h"
#include "kern/x86/transpose8.h"

/* Greatest magnitude in a block, as bits (NaN above infinity). */
static uint32_t block_amax(const float *x) {
        __m512i sign = _mm512_set1_epi32(INT32_MIN);
        __m512i a = _mm512_andnot_si512(sign, _mm512_loadu_si512(x));
        __m512i b = _mm512_andnot_si512(sign, _mm512_loadu_si512(x + 16));

        return _mm512_reduce_max_epu32(_mm512_max_epu32(a, b));
}

/* Scales d of 16 blocks; *ret_inverse is 1/d, or 0 where all values become 0. */
static __m512 scales(const uint32_t *amax, __m512 *ret_inverse) {
        __m512 inf = _mm512_set1_ps(INFINITY);
        __m512 d = _mm512_div_ps(_mm512_loadu_ps(amax), _mm512_set1_ps(127));
        __m512 id = _mm512_div_ps(_mm512_set1_ps(1), d);
        __mmask16 good = _mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_GT_OQ) &
                         _mm512_cmp_ps_mask(d, inf, _CMP_LT_OQ) &
                         _mm512_cmp_ps_mask(id, inf, _CMP_LT_OQ);

        *ret_inverse = _mm512_maskz_mov_ps(good, id);
        return d;
}

/* Round one block; returns the sum of the int8. */
static int32_t round_block(const float *x, float inverse, __m256i *ret) {
        __mmask16 good = inverse != 0 ? 0xffff : 0;
        __m512 id = _mm512_set1_ps(inverse);
        __m512i least = _mm512_set1_epi32(-127);
        __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), id));
        __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), id));
        __m128i qa, qb;
        __m256i q;

        qa = _mm512_maskz_cvtsepi32_epi8(good, _mm512_max_epi32(a, least));
        qb = _mm512_maskz_cvtsepi32_epi8(good, _mm512_max_epi32(b, least));
        q = _mm256_set_m128i(qb, qa);
        *ret = q;
        q = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
        qa = _mm_add_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
        qa = _mm_add_epi32(qa, _mm_shuffle_epi32(qa, 0x4e));
        return _mm_cvtsi128_si32(_mm_add_epi32(qa, _mm_shuffle_epi32(qa, 0xb1)));
}

static void round_group(const float *x, size_t n_blocks, uint8_t *dst) {
        uint32_t amax[16] = {0};
        int32_t sums[16] = {0};
        float inverse[16];
        __m512 d, id;

        for (size_t l = 0; l < 16; l++)
                if (group_lane(l) < n_blocks)
                        amax[l] = l % 4 < 2 ? block_amax(x + group_lane(l) * KERN_ACT_BLOCK)
                                            : amax[l - 2];
        d = scales(amax, &id);
        _mm512_store_ps(dst + GROUP_SCALES, d);
        _mm512_storeu_ps(inverse, id);
        for (size_t b = 0; b < 8; b++) {
                size_t lane = b % 4 * 4 + b / 4;
                uint8_t *to = dst + b / 4 * 128 + b % 4 * 16;
                __m256i q = _mm256_setzero_si256();

                if (b < n_blocks)
                        sums[lane] = round_block(x + b * KERN_ACT_BLOCK, inverse[lane], &q);
                sums[lane + 2] = sums[lane];
                _mm_store_si128((__m128i *)to, _mm256_castsi256_si128(q));
                _mm_store_si128((__m128i *)(to + 64), _mm256_extracti128_si256(q, 1));
        }
        memcpy(dst + GROUP_SUMS, sums, sizeof(sums));
}

/* Block b of the n tokens from x on. */
static void round_packed(const float *x, size_t ldx, size_t n, uint8_t *dst) {
        __m256i q[KERN_ACT_UNIT];
        uint32_t amax[16] = {0};
        int32_t sums[16] = {0};
        float inverse[16];
        __m512 d, id;

        for (size_t t = 0; t < n; t++)
                amax[t] = block_amax(x + t * ldx);
        d = scales(amax, &id);
        _mm512_store_ps(dst + PACKED_SCALES, d);
        _mm512_storeu_ps(inverse, id);
        for (size_t t = 0; t < n; t++)
                sums[t] = round_block(x + t * ldx, inverse[t], &q[t]);
        for (size_t t = n; t < KERN_ACT_UNIT; t++)
                q[t] = _mm256_setzero_si256();
        memcpy(dst + PACKED_SUMS, sums, sizeof(sums));
        for (size_t t = 0; t < KERN_ACT_UNIT; t += 8)
                transpose8(q + t, dst + 4 * t);
}

void kern_avx512_vnni_act_round(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_BLOCK, t0 = unit * KERN_ACT_UNIT;
        size_t n = a->n_tokens - t0 < KERN_ACT_UNIT ? a->n_tokens - t0 : KERN_ACT_UNIT;
        const float *x = a->x + t0 * a->ldx;

        if (unit_is_packed(a, unit)) {
                for (size_t b = 0; b < n_blocks; b++)
                        round_packed(x + b * KERN_ACT_BLOCK, a->ldx, n,
                                dst + packed_place(b, n_blocks) * PACKED_SIZE);
                return;
        }
        for (size_t t = 0; t < n; t++)
                for (size_t b = 0; b < n_blocks; b += 8)
                        round_group(x + t * a->ldx + b * KERN_ACT_BLOCK,
                                n_blocks - b < 8 ? n_blocks - b : 8,
                                dst + t * a->quantised_row_size + b / 8 * GROUP_SIZE);
}

/* Token t of a tile: 16 blocks at a time. */
static void round_repacked(const float *x, size_t n_in, size_t t, uint8_t *dst) {
        size_t n_blocks = n_in / KERN_ACT_BLOCK;

        for (size_t i = 0, b = 0; i < n_blocks; i += 16) {
                size_t n = n_blocks - i < 16 ? n_blocks - i : 16;
                const float *from[16];
                uint32_t amax[16] = {0};
                float d[16], inverse[16];
                __m512 id;

                for (size_t j = 0; j < n; j++, b = repacked_next(b, n_blocks)) {
                        from[j] = x + b * KERN_ACT_BLOCK;
                        amax[j] = block_amax(from[j]);
                }
                _mm512_storeu_ps(d, scales(amax, &id));
                _mm512_storeu_ps(inverse, id);
                for (size_t j = 0; j < n; j++, dst += REPACKED_ACT_SIZE) {
                        __m256i q;
                        int32_t sum = round_block(from[j], inverse[j], &q);

                        _mm256_storeu_si256((__m256i *)(dst + KERN_ACT_BLOCK * t), q);
                        repacked_act_put(dst, t, d[j], sum);
                }
        }
}

void kern_avx512_vnni_act_round_repacked(const struct kern_act *a, size_t unit, uint8_t *dst) {
        repacked_round(a, unit, dst, round_repacked);
}
