/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. For scores a lane is a key, and two
 * registers hold the group. For values a lane is a channel. Keys and values are widened once for
 * all queries of the call, which are processed up to 8 at a time (in most models 3 to 8 heads share
 * keys).
 */
#include "kern/x86/avx512.h"

/* 16 elements; those of Q8_0 without their scales. */
KERN_INLINE __m512 load16(enum kern_kv_type type, const void *p, size_t i) {
        if (type == KERN_KV_F32)
                return _mm512_loadu_ps((const float *)p + i);
        if (type == KERN_KV_F16)
                return _mm512_cvtph_ps(
                        _mm256_loadu_si256((const __m256i *)((const uint16_t *)p + i)));
        return _mm512_cvtepi32_ps(
                _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)((const int8_t *)p + i))));
}

KERN_INLINE __m512 load_first(enum kern_kv_type type, const void *p, size_t i, __mmask16 m) {
        if (type == KERN_KV_F32)
                return _mm512_maskz_loadu_ps(m, (const float *)p + i);
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i));
}

/* Some channels; with Q8_0 they are one group and share their scales. */
KERN_INLINE void scores_channels(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, size_t c0, size_t c1, __m512 (*acc)[2]) {
        size_t at = c0 / KERN_KV_GROUP * k->stride;
        __m512 s0 = _mm512_setzero_ps(), s1 = s0;

        if (type == KERN_KV_Q8_0) {
                s0 = load16(KERN_KV_F16, k->scales, at);
                s1 = load16(KERN_KV_F16, k->scales, at + 16);
        }
        for (size_t c = c0; c < c1; c++) {
                __m512 k0 = load16(type, k->x, c * k->stride);
                __m512 k1 = load16(type, k->x, c * k->stride + 16);

                if (type == KERN_KV_Q8_0) {
                        k0 = _mm512_mul_ps(k0, s0);
                        k1 = _mm512_mul_ps(k1, s1);
                }
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                        __m512 qv = _mm512_set1_ps(q[i][c]);

                        acc[i][0] = _mm512_fmadd_ps(qv, k0, acc[i][0]);
                        acc[i][1] = _mm512_fmadd_ps(qv, k1, acc[i][1]);
                }
        }
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        __m512 acc[8][2], sv = _mm512_set1_ps(scale);

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
        if (type == KERN_KV_Q8_0)
                for (size_t c = 0; c < k->head_dim; c += KERN_KV_GROUP)
                        scores_channels(type, n_q, k, q, c, c + KERN_KV_GROUP, acc);
        else
                scores_channels(type, n_q, k, q, 0, k->head_dim, acc);
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                _mm512_storeu_ps(s[i], _mm512_mul_ps(acc[i][0], sv));
                _mm512_storeu_ps(s[i] + 16, _mm512_mul_ps(acc[i][1], sv));
        }
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (; n_q >= 8; n_q -= 8, q += 8, s += 8)
                scores_bundle(type, 8, k, q, scale, s);
        switch (n_q) {
        case 7:
                scores_bundle(type, 7, k, q, scale, s);
                break;
        case 6:
                scores_bundle(type, 6, k, q, scale, s);
                break;
        case 5:
                scores_bundle(type, 5, k, q, scale, s);
                break;
        case 4:
                scores_bundle(type, 4, k, q, scale, s);
                break;
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

/* n_v registers of channels from d on; the last holds the lanes of @m. With Q8_0 two registers
 * are a group (n_v is even, d the start of a group, @m all). */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, size_t d, __mmask16 m) {
        __m512 acc[8][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < n_v;
                                                                        l++) acc[i][l] =
                _mm512_mul_ps(_mm512_maskz_loadu_ps(l + 1 < n_v ? 0xffff : m, o[i] + d + 16 * l),
                        _mm512_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++) {
                size_t at = j * v->stride + d;
                __m512 vv[4];

                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) {
                        vv[l] = l + 1 < n_v || type == KERN_KV_Q8_0
                                        ? load16(type, v->x, at + 16 * l)
                                        : load_first(type, v->x, at + 16 * l, m);
                        if (type == KERN_KV_Q8_0)
                                vv[l] = _mm512_mul_ps(vv[l],
                                        _mm512_cvtph_ps(_mm256_set1_epi16(
                                                (short)v->scales[at / KERN_KV_GROUP + l / 2])));
                }
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
KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1) {
        size_t d = 0, n = v->head_dim;

        for (; d + 16 * n_v <= n; d += 16 * n_v)
                values_bundle(type, n_q, n_v, v, p, c, o, j0, j1, d, 0xffff);
        if (type == KERN_KV_Q8_0) {
                for (; d < n; d += KERN_KV_GROUP)
                        values_bundle(type, n_q, 2, v, p, c, o, j0, j1, d, 0xffff);
                return;
        }
        for (; d < n; d += 16)
                values_bundle(type, n_q, 1, v, p, c, o, j0, j1, d,
                        n - d < 16 ? first_lanes(n - d) : 0xffff);
}

KERN_INLINE void values(enum kern_kv_type type, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        for (; n_q >= 8; n_q -= 8, p += 8, c += 8, o += 8)
                values_queries(type, 8, 2, v, p, c, o, j0, j1);
        switch (n_q) {
        case 7:
                values_queries(type, 7, 2, v, p, c, o, j0, j1);
                break;
        case 6:
                values_queries(type, 6, 4, v, p, c, o, j0, j1);
                break;
        case 5:
                values_queries(type, 5, 4, v, p, c, o, j0, j1);
                break;
        case 4:
                values_queries(type, 4, 4, v, p, c, o, j0, j1);
                break;
        case 3:
                values_queries(type, 3, 4, v, p, c, o, j0, j1);
                break;
        case 2:
                values_queries(type, 2, 4, v, p, c, o, j0, j1);
                break;
        case 1:
                values_queries(type, 1, 4, v, p, c, o, j0, j1);
                break;
        }
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
        __m512 v0 = _mm512_loadu_ps(x), v1 = _mm512_loadu_ps(x + 16), id;
        __m512i abs = _mm512_set1_epi32(0x7fffffff), low = _mm512_set1_epi32(-127);
        __m512i a0 = _mm512_and_si512(_mm512_castps_si512(v0), abs);
        __m512i a1 = _mm512_and_si512(_mm512_castps_si512(v1), abs), y0, y1;
        float amax = kern_from_bits((uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(a0, a1)));

        if (!kern_kv_scale((uint16_t)_cvtss_sh(amax / 127, _MM_FROUND_TO_NEAREST_INT), scale)) {
                _mm256_storeu_si256((__m256i *)q, _mm256_setzero_si256());
                return;
        }
        id = _mm512_set1_ps(1 / _cvtsh_ss(*scale));
        y0 = _mm512_max_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v0, id)), low);
        y1 = _mm512_max_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v1, id)), low);
        _mm_storeu_si128((__m128i *)q, _mm512_cvtsepi32_epi8(y0));
        _mm_storeu_si128((__m128i *)(q + 16), _mm512_cvtsepi32_epi8(y1));
}

static void kv_round(const float *x, int8_t *q, uint16_t *scales, size_t n) {
        for (size_t i = 0; i < n; i += KERN_KV_GROUP)
                round_group(x + i, q + i, scales + i / KERN_KV_GROUP);
}

void kern_avx512_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_scores[KERN_KV_Q8_0] = scores_q8_0;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
        ops->attn_values[KERN_KV_Q8_0] = values_q8_0;
        ops->kv_round = kv_round;
}
