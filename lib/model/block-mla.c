/* SPDX-License-Identifier: MIT */
/*
 * Multi-head latent attention (MLA), as a mixer.
 *
 * Keys and values of all heads are made from one short row c per token, of `rank` numbers: a head's key
 * is K_h c followed by a part with positions that all heads share, its value V_h c. Memory holds c and
 * the rotated part, nothing else, since a score K_h c . q is c . (K_h^T q), and a sum of values is
 * V_h (the sum of c). So queries are taken down to the row, attention is over rows (kern.h, latent
 * rows), and its results are taken up to values:
 *
 *   z = kv_a x;  c = norm(z[:rank]);  shared part = rope(z[rank:])              kept: [c | shared part]
 *   q = q_b norm(q_a x), or q x; per head [nope | rope part], the latter rotated
 *   row of queries = [K_h^T nope | rope part];  o = softmax(scale row . kept) c;  out(V_h o)
 *
 * 1. All batches compute like this, also those in which keys and values of heads would be cheaper (I2).
 * 2. Files hold K_h^T and V_h for each head (attn_k_b, attn_v_b), older ones K_h and V_h in one matrix
 *    (attn_kv_b). Both keep the same memory. Products with K_h^T are then made from its rows.
 * 3. Heads are computed HEADS at a time, so that the rows of queries stay small.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-norm.h"
#include "model/internal.h"
#include "model/mixer.h"

#define HEADS 16

struct mla {
        struct kern_mat q_a, q, kv_a, out;
        struct norm q_norm,
                kv_norm; /* q_norm.n of 0: queries come from the residual, without q_a */
        struct kern_heads k, v;
        bool k_turned; /* k holds K_h, not its transpose */
        bool tempered; /* queries take the factor of their position */
        bool turns;    /* there are rotary positions */
        uint32_t layer, n_head, head_dim, nope, rope, rank, n_value;
        struct kern_attn kern; /* n_head: at once */
};

static size_t row_width(const struct mla *a) {
        return a->rank + a->rope;
}

static struct kern_heads heads_of(const struct weights_stack *s) {
        return (struct kern_heads){.first = s->first, .n = s->n, .stride = s->stride};
}

static int load_split(struct model *m, struct mla *a, struct err *e) {
        struct weights_stack k, v;
        int layer = (int)a->layer, r;

        r = weights_stack(
                &m->weights, &k, layer, "attn_k_b.weight", a->nope, a->rank, a->n_head, e);
        if (r < 0)
                return r;
        r = weights_stack(
                &m->weights, &v, layer, "attn_v_b.weight", a->rank, a->n_value, a->n_head, e);
        if (r < 0)
                return r;
        a->k = heads_of(&k);
        a->v = heads_of(&v);
        return 0;
}

/* Rows of each head: those of its keys, then those of its values. */
static int load_unsplit(struct model *m, struct mla *a, struct err *e) {
        size_t rows = (size_t)a->nope + a->n_value;
        struct kern_mat both;
        int r;

        r = weights_mat(&m->weights, &both, (int)a->layer, "attn_kv_b.weight", a->rank,
                a->n_head * rows, e);
        if (r < 0)
                return r;
        a->k_turned = true;
        a->k = (struct kern_heads){.first = weights_rows(&both, 0, a->nope),
                .n = a->n_head,
                .stride = rows * both.row_size};
        a->v = a->k;
        a->v.first = weights_rows(&both, a->nope, a->n_value);
        return 0;
}

static int load_queries(struct model *m, struct mla *a, struct err *e) {
        size_t n_embd = m->hparams.n_embd, rank = m->hparams.latent.q_rank;
        size_t n_out = (size_t)a->n_head * a->head_dim;
        int layer = (int)a->layer, r;

        if (!rank)
                return weights_mat(&m->weights, &a->q, layer, "attn_q.weight", n_embd, n_out, e);
        r = weights_mat(&m->weights, &a->q_a, layer, "attn_q_a.weight", n_embd, rank, e);
        if (r < 0)
                return r;
        r = norm_load(m, &a->q_norm, layer, "attn_q_a_norm", rank, e);
        if (r < 0)
                return r;
        return weights_mat(&m->weights, &a->q, layer, "attn_q_b.weight", rank, n_out, e);
}

static int load_tensors(struct model *m, struct mla *a, struct err *e) {
        size_t n_embd = m->hparams.n_embd;
        int layer = (int)a->layer, r;

        r = load_queries(m, a, e);
        if (r < 0)
                return r;
        r = weights_mat(
                &m->weights, &a->kv_a, layer, "attn_kv_a_mqa.weight", n_embd, row_width(a), e);
        if (r < 0)
                return r;
        r = norm_load(m, &a->kv_norm, layer, "attn_kv_a_norm", a->rank, e);
        if (r < 0)
                return r;
        r = m->hparams.latent.split ? load_split(m, a, e) : load_unsplit(m, a, e);
        if (r < 0)
                return r;
        return weights_mat(&m->weights, &a->out, layer, "attn_output.weight",
                (size_t)a->n_head * a->n_value, n_embd, e);
}

static int book_memory(struct model *m, struct mla *a, struct err *e) {
        static const enum model_kv_element elements[KERN_N_KV] = {[KERN_KV_F16] = MODEL_KV_F16,
                [KERN_KV_F32] = MODEL_KV_F32,
                [KERN_KV_Q8_0] = MODEL_KV_I8};
        const struct kern_kv_layout *l = &a->kern.layout;
        struct model_kv_array array = {
                .layer = a->layer,
                .element = elements[l->type],
                .n_tiles = 1,
                .n_channels = l->head_dim_k,
                .n_tokens = l->block_tokens,
        };
        int r;

        if (l->type == KERN_KV_Q8_0 && (a->rank % KERN_KV_GROUP || a->rope % KERN_KV_GROUP))
                return err_set(e, ERR_UNSUPPORTED,
                        "memory of type q8_0 needs rows that are multiples of %d, and this model's "
                        "have %u numbers and %u with positions; use f16 or f32",
                        KERN_KV_GROUP, a->rank, a->rope);
        a->kern.k_offset = array.offset = memory_book(m, SEQ_ALL, kern_kv_k_size(l));
        r = memory_describe(m, SEQ_ALL, &array, e);
        if (r < 0 || l->type != KERN_KV_Q8_0)
                return r;
        array.element = MODEL_KV_F16;
        array.offset += kern_kv_k_scales(l);
        array.n_channels /= KERN_KV_GROUP;
        return memory_describe(m, SEQ_ALL, &array, e);
}

static void book_work(struct model *m, const struct mla *a) {
        size_t n = MIN(a->n_head, (uint32_t)HEADS);
        struct work_dims *d = &m->dims;

        d->n_q = MAX(d->n_q, a->q.n_out);
        d->n_k = MAX(d->n_k, row_width(a));
        d->n_v = MAX(d->n_v, a->q_norm.n);
        d->n_attn = MAX(d->n_attn, a->out.n_in);
        d->n_mix = MAX(d->n_mix, n * (row_width(a) + a->rank));
        if (a->q_norm.n)
                work_dims_mat(d, &a->q_a);
        work_dims_mat(d, &a->q);
        work_dims_mat(d, &a->kv_a);
        work_dims_mat(d, &a->out);
        work_dims_heads(d, &a->k, n);
        work_dims_heads(d, &a->v, n);
}

static int mla_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct mla *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = a;
        *a = (struct mla){
                .tempered = m->arch->temperature != ARCH_TEMPERATURE_NONE &&
                            h->temperature_scale != 0.0f,
                .turns = hparams_layer_has_rope(h, layer),
                .layer = layer,
                .n_head = h->n_head[layer],
                .head_dim = h->head_dim_k,
                .nope = h->latent.nope,
                .rope = h->latent.rope,
                .rank = h->latent.rank,
                .n_value = h->head_dim_v,
                .kern = {.layout = {.type = m->kv_type,
                                 .block_tokens = MODEL_BLOCK_TOKENS,
                                 .n_kv_head = 1,
                                 .head_dim_k = h->latent.rank + h->latent.rope,
                                 .head_dim_v = h->latent.rank,
                                 .latent = true},
                        .scale = h->attn_scale},
        };
        r = load_tensors(m, a, e);
        if (r == 0)
                r = book_memory(m, a, e);
        if (r == 0)
                book_work(m, a);
        return r;
}

/* Rotate the first channels of heads in place. */
static void turn(const struct mla *a, struct model_work *w, float *x, size_t stride, size_t n_head,
        size_t head_dim) {
        const struct rope *rope = &w->model->ropes[0];

        if (a->turns)
                kern_rope(w->kern, x, stride, n_head, head_dim, rope->n_rot, rope->neox,
                        w->rope[0].cos, w->rope[0].sin, w->n);
}

static int mla_store(const void *own, struct model_work *w, struct work_input *in) {
        const struct mla *a = own;
        size_t width = row_width(a);
        int r;

        work_matmul(w, in, &a->kv_a, NULL, w->k);
        norm_forward(&a->kv_norm, w, w->k, w->k, width, w->n);
        turn(a, w, w->k + a->rank, width, 1, a->rope);
        r = work_wait(w, a->layer);
        if (r)
                return r;
        kern_kv_write(w->kern, &a->kern.layout, a->kern.k_offset, 0, w->rows[SEQ_ALL], w->n, w->k,
                width, NULL, 0);
        return 0;
}

/* w->q [n][n_head][nope | rope part] */
static void make_queries(const struct mla *a, struct model_work *w, struct work_input *in) {
        size_t n_q = a->q.n_out;

        if (a->q_norm.n) {
                struct work_input low = work_input(w->v, a->q_norm.n, w->n, w->act[1]);

                work_matmul(w, in, &a->q_a, NULL, w->v);
                norm_forward(&a->q_norm, w, w->v, w->v, a->q_norm.n, w->n);
                work_matmul(w, &low, &a->q, NULL, w->q);
        } else {
                work_matmul(w, in, &a->q, NULL, w->q);
        }
        turn(a, w, w->q + a->nope, n_q, a->n_head, a->head_dim);
        if (a->tempered)
                kern_scale_rows(w->kern, w->q, n_q, n_q, w->n, w->temperature);
}

static struct kern_heads some_heads(const struct kern_heads *all, size_t first, size_t n) {
        struct kern_heads some = *all;

        some.first.data = (const uint8_t *)all->first.data + first * all->stride;
        some.n = n;
        return some;
}

/* Heads [first, first + n): from w->q to w->attn. */
static void attend(const struct mla *a, struct model_work *w, size_t first, size_t n) {
        size_t width = row_width(a), n_q = a->q.n_out, stride = n * width;
        struct kern_heads k = some_heads(&a->k, first, n), v = some_heads(&a->v, first, n);
        const float *q = w->q + first * a->head_dim;
        float *rows = w->mix, *o = w->mix + w->n * stride;
        struct kern_attn kern = a->kern;

        if (a->k_turned)
                kern_heads_matmul_turned(
                        w->kern, &k, q, n_q, a->head_dim, w->n, rows, stride, width);
        else
                kern_heads_matmul(
                        w->kern, &k, q, n_q, a->head_dim, w->n, rows, stride, width, w->act[1]);
        for (size_t t = 0; t < w->n; t++)
                for (size_t i = 0; i < n; i++)
                        memcpy(rows + t * stride + i * width + a->rank,
                                q + t * n_q + i * a->head_dim + a->nope, a->rope * sizeof(*q));
        kern.n_head = (uint32_t)n;
        kern_attention(w->kern, &kern, w->rows[SEQ_ALL], w->n, rows, stride, o, n * a->rank);
        kern_heads_matmul(w->kern, &v, o, n * a->rank, a->rank, w->n, w->attn + first * a->n_value,
                a->out.n_in, a->n_value, w->act[1]);
}

static int mla_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct mla *a = own;
        struct work_input o = work_input(w->attn, a->out.n_in, w->n, w->act[1]);

        make_queries(a, w, in);
        for (size_t i = 0; i < a->n_head; i += HEADS)
                attend(a, w, i, MIN(a->n_head - i, (size_t)HEADS));
        work_matmul(w, &o, &a->out, NULL, out);
        return 0;
}

const struct mixer mixer_mla = {
        .name = "mla", .load = mla_load, .store = mla_store, .forward = mla_forward};
