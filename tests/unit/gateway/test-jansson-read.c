/* SPDX-License-Identifier: MIT */
/* confab's reader of JSON makes what libjansson's own does. */
#include "base/err.h"
#include "base/util.h"
#include "client/gateway/jansson-read.h"
#include "util/test.h"
#include <string.h>

static void expect_same(const char *text, size_t size) {
        json_error_t error;
        json_t *want = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error),
               *got = NULL;
        struct err e = {0};
        int r = jansson_read(&got, text, size, &e);

        if (!want != (r < 0))
                fail_msg("%.60s: %s", text, want ? e.msg : error.text);
        if (!want) {
                assert_int_equal(r, -ERR_INVALID);
                return;
        }
        if (!json_equal(got, want))
                fail_msg("%.60s is read otherwise", text);
        json_decref(got);
        json_decref(want);
}

static void test_values(void **state) {
        static const char *const texts[] = {"{}", "[]", "\"\"", "null", " true ", "false", "0",
                "-0", "-12", "1.5", "1e3", "-0.25E-2", "1e-400", "9223372036854775807",
                "-9223372036854775808", "[[],[[]],{},{\"a\":{\"b\":[1,{\"c\":[]},2]},\"d\":3}]",
                "{\"a\":1,\"b\":2,\"a\":{\"c\":3}}", "{\"\":1}", "{\"a b\":[null,true,\"x\"]}",
                "\"\\u0000\"", "[\"a\\u0000b\"]", "\"\\ud83d\\ude00\"", "\t{\r\n}\n", "", "{", "[1",
                "{\"a\"}", "[1,]", "nul", "1 2", "\"\\ud800\"", "{\"a\\u0000\":1}", "1e999",
                "[1e400]"};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                expect_same(texts[i], strlen(texts[i]));
}

/* Strings are read a word at a time: each byte, at each place of a word. */
static void test_each_byte(void **state) {
        (void)state;
        for (size_t size = 2; size < 28; size++)
                for (size_t at = 1; at + 1 < size; at++)
                        for (unsigned byte = 0; byte < 256; byte++) {
                                char text[32];

                                memset(text, 'x', size);
                                text[0] = text[size - 1] = '"';
                                text[at] = (char)byte;
                                expect_same(text, size);
                        }
}

static void test_large_number(void **state) {
        json_t *got = NULL;

        (void)state;
        assert_int_equal(jansson_read(&got, "18446744073709551615", 20, NULL), 0);
        assert_true(json_is_real(got));
        assert_true(json_real_value(got) == 18446744073709551616.0);
        json_decref(got);
}

static void test_depth(void **state) {
        char text[2 * 65];
        json_t *got = NULL;
        struct err e;

        (void)state;
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        expect_same(text + 1, 128);
        assert_int_equal(jansson_read(&got, text, 130, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "line 1, column 65: nested too deep"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_each_byte),
                cmocka_unit_test(test_large_number),
                cmocka_unit_test(test_depth),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
