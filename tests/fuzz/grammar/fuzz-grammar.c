/* SPDX-License-Identifier: MIT */
#include "fuzz/check.h"
#include "fuzz/grammar/fuzz-grammar.h"
#include "base/err.h"
#include "base/ledger.h"
#include <string.h>

static const char *const words[] = {"{\"", "\":", "\", \"", "\"}", "],", "  ", "the", "a1", "true",
        "\xc3", "\xa9x", "\\u00", "\"a\": [", "\n  "};
#define N_WORDS (sizeof(words) / sizeof(*words))
#define N_TOKENS (256 + N_WORDS + 1)
#define BUDGET ((size_t)64 << 20)

static size_t text_of(uint32_t token, char dst[32]) {
        dst[0] = (char)token;
        if (token < 256)
                return 1;
        strcpy(dst, words[token - 256]);
        return strlen(dst);
}

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        char text[32];

        (void)userdata;
        if (token + 1 == N_TOKENS)
                return GRAMMAR_TOKEN_END;
        *ret_size = text_of(token, text);
        if (size > 0)
                memcpy(dst, text, size < *ret_size ? size : *ret_size);
        return GRAMMAR_TOKEN_TEXT;
}

static const struct grammar_vocab *vocab(void) {
        static struct grammar_vocab *v;
        struct grammar_vocab_source source = {.n_tokens = N_TOKENS, .token = token_of};

        if (!v)
                check(grammar_vocab_new(&v, &source, NULL, NULL) == 0);
        return v;
}

/* Single bytes and words: in the mask if and only if the grammar takes them. */
static bool check_mask(struct grammar *g, struct grammar_state *s) {
        uint64_t mask[(N_TOKENS + 63) / 64];
        int r = grammar_mask(g, s, false, mask, NULL), n = 0;

        if (r < 0)
                return false;
        for (uint32_t i = 0; i < N_TOKENS; i += i < 250 ? 7 : 1) {
                bool has = mask[i / 64] >> (i % 64) & 1, ok;
                struct grammar_state copy;
                char text[32];
                int k = 1;

                if (i + 1 == N_TOKENS) {
                        ok = grammar_accepts(s);
                } else {
                        check(grammar_state_copy(&copy, s, NULL) == 0);
                        k = grammar_advance(g, &copy, text, text_of(i, text), NULL, NULL);
                        ok = k == 0;
                        grammar_state_deinit(&copy);
                }
                n += ok;
                check(k < 0 || has == ok);
        }
        check(r == 0 || n == 0);
        return true;
}

static void follow(struct grammar *g, const uint8_t *text, size_t n) {
        struct grammar_state s;

        if (grammar_start(g, &s, NULL) < 0)
                return;
        for (size_t i = 0; i <= n && i < 24; i++) {
                size_t taken = 1;

                if (i % 6 == 0 && !check_mask(g, &s))
                        break;
                if (i == n || grammar_advance(g, &s, text + i, 1, &taken, NULL) < 0)
                        break;
                if (taken == 0 && grammar_advance(g, &s, "\"", 1, NULL, NULL) != 0)
                        break;
        }
        grammar_state_deinit(&s);
}

void fuzz_grammar(enum grammar_kind kind, const uint8_t *data, size_t size) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        struct ledger ledger = LEDGER_INIT(BUDGET);
        struct grammar *g = NULL;
        struct err e = {0};
        int r = grammar_new(&g, kind, (const char *)data, n, vocab(), 0, &ledger, NULL, &e);

        if (r == 0) {
                check(ledger_used(&ledger) == grammar_size(g));
                follow(g, end ? end + 1 : data, end ? size - n - 1 : n);
                grammar_free(g);
        } else {
                check(e.code == (enum err_code) - r && e.msg[0]);
        }
        check(ledger_used(&ledger) == 0);
}
