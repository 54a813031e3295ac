/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

/*
 * The memory of a model_work is one allocation. The same walk computes its size (base = 0) and
 * places the pointers, so that model_work_size() is exact by construction.
 */
struct plan {
        uintptr_t base;
        size_t used;
        bool overflow;
};

static void *plan_take(struct plan *p, size_t a, size_t b, size_t elem) {
        size_t n, end;
        void *r = p->base ? (void *)(p->base + p->used) : NULL;

        if (mul_overflow(a, b, &n) || mul_overflow(n, elem, &n) || n > SIZE_MAX - 64 ||
                add_overflow(p->used, align_up(n, 64), &end)) {
                p->overflow = true;
                return NULL;
        }
        p->used = end;
        return r;
}

static void plan_floats(struct plan *p, float **ret, size_t rows, size_t width) {
        *ret = plan_take(p, rows, width, sizeof(float));
}

static void plan_moe(struct plan *p, struct work_moe *w, const struct work_dims *d, size_t n) {
        size_t k = d->n_expert_used;

        if (!d->n_expert)
                return;
        plan_floats(p, &w->probs, n, d->n_expert);
        plan_floats(p, &w->weight, n, k);
        plan_floats(p, &w->x, n, d->n_embd);
        w->expert = plan_take(p, n, k, sizeof(*w->expert));
        w->slot = plan_take(p, n, k, sizeof(*w->slot));
        w->choice = plan_take(p, n, k, sizeof(*w->choice));
        w->start = plan_take(p, d->n_expert + 1, 1, sizeof(*w->start));
        w->out = plan_take(p, n * k, d->n_embd, sizeof(*w->out));
        plan_floats(p, &w->factor, n, 1);
}

static size_t plan_act_size(const struct work_dims *d, size_t n) {
        size_t size = 0;

        for (int c = 0; c < KERN_N_ACT; c++)
                size = MAX(size, kern_act_size((enum kern_act_class)c, d->act_n_in[c], n));
        for (int c = 0; c < KERN_N_ACT; c++)
                size = MAX(size,
                        kern_heads_size((enum kern_act_class)c, d->heads[c], d->heads_n_in[c], n));
        return size;
}

/* Bytes; SIZE_MAX if they do not fit a size_t. */
static size_t work_plan(
        struct model_work *w, const struct model *m, uint32_t max_tokens, uint32_t max_outputs) {
        const struct work_dims *d = &m->dims;
        struct plan p = {.base = (uintptr_t)w->memory};
        size_t n = max_tokens, act = plan_act_size(d, n);

        w->token = plan_take(&p, n, 1, sizeof(*w->token));
        w->pos = plan_take(&p, n, 1, sizeof(*w->pos));
        for (size_t i = 0; i < ARRAY_SIZE(w->rows); i++)
                w->rows[i] = plan_take(&p, n, 1, sizeof(*w->rows[i]));
        w->runs = plan_take(&p, n, 1, sizeof(*w->runs));
        w->output = plan_take(&p, n, 1, sizeof(*w->output));
        plan_floats(&p, &w->x, n, d->n_embd);
        plan_floats(&p, &w->norm, n, d->n_embd);
        plan_floats(&p, &w->branch, n, d->n_embd);
        plan_floats(&p, &w->q, n, d->n_q);
        plan_floats(&p, &w->k, n, d->n_k);
        plan_floats(&p, &w->v, n, d->n_v);
        plan_floats(&p, &w->attn, n, d->n_attn);
        plan_floats(&p, &w->gate, n, d->n_ff);
        plan_floats(&p, &w->up, n, d->n_ff);
        for (size_t i = 0; i < ARRAY_SIZE(w->rope); i++) {
                plan_floats(&p, &w->rope[i].cos, n, m->ropes[i].n_rot / 2);
                plan_floats(&p, &w->rope[i].sin, n, m->ropes[i].n_rot / 2);
        }
        plan_floats(&p, &w->temperature, n, m->arch->temperature != ARCH_TEMPERATURE_NONE);
        plan_floats(&p, &w->own, n, d->n_own);
        plan_floats(&p, &w->mix, n, d->n_mix);
        plan_floats(&p, &w->logits, max_outputs, d->n_vocab);
        for (size_t i = 0; i < ARRAY_SIZE(w->act); i++)
                w->act[i] = plan_take(&p, act, 1, 1);
        plan_moe(&p, &w->moe, d, n);
        return p.overflow ? SIZE_MAX : p.used;
}

size_t model_work_size(const struct model *m, uint32_t max_tokens, uint32_t max_outputs) {
        struct model_work w = {0};
        size_t size = work_plan(&w, m, max_tokens, max_outputs);

        return size > SIZE_MAX - sizeof(w) ? SIZE_MAX : size + sizeof(w);
}

int model_work_new(struct model_work **ret, const struct model *m, struct kern *k,
        uint32_t max_tokens, uint32_t max_outputs, struct err *e) {
        _cleanup_(model_work_freep) struct model_work *w = NULL;
        size_t size;

        if (!max_tokens || !max_outputs || max_outputs > max_tokens)
                return err_set(e, ERR_INVALID,
                        "a batch of %u tokens with %u outputs makes no sense", max_tokens,
                        max_outputs);
        w = calloc(1, sizeof(*w));
        if (!w)
                return err_set(e, ERR_NOMEM, "no memory for activations");
        size = work_plan(w, m, max_tokens, max_outputs);
        if (size == SIZE_MAX)
                return err_set(e, ERR_LIMIT, "activations of %u tokens are too large", max_tokens);
        w->memory = aligned_alloc(64, size);
        if (!w->memory)
                return err_set(e, ERR_NOMEM, "no memory for %zu bytes of activations", size);
        work_plan(w, m, max_tokens, max_outputs);
        w->model = m;
        w->kern = k;
        w->max_tokens = max_tokens;
        w->max_outputs = max_outputs;
        *ret = TAKE_PTR(w);
        return 0;
}

struct model_work *model_work_free(struct model_work *w) {
        if (!w)
                return NULL;
        free(w->memory);
        free(w);
        return NULL;
}

void work_dims_stack(struct work_dims *d, const struct weights_stack *stack) {
        enum kern_act_class c = kern_act_class(stack->first.type);
        enum kern_act_class repacked = kern_repacked_act_class(stack->first.type);
        struct weights_stack *mats =
                realloc(d->mats, (d->n_mats + 1) * sizeof(*mats)); /* some hundreds at most */

        d->act_n_in[c] = MAX(d->act_n_in[c], stack->first.n_in);
        d->act_n_in[repacked] = MAX(d->act_n_in[repacked], stack->first.n_in);
        if (!mats) {
                d->no_memory = true;
                return;
        }
        d->mats = mats;
        d->mats[d->n_mats++] = *stack;
}

void work_dims_mat(struct work_dims *d, const struct kern_mat *mat) {
        work_dims_stack(d, &(struct weights_stack){.first = *mat, .n = 1});
}

void work_dims_heads(struct work_dims *d, const struct kern_heads *heads, size_t n) {
        enum kern_act_class c = kern_act_class(heads->first.type);

        d->heads[c] = MAX(d->heads[c], n);
        d->heads_n_in[c] = MAX(d->heads_n_in[c], heads->first.n_in);
}

void work_matmul_all(
        struct model_work *w, struct work_input *in, const struct work_product *p, size_t n) {
        struct kern_mat found[KERN_PRODUCTS_MAX];
        struct kern_product all[KERN_PRODUCTS_MAX];

        size_t first = 0;

        assert(n <= KERN_PRODUCTS_MAX);
        for (size_t i = 0; i < n; i++) {
                enum kern_act_class c;

                found[i] = repack_find(w->model->repack, p[i].mat);
                all[i] = (struct kern_product){&found[i], p[i].bias, p[i].y, found[i].n_out};
                c = kern_mat_act_class(&found[i]);
                if (in->prepared && in->act.act_class == c)
                        continue;
                /* Those before want the rows in another way. */
                kern_matmul_all(w->kern, &in->act, all + first, i - first);
                first = i;
                kern_act_prepare(
                        w->kern, &in->act, c, in->x, in->n_in, in->n_in, in->n, in->scratch);
                in->prepared = true;
        }
        kern_matmul_all(w->kern, &in->act, all + first, n - first);
}

void work_matmul(struct model_work *w, struct work_input *in, const struct kern_mat *mat,
        const float *bias, float *y) {
        work_matmul_all(w, in, &(struct work_product){mat, bias, y}, 1);
}

static void work_move_row(float *base, size_t to, size_t from, size_t width) {
        memcpy(base + to * width, base + from * width, width * sizeof(*base));
}

void work_keep_outputs(struct model_work *w) {
        const struct work_dims *d = &w->model->dims;

        for (size_t i = 0; i < w->n_out; i++) {
                size_t from = w->output[i];

                if (from == i)
                        continue;
                work_move_row(w->x, i, from, d->n_embd);
                work_move_row(w->norm, i, from, d->n_embd);
                work_move_row(w->branch, i, from, d->n_embd);
                for (size_t k = 0; k < ARRAY_SIZE(w->rope); k++) {
                        work_move_row(w->rope[k].cos, i, from, w->model->ropes[k].n_rot / 2);
                        work_move_row(w->rope[k].sin, i, from, w->model->ropes[k].n_rot / 2);
                }
                if (w->model->arch->temperature != ARCH_TEMPERATURE_NONE)
                        w->temperature[i] = w->temperature[from];
                for (size_t k = 0; k < ARRAY_SIZE(w->rows); k++)
                        w->rows[k][i] = w->rows[k][from];
                w->output[i] = (uint32_t)i;
        }
        w->n = w->n_out;
        w->n_runs = 0;
}
