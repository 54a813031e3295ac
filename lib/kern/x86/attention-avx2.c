/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. For scores a lane is a key, and four
 * registers hold the group. For values a lane is a channel. Keys and values are widened once for
 * each bundle of up to 4 queries.
 */
#include "kern/x86/attention.h"
#include "kern/x86/avx2.h"
#include "kern/x86/quad.h"

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

/* Some channels; with Q8_0 they are one group and share their scales. Keys are n_v registers from
 * key j on. @next as in struct kern_attn_kv; each of the passes over the group, 4 / n_v, prefetches
 * its share. */
KERN_INLINE void scores_channels(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *k, const float *const *q, size_t c0, size_t c1, size_t j,
        const uint8_t *next, __m256 (*acc)[4]) {
        size_t size = kern_attn_size(type);
        __m256 scale[4];

        if (type == KERN_KV_Q8_0)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) scale[l] =
                        load8(KERN_KV_F16, k->scales, c0 / KERN_KV_GROUP * k->stride + j + 8 * l);
        for (size_t c = c0; c < c1; c++) {
                if (next && c % (4 / n_v) == j / 8 / n_v)
                        kern_attn_prefetch(next + c * k->stride * size, KERN_ATTN_GROUP * size);
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) {
                        __m256 kv = load8(type, k->x, c * k->stride + j + 8 * l);

                        if (type == KERN_KV_Q8_0)
                                kv = _mm256_mul_ps(kv, scale[l]);
                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                _mm256_fmadd_ps(_mm256_set1_ps(q[i][c]), kv, acc[i][l]);
                }
        }
}

/* n_q queries, n_v registers of keys at a time. */
KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *k, const float *const *q, const uint8_t *next, float scale,
        float (*s)[KERN_ATTN_GROUP]) {
        size_t step = type == KERN_KV_Q8_0 ? KERN_KV_GROUP : k->head_dim;
        __m256 acc[4][4], sv = _mm256_set1_ps(scale);

        for (size_t j = 0; j < KERN_ATTN_GROUP; j += 8 * n_v) {
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                        KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                                _mm256_setzero_ps();
                for (size_t c = 0; c < k->head_dim; c += step)
                        scores_channels(type, n_q, n_v, k, q, c, c + step, j, next, acc);
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                        KERN_UNROLL for (unsigned l = 0; l < n_v; l++)
                                _mm256_storeu_ps(s[i] + j + 8 * l, _mm256_mul_ps(acc[i][l], sv));
        }
}

/* Eight chains of additions or more keep two multipliers busy. */
KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        const uint8_t *next = k->next;

        for (; n_q >= 4; n_q -= 4, q += 4, s += 4, next = NULL)
                scores_bundle(type, 4, 2, k, q, next, scale, s);
        switch (n_q) {
        case 3:
                scores_bundle(type, 3, 4, k, q, next, scale, s);
                break;
        case 2:
                scores_bundle(type, 2, 4, k, q, next, scale, s);
                break;
        case 1:
                scores_bundle(type, 1, 4, k, q, next, scale, s);
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

/* The lanes [8l, 8l+8) that are seen. */
KERN_INLINE __m256 seen_lanes(struct kern_attn_range seen, unsigned l) {
        __m256i j = _mm256_add_epi32(
                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)(8 * l)));

        return _mm256_castsi256_ps(
                _mm256_and_si256(_mm256_cmpgt_epi32(j, _mm256_set1_epi32((int)seen.from - 1)),
                        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)seen.to), j)));
}

/* The scores of a query, capped, -inf where it sees nothing. */
KERN_INLINE void finish_scores(float *s, struct kern_attn_range seen, float softcap) {
        for (unsigned l = 0; l < 4; l++) {
                __m256 v = _mm256_loadu_ps(s + 8 * l);

                if (softcap != 0)
                        v = softcap8(v, softcap);
                v = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, seen_lanes(seen, l));
                _mm256_storeu_ps(s + 8 * l, v);
        }
}

/* Up to four queries. */
KERN_INLINE void probs_quad(bool masked, unsigned n_q, float (*s)[KERN_ATTN_GROUP],
        const struct kern_attn_range *seen, struct kern_softmax_state *state, float *c) {
        __m256 b[4], quad = quad_load(state, n_q), m, cv;

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) {
                const float *v = s[i < n_q ? i : 0];

                b[i] = _mm256_max_ps(_mm256_max_ps(_mm256_loadu_ps(v), _mm256_loadu_ps(v + 16)),
                        _mm256_max_ps(_mm256_loadu_ps(v + 8), _mm256_loadu_ps(v + 24)));
        }
        m = _mm256_max_ps(quad, quad_tree8(false, b));
        cv = exp8(_mm256_sub_ps(quad, m));
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) {
                __m256 p[4], mv = quad_spread(m, i);

                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        p[l] = exp8(_mm256_sub_ps(_mm256_loadu_ps(s[i] + 8 * l), mv));
                        if (masked)
                                p[l] = _mm256_and_ps(p[l], seen_lanes(seen[i], l));
                        _mm256_storeu_ps(s[i] + 8 * l, p[l]);
                }
                b[i] = _mm256_add_ps(_mm256_add_ps(p[0], p[2]), _mm256_add_ps(p[1], p[3]));
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

/* n_v registers of channels from d on; with Q8_0 they are of one group. @next as in struct
 * kern_attn_kv. */
KERN_INLINE void values_bundle(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, size_t d, const uint8_t *next) {
        size_t size = kern_attn_size(type), step = 8 * n_v * size;
        __m256 acc[4][4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                        _mm256_mul_ps(_mm256_loadu_ps(o[i] + d + 8 * l), _mm256_set1_ps(c[i]));
        for (unsigned j = j0; j < j1; j++) {
                size_t at = j * v->stride + d;
                __m256 scale = _mm256_setzero_ps();

                /* In the order of memory, whatever the channels here. */
                if (next && j * step % 64 == 0)
                        kern_attn_prefetch(next + d * KERN_ATTN_GROUP * size + j * step, step);
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

/* n_q queries, n_v registers of channels at a time. */
KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, const uint8_t *next) {
        size_t d = 0, n = v->head_dim;

        for (; d + 8 * n_v <= n; d += 8 * n_v)
                values_bundle(type, n_q, n_v, v, p, c, o, j0, j1, d, next);
        if (type == KERN_KV_Q8_0) /* whole groups only */
                return;
        for (; d + 8 <= n; d += 8)
                values_bundle(type, n_q, 1, v, p, c, o, j0, j1, d, next);
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
        const uint8_t *next = v->next;

        for (; n_q >= 4; n_q -= 4, p += 4, c += 4, o += 4, next = NULL)
                values_queries(type, 4, 2, v, p, c, o, j0, j1, next);
        switch (n_q) {
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
