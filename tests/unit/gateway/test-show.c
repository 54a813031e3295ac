/* SPDX-License-Identifier: MIT */
/* The token and the code of --open, and the link that is printed. The browser: tests/gateway/open.py. */
#include "base/clock.h"
#include "base/err.h"
#include "client/gateway/show.h"
#include "util/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

static void test_token(void **state) {
        struct show show = SHOW_NULL, other = SHOW_NULL;
        bool seen[128] = {};
        unsigned n_seen = 0;
        struct err e;

        for (unsigned i = 0; i < 100; i++) {
                assert_int_equal(show_init(&show, &e), 0);
                assert_int_equal(show_init(&other, &e), 0);
                assert_int_equal(strlen(show.token), SHOW_WORD_SIZE - 1);
                assert_int_equal(strspn(show.token, DIGITS), SHOW_WORD_SIZE - 1);
                assert_string_not_equal(show.token, other.token);
                for (const char *p = show.token; *p; p++)
                        seen[(unsigned char)*p] = true;
                /* 256 bits: the last digit has four of them */
                assert_int_equal((strchr(DIGITS, show.token[SHOW_WORD_SIZE - 2]) - DIGITS) % 4, 0);
        }
        for (unsigned i = 0; i < sizeof(seen); i++)
                n_seen += seen[i];
        assert_int_equal(n_seen, 64);
        show_deinit(&show);
        assert_string_equal(show.token, "");
        show_deinit(&other);
}

static void test_code(void **state) {
        struct show show = SHOW_NULL;
        char token[SHOW_WORD_SIZE];
        struct err e;

        assert_int_equal(show_init(&show, &e), 0);
        strcpy(token, show.token);
        assert_false(show_knows(&show, CODE));
        assert_false(show_knows(&show, ""));
        assert_int_equal(tokens_add(&show.codes, CODE, 0, &e), 0);
        assert_false(show_knows(&show, CODE)); /* its time is over */
        show.codes_until_usec = clock_monotonic_usec() + SHOW_CODE_USEC;
        assert_true(show_knows(&show, CODE));
        assert_true(show_knows(&show, CODE));
        assert_false(show_knows(&show, CODE "a"));
        assert_false(show_knows(&show, token));
        assert_string_equal(show_exchange(&show), token);
        assert_false(show_knows(&show, CODE));
        show_deinit(&show);
}

/* What show_print() writes for an address. */
static const char *printed(const struct show *show, const char *address) {
        static char text[256];
        FILE *file = tmpfile();
        int saved = dup(STDOUT_FILENO);
        struct err e;
        size_t n;

        assert_non_null(file);
        fflush(stdout);
        assert_int_equal(dup2(fileno(file), STDOUT_FILENO), STDOUT_FILENO);
        assert_int_equal(show_print(show, address, &e), 0);
        assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
        close(saved);
        rewind(file);
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        fclose(file);
        return text;
}

static void test_link(void **state) {
        struct show show = {.token = "TOKEN"};
        static const char *const cases[][2] = {
                {"127.0.0.1:8080", "http://127.0.0.1:8080/#token=TOKEN\n"},
                {"[::1]:1", "http://[::1]:1/#token=TOKEN\n"},
                {"0.0.0.0:65535", "http://127.0.0.1:65535/#token=TOKEN\n"},
                {"[::]:80", "http://[::1]:80/#token=TOKEN\n"},
                {"10.0.0.0:80", "http://10.0.0.0:80/#token=TOKEN\n"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(printed(&show, cases[i][0]), cases[i][1]);
}

/* Without a desktop there is neither a code nor a browser. */
static void test_no_desktop(void **state) {
        struct show show = SHOW_NULL;

        unsetenv("DISPLAY");
        setenv("WAYLAND_DISPLAY", "", 1);
        show_start_browser(&show, "127.0.0.1:1");
        assert_int_equal(show.codes.n, 0);
        setenv("DISPLAY", ":9", 1);
        setenv("PATH", "/nonexistent", 1);
        show_start_browser(&show, "127.0.0.1:1");
        assert_int_equal(show.codes.n, 0);
        show_deinit(&show);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_token),
                cmocka_unit_test(test_code),
                cmocka_unit_test(test_link),
                cmocka_unit_test(test_no_desktop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
