/* SPDX-License-Identifier: MIT */
#include "model/block-io.h"

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "quant/quant.h"

int embedding_load(struct model *m, struct embedding *ret, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct embedding em = {.scale = h->embedding_scale};
        int r;

        m->dims.n_embd = MAX(m->dims.n_embd, (size_t)h->n_embd);
        r = weights_table(&m->weights, &em.table, "token_embd.weight", h->n_embd, h->n_vocab, e);
        if (r == 0 && m->arch->rope == ARCH_ROPE_TABLE)
                r = weights_table(&m->weights, &em.positions, "position_embd.weight", h->n_embd,
                        h->context_train, e);
        if (r < 0)
                return r;
        *ret = em;
        return 0;
}

void embedding_row(const struct kern_mat *table, size_t i, float *y) {
        quant_dequantize(
                table->type, (const uint8_t *)table->data + i * table->row_size, y, table->n_in);
}

void embedding_forward(const struct embedding *em, struct model_work *w) {
        size_t n = em->table.n_in;

        for (size_t t = 0; t < w->n; t++)
                embedding_row(&em->table, (size_t)w->token[t], w->x + t * n);
        if (em->scale != 1.0f)
                kern_scale(w->kern, w->x, em->scale, w->n * n);
        if (!em->positions.n_in)
                return;
        for (size_t t = 0; t < w->n; t++)
                embedding_row(&em->positions, w->pos[t], w->branch + t * n);
        kern_add(w->kern, w->x, w->branch, w->n * n);
}

int output_load(struct model *m, struct output *ret, const struct embedding *tied, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct output o = {.scale = h->logit_scale, .softcap = h->final_softcap};
        int r;

        r = norm_load(m, &o.norm, -1, m->arch->output_norm ? m->arch->output_norm : "output_norm",
                h->n_embd, e);
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
        r = weights_bias(
                &m->weights, &o.bias, -1, "output.bias", h->n_vocab, m->arch->output_bias, e);
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

        norm_forward(&o->norm, w, w->x, w->norm, n_embd, w->n);
        work_matmul(w, &in, &o->table, o->bias, w->logits);
        if (o->scale != 1.0f)
                kern_scale(w->kern, w->logits, o->scale, w->n * o->table.n_out);
        if (o->softcap != 0.0f)
                kern_softcap(w->kern, w->logits, o->softcap, w->n * o->table.n_out);
}
