/* SPDX-License-Identifier: MIT */
/*
 * How fast one core makes tokens of text (processor time): bench-tok VOCABULARY.gguf TEXT [MEGABYTES]
 *
 * TEXT is repeated until it has so many megabytes (8). The texts after it are made to be hard: for
 * each the time per byte with 1 MB and with 4 MB stands side by side, and should be about the same.
 * make-vocabulary.py makes vocabularies of kinds that no file at hand has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "tok/tok.h"

#define MEGABYTE ((size_t)1000 * 1000)
#define ROUNDS 3

/* Of this thread alone: another program on the same core does not count. */
static double cpu_seconds(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int count_token(void *userdata, int32_t token, struct err *e) {
        ++*(size_t *)userdata;
        return 0;
}

/* Seconds of the fastest of some rounds. */
static double seconds(const struct tok *t, const char *text, size_t size, size_t *ret_tokens) {
        double best = 1e9;

        for (int i = 0; i < ROUNDS; i++) {
                struct tok_fragment f = {text, size, false};
                struct tok_sink sink = {.put = count_token, .userdata = ret_tokens};
                double start = cpu_seconds(), s;
                struct err e;

                *ret_tokens = 0;
                if (tok_encode_each(t, &f, 1, false, true, &sink, &e) < 0) {
                        fprintf(stderr, "bench-tok: %s\n", e.msg);
                        exit(1);
                }
                s = cpu_seconds() - start;
                best = s < best ? s : best;
        }
        return best;
}

static void repeat(char *dst, size_t size, const char *part, size_t n) {
        for (size_t i = 0; i < size; i++)
                dst[i] = part[i % n];
}

static void print_hard(const struct tok *t, char *text) {
        static const struct {
                const char *name, *part;
        } hard[] = {
                {"spaces", " "},
                {"newlines", "\n"},
                {"spaces and newlines", "  \n"},
                {"one letter", "a"},
                {"one capital", "A"},
                {"words of one letter", "a "},
                {"apostrophes", "'"},
                {"digits", "7"},
                {"combining marks", "\xcc\x81"},
                {"Han", "\xe4\xb8\xad"},
                {"ill-formed UTF-8", "a\xff\xe4\xb8"},
        };

        for (size_t i = 0; i < sizeof(hard) / sizeof(hard[0]); i++) {
                size_t n, len = strlen(hard[i].part);
                double small, large;

                repeat(text, 4 * MEGABYTE, hard[i].part, len);
                small = seconds(t, text, MEGABYTE / len * len, &n);
                large = seconds(t, text, 4 * MEGABYTE / len * len, &n);
                printf("%-20s %8.1f MB/s of 1 MB %8.1f MB/s of 4 MB\n", hard[i].name, 1 / small,
                        4 / large);
        }
}

int main(int argc, char **argv) {
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        _cleanup_(tok_freep) struct tok *t = NULL;
        _cleanup_(freep) char *part = NULL, *text = NULL;
        size_t size = (argc > 3 ? strtoul(argv[3], NULL, 10) : 8) * MEGABYTE, n = 0, n_tokens;
        double start = cpu_seconds(), s;
        struct err e;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc < 3 || size < 4 * MEGABYTE) {
                fprintf(stderr, "bench-tok VOCABULARY.gguf TEXT [MEGABYTES, at least 4]\n");
                return 2;
        }
        if (gguf_open(&g, argv[1], &e) < 0 || tok_new(&t, g, &e) < 0 ||
                file_read_all(argv[2], size, &part, &n, &e) < 0) {
                fprintf(stderr, "bench-tok: %s\n", e.msg);
                return 1;
        }
        printf("%s \"%s\", %u tokens: loaded in %.1f ms\n", tok_model_name(t), tok_pre_name(t),
                tok_n_vocab(t), (cpu_seconds() - start) * 1e3);
        text = n > 0 ? malloc(size) : NULL;
        if (!text)
                return 1;
        repeat(text, size, part, n);
        s = seconds(t, text, size, &n_tokens);
        printf("%-20s %8.1f MB/s, %.1f M tokens/s\n", "TEXT", (double)size / s / 1e6,
                (double)n_tokens / s / 1e6);
        print_hard(t, text);
        return 0;
}
