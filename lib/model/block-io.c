/* SPDX-License-Identifier: MIT */
#include "model/block-io.h"

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "quant/quant.h"

int embedding_load(struct model *m, struct embedding *ret, struct err *e) {
        const struct hparams *h = &m->hparams;

        m->dims.n_embd = MAX(m->dims.n_embd, (size_t)h->n_embd);
        return weights_table(
                &m->weights, &ret->table, "token_embd.weight", h->n_embd, h->n_vocab, e);
}

void embedding_forward(const struct embedding *em, struct model_work *w) {
        const uint8_t *data = em->table.data;
        size_t n = em->table.n_in;

        for (size_t t = 0; t < w->n; t++)
                quant_dequantize(em->table.type, data + (size_t)w->token[t] * em->table.row_size,
                        w->x + t * n, n);
}

int output_load(struct model *m, struct output *ret, const struct embedding *tied, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct output o = {.eps = h->norm_eps};
        int r;

        r = weights_vec(&m->weights, &o.norm, -1, "output_norm.weight", h->n_embd, e);
        if (r < 0)
                return r;
        r = weights_mat_opt(&m->weights, &o.table, -1, "output.weight", h->n_embd, h->n_vocab, e);
        if (r < 0)
                return r;
        if (r == 1) {
                if (!kern_mat_supported(tied->table.type))
                        return err_set(e, ERR_UNSUPPORTED,
                                "tensor 'token_embd.weight' serves as output and has the type %s, "
                                "which no matrix kernel handles",
                                quant_info(tied->table.type)->name);
                o.table = tied->table;
        }
        r = weights_vec_opt(&m->weights, &o.bias, -1, "output.bias", h->n_vocab, e);
        if (r < 0)
                return r;
        m->dims.n_vocab = MAX(m->dims.n_vocab, (size_t)h->n_vocab);
        work_dims_mat(&m->dims, &o.table);
        *ret = o;
        return 0;
}

void output_forward(const struct output *o, struct model_work *w) {
        size_t n_embd = o->table.n_in;
        struct work_input in = work_input(w->norm, n_embd, w->n, w->act[0]);

        kern_rmsnorm(w->kern, w->x, n_embd, o->norm, o->eps, n_embd, w->n, w->norm, n_embd);
        work_matmul(w, &in, &o->table, o->bias, w->logits);
}
