/* SPDX-License-Identifier: MIT */
/* Computing a batch: from tokens through all layers to logits. */
#include "model/stack.h"

#include "base/dmath.h"
#include "base/util.h"
#include "model/internal.h"

/* The factors of the queries at the batch's positions. */
static void fill_temperature(const struct model *m, struct model_work *w) {
        const struct hparams *h = &m->hparams;
        double scale = 0.1, length = h->chunk ? h->chunk : 1;
        uint32_t ahead = 1;

        if (m->arch->temperature == ARCH_TEMPERATURE_KEY) {
                scale = h->temperature_scale;
                length = h->rope.orig_context;
                ahead = 0;
        } else if (m->arch->temperature == ARCH_TEMPERATURE_LENGTH) {
                scale = h->temperature_scale;
                length = h->temperature_length;
                ahead = 0;
        }
        for (size_t t = 0; t < w->n; t++) {
                /* Positions are below 2^28, so the quotient's integer part is exact. */
                double turns = (double)(uint32_t)(((double)w->pos[t] + ahead) / length);

                w->temperature[t] = (float)(1.0 + scale * dmath_log(1.0 + turns));
        }
}

static void begin(const struct model *m, struct model_work *w) {
        const struct arch_code *code = m->arch->code;

        embedding_forward(&m->stack->embedding, w);
        for (size_t i = 0; i < ARRAY_SIZE(m->ropes); i++)
                if (m->ropes[i].n_rot)
                        rope_table(&m->ropes[i], w->pos, w->n, w->rope[i].cos, w->rope[i].sin);
        if (m->arch->temperature != ARCH_TEMPERATURE_NONE)
                fill_temperature(m, w);
        if (code && code->begin)
                code->begin(m, w);
}

void stack_add(const struct model *m, struct model_work *w) {
        size_t n = w->n * m->hparams.n_embd;
        float scale = m->hparams.residual_scale;

        if (scale != 1.0f)
                kern_add_scaled(w->kern, w->x, w->branch, scale, n);
        else
                kern_add(w->kern, w->x, w->branch, n);
}

/* What a branch sees: the norm of the residual, or the residual. */
static struct work_input branch_input(
        const struct model *m, struct model_work *w, const struct norm *norm) {
        size_t n = m->hparams.n_embd;

        if (!norm->n)
                return work_input(w->x, n, w->n, w->act[0]);
        norm_forward(norm, w, w->x, w->norm, n, w->n);
        return work_input(w->norm, n, w->n, w->act[0]);
}

static void post_norm(const struct model *m, struct model_work *w, const struct norm *norm) {
        if (norm->n)
                norm_forward(norm, w, w->branch, w->branch, m->hparams.n_embd, w->n);
}

/* Code of an architecture's own that keeps rows of its own sees all of them until the end, and so does a
 * second branch that remembers. */
static bool may_drop_rows(const struct model *m, uint32_t layer) {
        const struct arch_code *code = m->arch->code;

        return layer == m->stack->n_layer - 1 && !(code && (code->begin || code->layer)) &&
               !m->arch->second;
}

/* What memory keeps of all rows, and, where the branch has a step of its own for that, no rows without
 * logits afterwards. */
static int store(
        const struct model *m, struct model_work *w, uint32_t layer, struct work_input *in) {
        const struct layer *y = &m->stack->layers[layer];
        int r;

        if (y->mixer && !y->mixer->store)
                return 0;
        r = y->mixer ? y->mixer->store(y->own, w, in) : attn_store(&y->attn, w, in);
        if (r || !may_drop_rows(m, layer) || w->n == w->n_out)
                return r;
        work_keep_outputs(w);
        *in = work_input(in->x, in->n_in, w->n, w->act[0]);
        return 0;
}

int stack_attention(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct layer *y = &m->stack->layers[layer];
        struct work_input in = branch_input(m, w, &y->pre_attn);
        int r = store(m, w, layer, &in);

        if (r || !w->n)
                return r;
        if (y->mixer)
                r = y->mixer->forward(y->own, w, &in, w->branch);
        else
                attn_attend(&y->attn, w, &in, w->branch);
        if (r)
                return r;
        if (w->n_out < w->n && may_drop_rows(m, layer))
                work_keep_outputs(w);
        if (w->n)
                post_norm(m, w, &y->post_attn);
        return 0;
}

static int feed_forward(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct layer *y = &m->stack->layers[layer];
        struct work_input in = y->parallel ? work_input(w->norm, m->hparams.n_embd, w->n, w->act[0])
                                           : branch_input(m, w, &y->pre_ffn);

        int r = 0;

        if (m->arch->second)
                r = m->arch->second->forward(y->second, w, &in, w->branch);
        else if (y->experts)
                moe_forward(&y->moe, w, &in, &in, w->branch);
        else
                ffn_forward(&y->ffn, w, &in, w->branch);
        if (r == 0)
                post_norm(m, w, &y->post_ffn);
        return r;
}

/* A layer without a first branch. */
static int skip_first(const struct model *m, struct model_work *w, uint32_t layer) {
        int r = work_wait(w, layer);

        if (r == 0 && w->n_out < w->n && may_drop_rows(m, layer))
                work_keep_outputs(w);
        return r;
}

static int forward_layer(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct layer *y = &m->stack->layers[layer];
        const struct arch_code *code = m->arch->code;
        int r;

        if (code && code->layer)
                return code->layer(m, w, layer);
        r = y->mixes ? stack_attention(m, w, layer) : skip_first(m, w, layer);
        if (r || !w->n)
                return r;
        if (y->mixes)
                stack_add(m, w);
        if (!y->feeds)
                return 0;
        if (code && code->ffn)
                code->ffn(m, w, layer);
        else
                r = feed_forward(m, w, layer);
        if (r)
                return r;
        stack_add(m, w);
        if (code && code->after)
                code->after(m, w, layer);
        return 0;
}

int stack_forward(const struct model *m, struct model_work *w) {
        const struct arch_code *code = m->arch->code;

        begin(m, w);
        for (uint32_t i = 0; i < m->stack->n_layer; i++) {
                int r = forward_layer(m, w, i);

                if (r || !w->n)
                        return r;
        }
        if (code && code->end)
                code->end(m, w);
        if (w->n_out < w->n)
                work_keep_outputs(w);
        if (w->n)
                output_forward(&m->stack->output, w);
        return 0;
}
