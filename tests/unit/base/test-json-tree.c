/* SPDX-License-Identifier: MIT */
#include "base/json-tree.h"
#include "base/err.h"
#include "base/util.h"
#include "util/test.h"

static struct json_value *parse(const char *text) {
        struct json_value *value = NULL;
        struct err e;

        assert_int_equal(json_tree_parse(&value, text, strlen(text), &e), 0);
        assert_non_null(value);
        return value;
}

static void check_round(const char *text, const char *expected) {
        struct json_value *value = parse(text);
        struct buf out = BUF_NULL;
        struct json j;

        json_init(&j, &out);
        json_tree_put(&j, value);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)out.data, expected);
        buf_deinit(&out);
        assert_null(json_tree_free(value));
}

static void test_round(void **state) {
        check_round("null", "null");
        check_round(" true ", "true");
        check_round("false", "false");
        check_round("-0.50e+7", "-0.50e+7");
        check_round("123456789012345678901234567890", "123456789012345678901234567890");
        check_round("\"a\\u0000\\\"\\u00e9\"", "\"a\\u0000\\\"\xc3\xa9\"");
        check_round("[]", "[]");
        check_round("{}", "{}");
        check_round("[1, [2, [], {}], \"x\"]", "[1,[2,[],{}],\"x\"]");
        check_round("{\"b\": {\"a\\u0000\": [null]}, \"\": 1, \"b\": 2}",
                "{\"b\":{\"a\\u0000\":[null]},\"\":1,\"b\":2}");
}

static void test_refused(void **state) {
        static const char *const cases[] = {
                "", "{", "[1,", "{\"a\":}", "1 2", "\"\xff\"", "\"\\ud800\"", "nul", "[1]]"};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct json_value *value = NULL;
                struct err e;

                assert_int_equal(
                        json_tree_parse(&value, cases[i], strlen(cases[i]), &e), -ERR_INVALID);
                assert_non_null(strstr(e.msg, "line 1"));
                assert_null(value);
        }
}

static void test_get(void **state) {
        struct json_value *root =
                parse("{\"a\":1,\"a\\u0000b\":2,\"s\":\"x\",\"z\":\"x\\u0000\",\"a\":3}");
        int64_t n = 7;

        assert_true(json_tree_integer(json_tree_get(root, "a"), &n));
        assert_int_equal(n, 3);
        assert_null(json_tree_get(root, "b"));
        assert_null(json_tree_get(root, ""));
        assert_null(json_tree_get(NULL, "a"));
        assert_null(json_tree_get(json_tree_get(root, "s"), "a"));
        assert_string_equal(json_tree_string(json_tree_get(root, "s")), "x");
        assert_null(json_tree_string(json_tree_get(root, "z")));
        assert_null(json_tree_string(json_tree_get(root, "a")));
        assert_null(json_tree_string(NULL));
        assert_int_equal(root->n, 5);
        assert_true(json_tree_is(root, JSON_KIND_OBJECT));
        assert_false(json_tree_is(NULL, JSON_KIND_NULL));
        json_tree_free(root);
}

static void check_integer(const char *text, bool is_one, int64_t expected) {
        struct json_value *value = parse(text);
        int64_t n = 42;

        assert_int_equal(json_tree_integer(value, &n), is_one);
        assert_true(n == (is_one ? expected : 42));
        json_tree_free(value);
}

static void test_integers(void **state) {
        check_integer("0", true, 0);
        check_integer("-9223372036854775808", true, INT64_MIN);
        check_integer("9223372036854775807", true, INT64_MAX);
        check_integer("9223372036854775808", false, 0);
        check_integer("1.0", false, 0);
        check_integer("1e2", false, 0);
        check_integer("1E2", false, 0);
        check_integer("\"1\"", false, 0);
}

/* As deep as the reader goes, and as many values as are allowed. */
static void test_bounds(void **state) {
        size_t size = 2 * JSON_TREE_VALUES_MAX + 2;
        char deep[131] = "", *wide = malloc(size);
        struct json_value *value;
        struct err e;

        memset(deep, '[', 64);
        memset(deep + 64, ']', 64);
        value = parse(deep);
        json_tree_free(value);
        assert_non_null(wide);
        memset(wide, ',', size);
        for (size_t i = 1; i < size; i += 2)
                wide[i] = '1';
        wide[0] = '[';
        wide[2 * JSON_TREE_VALUES_MAX - 2] = ']'; /* the array and one value less */
        assert_int_equal(json_tree_parse(&value, wide, 2 * JSON_TREE_VALUES_MAX - 1, &e), 0);
        assert_int_equal(value->n, JSON_TREE_VALUES_MAX - 1);
        json_tree_free(value);
        value = NULL;
        wide[2 * JSON_TREE_VALUES_MAX - 2] = ',';
        wide[2 * JSON_TREE_VALUES_MAX] = ']';
        assert_int_equal(
                json_tree_parse(&value, wide, 2 * JSON_TREE_VALUES_MAX + 1, &e), -ERR_TOO_LARGE);
        assert_null(value);
        free(wide);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_get),
                cmocka_unit_test(test_integers),
                cmocka_unit_test(test_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
