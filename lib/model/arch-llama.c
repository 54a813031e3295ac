/* SPDX-License-Identifier: MIT */
/*
 * The llama architecture (Llama 1 to 3, Mistral 7B, Mixtral, TinyLlama, SmolLM, Yi, ...):
 *
 *   x += attention(rmsnorm(x));  x += ffn(rmsnorm(x));  logits = output * rmsnorm(x)
 *
 * with NORM rotary positions over the whole head, SwiGLU or experts, biases wherever the file has
 * them, Llama-3 frequency factors in rope_freqs.weight, linear and YaRN scaling. A sliding_window
 * key (Mistral 7B v0.1) is ignored, as it is by the engine that these files are made for.
 */
#include <stdlib.h>

#include "base/err.h"
#include "model/block-attn.h"
#include "model/block-ffn.h"
#include "model/block-io.h"
#include "model/block-moe.h"
#include "model/internal.h"
#include "model/rope.h"

struct llama_layer {
        const float *attn_norm, *ffn_norm; /* [n_embd] */
        struct attn attn;
        struct ffn ffn; /* dense layers */
        struct moe moe; /* expert layers */
};

struct llama {
        struct embedding embedding;
        struct output output;
        struct rope rope;
        bool experts;
        uint32_t n_layer;
        float eps;
        struct llama_layer layers[];
};

static void llama_free(void *impl) {
        struct llama *l = impl;

        if (!l)
                return;
        rope_deinit(&l->rope);
        free(l);
}

static int llama_read_hparams(struct hparams *h, struct err *e) {
        int r;

        r = hparams_read_base(h, e);
        if (r < 0)
                return r;
        r = hparams_read_attention(h, e);
        if (r < 0)
                return r;
        r = hparams_read_ffn(h, e);
        if (r < 0)
                return r;
        r = hparams_read_rope(h, h->head_dim_k, e);
        if (r < 0)
                return r;
        if (h->n_rot != h->head_dim_k)
                return err_set(e, ERR_UNSUPPORTED,
                        "llama.rope.dimension_count %u differs from the head size %u", h->n_rot,
                        h->head_dim_k);
        return 0;
}

static int llama_load_rope(struct model *m, struct llama *l, struct err *e) {
        const float *factors = NULL;
        uint32_t n = m->hparams.n_rot / 2;
        int r;

        r = weights_vec_opt(&m->weights, &factors, -1, "rope_freqs.weight", n, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; factors && i < n; i++)
                if (!(factors[i] >= 1e-6f && factors[i] <= 1e9f))
                        return err_set(e, ERR_FORMAT, "rope_freqs.weight has the factor %g at %u",
                                (double)factors[i], i);
        return rope_init(&l->rope, &m->hparams, false, factors, m->context, e);
}

static int llama_load_layer(struct model *m, struct llama *l, uint32_t i, struct err *e) {
        struct llama_layer *y = &l->layers[i];
        size_t n = m->hparams.n_embd;
        int r;

        r = weights_vec(&m->weights, &y->attn_norm, (int)i, "attn_norm.weight", n, e);
        if (r < 0)
                return r;
        r = attn_load(m, &y->attn, i, &l->rope, e);
        if (r < 0)
                return r;
        r = weights_vec(&m->weights, &y->ffn_norm, (int)i, "ffn_norm.weight", n, e);
        if (r < 0)
                return r;
        return l->experts ? moe_load(m, &y->moe, i, e) : ffn_load(m, &y->ffn, i, e);
}

static int llama_load(struct model *m, struct err *e) {
        struct llama *l;
        int r;

        r = llama_read_hparams(&m->hparams, e);
        if (r == 0)
                r = model_settle_context(m, e);
        if (r < 0)
                return r;
        l = calloc(1, sizeof(*l) + m->hparams.n_layer * sizeof(*l->layers));
        if (!l)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", m->hparams.n_layer);
        m->impl = l;
        l->experts = m->hparams.n_expert > 0;
        l->n_layer = m->hparams.n_layer;
        l->eps = m->hparams.norm_eps;
        r = embedding_load(m, &l->embedding, e);
        if (r < 0)
                return r;
        r = llama_load_rope(m, l, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < l->n_layer; i++) {
                r = llama_load_layer(m, l, i, e);
                if (r < 0)
                        return r;
        }
        return output_load(m, &l->output, &l->embedding, e);
}

static void llama_norm(const struct llama *l, struct model_work *w, const float *weight) {
        size_t n = l->embedding.table.n_in;

        kern_rmsnorm(w->kern, w->x, n, weight, l->eps, n, w->n, w->norm, n);
}

static int llama_forward(const struct model *m, struct model_work *w) {
        const struct llama *l = m->impl;
        size_t n_embd = l->embedding.table.n_in;
        int r;

        embedding_forward(&l->embedding, w);
        rope_table(&l->rope, w->pos, w->n, w->cos, w->sin);
        for (uint32_t i = 0; i < l->n_layer; i++) {
                const struct llama_layer *y = &l->layers[i];
                struct work_input in;

                llama_norm(l, w, y->attn_norm);
                in = work_input(w->norm, n_embd, w->n, w->act[0]);
                r = attn_store(&y->attn, w, &in);
                if (r)
                        return r;
                if (i == l->n_layer - 1 && w->n_out < w->n) {
                        work_keep_outputs(w);
                        if (!w->n)
                                return 0;
                        in = work_input(w->norm, n_embd, w->n, w->act[0]);
                }
                attn_attend(&y->attn, w, &in, w->branch);
                kern_add(w->kern, w->x, w->branch, w->n * n_embd);
                llama_norm(l, w, y->ffn_norm);
                in = work_input(w->norm, n_embd, w->n, w->act[0]);
                if (l->experts)
                        moe_forward(&y->moe, w, &in, w->branch);
                else
                        ffn_forward(&y->ffn, w, &in, w->branch);
                kern_add(w->kern, w->x, w->branch, w->n * n_embd);
        }
        output_forward(&l->output, w);
        return 0;
}

const struct arch arch_llama = {
        .name = "llama", .load = llama_load, .forward = llama_forward, .free = llama_free};
