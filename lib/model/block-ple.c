/* SPDX-License-Identifier: MIT */
#include "model/block-ple.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "model/block-io.h"
#include "model/internal.h"

static int load_layer(struct model *m, struct ple *p, uint32_t i, struct err *e) {
        struct ple_layer *y = &p->layers[i];
        size_t n_embd = m->hparams.n_embd;
        int r;

        r = weights_mat(&m->weights, &y->gate, (int)i, "inp_gate.weight", n_embd, p->width, e);
        if (r == 0)
                r = weights_mat(&m->weights, &y->proj, (int)i, "proj.weight", p->width, n_embd, e);
        if (r == 0)
                r = norm_load(m, &y->post, (int)i, "post_norm", n_embd, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &y->gate);
        work_dims_mat(&m->dims, &y->proj);
        return 0;
}

int ple_load(struct model *m, struct ple **ret, struct err *e) {
        const struct hparams *h = &m->hparams;
        size_t width = h->n_per_layer_input, all = width * h->n_layer;
        _cleanup_(freep) struct ple *p = calloc(1, sizeof(*p) + h->n_layer * sizeof(*p->layers));
        struct weights *w = &m->weights;
        int r;

        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", h->n_layer);
        p->n_layer = h->n_layer;
        p->width = (uint32_t)width;
        r = weights_table(w, &p->table, "per_layer_token_embd.weight", all, h->n_vocab, e);
        if (r == 0)
                r = weights_mat(
                        w, &p->project, -1, "per_layer_model_proj.weight", h->n_embd, all, e);
        if (r == 0)
                r = norm_load(m, &p->norm, -1, "per_layer_proj_norm", width, e);
        for (uint32_t i = 0; r == 0 && i < h->n_layer; i++)
                r = load_layer(m, p, i, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &p->project);
        m->dims.n_own = MAX(m->dims.n_own, all);
        m->dims.n_ff = MAX(m->dims.n_ff, all); /* one row of the table, see ple_begin() */
        *ret = TAKE_PTR(p);
        return 0;
}

void ple_begin(const struct ple *p, struct model_work *w) {
        size_t all = (size_t)p->n_layer * p->width, n_embd = p->project.n_in;
        struct work_input in = work_input(w->x, n_embd, w->n, w->act[0]);

        work_matmul(w, &in, &p->project, NULL, w->own);
        kern_scale(w->kern, w->own, 1.0f / sqrtf((float)n_embd), w->n * all);
        norm_forward(&p->norm, w, w->own, w->own, p->width, w->n * p->n_layer);
        for (size_t t = 0; t < w->n; t++) {
                embedding_row(&p->table, (size_t)w->token[t], w->up);
                kern_add_scaled(w->kern, w->own + t * all, w->up, sqrtf((float)p->width), all);
        }
        kern_scale(w->kern, w->own, sqrtf(0.5f), w->n * all);
}

void ple_forward(const struct ple *p, struct model_work *w, uint32_t layer, const float *x) {
        const struct ple_layer *y = &p->layers[layer];
        size_t n_embd = y->gate.n_in, width = p->width, all = p->n_layer * width;
        struct work_input in = work_input(x, n_embd, w->n, w->act[0]);
        struct work_input hidden = work_input(w->gate, width, w->n, w->act[1]);

        work_matmul(w, &in, &y->gate, NULL, w->gate);
        for (size_t t = 0; t < w->n; t++)
                kern_activate(w->kern, KERN_GELU, w->gate + t * width,
                        w->own + t * all + layer * width, w->gate + t * width, width);
        work_matmul(w, &hidden, &y->proj, NULL, w->branch);
        norm_forward(&y->post, w, w->branch, w->branch, n_embd, w->n);
}
