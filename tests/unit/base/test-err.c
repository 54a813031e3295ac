/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/util.h"
#include "base/utf8.h"
#include "util/test.h"
#include <errno.h>
#include <string.h>

static void test_set(void **state) {
        struct err e;

        assert_int_equal(err_set(&e, ERR_FORMAT, "bad magic %d", 7), -ERR_FORMAT);
        assert_string_equal(e.msg, "bad magic 7");
        assert_int_equal(e.code, ERR_FORMAT);
        assert_int_equal(e.sys, 0);
        assert_non_null(strstr(e.file, "test-err.c"));
        assert_true(e.line > 0);
        assert_int_equal(err_set(NULL, ERR_NOMEM, "no"), -ERR_NOMEM);
}

static void test_sys(void **state) {
        struct err e;

        errno = ENOENT;
        assert_int_equal(err_set(&e, ERR_SYS, "open '%s'", "x"), -ERR_SYS);
        assert_string_equal(e.msg, "open 'x': No such file or directory");
        assert_int_equal(e.sys, ENOENT);
        assert_int_equal(errno, ENOENT);
}

static void test_wrap(void **state) {
        struct err e;

        err_set(&e, ERR_FORMAT, "bad magic");
        assert_int_equal(err_wrap(&e, -ERR_FORMAT, "open '%s'", "x.gguf"), -ERR_FORMAT);
        assert_string_equal(e.msg, "open 'x.gguf': bad magic");
        assert_int_equal(err_wrap(&e, 0, "not"), 0);
        assert_int_equal(err_wrap(&e, 3, "not"), 3);
        assert_string_equal(e.msg, "open 'x.gguf': bad magic");
        assert_int_equal(err_wrap(NULL, -ERR_SYS, "x"), -ERR_SYS);
}

static void test_cut_to_fit(void **state) {
        char text[600];
        struct err e;

        /* three-byte characters: the cut may not leave a part of one, wherever it falls */
        for (size_t shift = 0; shift < 3; shift++) {
                memset(text, 'x', shift);
                for (size_t i = shift; i + 3 < sizeof(text); i += 3)
                        memcpy(text + i, "\xE2\x82\xAC", 4);
                err_set(&e, ERR_FORMAT, "%s", text);
                assert_true(strlen(e.msg) > sizeof(e.msg) - 4);
                assert_true(utf8_valid(e.msg, strlen(e.msg)));
                err_wrap(&e, -ERR_FORMAT, "%.100s", text);
                assert_true(strlen(e.msg) > sizeof(e.msg) - 4);
                errno = ENOENT;
                err_set(&e, ERR_SYS, "%s", text);
                assert_true(strlen(e.msg) < sizeof(e.msg));
        }
}

static void test_names(void **state) {
        for (int i = 0; i < ERR_N_CODES; i++) {
                assert_non_null(err_code_name((enum err_code)i));
                /* Two of them are one to others. */
                for (int k = 0; k < i; k++)
                        if (i != ERR_TOO_LARGE || k != ERR_LIMIT)
                                assert_string_not_equal(err_code_name((enum err_code)i),
                                        err_code_name((enum err_code)k));
        }
        assert_string_equal(err_code_name(ERR_NOT_FOUND), "not_found");
        assert_string_equal(err_code_name(ERR_CONTEXT), "context_length_exceeded");
        assert_string_equal(err_code_name(ERR_TOO_LARGE), err_code_name(ERR_LIMIT));
        assert_string_equal(err_code_name(ERR_N_CODES), "unknown");
        assert_string_equal(err_code_name((enum err_code) - 1), "unknown");
}

static void test_may_pass(void **state) {
        static const enum err_code yes[] = {
                ERR_NOMEM, ERR_LIMIT, ERR_BUSY, ERR_SHUTDOWN, ERR_UNAVAILABLE, ERR_MOVED};
        static const int used_up[] = {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, EAGAIN};
        struct err e;

        for (int code = 0; code <= ERR_N_CODES; code++) {
                bool wanted = false;

                for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
                        wanted = wanted || yes[i] == (enum err_code)code;
                errno = 0;
                err_set(&e, (enum err_code)code, "x");
                assert_int_equal(err_may_pass(&e), wanted);
        }
        for (size_t i = 0; i < ARRAY_SIZE(used_up); i++) {
                errno = used_up[i];
                err_set(&e, ERR_SYS, "x");
                err_wrap(&e, -ERR_SYS, "further up");
                assert_true(err_may_pass(&e));
        }
        errno = EIO;
        err_set(&e, ERR_SYS, "x");
        assert_false(err_may_pass(&e));
        assert_string_equal(err_code_name(ERR_TOO_LARGE), err_code_name(ERR_LIMIT));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_set),
                cmocka_unit_test(test_sys),
                cmocka_unit_test(test_wrap),
                cmocka_unit_test(test_cut_to_fit),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_may_pass),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
