/* SPDX-License-Identifier: MIT */
#include "unit/grammar/grammar-rig.h"
#include "base/err.h"
#include "base/util.h"
#include "util/test.h"
#include <string.h>

#define CACHE ((size_t)1 << 20)

size_t rig_text(const struct grammar_rig *r, uint32_t token, char *dst, size_t size) {
        char byte = (char)token;
        const char *text = token < 256 ? &byte : r->words[token - 256];
        size_t n = token < 256 ? 1 : strlen(text);

        if (size > 0)
                memcpy(dst, text, MIN(n, size));
        return n;
}

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        const struct grammar_rig *r = userdata;

        if (token == rig_end(r))
                return GRAMMAR_TOKEN_END;
        *ret_size = rig_text(r, token, dst, size);
        return GRAMMAR_TOKEN_TEXT;
}

void rig_init(struct grammar_rig *r, const char *const *words, size_t n_words) {
        struct grammar_vocab_source source = {
                .n_tokens = 257 + (uint32_t)n_words, .token = token_of, .userdata = r};

        *r = (struct grammar_rig){.words = words, .n_words = n_words};
        assert_int_equal(grammar_vocab_new(&r->vocab, &source, NULL, NULL), 0);
}

void rig_deinit(struct grammar_rig *r) {
        r->vocab = grammar_vocab_free(r->vocab);
}

struct grammar *rig_grammar(const struct grammar_rig *r, enum grammar_kind kind, const char *text) {
        struct grammar *g = NULL;
        struct err e = {0};

        if (grammar_new(&g, kind, text, strlen(text), r->vocab, CACHE, NULL, NULL, &e) < 0)
                fail_msg("%s: %s", text, e.msg);
        return g;
}

size_t rig_takes(struct grammar *g, const char *text, size_t n) {
        struct grammar_state s;
        size_t taken = n;

        assert_int_equal(grammar_start(g, &s, NULL), 0);
        assert_true(grammar_advance(g, &s, text, n, &taken, NULL) >= 0);
        grammar_state_deinit(&s);
        return taken;
}

bool rig_meets(struct grammar *g, const char *text, size_t n) {
        struct grammar_state s;
        bool ok;

        assert_int_equal(grammar_start(g, &s, NULL), 0);
        ok = grammar_advance(g, &s, text, n, NULL, NULL) == 0 && grammar_accepts(&s);
        grammar_state_deinit(&s);
        return ok;
}

void rig_refused(enum grammar_kind kind, const char *text, int code, const char *part) {
        struct grammar_rig r;
        struct grammar *g = NULL;
        struct err e = {0};
        int k;

        rig_init(&r, NULL, 0);
        k = grammar_new(&g, kind, text, strlen(text), r.vocab, CACHE, NULL, NULL, &e);
        if (k != -code || !strstr(e.msg, part))
                fail_msg("%.200s: %d \"%s\" instead of \"%s\"", text, k, e.msg, part);
        rig_deinit(&r);
}

void rig_table(
        enum grammar_kind kind, const char *text, const char *const *yes, const char *const *no) {
        struct grammar_rig r;
        struct grammar *g;

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, kind, text);
        for (; *yes; yes++)
                if (!rig_meets(g, *yes, strlen(*yes)))
                        fail_msg("%s does not meet %s: it ends after %zu bytes", *yes, text,
                                rig_takes(g, *yes, strlen(*yes)));
        for (; *no; no++)
                if (rig_meets(g, *no, strlen(*no)))
                        fail_msg("%s meets %s", *no, text);
        grammar_free(g);
        rig_deinit(&r);
}
