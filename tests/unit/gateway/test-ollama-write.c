/* SPDX-License-Identifier: MIT */
/* Events of a talk to lines of Ollama's stream, or to one object. */
#include "client/gateway/ollama.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

#define FIGURES                                                                                    \
        "\"total_duration\":10000,\"load_duration\":3000,\"prompt_eval_count\":14,"                \
        "\"prompt_eval_duration\":3000,\"eval_count\":9,\"eval_duration\":4000}\n"
#define LINE(message)                                                                              \
        "{\"model\":\"m\",\"message\":{\"role\":\"assistant\"," message "},\"done\":false}\n"
#define LAST(message, reason)                                                                      \
        "{\"model\":\"m\",\"message\":{\"role\":\"assistant\"," message                            \
        "},\"done\":true,\"done_reason\":\"" reason "\"," FIGURES

static void begin(
        struct rig_said *said, enum ollama_kind kind, bool stream, bool thinking, bool context) {
        const struct ollama_wish wish = {.thinking = thinking, .gives_context = context};

        rig_said_init(said, ollama_writer_new(kind, stream, &wish, true));
        assert_int_equal(rig_begin(said), 0);
        assert_string_equal(rig_take(said), "");
}

static void test_text(void **state) {
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, true, true, false);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "", false), 0);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "a\n", false), 0);
        assert_string_equal(rig_take(&said), LINE("\"content\":\"a\\n\""));
        assert_int_equal(said.writer->ops->idle(said.writer), 0);
        assert_string_equal(rig_take(&said), LINE("\"content\":\"\""));
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "b", true), 0);
        assert_string_equal(rig_take(&said), LINE("\"content\":\"b\""));
        assert_int_equal(rig_done(&said, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_string_equal(rig_take(&said), LAST("\"content\":\"\"", "stop"));
        rig_said_deinit(&said);
}

static void say_all(struct rig_said *said) {
        assert_int_equal(rig_part(said, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_int_equal(rig_part(said, 1, CONFAB_PART_TEXT, "So", true), 0);
        assert_int_equal(rig_call(said, 2, "t1", "f", "", false, NULL), 0);
        assert_int_equal(rig_call(said, 2, NULL, NULL, "{\"a\":\n", false, NULL), 0);
        assert_int_equal(rig_call(said, 2, NULL, NULL, "1}", true, NULL), 0);
        assert_int_equal(rig_call(said, 3, "t2", "x", "{", true, "it ends early"), 0);
        assert_int_equal(rig_call(said, 4, "t3", "y", "[]", true, NULL), 0); /* no object */
        assert_int_equal(rig_call(said, 5, "t4", "g", "", true, NULL), 0);
}

#define CALL_F "{\"id\":\"t1\",\"function\":{\"index\":0,\"name\":\"f\",\"arguments\":{\"a\": 1}}}"
#define CALL_G "{\"id\":\"t4\",\"function\":{\"index\":1,\"name\":\"g\",\"arguments\":{}}}"

static void test_parts(void **state) {
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, true, true, false);
        say_all(&said);
        assert_string_equal(rig_take(&said),
                LINE("\"content\":\"\",\"thinking\":\"hm\"") LINE("\"content\":\"So\"")
                        LINE("\"content\":\"\",\"tool_calls\":[" CALL_F "]")
                                LINE("\"content\":\"\",\"tool_calls\":[" CALL_G "]"));
        rig_said_deinit(&said);
}

static void test_whole(void **state) {
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, false, true, false);
        say_all(&said);
        assert_int_equal(said.writer->ops->idle(said.writer), 0);
        assert_int_equal(said.n_put, 0);
        assert_int_equal(rig_done(&said, CONFAB_FINISH_STOP, NULL, 2), 0);
        assert_string_equal(rig_take(&said),
                LAST("\"content\":\"So\",\"thinking\":\"hm\",\"tool_calls\":[" CALL_F "," CALL_G
                     "]",
                        "stop"));
        assert_int_equal(said.n_put, 1);
        rig_said_deinit(&said);
}

static void test_hidden(void **state) {
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, true, false, false);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(rig_done(&said, CONFAB_FINISH_CONTEXT, NULL, 0), 0);
        assert_string_equal(rig_take(&said), LAST("\"content\":\"\"", "length"));
        rig_said_deinit(&said);
}

/* The end of generate comes with the tokens. */
static void test_generate(void **state) {
        const int32_t tokens[] = {1, 20, 300};
        struct rig_said said;

        begin(&said, OLLAMA_GENERATE, true, true, true);
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_REASONING, "hm", true), 0);
        assert_int_equal(rig_part(&said, 1, CONFAB_PART_TEXT, "a", true), 0);
        assert_string_equal(rig_take(&said),
                "{\"model\":\"m\",\"response\":\"\",\"thinking\":\"hm\",\"done\":false}\n"
                "{\"model\":\"m\",\"response\":\"a\",\"done\":false}\n");
        assert_int_equal(rig_done(&said, CONFAB_FINISH_LENGTH, NULL, 0), 1);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(ollama_writer_end(said.writer, tokens, 3), 0);
        assert_string_equal(rig_take(&said),
                "{\"model\":\"m\",\"response\":\"\",\"done\":true,\"done_reason\":\"length\","
                "\"context\":[1,20,300]," FIGURES);
        rig_said_deinit(&said);
}

/* Raw text comes without parts. */
static void test_raw(void **state) {
        const struct confab_delta delta = {.text = "ab", .text_size = 2};
        struct rig_said said;

        begin(&said, OLLAMA_GENERATE, true, true, false);
        assert_int_equal(said.writer->ops->delta(said.writer, &delta), 0);
        assert_string_equal(
                rig_take(&said), "{\"model\":\"m\",\"response\":\"ab\",\"done\":false}\n");
        assert_int_equal(rig_done(&said, CONFAB_FINISH_STOP_STRING, "x", 0), 0);
        assert_string_equal(rig_take(&said), "{\"model\":\"m\",\"response\":\"\",\"done\":true,"
                                             "\"done_reason\":\"stop\"," FIGURES);
        rig_said_deinit(&said);
}

static void test_logprobs(void **state) {
        const struct confab_logprob top = {
                .token = 4, .logprob = -0.5f, .text = {(const uint8_t *)"b", 1}};
        const struct confab_token tokens[] = {
                {.token = 3,
                        .has_logprob = true,
                        .logprob = -0.25f,
                        .text = {(const uint8_t *)"\xc3", 1},
                        .top = &top,
                        .n_top = 1},
                {.token = 5, .has_logprob = true, .logprob = -1, .text = {(const uint8_t *)"c", 1}},
                {.token = 6},
        };
        /* a token that is a part of a character waits for the other one; the one that ends the reply waits in vain */
        const struct confab_delta part = {.tokens = tokens, .n_tokens = 1};
        const struct confab_delta whole = {
                .tokens = tokens + 1, .n_tokens = 2, .text = "x", .text_size = 1};
        const struct confab_part ends = {.kind = CONFAB_PART_TEXT, .ends = true};
        const struct confab_delta end = {
                .tokens = tokens + 1, .n_tokens = 1, .parts = &ends, .n_parts = 1};
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, true, true, false);
        assert_int_equal(said.writer->ops->delta(said.writer, &part), 0);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(said.writer->ops->delta(said.writer, &whole), 0);
        assert_string_equal(rig_take(&said),
                "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"x\"},"
                "\"logprobs\":["
                "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.25,\"bytes\":[195],\"top_logprobs\":["
                "{\"token\":\"b\",\"logprob\":-0.5,\"bytes\":[98]}]},"
                "{\"token\":\"c\",\"logprob\":-1,\"bytes\":[99]}],\"done\":false}\n");
        assert_int_equal(said.writer->ops->delta(said.writer, &end), 0);
        assert_string_equal(rig_take(&said), "");
        assert_int_equal(rig_done(&said, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_null(strstr(rig_take(&said), "logprobs"));
        rig_said_deinit(&said);
}

static void test_failure(void **state) {
        const struct talk_error error = {.status = 500, .message = "it \"failed\""};
        struct rig_said said;

        begin(&said, OLLAMA_CHAT, true, true, false);
        assert_int_equal(said.writer->ops->failed(said.writer, &error), 0);
        assert_string_equal(rig_take(&said), "{\"error\":\"it \\\"failed\\\"\"}\n");
        said.refuse_at = said.n_put;
        assert_int_equal(rig_part(&said, 0, CONFAB_PART_TEXT, "a", true), -ERR_LIMIT);
        rig_said_deinit(&said);
}

static void check_loaded(enum ollama_kind kind, bool unloads, const char *expected) {
        const struct ollama_wish wish = {.loads = true, .unloads = unloads};
        struct buf out = BUF_NULL;
        const char *rest;

        assert_int_equal(ollama_write_loaded(&out, kind, "m", &wish), 0);
        rest = strstr((const char *)out.data, "Z\",");
        assert_non_null(rest);
        assert_string_equal(rest + 3, expected);
        buf_deinit(&out);
}

static void test_loaded(void **state) {
        check_loaded(OLLAMA_CHAT, false,
                "\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_"
                "reason\":"
                "\"load\"}");
        check_loaded(OLLAMA_GENERATE, true,
                "\"response\":\"\",\"done\":true,\"done_reason\":\"unload\"}");
}

static void test_time(void **state) {
        char text[OLLAMA_TIME_SIZE];

        ollama_time(text, 0);
        assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
        ollama_time(text, 1795309965000042);
        assert_string_equal(text, "2026-11-22T01:12:45.000042Z");
}

static void test_too_long(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(ollama_error(&out, 400, CONFAB_CONTEXT, "by 30", NULL), 0);
        assert_string_equal((char *)out.data,
                "{\"error\":\"prompt too long; exceeded max context length: by 30\"}");
        buf_deinit(&out);
        assert_int_equal(ollama_error(&out, 400, CONFAB_INVALID, "no", NULL), 0);
        assert_string_equal((char *)out.data, "{\"error\":\"no\"}");
        buf_deinit(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_hidden),
                cmocka_unit_test(test_generate),
                cmocka_unit_test(test_raw),
                cmocka_unit_test(test_logprobs),
                cmocka_unit_test(test_failure),
                cmocka_unit_test(test_loaded),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
