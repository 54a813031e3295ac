/* SPDX-License-Identifier: MIT */
/* Scores of latent rows, the definition. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

KERN_INLINE float value(enum kern_kv_type type, const struct kern_attn_kv *k, size_t c, size_t j) {
        size_t i = j * k->stride + c;

        if (type == KERN_KV_F32)
                return ((const float *)k->x)[i];
        if (type == KERN_KV_F16)
                return quant_f16_to_f32(((const uint16_t *)k->x)[i]);
        return quant_f16_to_f32(k->scales[i / KERN_KV_GROUP]) * (float)((const int8_t *)k->x)[i];
}

KERN_INLINE float score(
        enum kern_kv_type type, const struct kern_attn_kv *k, const float *q, size_t j) {
        size_t n = k->head_dim;
        float acc[16] = {0};

        for (size_t c = 0; c < n; c += 16)
                for (size_t l = 0; l < 16; l++) {
                        bool in = c + l < n;

                        acc[l] = fmaf(in ? q[c + l] : 0, in ? value(type, k, c + l, j) : 0, acc[l]);
                }
        return kern_tree16(acc);
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (unsigned i = 0; i < n_q; i++)
                for (unsigned j = 0; j < KERN_ATTN_GROUP; j++)
                        s[i][j] = score(type, k, q[i], j) * scale;
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

void kern_generic_latent(struct kern_ops *ops) {
        ops->latent_scores[KERN_KV_F32] = scores_f32;
        ops->latent_scores[KERN_KV_F16] = scores_f16;
        ops->latent_scores[KERN_KV_Q8_0] = scores_q8_0;
}
