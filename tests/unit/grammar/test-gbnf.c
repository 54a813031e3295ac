/* SPDX-License-Identifier: MIT */
/* What GBNF allows, and what is refused, with its place. */
#include "base/err.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING ((const char *const[]){NULL})

static void check(const char *grammar, const char *const *yes, const char *const *no) {
        rig_table(GRAMMAR_GBNF, grammar, yes, no);
}

static void refuse(const char *grammar, int code, const char *part) {
        rig_refused(GRAMMAR_GBNF, grammar, code, part);
}

static void test_texts(void **state) {
        check("root ::= \"ab\"", LIST("ab"), LIST("", "a", "abc", "b"));
        check("root ::= \"\"", LIST(""), LIST("a"));
        check("root ::=", LIST(""), LIST("a"));
        check("root ::= \"a\" | | \"bb\"", LIST("a", "", "bb"), LIST("b", "ab"));
        check("root ::= \"\\n\\r\\t\\\\\\\"\\x41\\u00e9\\U0001F600\"",
                LIST("\n\r\t\\\"A\xc3\xa9\xf0\x9f\x98\x80"), LIST("\n"));
        check("root ::= \"\xc3\xa9\"", LIST("\xc3\xa9"), LIST("\xc3"));
        /* longer than one buffer of the parser */
        {
                char text[700], grammar[800];

                memset(text, 'x', sizeof(text) - 1);
                text[699] = 0;
                snprintf(grammar, sizeof(grammar), "root ::= \"%s\"", text);
                check(grammar, LIST(text), LIST(text + 1));
        }
}

static void test_structure(void **state) {
        check("# a comment\nroot ::= a b # another\na ::= \"x\"\n\nb ::= \"y\" | a\n",
                LIST("xy", "xx"), LIST("x", "y", "xyx"));
        check("root ::= (\"a\" | \"b\"\n | \"c\")\n", LIST("a", "b", "c"), LIST("d", ""));
        check("root ::= \"a\"\n     | \"b\"\nother ::= \"c\"", LIST("a", "b"), LIST("c"));
        check("root ::= \"a\" |\n \"b\"", LIST("a", "b"), LIST("c"));
        check("root ::= a-b_C9\na-b_C9 ::= \"x\"", LIST("x"), LIST("y"));
        check("a ::= root\nroot ::= \"x\"", LIST("x"), LIST("y"));
}

static void test_repeats(void **state) {
        check("root ::= \"a\"*", LIST("", "a", "aaaaa"), LIST("b", "ab"));
        check("root ::= \"ab\"+", LIST("ab", "abab"), LIST("", "aba"));
        check("root ::= \"a\"? \"b\"", LIST("ab", "b"), LIST("aab"));
        check("root ::= \"a\"{3}", LIST("aaa"), LIST("aa", "aaaa"));
        check("root ::= \"a\"{2,}", LIST("aa", "aaaaaaa"), LIST("a"));
        check("root ::= \"a\"{2,4}", LIST("aa", "aaa", "aaaa"), LIST("a", "aaaaa"));
        check("root ::= \"a\"{,2}", LIST("", "a", "aa"), LIST("aaa"));
        check("root ::= \"a\"{0}\"b\"", LIST("b"), LIST("ab"));
        check("root ::= [a-c]{7,9} \"!\"", LIST("abcabca!", "aaaaaaaaa!"),
                LIST("abcabc!", "aaaaaaaaaa!"));
        check("root ::= (\"a\"? \"b\"?){2,3} \".\"", LIST(".", "ab.", "ababab.", "aaa.", "bab."),
                LIST("abababa.", "aaaa.", "bbbb."));
        check("root ::= (\"a\"*)* \".\"", LIST(".", "aaa."), LIST("b."));
        check("root ::= ((\"a\"{0,3}){2,5}){1,2} \".\"", LIST(".", "aaaaaaaaaa."), LIST("b."));
        check("root ::= (\"x\" | \"y\"{2}){1000,1000000} \"z\"", NOTHING, LIST("xz", "yyz"));
        check("root ::= \"a\"*? \"b\"", LIST("b", "aab"), LIST("a"));
}

static void test_long_repeat(void **state) {
        struct grammar_rig r;
        struct grammar *g;
        char *text = malloc(5003);

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, GRAMMAR_GBNF, "root ::= [a-z]{1000,5000} \".\"");
        memset(text, 'q', 5003);
        text[999] = '.';
        assert_int_equal(rig_takes(g, text, 1000), 999);
        text[999] = 'q';
        text[1000] = '.';
        assert_true(rig_meets(g, text, 1001));
        text[1000] = 'q';
        text[5000] = '.';
        assert_true(rig_meets(g, text, 5001));
        text[5000] = 'q';
        assert_int_equal(rig_takes(g, text, 5002), 5000);
        free(text);
        grammar_free(g);
        rig_deinit(&r);
}

static void test_classes(void **state) {
        check("root ::= [a-cx]", LIST("a", "b", "c", "x"), LIST("d", "y", "", "ab"));
        check("root ::= [^a-c\\n]", LIST("d", "\xc3\xa9", "\xf0\x9f\x98\x80", "\t"),
                LIST("a", "\n", "\xc3", "\xa9"));
        check("root ::= [a-]", LIST("a", "-"), LIST("b"));
        check("root ::= [\\]\\\\\\-\\^]", LIST("]", "\\", "-", "^"), LIST("["));
        check("root ::= [e\\u00c0-\\u017f]", LIST("\xc3\x80", "\xc5\xbf", "e"), LIST("\xc6\x80"));
}

static void test_any(void **state) {
        check("root ::= .", LIST("a", "\n", "\xc3\xa9", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"),
                LIST("", "ab", "\xff", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80",
                        "\xe0\x80\x80"));
        check("root ::= [\\u0400-\\u04ff]+", LIST("\xd0\x9f\xd1\x80\xd0\xb8"), LIST("a", "\xd0"));
        check("root ::= [\\U00010000-\\U0010FFFF]", LIST("\xf0\x90\x80\x80"), LIST("\xef\xbf\xbf"));
        check("root ::= [\\ud7ff-\\ue000]", LIST("\xed\x9f\xbf", "\xee\x80\x80"),
                LIST("\xed\xa0\x80"));
}

static void test_recursion(void **state) {
        check("root ::= \"(\" root \")\" | \"x\"", LIST("x", "(x)", "(((x)))"),
                LIST("(x", "x)", "((x)"));
        check("root ::= e\ne ::= t (\"+\" t)*\nt ::= \"1\" | \"(\" e \")\"",
                LIST("1", "1+1", "(1+(1))+1"), LIST("1+", "()", "(1"));
        /* the same list to the left of nothing: a tail call */
        check("root ::= \"a\" root | \"\"", LIST("", "aaaa"), LIST("b"));
        check("root ::= a | b\na ::= \"x\" b\nb ::= \"y\" a | \"z\"", LIST("xz", "z", "xyxz"),
                LIST("x", "y"));
}

static void test_tail_calls_do_not_nest(void **state) {
        struct grammar_rig r;
        struct grammar *g;
        static char text[20001];

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, GRAMMAR_GBNF, "root ::= \"a\" root | \"b\"");
        memset(text, 'a', 20000);
        text[20000] = 'b';
        assert_true(rig_meets(g, text, 20001));
        grammar_free(g);
        rig_deinit(&r);
}

static void test_ambiguous(void **state) {
        check("root ::= (\"a\" | \"aa\" | \"ab\" \"c\"?)* \"c\"", LIST("c", "aaac", "abcc", "abc"),
                LIST("ab", "acb"));
        check("root ::= x x x\nx ::= [a-z]*", LIST("", "abc", "abcdefgh"), LIST("A"));
        check("root ::= \"ab\" | \"abc\" | \"abd\" | \"b\" | \"\" | \"ab\"",
                LIST("ab", "abc", "abd", "b", ""), LIST("a", "abe"));
}

static void test_errors(void **state) {
        refuse("", ERR_INVALID, "no rule named root");
        refuse("root ::= a", ERR_INVALID, "1:10: rule a is not defined");
        refuse("root ::= \"a\"\nroot ::= \"b\"", ERR_INVALID, "2:1: this rule was defined before");
        refuse("root ::= \"a", ERR_INVALID, "1:10: this text has no closing quote");
        refuse("root ::= [a", ERR_INVALID, "1:10: this class has no closing bracket");
        refuse("root ::= (\"a\"", ERR_INVALID, "1:10: this group has no closing parenthesis");
        refuse("root ::= \"a\" )", ERR_INVALID, "1:14: this is no part of a rule");
        refuse("root ::= \"\\q\"", ERR_INVALID, "1:11: unknown escape");
        refuse("root ::= \"\\xg1\"", ERR_INVALID, "hexadecimal");
        refuse("root ::= \"\\x00\"", ERR_INVALID, "1:11: replies have no NUL");
        refuse("root ::= \"\\ud800\"", ERR_INVALID, "no character of Unicode");
        refuse("root ::= \"\xff\"", ERR_INVALID, "1:11: this is not UTF-8");
        refuse("root ::= [z-a]", ERR_INVALID, "runs backwards");
        refuse("root ::= \"a\"{x}", ERR_INVALID, "1:13: a repetition is");
        refuse("root ::= \"a\"{4,2}", ERR_INVALID, "least above its most");
        refuse("root = \"a\"", ERR_INVALID, "1:6: after the name of a rule comes ::=");
        refuse("\n  ::= \"a\"", ERR_INVALID, "2:3: a rule begins with its name");
        refuse("root ::= (\"a\"\nb ::= \"c\")", ERR_INVALID, "2:1: a rule begins inside a group");
        /* columns count characters */
        refuse("root ::= \"\xc3\xa9\" $", ERR_INVALID, "1:14:");
}

static void test_never_met(void **state) {
        refuse("root ::= root2\nroot2 ::= \"a\" root2", ERR_INVALID, "2:1: no text of any length");
        refuse("root ::= []", ERR_INVALID, "1:1: no text of any length");
        /* what nothing meets is left out */
        check("root ::= \"a\" | x\nx ::= \"b\" x", LIST("a"), LIST("b", "bb"));
        check("root ::= \"a\" x* \"c\"\nx ::= \"b\" x", LIST("ac"), LIST("ab"));
}

static void test_left_recursion(void **state) {
        refuse("root ::= root \"a\" | \"b\"", ERR_INVALID, "1:1: this rule is left-recursive");
        refuse("root ::= \"x\" | a\na ::= b? a \"x\" | \"y\"\nb ::= \"z\"", ERR_INVALID,
                "2:1: this rule is left-recursive");
        refuse("root ::= a\na ::= (\"x\"{0,3} b)\nb ::= a | \"c\"", ERR_INVALID, "left-recursive");
        /* not reached from root: never used */
        check("root ::= \"a\"\nx ::= x \"b\" | \"c\"", LIST("a"), LIST("c"));
}

static void test_limits(void **state) {
        char *text = malloc(400000);
        size_t n;

        refuse("root ::= \"a\"{1000001}", ERR_TOO_LARGE, "more than 1000000 times");
        refuse("root ::= \"a\"{1,99999999999999999999}", ERR_TOO_LARGE, "1000000");
        n = (size_t)sprintf(text, "root ::= ");
        memset(text + n, '(', 70);
        strcpy(text + n + 70, "\"a\"");
        refuse(text, ERR_TOO_LARGE, "1:74: groups nested more than 64 deep");
        n = (size_t)sprintf(text, "root ::= \"a\"");
        memset(text + n, '?', 100);
        text[n + 100] = 0;
        refuse(text, ERR_TOO_LARGE, "64 repetitions in a row");
        memset(text, ' ', 300000);
        text[300000] = 0;
        refuse(text, ERR_TOO_LARGE, "300000 bytes, more than 262144");
        n = (size_t)sprintf(text, "root ::= \"\"");
        for (int i = 0; i < 5000; i++)
                n += (size_t)sprintf(text + n, " \"ab\"");
        refuse(text, ERR_TOO_LARGE, "more than 4096 parts");
        /* doubled at each rule: 2^40 nodes if copied; and a chain longer than the stack of C */
        n = (size_t)sprintf(text, "root ::= r0 r0\n");
        for (int i = 0; i < 40; i++)
                n += (size_t)sprintf(text + n, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
        sprintf(text + n, "r40 ::= \"a\"\n");
        check(text, NOTHING, LIST("a"));
        n = (size_t)sprintf(text, "root ::= r0 \".\"\n");
        for (int i = 0; i < 9000; i++)
                n += (size_t)sprintf(text + n, "r%d ::= \"a\" r%d | \"b\"\n", i, i + 1);
        sprintf(text + n, "r9000 ::= \"c\"\n");
        check(text, LIST("b.", "aab."), LIST("c.", "a."));
        n = 0;
        for (int i = 0; i < 20000; i++)
                n += (size_t)sprintf(text + n, "r%d::=\"\"\n", i);
        refuse(text, ERR_TOO_LARGE, "more than 16384 rules");
        n = (size_t)sprintf(text, "root ::= \"x\"");
        for (int i = 0; i < 150; i++)
                n += (size_t)sprintf(text + n, " (\"%0*d\"){2} r", 1000, i);
        sprintf(text + n, "\nr ::= \"b\"\n");
        refuse(text, ERR_TOO_LARGE, "more than 131072 nodes");
        free(text);
}

/* More parses than are followed: an error of the reply, not a stall. */
static void test_too_many_parses(void **state) {
        struct grammar_rig r;
        struct grammar *g;
        struct grammar_state s;
        struct err e = {0};
        int k = 0;

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, GRAMMAR_GBNF, "root ::= ((\"a\"{0,900}){0,900}){0,900} \"b\"\n");
        assert_int_equal(grammar_start(g, &s, &e), 0);
        for (int i = 0; i < 300 && k == 0; i++)
                k = grammar_advance(g, &s, "a", 1, NULL, &e);
        assert_int_equal(k, -ERR_TOO_LARGE);
        assert_non_null(strstr(e.msg, "1024 parses"));
        grammar_state_deinit(&s);
        grammar_free(g);
        rig_deinit(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_structure),
                cmocka_unit_test(test_repeats),
                cmocka_unit_test(test_long_repeat),
                cmocka_unit_test(test_classes),
                cmocka_unit_test(test_any),
                cmocka_unit_test(test_recursion),
                cmocka_unit_test(test_tail_calls_do_not_nest),
                cmocka_unit_test(test_ambiguous),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_never_met),
                cmocka_unit_test(test_left_recursion),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_too_many_parses),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
