/* SPDX-License-Identifier: MIT */
/*
 * What a grammar costs: bench-grammar VOCABULARY.gguf [REPLIES]
 *
 * For some schemas of usual size: compiling, and for each token of random replies the mask and the
 * step, with a fresh grammar ("cold": the first reply), and with one that has made replies before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "grammar/grammar.h"
#include "tok/tok.h"

#define MAX_TIMES 400000
#define CACHE ((size_t)4 << 20)

static const struct {
        const char *name;
        enum grammar_kind kind;
        const char *text;
} grammars[] = {
        {"weather call", GRAMMAR_JSON_SCHEMA,
                "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{"
                "\"enum\":[\"celsius\","
                "\"fahrenheit\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},"
                "\"required\":["
                "\"city\",\"unit\"],\"additionalProperties\":false}"},
        {"person", GRAMMAR_JSON_SCHEMA,
                "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":"
                "1,\"maxLength\":"
                "80},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"email\":{"
                "\"type\":\"string\","
                "\"format\":\"email\"},\"born\":{\"format\":\"date\"},\"tags\":{\"type\":\"array\","
                "\"items\":{"
                "\"type\":\"string\"},\"maxItems\":8},\"address\":{\"type\":\"object\","
                "\"properties\":{\"street\":{"
                "\"type\":\"string\"},\"city\":{\"type\":\"string\"},\"zip\":{\"type\":\"string\","
                "\"pattern\":"
                "\"^\\\\d{5}$\"}},\"required\":[\"street\",\"city\",\"zip\"]}},\"required\":["
                "\"name\",\"age\","
                "\"address\"]}"},
        {"steps", GRAMMAR_JSON_SCHEMA,
                "{\"type\":\"object\",\"properties\":{\"steps\":{\"type\":\"array\",\"items\":{"
                "\"type\":\"object\","
                "\"properties\":{\"explanation\":{\"type\":\"string\"},\"output\":{\"type\":"
                "\"string\"}},\"required\":"
                "[\"explanation\",\"output\"]}},\"final_answer\":{\"type\":\"string\"}},"
                "\"required\":[\"steps\","
                "\"final_answer\"]}"},
        {"any JSON", GRAMMAR_JSON_SCHEMA, "{}"},
        {"tree", GRAMMAR_JSON_SCHEMA,
                "{\"$ref\":\"#/$defs/"
                "node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"label\":{"
                "\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/"
                "$defs/node\"}}},"
                "\"required\":[\"label\",\"children\"]}}}"},
        {"GBNF list", GRAMMAR_GBNF, "root ::= item+\nitem ::= \"- \" [^\\n]+ \"\\n\""},
        {"GBNF JSON", GRAMMAR_GBNF,
                "root ::= object\nvalue ::= object | array | string | number | \"true\" | "
                "\"false\" | \"null\"\n"
                "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? "
                "\"}\" ws\n"
                "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
                "string ::= \"\\\"\" char* \"\\\"\" ws\nchar ::= [^\"\\\\\\x01-\\x1f] | \"\\\\\" "
                "([\"\\\\/bfnrt] | \"u\" "
                "[0-9a-f]{4})\nnumber ::= \"-\"? [0-9]+ (\".\" [0-9]+)? ws\nws ::= [ "
                "\\t\\n]{0,4}\n"},
};

/* Processor time: the machine may be busy. */
static double now_usec(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        const struct tok *t = userdata;

        if (tok_is_eog(t, (int32_t)token))
                return GRAMMAR_TOKEN_END;
        *ret_size = tok_piece(t, (int32_t)token, false, dst, size);
        return *ret_size ? GRAMMAR_TOKEN_TEXT : GRAMMAR_TOKEN_NONE;
}

static void die(const struct err *e) {
        fprintf(stderr, "bench-grammar: %s\n", e->msg);
        exit(1);
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

/* A token of the mask; in a string mostly letters come, so that replies grow. */
static uint32_t choose(const uint64_t *mask, uint32_t n_tokens, uint64_t *x) {
        uint32_t at, n = 0;

        *x = *x * 6364136223846793005 + 1442695040888963407;
        at = (uint32_t)((*x >> 33) % n_tokens);
        while (!(mask[at / 64] >> (at % 64) & 1) && n++ < n_tokens)
                at = (at + 1) % n_tokens;
        return at;
}

static size_t n_times;
static double times[MAX_TIMES], total;

static void reply(struct grammar *g, const struct tok *t, uint64_t *mask, uint64_t seed) {
        struct grammar_state s;
        struct err e;

        if (grammar_start(g, &s, &e) < 0)
                die(&e);
        for (int i = 0; i < 200; i++) {
                double start = now_usec();
                uint32_t token;
                char text[256];
                size_t n;
                int r = grammar_mask(g, &s, false, mask, &e);

                if (r < 0)
                        die(&e);
                token = choose(mask, tok_n_vocab(t), &seed);
                if (r == 1 || tok_is_eog(t, (int32_t)token))
                        break;
                n = tok_piece(t, (int32_t)token, false, text, sizeof(text));
                if (grammar_advance(g, &s, text, n, NULL, &e) != 0)
                        die(&e);
                times[n_times++] = now_usec() - start;
                total += times[n_times - 1];
        }
        grammar_state_deinit(&s);
}

static void print_times(const char *what) {
        qsort(times, n_times, sizeof(*times), compare);
        printf("  %s %6zu tokens: median %7.1f us, mean %7.1f us, 99%% %8.1f us, worst %8.1f us\n",
                what, n_times, times[n_times / 2], total / (double)n_times,
                times[n_times * 99 / 100], times[n_times - 1]);
        n_times = 0;
        total = 0;
}

static void measure(size_t i, const struct tok *t, const struct grammar_vocab *v, int replies) {
        uint64_t *mask = calloc(grammar_mask_words(v), sizeof(*mask));
        struct grammar_figures f;
        struct grammar *g = NULL;
        double start = now_usec();
        struct err e;

        if (!mask || grammar_new(&g, grammars[i].kind, grammars[i].text, strlen(grammars[i].text),
                             v, CACHE, NULL, NULL, &e) < 0)
                die(&e);
        printf("%s: compiled in %.0f us, ", grammars[i].name, now_usec() - start);
        grammar_figures(g, &f);
        printf("%u nodes\n", f.n_nodes);
        reply(g, t, mask, 1);
        print_times("cold");
        for (int k = 0; k < replies; k++)
                reply(g, t, mask, (uint64_t)k + 2);
        n_times = 0;
        total = 0;
        for (int k = 0; k < replies; k++)
                reply(g, t, mask, (uint64_t)k + 2);
        print_times("warm");
        grammar_figures(g, &f);
        printf("  %u states, %u parts; %.1f%% of parts found, %llu compactions\n", f.n_states,
                f.n_masks, 100 * (double)f.masks_found / (double)(f.masks_found + f.masks_made),
                (unsigned long long)f.compactions);
        grammar_free(g);
        free(mask);
}

int main(int argc, char **argv) {
        struct gguf *gguf;
        struct tok *t = NULL;
        struct grammar_vocab *v;
        struct grammar_vocab_source source;
        double start;
        struct err e;

        if (argc < 2) {
                fprintf(stderr, "usage: bench-grammar VOCABULARY.gguf [REPLIES]\n");
                return 2;
        }
        if (gguf_open(&gguf, argv[1], &e) < 0 || tok_new(&t, gguf, &e) < 0)
                die(&e);
        source = (struct grammar_vocab_source){tok_n_vocab(t), token_of, t};
        start = now_usec();
        if (grammar_vocab_new(&v, &source, NULL, &e) < 0)
                die(&e);
        printf("%u tokens: trie of %.2f MB in %.1f ms\n", tok_n_vocab(t),
                (double)grammar_vocab_size(v) / 1e6, (now_usec() - start) / 1e3);
        for (size_t i = 0; i < sizeof(grammars) / sizeof(*grammars); i++)
                measure(i, t, v, argc > 2 ? atoi(argv[2]) : 20);
        grammar_vocab_free(v);
        tok_free(t);
        gguf_free(gguf);
        return 0;
}
