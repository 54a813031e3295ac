/* SPDX-License-Identifier: MIT */
/* Bodies of /v1/responses become forms; what is wrong is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/gateway/dialect-rig.h"
#include "unit/gateway/responses-rig.h"
#include "util/test.h"

static void assert_messages(const char *text, const char *messages) {
        struct responses_body body;

        responses_rig_read(&body, text);
        if (body.r < 0)
                fail_msg("%s: %s", text, body.e.msg);
        assert_string_equal(rig_messages(body.form), messages);
        responses_rig_free(&body);
}

static void test_texts(void **state) {
        assert_messages("{\"input\":\"Hi\"}", "user|Hi\n");
        assert_messages(
                "{\"input\":\"Hi\",\"instructions\":\"Be brief.\"}", "system|Be brief.\nuser|Hi\n");
        assert_messages("{\"input\":\"Hi\",\"instructions\":\"\"}", "user|Hi\n");
        assert_messages(
                "{\"input\":[{\"role\":\"developer\",\"content\":\"d\"},"
                "{\"role\":\"system\",\"content\":[{\"type\":\"input_text\",\"text\":\"s\"}]},"
                "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
                "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
                "{\"role\":\"assistant\",\"id\":\"msg_prev_1\",\"content\":[{\"type\":"
                "\"output_text\",\"text\":\"c\",\"annotations\":[]},{\"type\":\"refusal\","
                "\"refusal\":\"d\"}]}]}",
                "system|d\nsystem|s\nuser|ab\nassistant|cd\n");
        assert_messages("{\"input\":[]}", "");
        assert_messages("{}", "");
}

#define CALL(id, name) "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name "\""
#define SAID(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define THOUGHT(text)                                                                              \
        "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"" text "\"}]}"

/* What the assistant says is one message as long as the order stays. */
static void test_assistant(void **state) {
        assert_messages("{\"input\":[" THOUGHT("r") "," SAID("a") "," CALL("1", "f") "}," CALL(
                                "2", "g") ",\"arguments\":\"{\\\"x\\\":1}\"}]}",
                "assistant|a|think:r|1 f {}|2 g {\"x\":1}\n");
        assert_messages("{\"input\":[" SAID("a") "," SAID("b") "," THOUGHT("r") "]}",
                "assistant|a\nassistant|b\nassistant||think:r\n");
        assert_messages("{\"input\":[" CALL("1", "f") "}," SAID("b") "]}",
                "assistant||1 f {}\nassistant|b\n");
        assert_messages("{\"input\":[" CALL("1", "f") "}," THOUGHT("r") "," CALL("2", "g") "}]}",
                "assistant||1 f {}\nassistant||think:r|2 g {}\n");
        /* nothing said is no message */
        assert_messages("{\"input\":[" SAID("") ",{\"role\":\"assistant\"}," THOUGHT("") "]}", "");
        assert_messages("{\"input\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],"
                        "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"t\"}]},"
                        "{\"type\":\"reasoning\",\"content\":null,\"encrypted_content\":null,"
                        "\"summary\":[{\"type\":\"summary_text\",\"text\":\"x\"},"
                        "{\"type\":\"summary_text\",\"text\":\"y\"}]}]}",
                "assistant||think:t\nassistant||think:x\n\ny\n");
}

static void test_results(void **state) {
        assert_messages(
                "{\"input\":[" CALL("1", "f") "}," CALL(
                        "2", "g") "},"
                                  "{\"type\":\"function_call_output\",\"call_id\":\"2\",\"output\":"
                                  "\"b\"},"
                                  "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":"
                                  "[{\"type\":\"input_text\",\"text\":\"a\"}]}]}",
                "assistant||1 f {}|2 g {}\ntool|2=b|1=a\n");
}

#define A "44332211ac02"
#define ID(prefix, turn, part) "\"" prefix A turn part "ddccbbaa\""
#define REFERENCE(id) "{\"type\":\"item_reference\",\"id\":" id "}"

static size_t leading(const char *text) {
        json_t *json = json_loads(text, 0, NULL);
        size_t n = responses_leading_references(json);

        assert_non_null(json);
        json_decref(json);
        return n;
}

static void test_references(void **state) {
        assert_messages("{\"input\":[{\"role\":\"user\",\"content\":\"u\"}," REFERENCE(
                                ID("rs_", "05", "00")) ",{\"id\":" ID("msg_", "05",
                                "01") "}," REFERENCE(ID("fc_", "05", "02")) "," REFERENCE(ID("fco_",
                                "06", "00")) "]}",
                "user|u\nassistant|item 1|think:item 0|c f item 2\ntool|c=item 3\n");
        /* in front they are a place, and no messages */
        assert_messages("{\"input\":[" REFERENCE(ID("rs_", "05", "00")) "," REFERENCE(
                                ID("msg_", "05", "01")) ",{\"role\":\"user\",\"content\":\"u\"}]}",
                "user|u\n");
        assert_int_equal(leading("{\"input\":[" REFERENCE(ID("msg_", "05", "00")) "," REFERENCE(
                                 ID("msg_", "07", "00")) "]}"),
                2);
        assert_int_equal(leading("{\"input\":\"x\"}"), 0);
        /* not in order, or not in one conversation: they are what they say */
        assert_int_equal(leading("{\"input\":[" REFERENCE(ID("msg_", "07", "00")) "," REFERENCE(
                                 ID("msg_", "05", "00")) "]}"),
                0);
        assert_int_equal(leading("{\"input\":[" REFERENCE(ID("msg_", "05", "00")) "," REFERENCE(
                                 ID("msg_", "05", "00")) "]}"),
                0);
        assert_int_equal(leading("{\"input\":[" REFERENCE(ID("msg_", "05", "00")) "," REFERENCE(
                                 "\"msg_44332212ac020700ddccbbaa\"") "]}"),
                0);
}

static void test_wish(void **state) {
        struct responses_body body;

        responses_rig_read(&body,
                "{\"model\":\"m\",\"input\":\"x\",\"previous_response_id\":\"resp_1\",\"store\":"
                "false,\"background\":true,\"stream\":true,\"max_output_tokens\":99999999999,"
                "\"temperature\":0.5,\"truncation\":\"auto\",\"include\":[\"x\","
                "\"message.output_text.logprobs\"],\"top_logprobs\":3,\"reasoning\":{\"effort\":"
                "\"low\",\"summary\":\"auto\"},\"parallel_tool_calls\":false,\"metadata\":{\"a\":"
                "\"b\"},\"n\":3,\"stop\":\"s\",\"prompt_cache_key\":\"k\",\"tools\":[{\"type\":"
                "\"web_search\"},{\"type\":\"function\",\"name\":\"f\",\"parameters\":{},"
                "\"strict\":true},{\"type\":\"namespace\"}],\"text\":{\"format\":{\"type\":"
                "\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":\"null\"}}}}");
        assert_int_equal(body.r, 0);
        assert_string_equal(body.wish.previous, "resp_1");
        assert_false(body.wish.store);
        assert_true(body.wish.background && body.is->detach && body.is->stream);
        assert_true(body.wish.summary && body.wish.truncates && body.is->shift);
        assert_true(body.wish.options.one_call && body.is->want_logprobs);
        assert_int_equal(body.is->n_logprobs, 3);
        assert_int_equal(body.is->max_tokens, UINT32_MAX);
        assert_int_equal(body.is->n, 1);
        assert_int_equal(body.is->n_stops, 0);
        assert_string_equal(body.is->session, "k");
        assert_string_equal(body.is->json_schema, "{\"type\":\"null\"}");
        assert_string_equal(body.is->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                            "\"parameters\":{},\"strict\":true}}]");
        assert_string_equal(body.wish.metadata, "{\"a\":\"b\"}");
        assert_string_equal(body.wish.temperature, "0.5");
        responses_rig_free(&body);
        responses_rig_read(&body, "{\"input\":\"x\",\"conversation\":{\"id\":\"conv_1\"},"
                                  "\"tools\":[{\"type\":\"custom\"}],\"text\":{}}");
        assert_int_equal(body.r, 0);
        assert_string_equal(body.wish.conversation, "conv_1");
        assert_true(body.wish.store && !body.wish.background && !body.is->detach);
        assert_null(body.is->tools);
        assert_null(body.is->json_schema);
        responses_rig_free(&body);
}

static void test_wrong(void **state) {
        static const struct {
                const char *body, *wrong;
                int r;
        } rows[] = {
                {"{\"input\":3}", "input", ERR_INVALID},
                {"{\"input\":[3]}", "input[0]", ERR_INVALID},
                {"{\"input\":[{\"content\":\"x\"}]}", "input[0].role", ERR_INVALID},
                {"{\"input\":[{\"role\":\"tool\"}]}", "input[0].role", ERR_INVALID},
                {"{\"input\":[{\"role\":\"user\"}]}", "input[0].content", ERR_INVALID},
                {"{\"input\":[{\"role\":\"user\",\"content\":{}}]}", "input[0].content",
                        ERR_INVALID},
                {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"x\"}]}]}",
                        "input[0].content[0].type", ERR_INVALID},
                {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
                        "input[0].content[0].text", ERR_INVALID},
                {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
                        "input[0].content[0]", ERR_UNSUPPORTED},
                {"{\"input\":[{\"type\":\"computer_call\"}]}", "input[0].type", ERR_UNSUPPORTED},
                {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\"}]}", "input[0].name",
                        ERR_INVALID},
                {"{\"input\":[{\"type\":\"function_call\",\"name\":\"f\"}]}", "input[0].call_id",
                        ERR_INVALID},
                {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"1\"}]}",
                        "input[0].output", ERR_INVALID},
                {"{\"input\":[{\"type\":\"item_reference\"}]}", "input[0].id", ERR_INVALID},
                {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]}", "input[0].id",
                        ERR_NOT_FOUND},
                {"{\"input\":[{\"id\":\"resp_44332211ac02ddccbbaa\"}]}", "input[0].id",
                        ERR_NOT_FOUND},
                {"{\"tools\":[{\"type\":\"function\"}]}", "tools[0].name", ERR_INVALID},
                {"{\"tools\":[3]}", "tools[0]", ERR_INVALID},
                {"{\"text\":{\"format\":{\"type\":\"x\"}}}", "text.format.type", ERR_INVALID},
                {"{\"text\":{\"format\":{\"type\":\"json_schema\"}}}", "text.format.schema",
                        ERR_INVALID},
                {"{\"conversation\":{}}", "conversation.id", ERR_INVALID},
                {"{\"conversation\":\"c\",\"previous_response_id\":\"r\"}", "previous_response_id",
                        ERR_UNSUPPORTED},
                {"{\"prompt\":{\"id\":\"x\"}}", "prompt", ERR_UNSUPPORTED},
                {"{\"max_output_tokens\":0}", "max_output_tokens", ERR_INVALID},
                {"{\"truncation\":\"x\"}", "truncation", ERR_INVALID},
                {"{\"top_logprobs\":21}", "top_logprobs", ERR_INVALID},
                {"{\"include\":[1]}", "include[0]", ERR_INVALID},
                {"{\"reasoning\":{\"summary\":1}}", "reasoning.summary", ERR_INVALID},
                {"{\"store\":1}", "store", ERR_INVALID},
                {"{\"background\":1}", "background", ERR_INVALID},
                {"{\"instructions\":1}", "instructions", ERR_INVALID},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct responses_body body;

                responses_rig_read(&body, rows[i].body);
                if (body.r != -rows[i].r || strcmp(body.fields.wrong, rows[i].wrong) != 0)
                        fail_msg("%s: %d %s (%s)", rows[i].body, body.r, body.fields.wrong,
                                body.e.msg);
                responses_rig_free(&body);
        }
}

static void test_many(void **state) {
        struct responses_body body;
        json_t *items = json_array(), *json = json_object();

        for (int i = 0; i < RESPONSES_MAX_ITEMS; i++)
                json_array_append_new(
                        items, json_pack("{s:s,s:s}", "role", "user", "content", "x"));
        json_object_set_new(json, "input", items);
        responses_rig_read_json(&body, json_incref(json));
        assert_int_equal(body.r, 0);
        assert_int_equal(body.is->n_messages, RESPONSES_MAX_ITEMS);
        responses_rig_free(&body);
        json_array_append_new(items, json_pack("{s:s,s:s}", "role", "user", "content", "x"));
        responses_rig_read_json(&body, json_incref(json));
        assert_int_equal(body.r, -ERR_INVALID);
        responses_rig_free(&body);
        json_array_clear(items);
        for (int i = 0; i <= RESPONSES_MAX_REFERENCES; i++)
                json_array_append_new(
                        items, json_pack("{s:s}", "id", "msg_44332211ac020501ddccbbaa"));
        responses_rig_read_json(&body, json);
        assert_int_equal(body.r, -ERR_INVALID);
        assert_string_equal(body.fields.wrong, "input");
        responses_rig_free(&body);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_assistant),
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_references),
                cmocka_unit_test(test_wish),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
