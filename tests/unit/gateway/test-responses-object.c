/* SPDX-License-Identifier: MIT */
/* The Response object: where it is, what was asked for, its reply; and a reply that is read from its turn. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "unit/gateway/responses-rig.h"
#include "util/test.h"

/* The id of the response has what was asked, and where the reply is. */
static void test_id(void **state) {
        struct responses_place at_place = responses_rig_place;
        struct responses_body body;
        struct responses_id id;
        struct responses_said said;

        for (uint32_t n_given = 0; n_given < 5; n_given += 2) {
                responses_rig_read(&body, "{\"input\":\"x\"}");
                at_place.n_given = n_given;
                at_place.id.flags = RESPONSES_SUMMARY;
                responses_said_init(&said, responses_writer_new(&body.wish, &at_place));
                responses_rig_free(&body);
                assert_int_equal(rig_begin(&said.rig), 0);
                assert_int_equal(rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0), 0);
                assert_int_equal(
                        responses_id_decode(&id,
                                json_string_value(responses_at(responses_said_last(&said), "id"))),
                        0);
                assert_int_equal(id.kind, RESPONSES_ID_RESPONSE);
                assert_int_equal(id.daemon, responses_daemon("s"));
                assert_int_equal(id.conversation, 10);
                assert_int_equal(id.revision, 2);
                assert_int_equal(id.turn, 3);
                assert_int_equal(id.n_new, 1);
                assert_int_equal(id.n_input, n_given == 0 ? 1 : MIN(n_given, 3u));
                assert_int_equal(id.created, 1795309965);
                assert_int_equal(id.instructions_size, 3);
                assert_int_equal(id.flags, RESPONSES_SUMMARY);
                responses_said_deinit(&said);
        }
}

static void test_whole(void **state) {
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\"}");
        assert_int_equal(rig_begin(&said.rig), 0);
        assert_int_equal(rig_part(&said.rig, 0, CONFAB_PART_TEXT, "a", false), 0);
        assert_int_equal(json_array_size(said.events), 0);
        assert_int_equal(rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0), 0);
        assert_int_equal(json_array_size(said.events), 1);
        responses_assert_json(responses_said_last(&said), "object", "\"response\"");
        responses_assert_json(responses_said_last(&said), "output.0.content.0.text", "\"a\"");
        responses_said_deinit(&said);
}

/* Not streamed, but in the background: the answer is there before the reply, and the talk is left. */
static void test_background(void **state) {
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\",\"background\":true}");
        assert_int_equal(rig_begin(&said.rig), 1);
        assert_int_equal(json_array_size(said.events), 1);
        responses_assert_json(responses_said_last(&said), "status", "\"in_progress\"");
        responses_assert_json(responses_said_last(&said), "output", "[]");
        responses_assert_json(responses_said_last(&said), "background", "true");
        responses_said_deinit(&said);
        responses_said_ask(&said, "{\"input\":\"x\",\"background\":true,\"stream\":true}");
        assert_int_equal(rig_begin(&said.rig), 0);
        responses_said_deinit(&said);
}

/* What was asked for is told again as it came. */
static void test_wish(void **state) {
        static const char *const same[] = {"metadata", "{\"a\":\"b\"}", "tool_choice", "\"auto\"",
                "tools", "[{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"f\"}]",
                "text", "{\"format\":{\"type\":\"json_object\"}}", "reasoning",
                "{\"effort\":\"low\"}", "temperature", "0.5", "top_p", "0.25", "max_output_tokens",
                "99", "top_logprobs", "2", "user", "\"u\"", "prompt_cache_key", "\"k\"",
                "truncation", "\"auto\"", "store", "false", "background", "false",
                "parallel_tool_calls", "false", "instructions", "\"i\"", "previous_response_id",
                "\"resp_1\""};
        static const char *const unset[] = {"metadata", "{}", "tool_choice", "\"auto\"", "tools",
                "[]", "text", "{\"format\":{\"type\":\"text\"}}", "reasoning",
                "{\"effort\":null,\"summary\":null}", "temperature", "null", "top_p", "null",
                "max_output_tokens", "null", "top_logprobs", "0", "user", "null",
                "prompt_cache_key", "null", "truncation", "\"disabled\"", "store", "true",
                "background", "false", "parallel_tool_calls", "true", "instructions", "null",
                "previous_response_id", "null", "conversation", "null", "error", "null",
                "incomplete_details", "null"};
        char body[2048] = "{\"input\":\"x\"";
        size_t n = strlen(body);
        struct responses_said said;

        for (size_t i = 0; i < ARRAY_SIZE(same); i += 2)
                n += (size_t)snprintf(
                        body + n, sizeof(body) - n, ",\"%s\":%s", same[i], same[i + 1]);
        snprintf(body + n, sizeof(body) - n, "}");
        responses_said_ask(&said, body);
        rig_begin(&said.rig);
        rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0);
        for (size_t i = 0; i < ARRAY_SIZE(same); i += 2)
                responses_assert_json(responses_said_last(&said), same[i], same[i + 1]);
        responses_said_deinit(&said);
        responses_said_ask(&said, "{\"input\":\"x\",\"text\":{}}");
        rig_begin(&said.rig);
        rig_done(&said.rig, CONFAB_FINISH_STOP, NULL, 0);
        for (size_t i = 0; i < ARRAY_SIZE(unset); i += 2)
                responses_assert_json(responses_said_last(&said), unset[i], unset[i + 1]);
        responses_said_deinit(&said);
}

/* ---- stored replies ---- */

static int put_item(void *userdata, const struct responses_item *item) {
        json_t *list = userdata, *value;
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct json j;

        json_init(&j, &out);
        responses_put_item(&j, item, false, NULL);
        assert_int_equal(json_finish(&j), 0);
        value = json_loadb((const char *)out.data, out.size, 0, NULL);
        return json_array_append_new(list, value);
}

/* A reply that is read from its turn has the items that were told when it was written. */
static void test_stored(void **state) {
        static const struct confab_part parts[] = {
                {.index = 0, .kind = CONFAB_PART_REASONING, .text = "hm", .text_size = 2},
                {.index = 1, .kind = CONFAB_PART_TEXT, .text = "Wait.", .text_size = 5},
                {.index = 1, .kind = (enum confab_part_kind)4, .text = "new", .text_size = 3},
                {.index = 2,
                        .kind = CONFAB_PART_CALL,
                        .text = "{\"a\":1}",
                        .text_size = 7,
                        .call_id = "c1",
                        .name = "f"},
                {.index = 3,
                        .kind = CONFAB_PART_CALL,
                        .text = "{}",
                        .text_size = 2,
                        .call_id = "c2",
                        .name = "g",
                        .broken = "it ends too early"},
        };
        const struct confab_run run = {.seed = 7};
        struct confab_turn turn = {.role = CONFAB_ROLE_ASSISTANT,
                .finish = CONFAB_FINISH_STOP,
                .parts = parts,
                .n_parts = 5,
                .run = &run};
        struct responses_id of = {.daemon = responses_daemon("s"), .conversation = 10, .turn = 3};
        json_t *items = json_array();
        struct responses_said said;

        responses_said_ask(&said, "{\"input\":\"x\"}");
        responses_said_tell(&said);
        assert_int_equal(responses_each_output(&of, &turn, put_item, items), 0);
        assert_true(json_equal(items, responses_at(responses_said_last(&said), "output")));
        json_array_clear(items);
        of.flags = RESPONSES_ONE_CALL;
        turn.finish = CONFAB_FINISH_CANCELLED;
        assert_int_equal(responses_each_output(&of, &turn, put_item, items), 0);
        assert_int_equal(json_array_size(items), 3);
        json_array_clear(items);
        turn.n_parts = 2; /* it was cut in its text */
        assert_int_equal(responses_each_output(&of, &turn, put_item, items), 0);
        responses_assert_json(items, "0.status", "\"completed\"");
        responses_assert_json(items, "1.status", "\"incomplete\"");
        json_array_clear(items);
        turn.n_parts = 0;
        assert_int_equal(responses_each_output(&of, &turn, put_item, items), 0);
        responses_assert_json(items, "0.content.0.text", "\"\"");
        json_decref(items);
        responses_said_deinit(&said);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_id),
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_background),
                cmocka_unit_test(test_wish),
                cmocka_unit_test(test_stored),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
