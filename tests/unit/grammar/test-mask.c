/* SPDX-License-Identifier: MIT */
/*
 * Masks are exact: a token is in the mask of a state if and only if the grammar takes its bytes
 * there. Checked along random replies, with caches of every size, and states made again from the
 * text.
 */
#include "base/err.h"
#include "base/ledger.h"
#include "grammar/grammar-internal.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"{\"", "\":", "\": ", "\", \"", "\"}", "\"}]", ", ", "},{",
        "  ", "    ", "\n  ", "the", " the", " a", "name", "\"name\"", "true", "false", "null",
        "12", "345", "1.5", "-1", "e+", "abc", "abcabcabc",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "]]]]", "[[[[", "((", "))", "\\u00",
        "\\n", "\\\"", "\xc3\xa9", "\xc3\xa9\xf0", "\x9f\x98", "\x80\x80", "\xe2\x82", "a\xc3",
        "\xa9z", "\"\"", "the", "{\"a\":", "\"items\"", "red", "green", " \"", "2024-", "x.y",
        "\"\n}"};
#define N_WORDS (sizeof(words) / sizeof(*words))

static const struct {
        enum grammar_kind kind;
        const char *text;
} grammars[] = {
        {GRAMMAR_JSON_SCHEMA, "{}"},
        {GRAMMAR_JSON_SCHEMA,
                "{\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"items\":{"
                "\"type\":"
                "\"array\",\"items\":{\"enum\":[\"red\",\"green\",12,true]},\"maxItems\":4},\"a\":{"
                "\"type\":"
                "\"number\",\"minimum\":-1,\"maximum\":12.5}},\"required\":[\"name\"],"
                "\"additionalProperties\":{\"type\":\"integer\"}}"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"#/$defs/"
                              "t\",\"$defs\":{\"t\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":"
                              "\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/t\"}}]}}}"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\":\"a.*b|^(the|[^x]{3,7})+$\"}"},
        {GRAMMAR_GBNF, "root ::= e\ne ::= t ((\"+\" | \"-\") t)*\nt ::= [0-9]+ | \"(\" e \")\" | "
                       "w\nw ::= [a-z]+"},
        {GRAMMAR_GBNF, "root ::= (\"a\"{2,5} | \"abc\"){3,300} [\xc3\xa9\xe2\x82\xac] ."},
        {GRAMMAR_GBNF, "root ::= x x x\nx ::= [a-z ]* | \"the\""},
        {GRAMMAR_GBNF, "root ::= .{0,60}"},
        {GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"\""},
};
#define N_GRAMMARS (sizeof(grammars) / sizeof(*grammars))

static uint64_t next(uint64_t *x) {
        *x = *x * 6364136223846793005 + 1442695040888963407;
        return *x >> 33;
}

static bool has(const uint64_t *mask, uint32_t token) {
        return mask[token / 64] >> (token % 64) & 1;
}

static bool token_fits(const struct grammar_rig *r, struct grammar *g,
        const struct grammar_state *s, uint32_t token, bool skip_space) {
        struct grammar_state copy;
        char text[300];
        size_t n, from;
        bool ok;

        if (token == rig_end(r))
                return grammar_accepts(s);
        n = rig_text(r, token, text, sizeof(text));
        from = skip_space && text[0] == ' ';
        assert_int_equal(grammar_state_copy(&copy, s, NULL), 0);
        ok = grammar_advance(g, &copy, text, n, NULL, NULL) == 0;
        if (!ok && from && n > 1)
                ok = grammar_advance(g, &copy, text + 1, n - 1, NULL, NULL) == 0;
        grammar_state_deinit(&copy);
        return ok;
}

/* The mask of @s is exact; returns one of its tokens, or UINT32_MAX if it has none. */
static uint32_t check_mask(const struct grammar_rig *r, struct grammar *g, struct grammar_state *s,
        bool skip_space, uint64_t *x) {
        uint64_t mask[16];
        uint32_t allowed[512], n = 0;
        int k;

        assert_true(grammar_mask_words(r->vocab) <= 16);
        k = grammar_mask(g, s, skip_space, mask, NULL);
        for (uint32_t i = 0; i <= rig_end(r); i++) {
                bool ok = token_fits(r, g, s, i, skip_space);

                if (has(mask, i) != ok)
                        fail_msg("token %u: %d in the mask, %d by its bytes", i, has(mask, i), ok);
                if (ok)
                        allowed[n++] = i;
        }
        assert_int_equal(k, n == 0);
        return n ? allowed[next(x) % n] : UINT32_MAX;
}

static void walk(const struct grammar_rig *r, struct grammar *g, uint64_t seed, bool skip_space) {
        struct grammar_state s, again;
        char text[4000];
        size_t n = 0;

        assert_int_equal(grammar_start(g, &s, NULL), 0);
        for (int i = 0; i < 40; i++) {
                uint32_t token = check_mask(r, g, &s, skip_space && i == 0, &seed);

                if (token == UINT32_MAX || token == rig_end(r))
                        break;
                size_t size = rig_text(r, token, text + n, sizeof(text) - n);
                if (skip_space && i == 0 && text[0] == ' ' &&
                        grammar_advance(g, &s, text, size, NULL, NULL) == 1) {
                        memmove(text, text + 1, --size);
                        assert_int_equal(grammar_advance(g, &s, text, size, NULL, NULL), 0);
                } else if (!(skip_space && i == 0 && text[0] == ' ')) {
                        assert_int_equal(grammar_advance(g, &s, text + n, size, NULL, NULL), 0);
                }
                n += size;
        }
        /* The same state from the text alone, whatever the cache held: the same masks. */
        assert_int_equal(grammar_start(g, &again, NULL), 0);
        assert_int_equal(grammar_advance(g, &again, text, n, NULL, NULL), 0);
        {
                uint64_t a[16], b[16];

                (void)grammar_mask(g, &s, false, a, NULL);
                (void)grammar_mask(g, &again, false, b, NULL);
                assert_memory_equal(a, b, grammar_mask_words(r->vocab) * sizeof(*a));
                assert_int_equal(grammar_accepts(&s), grammar_accepts(&again));
        }
        grammar_state_deinit(&again);
        grammar_state_deinit(&s);
}

static void test_masks_are_exact(void **state) {
        struct grammar_rig r;

        rig_init(&r, words, N_WORDS);
        for (size_t i = 0; i < N_GRAMMARS; i++) {
                struct grammar *g = rig_grammar(&r, grammars[i].kind, grammars[i].text);

                for (uint64_t seed = 1; seed <= 6; seed++)
                        walk(&r, g, seed, seed % 2);
                grammar_free(g);
        }
        rig_deinit(&r);
}

/* With the smallest cache states and parts are forgotten all the time. */
static void test_small_cache(void **state) {
        struct grammar_figures f;
        struct grammar_rig r;
        uint64_t compactions = 0;

        rig_init(&r, words, N_WORDS);
        for (size_t i = 0; i < N_GRAMMARS; i++) {
                struct grammar *g = NULL;
                struct err e;

                assert_int_equal(grammar_new(&g, grammars[i].kind, grammars[i].text,
                                         strlen(grammars[i].text), r.vocab, 0, NULL, NULL, &e),
                        0);
                /* smaller than the interface allows */
                g->space.max_steps = 40 * g->program.n_classes;
                g->space.max_sets = 300;
                g->space.max_cells = 400;
                g->max_masks_size = 2 * grammar_mask_words(r.vocab) * 8 + 400;
                for (uint64_t seed = 1; seed <= 3; seed++)
                        walk(&r, g, seed, false);
                grammar_figures(g, &f);
                compactions += f.compactions;
                grammar_free(g);
        }
        assert_true(compactions > 10);
        rig_deinit(&r);
}

/* Strings share their parts, whatever they stand in, and long counts share them as well. */
static void test_parts_are_shared(void **state) {
        const char *text =
                "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"string\"},\"c\":{"
                "\"items\":{\"type\":\"string\"}}},\"required\":[\"a\",\"b\",\"c\"]}";
        const char *replies[] = {"{\"a\":\"x", "{\"a\":\"x\",\"b\":\"yy",
                "{\"a\":\"x\",\"b\":\"y\",\"c\":[\"z",
                "{\"a\":\"x\",\"b\":\"y\",\"c\":[\"z\",\"\",\"u"};
        struct grammar_figures f;
        struct grammar_rig r;
        struct grammar *g;
        struct grammar_state s;
        uint64_t mask[16];

        rig_init(&r, words, N_WORDS);
        g = rig_grammar(&r, GRAMMAR_JSON_SCHEMA, text);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(grammar_start(g, &s, NULL), 0);
                assert_int_equal(
                        grammar_advance(g, &s, replies[i], strlen(replies[i]), NULL, NULL), 0);
                assert_int_equal(grammar_mask(g, &s, false, mask, NULL), 0);
                grammar_state_deinit(&s);
                grammar_figures(g, &f);
                assert_int_equal(f.masks_made, 1);
                assert_int_equal(f.masks_found, i);
        }
        grammar_free(g);
        g = rig_grammar(&r, GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":100000}");
        assert_int_equal(grammar_start(g, &s, NULL), 0);
        assert_int_equal(grammar_advance(g, &s, "\"", 1, NULL, NULL), 0);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(grammar_mask(g, &s, false, mask, NULL), 0);
                assert_int_equal(grammar_advance(g, &s, "a", 1, NULL, NULL), 0);
        }
        grammar_figures(g, &f);
        assert_int_equal(f.masks_made, 1);
        grammar_state_deinit(&s);
        grammar_free(g);
        rig_deinit(&r);
}

/* Beyond the limit of nesting only what closes is allowed. */
static void test_deepest(void **state) {
        struct grammar_rig r;
        struct grammar *g;
        struct grammar_state s;
        uint64_t x = 1, mask[16];
        size_t n = 0;

        rig_init(&r, words, N_WORDS);
        g = rig_grammar(&r, GRAMMAR_GBNF, "root ::= \"[\" root \"]\" | \"\"");
        assert_int_equal(grammar_start(g, &s, NULL), 0);
        while (grammar_advance(g, &s, "[", 1, NULL, NULL) == 0)
                n++;
        assert_int_equal(n, SPACE_MAX_DEPTH);
        check_mask(&r, g, &s, false, &x);
        assert_int_equal(grammar_mask(g, &s, false, mask, NULL), 0);
        assert_true(has(mask, ']') && !has(mask, '['));
        for (int i = 0; i < 3; i++)
                assert_int_equal(grammar_advance(g, &s, "]", 1, NULL, NULL), 0);
        /* three may be opened again, but not the four of a token */
        check_mask(&r, g, &s, false, &x);
        grammar_state_deinit(&s);
        grammar_free(g);
        rig_deinit(&r);
}

static enum grammar_token few_tokens(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        static const char *const texts[] = {"a", "", "b"};

        (void)userdata;
        *ret_size = strlen(texts[token % 3]);
        if (size > 0)
                memcpy(dst, texts[token % 3], size < *ret_size ? size : *ret_size);
        return token == 3 ? GRAMMAR_TOKEN_NONE : GRAMMAR_TOKEN_TEXT;
}

/* A vocabulary that cannot spell what comes next: an empty mask. */
static void test_no_token(void **state) {
        struct grammar_vocab_source source = {.n_tokens = 4, .token = few_tokens};
        struct ledger ledger = LEDGER_INIT(4 << 20);
        struct grammar_vocab *v;
        struct grammar *g = NULL;
        struct grammar_state s;
        uint64_t mask = 77;

        assert_int_equal(grammar_vocab_new(&v, &source, &ledger, NULL), 0);
        assert_true(ledger_used(&ledger) >= grammar_vocab_size(v));
        assert_int_equal(
                grammar_new(&g, GRAMMAR_GBNF, "root ::= [ab] \"c\"", 17, v, 0, &ledger, NULL, NULL),
                0);
        assert_int_equal(grammar_start(g, &s, NULL), 0);
        assert_int_equal(grammar_mask(g, &s, false, &mask, NULL), 0);
        assert_int_equal(mask, 5); /* not the empty text */
        assert_int_equal(grammar_advance(g, &s, "a", 1, NULL, NULL), 0);
        assert_int_equal(grammar_mask(g, &s, false, &mask, NULL), 1);
        assert_int_equal(mask, 0);
        grammar_state_deinit(&s);
        grammar_free(g);
        grammar_vocab_free(v);
        assert_int_equal(ledger_used(&ledger), 0);
}

/* Everything is charged, and refused where it does not fit, with nothing left behind. */
static void test_ledger(void **state) {
        struct grammar_rig r;

        rig_init(&r, words, N_WORDS);
        for (size_t i = 0; i < N_GRAMMARS; i++)
                for (size_t budget = 100; budget < 1500000; budget = budget * 3 / 2) {
                        struct ledger ledger = LEDGER_INIT(budget);
                        struct grammar *g = NULL;
                        struct err e = {0};
                        int k = grammar_new(&g, grammars[i].kind, grammars[i].text,
                                strlen(grammars[i].text), r.vocab, 0, &ledger, NULL, &e);

                        if (k == 0)
                                assert_int_equal(ledger_used(&ledger), grammar_size(g));
                        else
                                assert_true(k == -ERR_TOO_LARGE || k == -ERR_LIMIT);
                        assert_int_equal(k == 0, g != NULL);
                        grammar_free(g);
                        assert_int_equal(ledger_used(&ledger), 0);
                }
        rig_deinit(&r);
}

static void test_stop(void **state) {
        atomic_bool stop = true;
        struct grammar_rig r;
        struct grammar *g = NULL;
        char *text = malloc(20000);
        size_t n = (size_t)sprintf(text, "root ::= \"x\"");

        for (int i = 0; i < 1500; i++)
                n += (size_t)sprintf(text + n, " \"abcd%d\"", i);
        rig_init(&r, NULL, 0);
        assert_int_equal(grammar_new(&g, GRAMMAR_GBNF, text, n, r.vocab, 0, NULL, &stop, NULL),
                -ERR_CANCELLED);
        rig_deinit(&r);
        free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_masks_are_exact),
                cmocka_unit_test(test_small_cache),
                cmocka_unit_test(test_parts_are_shared),
                cmocka_unit_test(test_deepest),
                cmocka_unit_test(test_no_token),
                cmocka_unit_test(test_ledger),
                cmocka_unit_test(test_stop),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
