/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. Scores: a lane is a key, two registers
 * hold the group. Values: a lane is a channel. Keys and values are widened once for all queries of
 * the call, which come in bundles of 8, 4, 2 or 1.
 */
#include "kern/x86/avx512.h"

KERN_INLINE __m512 load16(enum kern_kv_type type, const void *p, size_t i) {
        if (type == KERN_KV_F32)
                return _mm512_loadu_ps((const float *)p + i);
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)p + i)));
}

KERN_INLINE __m512 load_first(enum kern_kv_type type, const void *p, size_t i, __mmask16 m) {
        if (type == KERN_KV_F32)
                return _mm512_maskz_loadu_ps(m, (const float *)p + i);
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const void *k, size_t stride,
        size_t head_dim, const float *const *q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        __m512 acc[8][2], sv = _mm512_set1_ps(scale);

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
        for (size_t d = 0; d < head_dim; d++) {
                __m512 k0 = load16(type, k, d * stride), k1 = load16(type, k, d * stride + 16);

                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                        __m512 qv = _mm512_set1_ps(q[i][d]);

                        acc[i][0] = _mm512_fmadd_ps(qv, k0, acc[i][0]);
                        acc[i][1] = _mm512_fmadd_ps(qv, k1, acc[i][1]);
                }
        }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                _mm512_storeu_ps(s[i], _mm512_mul_ps(acc[i][0], sv));
                _mm512_storeu_ps(s[i] + 16, _mm512_mul_ps(acc[i][1], sv));
        }
}

KERN_INLINE void scores(enum kern_kv_type type, const void *k, size_t stride, size_t head_dim,
        const float *const *q, unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (; n_q >= 8; n_q -= 8, q += 8, s += 8)
                scores_bundle(type, 8, k, stride, head_dim, q, scale, s);
        for (; n_q >= 4; n_q -= 4, q += 4, s += 4)
                scores_bundle(type, 4, k, stride, head_dim, q, scale, s);
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

static inline __m512 softcap16(__m512 s, float cap) {
        __m512 e = exp16(_mm512_mul_ps(s, _mm512_set1_ps(2 / cap)));
        __m512 one = _mm512_set1_ps(1);
        __m512 t = _mm512_div_ps(_mm512_set1_ps(2), _mm512_add_ps(e, one));

        return _mm512_mul_ps(_mm512_set1_ps(cap), _mm512_sub_ps(one, t));
}

static float probs(
        float *s, unsigned j0, unsigned j1, float softcap, struct kern_softmax_state *st) {
        uint32_t seen = (uint32_t)((UINT64_C(1) << j1) - (UINT64_C(1) << j0));
        __mmask16 m0 = (__mmask16)seen, m1 = (__mmask16)(seen >> 16);
        __m512 none = _mm512_set1_ps(-INFINITY), mv;
        __m512 s0 = _mm512_loadu_ps(s), s1 = _mm512_loadu_ps(s + 16);
        float mn, c;

        if (softcap != 0) {
                s0 = softcap16(s0, softcap);
                s1 = softcap16(s1, softcap);
        }
        s0 = _mm512_mask_mov_ps(none, m0, s0);
        s1 = _mm512_mask_mov_ps(none, m1, s1);
        mn = kern_max2(st->m, maxtree16(_mm512_max_ps(s0, s1)));
        c = kern_exp(st->m - mn);
        mv = _mm512_set1_ps(mn);
        s0 = _mm512_maskz_mov_ps(m0, exp16(_mm512_sub_ps(s0, mv)));
        s1 = _mm512_maskz_mov_ps(m1, exp16(_mm512_sub_ps(s1, mv)));
        _mm512_storeu_ps(s, s0);
        _mm512_storeu_ps(s + 16, s1);
        st->m = mn;
        st->sum = fmaf(st->sum, c, tree16(_mm512_add_ps(s0, s1)));
        return c;
}

/* n_v registers of channels from d on; the last holds the lanes of @m. */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v, const void *v,
        size_t head_dim, const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o,
        unsigned j0, unsigned j1, size_t d, __mmask16 m) {
        __m512 acc[8][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < n_v;
                                                                        l++) acc[i][l] =
                _mm512_mul_ps(_mm512_maskz_loadu_ps(l + 1 < n_v ? 0xffff : m, o[i] + d + 16 * l),
                        _mm512_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++) {
                __m512 vv[4];

                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) vv[l] =
                        l + 1 < n_v ? load16(type, v, j * head_dim + d + 16 * l)
                                    : load_first(type, v, j * head_dim + d + 16 * l, m);
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                        __m512 pv = _mm512_set1_ps(p[i][j]);

                        KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                                _mm512_fmadd_ps(pv, vv[l], acc[i][l]);
                }
        }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) _mm512_mask_storeu_ps(
                        o[i] + d + 16 * l, l + 1 < n_v ? 0xffff : m, acc[i][l]);
}

/* n_q queries, n_v registers of channels at a time. */
KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, unsigned n_v, const void *v,
        size_t head_dim, const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o,
        unsigned j0, unsigned j1) {
        size_t d = 0;

        for (; d + 16 * n_v <= head_dim; d += 16 * n_v)
                values_bundle(type, n_q, n_v, v, head_dim, p, c, o, j0, j1, d, 0xffff);
        for (; d < head_dim; d += 16)
                values_bundle(type, n_q, 1, v, head_dim, p, c, o, j0, j1, d,
                        head_dim - d < 16 ? first_lanes(head_dim - d) : 0xffff);
}

KERN_INLINE void values(enum kern_kv_type type, const void *v, size_t head_dim,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        for (; n_q >= 8; n_q -= 8, p += 8, c += 8, o += 8)
                values_queries(type, 8, 2, v, head_dim, p, c, o, j0, j1);
        for (; n_q >= 4; n_q -= 4, p += 4, c += 4, o += 4)
                values_queries(type, 4, 4, v, head_dim, p, c, o, j0, j1);
        for (; n_q >= 2; n_q -= 2, p += 2, c += 2, o += 2)
                values_queries(type, 2, 4, v, head_dim, p, c, o, j0, j1);
        if (n_q > 0)
                values_queries(type, 1, 4, v, head_dim, p, c, o, j0, j1);
}

static void values_f32(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F32, v, head_dim, p, c, o, n_q, j0, j1);
}

static void values_f16(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        values(KERN_KV_F16, v, head_dim, p, c, o, n_q, j0, j1);
}

void kern_avx512_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
}
