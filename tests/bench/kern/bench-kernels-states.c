/* SPDX-License-Identifier: MIT */
/*
 * The kernels that go over a state: scans, and recurrence with a matrix for each head.
 *
 * One token reads all of a layer's state and writes all of the next one, so its roof is a copy as large as the states of
 * all layers, from memory to memory, by all threads. Of many tokens a part of the state stays in the first cache, and the
 * roof is the products (its exponentials among them, in a scan of channels). The rows are few bytes beside the state, and
 * are not counted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "bench-kernels.h"
#include "bench.h"
#include "kern/kern.h"

#define MAX_TOKENS 64

struct state;
struct bench {
        struct kern *k;
        const struct state *shape;
        size_t n_layers, layer, offset, size; /* bytes of a layer's state, the next one's place */
        struct kern_run run;
        float *x, *half, *dt, *bc, *a,
                *y; /* rows of values; of 0.5; steps; entries; decays; results */
};

struct state {
        const char *name;
        void (*run)(const struct bench *b);
        size_t n_head, n_key, n_value; /* channels: heads; entries of a state: keys */
        float products;                /* of an entry */
};

static void run_scan(const struct bench *b) {
        const struct state *h = b->shape;
        size_t width = h->n_head * h->n_value;
        const struct kern_scan s = {.n_heads = h->n_head,
                .head_dim = h->n_value,
                .n_state = h->n_key,
                .n_groups = 1,
                .a = b->a,
                .d = b->half,
                .state_offset = b->offset};
        const struct kern_scan_rows r = {.x = b->x,
                .dt = b->dt,
                .b = b->bc,
                .c = b->bc + h->n_key,
                .y = b->y,
                .ldx = width,
                .lddt = h->n_head,
                .ldbc = 2 * h->n_key,
                .ldy = width};

        (h->n_value == 1 ? kern_scan_channels : kern_scan_heads)(b->k, &s, &b->run, 1, &r);
}

static void delta(const struct bench *b, bool decay_per_key) {
        const struct state *h = b->shape;
        size_t width = h->n_head * h->n_value;
        const struct kern_delta d = {.n_head = h->n_head,
                .n_key_head = h->n_head / 2,
                .n_key = h->n_key,
                .n_value = h->n_value,
                .decay_per_key = decay_per_key,
                .scale = 0.1f,
                .state_offset = b->offset};
        const struct kern_delta_rows rows = {.q = b->x,
                .k = b->x,
                .v = b->x,
                .ldq = width,
                .ldk = width,
                .ldv = width,
                .decay = b->half,
                .beta = b->half,
                .out = b->y,
                .ldo = width};

        kern_delta(b->k, &d, &b->run, 1, &rows);
}

static void run_delta(const struct bench *b) {
        delta(b, false);
}

static void run_delta_keys(const struct bench *b) {
        delta(b, true);
}

static void wkv(const struct bench *b,
        void (*fn)(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs,
                size_t n_runs, const struct kern_wkv_rows *rows)) {
        const struct kern_wkv x = {b->shape->n_head, b->shape->n_key, b->offset};
        const struct kern_wkv_rows rows = {.r = b->x,
                .w = b->half,
                .k = b->x,
                .v = b->x,
                .out = b->y,
                .u = b->half,
                .kk = b->x,
                .a = b->half};

        fn(b->k, &x, &b->run, 1, &rows);
}

static void run_wkv6(const struct bench *b) {
        wkv(b, kern_wkv6);
}

static void run_wkv7(const struct bench *b) {
        wkv(b, kern_wkv7);
}

/* An entry of a scan is decayed, added to and added to y; exp(dt * a) is ten more. Of a matrix: one or two sums, and as
 * kern.h has it. */
static const struct state states[] = {
        {"scan-channels", run_scan, 8192, 16, 1, 13}, /* falcon-mamba 7B */
        {"scan-heads", run_scan, 48, 128, 64, 3},     /* granite 4 tiny */
        {"scan-heads", run_scan, 128, 128, 80, 3},    /* nemotron nano 9B */
        {"delta", run_delta, 32, 128, 128, 4},        /* Qwen3-Next */
        {"delta-keys", run_delta_keys, 32, 128, 128, 4},
        {"wkv6", run_wkv6, 64, 64, 64, 3},
        {"wkv7", run_wkv7, 64, 64, 64, 5},
};

static void run_layer(void *arg) {
        struct bench *b = arg;

        b->offset = b->layer++ % b->n_layers * b->size;
        b->shape->run(b);
}

static float *scaled(size_t n, float factor, float plus) {
        float *p = kernels_floats(n);

        for (size_t i = 0; i < n; i++)
                p[i] = p[i] * factor + plus;
        return p;
}

static void bench_state(struct kern *k, const struct state *h) {
        size_t n_entries = h->n_head * h->n_key * h->n_value;
        size_t n_rows = h->n_head * MAX(h->n_key, h->n_value) * MAX_TOKENS;
        struct bench b = {.k = k, .shape = h, .size = n_entries * sizeof(float)};

        /* No state here is padded: rows of channels and heads are a multiple of their lanes. */
        b.n_layers = MAX(kernels_options.spread / 2 / b.size, 1);
        b.run.state = kernels_floats(b.size / sizeof(float) * b.n_layers);
        b.run.next = bench_alloc(b.size * b.n_layers);
        b.x = scaled(n_rows, 0.1f, 0);
        b.half = scaled(n_rows, 0, 0.5f);
        b.dt = scaled(h->n_head * MAX_TOKENS, 0.5f, 0.5f);
        b.bc = scaled(2 * h->n_key * MAX_TOKENS, 1, 0);
        b.a = scaled(h->n_head * h->n_key, 1, -1);
        b.y = bench_alloc(n_rows * sizeof(float));
        for (b.run.n = 1; b.run.n <= MAX_TOKENS; b.run.n *= MAX_TOKENS) {
                char name[128];

                snprintf(name, sizeof(name), "state %s %s %zu %zu %zu %zu",
                        kern_isa_name(kern_isa(k)), h->name, h->n_head, h->n_key, h->n_value,
                        b.run.n);
                kernels_put(name, kernels_best(run_layer, &b, kernels_options.seconds),
                        2 * (double)b.size, (double)h->products * (double)(n_entries * b.run.n));
        }
        free(b.y);
        free(b.a);
        free(b.bc);
        free(b.dt);
        free(b.half);
        free(b.x);
        free((void *)(uintptr_t)b.run.state);
        free(b.run.next);
}

void kernels_states(struct kern *k) {
        for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
                struct state h = states[i];

                if (kernels_options.quick)
                        h.n_head /= 16;
                bench_state(k, &h);
        }
}
