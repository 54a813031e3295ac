/* SPDX-License-Identifier: MIT */
/*
 * sample SEED N: reads a schema from standard input and prints N texts, chosen at random among the
 * tokens that its masks allow, each on a line, in the form of a JSON string of the text's bytes in
 * hexadecimal. For check-samples.py.
 */
#include "base/err.h"
#include "grammar/grammar.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"{\"", "\":", "\": ", "\",", ", \"", "\"}", "},", "]", "]}",
        "\",\"", "the ", "name", "\"a\"", "true", "12", "-", "0.", "\xc3\xa9", "\xe2\x82\xac",
        "\xf0\x9f", "\\u00e9", "\\n", "\\\"", "ab", "red", "green", "  ", "\n  ", "2024",
        "\"b\":", "\"c\":", "null"};
#define N_WORDS (sizeof(words) / sizeof(*words))
#define MAX_TEXT 3000

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        char byte = (char)token;
        const char *text = token < 256 ? &byte : words[(token - 256) % N_WORDS];

        (void)userdata;
        if (token == 256 + N_WORDS)
                return GRAMMAR_TOKEN_END;
        *ret_size = token < 256 ? 1 : strlen(text);
        if (size > 0)
                memcpy(dst, text, size < *ret_size ? size : *ret_size);
        return GRAMMAR_TOKEN_TEXT;
}

static uint64_t x;

static uint32_t next(void) {
        x = x * 6364136223846793005 + 1442695040888963407;
        return (uint32_t)(x >> 33);
}

/* A token of the mask. Once the text is long, one that ends something is preferred. */
static uint32_t choose(const uint64_t *mask, bool is_long) {
        static const char ends[] = "\"}]0";
        uint32_t end = 256 + N_WORDS, at = next() % (end + 1);

        if (mask[end / 64] >> (end % 64) & 1 && (is_long || next() % 4 == 0))
                return end;
        for (size_t i = 0; is_long && i < sizeof(ends) - 1; i++)
                if (mask[ends[i] / 64] >> (ends[i] % 64) & 1)
                        return (uint32_t)ends[i];
        if (next() % 2) /* letters and digits, more often than control bytes or half characters */
                at = 32 + next() % 96;
        while (!(mask[at / 64] >> (at % 64) & 1))
                at = (at + 1) % (end + 1);
        return at;
}

static void print(const char *text, size_t n) {
        printf("\"");
        for (size_t i = 0; i < n; i++)
                printf("%02x", (uint8_t)text[i]);
        printf("\"\n");
}

static int sample(struct grammar *g, struct err *e) {
        struct grammar_state s;
        char text[MAX_TEXT + 256];
        uint64_t mask[8];
        size_t n = 0;
        int r = grammar_start(g, &s, e);

        while (r == 0 && n < MAX_TEXT) {
                uint32_t token;
                size_t size;

                r = grammar_mask(g, &s, false, mask, e);
                if (r != 0)
                        break;
                token = choose(mask, n > 150);
                if (token == 256 + N_WORDS) {
                        print(text, n);
                        break;
                }
                token_of(NULL, token, text + n, sizeof(text) - n, &size);
                r = grammar_advance(g, &s, text + n, size, NULL, e);
                n += size;
        }
        grammar_state_deinit(&s);
        return r;
}

int main(int argc, char **argv) {
        static char text[GRAMMAR_MAX_TEXT];
        struct grammar_vocab_source source = {.n_tokens = 257 + N_WORDS, .token = token_of};
        size_t n = fread(text, 1, sizeof(text), stdin);
        struct grammar_vocab *v = NULL;
        struct grammar *g = NULL;
        struct err e = {0};
        int r;

        if (argc < 3)
                return 2;
        x = strtoull(argv[1], NULL, 10);
        r = grammar_vocab_new(&v, &source, NULL, &e);
        if (r == 0)
                r = grammar_new(&g, GRAMMAR_JSON_SCHEMA, text, n, v, 0, NULL, NULL, &e);
        for (int i = 0; r == 0 && i < atoi(argv[2]); i++)
                r = sample(g, &e);
        if (r != 0)
                fprintf(stderr, "%s\n", r == 1 ? "nothing is allowed" : e.msg);
        grammar_free(g);
        grammar_vocab_free(v);
        return r != 0;
}
