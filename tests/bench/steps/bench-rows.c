/* SPDX-License-Identifier: MIT */
/*
 * bench-rows MODEL THREADS ROWS,ROWS,... DEPTH REPEAT: the time of one forward call of so many rows, each of a
 * conversation of its own (as in decoding) and all of one (as in a prompt), each DEPTH tokens deep. It
 * is what the machine gives, without an engine.
 *
 * Calls of all sizes take turns, so that a slow moment is not that of one size.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/ledger.h"
#include "base/util.h"
#include "bench.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "seq/seq.h"

#define MAX_SIZES 32
#define MAX_STREAMS 64
#define MAX_REPEAT 1000
#define CHUNK 256 /* of the filling before */

struct machine {
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct model_info info;
        struct ledger ledger;
        struct seq_pool *pool;
        struct seq *seqs[MAX_STREAMS];
        struct model_token *batch;
        uint64_t seed;
};

static void open_machine(
        struct machine *m, const char *path, unsigned threads, uint32_t most, uint32_t depth) {
        struct model_options mo = {.kv_type = KERN_KV_F16};
        struct err e;

        bench_check(gguf_open(&m->gguf, path, &e), &e, path);
        bench_check(model_open(&m->model, m->gguf, &mo, &e), &e, path);
        bench_check(kern_new(&m->kern, threads, MIN(bench_isa(), (uint32_t)KERN_N_ISA), &e), &e,
                "threads");
        bench_check(model_repack(m->model, m->kern, &e), &e, "repacking");
        bench_check(model_work_new(&m->work, m->model, m->kern, MAX(most, (uint32_t)CHUNK),
                            MAX_STREAMS, &e),
                &e, "activations");
        model_info(m->model, &m->info);
        m->ledger = LEDGER_INIT(0);
        bench_check(seq_pool_new(&m->pool, &m->ledger, &m->info.shape, &e), &e, "pool");
        ledger_set_budget(&m->ledger, MAX_STREAMS * seq_need(m->pool, depth + most, CHUNK));
        m->batch = calloc(MAX(most, (uint32_t)CHUNK), sizeof(*m->batch));
        if (!m->batch)
                bench_die("no memory");
}

static void put_row(struct machine *m, size_t at, struct seq *seq, uint32_t pos, bool logits) {
        m->batch[at] =
                (struct model_token){.token = (int32_t)(bench_random(&m->seed) % m->info.n_vocab),
                        .pos = pos,
                        .seq = seq,
                        .want_logits = logits};
}

static void fill(struct machine *m, struct seq *seq, uint32_t depth) {
        for (uint32_t at = 0; at < depth; at += CHUNK) {
                uint32_t n = MIN(depth - at, (uint32_t)CHUNK);

                if (seq_reserve(seq, n, NULL) != 0)
                        bench_die("no room for tokens");
                for (uint32_t i = 0; i < n; i++)
                        put_row(m, i, seq, at + i, false);
                (void)model_forward(m->work, m->batch, n, NULL); /* cannot fail */
                seq_commit(seq, n);
        }
}

/* One call of @n rows, and back to where the sequences were. */
static double call(struct machine *m, uint32_t n, uint32_t depth, bool streams) {
        double start;

        for (uint32_t i = 0; i < n; i++)
                put_row(m, i, m->seqs[streams ? i : 0], depth + (streams ? 0 : i),
                        streams || i + 1 == n);
        for (uint32_t i = 0; i < (streams ? n : 1); i++)
                if (seq_reserve(m->seqs[i], streams ? 1 : n, NULL) != 0)
                        bench_die("no room for tokens");
        start = bench_now();
        (void)model_forward(m->work, m->batch, n, NULL);
        start = bench_now() - start;
        for (uint32_t i = 0; i < (streams ? n : 1); i++)
                seq_unreserve(m->seqs[i]);
        return start;
}

int main(int argc, char **argv) {
        static double times[2][MAX_SIZES][MAX_REPEAT];
        struct machine m = {.seed = 17};
        uint32_t sizes[MAX_SIZES], most = 0, depth, most_streams = 0;
        size_t n_sizes, repeat;
        struct err e;

        if (argc != 6)
                bench_die("usage: bench-rows MODEL THREADS ROWS,ROWS,... DEPTH REPEAT");
        n_sizes = bench_numbers(argv[3], sizes, MAX_SIZES);
        depth = (uint32_t)bench_number(argv[4]);
        repeat = MIN(bench_number(argv[5]), (uint64_t)MAX_REPEAT);
        for (size_t i = 0; i < n_sizes; i++) {
                most = MAX(most, sizes[i]);
                if (sizes[i] <= MAX_STREAMS)
                        most_streams = MAX(most_streams, sizes[i]);
        }
        open_machine(&m, argv[1], (unsigned)bench_number(argv[2]), most, depth);
        for (uint32_t i = 0; i < MAX(most_streams, 1u); i++) {
                bench_check(seq_new(&m.seqs[i], m.pool, &e), &e, "sequence");
                fill(&m, m.seqs[i], depth);
        }
        for (size_t r = 0; r < repeat + 1; r++)
                for (size_t i = 0; i < n_sizes; i++)
                        for (int streams = 0; streams < 2; streams++)
                                if (!streams || sizes[i] <= MAX_STREAMS)
                                        times[streams][i][r > 0 ? r - 1 : 0] = call(&m, sizes[i],
                                                depth, streams); /* the first does not count */
        for (int streams = 0; streams < 2; streams++)
                for (size_t i = 0; i < n_sizes; i++) {
                        char name[64];

                        if (streams && sizes[i] > MAX_STREAMS)
                                continue;
                        snprintf(name, sizeof(name), "rows.%s.%u", streams ? "streams" : "prompt",
                                sizes[i]);
                        bench_put(name, times[streams][i], repeat);
                }
        return 0;
}
