/* SPDX-License-Identifier: MIT */
#include "model/block-moe.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "model/moe-choose.h"

/* One matrix per expert with the rows of gate, then up. 0, 1 absent, or an error. */
static int moe_load_fused(
        struct model *m, struct moe *moe, int layer, size_t width, size_t n_ff, struct err *e) {
        struct weights_stack fused;
        int r = weights_stack_opt(&m->weights, &fused, layer, "ffn_gate_up_exps.weight", width,
                2 * n_ff, moe->rule->n, e);

        if (r)
                return r;
        moe->gate.mats = moe->up.mats = fused;
        moe->gate.mats.first = weights_rows(&fused.first, 0, n_ff);
        moe->up.mats.first = weights_rows(&fused.first, n_ff, n_ff);
        return 0;
}

static int moe_load_part(struct model *m, struct moe_part *part, int layer, const char *name,
        size_t n_in, size_t n_out, struct err *e) {
        size_t n = m->hparams.experts.n;
        bool biased = m->arch->experts.biased;
        char full[64];
        int r = 0;

        if (!part->mats.n) {
                snprintf(full, sizeof(full), "%s.weight", name);
                r = weights_stack(&m->weights, &part->mats, layer, full, n_in, n_out, n, e);
        }
        if (r < 0)
                return r;
        snprintf(full, sizeof(full), "%s.scale", name);
        r = weights_bias(&m->weights, &part->scale, layer, full, n, false, e);
        if (r < 0)
                return r;
        if (biased) {
                snprintf(full, sizeof(full), "%s.bias", name);
                r = weights_rows_vec_opt(&m->weights, &part->bias, layer, full, n_out, n, e);
        }
        if (biased && r == 1)
                return weights_missing(layer, full, e);
        work_dims_stack(&m->dims, &part->mats);
        return r;
}

static int moe_load_router(struct model *m, struct moe *moe, int layer, struct err *e) {
        struct weights *w = &m->weights;
        size_t n = moe->rule->n;
        int r;

        r = weights_mat(w, &moe->router, layer, "ffn_gate_inp.weight", m->hparams.n_embd, n, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &moe->router);
        if (m->arch->experts.biased)
                r = weights_vec(w, &moe->router_bias, layer, "ffn_gate_inp.bias", n, e);
        if (r < 0)
                return r;
        return weights_bias(w, &moe->choice_bias, layer, "exp_probs_b.bias", n,
                m->arch->experts.choice_bias, e);
}

/* Matrices to and from the width of the experts; returns it in *width. */
static int moe_load_latent(
        struct model *m, struct moe *moe, int layer, size_t *width, struct err *e) {
        size_t n_embd = m->hparams.n_embd, n = moe->rule->n_latent;
        struct weights *w = &m->weights;
        int r;

        *width = n ? n : n_embd;
        if (!n)
                return 0;
        r = weights_mat(w, &moe->latent_down, layer, "ffn_latent_down.weight", n_embd, n, e);
        if (r == 0)
                r = weights_mat(w, &moe->latent_up, layer, "ffn_latent_up.weight", n, n_embd, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &moe->latent_down);
        work_dims_mat(&m->dims, &moe->latent_up);
        m->dims.n_mix = MAX(m->dims.n_mix, 2 * n);
        return 0;
}

static int moe_load_experts(
        struct model *m, struct moe *moe, int layer, size_t width, struct err *e) {
        size_t n_ff = moe->rule->n_ff;
        int r = 0;

        if (!moe->plain)
                r = moe_load_fused(m, moe, layer, width, n_ff, e);
        if (r < 0)
                return r;
        if (!moe->plain)
                r = moe_load_part(m, &moe->gate, layer, "ffn_gate_exps", width, n_ff, e);
        if (r < 0)
                return r;
        r = moe_load_part(m, &moe->up, layer, "ffn_up_exps", width, n_ff, e);
        if (r < 0)
                return r;
        return moe_load_part(m, &moe->down, layer, "ffn_down_exps", n_ff, width, e);
}

static int moe_load_shared(struct model *m, struct moe *moe, uint32_t layer, struct err *e) {
        int r;

        moe->has_shared = moe->rule->shared;
        if (!moe->has_shared)
                return 0;
        r = ffn_load_shared(m, &moe->shared, layer, e);
        if (r < 0 || m->arch->experts.shared != ARCH_SHARED_GATED)
                return r;
        return weights_vec(&m->weights, &moe->shared_gate, (int)layer, "ffn_gate_inp_shexp.weight",
                m->hparams.n_embd, e);
}

int moe_load(struct model *m, struct moe *ret, uint32_t layer, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct moe moe = {.rule = &h->experts,
                .activation = m->arch->activation,
                .plain = m->arch->ffn == ARCH_FFN_PLAIN};
        struct work_dims *d = &m->dims;
        int l = (int)layer, r;
        size_t width;

        r = moe_load_router(m, &moe, l, e);
        if (r < 0)
                return r;
        r = moe_load_latent(m, &moe, l, &width, e);
        if (r < 0)
                return r;
        r = moe_load_experts(m, &moe, l, width, e);
        if (r < 0)
                return r;
        d->n_ff = MAX(d->n_ff, (size_t)h->experts.n_ff);
        d->n_expert = MAX(d->n_expert, (size_t)h->experts.n);
        d->n_expert_used = MAX(d->n_expert_used, (size_t)h->experts.n_used);
        r = moe_load_shared(m, &moe, layer, e);
        if (r < 0)
                return r;
        *ret = moe;
        return 0;
}

/* Counting sort of the choices by expert: fills start, slot and token. */
static void moe_group(struct work_moe *s, size_t n, uint32_t n_expert, uint32_t n_used) {
        size_t n_choices = n * n_used;

        memset(s->start, 0, (n_expert + 1) * sizeof(*s->start));
        for (size_t c = 0; c < n_choices; c++)
                s->start[s->expert[c] + 1]++;
        for (uint32_t i = 0; i < n_expert; i++)
                s->start[i + 1] += s->start[i];
        for (size_t c = 0; c < n_choices; c++) {
                uint32_t slot = s->start[s->expert[c]]++;

                s->slot[c] = slot;
                s->choice[slot] = (uint32_t)c;
        }
        /* Each start has moved to the next expert's: shift back. */
        for (uint32_t i = n_expert; i > 0; i--)
                s->start[i] = s->start[i - 1];
        s->start[0] = 0;
}

static void moe_matmul(const struct moe_part *part, struct model_work *w, struct work_input *in,
        uint32_t expert, float *y) {
        struct kern_mat mat = weights_stack_at(&part->mats, expert);

        work_matmul(w, in, &mat, NULL, y);
        if (part->scale)
                kern_scale(w->kern, y, part->scale[expert], in->n * mat.n_out);
        for (size_t t = 0; part->bias && t < in->n; t++)
                kern_add(w->kern, y + t * mat.n_out, part->bias + expert * mat.n_out, mat.n_out);
}

/* The rows that the expert sees: all as they are, or gathered in s->x. */
static struct work_input moe_gather(const struct moe *moe, struct model_work *w,
        const struct work_input *all, uint32_t expert) {
        struct work_moe *s = &w->moe;
        size_t from = s->start[expert], n = s->start[expert + 1] - from, n_embd = all->n_in;
        struct work_input some = work_input(s->x, n_embd, n, w->act[1]);

        for (size_t i = 0; i < n; i++) {
                uint32_t choice = s->choice[from + i];

                memcpy(s->x + i * n_embd, all->x + choice / moe->rule->n_used * n_embd,
                        n_embd * sizeof(float));
                if (moe->rule->router == ARCH_ROUTER_SIGMOID_INPUT)
                        kern_scale(w->kern, s->x + i * n_embd, s->weight[choice], n_embd);
        }
        return some;
}

static void moe_expert(
        const struct moe *moe, struct model_work *w, struct work_input *all, uint32_t expert) {
        struct work_moe *s = &w->moe;
        size_t from = s->start[expert], n = s->start[expert + 1] - from, n_ff = moe->rule->n_ff;
        struct work_input hidden = work_input(w->gate, n_ff, n, w->act[1]);
        struct work_input some, *in = all;

        if (!n)
                return;
        /* An expert of every token sees the batch as it is (always so with one token). */
        if (n < all->n || moe->rule->router == ARCH_ROUTER_SIGMOID_INPUT) {
                some = moe_gather(moe, w, all, expert);
                in = &some;
        }
        moe_matmul(moe->plain ? &moe->up : &moe->gate, w, in, expert, w->gate);
        if (!moe->plain)
                moe_matmul(&moe->up, w, in, expert, w->up);
        kern_activate(
                w->kern, moe->activation, w->gate, moe->plain ? NULL : w->up, w->gate, n * n_ff);
        moe_matmul(&moe->down, w, &hidden, expert, s->out + from * all->n_in);
}

/* Adds the shared feed-forward; s->x is free by now. */
static void moe_add_shared(
        const struct moe *moe, struct model_work *w, struct work_input *in, float *out) {
        struct work_moe *s = &w->moe;
        size_t n_embd = in->n_in;

        ffn_forward(&moe->shared, w, in, s->x);
        if (moe->shared_gate) {
                struct kern_mat row = {.data = moe->shared_gate,
                        .type = QUANT_F32,
                        .n_in = n_embd,
                        .n_out = 1,
                        .row_size = n_embd * sizeof(float)};
                struct work_input plain = work_input(in->x, n_embd, in->n, NULL);

                work_matmul(w, &plain, &row, NULL, s->factor);
                kern_sigmoid(w->kern, s->factor, in->n);
                kern_scale_rows(w->kern, s->x, n_embd, n_embd, in->n, s->factor);
        }
        kern_add(w->kern, out, s->x, in->n * n_embd);
}

/* The experts of all rows, and the sums of what they give. */
static void moe_mix(
        const struct moe *moe, struct model_work *w, struct work_input *in, float *out) {
        struct work_moe *s = &w->moe;
        uint32_t n_expert = moe->rule->n, n_used = moe->rule->n_used;
        bool weigh = moe->rule->router != ARCH_ROUTER_SIGMOID_INPUT;
        size_t width = in->n_in;

        for (uint32_t i = 0; i < n_expert; i++)
                moe_expert(moe, w, in, i);
        memset(out, 0, in->n * width * sizeof(*out));
        for (size_t c = 0; c < in->n * n_used; c++)
                kern_add_scaled(w->kern, out + c / n_used * width, s->out + s->slot[c] * width,
                        weigh ? s->weight[c] : 1.0f, width);
}

/* The same behind and before the latent width. */
static void moe_mix_latent(
        const struct moe *moe, struct model_work *w, struct work_input *in, float *out) {
        size_t width = moe->latent_down.n_out;
        float *x = w->mix, *y = x + in->n * width;
        struct work_input latent = work_input(x, width, in->n, in->scratch);
        struct work_input sum = work_input(y, width, in->n, in->scratch);

        work_matmul(w, in, &moe->latent_down, NULL, x);
        moe_mix(moe, w, &latent, y);
        work_matmul(w, &sum, &moe->latent_up, NULL, out);
        *in = work_input(in->x, in->n_in, in->n, in->scratch); /* prepared for others meanwhile */
}

void moe_forward(const struct moe *moe, struct model_work *w, struct work_input *in,
        struct work_input *router_in, float *out) {
        struct work_moe *s = &w->moe;
        uint32_t n_expert = moe->rule->n, n_used = moe->rule->n_used;

        work_matmul(w, router_in, &moe->router, moe->router_bias, s->probs);
        for (size_t t = 0; t < in->n; t++)
                moe_choose(w->kern, moe->rule, s->probs + t * n_expert, moe->choice_bias,
                        s->expert + t * n_used, s->weight + t * n_used);
        moe_group(s, in->n, n_expert, n_used);
        if (moe->latent_down.n_in)
                moe_mix_latent(moe, w, in, out);
        else
                moe_mix(moe, w, in, out);
        if (moe->has_shared)
                moe_add_shared(moe, w, in, out);
}
