/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. Scores: a lane is a key, four registers
 * hold the group. Values: a lane is a channel. Queries come in bundles of 2 or 1.
 */
#include "kern/x86/avx2.h"

KERN_INLINE __m256 load8(enum kern_kv_type type, const void *p, size_t i) {
        if (type == KERN_KV_F32)
                return _mm256_loadu_ps((const float *)p + i);
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)p + i)));
}

KERN_INLINE float load1(enum kern_kv_type type, const void *p, size_t i) {
        return type == KERN_KV_F32 ? ((const float *)p)[i] : _cvtsh_ss(((const uint16_t *)p)[i]);
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const void *k, size_t stride,
        size_t head_dim, const float *const *q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        __m256 acc[2][4], sv = _mm256_set1_ps(scale);

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < 4; l++)
                acc[i][l] = _mm256_setzero_ps();
        for (size_t d = 0; d < head_dim; d++)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        __m256 kv = load8(type, k, d * stride + 8 * l);

                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                _mm256_fmadd_ps(_mm256_set1_ps(q[i][d]), kv, acc[i][l]);
                }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < 4; l++)
                _mm256_storeu_ps(s[i] + 8 * l, _mm256_mul_ps(acc[i][l], sv));
}

KERN_INLINE void scores(enum kern_kv_type type, const void *k, size_t stride, size_t head_dim,
        const float *const *q, unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (; n_q >= 2; n_q -= 2, q += 2, s += 2)
                scores_bundle(type, 2, k, stride, head_dim, q, scale, s);
        if (n_q > 0)
                scores_bundle(type, 1, k, stride, head_dim, q, scale, s);
}

static void scores_f32(const void *k, size_t stride, size_t head_dim, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        scores(KERN_KV_F32, k, stride, head_dim, q, n_q, scale, s);
}

static void scores_f16(const void *k, size_t stride, size_t head_dim, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        scores(KERN_KV_F16, k, stride, head_dim, q, n_q, scale, s);
}

static inline __m256 softcap8(__m256 s, float cap) {
        __m256 e = exp8(_mm256_mul_ps(s, _mm256_set1_ps(2 / cap)));
        __m256 one = _mm256_set1_ps(1);
        __m256 t = _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(e, one));

        return _mm256_mul_ps(_mm256_set1_ps(cap), _mm256_sub_ps(one, t));
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

/* n_v registers of channels from d on. */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v, const void *v,
        size_t head_dim, const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o,
        unsigned j0, unsigned j1, size_t d) {
        __m256 acc[2][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                        _mm256_mul_ps(_mm256_loadu_ps(o[i] + d + 8 * l), _mm256_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) {
                        __m256 vv = load8(type, v, j * head_dim + d + 8 * l);

                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                _mm256_fmadd_ps(_mm256_set1_ps(p[i][j]), vv, acc[i][l]);
                }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++)
                        _mm256_storeu_ps(o[i] + d + 8 * l, acc[i][l]);
}

KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, const void *v,
        size_t head_dim, const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o,
        unsigned j0, unsigned j1) {
        size_t d = 0;

        for (; d + 32 <= head_dim; d += 32)
                values_bundle(type, n_q, 4, v, head_dim, p, c, o, j0, j1, d);
        for (; d + 8 <= head_dim; d += 8)
                values_bundle(type, n_q, 1, v, head_dim, p, c, o, j0, j1, d);
        for (; d < head_dim; d++)
                for (unsigned i = 0; i < n_q; i++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], load1(type, v, j * head_dim + d), sum);
                        o[i][d] = sum;
                }
}

KERN_INLINE void values(enum kern_kv_type type, const void *v, size_t head_dim,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        for (; n_q >= 2; n_q -= 2, p += 2, c += 2, o += 2)
                values_queries(type, 2, v, head_dim, p, c, o, j0, j1);
        if (n_q > 0)
                values_queries(type, 1, v, head_dim, p, c, o, j0, j1);
}

static void values_f32(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F32, v, head_dim, p, c, o, n_q, j0, j1);
}

static void values_f16(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F16, v, head_dim, p, c, o, n_q, j0, j1);
}

void kern_avx2_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
}
