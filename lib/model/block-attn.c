/* SPDX-License-Identifier: MIT */
#include "model/block-attn.h"

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "model/rope.h"

/* One fused matrix with the rows of q, k, v in this order. 0, 1 absent, or an error. */
static int attn_load_fused(struct model *m, struct attn *a, int layer, size_t n_q, size_t n_k,
        size_t n_v, struct err *e) {
        size_t n_embd = m->hparams.n_embd;
        struct kern_mat fused;
        const float *bias = NULL;
        int r;

        r = weights_mat_opt(
                &m->weights, &fused, layer, "attn_qkv.weight", n_embd, n_q + n_k + n_v, e);
        if (r)
                return r;
        r = weights_vec_opt(&m->weights, &bias, layer, "attn_qkv.bias", n_q + n_k + n_v, e);
        if (r < 0)
                return r;
        a->q = weights_rows(&fused, 0, n_q);
        a->k = weights_rows(&fused, n_q, n_k);
        a->v = weights_rows(&fused, n_q + n_k, n_v);
        if (bias) {
                a->q_bias = bias;
                a->k_bias = bias + n_q;
                a->v_bias = bias + n_q + n_k;
        }
        return 0;
}

static int attn_load_separate(struct model *m, struct attn *a, int layer, size_t n_q, size_t n_k,
        size_t n_v, struct err *e) {
        const struct {
                const char *weight, *bias;
                struct kern_mat *mat;
                const float **vec;
                size_t n;
        } part[] = {
                {"attn_q.weight", "attn_q.bias", &a->q, &a->q_bias, n_q},
                {"attn_k.weight", "attn_k.bias", &a->k, &a->k_bias, n_k},
                {"attn_v.weight", "attn_v.bias", &a->v, &a->v_bias, n_v},
        };

        for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
                int r = weights_mat(&m->weights, part[i].mat, layer, part[i].weight,
                        m->hparams.n_embd, part[i].n, e);

                if (r < 0)
                        return r;
                r = weights_vec_opt(&m->weights, part[i].vec, layer, part[i].bias, part[i].n, e);
                if (r < 0)
                        return r;
        }
        return 0;
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

        r = model_add_kv_array(m, &array, e);
        if (r < 0 || l->type != KERN_KV_Q8_0)
                return r;
        array.element = MODEL_KV_F16;
        array.offset += is_k ? kern_kv_k_scales(l) : kern_kv_v_scales(l);
        array.n_channels /= KERN_KV_GROUP;
        return model_add_kv_array(m, &array, e);
}

/* The layer's keys, then its values, each starting on a cache line. */
static int attn_book_memory(struct model *m, struct attn *a, struct err *e) {
        const struct kern_kv_layout *l = &a->kern.layout;
        size_t k_size = align_up(kern_kv_k_size(l), 64);
        int r;

        if (l->type == KERN_KV_Q8_0 &&
                (l->head_dim_k % KERN_KV_GROUP || l->head_dim_v % KERN_KV_GROUP))
                return err_set(e, ERR_UNSUPPORTED,
                        "memory of type q8_0 needs head sizes that are multiples of %d, and this "
                        "model has keys of %u and values of %u; use f16 or f32",
                        KERN_KV_GROUP, l->head_dim_k, l->head_dim_v);
        a->kern.k_offset = m->block_size;
        a->kern.v_offset = m->block_size + k_size;
        m->block_size += k_size + align_up(kern_kv_v_size(l), 64);
        r = attn_describe(m, a, true, e);
        return r < 0 ? r : attn_describe(m, a, false, e);
}

static void attn_book_work(struct model *m, const struct attn *a) {
        struct work_dims *d = &m->dims;

        d->n_q = MAX(d->n_q, a->q.n_out);
        d->n_k = MAX(d->n_k, a->k.n_out);
        d->n_v = MAX(d->n_v, a->v.n_out);
        d->n_attn = MAX(d->n_attn, a->out.n_in);
        if (a->rope)
                d->n_rope_pairs = MAX(d->n_rope_pairs, a->rope->n_rot / 2);
        work_dims_mat(d, &a->q);
        work_dims_mat(d, &a->k);
        work_dims_mat(d, &a->v);
        work_dims_mat(d, &a->out);
}

int attn_load(
        struct model *m, struct attn *ret, uint32_t layer, const struct rope *rope, struct err *e) {
        const struct hparams *h = &m->hparams;
        size_t n_q = (size_t)h->n_head[layer] * h->head_dim_k;
        size_t n_k = (size_t)h->n_kv_head[layer] * h->head_dim_k;
        size_t n_v = (size_t)h->n_kv_head[layer] * h->head_dim_v;
        size_t n_attn = (size_t)h->n_head[layer] * h->head_dim_v;
        struct attn a = {.rope = rope, .layer = layer};
        int r;

        r = attn_load_fused(m, &a, (int)layer, n_q, n_k, n_v, e);
        if (r == 1)
                r = attn_load_separate(m, &a, (int)layer, n_q, n_k, n_v, e);
        if (r < 0)
                return r;
        r = weights_mat(
                &m->weights, &a.out, (int)layer, "attn_output.weight", n_attn, h->n_embd, e);
        if (r < 0)
                return r;
        r = weights_vec_opt(&m->weights, &a.out_bias, (int)layer, "attn_output.bias", h->n_embd, e);
        if (r < 0)
                return r;
        a.kern = (struct kern_attn){
                .layout = {.type = m->kv_type,
                        .block_tokens = MODEL_BLOCK_TOKENS,
                        .n_kv_head = h->n_kv_head[layer],
                        .head_dim_k = h->head_dim_k,
                        .head_dim_v = h->head_dim_v},
                .n_head = h->n_head[layer],
                .scale = h->attn_scale,
        };
        r = attn_book_memory(m, &a, e);
        if (r < 0)
                return r;
        attn_book_work(m, &a);
        *ret = a;
        return 0;
}

static void attn_rope(
        const struct attn *a, struct model_work *w, float *x, size_t ldx, uint32_t n_heads) {
        if (a->rope)
                kern_rope(w->kern, x, ldx, n_heads, a->kern.layout.head_dim_k, a->rope->n_rot,
                        a->rope->neox, w->cos, w->sin, w->n);
}

int attn_store(const struct attn *a, struct model_work *w, struct work_input *in) {
        int r;

        work_matmul(w, in, &a->k, a->k_bias, w->k);
        work_matmul(w, in, &a->v, a->v_bias, w->v);
        attn_rope(a, w, w->k, a->k.n_out, a->kern.layout.n_kv_head);
        r = work_wait(w, a->layer);
        if (r)
                return r;
        kern_kv_write(w->kern, &a->kern.layout, a->kern.k_offset, a->kern.v_offset, w->rows, w->n,
                w->k, a->k.n_out, w->v, a->v.n_out);
        return 0;
}

void attn_attend(const struct attn *a, struct model_work *w, struct work_input *in, float *out) {
        struct work_input o = work_input(w->attn, a->out.n_in, w->n, w->act[1]);

        work_matmul(w, in, &a->q, a->q_bias, w->q);
        attn_rope(a, w, w->q, a->q.n_out, a->kern.n_head);
        kern_attention(w->kern, &a->kern, w->rows, w->n, w->q, a->q.n_out, w->attn, a->out.n_in);
        work_matmul(w, &o, &a->out, a->out_bias, out);
}
