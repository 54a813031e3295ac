/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/json.h"
#include "util/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_document(void **state) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        json_object_begin(&j);
        json_put_key(&j, "a");
        json_array_begin(&j);
        json_put_u64(&j, UINT64_MAX);
        json_put_i64(&j, INT64_MIN);
        json_put_bool(&j, true);
        json_put_bool(&j, false);
        json_put_null(&j);
        json_array_begin(&j);
        json_array_end(&j);
        json_object_begin(&j);
        json_object_end(&j);
        json_array_end(&j);
        json_put_key(&j, "b");
        json_put_string(&j, "x");
        json_put_key(&j, "c");
        json_put_string(&j, NULL);
        json_object_end(&j);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)b.data,
                "{\"a\":[18446744073709551615,-9223372036854775808,true,false,null,[],{}],"
                "\"b\":\"x\",\"c\":null}");
        buf_deinit(&b);
}

static void check_string(const char *s, size_t n, const char *expected) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        json_put_string_n(&j, s, n);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)b.data, expected);
        buf_deinit(&b);
}

static void test_strings(void **state) {
        check_string("", 0, "\"\"");
        check_string("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
        check_string("\n\r\t\b\f\1\0\x7F", 8, "\"\\n\\r\\t\\b\\f\\u0001\\u0000\x7F\"");
        check_string("\x1E\x1F ", 3, "\"\\u001e\\u001f \"");
        check_string("\xC3\xA4\xF0\x9F\x98\x80", 6, "\"\xC3\xA4\xF0\x9F\x98\x80\"");
        /* bad bytes: lone, surrogate, cut at the end */
        check_string("a\xFF"
                     "b",
                3,
                "\"a\xEF\xBF\xBD"
                "b\"");
        check_string("\xE2\x82", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void test_raw(void **state) {
        const char *text = "\n{\"a\":\r\n1},2\n";
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        json_array_begin(&j);
        json_put_raw(&j, "true", 4);
        json_put_raw(&j, text, strlen(text));
        json_object_begin(&j);
        json_put_key(&j, "b");
        json_put_raw(&j, "[]", 2);
        json_object_end(&j);
        json_array_end(&j);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)b.data, "[true, {\"a\":  1},2 ,{\"b\":[]}]");
        buf_deinit(&b);
}

static void check_number(double v, bool as_float, const char *expected) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        if (as_float)
                json_put_float(&j, (float)v);
        else
                json_put_double(&j, v);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)b.data, expected);
        buf_deinit(&b);
}

static void test_numbers(void **state) {
        check_number(0, false, "0");
        check_number(-0.0, false, "-0");
        check_number(1, false, "1");
        check_number(-1.5, false, "-1.5");
        check_number(0.1, false, "0.1");
        check_number((double)0.1f, true, "0.1");
        check_number((double)0.1f, false, "0.10000000149011612");
        check_number(100, false, "100");
        check_number(12345678901234567.0, false, "12345678901234568");
        check_number(1e17, false, "1e17");
        check_number(1.25e300, false, "1.25e300");
        check_number(0.00001, false, "0.00001");
        check_number(0.00001234, false, "0.00001234");
        check_number(1.5e-6, false, "1.5e-6");
        check_number(5e-324, false, "5e-324");
        check_number(1.7976931348623157e308, false, "1.7976931348623157e308");
        check_number((double)16777216.0f, true, "16777216");
        check_number((double)INFINITY, false, "null");
        check_number(-(double)INFINITY, true, "null");
        check_number((double)NAN, false, "null");
}

static void test_numbers_read_back(void **state) {
        uint64_t x = 1;

        for (int i = 0; i < 20000; i++) {
                struct buf b = BUF_NULL;
                struct json j;
                uint32_t low;
                double d;
                float f;

                x = x * 6364136223846793005 + 1442695040888963407;
                memcpy(&d, &x, sizeof(d));
                low = (uint32_t)(x >> 32);
                memcpy(&f, &low, sizeof(f));
                json_init(&j, &b);
                json_array_begin(&j);
                json_put_double(&j, d);
                json_put_float(&j, f);
                json_array_end(&j);
                assert_int_equal(json_finish(&j), 0);
                if (isfinite(d))
                        assert_true(strtod((char *)b.data + 1, NULL) == d);
                if (isfinite(f))
                        assert_true(strtof(strchr((char *)b.data, ',') + 1, NULL) == f);
                buf_deinit(&b);
        }
}

static void test_errors_stick(void **state) {
        struct buf b = {.max = 4};
        struct json j;

        json_init(&j, &b);
        json_array_begin(&j);
        json_put_string(&j, "too long");
        json_array_end(&j);
        assert_int_equal(json_finish(&j), -ERR_LIMIT);
        buf_deinit(&b);
}

static void test_misuse(void **state) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        assert_int_equal(json_finish(&j), -ERR_STATE); /* nothing */
        json_init(&j, &b);
        json_array_begin(&j);
        assert_int_equal(json_finish(&j), -ERR_STATE); /* open */
        json_init(&j, &b);
        json_array_end(&j);
        assert_int_equal(json_finish(&j), -ERR_STATE); /* not begun */
        json_init(&j, &b);
        json_put_u64(&j, 1);
        json_put_u64(&j, 2);
        assert_int_equal(json_finish(&j), -ERR_STATE); /* two values */
        json_init(&j, &b);
        json_object_begin(&j);
        json_put_key(&j, "x");
        json_object_end(&j);
        assert_int_equal(json_finish(&j), -ERR_STATE); /* key without value */
        json_init(&j, &b);
        for (int i = 0; i < 64; i++)
                json_array_begin(&j);
        assert_int_equal(json_finish(&j), -ERR_LIMIT); /* too deep */
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_document),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_raw),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_numbers_read_back),
                cmocka_unit_test(test_errors_stick),
                cmocka_unit_test(test_misuse),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
