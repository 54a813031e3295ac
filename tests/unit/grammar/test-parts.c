/* SPDX-License-Identifier: MIT */
/* Grammars of parts: literals, control tokens, values, and text without certain strings. */
#include "grammar-rig.h"
#include "base/err.h"
#include "util/test.h"
#include <stdio.h>
#include <string.h>

#define YES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PARTS(text, yes, no) rig_table(GRAMMAR_PARTS, text, yes, no)

static void test_items(void **state) {
        PARTS("t2:abw(t1:c|t2:dd)", YES("abc", "ab c", "ab\nc", "ab\n\ndd"),
                YES("ab", "ab  c", "ab\n\n\nc", "abcc", "abd"));
        PARTS("m5:<end>", YES("\xff<end>"), YES("<end>", "\xff", "\xff<end", "end"));
        PARTS("(ot1:a|t1:b)",
                YES("\xfe"
                    "a",
                        "b"),
                YES("a", "\xfe"
                         "b"));
        PARTS("t1:<i3:t1:>", YES("<aZ9>"), YES("<aZ>", "<aZ99>", "<a_9>"));
        PARTS("t2:{}t0:", YES("{}"), YES("{", ""));
        (void)state;
}

static void test_values(void **state) {
        PARTS("t2:f(j30:{\"enum\":[1,\"x\"],\"title\":\"a|b\"}t1:)", YES("f(1)", "f(\"x\")"),
                YES("f()", "f(2)", "f(1", "1"));
        PARTS("(t1:aj11:{\"const\":1}|t1:bj11:{\"const\":2})", YES("a1", "b2"), YES("a2", "b1"));
        rig_refused(GRAMMAR_PARTS, "j10:{\"not\":{}}", ERR_UNSUPPORTED, "not");
        rig_refused(GRAMMAR_PARTS, "j3:{]}", ERR_INVALID, "schema");
        (void)state;
}

/* Any text, up to the first of the strings. */
static void test_without(void **state) {
        static const char two[] = "f14:</a>\0</bc>\0<x\0t1:.";
        static const char *const has[] = {"</a>", "q</a>", "<</a>", "</</a>", "</b</a>", "</bc>",
                "<x", "<<x", "</<x", "</b<x>"};
        static const char *const none[] = {"", "<", "</", "</b", "</b>", "a", "</aa>", "< x", "<</",
                "</</b", "\xc3\xa9</\xe2\x82\xac", "</\n"};
        struct grammar_rig r;
        struct grammar *g;

        rig_init(&r, NULL, 0);
        assert_int_equal(grammar_new(&g, GRAMMAR_PARTS, two, sizeof(two) - 1, r.vocab,
                                 GRAMMAR_MIN_CACHE, NULL, NULL, NULL),
                0);
        for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
                char text[64];
                int n = snprintf(text, sizeof(text), "%s.", has[i]);

                if (rig_meets(g, text, (size_t)n))
                        fail_msg("%s is free of strings", text);
        }
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
                char text[64];
                int n = snprintf(text, sizeof(text), "%s.", none[i]);

                if (!rig_meets(g, text, (size_t)n))
                        fail_msg("%s is not free of strings", text);
        }
        grammar_free(g);
        rig_deinit(&r);
        (void)state;
}

/* All texts of few letters, against a search for the strings. */
static void test_without_all(void **state) {
        static const char letters[] = "<ab";
        static const char grammar[] = "f10:<aab\0<aba\0";
        struct grammar_rig r;
        struct grammar *g;
        unsigned n_free = 0, n_all = 0;

        rig_init(&r, NULL, 0);
        assert_int_equal(grammar_new(&g, GRAMMAR_PARTS, grammar, sizeof(grammar) - 1, r.vocab,
                                 GRAMMAR_MIN_CACHE, NULL, NULL, NULL),
                0);
        for (unsigned n = 0, most = 1; n <= 8; n++, most *= 3)
                for (unsigned k = 0; k < most; k++) {
                        char text[9] = "";
                        bool is_free;

                        for (unsigned i = 0, x = k; i < n; i++, x /= 3)
                                text[i] = letters[x % 3];
                        is_free = !strstr(text, "<aab") && !strstr(text, "<aba");
                        if (rig_meets(g, text, n) != is_free)
                                fail_msg("'%s' is %sfree", text, is_free ? "" : "not ");
                        n_free += is_free;
                        n_all++;
                }
        assert_true(n_free > 0 && n_free < n_all);
        grammar_free(g);
        rig_deinit(&r);
        (void)state;
}

static void test_refused(void **state) {
        static const char *const wrong[] = {"x", "t", "t1", "t1:", "t5:abc", "t99999999999999:a",
                "i0:", "i65:", "(t1:a", "(t1:a|", ")", "|", "f0:", "f1:a", "m:a"};
        char deep[64], many[512] = "";

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                rig_refused(GRAMMAR_PARTS, wrong[i], ERR_INVALID, "grammar of parts, byte ");
        memset(deep, '(', sizeof(deep) - 1);
        deep[sizeof(deep) - 1] = 0;
        rig_refused(GRAMMAR_PARTS, deep, ERR_TOO_LARGE, "8 deep");
        for (size_t i = 0; i < 65; i++)
                strcat(many, "t1:a");
        rig_refused(GRAMMAR_PARTS, many, ERR_TOO_LARGE, "64 items");
        (void)state;
}

/* What can't be kept out: strings without a common first character, which is in them once more. */
static void test_strings_refused(void **state) {
        static const struct {
                const char *text;
                size_t n;
        } wrong[] = {{"f6:<a\0>b\0", 9}, {"f5:<a<b\0", 8}, {"f2:<\0", 5}, {"f3:<\xff\0", 6}};
        struct grammar_rig r;

        rig_init(&r, NULL, 0);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct grammar *g = NULL;
                struct err e;

                assert_int_equal(grammar_new(&g, GRAMMAR_PARTS, wrong[i].text, wrong[i].n, r.vocab,
                                         GRAMMAR_MIN_CACHE, NULL, NULL, &e),
                        -ERR_INVALID);
                assert_non_null(strstr(e.msg, "kept out"));
                assert_null(g);
        }
        rig_deinit(&r);
        (void)state;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_items),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_without),
                cmocka_unit_test(test_without_all),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_strings_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
