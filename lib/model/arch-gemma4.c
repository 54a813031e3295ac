/* SPDX-License-Identifier: MIT */
/*
 * gemma4: like gemma3 with keys and values that later layers share, and
 *
 * - per-layer inputs (block-ple.h): x += f(layer, x) after a layer;
 * - a factor of the residual after a layer (layer_output_scale);
 * - in models with experts both feed-forwards in every layer, each between norms of its own: the value
 *   is norm_1(ffn(ffn_norm x)) + norm_2(experts(pre_norm_2 x)). The router sees rms(x) / sqrt(d) times
 *   weights of its own.
 */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-ple.h"
#include "model/internal.h"
#include "model/stack.h"

struct gemma4_layer {
        struct norm post_1, pre_2, post_2; /* models with experts */
        struct norm router;
        float scale; /* 1: none */
};

struct gemma4 {
        struct ple *ple; /* owned; NULL: none */
        size_t dense_at; /* floats of model_work.own before the dense value, per token */
        struct gemma4_layer layers[];
};

static int gemma4_settle(struct hparams *h, struct err *e) {
        uint32_t n_shared;
        int r;

        r = hparams_u32_or(h, "attention.shared_kv_layers", 0, h->n_layer - 1, 0, &n_shared, e);
        if (r < 0)
                return r;
        h->first_shared_kv = h->n_layer - n_shared;
        return hparams_u32_or(h, "embedding_length_per_layer_input", 0, HPARAMS_MAX_EMBD, 0,
                &h->n_per_layer_input, e);
}

static void gemma4_free(void *own) {
        struct gemma4 *g = own;

        if (!g)
                return;
        free(g->ple);
        free(g);
}

static int load_experts(struct model *m, struct gemma4_layer *y, uint32_t i, struct err *e) {
        size_t n = m->hparams.n_embd;
        int r;

        r = ffn_load(m, &m->stack->layers[i].ffn, i, e);
        if (r == 0)
                r = norm_load(m, &y->post_1, (int)i, "post_ffw_norm_1", n, e);
        if (r == 0)
                r = norm_load(m, &y->pre_2, (int)i, "pre_ffw_norm_2", n, e);
        if (r == 0)
                r = norm_load(m, &y->post_2, (int)i, "post_ffw_norm_2", n, e);
        y->router = norm_plain(m, n);
        return r < 0 ? r
                     : weights_vec(
                               &m->weights, &y->router.weight, (int)i, "ffn_gate_inp.scale", n, e);
}

static int gemma4_load(struct model *m, struct err *e) {
        uint32_t n = m->hparams.n_layer;
        struct gemma4 *g = calloc(1, sizeof(*g) + n * sizeof(*g->layers));
        int r = 0;

        if (!g)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", n);
        m->own = g;
        if (m->hparams.n_per_layer_input)
                r = ple_load(m, &g->ple, e);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                const float *scale = NULL;

                r = weights_bias(
                        &m->weights, &scale, (int)i, "layer_output_scale.weight", 1, false, e);
                g->layers[i].scale = scale ? *scale : 1.0f;
                if (r == 0 && m->stack->layers[i].experts)
                        r = load_experts(m, &g->layers[i], i, e);
        }
        g->dense_at = m->dims.n_own;
        if (m->hparams.experts.n)
                m->dims.n_own += 2 * m->hparams.n_embd;
        return r;
}

static void gemma4_begin(const struct model *m, struct model_work *w) {
        const struct gemma4 *g = m->own;

        if (g->ple)
                ple_begin(g->ple, w);
}

static void gemma4_ffn(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct gemma4 *g = m->own;
        const struct gemma4_layer *own = &g->layers[layer];
        const struct layer *y = &m->stack->layers[layer];
        size_t n = m->hparams.n_embd;
        float *dense = w->own + g->dense_at * w->n, *seen = dense + n * w->n;
        struct work_input in = work_input(w->norm, n, w->n, w->act[0]);
        struct work_input router_in = work_input(seen, n, w->n, w->act[1]);

        norm_forward(&y->pre_ffn, w, w->x, w->norm, n, w->n);
        ffn_forward(&y->ffn, w, &in, y->experts ? dense : w->branch);
        if (y->experts) {
                norm_forward(&own->post_1, w, dense, dense, n, w->n);
                norm_forward(&own->router, w, w->x, seen, n, w->n);
                kern_scale(w->kern, seen, 1.0f / sqrtf((float)n), w->n * n);
                norm_forward(&own->pre_2, w, w->x, w->norm, n, w->n);
                in = work_input(w->norm, n, w->n, w->act[0]);
                moe_forward(&y->moe, w, &in, &router_in, w->branch);
                norm_forward(&own->post_2, w, w->branch, w->branch, n, w->n);
                kern_add(w->kern, w->branch, dense, w->n * n);
        }
        norm_forward(&y->post_ffn, w, w->branch, w->branch, n, w->n);
}

static void gemma4_after(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct gemma4 *g = m->own;

        if (g->ple) {
                ple_forward(g->ple, w, layer, w->x);
                stack_add(m, w);
        }
        if (g->layers[layer].scale != 1.0f)
                kern_scale(w->kern, w->x, g->layers[layer].scale, w->n * m->hparams.n_embd);
}

const struct arch_code arch_gemma4 = {.settle = gemma4_settle,
        .load = gemma4_load,
        .free = gemma4_free,
        .begin = gemma4_begin,
        .ffn = gemma4_ffn,
        .after = gemma4_after};
