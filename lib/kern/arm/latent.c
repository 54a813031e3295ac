/* SPDX-License-Identifier: MIT */
/* Scores of latent rows: a lane is a channel modulo 16, in four registers. Two queries and two rows at a
 * time. */
#include "kern/arm/kv.h"

#define TILE 2

/* The 16 channels from element i on. */
KERN_INLINE void load16(
        enum kern_kv_type type, const struct kern_attn_kv *k, size_t i, float32x4_t *ret) {
        kv_load(type, k->x, i, 4, ret);
        if (type == KERN_KV_Q8_0) {
                float scale = load_half(k->scales + i / KERN_KV_GROUP);

                KERN_UNROLL for (unsigned h = 0; h < 4; h++) ret[h] = vmulq_n_f32(ret[h], scale);
        }
}

/* The last channels, fewer than 16: with zeros behind them. Q8_0 has none. */
KERN_INLINE void add_last(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, size_t c, float32x4_t (*acc)[TILE][4]) {
        size_t n = k->head_dim - c;
        float kv[16] = {0}, qv[16] = {0};

        for (unsigned l = 0; l < TILE; l++) {
                for (size_t e = 0; e < n; e++)
                        kv[e] = kv_load1(type, k->x, (j + l) * k->stride + c + e);
                for (unsigned i = 0; i < n_q; i++) {
                        memcpy(qv, q[i] + c, n * sizeof(*qv));
                        for (unsigned h = 0; h < 4; h++)
                                acc[l][i][h] = vfmaq_f32(
                                        acc[l][i][h], vld1q_f32(qv + 4 * h), vld1q_f32(kv + 4 * h));
                }
        }
}

/* n_q queries, TILE rows from j on. */
KERN_INLINE void scores_tile(enum kern_kv_type type, unsigned n_q, const struct kern_attn_kv *k,
        const float *const *q, unsigned j, float scale, float (*s)[KERN_ATTN_GROUP]) {
        size_t n = k->head_dim, c = 0;
        float32x4_t acc[TILE][TILE][4];

        KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                        KERN_UNROLL for (unsigned h = 0; h < 4; h++) acc[l][i][h] = vdupq_n_f32(0);
        for (; c + 16 <= n; c += 16) {
                float32x4_t kv[TILE][4];

                KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                        load16(type, k, (j + l) * k->stride + c, kv[l]);
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++)
                        KERN_UNROLL for (unsigned h = 0; h < 4; h++) {
                        float32x4_t qv = vld1q_f32(q[i] + c + 4 * h);

                        KERN_UNROLL for (unsigned l = 0; l < TILE; l++) acc[l][i][h] =
                                vfmaq_f32(acc[l][i][h], qv, kv[l][h]);
                }
        }
        if (c < n)
                add_last(type, n_q, k, q, j, c, acc);
        KERN_UNROLL for (unsigned l = 0; l < TILE; l++)
                KERN_UNROLL for (unsigned i = 0; i < n_q; i++) s[i][j + l] =
                        tree16(acc[l][i]) * scale;
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

void kern_neon_latent(struct kern_ops *ops) {
        ops->latent_scores[KERN_KV_F32] = scores_f32;
        ops->latent_scores[KERN_KV_F16] = scores_f16;
        ops->latent_scores[KERN_KV_Q8_0] = scores_q8_0;
}
