/* SPDX-License-Identifier: MIT */
/*
 * bench-growth MODEL STATE THREADS REPEAT COUNTS: what a return costs as the number of kept conversations grows, through
 * the engine. Conversations of TOKENS random tokens are made until each of the counts is reached; then REPEAT of them,
 * drawn at random, go on with one new token and a reply of one, all memory being in RAM:
 *
 *      first.N   seconds from the request to the first token of the reply
 *      turn.N    to its end, which is durable
 *
 * The model should be small: what is of interest is what is not computing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "bench.h"
#include "drive.h"

#define TOKENS 40
#define MAX_COUNTS 16
#define MAX_REPEAT 1000

struct growth {
        struct drive d;
        uint64_t *convs; /* [n] */
        uint32_t n, n_vocab, repeat;
        uint64_t random;
};

static void fill(struct growth *g, int32_t *tokens, size_t n) {
        for (size_t i = 0; i < n; i++)
                tokens[i] = (int32_t)(bench_random(&g->random) % g->n_vocab);
}

static void grow_to(struct growth *g, uint32_t n) {
        int32_t tokens[TOKENS];

        for (; g->n < n; g->n++) {
                fill(g, tokens, TOKENS);
                g->convs[g->n] = drive_new(&g->d);
                drive_tokens(&g->d, g->convs[g->n], tokens, TOKENS, 0, NULL);
        }
}

static void put(const char *what, uint32_t n, const double *values, size_t n_values) {
        char name[64];

        snprintf(name, sizeof(name), "%s.%u", what, n);
        bench_put(name, values, n_values);
}

static void measure(struct growth *g) {
        static double first[MAX_REPEAT], turn[MAX_REPEAT];

        for (uint32_t i = 0; i < g->repeat; i++) {
                uint64_t conv = g->convs[bench_random(&g->random) % g->n];
                struct drive_answer a;
                int32_t token;

                fill(g, &token, 1);
                drive_tokens(&g->d, conv, &token, 1, 1, &a);
                if (a.n_computed > 2)
                        bench_die(
                                "%u tokens were computed: the memory is not in RAM", a.n_computed);
                first[i] = a.first - a.sent;
                turn[i] = a.ended - a.sent;
        }
        put("first", g->n, first, g->repeat);
        put("turn", g->n, turn, g->repeat);
}

int main(int argc, char **argv) {
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;
        struct growth g = {.random = 1};
        uint32_t counts[MAX_COUNTS];
        size_t n;

        if (argc != 6) {
                fputs("usage: bench-growth MODEL STATE THREADS REPEAT COUNTS\n", stderr);
                return 2;
        }
        g.repeat = (uint32_t)bench_number(argv[4]);
        n = bench_numbers(argv[5], counts, MAX_COUNTS);
        if (g.repeat < 1 || g.repeat > MAX_REPEAT || n == 0)
                bench_die("1 to %d repetitions, and rising counts", MAX_REPEAT);
        g.convs = bench_alloc(counts[n - 1] * sizeof(*g.convs));
        o.model_path = argv[1];
        o.state_dir = argv[2];
        o.n_threads = (uint32_t)bench_number(argv[3]);
        o.max_conversations_per_owner = counts[n - 1] + 1;
        o.spill_delay_ms = UINT32_MAX; /* nothing else happens */
        o.disk_floor = 0;
        drive_open(&g.d, &o);
        g.n_vocab = drive_n_vocab(&g.d);
        for (size_t i = 0; i < n; i++) {
                bench_note("growth: %u conversations", counts[i]);
                grow_to(&g, counts[i]);
                measure(&g);
        }
        drive_close(&g.d);
        free(g.convs);
        return 0;
}
