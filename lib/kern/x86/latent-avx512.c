/* SPDX-License-Identifier: MIT */
/*
 * Scores of latent rows: a lane is a channel modulo 16. Four queries and four rows make 16 sums, which
 * are added up together.
 */
#include "kern/x86/avx512.h"

#define TILE 4

/* 16 channels of a row, those of @m. */
KERN_INLINE __m512 load(
        enum kern_kv_type type, const struct kern_attn_kv *k, size_t i, __mmask16 m) {
        if (type == KERN_KV_F32)
                return _mm512_maskz_loadu_ps(m, (const float *)k->x + i);
        if (type == KERN_KV_F16)
                return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)k->x + i));
        return _mm512_mul_ps(
                _mm512_cvtph_ps(_mm256_set1_epi16((short)k->scales[i / KERN_KV_GROUP])),
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
                        _mm_loadu_si128((const __m128i *)((const int8_t *)k->x + i)))));
}

KERN_INLINE void add_channels(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, size_t c, __mmask16 m, __m512 (*acc)[TILE]) {
        __m512 kv[TILE];

        KERN_UNROLL for (unsigned l = 0; l < TILE; l++) kv[l] =
                load(type, k, (j + l) * k->stride + c, m);
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                __m512 qv = _mm512_maskz_loadu_ps(m, q[i] + c);

                KERN_UNROLL for (unsigned l = 0; l < TILE; l++) acc[l][i] =
                        _mm512_fmadd_ps(qv, kv[l], acc[l][i]);
        }
}

/* tree16() of 16 registers at once; 128-bit lane i of the result has those of acc[0..3][i]. */
KERN_INLINE __m512 tree16x16(__m512 (*acc)[TILE]) {
        __m512 c[TILE], d[2];

        KERN_UNROLL for (unsigned l = 0; l < TILE; l++) {
                __m512 b0 = _mm512_add_ps(_mm512_shuffle_f32x4(acc[l][0], acc[l][1], 0x44),
                        _mm512_shuffle_f32x4(acc[l][0], acc[l][1], 0xee));
                __m512 b1 = _mm512_add_ps(_mm512_shuffle_f32x4(acc[l][2], acc[l][3], 0x44),
                        _mm512_shuffle_f32x4(acc[l][2], acc[l][3], 0xee));

                c[l] = _mm512_add_ps(
                        _mm512_shuffle_f32x4(b0, b1, 0x88), _mm512_shuffle_f32x4(b0, b1, 0xdd));
        }
        KERN_UNROLL for (unsigned l = 0; l < 2; l++) d[l] =
                _mm512_add_ps(_mm512_shuffle_ps(c[2 * l], c[2 * l + 1], 0x44),
                        _mm512_shuffle_ps(c[2 * l], c[2 * l + 1], 0xee));
        return _mm512_add_ps(
                _mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
}

/* n_q queries, TILE rows from j on. */
KERN_INLINE void scores_tile(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, float scale, float (*s)[KERN_ATTN_GROUP]) {
        size_t n = k->head_dim, c = 0;
        __m512 acc[TILE][TILE], sum;

        KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                KERN_UNROLL for (unsigned i = 0; i < TILE; i++) acc[l][i] = _mm512_setzero_ps();
        for (; c + 16 <= n; c += 16)
                add_channels(type, n_q, k, q, j, c, 0xffff, acc);
        if (c < n)
                add_channels(type, n_q, k, q, j, c, first_lanes(n - c), acc);
        sum = _mm512_mul_ps(tree16x16(acc), _mm512_set1_ps(scale));
        _mm_storeu_ps(s[0] + j, _mm512_castps512_ps128(sum));
        if (n_q > 1)
                _mm_storeu_ps(s[1] + j, _mm512_extractf32x4_ps(sum, 1));
        if (n_q > 2)
                _mm_storeu_ps(s[2] + j, _mm512_extractf32x4_ps(sum, 2));
        if (n_q > 3)
                _mm_storeu_ps(s[3] + j, _mm512_extractf32x4_ps(sum, 3));
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (unsigned j = 0; j < KERN_ATTN_GROUP; j += TILE)
                scores_tile(type, n_q, k, q, j, scale, s);
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (; n_q >= TILE; n_q -= TILE, q += TILE, s += TILE)
                scores_bundle(type, TILE, k, q, scale, s);
        switch (n_q) {
        case 3:
                scores_bundle(type, 3, k, q, scale, s);
                break;
        case 2:
                scores_bundle(type, 2, k, q, scale, s);
                break;
        case 1:
                scores_bundle(type, 1, k, q, scale, s);
                break;
        }
}

static void scores_f32(const struct kern_attn_kv *k, const float *const *q, unsigned n_q,
        float scale, float (*s)[KERN_ATTN_GROUP]) {
        scores(KERN_KV_F32, k, q, n_q, scale, s);
}

static void scores_f16(const struct kern_attn_kv *k, const float *const *q, unsigned n_q,
        float scale, float (*s)[KERN_ATTN_GROUP]) {
        scores(KERN_KV_F16, k, q, n_q, scale, s);
}

static void scores_q8_0(const struct kern_attn_kv *k, const float *const *q, unsigned n_q,
        float scale, float (*s)[KERN_ATTN_GROUP]) {
        scores(KERN_KV_Q8_0, k, q, n_q, scale, s);
}

void kern_avx512_latent(struct kern_ops *ops) {
        ops->latent_scores[KERN_KV_F32] = scores_f32;
        ops->latent_scores[KERN_KV_F16] = scores_f16;
        ops->latent_scores[KERN_KV_Q8_0] = scores_q8_0;
}
