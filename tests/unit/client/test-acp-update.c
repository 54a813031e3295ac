/* SPDX-License-Identifier: MIT */
/* What the daemon tells, as session/update messages. */
#include "base/util.h"
#include "client/acp/update.h"
#include "util/test.h"

#define HEAD                                                                                       \
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/"                                               \
        "update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":"
#define CHUNK(kind, text)                                                                          \
        HEAD "\"" kind "\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}}}}\n"

static void expect(struct acp_out *out, const char *text) {
        assert_int_equal(out->error, 0);
        assert_string_equal(out->buf.data ? (char *)out->buf.data : "", text);
        buf_deinit(&out->buf);
}

static struct confab_part part(enum confab_part_kind kind, const char *text) {
        return (struct confab_part){.kind = kind, .text = text, .text_size = strlen(text)};
}

static void test_chunks(void **state) {
        struct acp_out out = ACP_OUT_NULL;
        struct acp_reply reply = {.open = false};
        const struct confab_part parts[] = {part(CONFAB_PART_REASONING, "hm"),
                part(CONFAB_PART_TEXT, ""), part(CONFAB_PART_TEXT, "a\"b\n")};

        acp_update_parts(&out, "s", &reply, parts, 3);
        expect(&out, CHUNK("agent_thought_chunk", "hm") CHUNK("agent_message_chunk", "a\\\"b\\n"));
        acp_update_usage(&out, "s", 7, 2048);
        expect(&out, HEAD "\"usage_update\",\"used\":7,\"size\":2048}}}\n");
        acp_update_title(&out, "s", "T");
        expect(&out, HEAD "\"session_info_update\",\"title\":\"T\"}}}\n");
        acp_reply_deinit(&reply);
}

static const char call_head[] =
        HEAD "\"tool_call\",\"toolCallId\":\"c1\",\"title\":\"weather\",\"kind\":"
             "\"other\",\"status\":";

/* A call whose arguments come as @pieces. */
static void check_call(
        const char *const *pieces, size_t n, const char *broken, const char *expected_tail) {
        struct acp_out out = ACP_OUT_NULL;
        struct acp_reply reply = {.open = false};
        char expected[1024];

        for (size_t i = 0; i < n; i++) {
                struct confab_part p = part(CONFAB_PART_CALL, pieces[i]);

                p.call_id = i == 0 ? "c1" : NULL;
                p.name = i == 0 ? "weather" : NULL;
                p.ends = i + 1 == n;
                p.broken = p.ends ? broken : NULL;
                acp_update_parts(&out, "s", &reply, &p, 1);
                if (!p.ends)
                        assert_int_equal(out.buf.size, 0);
        }
        assert_false(reply.open);
        snprintf(expected, sizeof(expected), "%s%s}}}\n", call_head, expected_tail);
        expect(&out, expected);
}

static void test_calls(void **state) {
        static const char *const pieces[] = {"", "{\"city\":", "\"Oslo\"}"};
        static char deep[300] = "{\"a\":";
        char expected[400];
        const char *one = deep;

        check_call(pieces, 3, NULL, "\"pending\",\"rawInput\":{\"city\":\"Oslo\"}");
        check_call(pieces, 1, NULL, "\"pending\",\"rawInput\":\"\"");
        check_call(pieces, 2, "it ends early",
                "\"failed\",\"rawInput\":\"{\\\"city\\\":\",\"content\":[{\"type\":\"content\","
                "\"content\":{"
                "\"type\":\"text\",\"text\":\"it ends early\"}}]");
        for (int i = 0; i < 40; i++)
                strcat(deep, "[");
        for (int i = 0; i < 40; i++)
                strcat(deep, "]");
        strcat(deep, "}");
        snprintf(
                expected, sizeof(expected), "\"pending\",\"rawInput\":\"{\\\"a\\\":%s\"", deep + 5);
        check_call(&one, 1, NULL, expected);
}

/* A prompt that ends inside a call leaves nothing behind. */
static void test_open_call(void **state) {
        struct acp_out out = ACP_OUT_NULL;
        struct acp_reply reply = {.open = false};
        struct confab_part p = part(CONFAB_PART_CALL, "{");

        p.call_id = "c1";
        p.name = "weather";
        acp_update_parts(&out, "s", &reply, &p, 1);
        assert_true(reply.open);
        acp_reply_deinit(&reply);
        assert_false(reply.open);
        expect(&out, "");
}

static void check_turn(const struct confab_turn *turn, const char *expected) {
        struct acp_out out = ACP_OUT_NULL;

        acp_update_turn(&out, "s", turn);
        expect(&out, expected);
}

#define BYTES(text)                                                                                \
        { (const uint8_t *)(text), sizeof(text) - 1 }

static void test_turns(void **state) {
        const struct confab_result result = {"c1", "weather", "-4"};
        const struct confab_part parts[] = {
                part(CONFAB_PART_REASONING, "hm"), part(CONFAB_PART_TEXT, "So.")};
        struct confab_turn turn = {.role = CONFAB_ROLE_SYSTEM, .text = BYTES("x")};

        check_turn(&turn, "");
        turn.role = CONFAB_ROLE_USER;
        check_turn(&turn, CHUNK("user_message_chunk", "x"));
        turn.role = CONFAB_ROLE_RAW;
        check_turn(&turn, CHUNK("user_message_chunk", "x"));
        turn.role = CONFAB_ROLE_ASSISTANT;
        check_turn(&turn, CHUNK("agent_message_chunk", "x"));
        turn.parts = parts;
        turn.n_parts = 2;
        check_turn(&turn, CHUNK("agent_thought_chunk", "hm") CHUNK("agent_message_chunk", "So."));
        turn = (struct confab_turn){.role = CONFAB_ROLE_ASSISTANT, .text = BYTES("caf\xc3")};
        check_turn(&turn, CHUNK("agent_message_chunk", "caf\xef\xbf\xbd"));
        turn = (struct confab_turn){
                .role = CONFAB_ROLE_TOOL, .text = BYTES("[]"), .results = &result, .n_results = 1};
        check_turn(&turn, HEAD
                "\"tool_call_update\",\"toolCallId\":\"c1\",\"status\":\"completed\",\"content\":[{"
                "\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"-4\"}}],"
                "\"rawOutput\":\"-4\"}}}\n");
}

static void check_time(uint64_t usec, const char *expected) {
        struct buf out = BUF_NULL;
        struct json j;

        json_init(&j, &out);
        acp_put_time(&j, usec);
        assert_int_equal(json_finish(&j), 0);
        assert_string_equal((char *)out.data, expected);
        buf_deinit(&out);
}

static void test_time(void **state) {
        check_time(0, "\"1970-01-01T00:00:00.000Z\"");
        check_time(1795311156439999, "\"2026-11-22T01:32:36.439Z\"");
        check_time(UINT64_MAX, "\"586524-01-19T08:01:49.551Z\"");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_chunks),
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_open_call),
                cmocka_unit_test(test_turns),
                cmocka_unit_test(test_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
