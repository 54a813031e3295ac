/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows before and after the recurrence: how it is dealt to threads. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "base/util.h"
#include <assert.h>
#include <string.h>

#define SHIFT_COLUMNS 1024

struct mix_job {
        const struct kern_ops *ops;
        const struct kern_run *runs;
        const float *x, *dx, *mu, *m, *s, *w, *b;
        float *y;
        size_t n, ld, n_rows, rows_per_task, n_heads, head_dim, group, offset;
        float eps;
        const struct kern_wkv7_keys *keys;
};

static void run_rows(struct kern *k, struct mix_job *j, size_t n_per_row,
        void (*fn)(void *arg, size_t task, unsigned thread)) {
        j->ops = &k->ops;
        j->rows_per_task = n_per_row < KERN_GRAIN ? KERN_GRAIN / (n_per_row + 1) + 1 : 1;
        kern_run(k, (j->n_rows + j->rows_per_task - 1) / j->rows_per_task, fn, j);
}

static size_t first_row(const struct mix_job *j, size_t task) {
        return task * j->rows_per_task;
}

static size_t end_row(const struct mix_job *j, size_t task) {
        return MIN((task + 1) * j->rows_per_task, j->n_rows);
}

/* Columns of one run. */
static void shift_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;
        const struct kern_run *run = &j->runs[task / j->group];
        size_t col = task % j->group * SHIFT_COLUMNS, n = MIN(j->n - col, (size_t)SHIFT_COLUMNS);
        const float *x = j->x + run->first * j->n + col;
        float *next = (float *)((uint8_t *)run->next + j->offset) + col;
        const float *before = next;

        if (run->state)
                before = (const float *)((const uint8_t *)run->state + j->offset) + col;
        else
                memset(next, 0, n * sizeof(*next));
        for (size_t t = 0; t < run->n; t++, before = x, x += j->n)
                j->ops->difference(x, before, j->y + (run->first + t) * j->n + col, n);
        memcpy(next, before, n * sizeof(*next));
}

void kern_token_shift(struct kern *k, const struct kern_run *runs, size_t n_runs,
        size_t state_offset, const float *x, size_t n, float *dx) {
        struct mix_job j = {
                .ops = &k->ops, .runs = runs, .offset = state_offset, .x = x, .n = n, .y = dx};

        j.group = (n + SHIFT_COLUMNS - 1) / SHIFT_COLUMNS;
        kern_run(k, n_runs * j.group, shift_task, &j);
}

static void lerp_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;

        for (size_t t = first_row(j, task); t < end_row(j, task); t++)
                j->ops->lerp(j->x + t * j->n, j->dx + t * j->n, j->mu,
                        j->m ? j->m + t * j->n : NULL, j->y + t * j->n, j->n);
}

void kern_lerp(struct kern *k, const float *x, const float *dx, const float *mu, const float *m,
        size_t n, size_t n_tokens, float *y) {
        struct mix_job j = {.x = x, .dx = dx, .mu = mu, .m = m, .n = n, .n_rows = n_tokens, .y = y};

        run_rows(k, &j, n, lerp_task);
}

static void blend_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;
        size_t i = task * KERN_GRAIN;

        j->ops->blend(j->y + i, j->x + i, j->s + i, MIN(j->n - i, (size_t)KERN_GRAIN));
}

void kern_blend(struct kern *k, float *y, const float *x, const float *s, size_t n) {
        struct mix_job j = {.ops = &k->ops, .x = x, .s = s, .n = n, .y = y};

        kern_run(k, (n + KERN_GRAIN - 1) / KERN_GRAIN, blend_task, &j);
}

static void exp_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;

        bool each = j->group == 1;
        size_t step = each ? j->n : j->group;

        for (size_t t = first_row(j, task); t < end_row(j, task); t++)
                for (size_t i = 0; i < j->n; i += step)
                        j->ops->exp_scaled(j->y + t * j->n + i, j->s + i / j->group, each, step);
}

void kern_exp_scaled(
        struct kern *k, float *x, const float *s, size_t group, size_t n, size_t n_tokens) {
        struct mix_job j = {.s = s, .group = group, .n = n, .n_rows = n_tokens, .y = x};

        assert(group >= 1 && n % group == 0);
        run_rows(k, &j, n, exp_task);
}

static void l2norm_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;

        for (size_t t = first_row(j, task); t < end_row(j, task); t++)
                for (size_t h = 0; h < j->n_heads; h++)
                        j->ops->l2norm(j->y + t * j->ld + h * j->head_dim, j->head_dim, j->eps);
}

void kern_l2norm(struct kern *k, float *x, size_t ldx, size_t n_heads, size_t head_dim, float eps,
        size_t n_tokens) {
        struct mix_job j = {.y = x,
                .ld = ldx,
                .n_heads = n_heads,
                .head_dim = head_dim,
                .eps = eps,
                .n_rows = n_tokens};

        run_rows(k, &j, n_heads * head_dim, l2norm_task);
}

static void group_norm_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;

        for (size_t t = first_row(j, task); t < end_row(j, task); t++)
                for (size_t h = 0; h < j->n_heads; h++) {
                        size_t at = h * j->head_dim;
                        float *x = j->y + t * j->n_heads * j->head_dim + at;

                        j->ops->layernorm(x, j->w + at, j->b + at, j->eps, j->head_dim, x);
                }
}

void kern_group_norm(struct kern *k, float *x, size_t n_heads, size_t head_dim, const float *w,
        const float *b, float eps, size_t n_tokens) {
        struct mix_job j = {.y = x,
                .n_heads = n_heads,
                .head_dim = head_dim,
                .w = w,
                .b = b,
                .eps = eps,
                .n_rows = n_tokens};

        run_rows(k, &j, n_heads * head_dim, group_norm_task);
}

static void add_scaled_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;

        for (size_t t = first_row(j, task); t < end_row(j, task); t++)
                j->ops->add_scaled(j->y + t * j->n, j->x + t * j->n, j->s[t], j->n);
}

void kern_add_scaled_rows(
        struct kern *k, float *y, const float *x, const float *s, size_t n, size_t n_rows) {
        struct mix_job j = {.y = y, .x = x, .s = s, .n = n, .n_rows = n_rows};

        run_rows(k, &j, n, add_scaled_task);
}

static void keys_task(void *arg, size_t task, unsigned thread) {
        const struct mix_job *j = arg;
        const struct kern_wkv7_keys *x = j->keys;

        for (size_t i = first_row(j, task); i < end_row(j, task); i++) {
                size_t at = i * j->head_dim, w = i % j->n_heads * j->head_dim;
                struct kern_wkv7_keys head = {.k_k = x->k_k + w,
                        .k_a = x->k_a + w,
                        .r_k = x->r_k + w,
                        .r = x->r + at,
                        .a = x->a + at,
                        .k = x->k + at,
                        .kk = x->kk + at,
                        .bonus = x->bonus + i};

                j->ops->wkv7_keys(&head, j->head_dim);
        }
}

void kern_wkv7_keys(struct kern *k, const struct kern_wkv *x, size_t n_tokens,
        const struct kern_wkv7_keys *keys) {
        struct mix_job j = {.keys = keys,
                .n_heads = x->n_head,
                .head_dim = x->n_key,
                .n_rows = n_tokens * x->n_head};

        assert(x->n_key <= KERN_STATE_KEYS);
        run_rows(k, &j, x->n_key, keys_task);
}
