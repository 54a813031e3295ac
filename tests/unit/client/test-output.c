/* SPDX-License-Identifier: MIT */
#include "client/cli.h"
#include "util/test.h"
#include <locale.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {NULL};

static void check_safe(const char *s, size_t n, bool lines, const char *expected) {
        struct buf b = BUF_NULL;

        assert_int_equal(safe_append(&b, s, n, lines), 0);
        assert_string_equal(b.data ? (char *)b.data : "", expected);
        buf_deinit(&b);
}

static void test_safe(void **state) {
        check_safe("", 0, true, "");
        check_safe("a\nb\tc", 5, true, "a\nb\tc");
        check_safe("a\nb\tc", 5, false, "a^Jb^Ic");
        check_safe("\x1b[31m\r\x7f\0", 8, true, "^[[31m^M^?^@");
        check_safe("\xc2\x9b"
                   "2J",
                4, true, "<U+009B>2J");
        check_safe("\xc2\x80\xc2\x9f", 4, true, "<U+0080><U+009F>"); /* the first and last of C1 */
        check_safe("\xc2\xa0\xc3\xa9", 4, true, "\xc2\xa0\xc3\xa9");
        check_safe("\xff"
                   "a\xc3",
                3, true,
                "\xef\xbf\xbd"
                "a\xef\xbf\xbd");
        check_safe("\x9b", 1, true, "\xef\xbf\xbd"); /* C1 as a byte */
}

static void test_width(void **state) {
        assert_int_equal(safe_width("abc", 3), 3);
        assert_int_equal(safe_width("\xc3\xa9", 2), 1);
        assert_int_equal(safe_width("\xe6\xbc\xa2", 3), 2); /* a wide character */
}

static void test_human(void **state) {
        char buf[16];

        assert_string_equal(human_size(buf, 0), "0");
        assert_string_equal(human_size(buf, 999), "999");
        assert_string_equal(human_size(buf, 1000), "1.0K"); /* never four digits */
        assert_string_equal(human_size(buf, 1024), "1.0K");
        assert_string_equal(human_size(buf, 1023 << 10), "1.0M");
        assert_string_equal(human_size(buf, 2202010), "2.1M");
        assert_string_equal(human_size(buf, 150ull << 30), "150G");
        assert_string_equal(human_size(buf, UINT64_MAX), "16E");
        assert_string_equal(human_age(buf, 5000000, 10000000), "5s");
        assert_string_equal(human_age(buf, 10000000, 5000000), "0s"); /* clocks do that */
        assert_string_equal(human_age(buf, 0, 300000000), "5m");
        assert_string_equal(human_age(buf, 0, UINT64_MAX), "213503982d");
}

static void test_status(void **state) {
        static const struct {
                const char *code;
                int status;
        } table[] = {
                {"not_found", 3},
                {"busy", 4},
                {"conflict", 4},
                {"exists", 4},
                {"limit", 5},
                {"context_length_exceeded", 5},
                {"no_daemon", 6},
                {"shutdown", 6},
                {"unavailable", 6},
                {"invalid", 1},
                {"something new", 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct confab_error e = {0};

                strcpy(e.code, table[i].code);
                assert_int_equal(cli_status_of(&e), table[i].status);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_safe),
                cmocka_unit_test(test_width),
                cmocka_unit_test(test_human),
                cmocka_unit_test(test_status),
        };

        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
