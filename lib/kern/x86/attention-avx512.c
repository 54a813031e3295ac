/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. For scores a lane is a key, and two
 * registers hold the group. For values a lane is a channel. Keys and values are widened once for
 * all queries of the call, which are processed up to 8 at a time (in most models 3 to 8 heads share
 * keys).
 */
#include "kern/x86/attention.h"
#include "kern/x86/avx512.h"
#include "kern/x86/quad.h"

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

/* Some channels; with Q8_0 they are one group and share their scales. @next as in struct
 * kern_attn_kv. */
KERN_INLINE void scores_channels(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, size_t c0, size_t c1, const uint8_t *next, __m512 (*acc)[2]) {
        size_t at = c0 / KERN_KV_GROUP * k->stride, size = kern_attn_size(type);
        __m512 s0 = _mm512_setzero_ps(), s1 = s0;

        if (type == KERN_KV_Q8_0) {
                s0 = load16(KERN_KV_F16, k->scales, at);
                s1 = load16(KERN_KV_F16, k->scales, at + 16);
        }
        for (size_t c = c0; c < c1; c++) {
                __m512 k0 = load16(type, k->x, c * k->stride);
                __m512 k1 = load16(type, k->x, c * k->stride + 16);

                if (next)
                        kern_attn_prefetch(next + c * k->stride * size, KERN_ATTN_GROUP * size);
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
        const float *const *q, const uint8_t *next, float scale, float (*s)[KERN_ATTN_GROUP]) {
        __m512 acc[8][2], sv = _mm512_set1_ps(scale);

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
        if (type == KERN_KV_Q8_0)
                for (size_t c = 0; c < k->head_dim; c += KERN_KV_GROUP)
                        scores_channels(type, n_q, k, q, c, c + KERN_KV_GROUP, next, acc);
        else
                scores_channels(type, n_q, k, q, 0, k->head_dim, next, acc);
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                _mm512_storeu_ps(s[i], _mm512_mul_ps(acc[i][0], sv));
                _mm512_storeu_ps(s[i] + 16, _mm512_mul_ps(acc[i][1], sv));
        }
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        const uint8_t *next = k->next;

        for (; n_q >= 8; n_q -= 8, q += 8, s += 8, next = NULL)
                scores_bundle(type, 8, k, q, next, scale, s);
        switch (n_q) {
        case 7:
                scores_bundle(type, 7, k, q, next, scale, s);
                break;
        case 6:
                scores_bundle(type, 6, k, q, next, scale, s);
                break;
        case 5:
                scores_bundle(type, 5, k, q, next, scale, s);
                break;
        case 4:
                scores_bundle(type, 4, k, q, next, scale, s);
                break;
        case 3:
                scores_bundle(type, 3, k, q, next, scale, s);
                break;
        case 2:
                scores_bundle(type, 2, k, q, next, scale, s);
                break;
        case 1:
                scores_bundle(type, 1, k, q, next, scale, s);
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

KERN_INLINE __mmask16 seen_lanes(struct kern_attn_range seen, unsigned l) {
        uint32_t lanes = (uint32_t)((UINT64_C(1) << seen.to) - (UINT64_C(1) << seen.from));

        return (__mmask16)(lanes >> 16 * l);
}

/* The scores of a query, capped, -inf where it sees nothing. */
KERN_INLINE void finish_scores(float *s, struct kern_attn_range seen, float softcap) {
        for (unsigned l = 0; l < 2; l++) {
                __m512 v = _mm512_loadu_ps(s + 16 * l);

                if (softcap != 0)
                        v = softcap16(v, softcap);
                v = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), seen_lanes(seen, l), v);
                _mm512_storeu_ps(s + 16 * l, v);
        }
}

/* Up to four queries. */
KERN_INLINE void probs_quad(bool masked, unsigned n_q, float (*s)[KERN_ATTN_GROUP],
        const struct kern_attn_range *seen, struct kern_softmax_state *state, float *c) {
        __m256 b[4], quad = quad_load(state, n_q), m, cv;

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) {
                const float *v = s[i < n_q ? i : 0];
                __m512 a = _mm512_max_ps(_mm512_loadu_ps(v), _mm512_loadu_ps(v + 16));

                b[i] = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
        }
        m = _mm256_max_ps(quad, quad_tree8(false, b));
        cv = _mm512_castps512_ps256(exp16(_mm512_castps256_ps512(_mm256_sub_ps(quad, m))));
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                __m512 p[2], a,
                        mv = _mm512_broadcastss_ps(_mm256_castps256_ps128(quad_spread(m, i)));

                KERN_UNROLL for (unsigned l = 0; l < 2; l++) {
                        p[l] = exp16(_mm512_sub_ps(_mm512_loadu_ps(s[i] + 16 * l), mv));
                        if (masked)
                                p[l] = _mm512_maskz_mov_ps(seen_lanes(seen[i], l), p[l]);
                        _mm512_storeu_ps(s[i] + 16 * l, p[l]);
                }
                a = _mm512_add_ps(p[0], p[1]);
                b[i] = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
        }
        KERN_UNROLL for (unsigned i = n_q; i < 4; i++) b[i] = b[0];
        quad_store(state, n_q, quad_next(quad, m, cv, quad_tree8(true, b)));
        quad_store_c(c, n_q, cv);
}

KERN_INLINE void probs_all(bool masked, unsigned n_q, float (*s)[KERN_ATTN_GROUP],
        const struct kern_attn_range *seen, struct kern_softmax_state *state, float *c) {
        for (; n_q >= 4; n_q -= 4, s += 4, seen += 4, state += 4, c += 4)
                probs_quad(masked, 4, s, seen, state, c);
        switch (n_q) {
        case 3:
                probs_quad(masked, 3, s, seen, state, c);
                break;
        case 2:
                probs_quad(masked, 2, s, seen, state, c);
                break;
        case 1:
                probs_quad(masked, 1, s, seen, state, c);
                break;
        }
}

static void probs(float (*s)[KERN_ATTN_GROUP], const struct kern_attn_range *seen, unsigned n_q,
        float softcap, struct kern_softmax_state *state, float *c) {
        bool masked = false;

        for (unsigned i = 0; i < n_q; i++) {
                bool all = seen[i].from == 0 && seen[i].to == KERN_ATTN_GROUP;

                if (!all || softcap != 0)
                        finish_scores(s[i], seen[i], softcap);
                masked |= !all;
        }
        if (masked)
                probs_all(true, n_q, s, seen, state, c);
        else
                probs_all(false, n_q, s, seen, state, c);
}

/* n_v registers of channels from d on; the last holds the lanes of @m. With Q8_0 two registers
 * are a group (n_v is even, d the start of a group, @m all). @next as in struct kern_attn_kv. */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, size_t d, __mmask16 m, const uint8_t *next) {
        size_t size = kern_attn_size(type);
        __m512 acc[8][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < n_v;
                                                                        l++) acc[i][l] =
                _mm512_mul_ps(_mm512_maskz_loadu_ps(l + 1 < n_v ? 0xffff : m, o[i] + d + 16 * l),
                        _mm512_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++) {
                size_t at = j * v->stride + d;
                __m512 vv[4];

                if (next)
                        kern_attn_prefetch(next + at * size, 16 * n_v * size);
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
        float *const *o, unsigned j0, unsigned j1, const uint8_t *next) {
        size_t d = 0, n = v->head_dim;

        for (; d + 16 * n_v <= n; d += 16 * n_v)
                values_bundle(type, n_q, n_v, v, p, c, o, j0, j1, d, 0xffff, next);
        if (type == KERN_KV_Q8_0) {
                for (; d < n; d += KERN_KV_GROUP)
                        values_bundle(type, n_q, 2, v, p, c, o, j0, j1, d, 0xffff, next);
                return;
        }
        for (; d < n; d += 16)
                values_bundle(type, n_q, 1, v, p, c, o, j0, j1, d,
                        n - d < 16 ? first_lanes(n - d) : 0xffff, next);
}

KERN_INLINE void values(enum kern_kv_type type, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        const uint8_t *next = v->next;

        for (; n_q >= 8; n_q -= 8, p += 8, c += 8, o += 8, next = NULL)
                values_queries(type, 8, 2, v, p, c, o, j0, j1, next);
        switch (n_q) {
        case 7:
                values_queries(type, 7, 2, v, p, c, o, j0, j1, next);
                break;
        case 6:
                values_queries(type, 6, 4, v, p, c, o, j0, j1, next);
                break;
        case 5:
                values_queries(type, 5, 4, v, p, c, o, j0, j1, next);
                break;
        case 4:
                values_queries(type, 4, 4, v, p, c, o, j0, j1, next);
                break;
        case 3:
                values_queries(type, 3, 4, v, p, c, o, j0, j1, next);
                break;
        case 2:
                values_queries(type, 2, 4, v, p, c, o, j0, j1, next);
                break;
        case 1:
                values_queries(type, 1, 4, v, p, c, o, j0, j1, next);
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
