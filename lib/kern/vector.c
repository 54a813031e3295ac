/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements: how they are dealt to threads. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "base/util.h"

struct vector_job {
        const struct kern_ops *ops;
        const float *x, *w, *b, *cos, *sin;
        float *y;
        size_t ldx, ldy, n, n_tokens, tokens_per_task;
        size_t n_heads, head_dim;
        float s; /* eps, or the factor */
        bool neox;
};

static void run_tokens(struct kern *k, struct vector_job *j, size_t n_elements_per_token,
        void (*fn)(void *arg, size_t task, unsigned thread)) {
        j->ops = &k->ops;
        j->tokens_per_task =
                n_elements_per_token < KERN_GRAIN ? KERN_GRAIN / (n_elements_per_token + 1) + 1 : 1;
        kern_run(k, (j->n_tokens + j->tokens_per_task - 1) / j->tokens_per_task, fn, j);
}

static void run_elements(
        struct kern *k, struct vector_job *j, void (*fn)(void *arg, size_t task, unsigned thread)) {
        j->ops = &k->ops;
        kern_run(k, (j->n + KERN_GRAIN - 1) / KERN_GRAIN, fn, j);
}

static void rmsnorm_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t t0 = task * j->tokens_per_task, t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);

        for (size_t t = t0; t < t1; t++)
                j->ops->rmsnorm(j->x + t * j->ldx, j->w, j->s, j->n, j->y + t * j->ldy);
}

void kern_rmsnorm(struct kern *k, const float *x, size_t ldx, const float *w, float eps, size_t n,
        size_t n_tokens, float *y, size_t ldy) {
        struct vector_job j = {.x = x, .ldx = ldx, .w = w, .s = eps, .n = n, .n_tokens = n_tokens};

        j.y = y;
        j.ldy = ldy;
        run_tokens(k, &j, n, rmsnorm_task);
}

static void layernorm_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t t0 = task * j->tokens_per_task, t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);

        for (size_t t = t0; t < t1; t++)
                j->ops->layernorm(j->x + t * j->ldx, j->w, j->b, j->s, j->n, j->y + t * j->ldy);
}

void kern_layernorm(struct kern *k, const float *x, size_t ldx, const float *w, const float *b,
        float eps, size_t n, size_t n_tokens, float *y, size_t ldy) {
        struct vector_job j = {.x = x, .ldx = ldx, .w = w, .b = b, .s = eps, .n = n};

        j.n_tokens = n_tokens;
        j.y = y;
        j.ldy = ldy;
        run_tokens(k, &j, n, layernorm_task);
}

static void rope_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t t0 = task * j->tokens_per_task, t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);
        size_t half = j->n / 2;

        for (size_t t = t0; t < t1; t++)
                j->ops->rope(j->y + t * j->ldy, j->n_heads, j->head_dim, j->n, j->neox,
                        j->cos + t * half, j->sin + t * half);
}

void kern_rope(struct kern *k, float *x, size_t ldx, size_t n_heads, size_t head_dim, size_t n_rot,
        bool neox, const float *cos, const float *sin, size_t n_tokens) {
        struct vector_job j = {.y = x, .ldy = ldx, .n_heads = n_heads, .head_dim = head_dim};

        j.n = n_rot;
        j.neox = neox;
        j.cos = cos;
        j.sin = sin;
        j.n_tokens = n_tokens;
        run_tokens(k, &j, n_heads * n_rot, rope_task);
}

static void add_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t i = task * KERN_GRAIN;

        j->ops->add(j->y + i, j->x + i, MIN(j->n - i, (size_t)KERN_GRAIN));
}

void kern_add(struct kern *k, float *y, const float *x, size_t n) {
        struct vector_job j = {.x = x, .y = y, .n = n};

        run_elements(k, &j, add_task);
}

static void add_scaled_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t i = task * KERN_GRAIN;

        j->ops->add_scaled(j->y + i, j->x + i, j->s, MIN(j->n - i, (size_t)KERN_GRAIN));
}

void kern_add_scaled(struct kern *k, float *y, const float *x, float s, size_t n) {
        struct vector_job j = {.x = x, .y = y, .s = s, .n = n};

        run_elements(k, &j, add_scaled_task);
}

static void scale_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t i = task * KERN_GRAIN;

        j->ops->scale(j->y + i, j->s, MIN(j->n - i, (size_t)KERN_GRAIN));
}

void kern_scale(struct kern *k, float *x, float s, size_t n) {
        struct vector_job j = {.y = x, .s = s, .n = n};

        run_elements(k, &j, scale_task);
}

static void scale_rows_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t t0 = task * j->tokens_per_task, t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);

        for (size_t t = t0; t < t1; t++)
                j->ops->scale(j->y + t * j->ldy, j->w[t], j->n);
}

void kern_scale_rows(
        struct kern *k, float *x, size_t ldx, size_t n, size_t n_tokens, const float *s) {
        struct vector_job j = {.y = x, .ldy = ldx, .n = n, .n_tokens = n_tokens, .w = s};

        run_tokens(k, &j, n, scale_rows_task);
}

static void mul_task(void *arg, size_t task, unsigned thread) {
        struct vector_job *j = arg;
        size_t i = task * KERN_GRAIN;

        j->ops->mul(j->y + i, j->x + i, MIN(j->n - i, (size_t)KERN_GRAIN));
}

void kern_mul(struct kern *k, float *y, const float *x, size_t n) {
        struct vector_job j = {.x = x, .y = y, .n = n};

        run_elements(k, &j, mul_task);
}

void kern_softmax(struct kern *k, float *x, size_t n) {
        if (n > 0)
                k->ops.softmax(x, n);
}
