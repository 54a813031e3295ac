/* SPDX-License-Identifier: MIT */
/* Messages of JSON-RPC, in both directions, and fields of params. */
#include "base/err.h"
#include "client/acp/params.h"
#include "util/test.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int parse(struct acp_message *message, const char *line, struct acp_failure *failure) {
        return acp_message_parse(message, line, strlen(line), failure);
}

static void test_kinds(void **state) {
        static const struct {
                const char *line, *method;
                enum acp_kind kind;
                bool has_params;
        } cases[] = {
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{}}", "a", ACP_REQUEST,
                        true},
                {" {\"method\":\"a\",\"id\":null,\"jsonrpc\":\"2.0\"}\r", "a", ACP_REQUEST, false},
                {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"a\",\"params\":null}", "a",
                        ACP_REQUEST, false},
                {"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"x\":\"\\u0000\"}}", "a",
                        ACP_NOTIFICATION, true},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", NULL, ACP_ANSWER, false},
                {"{\"jsonrpc\":\"2.0\",\"error\":{}}", NULL, ACP_ANSWER, false},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct acp_message message;
                struct acp_failure failure;

                assert_int_equal(parse(&message, cases[i].line, &failure), 0);
                assert_int_equal(message.kind, cases[i].kind);
                assert_int_equal(message.params != NULL, cases[i].has_params);
                if (cases[i].method)
                        assert_string_equal(message.method, cases[i].method);
                acp_message_deinit(&message);
                assert_null(message.root);
        }
}

/* What is wrong, and the id with which it is answered. */
static void test_wrong(void **state) {
        static const struct {
                const char *line, *id, *words;
                enum acp_code code;
        } cases[] = {
                {"", "null", "JSON", ACP_CODE_PARSE},
                {"{", "null", "JSON", ACP_CODE_PARSE},
                {"\"\xff\"", "null", "JSON", ACP_CODE_PARSE},
                {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}{}", "null", "JSON",
                        ACP_CODE_PARSE},
                {"[]", "null", "batch", ACP_CODE_REQUEST},
                {"null", "null", "object", ACP_CODE_REQUEST},
                {"{\"id\":1,\"method\":\"a\"}", "1", "jsonrpc", ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", "1", "jsonrpc",
                        ACP_CODE_REQUEST},
                {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"a\"}", "1", "jsonrpc", ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", "null", "id",
                        ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", "null", "id",
                        ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"2.0\",\"id\":2}", "2", "method is missing", ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":null}", "2", "method is a string",
                        ACP_CODE_REQUEST},
                {"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"a\",\"params\":[]}", "2", "params",
                        ACP_CODE_PARAMS},
                {"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"a\",\"params\":7}", "2", "params",
                        ACP_CODE_PARAMS},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct acp_out out = ACP_OUT_NULL;
                struct acp_message message;
                struct acp_failure failure;
                char expected[64];

                assert_int_equal(parse(&message, cases[i].line, &failure), -1);
                assert_int_equal(failure.code, cases[i].code);
                assert_non_null(strstr(failure.message, cases[i].words));
                acp_put_error(&out, message.id, &failure);
                snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{",
                        cases[i].id);
                assert_memory_equal(out.buf.data, expected, strlen(expected));
                acp_message_deinit(&message);
                buf_deinit(&out.buf);
        }
}

static void check_echo(const char *value, const char *expected) {
        struct acp_out out = ACP_OUT_NULL;
        struct acp_message message;
        struct acp_failure failure;
        char line[256];

        snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"a\"}", value);
        assert_int_equal(parse(&message, line, &failure), 0);
        acp_result_begin(&out, message.id);
        acp_result_end(&out);
        snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n", expected);
        assert_string_equal((char *)out.buf.data, line);
        acp_message_deinit(&message);
        buf_deinit(&out.buf);
}

static void test_echo(void **state) {
        check_echo("0", "0");
        check_echo("-9223372036854775808", "-9223372036854775808");
        check_echo("9223372036854775807", "9223372036854775807");
        check_echo("1.5", "1.5");
        check_echo("1e300", "1e300");
        check_echo("1.0", "1.0");
        check_echo("99999999999999999999", "99999999999999999999");
        check_echo("null", "null");
        check_echo("\"a\\n\\\"\\u0000\xc3\xa9\"", "\"a\\n\\\"\\u0000\xc3\xa9\"");
}

static void test_out(void **state) {
        const struct acp_failure failure = {ACP_CODE_INTERNAL, "full", "limit", true};
        struct acp_out out = ACP_OUT_NULL;

        acp_update_begin(&out, "s", "kind");
        json_put_key(&out.json, "n");
        json_put_u64(&out.json, 1);
        acp_update_end(&out);
        acp_put_error(&out, NULL, &failure);
        assert_string_equal((char *)out.buf.data,
                "{\"jsonrpc\":\"2.0\",\"method\":\"session/"
                "update\",\"params\":{\"sessionId\":\"s\","
                "\"update\":{\"sessionUpdate\":\"kind\",\"n\":1}}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"full\","
                "\"data\":{\"code\":\"limit\",\"retry\":true}}}\n");
        buf_deinit(&out.buf);
}

/* A message that does not fit is left out as a whole, and all later ones. */
static void test_out_full(void **state) {
        struct acp_out out = {.buf = {.max = 100}};

        acp_result_begin(&out, NULL);
        acp_result_end(&out);
        assert_string_equal(
                (char *)out.buf.data, "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n");
        for (int i = 0; i < 2; i++) {
                acp_update_begin(&out, "a long name of a session, which does not fit", "kind");
                acp_update_end(&out);
                assert_int_equal(out.error, -ERR_LIMIT);
                assert_int_equal(
                        out.buf.size, strlen("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n"));
        }
        acp_result_begin(&out, NULL);
        acp_result_end(&out);
        assert_int_equal(out.buf.size, strlen("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n"));
        buf_deinit(&out.buf);
}

/* A line of very many values is refused, and so never costs much more than its bytes. */
static void test_many_values(void **state) {
        size_t size = 4 * JSON_TREE_VALUES_MAX;
        struct acp_message message;
        struct acp_failure failure;
        char *line = malloc(size);

        assert_non_null(line);
        memset(line, ',', size);
        for (size_t i = 1; i < size; i += 2)
                line[i] = '1';
        line[0] = '[';
        assert_int_equal(acp_message_parse(&message, line, size, &failure), -1);
        assert_int_equal(failure.code, ACP_CODE_REQUEST);
        assert_non_null(strstr(failure.message, "values"));
        acp_message_deinit(&message);
        free(line);
}

/* The daemon's errors keep their code and whether to try again. */
static void test_daemon_errors(void **state) {
        static const struct {
                const char *word;
                enum acp_code code;
                bool retry;
        } cases[] = {
                {CONFAB_NOT_FOUND, ACP_CODE_NOT_FOUND, false},
                {CONFAB_INVALID, ACP_CODE_PARAMS, false},
                {CONFAB_CANCELLED, ACP_CODE_CANCELLED, false},
                {CONFAB_LIMIT, ACP_CODE_INTERNAL, true},
                {CONFAB_CONTEXT, ACP_CODE_INTERNAL, false},
                {"news", ACP_CODE_INTERNAL, true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct confab_error e = {.message = "why", .retry = cases[i].retry};
                struct acp_failure failure;

                strcpy(e.code, cases[i].word);
                assert_int_equal(acp_fail_daemon(&failure, &e), -1);
                assert_int_equal(failure.code, cases[i].code);
                assert_string_equal(failure.word, cases[i].word);
                assert_string_equal(failure.message, "why");
                assert_int_equal(failure.retry, cases[i].retry);
        }
}

static void refused(int r, const struct acp_failure *failure, const char *words) {
        assert_int_equal(r, -1);
        assert_int_equal(failure->code, ACP_CODE_PARAMS);
        assert_string_equal(failure->message, words);
}

static struct json_value *parse_value(const char *text) {
        struct json_value *value = NULL;

        assert_int_equal(json_tree_parse(&value, text, strlen(text), NULL), 0);
        return value;
}

static void test_params(void **state) {
        struct json_value *o = parse_value(
                "{\"s\":\"x\",\"e\":\"\",\"z\":\"a\\u0000b\",\"n\":7,\"r\":1.5,\"a\":[],"
                "\"p\":\"/x\",\"q\":\"x/\",\"null\":null}");
        const char *s = "before";
        const struct json_value *array = o;
        struct acp_failure f;
        int64_t n = 1;

        assert_int_equal(acp_param_string(o, "s", &s, &f), 0);
        assert_string_equal(s, "x");
        refused(acp_param_string(o, "none", &s, &f), &f, "none is missing");
        refused(acp_param_string(NULL, "none", &s, &f), &f, "none is missing");
        refused(acp_param_string(o, "null", &s, &f), &f, "null is missing");
        refused(acp_param_string(o, "e", &s, &f), &f, "e is empty");
        refused(acp_param_string(o, "z", &s, &f), &f, "z has a NUL character");
        refused(acp_param_string(o, "n", &s, &f), &f, "n is a string");
        refused(acp_param_path(o, "q", true, &s, &f), &f, "q is an absolute path");
        refused(acp_param_path(o, "none", true, &s, &f), &f, "none is missing");
        assert_string_equal(s, "x");
        assert_int_equal(acp_param_path(o, "p", false, &s, &f), 0);
        assert_string_equal(s, "/x");
        assert_int_equal(acp_param_path(o, "none", false, &s, &f), 0);
        assert_null(s);
        assert_int_equal(acp_param_optional(o, "null", &s, &f), 0);
        assert_null(s);
        refused(acp_param_array(o, "s", false, &array, &f), &f, "s is an array");
        refused(acp_param_array(o, "none", true, &array, &f), &f, "none is missing");
        assert_ptr_equal(array, o);
        assert_int_equal(acp_param_array(o, "a", true, &array, &f), 0);
        assert_non_null(array);
        assert_int_equal(acp_param_array(o, "none", false, &array, &f), 0);
        assert_null(array);
        refused(acp_param_integer(o, "r", &n, &f), &f, "r is an integer");
        refused(acp_param_integer(o, "none", &n, &f), &f, "none is missing");
        assert_int_equal(n, 1);
        assert_int_equal(acp_param_integer(o, "n", &n, &f), 0);
        assert_int_equal(n, 7);
        json_tree_free(o);
}

static void test_long_path(void **state) {
        for (int more = 0; more < 2; more++) {
                char text[PATH_MAX + 32] = "{\"cwd\":\"";
                size_t head = strlen(text);
                struct json_value *o;
                struct acp_failure f;
                const char *s;

                memset(text + head, '/', PATH_MAX + (size_t)more);
                strcpy(text + head + PATH_MAX + more, "\"}");
                o = parse_value(text);
                assert_int_equal(acp_param_path(o, "cwd", true, &s, &f), more ? -1 : 0);
                json_tree_free(o);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_echo),
                cmocka_unit_test(test_out),
                cmocka_unit_test(test_out_full),
                cmocka_unit_test(test_many_values),
                cmocka_unit_test(test_daemon_errors),
                cmocka_unit_test(test_params),
                cmocka_unit_test(test_long_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
