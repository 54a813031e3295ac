/* SPDX-License-Identifier: MIT */
/* Bodies are parsed, or refused, within memory that their size bounds. */
#include "base/util.h"
#include "client/gateway/fields.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* @head, @part as often as it fits into @size, @tail. */
static char *repeat(const char *head, const char *part, const char *tail, size_t size) {
        size_t n_head = strlen(head), n_part = strlen(part), n_tail = strlen(tail), at = n_head;
        char *text = malloc(size + n_tail + 1);

        assert_non_null(text);
        memcpy(text, head, n_head);
        for (; at + n_part <= size; at += n_part)
                memcpy(text + at, part, n_part);
        memcpy(text + at, tail, n_tail + 1);
        return text;
}

static int parse(char *text, size_t *ret_n, struct err *e) {
        json_t *body = NULL;
        int r = fields_parse(&body, text, strlen(text), e);

        free(text);
        *ret_n = r < 0 ? 0
                       : MAX(json_array_size(json_object_get(body, "x")),
                                 json_string_length(json_object_get(body, "x")));
        json_decref(body);
        return r;
}

/* What clients send: mostly text. */
static void test_long(void **state) {
        struct err e;
        size_t n;

        (void)state;
        assert_int_equal(parse(repeat("{\"x\":\"", "abcdefgh", "\"}", 32 * MIB), &n, &e), 0);
        assert_true(n > 32 * MIB - 20);
        assert_int_equal(parse(repeat("{\"x\":\"", "\\u00e9", "\"}", 32 * MIB), &n, &e), 0);
        assert_true(n > 10 * MIB);
        /* and a long history: 20,000 messages of an agent */
        assert_int_equal(
                parse(repeat("{\"x\":[",
                              "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
                              "\"call_0123456789\",\"type\":\"function\",\"function\":{\"name\":"
                              "\"read_a_file\",\"arguments\":\"{\\\"path\\\":\\\"x\\\"}\"}}]},",
                              "0]}", 20000 * 172),
                        &n, &e),
                0);
        assert_true(n > 19000);
}

static void test_many(void **state) {
        static const char *const parts[] = {"{},", "[],", "[[]],", "{\"a\":{}},", "0,", "\"\","};
        struct err e;
        size_t n;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                assert_int_equal(parse(repeat("{\"x\":[", parts[i], "0]}", 8 * MIB), &n, &e),
                        -ERR_TOO_LARGE);
                assert_int_equal(e.code, ERR_TOO_LARGE);
                assert_non_null(strstr(e.msg, "too many values"));
                /* That is over with the next one. */
                assert_int_equal(parse(repeat("{\"x\":[", parts[i], "0]}", MIB / 8), &n, &e), 0);
                assert_true(n > 10000);
        }
}

static void test_wrong(void **state) {
        json_t *value = NULL;
        struct err e;
        size_t n;

        (void)state;
        assert_int_equal(parse(repeat("{\"x\":\n[", "[", "", 100), &n, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "line 2"));
        assert_int_equal(parse(repeat("[", "1,", "1]", 100), &n, &e), -ERR_INVALID);
        assert_int_equal(fields_parse_value(&value, "{"), 1);
        assert_int_equal(fields_parse_value(&value, "7"), 0);
        assert_int_equal(json_integer_value(value), 7);
        json_decref(value);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_long),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_wrong),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
