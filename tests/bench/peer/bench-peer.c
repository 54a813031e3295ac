/* SPDX-License-Identifier: MIT */
/*
 * bench-peer MODEL THREADS MAX-ISA MAX-TOKENS [mapped]: confab's side of `tools/bench peer`. It loads the model (mapped:
 * without repacking its weights), prints its facts and then answers lines on stdin until stdin ends, one line of JSON each
 * (bench.h), so that the tool can let both sides work in turn:
 *
 *      bandwidth SIZE      bytes a second that all threads together read of SIZE bytes, more than caches hold
 *      loop UNIT           products a second of a loop in registers of this instruction set (roof.h); 0: it has none
 *      prefill N           seconds of computing N tokens from nothing, in the chunks of the engine's default
 *      onto DEPTH N        seconds of N tokens in one call behind DEPTH tokens
 *      decode DEPTH N      seconds of N steps of one token each behind DEPTH tokens
 *      streams S DEPTH N   seconds of N steps of S sequences, one token each, behind DEPTH tokens
 *
 * Tokens are random. The memory of DEPTH tokens is filled with random values instead of being computed: no kernel's time
 * depends on them. A step ends with the greatest of the logits of each sequence, as a server's does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "base/util.h"
#include "bench.h"
#include "engine/engine.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/model.h"
#include "roof.h"
#include "seq/seq.h"

#define MAX_STREAMS 64

struct rig {
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct model_info info;
        struct ledger ledger;
        struct seq_pool *pool;
        void *pattern; /* [the largest block] */
        uint32_t chunk, max_tokens;
        uint64_t random;
};

static enum kern_isa isa_by_name(const char *name) {
        for (int i = 0; i < KERN_N_ISA; i++)
                if (!strcmp(name, kern_isa_name((enum kern_isa)i)))
                        return (enum kern_isa)i;
        if (strcmp(name, "best"))
                bench_die("'%s' is no instruction set", name);
        return KERN_N_ISA;
}

static void make_pattern(struct rig *r) {
        size_t size = 0;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                size = MAX(size, r->info.shape.size[c]);
        r->pattern = bench_alloc(size);
        for (size_t i = 0; i < size / 2; i++) /* as f16: magnitudes 1/8 to 1/2 */
                ((uint16_t *)r->pattern)[i] =
                        (uint16_t)((bench_random(&r->random) & 0x87ff) | 0x3000);
}

static void open_rig(struct rig *r, char **argv) {
        const uint64_t any_hash = 1; /* nothing is stored */
        struct model_options mo = {.kv_type = KERN_KV_F16, .weights_hash = &any_hash};
        struct err e;

        *r = (struct rig){.random = 7, .chunk = ENGINE_OPTIONS_DEFAULT.batch_tokens};
        r->max_tokens = (uint32_t)bench_number(argv[4]);
        bench_check(gguf_open(&r->gguf, argv[1], &e), &e, argv[1]);
        bench_check(model_open(&r->model, r->gguf, &mo, &e), &e, argv[1]);
        bench_check(kern_new(&r->kern, (unsigned)bench_number(argv[2]), isa_by_name(argv[3]), &e),
                &e, "threads");
        if (!argv[5])
                bench_check(model_repack(r->model, r->kern, &e), &e, "repacking");
        bench_check(model_work_new(&r->work, r->model, r->kern, MAX(r->chunk, MAX_STREAMS),
                            MAX_STREAMS, &e),
                &e, "activations");
        model_info(r->model, &r->info);
        r->ledger = LEDGER_INIT(0);
        bench_check(seq_pool_new(&r->pool, &r->ledger, &r->info.shape, &e), &e, "pool");
        /* Filling makes a sequence in one step. */
        ledger_set_budget(
                &r->ledger, 2 * seq_need(r->pool, r->max_tokens, r->max_tokens) +
                                    MAX_STREAMS * seq_need(r->pool, r->info.block_tokens, 1));
        /* As the engine's pool does: what is freed is taken again, without the system's clearing its pages. */
        seq_pool_set_spare(r->pool, seq_need(r->pool, r->max_tokens, r->max_tokens));
        make_pattern(r);
}

static void close_rig(struct rig *r) {
        free(r->pattern);
        seq_pool_free(r->pool);
        model_work_free(r->work);
        kern_free(r->kern);
        model_free(r->model);
        gguf_free(r->gguf);
}

/* --- sequences --- */

static struct seq *sequence(struct rig *r, uint32_t n) {
        struct seq *s = NULL;
        struct err e;

        bench_check(seq_new(&s, r->pool, &e), &e, "sequence");
        if (n == 0)
                return s;
        if (seq_reserve(s, n, &e) != 0)
                bench_die("the pool is too small for %u tokens", n);
        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                for (size_t i = 0; seq_table(s, c) && i * r->info.block_tokens < n; i++)
                        if (seq_table(s, c)[i])
                                memcpy(seq_table(s, c)[i], r->pattern, r->info.shape.size[c]);
        if (seq_next_state(s))
                memcpy(seq_next_state(s), r->pattern, r->info.shape.size[SEQ_STATE]);
        seq_commit(s, n);
        return s;
}

static int32_t any_token(struct rig *r) {
        return (int32_t)(bench_random(&r->random) % r->info.n_vocab);
}

static int32_t greatest(const float *logits, uint32_t n) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
                if (logits[i] > logits[best])
                        best = i;
        return (int32_t)best;
}

/* The state before the tokens is nobody's any more, as in the engine. */
static void commit(struct rig *r, struct seq *s, uint32_t n) {
        uint32_t before = seq_n_tokens(s);

        seq_commit(s, n);
        if (r->info.shape.size[SEQ_STATE] > 0 && before > 0)
                seq_drop(s, SEQ_STATE, before - 1);
}

/* Compute and commit @n tokens of one sequence in one call; logits of the last one if @last. */
static void compute(struct rig *r, struct seq *s, uint32_t n, bool last) {
        static struct model_token batch[ENGINE_MAX_BATCH];

        if (seq_reserve(s, n, NULL) != 0)
                bench_die("no room for %u tokens", n);
        for (uint32_t i = 0; i < n; i++)
                batch[i] = (struct model_token){.token = any_token(r),
                        .pos = seq_n_tokens(s) + i,
                        .seq = s,
                        .want_logits = last && i + 1 == n};
        (void)model_forward(r->work, batch, n, NULL); /* cannot fail */
        if (last)
                (void)greatest(model_logits(r->work, 0), r->info.n_vocab);
        commit(r, s, n);
}

static double prefill(struct rig *r, uint32_t depth, uint32_t n) {
        struct seq *s = sequence(r, depth);
        double t0 = bench_now();

        for (uint32_t done = 0; done < n; done += r->chunk)
                compute(r, s, MIN(n - done, r->chunk), done + r->chunk >= n);
        t0 = bench_now() - t0;
        seq_free(s);
        return t0;
}

/* A step of all sequences; their tokens are replaced. */
static void step(struct rig *r, struct seq *const *s, int32_t *tokens, uint32_t n) {
        struct model_token batch[MAX_STREAMS] = {0};

        for (uint32_t i = 0; i < n; i++) {
                if (seq_reserve(s[i], 1, NULL) != 0)
                        bench_die("no room for a token");
                batch[i] = (struct model_token){.token = tokens[i],
                        .pos = seq_n_tokens(s[i]),
                        .seq = s[i],
                        .want_logits = true};
        }
        (void)model_forward(r->work, batch, n, NULL);
        for (uint32_t i = 0; i < n; i++) {
                (void)greatest(model_logits(r->work, i), r->info.n_vocab);
                tokens[i] = any_token(r);
                commit(r, s[i], 1);
        }
}

static double decode(struct rig *r, uint32_t n_streams, uint32_t depth, uint32_t n_steps) {
        struct seq *s[MAX_STREAMS] = {NULL};
        int32_t tokens[MAX_STREAMS] = {0};
        double t0;

        for (uint32_t i = 0; i < n_streams; i++) {
                s[i] = sequence(r, depth);
                tokens[i] = any_token(r);
        }
        step(r, s, tokens, n_streams); /* as the peer's tools do it, so that all is warm */
        t0 = bench_now();
        for (uint32_t i = 0; i < n_steps; i++)
                step(r, s, tokens, n_streams);
        t0 = bench_now() - t0;
        for (uint32_t i = 0; i < n_streams; i++)
                seq_free(s[i]);
        return t0;
}

/* --- roofs --- */

/* Products a second of the loop that this instruction set has for the unit; 0: none. */
static double loop(struct rig *r, const char *unit) {
        static const char *const units[ROOF_N_UNITS] = {"narrow", "wide", "dot", "multiply"};
        const struct roof_loop *l;

        for (size_t i = 0; (l = roof_loop(i)); i++)
                if (!strcmp(l->isa, kern_isa_name(kern_isa(r->kern))) &&
                        !strcmp(units[l->unit], unit))
                        return roof_products(r->kern, l, 0.1);
        return 0;
}

/* Of one token in all layers: of each weight one, but for the embedding and what makes logits. */
static double products(struct rig *r) {
        double table = (double)r->info.n_vocab * r->info.n_embd;
        bool tied = !gguf_tensor(r->gguf, "output.weight");

        return (double)r->info.n_params - (tied ? 1 : 2) * table;
}

/* Of one token and one key in all layers: with the key and with the value. */
static double attended(const struct rig *r) {
        return 2.0 * r->info.n_layer * r->info.n_head * r->info.head_dim;
}

/* --- lines --- */

static void put_facts(struct rig *r) {
        printf("{\"isa\":\"%s\",\"n_vocab\":%u,\"weights_size\":%llu,\"products\":%.0f,"
               "\"attended\":%.0f,\"chunk\":%u}\n",
                kern_isa_name(kern_isa(r->kern)), r->info.n_vocab,
                (unsigned long long)r->info.weights_size, products(r), attended(r), r->chunk);
        fflush(stdout);
}

static void check_tokens(struct rig *r, uint64_t n) {
        if (n > r->max_tokens)
                bench_die("%llu tokens are more than %u", (unsigned long long)n, r->max_tokens);
}

static void answer(struct rig *r, const char *line) {
        unsigned a, b, s;
        char unit[16];

        if (sscanf(line, "bandwidth %u", &a) == 1) {
                bench_put1("bandwidth", roof_read(r->kern, a));
        } else if (sscanf(line, "loop %15s", unit) == 1) {
                bench_put1("loop", loop(r, unit));
        } else if (sscanf(line, "prefill %u", &b) == 1) {
                check_tokens(r, b);
                bench_put1("prefill", prefill(r, 0, b));
        } else if (sscanf(line, "onto %u %u", &a, &b) == 2 && b <= r->chunk) {
                check_tokens(r, (uint64_t)a + b);
                bench_put1("onto", prefill(r, a, b));
        } else if (sscanf(line, "decode %u %u", &a, &b) == 2) {
                check_tokens(r, (uint64_t)a + b + 1);
                bench_put1("decode", decode(r, 1, a, b));
        } else if (sscanf(line, "streams %u %u %u", &s, &a, &b) == 3 && s >= 1 &&
                   s <= MAX_STREAMS) {
                check_tokens(r, (uint64_t)s * (a + b + 1));
                bench_put1("streams", decode(r, s, a, b));
        } else {
                bench_die("what is '%.40s'?", line);
        }
}

int main(int argc, char **argv) {
        struct rig r;
        char line[256];

        if (argc != 5 && (argc != 6 || strcmp(argv[5], "mapped"))) {
                fputs("usage: bench-peer MODEL THREADS MAX-ISA MAX-TOKENS [mapped]\n", stderr);
                return 2;
        }
        open_rig(&r, argv);
        put_facts(&r);
        while (fgets(line, sizeof(line), stdin))
                answer(&r, line);
        close_rig(&r);
        return 0;
}
