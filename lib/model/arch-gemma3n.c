/* SPDX-License-Identifier: MIT */
/*
 * gemma3n: gemma3 with four residual streams (block-altup.h) and per-layer inputs (block-ple.h). A layer
 * makes w of the predicted stream P_0:
 *
 *   h = attn_norm(P_0);  u = (P_0 + post_attention_norm(attention h) + laurel(h)) / sqrt(2)
 *   w = u + post_ffw_norm(ffn(ffn_norm u))
 *   laurel(h) = h + rmsnorm(laurel_r laurel_l h) * laurel_post_norm
 *
 * corrects the streams with it, and adds the per-layer input of stream 0, weighted, to the other three.
 * The first ten layers keep the greatest 5% of the gate: g = max(0, g - mean - 1.6448534 deviations).
 *
 * What the keys do not say is constant in this architecture: keys and values are shared from layer 20
 * on, and the sizes of the per-layer input and of laurel.
 */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-altup.h"
#include "model/block-ple.h"
#include "model/internal.h"
#include "model/stack.h"

#define FIRST_SHARED_KV 20
#define PER_LAYER_INPUT 256
#define LAUREL_RANK 64
#define N_SPARSE 10
#define SPARSITY 1.6448534f /* the normal distribution's 95% */

struct gemma3n_layer {
        struct kern_mat laurel_l, laurel_r;
        struct norm laurel_post;
        const float *correct_scale; /* [n_embd] */
};

struct gemma3n {
        struct altup altup;
        struct ple *ple; /* owned */
        struct gemma3n_layer layers[];
};

static int gemma3n_settle(struct hparams *h, struct err *e) {
        h->first_shared_kv = MIN(h->n_layer, (uint32_t)FIRST_SHARED_KV);
        return hparams_u32_or(h, "embedding_length_per_layer_input", 1, HPARAMS_MAX_EMBD,
                PER_LAYER_INPUT, &h->n_per_layer_input, e);
}

static void gemma3n_free(void *own) {
        struct gemma3n *g = own;

        if (!g)
                return;
        altup_deinit(&g->altup);
        free(g->ple);
        free(g);
}

static int load_layer(struct model *m, struct gemma3n_layer *y, uint32_t i, struct err *e) {
        size_t d = m->hparams.n_embd;
        struct weights *w = &m->weights;
        int r;

        r = weights_mat(w, &y->laurel_l, (int)i, "laurel_l.weight", d, LAUREL_RANK, e);
        if (r == 0)
                r = weights_mat(w, &y->laurel_r, (int)i, "laurel_r.weight", LAUREL_RANK, d, e);
        if (r == 0)
                r = norm_load(m, &y->laurel_post, (int)i, "laurel_post_norm", d, e);
        if (r == 0)
                r = weights_vec(w, &y->correct_scale, (int)i, "altup_correct_scale.weight", d, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &y->laurel_l);
        work_dims_mat(&m->dims, &y->laurel_r);
        return 0;
}

static int gemma3n_load(struct model *m, struct err *e) {
        uint32_t n = m->hparams.n_layer;
        struct gemma3n *g = calloc(1, sizeof(*g) + n * sizeof(*g->layers));
        int r;

        if (!g)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", n);
        m->own = g;
        r = ple_load(m, &g->ple, e);
        if (r == 0)
                r = altup_load(m, &g->altup, e);
        for (uint32_t i = 0; r == 0 && i < n; i++)
                r = load_layer(m, &g->layers[i], i, e);
        m->dims.n_ff = MAX(m->dims.n_ff, (size_t)LAUREL_RANK);
        return r;
}

static void gemma3n_begin(const struct model *m, struct model_work *w) {
        const struct gemma3n *g = m->own;

        ple_begin(g->ple, w);
        altup_begin(&g->altup, w);
}

static void gemma3n_end(const struct model *m, struct model_work *w) {
        const struct gemma3n *g = m->own;

        altup_end(&g->altup, w);
}

/* w->x = (P_0 + attention + laurel) / sqrt(2), from P_0, w->branch and w->norm, which holds h. */
static void add_laurel(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct gemma3n_layer *y = &((const struct gemma3n *)m->own)->layers[layer];
        size_t d = m->hparams.n_embd, all = w->n * d;
        struct work_input in = work_input(w->norm, d, w->n, w->act[0]);
        struct work_input low = work_input(w->gate, LAUREL_RANK, w->n, w->act[1]);

        kern_add(w->kern, w->x, w->branch, all);
        work_matmul(w, &in, &y->laurel_l, NULL, w->gate);
        work_matmul(w, &low, &y->laurel_r, NULL, w->branch);
        norm_forward(&y->laurel_post, w, w->branch, w->branch, d, w->n);
        kern_add(w->kern, w->branch, w->norm, all);
        kern_add(w->kern, w->x, w->branch, all);
        kern_scale(w->kern, w->x, sqrtf(0.5f), all);
}

/* Mean and deviation in double and in order: they are the same everywhere (I2). */
static void keep_greatest(float *g, size_t n) {
        double mean = 0, squares = 0;
        float least;

        for (size_t i = 0; i < n; i++)
                mean += (double)g[i];
        mean /= (double)n;
        for (size_t i = 0; i < n; i++)
                squares += ((double)g[i] - mean) * ((double)g[i] - mean);
        least = (float)(mean + (double)SPARSITY * sqrt(squares / (double)MAX(n - 1, (size_t)1)));
        for (size_t i = 0; i < n; i++)
                g[i] = g[i] > least ? g[i] - least : 0;
}

static void feed_forward(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct layer *y = &m->stack->layers[layer];
        size_t d = m->hparams.n_embd, n_ff = y->ffn.up.n_out;
        struct work_input in = work_input(w->norm, d, w->n, w->act[0]);

        norm_forward(&y->pre_ffn, w, w->x, w->norm, d, w->n);
        work_matmul(w, &in, &y->ffn.gate, y->ffn.gate_bias, w->gate);
        work_matmul(w, &in, &y->ffn.up, y->ffn.up_bias, w->up);
        for (size_t t = 0; layer < N_SPARSE && t < w->n; t++)
                keep_greatest(w->gate + t * n_ff, n_ff);
        kern_activate(w->kern, KERN_GELU, w->gate, w->up, w->gate, w->n * n_ff);
        ffn_down(&y->ffn, w, &in, w->branch);
        norm_forward(&y->post_ffn, w, w->branch, w->branch, d, w->n);
        kern_add(w->kern, w->x, w->branch, w->n * d);
}

static int gemma3n_layer(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct gemma3n *g = m->own;
        size_t d = m->hparams.n_embd;
        int r;

        altup_predict(&g->altup, w, layer);
        r = stack_attention(m, w, layer);
        if (r)
                return r;
        add_laurel(m, w, layer);
        feed_forward(m, w, layer);
        altup_correct(&g->altup, w, layer);
        for (size_t t = 0; t < w->n; t++) {
                const float *first = altup_stream(&g->altup, w, 0) + t * d;

                for (size_t i = 0; i < d; i++)
                        w->x[t * d + i] = first[i] * g->layers[layer].correct_scale[i];
        }
        ple_forward(g->ple, w, layer, w->x);
        for (size_t j = 1; j < ALTUP_N; j++)
                kern_add(w->kern, altup_stream(&g->altup, w, j), w->branch, w->n * d);
        return 0;
}

const struct arch_code arch_gemma3n = {.settle = gemma3n_settle,
        .load = gemma3n_load,
        .free = gemma3n_free,
        .begin = gemma3n_begin,
        .layer = gemma3n_layer,
        .end = gemma3n_end};
