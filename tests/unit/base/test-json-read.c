/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/json-read.h"
#include "base/json.h"
#include "util/test.h"
#include <string.h>

/* The items of @text as letters; strings and numbers with their text. */
static int items(const char *text, size_t size, char *out, size_t n, struct err *e) {
        static const char letters[] = "$zftnsk[]{}";
        enum json_item item = JSON_ITEM_END;
        struct json_reader r;
        struct buf b = BUF_NULL;
        int k;

        json_reader_init(&r, text, size);
        while ((k = json_next(&r, &item, e)) == 0) {
                assert_int_equal(buf_append(&b, &letters[item], 1), 0);
                if (item == JSON_ITEM_STRING || item == JSON_ITEM_KEY)
                        assert_int_equal(buf_printf(&b, "(%.*s)", (int)r.string.size,
                                                 r.string.size ? (char *)r.string.data : ""),
                                0);
                if (item == JSON_ITEM_NUMBER)
                        assert_int_equal(
                                buf_printf(&b, "(%.*s)", (int)(r.at - r.start), text + r.start), 0);
                if (item == JSON_ITEM_END)
                        break;
        }
        if (k == 0) {
                assert_int_equal(json_next(&r, &item, e), 0);
                assert_int_equal(item, JSON_ITEM_END);
        }
        assert_true(b.size < n);
        memcpy(out, b.size ? (char *)b.data : "", b.size);
        out[b.size] = 0;
        buf_deinit(&b);
        json_reader_deinit(&r);
        return k;
}

static void expect(const char *text, const char *want) {
        char got[512];
        struct err e = {0};

        if (items(text, strlen(text), got, sizeof(got), &e) < 0)
                fail_msg("%s: %s", text, e.msg);
        assert_string_equal(got, want);
}

static void refuse(const char *text, const char *why) {
        char got[512];
        struct err e = {0};

        assert_int_equal(items(text, strlen(text), got, sizeof(got), &e), -ERR_INVALID);
        if (!strstr(e.msg, why))
                fail_msg("%s: '%s', not '%s'", text, e.msg, why);
}

static void test_items(void **state) {
        (void)state;
        expect("null", "z$");
        expect(" [ ] ", "[]$");
        expect("{}", "{}$");
        expect("[1,-0.5e+3,0,true,false,null,\"\"]", "[n(1)n(-0.5e+3)n(0)tfzs()]$");
        expect("{\"a\":{\"b\":[[],{}]},\"c\":1}", "{k(a){k(b)[[]{}]}k(c)n(1)}$");
        expect("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\xc3\xa9\"",
                "s(\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9)$");
}

static void test_refused(void **state) {
        (void)state;
        refuse("", "line 1, column 1: the text ends early");
        refuse("nul", "column 1: this is no JSON value");
        refuse("[1,]", "column 4: this is no JSON value");
        refuse("[1 2]", "column 4: no comma or end");
        refuse("[,1]", "this is no JSON value");
        refuse("[1", "the text ends early");
        refuse("{\"a\"}", "no colon behind a key");
        refuse("{1:2}", "a key is a string");
        refuse("{\"a\":1,}", "a key is a string");
        refuse("{\"a\":1]", "no comma or end");
        refuse("1 2", "something follows");
        refuse("01", "this is no number");
        refuse("-01", "this is no number");
        refuse("1.", "this is no number");
        refuse("-", "this is no number");
        refuse("1e", "this is no number");
        refuse("\"a", "no end");
        refuse("\"\\x\"", "an unknown escape");
        refuse("\"\\u12\"", "four hexadecimal digits");
        refuse("\"\\ud800\"", "surrogate");
        refuse("\"\\udc00\"", "surrogate");
        refuse("\"\\ud800\\u0041\"", "surrogate");
        refuse("[\n\"\x01\"]", "line 2, column 2: a control character");
        refuse("\"\xff\"", "not UTF-8");
        refuse("\"\xc3", "not UTF-8");
}

static void test_depth_is_bounded(void **state) {
        char text[200], got[512];
        struct err e;

        (void)state;
        memset(text, '[', 64);
        memset(text + 64, ']', 64);
        text[128] = 0;
        assert_int_equal(items(text, 128, got, sizeof(got), &e), 0);
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        assert_int_equal(items(text, 130, got, sizeof(got), &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "nested too deep"));
}

static void test_skip(void **state) {
        const char text[] = "[{\"a\":[1,{\"b\":2}]},\"x\",3]";
        struct json_reader r;
        enum json_item item;
        struct err e;

        (void)state;
        json_reader_init(&r, text, strlen(text));
        assert_int_equal(json_next(&r, &item, &e), 0);
        assert_int_equal(json_next(&r, &item, &e), 0);
        assert_int_equal(item, JSON_ITEM_OBJECT);
        assert_int_equal(json_skip(&r, item, &e), 0);
        assert_int_equal(json_next(&r, &item, &e), 0);
        assert_int_equal(item, JSON_ITEM_STRING);
        assert_true(json_is(&r, "x"));
        assert_false(json_is(&r, "xy"));
        assert_int_equal(json_skip(&r, item, &e), 0);
        assert_int_equal(json_next(&r, &item, &e), 0);
        assert_int_equal(item, JSON_ITEM_NUMBER);
        assert_int_equal(json_wrong(&r, &e, "not this"), -ERR_INVALID);
        assert_string_equal(e.msg, "line 1, column 24: not this");
        json_reader_deinit(&r);
}

/* What the writer writes is read as it was, NUL included. */
static void test_round_trip(void **state) {
        const char text[] = "a\0b\"\\\n\x1f \xf0\x9f\x98\x80";
        struct buf b = BUF_NULL;
        struct json_reader r;
        enum json_item item;
        struct json j;
        struct err e;

        (void)state;
        json_init(&j, &b);
        json_put_string_n(&j, text, sizeof(text) - 1);
        assert_int_equal(json_finish(&j), 0);
        json_reader_init(&r, (char *)b.data, b.size);
        assert_int_equal(json_next(&r, &item, &e), 0);
        assert_int_equal(item, JSON_ITEM_STRING);
        assert_int_equal(r.string.size, sizeof(text) - 1);
        assert_memory_equal(r.string.data, text, sizeof(text) - 1);
        json_reader_deinit(&r);
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_items),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_depth_is_bounded),
                cmocka_unit_test(test_skip),
                cmocka_unit_test(test_round_trip),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
