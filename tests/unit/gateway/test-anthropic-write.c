/* SPDX-License-Identifier: MIT */
/* Events of a talk to events of Anthropic's stream, or to one message. */
#include "client/gateway/anthropic.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

#define START                                                                                      \
        "message_start "                                                                           \
        "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_000000000000000a00000003\","        \
        "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],"              \
        "\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,"               \
        "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":13,\"output_tokens\":0}}}"  \
        "\n"                                                                                       \
        "ping {\"type\":\"ping\"}\n"
#define USAGE                                                                                      \
        "\"usage\":{\"input_tokens\":1,\"cache_creation_input_tokens\":0,"                         \
        "\"cache_read_input_tokens\":13,\"output_tokens\":9}"
#define END(reason, sequence)                                                                      \
        "message_delta {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason           \
        "\",\"stop_sequence\":" sequence "}," USAGE "}\n"                                          \
        "message_stop {\"type\":\"message_stop\"}\n"
#define BLOCK_START(index, block)                                                                  \
        "content_block_start {\"type\":\"content_block_start\",\"index\":" index                   \
        ",\"content_block\":{" block "}}\n"
#define BLOCK_DELTA(index, delta)                                                                  \
        "content_block_delta {\"type\":\"content_block_delta\",\"index\":" index                   \
        ",\"delta\":{" delta "}}\n"
#define BLOCK_STOP(index)                                                                          \
        "content_block_stop {\"type\":\"content_block_stop\",\"index\":" index "}\n"
#define TEXT_START "\"type\":\"text\",\"text\":\"\""
#define TEXT(text) "\"type\":\"text_delta\",\"text\":\"" text "\""
#define MESSAGE(content, reason, sequence)                                                         \
        "{\"id\":\"msg_000000000000000a00000003\",\"type\":\"message\",\"role\":\"assistant\","    \
        "\"model\":\"m\",\"content\":[" content "],\"stop_reason\":\"" reason                      \
        "\",\"stop_sequence\":" sequence "," USAGE "}\n"

static void begin(struct rig_said *said, bool stream, bool thinking) {
        const struct anthropic_wish wish = {.thinking = thinking};

        rig_said_init(said, anthropic_writer_new(stream, &wish));
        assert_int_equal(rig_begin(said), 0);
}

static void test_text(void **state) {
        struct rig_said said;

        begin(&said, true, false);
        assert_string_equal(rig_take(&said), START);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "", false), 0);
        assert_string_equal(rig_take(&said), ""); /* nothing was said */
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "Nice", false), 0);
        assert_string_equal(
                rig_take(&said), BLOCK_START("0", TEXT_START) BLOCK_DELTA("0", TEXT("Nice")));
        assert_int_equal(said.writer->ops->idle(said.writer), 0);
        assert_string_equal(rig_take(&said), "ping {\"type\":\"ping\"}\n");
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "\n\"!", true), 0);
        assert_string_equal(rig_take(&said), BLOCK_DELTA("0", TEXT("\\n\\\"!")) BLOCK_STOP("0"));
        assert_int_equal(rig_done(&said, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_string_equal(rig_take(&said), END("end_turn", "null"));
        rig_said_deinit(&said);
}

/* Reasoning, text and two calls; parts that do not say that they end. */
static void say_all(struct rig_said *said) {
        assert_int_equal(rig_part(said, 0, CONFAB_PART_REASONING, "hm", false), 0);
        assert_int_equal(rig_part(said, 1, CONFAB_PART_TEXT, "So", false), 0);
        assert_int_equal(rig_call(said, 2, "t1", "f", "", false, NULL), 0);
        assert_int_equal(rig_call(said, 2, NULL, NULL, "{\"a\":", false, NULL), 0);
        assert_int_equal(rig_call(said, 2, NULL, NULL, "\n1}", true, NULL), 0);
        assert_int_equal(rig_call(said, 3, "t2", "g", "", true, NULL), 0);
        assert_int_equal(rig_done(said, CONFAB_FINISH_STOP, NULL, 2), 0);
}

static void test_parts(void **state) {
        struct rig_said said;

        begin(&said, true, true);
        say_all(&said);
        assert_string_equal(rig_take(&said),
                START BLOCK_START("0", "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"")
                        BLOCK_DELTA("0",
                                "\"type\":\"thinking_delta\",\"thinking\":\"hm\"") BLOCK_DELTA("0",
                                "\"type\":\"signature_delta\",\"signature\":\"confab\"")
                                BLOCK_STOP("0") BLOCK_START("1", TEXT_START) BLOCK_DELTA(
                                        "1", TEXT("So")) BLOCK_STOP("1") BLOCK_START("2",
                                        "\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\","
                                        "\"input\":{}") BLOCK_DELTA("2",
                                        "\"type\":\"input_json_delta\",\"partial_json\":\"{"
                                        "\\\"a\\\":\"") BLOCK_DELTA("2",
                                        "\"type\":\"input_json_delta\",\"partial_json\":\"\\n1}\"")
                                        BLOCK_STOP("2") BLOCK_START("3",
                                                "\"type\":\"tool_use\",\"id\":\"t2\",\"name\":"
                                                "\"g\",\"input\":{}") BLOCK_STOP("3")
                                                END("tool_use", "null"));
        rig_said_deinit(&said);
}

static void test_whole(void **state) {
        struct rig_said said;

        begin(&said, false, true);
        say_all(&said);
        assert_string_equal(rig_take(&said),
                MESSAGE("{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"confab\"},"
                        "{\"type\":\"text\",\"text\":\"So\"},"
                        "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"a\": 1}},"
                        "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"g\",\"input\":{}}",
                        "tool_use", "null"));
        assert_int_equal(said.n_put, 1);
        rig_said_deinit(&said);
}

/* Without being asked for, thinking has no block, and blocks have no gaps in their indices. */
static void test_hidden(void **state) {
        struct rig_said said;

        begin(&said, true, false);
        rig_take(&said);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(rig_part(&said, 1, CONFAB_PART_TEXT, "So", true), 0);
        assert_string_equal(rig_take(&said),
                BLOCK_START("0", TEXT_START) BLOCK_DELTA("0", TEXT("So")) BLOCK_STOP("0"));
        rig_said_deinit(&said);
        begin(&said, false, false);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_int_equal(rig_done(&said, CONFAB_FINISH_LENGTH, NULL, 0), 0);
        assert_string_equal(rig_take(&said), MESSAGE("", "max_tokens", "null"));
        rig_said_deinit(&said);
}

static void check_end(
        enum confab_finish finish, const char *stop, unsigned n_calls, const char *expected) {
        struct rig_said said;

        begin(&said, true, false);
        rig_take(&said);
        assert_int_equal(rig_done(&said, finish, stop, n_calls), 0);
        assert_string_equal(rig_take(&said), expected);
        rig_said_deinit(&said);
}

static void test_ends(void **state) {
        check_end(CONFAB_FINISH_STOP, NULL, 0, END("end_turn", "null"));
        check_end(CONFAB_FINISH_STOP, NULL, 1, END("tool_use", "null"));
        check_end(CONFAB_FINISH_STOP_STRING, "END", 0, END("stop_sequence", "\"END\""));
        check_end(CONFAB_FINISH_LENGTH, NULL, 1, END("max_tokens", "null"));
        check_end(CONFAB_FINISH_CONTEXT, NULL, 0, END("model_context_window_exceeded", "null"));
}

/* A call that breaks off: its block ends in a stream; a whole message has none. */
static void test_broken(void **state) {
        struct rig_said said;

        begin(&said, true, false);
        rig_take(&said);
        assert_int_equal(rig_call(&said, 0, "t1", "f", "{\"a\"", true, "it ends early"), 0);
        assert_string_equal(rig_take(&said),
                BLOCK_START("0", "\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{}")
                        BLOCK_DELTA("0",
                                "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\"\"")
                                BLOCK_STOP("0"));
        rig_said_deinit(&said);
        for (int i = 0; i < 3; i++) {
                begin(&said, false, false);
                assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "So", true), 0);
                if (i == 0) /* said to be broken */
                        assert_int_equal(rig_call(&said, 1, "t1", "f", "{}", true, "it is"), 0);
                else if (i == 1) /* the reply was cut */
                        assert_int_equal(rig_call(&said, 1, "t1", "f", "{}", false, NULL), 0);
                else /* no object, against the protocol */
                        assert_int_equal(rig_call(&said, 1, "t1", "f", "{}x", true, NULL), 0);
                assert_int_equal(rig_done(&said, CONFAB_FINISH_LENGTH, NULL, 0), 0);
                assert_string_equal(rig_take(&said),
                        MESSAGE("{\"type\":\"text\",\"text\":\"So\"}", "max_tokens", "null"));
                rig_said_deinit(&said);
        }
}

static void test_failure(void **state) {
        const struct talk_error error = {
                .status = 503, .code = "limit", .message = "the \"queue\" is full"};
        struct rig_said said;

        begin(&said, true, false);
        rig_take(&said);
        assert_int_equal(said.writer->ops->failed(said.writer, &error), 0);
        assert_string_equal(rig_take(&said),
                "error {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                "\"message\":\"the \\\"queue\\\" is full\"}}\n");
        rig_said_deinit(&said);
}

/* What put() returns comes back, wherever it fails. */
static void test_refused(void **state) {
        for (int at = 0;; at++) {
                const struct anthropic_wish wish = {.thinking = true};
                struct rig_said said;
                int r;

                rig_said_init(&said, anthropic_writer_new(true, &wish));
                said.refuse_at = at;
                r = rig_begin(&said);
                if (r == 0)
                        r = rig_part(&said, 0, CONFAB_PART_REASONING, "a", true);
                if (r == 0)
                        r = rig_call(&said, 1, "t", "f", "{}", true, NULL);
                if (r == 0)
                        r = rig_done(&said, CONFAB_FINISH_STOP, NULL, 1);
                rig_said_deinit(&said);
                if (r == 0) {
                        assert_int_equal(at, 11);
                        break;
                }
                assert_int_equal(r, -ERR_LIMIT);
        }
}

static void check_error(unsigned status, const char *type) {
        char expected[200];
        struct buf out = BUF_NULL;

        assert_int_equal(anthropic_error(&out, status, "code", "why", "messages"), 0);
        snprintf(expected, sizeof(expected),
                "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"why\"}}", type);
        assert_string_equal((char *)out.data, expected);
        buf_deinit(&out);
}

static void test_errors(void **state) {
        check_error(400, "invalid_request_error");
        check_error(401, "authentication_error");
        check_error(403, "permission_error");
        check_error(404, "not_found_error");
        check_error(405, "invalid_request_error");
        check_error(409, "invalid_request_error");
        check_error(413, "request_too_large");
        check_error(429, "rate_limit_error");
        check_error(500, "api_error");
        check_error(501, "invalid_request_error");
        check_error(503, "overloaded_error");
        check_error(529, "overloaded_error");
}

static void check_status(unsigned status, const char *code, unsigned expected) {
        const struct talk_error error = {.status = status, .code = code};

        assert_int_equal(anthropic_status(&error), expected);
}

static void test_status(void **state) {
        check_status(503, CONFAB_SHUTDOWN, 529);
        check_status(429, CONFAB_LIMIT, 529);
        check_status(429, NULL, 429);
        check_status(409, CONFAB_BUSY, 409);
        check_status(400, CONFAB_INVALID, 400);
        check_status(500, CONFAB_SYSTEM, 500);
}

/* The words by which agents know that they have to make room. */
static void test_too_long(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(anthropic_error(&out, 400, CONFAB_CONTEXT, "30 tokens", NULL), 0);
        assert_string_equal((char *)out.data,
                "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
                "\"message\":\"prompt is too long: 30 tokens\"}}");
        buf_deinit(&out);
}

/* The word by which SDKs know that they have to send the whole history. */
static void test_no_thread(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(anthropic_error(&out, 404, CONFAB_NOT_FOUND, "why", ANTHROPIC_THREAD), 0);
        assert_string_equal((char *)out.data,
                "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"why\","
                "\"details\":{\"error_code\":\"thread_not_found\"}}}");
        buf_deinit(&out);
}

static void test_count(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(anthropic_write_count(&out, 14), 0);
        assert_string_equal((char *)out.data, "{\"input_tokens\":14}");
        buf_deinit(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_hidden),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_broken),
                cmocka_unit_test(test_failure),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_status),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_no_thread),
                cmocka_unit_test(test_count),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
