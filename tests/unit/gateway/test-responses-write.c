/* SPDX-License-Identifier: MIT */
/* What a talk tells becomes events of a response. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "unit/gateway/responses-rig.h"
#include "util/test.h"

/* Types of all events, without "response.", as "created in_progress ...". Their numbers have no gaps. */
static void assert_types(const struct responses_said *said, const char *wanted) {
        char types[2048] = "";
        json_t *event;
        size_t i, n = 0;

        json_array_foreach(said->events, i, event) {
                const char *type = json_string_value(json_object_get(event, "type"));

                assert_int_equal(
                        json_integer_value(json_object_get(event, "sequence_number")), (int)i);
                assert_int_equal(strncmp(type, "response.", 9), 0);
                n += (size_t)snprintf(types + n, sizeof(types) - n, "%s%s", i ? " " : "", type + 9);
        }
        assert_string_equal(types, wanted);
}

/* Items of the last event are those that were told one by one, at their index; each of their events has their id. */
static void assert_items(const struct responses_said *said) {
        const json_t *output = responses_at(responses_said_last(said), "response.output"),
                     *open = NULL;
        size_t n_items = 0, i;
        json_t *event;

        json_array_foreach(said->events, i, event) {
                const char *type = json_string_value(json_object_get(event, "type"));
                const json_t *index = json_object_get(event, "output_index");

                if (!index)
                        continue;
                assert_int_equal(json_integer_value(index), (int)n_items);
                if (strcmp(type, "response.output_item.added") == 0) {
                        assert_null(open);
                        open = responses_at(event, "item.id");
                        responses_assert_json(event, "item.status", "\"in_progress\"");
                } else if (strcmp(type, "response.output_item.done") == 0) {
                        assert_true(json_equal(
                                responses_at(event, "item"), json_array_get(output, n_items++)));
                        assert_true(json_equal(responses_at(event, "item.id"), open));
                        open = NULL;
                } else {
                        assert_true(json_equal(responses_at(event, "item_id"), open));
                }
        }
        assert_null(open);
        assert_int_equal(json_array_size(output), n_items);
}

#define BEGIN "created in_progress "
#define TEXT "output_item.added content_part.added output_text.delta "
#define TEXT_END "output_text.done content_part.done output_item.done"
#define REASONING                                                                                  \
        "output_item.added content_part.added reasoning_text.delta reasoning_text.done "           \
        "content_part.done output_item.done "
#define SUMMARY                                                                                    \
        "output_item.added reasoning_summary_part.added reasoning_summary_text.delta "             \
        "reasoning_summary_text.done reasoning_summary_part.done output_item.done "
#define CALL "output_item.added function_call_arguments.delta "
#define CALL_END "function_call_arguments.done output_item.done "

static void test_text(void **state) {
        struct responses_id id;
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
        assert_int_equal(rig_begin(&said.rig), 0);
        assert_int_equal(rig_part(&said.rig, 0, CONFAB_PART_TEXT, "Nice \"to", false), 0);
        assert_int_equal(rig_part(&said.rig, 0, CONFAB_PART_TEXT, "", false), 0);
        assert_int_equal(rig_part(&said.rig, 0, CONFAB_PART_TEXT, "\n", false), 0);
        assert_int_equal(rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_types(&said, BEGIN TEXT "output_text.delta " TEXT_END " completed");
        assert_items(&said);
        for (size_t i = 0; i < 2; i++) {
                responses_assert_json(responses_said_at(&said, i), "response.output", "[]");
                responses_assert_json(
                        responses_said_at(&said, i), "response.status", "\"in_progress\"");
                responses_assert_json(responses_said_at(&said, i), "response.completed_at", "null");
                responses_assert_json(responses_said_at(&said, i), "response.usage", "null");
        }
        responses_assert_json(responses_said_at(&said, 3), "part",
                "{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}");
        responses_assert_json(responses_said_at(&said, 4), "delta", "\"Nice \\\"to\"");
        responses_assert_json(responses_said_at(&said, 4), "content_index", "0");
        responses_assert_json(responses_said_at(&said, 6), "text", "\"Nice \\\"to\\n\"");
        responses_assert_json(responses_said_last(&said), "response.status", "\"completed\"");
        responses_assert_json(responses_said_last(&said), "response.output.0.content.0.text",
                "\"Nice \\\"to\\n\"");
        responses_assert_json(responses_said_last(&said), "response.usage",
                "{\"input_tokens\":14,\"input_tokens_details\":{\"cached_tokens\":13},"
                "\"output_tokens\":9,\"output_tokens_details\":{\"reasoning_tokens\":0},"
                "\"total_tokens\":23}");
        assert_int_equal(
                responses_id_decode(&id, json_string_value(responses_at(responses_said_last(&said),
                                                 "response.output.0.id"))),
                0);
        assert_int_equal(id.kind, RESPONSES_ID_MESSAGE);
        assert_int_equal(id.turn, 3);
        assert_int_equal(id.check, responses_check(7));
        responses_said_deinit(&said);
}

#define PARTS                                                                                      \
        TEXT TEXT_END " " CALL "function_call_arguments.delta " CALL_END CALL CALL_END "completed"

static void test_items(void **state) {
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
        responses_said_tell(&said);
        assert_types(&said, BEGIN REASONING PARTS);
        assert_items(&said);
        responses_assert_json(responses_said_last(&said), "response.output.0.content",
                "[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]");
        responses_assert_json(responses_said_last(&said), "response.output.0.summary", "[]");
        responses_assert_json(
                responses_said_last(&said), "response.output.2.arguments", "\"{\\\"a\\\":1}\"");
        responses_assert_json(responses_said_last(&said), "response.output.2.call_id", "\"c1\"");
        responses_assert_json(
                responses_said_last(&said), "response.output.2.status", "\"completed\"");
        responses_assert_json(responses_said_last(&said), "response.output.3.name", "\"g\"");
        responses_assert_json(
                responses_said_last(&said), "response.output.3.status", "\"incomplete\"");
        responses_said_deinit(&said);
        responses_said_ask(
                &said, "{\"input\":\"x\",\"stream\":true,\"reasoning\":{\"summary\":\"auto\"}}");
        responses_said_tell(&said);
        assert_types(&said, BEGIN SUMMARY PARTS);
        assert_items(&said);
        responses_assert_json(responses_said_last(&said), "response.output.0.summary",
                "[{\"type\":\"summary_text\",\"text\":\"hm\"}]");
        responses_assert_json(responses_said_last(&said), "response.output.0.content", "[]");
        responses_assert_json(responses_said_at(&said, 4), "summary_index", "0");
        responses_said_deinit(&said);
}

/* A reply without a word has one message. */
static void test_nothing(void **state) {
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
        assert_int_equal(rig_begin(&said.rig), 0);
        assert_int_equal(rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_types(&said, BEGIN "output_item.added content_part.added " TEXT_END " completed");
        assert_items(&said);
        responses_assert_json(
                responses_said_last(&said), "response.output.0.content.0.text", "\"\"");
        responses_said_deinit(&said);
}

static void test_ends(void **state) {
        static const struct {
                enum confab_finish finish;
                const char *type, *status, *item, *details;
        } rows[] = {
                {CONFAB_FINISH_STOP, "response.completed", "\"completed\"", "\"completed\"",
                        "null"},
                {CONFAB_FINISH_STOP_STRING, "response.completed", "\"completed\"", "\"completed\"",
                        "null"},
                {CONFAB_FINISH_LENGTH, "response.incomplete", "\"incomplete\"", "\"incomplete\"",
                        "{\"reason\":\"max_output_tokens\"}"},
                {CONFAB_FINISH_CONTEXT, "response.incomplete", "\"incomplete\"", "\"incomplete\"",
                        "{\"reason\":\"max_output_tokens\"}"},
                {CONFAB_FINISH_CANCELLED, "response.failed", "\"cancelled\"", "\"incomplete\"",
                        "null"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct responses_said said;

                responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
                assert_int_equal(rig_begin(&said.rig), 0);
                assert_int_equal(rig_part(&said.rig, 0, CONFAB_PART_TEXT, "a", false), 0);
                assert_int_equal(rig_done(&said.rig, rows[i].finish, NULL, 0), 0);
                assert_items(&said);
                assert_string_equal(
                        json_string_value(responses_at(responses_said_last(&said), "type")),
                        rows[i].type);
                responses_assert_json(
                        responses_said_last(&said), "response.status", rows[i].status);
                responses_assert_json(
                        responses_said_last(&said), "response.output.0.status", rows[i].item);
                responses_assert_json(
                        responses_said_last(&said), "response.incomplete_details", rows[i].details);
                responses_said_deinit(&said);
        }
}

/* Behind the one call that is wanted the talk is told to end, and what comes until then is not told. */
static void test_one_call(void **state) {
        for (int stream = 0; stream < 2; stream++) {
                struct responses_said said;

                responses_said_ask(&said,
                        stream ? "{\"input\":\"x\",\"parallel_tool_calls\":false,\"stream\":true}"
                               : "{\"input\":\"x\",\"parallel_tool_calls\":false}");
                assert_int_equal(rig_begin(&said.rig), 0);
                assert_int_equal(rig_call(&said.rig, 0, "c0", "f", "{", true, "broken"), 0);
                assert_int_equal(rig_call(&said.rig, 1, "c1", "f", "{}", true, NULL), 1);
                assert_int_equal(rig_call(&said.rig, 2, "c2", "g", "{", false, NULL), 0);
                assert_int_equal(rig_part(&said.rig, 3, CONFAB_PART_TEXT, "no", false), 0);
                assert_int_equal(rig_done(&said.rig, CONFAB_FINISH_CANCELLED, NULL, 2), 0);
                if (stream)
                        assert_types(&said, BEGIN CALL CALL_END CALL CALL_END "completed");
                responses_assert_json(responses_said_last(&said),
                        stream ? "response.status" : "status", "\"completed\"");
                assert_int_equal(json_array_size(responses_at(responses_said_last(&said),
                                         stream ? "response.output" : "output")),
                        2);
                responses_assert_json(responses_said_last(&said),
                        stream ? "response.output.1.status" : "output.1.status", "\"completed\"");
                responses_said_deinit(&said);
        }
}

static void test_failures(void **state) {
        static const struct {
                const char *code, *told, *status;
        } rows[] = {
                {CONFAB_CONTEXT, "\"context_length_exceeded\"", "\"failed\""},
                {CONFAB_LIMIT, "\"rate_limit_exceeded\"", "\"failed\""},
                {CONFAB_SYSTEM, "\"server_error\"", "\"failed\""},
                {CONFAB_CANCELLED, "\"server_error\"", "\"cancelled\""},
                {NULL, "\"server_error\"", "\"failed\""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct talk_error error = {.code = rows[i].code, .message = "words"};
                struct responses_said said;

                responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
                assert_int_equal(rig_begin(&said.rig), 0);
                if (i % 2 == 0)
                        rig_part(&said.rig, 0, CONFAB_PART_TEXT, "a", false);
                assert_int_equal(said.writer->ops->failed(said.writer, &error), 0);
                assert_types(&said, i % 2 == 0 ? BEGIN TEXT TEXT_END " failed" : BEGIN "failed");
                assert_items(&said);
                responses_assert_json(
                        responses_said_last(&said), "response.error.code", rows[i].told);
                responses_assert_json(
                        responses_said_last(&said), "response.error.message", "\"words\"");
                responses_assert_json(
                        responses_said_last(&said), "response.status", rows[i].status);
                if (i % 2 == 0)
                        responses_assert_json(responses_said_last(&said),
                                "response.output.0.status", "\"incomplete\"");
                responses_said_deinit(&said);
        }
}

/* The same events again, from each number on. */
static void test_resume(void **state) {
        struct responses_said first;
        size_t n;

        responses_said_ask(&first, "{\"input\":\"x\",\"stream\":true}");
        responses_said_tell(&first);
        n = json_array_size(first.events);
        for (int64_t after = -1; after <= (int64_t)n; after++) {
                struct responses_body body;
                struct responses_said said;

                responses_rig_read(&body, "{\"input\":\"x\"}");
                responses_said_init(
                        &said, responses_writer_resume(&body.wish, &responses_rig_place, after));
                responses_rig_free(&body);
                responses_said_tell(&said);
                assert_int_equal(json_array_size(said.events), MAX((int64_t)n - 1 - after, 0));
                for (size_t i = 0; i < json_array_size(said.events); i++) {
                        const json_t *was = responses_said_at(&first, i + (size_t)(after + 1));
                        const json_t *is = responses_said_at(&said, i);

                        if (json_object_get(is, "response"))
                                assert_true(json_equal(responses_at(is, "response.output"),
                                        responses_at(was, "response.output")));
                        else
                                assert_true(json_equal(is, was));
                }
                responses_said_deinit(&said);
        }
        responses_said_deinit(&first);
}

static void tell_token(struct responses_said *said, uint32_t index, enum confab_part_kind kind,
        const char *text, const char *token) {
        const struct confab_token told = {.has_logprob = true,
                .logprob = -0.5f,
                .text = {(const uint8_t *)token, strlen(token)}};
        const struct confab_part part = {
                .index = index, .kind = kind, .text = text, .text_size = strlen(text)};
        const struct confab_delta delta = {
                .tokens = &told, .n_tokens = 1, .parts = &part, .n_parts = text[0] != '\0'};

        assert_int_equal(said->writer->ops->delta(said->writer, &delta), 0);
}

/* Tokens stand with the text that they become part of; those of reasoning and of the end are left out. */
static void test_logprobs(void **state) {
        struct responses_said said;
        const json_t *logprobs;

        responses_said_ask(&said,
                "{\"input\":\"x\",\"stream\":true,\"include\":[\"message.output_text.logprobs\"]}");
        rig_begin(&said.rig);
        tell_token(&said, 0, CONFAB_PART_REASONING, "hm", "hm");
        tell_token(&said, 1, CONFAB_PART_TEXT, "", "a");
        tell_token(&said, 1, CONFAB_PART_TEXT, "ab", "b");
        tell_token(&said, 1, CONFAB_PART_TEXT, "c", "c");
        tell_token(&said, 1, CONFAB_PART_TEXT, "", "<end>");
        rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0);
        assert_types(&said, BEGIN REASONING TEXT "output_text.delta " TEXT_END " completed");
        assert_items(&said);
        assert_int_equal(
                json_array_size(responses_at(responses_said_at(&said, 10), "logprobs")), 2);
        responses_assert_json(responses_said_at(&said, 11), "logprobs.0.token", "\"c\"");
        logprobs = responses_at(responses_said_last(&said), "response.output.1.content.0.logprobs");
        assert_int_equal(json_array_size(logprobs), 3);
        responses_assert_json(logprobs, "0",
                "{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[]}");
        assert_true(json_equal(responses_at(responses_said_at(&said, 12), "logprobs"), logprobs));
        responses_said_deinit(&said);
}

/* Where the client can't be told the writer fails, whatever the event. */
static void test_refused(void **state) {
        struct responses_said said;
        size_t n;

        responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
        responses_said_tell(&said);
        n = json_array_size(said.events);
        responses_said_deinit(&said);
        for (size_t i = 0; i < n; i++) {
                int r;

                responses_said_ask(&said, "{\"input\":\"x\",\"stream\":true}");
                said.rig.refuse_at = (int)i;
                r = rig_begin(&said.rig);
                if (r == 0)
                        r = rig_part(&said.rig, 0, CONFAB_PART_REASONING, "hm", true);
                if (r == 0)
                        r = rig_part(&said.rig, 1, CONFAB_PART_TEXT, "Wait.", true);
                if (r == 0)
                        r = rig_call(&said.rig, 2, "c1", "f", "{}", true, NULL);
                if (r == 0)
                        r = rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 1);
                if (r == 0) {
                        assert_true(i >= json_array_size(said.events));
                } else {
                        assert_int_equal(r, -ERR_LIMIT);
                        assert_int_equal(json_array_size(said.events), i + 1);
                }
                responses_said_deinit(&said);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_items),
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_one_call),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_resume),
                cmocka_unit_test(test_logprobs),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
