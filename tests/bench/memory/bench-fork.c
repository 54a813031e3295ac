/* SPDX-License-Identifier: MIT */
/*
 * bench-fork MODEL THREADS REPEAT LENGTHS: measures the fork itself (lib/seq), and a decode step
 * before and after it. The memory of the sequence is filled with random f16 values instead of being
 * computed: the figures do not depend on its content.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ledger.h"
#include "base/util.h"
#include "bench.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/model.h"
#include "seq/seq.h"

#define N_FORKS 1000
#define MAX_REPEAT 64

struct rig {
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct model_info info;
        struct ledger ledger;
        struct seq_pool *pool;
        void *pattern; /* [the largest block] */
};

static void open_rig(struct rig *r, const char *path, unsigned n_threads, uint32_t max_tokens) {
        const struct seq_shape *shape = &r->info.shape;
        struct model_options mo = {.kv_type = KERN_KV_F16};
        uint64_t seed = 5;
        struct err e;
        size_t size = 0;

        bench_check(gguf_open(&r->gguf, path, &e), &e, path);
        bench_check(model_open(&r->model, r->gguf, &mo, &e), &e, path);
        bench_check(kern_new(&r->kern, n_threads, MIN(bench_isa(), (uint32_t)KERN_N_ISA), &e), &e,
                "threads");
        bench_check(model_work_new(&r->work, r->model, r->kern, 1, 1, &e), &e, "activations");
        model_info(r->model, &r->info);
        r->ledger = LEDGER_INIT(0);
        bench_check(seq_pool_new(&r->pool, &r->ledger, shape, &e), &e, "pool");
        /* The sequence, which is made in one step, and a fork. */
        ledger_set_budget(&r->ledger, 2 * seq_need(r->pool, max_tokens + 1, max_tokens + 1));
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                size = MAX(size, shape->size[c]);
        r->pattern = bench_alloc(size);
        for (size_t i = 0; i < size / 2; i++) /* magnitudes 1/8 to 1/2 */
                ((uint16_t *)r->pattern)[i] = (uint16_t)((bench_random(&seed) & 0x87ff) | 0x3000);
}

static void close_rig(struct rig *r) {
        free(r->pattern);
        seq_pool_free(r->pool);
        model_work_free(r->work);
        kern_free(r->kern);
        model_free(r->model);
        gguf_free(r->gguf);
}

static struct seq *fill(struct rig *r, uint32_t n) {
        struct seq *s = NULL;
        struct err e;

        bench_check(seq_new(&s, r->pool, &e), &e, "sequence");
        if (seq_reserve(s, n, &e) != 0)
                bench_die("the pool is too small for %u tokens", n);
        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                for (size_t i = 0; seq_table(s, c) && i * r->info.block_tokens < n; i++)
                        memcpy(seq_table(s, c)[i], r->pattern, r->info.shape.size[c]);
        if (seq_next_state(s))
                memcpy(seq_next_state(s), r->pattern, r->info.shape.size[SEQ_STATE]);
        seq_commit(s, n);
        return s;
}

static struct seq *fork_of(const struct seq *s) {
        struct seq *f = NULL;
        struct err e;

        bench_check(seq_fork(&f, s, seq_n_tokens(s), &e), &e, "fork");
        return f;
}

/* One token behind the end, then forgotten. */
static double step(struct rig *r, struct seq *s) {
        struct model_token t = {
                .token = 300, .pos = seq_n_tokens(s), .seq = s, .want_logits = true};
        double t0 = bench_now();

        if (seq_reserve(s, 1, NULL) != 0)
                bench_die("no room for a token");
        (void)model_forward(r->work, &t, 1, NULL); /* cannot fail */
        t0 = bench_now() - t0;
        seq_unreserve(s);
        return t0;
}

static void put(const char *what, uint32_t n, const double *values, size_t n_values) {
        char name[64];

        snprintf(name, sizeof(name), "%s.%u", what, n);
        bench_put(name, values, n_values);
}

static double held(struct rig *r) {
        return (double)ledger_used(&r->ledger) + (double)mallinfo2().uordblks;
}

static void bench_forks(struct rig *r, struct seq *s, uint32_t n) {
        static double seconds[N_FORKS];
        double before, bytes;
        struct seq *f;

        for (size_t i = 0; i < N_FORKS; i++) {
                double t0 = bench_now();

                f = fork_of(s);
                seconds[i] = bench_now() - t0;
                seq_free(f);
        }
        put("fork", n, seconds, N_FORKS);
        before = held(r);
        f = fork_of(s);
        bytes = held(r) - before;
        put("fork_bytes", n, &bytes, 1);
        (void)step(r, f);
        bytes = held(r) - before;
        put("step_bytes", n, &bytes, 1);
        seq_free(f);
}

/* Before, in the fork, and in what was forked, in turn: so that all see the same machine. */
static void bench_steps(struct rig *r, struct seq *s, uint32_t n, size_t repeat) {
        double before[MAX_REPEAT], in_fork[MAX_REPEAT], in_parent[MAX_REPEAT];

        (void)step(r, s);
        for (size_t i = 0; i < repeat; i++) {
                struct seq *f;

                before[i] = step(r, s);
                f = fork_of(s);
                in_fork[i] = step(r, f);
                f = seq_free(f);
                f = fork_of(s);
                in_parent[i] = step(r, s);
                seq_free(f);
        }
        put("step.before", n, before, repeat);
        put("step.fork", n, in_fork, repeat);
        put("step.parent", n, in_parent, repeat);
}

int main(int argc, char **argv) {
        uint32_t lengths[16], max = 0;
        struct rig r = {0};
        size_t n, repeat;

        if (argc != 5) {
                fputs("usage: bench-fork MODEL THREADS REPEAT LENGTHS\n", stderr);
                return 2;
        }
        repeat = bench_number(argv[3]);
        if (repeat < 1 || repeat > MAX_REPEAT)
                bench_die("1 to %d repetitions", MAX_REPEAT);
        n = bench_numbers(argv[4], lengths, 16);
        for (size_t i = 0; i < n; i++)
                max = MAX(max, lengths[i]);
        open_rig(&r, argv[1], (unsigned)bench_number(argv[2]), max);
        for (size_t i = 0; i < n; i++) {
                struct seq *s = fill(&r, lengths[i]);

                bench_forks(&r, s, lengths[i]);
                bench_steps(&r, s, lengths[i], repeat);
                seq_free(s);
        }
        close_rig(&r);
        return 0;
}
