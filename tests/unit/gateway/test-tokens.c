/* SPDX-License-Identifier: MIT */
/* The file of tokens. */
#include "client/gateway/tokens.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbb"
#define LINE_SIZE 19

static int parse(struct tokens *tokens, const char *text, struct err *e) {
        char *copy = strdup(text);
        int r = tokens_parse(tokens, copy, e);

        free(copy);
        return r;
}

static void test_lines(void **state) {
        struct tokens tokens = TOKENS_NULL;
        const struct gateway_owner *owner;
        struct err e;

        assert_int_equal(
                parse(&tokens, "# comment\n\n  " A " 1000\n" B "\troot  anna\r\n   # more\n", &e),
                0);
        assert_int_equal(tokens.n, 2);
        owner = tokens_find(&tokens, A);
        assert_int_equal(owner->uid, 1000);
        assert_string_equal(owner->tenant, "");
        owner = tokens_find(&tokens, B);
        assert_int_equal(owner->uid, 0);
        assert_string_equal(owner->tenant, "anna");
        assert_null(tokens_find(&tokens, ""));
        assert_null(tokens_find(&tokens, "a"));
        assert_null(tokens_find(&tokens, A "a"));
        assert_null(tokens_find(&tokens, "aaaaaaaaaaaaaaab"));
        assert_null(tokens_find(&tokens, "baaaaaaaaaaaaaaa"));
        tokens_deinit(&tokens);
        assert_null(tokens_find(&tokens, A));
        assert_int_equal(parse(&tokens, "", &e), 0);
        assert_int_equal(tokens.n, 0);
        tokens_deinit(&tokens);
}

static void test_add(void **state) {
        struct tokens tokens = TOKENS_NULL;
        static char text[TOKENS_MAX * LINE_SIZE + 1];
        struct err e;

        assert_int_equal(tokens_add(&tokens, A, 1000, &e), 0);
        assert_int_equal(tokens_find(&tokens, A)->uid, 1000);
        assert_string_equal(tokens_find(&tokens, A)->tenant, "");
        assert_int_equal(tokens_add(&tokens, A, 1, &e), -ERR_INVALID);
        assert_int_equal(tokens_add(&tokens, "short", 1, &e), -ERR_INVALID);
        assert_int_equal(tokens.n, 1);
        assert_int_equal(tokens_find(&tokens, A)->uid, 1000);
        tokens_deinit(&tokens);
        /* behind those of a file */
        assert_int_equal(parse(&tokens, A " 1000 anna\n", &e), 0);
        assert_int_equal(tokens_add(&tokens, B, 7, &e), 0);
        assert_int_equal(tokens_find(&tokens, B)->uid, 7);
        assert_string_equal(tokens_find(&tokens, A)->tenant, "anna");
        tokens_deinit(&tokens);
        /* no more than there may be */
        for (size_t i = 0; i < TOKENS_MAX; i++)
                snprintf(text + i * LINE_SIZE, LINE_SIZE + 1, "token-%010zu 1\n", i);
        assert_int_equal(tokens_parse(&tokens, text, &e), 0);
        assert_int_equal(tokens_add(&tokens, "one-more-than-all", 1, &e), -ERR_INVALID);
        assert_int_equal(tokens.n, TOKENS_MAX);
        tokens_deinit(&tokens);
}

static void test_wrong_lines(void **state) {
        static const struct {
                const char *text, *message;
        } cases[] = {
                {A "\n", "line 1: a line is"},
                {"\n" A " 1 t x\n", "line 2: a line is"},
                {"short 1\n", "line 1: a token has"},
                {A " 1\n" A " 2\n", "line 2: the token is there already"},
                {A " 4294967295\n", "line 1: no user"},
                {A " 99999999999999999999\n", "line 1: no user"},
                {A " no-such-user-anywhere\n", "line 1: unknown user"},
                {"aaaaaaaaaaaaaaaaaa\xc3\xa4 1\n", "ASCII"},
                {A " 1 \xff\n", "tenant"},
                {A " 1 " A A A A A A A A A "\n", "tenant"},
        };
        struct tokens tokens = TOKENS_NULL;
        struct err e;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(parse(&tokens, cases[i].text, &e), -ERR_INVALID);
                assert_non_null(strstr(e.msg, cases[i].message));
                assert_null(tokens.items);
        }
}

static void test_long_tokens(void **state) {
        struct tokens tokens = TOKENS_NULL;
        char token[TOKEN_MAX + 10], line[TOKEN_MAX + 30];
        struct err e;

        memset(token, 'x', sizeof(token));
        token[TOKEN_MAX - 1] = '\0';
        snprintf(line, sizeof(line), "%s 5", token);
        assert_int_equal(parse(&tokens, line, &e), 0);
        assert_int_equal(tokens_find(&tokens, token)->uid, 5);
        token[TOKEN_MAX - 1] = 'x';
        token[TOKEN_MAX] = '\0';
        assert_null(tokens_find(&tokens, token));
        tokens_deinit(&tokens);
        snprintf(line, sizeof(line), "%s 5", token);
        assert_int_equal(parse(&tokens, line, &e), -ERR_INVALID);
}

static void test_too_many(void **state) {
        char *text = malloc(TOKENS_MAX * 40), *at = text;
        struct tokens tokens = TOKENS_NULL;
        struct err e;

        for (int i = 0; i < TOKENS_MAX; i++)
                at += sprintf(at, "token-of-some-length-%d 1\n", i);
        assert_int_equal(parse(&tokens, text, &e), 0);
        assert_int_equal(tokens.n, TOKENS_MAX);
        assert_non_null(tokens_find(&tokens, "token-of-some-length-4095"));
        tokens_deinit(&tokens);
        sprintf(at, "token-of-some-length-x 1\n");
        assert_int_equal(parse(&tokens, text, &e), -ERR_INVALID);
        free(text);
}

/* Who else could read the file knows the tokens. */
static void test_files(void **state) {
        char path[] = "/tmp/confab-test-XXXXXX";
        struct tokens tokens = TOKENS_NULL;
        int fd = mkstemp(path);
        struct err e;

        assert_int_equal(write(fd, A " 7\n", 19), 19);
        assert_int_equal(tokens_read(&tokens, path, &e), 0);
        assert_int_equal(tokens_find(&tokens, A)->uid, 7);
        tokens_deinit(&tokens);
        for (mode_t bit = 1; bit < 0100; bit <<= 1) {
                assert_int_equal(fchmod(fd, 0600 | bit), 0);
                assert_int_equal(tokens_read(&tokens, path, &e), -ERR_PERMISSION);
                assert_non_null(strstr(e.msg, path));
        }
        assert_int_equal(fchmod(fd, 0600), 0);
        if (geteuid() == 0) {
                assert_int_equal(fchown(fd, 12345, 0), 0);
                assert_int_equal(tokens_read(&tokens, path, &e), -ERR_PERMISSION);
                assert_int_equal(fchown(fd, 0, 0), 0);
        }
        assert_int_equal(write(fd, "\0x", 2), 2);
        assert_int_equal(tokens_read(&tokens, path, &e), -ERR_INVALID);
        close(fd);
        unlink(path);
        assert_int_equal(tokens_read(&tokens, path, &e), -ERR_SYS);
        assert_int_equal(tokens_read(&tokens, "/", &e), -ERR_INVALID);
        assert_null(tokens.items);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_add),
                cmocka_unit_test(test_wrong_lines),
                cmocka_unit_test(test_long_tokens),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
