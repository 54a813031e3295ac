/* SPDX-License-Identifier: MIT */
/*
 * The three steps of attention over one group of 32 keys. For scores a lane is a key, for values a channel.
 * A tile is up to 4 queries by 4 registers, half of the group or 16 channels; its 16 sums stay in registers.
 * Factors that belong to a query need no broadcast: a product takes them from a lane.
 */
#include "kern/arm/kv.h"

#define N_QUERIES 4

/* Channels [c, c + n) of 16 keys, n up to 4; with Q8_0 they share their scales. */
KERN_INLINE void scores_channels(enum kern_kv_type type, unsigned n_q, unsigned n,
        const struct kern_attn_kv *k, const float *const *q, size_t c, size_t j,
        const float32x4_t *scale, float32x4_t (*acc)[4]) {
        float32x4_t qv[N_QUERIES], kv[4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) qv[i] =
                n == 4 ? vld1q_f32(q[i] + c) : vdupq_n_f32(q[i][c]);
        KERN_UNROLL for (unsigned e = 0; e < n; e++) {
                kv_load(type, k->x, (c + e) * k->stride + j, 4, kv);
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        if (type == KERN_KV_Q8_0)
                                kv[l] = vmulq_f32(kv[l], scale[l]);
                        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] =
                                e == 0   ? vfmaq_laneq_f32(acc[i][l], kv[l], qv[i], 0)
                                : e == 1 ? vfmaq_laneq_f32(acc[i][l], kv[l], qv[i], 1)
                                : e == 2 ? vfmaq_laneq_f32(acc[i][l], kv[l], qv[i], 2)
                                         : vfmaq_laneq_f32(acc[i][l], kv[l], qv[i], 3);
                }
        }
}

/* 16 keys from j on. @next as in struct kern_attn_kv; the two tiles of a group prefetch half of it each. */
KERN_INLINE void scores_tile(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, const uint8_t *next, size_t j, float scale,
        float (*s)[KERN_ATTN_GROUP]) {
        const size_t row = k->stride * kv_size(type);
        float32x4_t acc[N_QUERIES][4], ks[4];
        size_t c = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                ks[l] = vdupq_n_f32(0);
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) acc[i][l] = ks[l];
        }
        for (; c + 4 <= k->head_dim; c += 4) {
                if (type == KERN_KV_Q8_0 && c % KERN_KV_GROUP == 0)
                        kv_load(KERN_KV_F16, k->scales, c / KERN_KV_GROUP * k->stride + j, 4, ks);
                if (next)
                        KERN_UNROLL for (size_t e = 0; e < 2; e++) kern_attn_prefetch(
                                next + (c + j / 8 + e) * row, KERN_ATTN_GROUP * kv_size(type));
                scores_channels(type, n_q, 4, k, q, c, j, ks, acc);
        }
        for (; type != KERN_KV_Q8_0 && c < k->head_dim; c++)
                scores_channels(type, n_q, 1, k, q, c, j, ks, acc);
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++) KERN_UNROLL for (unsigned l = 0; l < 4; l++)
                vst1q_f32(s[i] + j + 4 * l, vmulq_n_f32(acc[i][l], scale));
}

KERN_INLINE void scores_bundle(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, const uint8_t *next, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (size_t j = 0; j < KERN_ATTN_GROUP; j += 16)
                scores_tile(type, n_q, k, q, next, j, scale, s);
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        const uint8_t *next = k->next;

        for (; n_q >= 4; n_q -= 4, q += 4, s += 4, next = NULL)
                scores_bundle(type, 4, k, q, next, scale, s);
        if (n_q == 3)
                scores_bundle(type, 3, k, q, next, scale, s);
        else if (n_q == 2)
                scores_bundle(type, 2, k, q, next, scale, s);
        else if (n_q == 1)
                scores_bundle(type, 1, k, q, next, scale, s);
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

/* Keys [j0, j1) of the four from j on. */
KERN_INLINE uint32x4_t seen4(unsigned j, unsigned j0, unsigned j1) {
        static const uint32_t at[4] = {0, 1, 2, 3};
        uint32x4_t v = vaddq_u32(vld1q_u32(at), vdupq_n_u32(j));

        return vandq_u32(vcgeq_u32(v, vdupq_n_u32(j0)), vcltq_u32(v, vdupq_n_u32(j1)));
}

static float probs1(
        float *s, unsigned j0, unsigned j1, float softcap, struct kern_softmax_state *st) {
        float32x4_t v[8], pair[4], mv;
        uint32x4_t seen[8];
        float mn, c;

        KERN_UNROLL for (unsigned l = 0; l < 8; l++) {
                seen[l] = seen4(4 * l, j0, j1);
                v[l] = vld1q_f32(s + 4 * l);
                if (softcap != 0)
                        v[l] = softcap4(v[l], softcap);
                v[l] = vbslq_f32(seen[l], v[l], vdupq_n_f32(-INFINITY));
        }
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) pair[l] = max2(v[l], v[l + 4]);
        mn = kern_max2(st->m, maxtree16(pair));
        c = kern_exp(st->m - mn);
        mv = vdupq_n_f32(mn);
        KERN_UNROLL for (unsigned l = 0; l < 8; l++) {
                v[l] = exp4(vsubq_f32(v[l], mv));
                v[l] = vreinterpretq_f32_u32(vandq_u32(seen[l], vreinterpretq_u32_f32(v[l])));
                vst1q_f32(s + 4 * l, v[l]);
        }
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) pair[l] = vaddq_f32(v[l], v[l + 4]);
        st->m = mn;
        st->sum = fmaf(st->sum, c, tree16(pair));
        return c;
}

static void probs(float (*s)[KERN_ATTN_GROUP], const struct kern_attn_range *seen, unsigned n_q,
        float softcap, struct kern_softmax_state *state, float *c) {
        for (unsigned i = 0; i < n_q; i++)
                c[i] = probs1(s[i], seen[i].from, seen[i].to, softcap, &state[i]);
}

/* n_v registers of channels from d on, in one group if they have scales. @next as in struct kern_attn_kv; tiles
 * prefetch it in the order of memory, whatever their channels. */
KERN_INLINE void values_tile(enum kern_kv_type type, unsigned n_q, unsigned n_v,
        const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP], const float *c,
        float *const *o, unsigned j0, unsigned j1, size_t d, const uint8_t *next) {
        const size_t size = kv_size(type), step = 4 * n_v * size;
        float32x4_t acc[N_QUERIES][4], vv[4];

        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                        vmulq_n_f32(vld1q_f32(o[i] + d + 4 * l), c[i]);
        for (unsigned j = j0; j < j1; j++) {
                size_t at = j * v->stride + d;

                if (next && j * step % 64 == 0)
                        kern_attn_prefetch(next + d * KERN_ATTN_GROUP * size + j * step, step);
                kv_load(type, v->x, at, n_v, vv);
                if (type == KERN_KV_Q8_0) {
                        float scale = load_half(v->scales + at / KERN_KV_GROUP);

                        KERN_UNROLL for (unsigned l = 0; l < n_v; l++) vv[l] =
                                vmulq_n_f32(vv[l], scale);
                }
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                        KERN_UNROLL for (unsigned l = 0; l < n_v; l++) acc[i][l] =
                                vfmaq_n_f32(acc[i][l], vv[l], p[i][j]);
        }
        KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                KERN_UNROLL for (unsigned l = 0; l < n_v; l++)
                        vst1q_f32(o[i] + d + 4 * l, acc[i][l]);
}

KERN_INLINE void values_queries(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned j0,
        unsigned j1, const uint8_t *next) {
        size_t d = 0, n = v->head_dim;

        for (; d + 16 <= n; d += 16)
                values_tile(type, n_q, 4, v, p, c, o, j0, j1, d, next);
        if (type == KERN_KV_Q8_0) /* whole groups only */
                return;
        for (; d + 4 <= n; d += 4)
                values_tile(type, n_q, 1, v, p, c, o, j0, j1, d, next);
        for (; d < n; d++)
                for (unsigned i = 0; i < n_q; i++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], kv_load1(type, v->x, j * v->stride + d), sum);
                        o[i][d] = sum;
                }
}

KERN_INLINE void values(enum kern_kv_type type, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        const uint8_t *next = v->next;

        for (; n_q >= 4; n_q -= 4, p += 4, c += 4, o += 4, next = NULL)
                values_queries(type, 4, v, p, c, o, j0, j1, next);
        if (n_q == 3)
                values_queries(type, 3, v, p, c, o, j0, j1, next);
        else if (n_q == 2)
                values_queries(type, 2, v, p, c, o, j0, j1, next);
        else if (n_q == 1)
                values_queries(type, 1, v, p, c, o, j0, j1, next);
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
        int8x16_t low = vdupq_n_s8(0), high = low;

        if (kern_kv_scale(to_half(greatest_abs(x, KERN_KV_GROUP) / 127), scale)) {
                float id = 1 / load_half(scale);

                low = round16(x, id);
                high = round16(x + 16, id);
        }
        vst1q_s8(q, low);
        vst1q_s8(q + 16, high);
}

static void kv_round(const float *x, int8_t *q, uint16_t *scales, size_t n) {
        for (size_t i = 0; i < n; i += KERN_KV_GROUP)
                round_group(x + i, q + i, scales + i / KERN_KV_GROUP);
}

void kern_neon_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_scores[KERN_KV_Q8_0] = scores_q8_0;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
        ops->attn_values[KERN_KV_Q8_0] = values_q8_0;
        ops->kv_round = kv_round;
}
