/* SPDX-License-Identifier: MIT */
/*
 * Recurrence with a matrix for each head: how it is dealt to threads. A task takes one panel of a
 * head's matrix through all tokens of one run, so that it stays in the cache.
 */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "kern/state.h"
#include "base/util.h"
#include <assert.h>
#include <string.h>

struct state_job {
        const struct kern_ops *ops;
        const struct kern_run *runs;
        size_t n_head, n_key, n_value, panel /* values of one */, n_panels, offset;
        const struct kern_delta *delta;
        const struct kern_delta_rows *delta_rows;
        const struct kern_wkv_rows *wkv_rows;
        void (*wkv)(const struct kern_wkv_part *part);
};

size_t kern_state_panel(size_t n_value) {
        size_t n = MIN(n_value, (size_t)KERN_STATE_PANEL);

        while (n_value % n)
                n--;
        return n;
}

/* What a task is about. */
struct state_task {
        const struct kern_run *run;
        size_t head, col; /* the part's first column */
};

static struct state_task state_task(const struct state_job *j, size_t task) {
        return (struct state_task){.run = j->runs + task / j->n_panels / j->n_head,
                .head = task / j->n_panels % j->n_head,
                .col = task % j->n_panels * j->panel};
}

/* A sequence begins with zeros, which are computed with as any other state. */
static struct kern_state_part state_part(const struct state_job *j, const struct state_task *t) {
        size_t first = (t->head * j->n_value + t->col) * j->n_key;
        const uint8_t *state = t->run->state;
        struct kern_state_part p = {
                .next = (float *)((uint8_t *)t->run->next + j->offset) + first,
                .n_key = j->n_key,
                .n = j->panel,
                .n_tokens = t->run->n,
        };

        if (state) {
                p.state = (const float *)(state + j->offset) + first;
                return p;
        }
        memset(p.next, 0, p.n_key * p.n * sizeof(float));
        p.state = p.next;
        return p;
}

static void run_states(struct kern *k, struct state_job *j, size_t n_runs,
        void (*fn)(void *arg, size_t task, unsigned thread)) {
        size_t n_tasks, n_rows = 0;

        assert(j->n_key >= 1 && j->n_key <= KERN_STATE_KEYS && j->n_value >= 1);
        j->ops = &k->ops;
        j->panel = kern_state_panel(j->n_value);
        j->n_panels = j->n_value / j->panel;
        n_tasks = n_runs * j->n_head * j->n_panels;
        for (size_t i = 0; i < n_runs; i++)
                n_rows += j->runs[i].n;
        /* Below this waking a thread costs more than it brings. */
        if (n_rows * j->n_head * j->n_key * j->n_value >= KERN_GRAIN)
                kern_run(k, n_tasks, fn, j);
        else
                for (size_t i = 0; i < n_tasks; i++)
                        fn(j, i, 0);
}

static void delta_task(void *arg, size_t task, unsigned thread) {
        const struct state_job *j = arg;
        const struct kern_delta *d = j->delta;
        const struct kern_delta_rows *x = j->delta_rows;
        struct state_task t = state_task(j, task);
        size_t kh = d->interleaved ? t.head % d->n_key_head : t.head / (d->n_head / d->n_key_head);
        size_t row = t.run->first, per_head = d->decay_per_key ? d->n_key : 1;
        struct kern_delta_part p = {
                .s = state_part(j, &t),
                .q = x->q + row * x->ldq + kh * d->n_key,
                .k = x->k + row * x->ldk + kh * d->n_key,
                .v = x->v + row * x->ldv + t.head * d->n_value + t.col,
                .decay = x->decay + (row * d->n_head + t.head) * per_head,
                .beta = x->beta + row * d->n_head + t.head,
                .out = x->out + row * x->ldo + t.head * d->n_value + t.col,
                .ldq = x->ldq,
                .ldk = x->ldk,
                .ldv = x->ldv,
                .ldo = x->ldo,
                .lddecay = d->n_head * per_head,
                .ldbeta = d->n_head,
                .decay_per_key = d->decay_per_key,
                .scale = d->scale,
        };

        j->ops->delta(&p);
}

void kern_delta(struct kern *k, const struct kern_delta *d, const struct kern_run *runs,
        size_t n_runs, const struct kern_delta_rows *rows) {
        struct state_job j = {.runs = runs,
                .n_head = d->n_head,
                .n_key = d->n_key,
                .n_value = d->n_value,
                .offset = d->state_offset,
                .delta = d,
                .delta_rows = rows};

        run_states(k, &j, n_runs, delta_task);
}

static void wkv_task(void *arg, size_t task, unsigned thread) {
        const struct state_job *j = arg;
        const struct kern_wkv_rows *x = j->wkv_rows;
        struct state_task t = state_task(j, task);
        size_t ld = j->n_head * j->n_key, head = t.head * j->n_key, at = t.run->first * ld + head;
        struct kern_wkv_part p = {
                .s = state_part(j, &t),
                .r = x->r + at,
                .w = x->w + at,
                .k = x->k + at,
                .v = x->v + at + t.col,
                .u = x->u ? x->u + head : NULL,
                .kk = x->kk ? x->kk + at : NULL,
                .a = x->a ? x->a + at : NULL,
                .out = x->out + at + t.col,
                .ld = ld,
        };

        j->wkv(&p);
}

static void run_wkv(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs,
        size_t n_runs, const struct kern_wkv_rows *rows,
        void (*wkv)(const struct kern_wkv_part *part)) {
        struct state_job j = {.runs = runs,
                .n_head = x->n_head,
                .n_key = x->n_key,
                .n_value = x->n_key,
                .offset = x->state_offset,
                .wkv_rows = rows,
                .wkv = wkv};

        run_states(k, &j, n_runs, wkv_task);
}

void kern_wkv6(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs, size_t n_runs,
        const struct kern_wkv_rows *rows) {
        run_wkv(k, x, runs, n_runs, rows, k->ops.wkv6);
}

void kern_wkv7(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs, size_t n_runs,
        const struct kern_wkv_rows *rows) {
        run_wkv(k, x, runs, n_runs, rows, k->ops.wkv7);
}
