/* SPDX-License-Identifier: MIT */
/* The three steps of attention over one group of keys, the definition. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

static void scores_f32(const void *k, size_t stride, size_t head_dim, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        const float *kf = k;

        for (unsigned i = 0; i < n_q; i++)
                for (unsigned j = 0; j < KERN_ATTN_GROUP; j++) {
                        float sum = 0;

                        for (size_t d = 0; d < head_dim; d++)
                                sum = fmaf(q[i][d], kf[d * stride + j], sum);
                        s[i][j] = sum * scale;
                }
}

static void scores_f16(const void *k, size_t stride, size_t head_dim, const float *const *q,
        unsigned n_q, float scale, float (*s)[KERN_ATTN_GROUP]) {
        const uint16_t *kh = k;

        for (unsigned i = 0; i < n_q; i++)
                for (unsigned j = 0; j < KERN_ATTN_GROUP; j++) {
                        float sum = 0;

                        for (size_t d = 0; d < head_dim; d++)
                                sum = fmaf(q[i][d], quant_f16_to_f32(kh[d * stride + j]), sum);
                        s[i][j] = sum * scale;
                }
}

static float probs(
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

static void values_f32(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        const float *vf = v;

        for (unsigned i = 0; i < n_q; i++)
                for (size_t d = 0; d < head_dim; d++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], vf[j * head_dim + d], sum);
                        o[i][d] = sum;
                }
}

static void values_f16(const void *v, size_t head_dim, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1) {
        const uint16_t *vh = v;

        for (unsigned i = 0; i < n_q; i++)
                for (size_t d = 0; d < head_dim; d++) {
                        float sum = o[i][d] * c[i];

                        for (unsigned j = j0; j < j1; j++)
                                sum = fmaf(p[i][j], quant_f16_to_f32(vh[j * head_dim + d]), sum);
                        o[i][d] = sum;
                }
}

void kern_generic_attention(struct kern_ops *ops) {
        ops->attn_scores[KERN_KV_F32] = scores_f32;
        ops->attn_scores[KERN_KV_F16] = scores_f16;
        ops->attn_probs = probs;
        ops->attn_values[KERN_KV_F32] = values_f32;
        ops->attn_values[KERN_KV_F16] = values_f16;
}
