/* SPDX-License-Identifier: MIT */
#include "model/block-attn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

/* Values per token. */
struct attn_widths {
        size_t q, k, v, out;
};

/* One fused matrix with the rows of q, k, v in this order. 0, 1 absent, or an error. */
static int attn_load_fused(
        struct model *m, struct attn *a, const struct attn_widths *n, struct err *e) {
        size_t all = n->q + n->k + n->v;
        int layer = (int)a->layer, r;
        struct kern_mat fused;
        const float *bias = NULL;

        r = weights_mat_opt(
                &m->weights, &fused, layer, "attn_qkv.weight", m->hparams.n_embd, all, e);
        if (r)
                return r;
        r = weights_bias(&m->weights, &bias, layer, "attn_qkv.bias", all,
                m->arch->biases != ARCH_BIASES_FREE, e);
        if (r < 0)
                return r;
        a->q = weights_rows(&fused, 0, n->q);
        a->k = weights_rows(&fused, n->q, n->k);
        a->v = weights_rows(&fused, n->q + n->k, n->v);
        if (bias) {
                a->q_bias = bias;
                a->k_bias = bias + n->q;
                a->v_bias = bias + n->q + n->k;
        }
        return 0;
}

static int attn_load_separate(
        struct model *m, struct attn *a, const struct attn_widths *n, struct err *e) {
        const struct {
                const char *weight, *bias;
                struct kern_mat *mat;
                const float **vec;
                size_t n;
        } part[] = {
                {"attn_q.weight", "attn_q.bias", &a->q, &a->q_bias, a->has_gate ? 2 * n->q : n->q},
                {"attn_k.weight", "attn_k.bias", &a->k, &a->k_bias, n->k},
                {"attn_v.weight", "attn_v.bias", &a->v, &a->v_bias, n->v},
        };
        size_t n_parts = a->shares_kv ? 1 : a->value_is_key ? 2 : 3;

        for (size_t i = 0; i < n_parts; i++) {
                int r = weights_mat(&m->weights, part[i].mat, (int)a->layer, part[i].weight,
                        m->hparams.n_embd, part[i].n, e);

                if (r < 0)
                        return r;
                r = weights_bias(&m->weights, part[i].vec, (int)a->layer, part[i].bias, part[i].n,
                        m->arch->biases != ARCH_BIASES_FREE, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Which norm the heads of this model have. */
static enum arch_qk_norm attn_qk_norm(const struct model *m, const struct attn *a) {
        const struct arch *arch = m->arch;

        if (arch->qk_norm_unless_experts && m->hparams.experts.n == arch->qk_norm_unless_experts)
                return ARCH_QK_FREE;
        if (arch->qk_norm == ARCH_QK_EACH_LAYER && m->hparams.n_layer < arch->qk_layer_norm_from)
                return ARCH_QK_FREE;
        if (arch->qk_norm == ARCH_QK_UNWEIGHTED && a->rope < 0)
                return ARCH_QK_FREE;
        return arch->qk_norm;
}

static int attn_load_qk_norm(struct model *m, struct attn *a, bool is_k, struct err *e) {
        const struct kern_kv_layout *l = &a->kern.layout;
        size_t n_head = is_k ? l->n_kv_head : a->kern.n_head, n = l->head_dim_k;
        struct norm *norm = is_k ? &a->k_norm : &a->q_norm;
        const char *name = is_k ? "attn_k_norm" : "attn_q_norm";
        char full[32];
        int r;

        switch (a->qk_norm) {
        case ARCH_QK_FREE:
                return 0;
        case ARCH_QK_UNWEIGHTED:
                *norm = norm_plain(m, n);
                return 0;
        case ARCH_QK_EACH_LAYER:
                *norm = (struct norm){
                        .n = n, .eps = m->hparams.norm_eps, .kind = ARCH_LAYER_NORM_NO_BIAS};
                snprintf(full, sizeof(full), "%s.weight", name);
                r = weights_rows_vec_opt(
                        &m->weights, &norm->weight, (int)a->layer, full, n, n_head, e);
                if (r == 1 && !m->arch->qk_norm_optional)
                        return weights_missing((int)a->layer, full, e);
                break;
        default:
                if (a->qk_norm == ARCH_QK_ALL)
                        n *= n_head;
                r = (m->arch->qk_norm_optional ? norm_load_opt : norm_load)(
                        m, norm, (int)a->layer, name, n, e);
        }
        if (r == 1)
                norm->n = 0;
        return r < 0 ? r : 0;
}

static int attn_load_norms(struct model *m, struct attn *a, struct err *e) {
        int r;

        a->qk_norm = attn_qk_norm(m, a);
        a->norm_after_rope = m->arch->qk_norm_after_rope;
        r = attn_load_qk_norm(m, a, false, e);
        if (r < 0 || a->shares_kv)
                return r;
        if (m->arch->v_norm)
                a->v_norm = norm_plain(m, a->kern.layout.head_dim_v);
        return attn_load_qk_norm(m, a, true, e);
}

/* One of the layer's two arrays, followed by its scales if the type has them. */
static int attn_describe(struct model *m, const struct attn *a, bool is_k, struct err *e) {
        static const enum model_kv_element elements[KERN_N_KV] = {[KERN_KV_F16] = MODEL_KV_F16,
                [KERN_KV_F32] = MODEL_KV_F32,
                [KERN_KV_Q8_0] = MODEL_KV_I8};
        const struct kern_kv_layout *l = &a->kern.layout;
        struct model_kv_array array = {
                .layer = a->layer,
                .element = elements[l->type],
                .offset = is_k ? a->kern.k_offset : a->kern.v_offset,
                .n_tiles = l->n_kv_head,
                .n_channels = is_k ? l->head_dim_k : l->head_dim_v,
                .n_tokens = l->block_tokens,
                .channel_major = is_k,
        };
        int r;

        r = memory_describe(m, a->memory, &array, e);
        if (r < 0 || l->type != KERN_KV_Q8_0)
                return r;
        array.element = MODEL_KV_F16;
        array.offset += is_k ? kern_kv_k_scales(l) : kern_kv_v_scales(l);
        array.n_channels /= KERN_KV_GROUP;
        return memory_describe(m, a->memory, &array, e);
}

/* The layer's keys, then its values, each starting on a cache line. */
static int attn_book_memory(struct model *m, struct attn *a, struct err *e) {
        const struct kern_kv_layout *l = &a->kern.layout;
        int r;

        if (l->type == KERN_KV_Q8_0 &&
                (l->head_dim_k % KERN_KV_GROUP || l->head_dim_v % KERN_KV_GROUP))
                return err_set(e, ERR_UNSUPPORTED,
                        "memory of type q8_0 needs head sizes that are multiples of %d, and this "
                        "model has keys of %u and values of %u; use f16 or f32",
                        KERN_KV_GROUP, l->head_dim_k, l->head_dim_v);
        a->kern.k_offset = memory_book(m, a->memory, kern_kv_k_size(l));
        a->kern.v_offset = memory_book(m, a->memory, kern_kv_v_size(l));
        r = attn_describe(m, a, true, e);
        return r < 0 ? r : attn_describe(m, a, false, e);
}

static void attn_book_work(struct model *m, const struct attn *a, const struct attn_widths *n) {
        struct work_dims *d = &m->dims;

        d->n_q = MAX(d->n_q, n->q);
        d->n_k = MAX(d->n_k, n->k);
        d->n_v = MAX(d->n_v, n->v);
        d->n_attn = MAX(d->n_attn, n->out);
        if (a->has_gate)
                d->n_mix = MAX(d->n_mix, 2 * n->q);
        work_dims_mat(d, &a->q);
        work_dims_mat(d, &a->out);
        if (a->shares_kv)
                return;
        work_dims_mat(d, &a->k);
        if (!a->value_is_key)
                work_dims_mat(d, &a->v);
}

/* What the row and the keys say of the layer; returns its widths. */
static struct attn_widths attn_describe_layer(
        const struct model *m, struct attn *a, uint32_t layer, const struct attn *source) {
        const struct hparams *h = &m->hparams;
        bool local = h->local[layer], turns = hparams_layer_has_rope(h, layer);
        uint32_t dim_k = hparams_head_dim_k(h, layer), dim_v = hparams_head_dim_v(h, layer);
        uint32_t n_head = h->n_head[layer];
        uint32_t n_kv_head = source ? source->kern.layout.n_kv_head : h->n_kv_head[layer];

        *a = (struct attn){
                .layer = layer,
                .memory = memory_class(m, layer),
                .shares_kv = source,
                .rope = turns ? local : -1,
                .has_gate = m->arch->output_gate,
                .tempered = m->arch->temperature == ARCH_TEMPERATURE_GLOBAL
                                    ? h->chunk && !turns
                                    : m->arch->temperature != ARCH_TEMPERATURE_NONE &&
                                              h->temperature_scale != 0.0f,
                .kern = {.layout = {.type = m->kv_type,
                                 .block_tokens = MODEL_BLOCK_TOKENS,
                                 .n_kv_head = n_kv_head,
                                 .head_dim_k = dim_k,
                                 .head_dim_v = dim_v},
                        .n_head = n_head,
                        .scale = h->attn_scale,
                        .softcap = h->attn_softcap,
                        .window = local ? h->window : 0,
                        .chunk = local ? h->chunk : 0},
        };
        return (struct attn_widths){(size_t)n_head * dim_k, (size_t)n_kv_head * dim_k,
                (size_t)n_kv_head * dim_v, (size_t)n_head * dim_v};
}

/* All layers of a kind (local, global) have values, or none: one that is missing must not pass. */
static bool attn_has_no_values(const struct model *m, int layer) {
        const struct hparams *h = &m->hparams;

        if (!m->arch->value_may_be_key)
                return false;
        for (uint32_t i = 0; i < h->first_shared_kv; i++)
                if (h->local[i] == h->local[layer] &&
                        weights_has(&m->weights, (int)i, "attn_v.weight"))
                        return false;
        return true;
}

static int attn_load_projections(
        struct model *m, struct attn *a, const struct attn_widths *n, struct err *e) {
        struct weights *w = &m->weights;
        int layer = (int)a->layer, r = 1;

        if (a->has_gate && n->q != n->out)
                return err_set(e, ERR_FORMAT,
                        "layer %d has gates for %zu values and %zu values of attention", layer,
                        n->q, n->out);
        a->value_is_key = n->k == n->v && attn_has_no_values(m, layer);
        if (!a->shares_kv && !a->has_gate)
                r = attn_load_fused(m, a, n, e);
        if (r == 1)
                r = attn_load_separate(m, a, n, e);
        if (r < 0)
                return r;
        r = weights_mat(w, &a->out, layer, "attn_output.weight", n->out, m->hparams.n_embd, e);
        if (r < 0)
                return r;
        return weights_bias(w, &a->out_bias, layer, "attn_output.bias", m->hparams.n_embd,
                m->arch->biases == ARCH_BIASES_ALL, e);
}

int attn_load(struct model *m, struct attn *ret, uint32_t layer, const struct attn *source,
        struct err *e) {
        struct attn a;
        struct attn_widths n = attn_describe_layer(m, &a, layer, source);
        int r;

        r = attn_load_projections(m, &a, &n, e);
        if (r == 0)
                r = attn_load_norms(m, &a, e);
        if (r == 0 && m->arch->sinks)
                r = weights_vec(&m->weights, &a.kern.sinks, (int)layer, "attn_sinks.weight",
                        a.kern.n_head, e);
        if (r == 0 && !source)
                r = attn_book_memory(m, &a, e);
        if (r < 0)
                return r;
        if (source) {
                a.kern.k_offset = source->kern.k_offset;
                a.kern.v_offset = source->kern.v_offset;
        }
        attn_book_work(m, &a, &n);
        *ret = a;
        return 0;
}

static void attn_norm_heads(const struct attn *a, struct model_work *w, const struct norm *norm,
        float *x, size_t n_head) {
        size_t dim = a->kern.layout.head_dim_k, width = n_head * dim;

        if (!norm->n)
                return;
        if (a->qk_norm == ARCH_QK_ALL) {
                norm_forward(norm, w, x, x, width, w->n);
        } else if (a->qk_norm == ARCH_QK_EACH_LAYER) {
                for (size_t head = 0; head < n_head; head++) {
                        struct norm one = *norm;

                        one.weight += head * dim;
                        norm_forward(&one, w, x + head * dim, x + head * dim, width, w->n);
                }
        } else {
                norm_forward(norm, w, x, x, dim, w->n * n_head);
        }
}

static void attn_place(const struct attn *a, struct model_work *w, const struct norm *norm,
        float *x, uint32_t n_heads) {
        uint32_t dim = a->kern.layout.head_dim_k;

        if (!a->norm_after_rope)
                attn_norm_heads(a, w, norm, x, n_heads);
        if (a->rope >= 0) {
                const struct rope *rope = &w->model->ropes[a->rope];
                const struct work_rope *table = &w->rope[a->rope];

                kern_rope(w->kern, x, (size_t)n_heads * dim, n_heads, dim, rope->n_rot, rope->neox,
                        table->cos, table->sin, w->n);
        }
        if (a->norm_after_rope)
                attn_norm_heads(a, w, norm, x, n_heads);
}

int attn_store(const struct attn *a, struct model_work *w, struct work_input *in) {
        const struct kern_kv_layout *l = &a->kern.layout;
        const struct work_product both[] = {{&a->k, a->k_bias, w->k}, {&a->v, a->v_bias, w->v}};
        size_t n_k = a->k.n_out, n_v = (size_t)l->n_kv_head * l->head_dim_v;
        int r;

        if (a->shares_kv)
                return work_wait(w, a->layer);
        work_matmul_all(w, in, both, a->value_is_key ? 1 : 2);
        if (a->value_is_key)
                memcpy(w->v, w->k, w->n * n_v * sizeof(*w->v));
        attn_place(a, w, &a->k_norm, w->k, l->n_kv_head);
        if (a->v_norm.n)
                norm_forward(&a->v_norm, w, w->v, w->v, l->head_dim_v, w->n * l->n_kv_head);
        r = work_wait(w, a->layer);
        if (r)
                return r;
        kern_kv_write(w->kern, l, a->kern.k_offset, a->kern.v_offset, w->rows[a->memory], w->n,
                w->k, n_k, w->v, n_v);
        return 0;
}

/* Queries to w->q, and the gates that stand between them in the rows of a->q to the front of w->mix. */
static void attn_queries(const struct attn *a, struct model_work *w, struct work_input *in) {
        size_t dim = a->kern.layout.head_dim_k, n = w->n * a->kern.n_head;
        float *both = w->mix;

        if (!a->has_gate) {
                work_matmul(w, in, &a->q, a->q_bias, w->q);
                return;
        }
        work_matmul(w, in, &a->q, a->q_bias, both);
        for (size_t h = 0; h < n; h++) {
                memcpy(w->q + h * dim, both + 2 * h * dim, dim * sizeof(*both));
                memmove(both + h * dim, both + (2 * h + 1) * dim, dim * sizeof(*both));
        }
}

void attn_attend(const struct attn *a, struct model_work *w, struct work_input *in, float *out) {
        struct work_input o = work_input(w->attn, a->out.n_in, w->n, w->act[1]);
        size_t n_q = (size_t)a->kern.n_head * a->kern.layout.head_dim_k;

        attn_queries(a, w, in);
        attn_place(a, w, &a->q_norm, w->q, a->kern.n_head);
        if (a->tempered)
                kern_scale_rows(w->kern, w->q, n_q, n_q, w->n, w->temperature);
        kern_attention(
                w->kern, &a->kern, w->rows[a->memory], w->n, w->q, n_q, w->attn, a->out.n_in);
        if (a->has_gate) {
                kern_sigmoid(w->kern, w->mix, w->n * n_q);
                kern_mul(w->kern, w->attn, w->mix, w->n * n_q);
        }
        work_matmul(w, &o, &a->out, a->out_bias, out);
}
