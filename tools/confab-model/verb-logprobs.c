/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "cli.h"
#include "sample/sample.h"
#include "seq/seq.h"

#define PREFILL_CHUNK 512
#define MAX_PROMPT (1u << 20)

struct logprobs {
        const char *file;
        int32_t *prompt; /* owned */
        uint32_t n_prompt, n_generate, top;
        struct cli_engine_options engine;
};

/* "1,2,3"; false if it is anything else. */
static bool parse_ids(const char *s, int32_t **ret, uint32_t *ret_n) {
        uint32_t n = 1;
        int32_t *ids;

        for (const char *p = s; *p; p++)
                n += *p == ',';
        if (n > MAX_PROMPT)
                return false;
        ids = calloc(n, sizeof(*ids));
        if (!ids)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                char *end;
                long v;

                if (*s < '0' || *s > '9') {
                        free(ids);
                        return false;
                }
                v = strtol(s, &end, 10);
                if (v > INT32_MAX || *end != (i == n - 1 ? '\0' : ',')) {
                        free(ids);
                        return false;
                }
                ids[i] = (int32_t)v;
                s = end + 1;
        }
        free(*ret);
        *ret = ids;
        *ret_n = n;
        return true;
}

static int check_against_model(
        const struct logprobs *l, const struct model_info *info, struct err *e) {
        uint64_t n = (uint64_t)l->n_prompt + l->n_generate - 1;

        for (uint32_t i = 0; i < l->n_prompt; i++)
                if ((uint32_t)l->prompt[i] >= info->n_vocab)
                        return err_set(e, ERR_INVALID, "token %d is outside the vocabulary of %u",
                                l->prompt[i], info->n_vocab);
        if (n > info->context)
                return err_set(e, ERR_CONTEXT, "%llu tokens exceed the context of %u",
                        (unsigned long long)n, info->context);
        return 0;
}

static void put_top(struct json *j, const struct sample_logprob *top, size_t n) {
        json_array_begin(j);
        for (size_t i = 0; i < n; i++) {
                json_array_begin(j);
                json_put_i64(j, top[i].token);
                json_put_float(j, top[i].logprob);
                json_array_end(j);
        }
        json_array_end(j);
}

/* Greedy generation; ids to @ids, the rows of the table to @j. */
static int generate(const struct logprobs *l, struct cli_engine *en, struct sample_work *sw,
        int32_t *ids, struct json *j, struct err *e) {
        _cleanup_(seq_freep) struct seq *s = NULL;
        uint32_t n_vocab = en->info.n_vocab, n_top = MIN(l->top, n_vocab);
        _cleanup_(freep) struct sample_logprob *top = calloc(MAX(n_top, 1u), sizeof(*top));
        int r;

        if (!top)
                return err_set(e, ERR_NOMEM, "no memory for %u log-probabilities", n_top);
        r = seq_new(&s, en->pool, e);
        if (r < 0)
                return r;
        r = cli_engine_feed(en, s, l->prompt, l->n_prompt, true, e);
        for (uint32_t i = 0; r == 0 && i < l->n_generate; i++) {
                const float *logits = model_logits(en->work, 0);
                struct sample_logprob best;

                sample_top_logprobs(sw, logits, n_vocab, 0, 1, &best);
                sample_top_logprobs(sw, logits, n_vocab, 0, n_top, top);
                put_top(j, top, n_top);
                ids[i] = best.token;
                if (i < l->n_generate - 1)
                        r = cli_engine_feed(en, s, &ids[i], 1, true, e);
        }
        return r;
}

static int put_result(const struct logprobs *l, struct cli_engine *en, struct err *e) {
        _cleanup_(freep) int32_t *ids = calloc(l->n_generate, sizeof(*ids));
        struct buf out = BUF_NULL, table = BUF_NULL;
        struct sample_work *sw = NULL;
        struct json j;
        int r = -ERR_NOMEM, status;

        if (!ids)
                return err_set(e, ERR_NOMEM, "no memory for %u ids", l->n_generate);
        r = sample_work_new(&sw, en->info.n_vocab, e);
        if (r == 0) {
                json_init(&j, &table);
                json_array_begin(&j);
                r = generate(l, en, sw, ids, &j, e);
                json_array_end(&j);
        }
        if (r == 0 && (r = json_finish(&j)) < 0)
                err_set(e, (enum err_code) - r, "no memory for the result");
        if (r == 0) {
                r = buf_append_str(&out, "{\"generated_ids\": [");
                for (uint32_t i = 0; r == 0 && i < l->n_generate; i++)
                        r = buf_printf(&out, "%s%d", i ? ", " : "", ids[i]);
                if (r == 0)
                        r = buf_append_str(&out, "], \"top10_logprobs\": ");
                if (r == 0)
                        r = buf_append(&out, table.data, table.size);
                if (r == 0)
                        r = buf_append_str(&out, "}\n");
                if (r < 0)
                        err_set(e, ERR_NOMEM, "no memory for the result");
        }
        status = r == 0 ? cli_print(&out) : r;
        sample_work_free(sw);
        buf_deinit(&table);
        buf_deinit(&out);
        return status;
}

static int run_parsed(const struct logprobs *l) {
        struct cli_engine en;
        struct err e;
        int r;

        r = cli_engine_open(&en, l->file, &l->engine, &e);
        if (r == 0)
                r = check_against_model(l, &en.info, &e);
        if (r == 0)
                r = cli_engine_pool(&en, 1, l->n_prompt + l->n_generate, &e);
        if (r == 0)
                r = put_result(l, &en, &e);
        cli_engine_close(&en);
        return r < 0 ? cli_fail(l->file, &e) : r;
}

static int parse_option(const struct cli_verb *v, struct logprobs *l, int c) {
        uint32_t n;

        switch (c) {
        case 'i':
                if (!parse_ids(optarg, &l->prompt, &l->n_prompt))
                        return cli_usage(v, "'%s' is no list of token ids", optarg);
                return 0;
        case 'g':
                if (!cli_number(optarg, 1, 1u << 20, &l->n_generate))
                        return cli_usage(v, "--generate %s is not in 1 to 1048576", optarg);
                return 0;
        case 'k':
                if (!cli_number(optarg, 1, UINT32_MAX, &l->top))
                        return cli_usage(v, "--top %s is no count", optarg);
                return 0;
        case 'K':
                if (!cli_kv_type(optarg, &l->engine.kv_type))
                        return cli_usage(v, "--kv %s is not one of f32, f16, q8_0", optarg);
                return 0;
        case 't':
                if (!cli_number(optarg, 1, 1024, &n))
                        return cli_usage(v, "--threads %s is not in 1 to 1024", optarg);
                l->engine.n_threads = n;
                return 0;
        case 'I':
                if (!cli_isa(optarg, &l->engine.max_isa))
                        return cli_usage(v, "unknown instruction set '%s'", optarg);
                return 0;
        case 'j':
                return 0; /* always JSON */
        default:
                return cli_usage(v, "bad option");
        }
}

static int run(const struct cli_verb *v, int argc, char **argv) {
        static const struct option options[] = {{"ids", 1, NULL, 'i'}, {"generate", 1, NULL, 'g'},
                {"top", 1, NULL, 'k'}, {"kv", 1, NULL, 'K'}, {"threads", 1, NULL, 't'},
                {"isa", 1, NULL, 'I'}, {"json", 0, NULL, 'j'}, {"help", 0, NULL, 'h'}, {0}};
        struct logprobs l = {.n_generate = 1,
                .top = 10,
                .engine = {.kv_type = KERN_KV_F32,
                        .max_isa = kern_cpu_isa(),
                        .n_threads = cli_n_cpus(),
                        .max_outputs = 1}};
        int c, r = 0;

        opterr = 0;
        while (r == 0 && (c = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
                if (c == 'h') {
                        free(l.prompt);
                        return cli_help(v);
                }
                r = parse_option(v, &l, c);
        }
        if (r == 0 && optind + 1 != argc)
                r = cli_usage(v, "expected one model file");
        if (r == 0 && !l.n_prompt)
                r = cli_usage(v, "--ids is missing");
        if (r == 0) {
                l.file = argv[optind];
                l.engine.max_tokens = MIN(l.n_prompt, (uint32_t)PREFILL_CHUNK);
                r = run_parsed(&l);
        }
        free(l.prompt);
        return r;
}

const struct cli_verb verb_logprobs = {
        .name = "logprobs",
        .usage = "FILE --ids 1,2,3 [--generate N] [--top K] [--kv TYPE] [--threads N] "
                 "[--isa NAME]",
        .help = "Continues the given tokens greedily and prints, as one JSON object, the tokens\n"
                "and for each the K best natural log-probabilities:\n"
                "  {\"generated_ids\": [ID, ...], \"top10_logprobs\": [[[ID, LOGPROB], ...], "
                "...]}\n"
                "\n"
                "  --ids LIST       prompt tokens, separated by commas\n"
                "  --generate N     tokens to generate (default 1); nothing stops earlier\n"
                "  --top K          log-probabilities per token (default 10), at most all\n"
                "  --kv TYPE        type of the keys and values kept: f32, f16, q8_0 (default "
                "f32)\n"
                "  -t, --threads N  default: the processors available\n"
                "  --isa NAME       at most this instruction set: generic, avx2, avx-vnni,\n"
                "                   avx512, avx512-vnni, neon, neon-dotprod\n"
                "  --json           accepted; the output is JSON always\n",
        .run = run,
};
