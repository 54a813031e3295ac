/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. For scores a lane is a key, and four
 * registers hold the group. For values a lane is a channel. Queries are processed up to 3 at a
 * time.
 */
#include "kern/x86/avx2.h"

/* 8 elements; those of Q8_0 without their scales. */
KERN_INLINE __m256 load8(enum kern_kv_type type, const void *p, size_t i) {
        if (type == KERN_KV_F32)
                return _mm256_loadu_ps((const float *)p + i);
        if (type == KERN_KV_F16)
                return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)p + i)));
        return _mm256_cvtepi32_ps(
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)((const int8_t *)p + i))));
}

KERN_INLINE float load1(enum kern_kv_type type, const void *p, size_t i) {
        return type == KERN_KV_F32 ? ((const float *)p)[i] : _cvtsh_ss(((const uint16_t *)p)[i]);
}

/* The channels of one group: with Q8_0 they share their scales. */
KERN_INLINE void scores_channels(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, size_t c0, size_t c1, __m256 (*acc)[4]) {
        __m256 scale[4];

        if (type == KERN_KV_Q8_0)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) scale[l] =
                        load8(KERN_KV_F16, k->scales, c0 / KERN_KV_GROUP * k->stride + 8 * l);
        for (size_t c = c0; c < c1; c++)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        __m256 kv = load8(type, k->x, c * k->stride + 8 * l);

                        if (type == KERN_KV_Q8_0)
                                kv = _mm256_mul_ps(kv, scale[l]);
                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                _mm256_fmadd_ps(_mm256_set1_ps(q[i][c]), kv, acc[i][l]);
                }
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        __m256 acc[3][4], sv = _mm256_set1_ps(scale);

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < 4; l++)
                acc[i][l] = _mm256_setzero_ps();
        if (type == KERN_KV_Q8_0)
                for (size_t c = 0; c < k->head_dim; c += KERN_KV_GROUP)
                        scores_channels(type, n_q, k, q, c, c + KERN_KV_GROUP, acc);
        else
                scores_channels(type, n_q, k, q, 0, k->head_dim, acc);
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < 4; l++)
                _mm256_storeu_ps(s[i] + 8 * l, _mm256_mul_ps(acc[i][l], sv));
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (; n_q == 3 || n_q > 4; n_q -= 3, q += 3, s += 3)
                scores_bundle(type, 3, k, q, scale, s);
        for (; n_q >= 2; n_q -= 2, q += 2, s += 2)
                scores_bundle(type, 2, k, q, scale, s);
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

static float probs(
        float *s, unsigned j0, unsigned j1, float softcap, struct kern_softmax_state *st) {
        __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        __m256 v[4], seen[4], mv;
        float mn, c;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                __m256i j = _mm256_add_epi32(at, _mm256_set1_epi32((int)(8 * l)));

                seen[l] = _mm256_castsi256_ps(
                        _mm256_and_si256(_mm256_cmpgt_epi32(j, _mm256_set1_epi32((int)j0 - 1)),
                                _mm256_cmpgt_epi32(_mm256_set1_epi32((int)j1), j)));
                v[l] = _mm256_loadu_ps(s + 8 * l);
                if (softcap != 0)
                        v[l] = softcap8(v[l], softcap);
                v[l] = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v[l], seen[l]);
        }
        mn = maxtree8(_mm256_max_ps(_mm256_max_ps(v[0], v[2]), _mm256_max_ps(v[1], v[3])));
        mn = kern_max2(st->m, mn);
        c = kern_exp(st->m - mn);
        mv = _mm256_set1_ps(mn);
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                v[l] = _mm256_and_ps(seen[l], exp8(_mm256_sub_ps(v[l], mv)));
                _mm256_storeu_ps(s + 8 * l, v[l]);
        }
        st->m = mn;
        st->sum = fmaf(st->sum, c, tree16(_mm256_add_ps(v[0], v[2]), _mm256_add_ps(v[1], v[3])));
        return c;
}

/* n_v registers of channels from d on; with Q8_0 they are one group. */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, size_t d) {
        __m256 acc[3][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                        _mm256_mul_ps(_mm256_loadu_ps(o[i] + d + 8 * l), _mm256_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++) {
                size_t at = j * v->stride + d;
                __m256 scale = _mm256_setzero_ps();

                if (type == KERN_KV_Q8_0)
                        scale = _mm256_cvtph_ps(
                                _mm_set1_epi16((short)v->scales[at / KERN_KV_GROUP]));
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) {
                        __m256 vv = load8(type, v->x, at + 8 * l);

                        if (type == KERN_KV_Q8_0)
                                vv = _mm256_mul_ps(vv, scale);
                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                _mm256_fmadd_ps(_mm256_set1_ps(p[i][j]), vv, acc[i][l]);
                }
        }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++)
                        _mm256_storeu_ps(o[i] + d + 8 * l, acc[i][l]);
}

KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned j0,
        unsigned j1) {
        size_t d = 0, n = v->head_dim;

        for (; d + 32 <= n; d += 32)
                values_bundle(type, n_q, 4, v, p, c, o, j0, j1, d);
        if (type == KERN_KV_Q8_0) /* whole groups only */
                return;
        for (; d + 8 <= n; d += 8)
                values_bundle(type, n_q, 1, v, p, c, o, j0, j1, d);
        for (; d < n; d++)
                for (unsigned i = 0; i < n_q; i++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], load1(type, v->x, j * v->stride + d), sum);
                        o[i][d] = sum;
                }
}

KERN_INLINE void values(enum kern_kv_type type, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        for (; n_q == 3 || n_q > 4; n_q -= 3, p += 3, c += 3, o += 3)
                values_queries(type, 3, v, p, c, o, j0, j1);
        for (; n_q >= 2; n_q -= 2, p += 2, c += 2, o += 2)
                values_queries(type, 2, v, p, c, o, j0, j1);
        if (n_q > 0)
                values_queries(type, 1, v, p, c, o, j0, j1);
}

static void values_f32(const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F32, v, p, c, o, n_q, j0, j1);
}

static void values_f16(const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F16, v, p, c, o, n_q, j0, j1);
}

static void values_q8_0(const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_Q8_0, v, p, c, o, n_q, j0, j1);
}

static void round_group(const float *x, int8_t *q, uint16_t *scale) {
        __m256i abs = _mm256_set1_epi32(0x7fffffff), amax = _mm256_setzero_si256(), y[4], p01, p23;
        __m128i m;
        __m256 v[4], id;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                v[l] = _mm256_loadu_ps(x + 8 * l);
                amax = _mm256_max_epi32(amax, _mm256_and_si256(_mm256_castps_si256(v[l]), abs));
        }
        m = _mm_max_epi32(_mm256_castsi256_si128(amax), _mm256_extracti128_si256(amax, 1));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
        if (!kern_kv_scale((uint16_t)_cvtss_sh(_mm_cvtss_f32(_mm_castsi128_ps(m)) / 127,
                                   _MM_FROUND_TO_NEAREST_INT),
                    scale)) {
                _mm256_storeu_si256((__m256i *)q, _mm256_setzero_si256());
                return;
        }
        id = _mm256_set1_ps(1 / _cvtsh_ss(*scale));
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) y[l] =
                _mm256_cvtps_epi32(_mm256_mul_ps(v[l], id));
        p01 = _mm256_packs_epi32(y[0], y[1]);
        p23 = _mm256_packs_epi32(y[2], y[3]);
        p01 = _mm256_max_epi8(_mm256_packs_epi16(p01, p23), _mm256_set1_epi8(-127));
        /* Packing works within halves: undo that. */
        p01 = _mm256_permutevar8x32_epi32(p01, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)q, p01);
}

static void kv_round(const float *x, int8_t *q, uint16_t *scales, size_t n) {
        for (size_t i = 0; i < n; i += KERN_KV_GROUP)
                round_group(x + i, q + i, scales + i / KERN_KV_GROUP);
}

void kern_avx2_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_scores[KERN_KV_Q8_0] = scores_q8_0;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
        ops->attn_values[KERN_KV_Q8_0] = values_q8_0;
        ops->kv_round = kv_round;
}
