/* SPDX-License-Identifier: MIT */
/* Scores of latent rows: a lane is a channel modulo 16, in two registers. Two queries and two rows at a
 * time. */
#include "kern/x86/avx2.h"

#define TILE 2

/* 8 channels of a row. */
KERN_INLINE __m256 load8(enum kern_kv_type type, const struct kern_attn_kv *k, size_t i) {
        if (type == KERN_KV_F32)
                return _mm256_loadu_ps((const float *)k->x + i);
        if (type == KERN_KV_F16)
                return _mm256_cvtph_ps(
                        _mm_loadu_si128((const __m128i *)((const uint16_t *)k->x + i)));
        return _mm256_mul_ps(_mm256_cvtph_ps(_mm_set1_epi16((short)k->scales[i / KERN_KV_GROUP])),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
                        _mm_loadl_epi64((const __m128i *)((const int8_t *)k->x + i)))));
}

/* The last channels, fewer than 16: with zeros behind them. Q8_0 has none. */
KERN_INLINE void load_last(
        enum kern_kv_type type, const struct kern_attn_kv *k, size_t i, size_t n, float *to) {
        memset(to, 0, 16 * sizeof(*to));
        for (size_t c = 0; c < n; c++)
                to[c] = type == KERN_KV_F32 ? ((const float *)k->x)[i + c]
                                            : _cvtsh_ss(((const uint16_t *)k->x)[i + c]);
}

KERN_INLINE void add_last(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, size_t c, __m256 (*acc)[TILE][2]) {
        size_t n = k->head_dim - c;
        float kv[16], qv[16] = {0};

        for (unsigned i = 0; i < n_q; i++) {
                memcpy(qv, q[i] + c, n * sizeof(*qv));
                for (unsigned l = 0; l < TILE; l++) {
                        load_last(type, k, (j + l) * k->stride + c, n, kv);
                        for (unsigned h = 0; h < 2; h++)
                                acc[l][i][h] = _mm256_fmadd_ps(_mm256_loadu_ps(qv + 8 * h),
                                        _mm256_loadu_ps(kv + 8 * h), acc[l][i][h]);
                }
        }
}

/* n_q queries, TILE rows from j on. */
KERN_INLINE void scores_tile(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, float scale, float (*s)[KERN_ATTN_GROUP]) {
        size_t n = k->head_dim, c = 0;
        __m256 acc[TILE][TILE][2];

        KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[l][i][0] = acc[l][i][1] =
                        _mm256_setzero_ps();
        for (; c + 16 <= n; c += 16)
                KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                        __m256 kv[TILE];

                        KERN_UNROLL for (unsigned l = 0; l < TILE; l++) kv[l] =
                                load8(type, k, (j + l) * k->stride + c + 8 * h);
                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                                __m256 qv = _mm256_loadu_ps(q[i] + c + 8 * h);

                                KERN_UNROLL for (unsigned l = 0; l < TILE; l++) acc[l][i][h] =
                                        _mm256_fmadd_ps(qv, kv[l], acc[l][i][h]);
                        }
                }
        if (c < n)
                add_last(type, n_q, k, q, j, c, acc);
        KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) s[i][j + l] =
                        tree16(acc[l][i][0], acc[l][i][1]) * scale;
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
        if (n_q > 0)
                scores_bundle(type, 1, k, q, scale, s);
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

void kern_avx2_latent(struct kern_ops *ops) {
        ops->latent_scores[KERN_KV_F32] = scores_f32;
        ops->latent_scores[KERN_KV_F16] = scores_f16;
        ops->latent_scores[KERN_KV_Q8_0] = scores_q8_0;
}
