/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/util.h"
#include "cli.h"
#include "seq/seq.h"

#define MAX_REPETITIONS 100

struct bench {
        const char *file;
        uint32_t n_prompt, n_generate, depth, n_streams, n_repetitions;
        bool json;
        struct cli_engine_options engine;
};

struct bench_result {
        double prefill, decode; /* median tokens per second; 0: not measured */
        double prefill_best, decode_best;
};

struct bench_run {
        const struct bench *b;
        struct cli_engine *en;
        struct seq *base;          /* depth tokens */
        int32_t *tokens;           /* [max(n_prompt, depth)] */
        struct seq **seqs;         /* [n_streams] */
        struct model_token *batch; /* [n_streams] */
};

/* Any tokens do: the work does not depend on them (except with experts, so spread them). */
static int32_t bench_token(uint64_t i, uint32_t n_vocab) {
        return (int32_t)((i * 0x9e3779b97f4a7c15u >> 33) % n_vocab);
}

static int measure_prefill(struct bench_run *b, double *ret, struct err *e) {
        struct seq *s = NULL;
        uint64_t start;
        int r;

        r = seq_fork(&s, b->base, b->b->depth, e);
        if (r < 0)
                return err_wrap(e, r, "cannot fork");
        start = clock_monotonic_usec();
        r = cli_engine_feed(b->en, s, b->tokens, b->b->n_prompt, true, e);
        *ret = (double)(clock_monotonic_usec() - start);
        seq_free(s);
        return r;
}

static int decode_step(struct bench_run *b, uint32_t step, struct err *e) {
        uint32_t n = b->b->n_streams;

        for (uint32_t i = 0; i < n; i++) {
                int r = seq_reserve(b->seqs[i], 1, e);

                if (r == SEQ_FULL)
                        return err_set(e, ERR_LIMIT, "sequence memory is full");
                if (r < 0)
                        return r;
                b->batch[i] = (struct model_token){
                        .token = bench_token((uint64_t)step * n + i, b->en->info.n_vocab),
                        .pos = seq_n_tokens(b->seqs[i]),
                        .seq = b->seqs[i],
                        .want_logits = true};
        }
        (void)model_forward(b->en->work, b->batch, n, NULL); /* cannot fail */
        for (uint32_t i = 0; i < n; i++)
                seq_commit(b->seqs[i], 1);
        return 0;
}

static int measure_decode(struct bench_run *b, double *ret, struct err *e) {
        uint64_t start;
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < b->b->n_streams; i++)
                r = seq_fork(&b->seqs[i], b->base, b->b->depth, e);
        start = clock_monotonic_usec();
        for (uint32_t step = 0; r == 0 && step < b->b->n_generate; step++)
                r = decode_step(b, step, e);
        *ret = (double)(clock_monotonic_usec() - start);
        for (uint32_t i = 0; i < b->b->n_streams; i++)
                b->seqs[i] = seq_free(b->seqs[i]);
        return r;
}

static int compare_doubles(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void summarise(double *usec, size_t n, uint64_t n_tokens, double *ret, double *ret_best) {
        double median;

        qsort(usec, n, sizeof(*usec), compare_doubles);
        median = n % 2 ? usec[n / 2] : (usec[n / 2 - 1] + usec[n / 2]) / 2;
        *ret = (double)n_tokens * 1e6 / MAX(median, 1.0);
        *ret_best = (double)n_tokens * 1e6 / MAX(usec[0], 1.0);
}

static int measure(struct bench_run *b, struct bench_result *ret, struct err *e) {
        double prefill[MAX_REPETITIONS], decode[MAX_REPETITIONS];
        uint32_t n = b->b->n_repetitions;
        int r;

        r = cli_engine_feed(b->en, b->base, b->tokens, b->b->depth, false, e);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                if (b->b->n_prompt)
                        r = measure_prefill(b, &prefill[i], e);
                if (r == 0 && b->b->n_generate)
                        r = measure_decode(b, &decode[i], e);
        }
        if (r < 0)
                return r;
        if (b->b->n_prompt)
                summarise(prefill, n, b->b->n_prompt, &ret->prefill, &ret->prefill_best);
        if (b->b->n_generate)
                summarise(decode, n, (uint64_t)b->b->n_generate * b->b->n_streams, &ret->decode,
                        &ret->decode_best);
        return 0;
}

static int run_engine(
        const struct bench *o, struct cli_engine *en, struct bench_result *ret, struct err *e) {
        uint32_t n_tokens = MAX(o->n_prompt, o->depth);
        struct bench_run b = {.b = o, .en = en};
        int r;

        b.tokens = calloc(MAX(n_tokens, 1u), sizeof(*b.tokens));
        b.seqs = calloc(o->n_streams, sizeof(struct seq *));
        b.batch = calloc(o->n_streams, sizeof(*b.batch));
        r = b.tokens && b.seqs && b.batch ? seq_new(&b.base, en->pool, e)
                                          : err_set(e, ERR_NOMEM, "no memory for the benchmark");
        for (uint32_t i = 0; r == 0 && i < n_tokens; i++)
                b.tokens[i] = bench_token(i, en->info.n_vocab);
        if (r == 0)
                r = measure(&b, ret, e);
        seq_free(b.base);
        free(b.batch);
        free(b.seqs);
        free(b.tokens);
        return r;
}

static void put_json_number(struct json *j, const char *key, double v) {
        json_put_key(j, key);
        json_put_double(j, v);
}

static int put_json(const struct bench *o, const struct cli_engine *en,
        const struct bench_result *b, struct buf *out) {
        struct json j;
        int r;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key_string(&j, "model", en->info.name);
        json_put_key_string(&j, "isa", kern_isa_name(kern_isa(en->kern)));
        json_put_key_string(&j, "kv", kern_kv_name(o->engine.kv_type));
        put_json_number(&j, "threads", o->engine.n_threads);
        put_json_number(&j, "prompt", o->n_prompt);
        put_json_number(&j, "generate", o->n_generate);
        put_json_number(&j, "depth", o->depth);
        put_json_number(&j, "streams", o->n_streams);
        put_json_number(&j, "repetitions", o->n_repetitions);
        put_json_number(&j, "prefill_tokens_per_second", b->prefill);
        put_json_number(&j, "prefill_best", b->prefill_best);
        put_json_number(&j, "decode_tokens_per_second", b->decode);
        put_json_number(&j, "decode_best", b->decode_best);
        json_object_end(&j);
        r = json_finish(&j);
        return r < 0 ? r : buf_append_str(out, "\n");
}

static int put_text(const struct bench *o, const struct cli_engine *en,
        const struct bench_result *b, struct buf *out) {
        int r = buf_printf(out, "%s, %.1f MB of weights, %u threads, %s, kv %s, depth %u\n",
                *en->info.name ? en->info.name : o->file, (double)en->info.weights_size / 1e6,
                o->engine.n_threads, kern_isa_name(kern_isa(en->kern)),
                kern_kv_name(o->engine.kv_type), o->depth);

        if (r == 0 && o->n_prompt)
                r = buf_printf(out, "prefill %6u tokens            %10.1f tokens/s (best %.1f)\n",
                        o->n_prompt, b->prefill, b->prefill_best);
        if (r == 0 && o->n_generate)
                r = buf_printf(out, "decode  %6u tokens x %-4u     %10.1f tokens/s (best %.1f)\n",
                        o->n_generate, o->n_streams, b->decode, b->decode_best);
        return r;
}

static int run_parsed(const struct bench *o) {
        struct bench_result result = {0};
        struct buf out = BUF_NULL;
        struct cli_engine en;
        struct err e;
        int r;

        r = cli_engine_open(&en, o->file, &o->engine, &e);
        if (r == 0 && (uint64_t)o->depth + MAX(o->n_prompt, o->n_generate) > en.info.context)
                r = err_set(&e, ERR_CONTEXT, "depth %u and %u tokens exceed the context of %u",
                        o->depth, MAX(o->n_prompt, o->n_generate), en.info.context);
        /* The base, and a fork for each stream or for the prompt. */
        if (r == 0)
                r = cli_engine_pool(&en, (size_t)MAX(o->n_streams, 1u) + 1,
                        o->depth + MAX(o->n_prompt, o->n_generate), &e);
        if (r == 0)
                r = run_engine(o, &en, &result, &e);
        if (r == 0) {
                r = (o->json ? put_json : put_text)(o, &en, &result, &out);
                r = r < 0 ? err_set(&e, ERR_NOMEM, "no memory for the result") : cli_print(&out);
        }
        buf_deinit(&out);
        cli_engine_close(&en);
        return r < 0 ? cli_fail(o->file, &e) : r;
}

static int parse_count(const struct cli_verb *v, struct bench *o, int c) {
        const struct {
                int c;
                const char *name;
                uint32_t min, max;
                uint32_t *ret;
        } counts[] = {
                {'p', "-p", 0, 1u << 20, &o->n_prompt},
                {'n', "-n", 0, 1u << 20, &o->n_generate},
                {'d', "-d", 0, 1u << 24, &o->depth},
                {'b', "-b", 1, 4096, &o->n_streams},
                {'r', "-r", 1, MAX_REPETITIONS, &o->n_repetitions},
                {'t', "-t", 1, 1024, &o->engine.n_threads},
                {'c', "--chunk", 1, 1u << 16, &o->engine.max_tokens},
        };

        for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
                if (counts[i].c == c) {
                        if (cli_number(optarg, counts[i].min, counts[i].max, counts[i].ret))
                                return 0;
                        return cli_usage(v, "%s %s is not in %u to %u", counts[i].name, optarg,
                                counts[i].min, counts[i].max);
                }
        return cli_usage(v, "bad option");
}

static int parse_option(const struct cli_verb *v, struct bench *o, int c) {
        switch (c) {
        case 'K':
                if (!cli_kv_type(optarg, &o->engine.kv_type))
                        return cli_usage(v, "--kv %s is not one of f32, f16, q8_0", optarg);
                return 0;
        case 'I':
                if (!cli_isa(optarg, &o->engine.max_isa))
                        return cli_usage(v, "unknown instruction set '%s'", optarg);
                return 0;
        case 'j':
                o->json = true;
                return 0;
        default:
                return parse_count(v, o, c);
        }
}

static int run(const struct cli_verb *v, int argc, char **argv) {
        static const struct option options[] = {{"threads", 1, NULL, 't'}, {"prompt", 1, NULL, 'p'},
                {"generate", 1, NULL, 'n'}, {"depth", 1, NULL, 'd'}, {"streams", 1, NULL, 'b'},
                {"repetitions", 1, NULL, 'r'}, {"chunk", 1, NULL, 'c'}, {"kv", 1, NULL, 'K'},
                {"isa", 1, NULL, 'I'}, {"json", 0, NULL, 'j'}, {"help", 0, NULL, 'h'}, {0}};
        struct bench o = {.n_prompt = 512,
                .n_generate = 64,
                .n_streams = 1,
                .n_repetitions = 3,
                .engine = {.kv_type = KERN_KV_F16,
                        .max_isa = kern_cpu_isa(),
                        .n_threads = cli_n_cpus(),
                        .max_tokens = 512}};
        int c, r;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "t:p:n:d:b:r:h", options, NULL)) != -1) {
                if (c == 'h')
                        return cli_help(v);
                r = parse_option(v, &o, c);
                if (r)
                        return r;
        }
        if (optind + 1 != argc)
                return cli_usage(v, "expected one model file");
        o.file = argv[optind];
        o.engine.max_tokens = MAX(o.engine.max_tokens, o.n_streams);
        o.engine.max_outputs = o.n_streams;
        return run_parsed(&o);
}

const struct cli_verb verb_bench = {
        .name = "bench",
        .usage = "FILE [-t N] [-p N] [-n N] [-d DEPTH] [-b STREAMS] [-r N] [--json]",
        .help = "Measures prefill and decoding, each behind DEPTH tokens already there, and "
                "prints\n"
                "the median tokens per second of the repetitions.\n"
                "\n"
                "  -t, --threads N      default: the processors available\n"
                "  -p, --prompt N       tokens of prefill (default 512; 0: skip)\n"
                "  -n, --generate N     tokens decoded by each stream (default 64; 0: skip)\n"
                "  -d, --depth N        tokens in memory before (default 0)\n"
                "  -b, --streams N      conversations decoding side by side (default 1)\n"
                "  -r, --repetitions N  default 3\n"
                "  --chunk N            prefill tokens per forward call (default 512)\n"
                "  --kv f32|f16|q8_0    type of the keys and values kept (default f16)\n"
                "  --isa NAME           at most this instruction set: generic, avx2, avx-vnni,\n"
                "                       avx512, avx512-vnni, neon, neon-dotprod\n"
                "  --json               one JSON object\n",
        .run = run,
};
