/* SPDX-License-Identifier: MIT */
/*
 * Recurrent kernels: how they are dealt to threads.
 *
 * A task is a slice of the channels (or heads) of one run: rows of a run depend on each other, channels do
 * not. All runs are cut into the same slices, sized for a run of average length; where runs are many
 * and short a task is all of a run.
 */
#include <assert.h>
#include <string.h>

#include "base/util.h"
#include "kern/kern-isa.h"
#include "kern/kern.h"

/* A task of a convolution is at least so many channels wide, and takes so many rows at a time. */
#define CONV_CHANNELS 256
#define CONV_ROWS 32

struct scan_job {
        const struct kern_ops *ops;
        const struct kern_run *runs;
        size_t n_runs, n_slices, slice; /* units per slice */
        const struct kern_conv *conv;
        const struct kern_scan *scan;
        const struct kern_scan_rows *rows;
        /* conv; softplus */
        const float *x, *bias;
        float *y;
        size_t ldx, ldy, n, n_tokens, tokens_per_task;
};

static size_t round_up(size_t n) {
        return (n + KERN_SCAN_LANES - 1) / KERN_SCAN_LANES * KERN_SCAN_LANES;
}

/* @n_units, each of @size elements per row, in slices of a multiple of @step units. */
static void run_slices(struct kern *k, struct scan_job *j, const struct kern_run *runs,
        size_t n_runs, size_t n_units, size_t size, size_t step,
        void (*fn)(void *arg, size_t task, unsigned thread)) {
        size_t n_rows = 0;

        if (!n_runs)
                return;
        for (size_t i = 0; i < n_runs; i++)
                n_rows += runs[i].n;
        j->ops = &k->ops;
        j->runs = runs;
        j->n_runs = n_runs;
        j->slice = KERN_GRAIN / (size * step * ((n_rows + n_runs - 1) / n_runs));
        j->slice = MAX(j->slice, (size_t)1) * step;
        j->n_slices = (n_units + j->slice - 1) / j->slice;
        kern_run(k, n_runs * j->n_slices, fn, j);
}

static void conv_task(void *arg, size_t task, unsigned thread) {
        const struct scan_job *j = arg;
        const struct kern_run *run = &j->runs[task / j->n_slices];
        size_t from = task % j->n_slices * j->slice, offset = j->conv->state_offset;
        struct kern_conv_piece p = {
                .conv = j->conv,
                .from = from,
                .to = MIN(from + j->slice, j->conv->n_channels),
                .n = run->n,
                .x = j->x + run->first * j->ldx,
                .y = j->y + run->first * j->ldy,
                .ldx = j->ldx,
                .ldy = j->ldy,
                .state = run->state ? (const float *)((const uint8_t *)run->state + offset) : NULL,
                .next = (float *)((uint8_t *)run->next + offset),
        };

        /* Part after part of the rows, so that pages and cache lines of a row are used while at hand. */
        for (size_t rows = run->n; rows > 0; rows -= p.n) {
                p.n = MIN(rows, (size_t)CONV_ROWS);
                j->ops->conv(&p);
                p.x += p.n * p.ldx;
                p.y += p.n * p.ldy;
                p.state = p.next;
        }
}

void kern_conv(struct kern *k, const struct kern_conv *c, const struct kern_run *runs,
        size_t n_runs, const float *x, size_t ldx, float *y, size_t ldy) {
        struct scan_job j = {.conv = c, .x = x, .ldx = ldx, .y = y, .ldy = ldy};

        assert(c->n_taps >= KERN_CONV_TAPS_MIN && c->n_taps <= KERN_CONV_TAPS_MAX);
        run_slices(k, &j, runs, n_runs, c->n_channels, 1, CONV_CHANNELS, conv_task);
}

static void softplus_task(void *arg, size_t task, unsigned thread) {
        const struct scan_job *j = arg;
        size_t t0 = task * j->tokens_per_task, t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);

        for (size_t t = t0; t < t1; t++)
                j->ops->softplus(j->x + t * j->ldx, j->bias, j->y + t * j->ldy, j->n);
}

void kern_softplus(struct kern *k, const float *x, size_t ldx, const float *bias, size_t n,
        size_t n_tokens, float *y, size_t ldy) {
        struct scan_job j = {.ops = &k->ops, .x = x, .ldx = ldx, .bias = bias, .y = y, .ldy = ldy};

        j.n = n;
        j.n_tokens = n_tokens;
        j.tokens_per_task = KERN_GRAIN / (n + 1) + 1;
        kern_run(k, (n_tokens + j.tokens_per_task - 1) / j.tokens_per_task, softplus_task, &j);
}

/* What a tile and a head have in common; @unit is the number of either, @stride that of its state. */
static struct kern_scan_tile tile_of(
        const struct scan_job *j, const struct kern_run *run, size_t unit, size_t stride) {
        const struct kern_scan *s = j->scan;
        const struct kern_scan_rows *r = j->rows;
        size_t size = s->n_state * stride, at = s->state_offset / sizeof(float) + unit * size;
        struct kern_scan_tile t = {
                .n = run->n,
                .n_state = s->n_state,
                .stride = stride,
                .b = r->b + run->first * r->ldbc,
                .c = r->c + run->first * r->ldbc,
                .ldx = r->ldx,
                .lddt = r->lddt,
                .ldbc = r->ldbc,
                .ldy = r->ldy,
                .next = (float *)run->next + at,
        };

        t.state = t.next;
        if (run->state)
                t.state = (const float *)run->state + at;
        else
                memset(t.next, 0, size * sizeof(float));
        return t;
}

static void channels_task(void *arg, size_t task, unsigned thread) {
        const struct scan_job *j = arg;
        const struct kern_scan *s = j->scan;
        const struct kern_scan_rows *r = j->rows;
        const struct kern_run *run = &j->runs[task / j->n_slices];
        size_t n_tiles = round_up(s->n_heads) / KERN_SCAN_LANES, i = task % j->n_slices * j->slice;
        size_t end = MIN(i + j->slice, n_tiles);

        for (; i < end; i++) {
                struct kern_scan_tile t = tile_of(j, run, i, KERN_SCAN_LANES);
                size_t at = i * KERN_SCAN_LANES;

                t.width = MIN(s->n_heads - at, (size_t)KERN_SCAN_LANES);
                t.x = r->x + run->first * r->ldx + at;
                t.dt = r->dt + run->first * r->lddt + at;
                t.y = r->y + run->first * r->ldy + at;
                t.a = s->a + at * s->n_state;
                t.d = s->d + at;
                j->ops->scan_channels(&t);
        }
}

size_t kern_scan_channels_size(size_t n_channels, size_t n_state) {
        return round_up(n_channels) * n_state;
}

void kern_scan_channels(struct kern *k, const struct kern_scan *s, const struct kern_run *runs,
        size_t n_runs, const struct kern_scan_rows *r) {
        struct scan_job j = {.scan = s, .rows = r};

        assert(s->head_dim == 1 && s->n_groups == 1);
        run_slices(k, &j, runs, n_runs, round_up(s->n_heads) / KERN_SCAN_LANES,
                s->n_state * KERN_SCAN_LANES, 1, channels_task);
}

static void heads_task(void *arg, size_t task, unsigned thread) {
        const struct scan_job *j = arg;
        const struct kern_scan *s = j->scan;
        const struct kern_scan_rows *r = j->rows;
        const struct kern_run *run = &j->runs[task / j->n_slices];
        size_t i = task % j->n_slices * j->slice, end = MIN(i + j->slice, s->n_heads);

        for (; i < end; i++) {
                struct kern_scan_tile t = tile_of(j, run, i, round_up(s->head_dim));
                size_t group = i / (s->n_heads / s->n_groups) * s->n_state;

                t.width = s->head_dim;
                t.x = r->x + run->first * r->ldx + i * s->head_dim;
                t.dt = r->dt + run->first * r->lddt + i;
                t.b += group;
                t.c += group;
                t.y = r->y + run->first * r->ldy + i * s->head_dim;
                t.a = s->a + i;
                t.d = s->d + i;
                j->ops->scan_head(&t);
        }
}

size_t kern_scan_heads_size(size_t n_heads, size_t head_dim, size_t n_state) {
        return n_heads * n_state * round_up(head_dim);
}

void kern_scan_heads(struct kern *k, const struct kern_scan *s, const struct kern_run *runs,
        size_t n_runs, const struct kern_scan_rows *r) {
        struct scan_job j = {.scan = s, .rows = r};

        assert(s->n_heads % s->n_groups == 0);
        run_slices(
                k, &j, runs, n_runs, s->n_heads, s->n_state * round_up(s->head_dim), 1, heads_task);
}
