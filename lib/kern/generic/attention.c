/* SPDX-License-Identifier: MIT */
/* The three steps of attention over one group of keys, the definition. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

KERN_INLINE float k_value(
        enum kern_kv_type type, const struct kern_attn_kv *k, size_t c, size_t j) {
        size_t i = c * k->stride + j;

        if (type == KERN_KV_F32)
                return ((const float *)k->x)[i];
        if (type == KERN_KV_F16)
                return quant_f16_to_f32(((const uint16_t *)k->x)[i]);
        return quant_f16_to_f32(k->scales[c / KERN_KV_GROUP * k->stride + j]) *
               (float)((const int8_t *)k->x)[i];
}

KERN_INLINE float v_value(
        enum kern_kv_type type, const struct kern_attn_kv *v, size_t c, size_t j) {
        size_t i = j * v->stride + c;

        if (type == KERN_KV_F32)
                return ((const float *)v->x)[i];
        if (type == KERN_KV_F16)
                return quant_f16_to_f32(((const uint16_t *)v->x)[i]);
        return quant_f16_to_f32(v->scales[i / KERN_KV_GROUP]) * (float)((const int8_t *)v->x)[i];
}

KERN_INLINE void scores(enum kern_kv_type type, const struct kern_attn_kv *k, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        for (unsigned i = 0; i < n_q; i++)
                for (unsigned j = 0; j < KERN_ATTN_GROUP; j++) {
                        float sum = 0;

                        for (size_t c = 0; c < k->head_dim; c++)
                                sum = fmaf(q[i][c], k_value(type, k, c, j), sum);
                        s[i][j] = sum * scale;
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

static float probs1(
        float *s, unsigned j0, unsigned j1, float softcap, struct kern_softmax_state *st) {
        float pair[16], mn, c;

        for (unsigned j = 0; j < KERN_ATTN_GROUP; j++)
                if (j < j0 || j >= j1)
                        s[j] = -INFINITY;
                else if (softcap != 0)
                        s[j] = kern_softcap1(s[j], softcap);
        for (int l = 0; l < 16; l++)
                pair[l] = kern_max2(s[l], s[l + 16]);
        mn = kern_max2(st->m, kern_maxtree16(pair));
        c = kern_exp(st->m - mn);
        for (unsigned j = 0; j < KERN_ATTN_GROUP; j++)
                s[j] = j < j0 || j >= j1 ? 0 : kern_exp(s[j] - mn);
        for (int l = 0; l < 16; l++)
                pair[l] = s[l] + s[l + 16];
        st->m = mn;
        st->sum = fmaf(st->sum, c, kern_tree16(pair));
        return c;
}

static void probs(float (*s)[KERN_ATTN_GROUP], const struct kern_attn_range *seen, unsigned n_q,
        float softcap, struct kern_softmax_state *state, float *c) {
        for (unsigned i = 0; i < n_q; i++)
                c[i] = probs1(s[i], seen[i].from, seen[i].to, softcap, &state[i]);
}

KERN_INLINE void values(enum kern_kv_type type, const struct kern_attn_kv *v,
        const float (*p)[KERN_ATTN_GROUP], const float *c, float *const *o, unsigned n_q,
        unsigned j0, unsigned j1) {
        for (unsigned i = 0; i < n_q; i++)
                for (size_t d = 0; d < v->head_dim; d++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], v_value(type, v, d, j), sum);
                        o[i][d] = sum;
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
        uint32_t amax = 0;
        float id;

        /* Without their signs floats are ordered like integers, NaN above infinity. */
        for (int i = 0; i < KERN_KV_GROUP; i++) {
                uint32_t u = kern_bits(x[i]) & 0x7fffffff;

                amax = u > amax ? u : amax;
        }
        if (!kern_kv_scale(quant_f32_to_f16(kern_from_bits(amax) / 127), scale)) {
                memset(q, 0, KERN_KV_GROUP);
                return;
        }
        id = 1 / quant_f16_to_f32(*scale);
        for (int i = 0; i < KERN_KV_GROUP; i++) {
                /* Adding 1.5 * 2^23 rounds to the nearest even integer. */
                float r = (x[i] * id + KERN_EXP_MAGIC) - KERN_EXP_MAGIC;

                q[i] = (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
        }
}

static void kv_round(const float *x, int8_t *q, uint16_t *scales, size_t n) {
        for (size_t i = 0; i < n; i += KERN_KV_GROUP)
                round_group(x + i, q + i, scales + i / KERN_KV_GROUP);
}

void kern_generic_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_scores[KERN_KV_Q8_0] = scores_q8_0;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
        ops->attn_values[KERN_KV_Q8_0] = values_q8_0;
        ops->kv_round = kv_round;
}
