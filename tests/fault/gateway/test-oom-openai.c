/* SPDX-License-Identifier: MIT */
/* Every allocation of reading bodies and writing replies fails once: -ERR_NOMEM, and nothing is leaked. */
#include <string.h>

#include "fault/loop.h"
#include "unit/gateway/openai-rig.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 2000

static const char chat_body[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\","
        "\"text\":"
        "\"s\"}]},{\"role\":\"assistant\",\"refusal\":\"r\",\"reasoning\":\"q\",\"tool_calls\":[{"
        "\"id\":"
        "\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}],\"function_call\":{\"name\":"
        "\"g\"}},{\"role\":\"function\",\"content\":\"1\"},{\"role\":\"tool\",\"tool_call_id\":"
        "\"c\"}],"
        "\"stop\":[\"a\"],\"logit_bias\":{\"1\":1},\"metadata\":{\"a\":\"b\"},\"prompt_cache_key\":"
        "\"k\","
        "\"tools\":[{\"function\":{\"name\":\"f\"}}],\"response_format\":{\"type\":\"json_schema\","
        "\"json_schema\":{\"schema\":{\"type\":\"object\"}}}}";
static const char text_body[] =
        "{\"model\":\"m\",\"prompt\":[\"a\",[1,2]],\"stop\":\"x\",\"echo\":false}";

static void read_until_whole(
        const char *body, int (*read_body)(struct openai_read *ret, const char *body)) {
        struct fault_loop loop = {.at_least = 19, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct openai_read read;
                int r;

                fault_loop_arm(&loop);
                r = read_body(&read, body);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &read.e);
                openai_rig_free(&read);
        }
}

static void test_reading(void **state) {
        read_until_whole(chat_body, openai_rig_chat);
        read_until_whole("{\"messages\":[{\"role\":\"user\"}],\"grammar\":\"root ::= [a]\"}",
                openai_rig_chat);
        read_until_whole(text_body, openai_rig_text);
}

static int write_reply(struct openai_said *said, bool in_pieces, struct buf *out) {
        static const struct openai_rig_token token = {"A", -0.5f};
        static const struct talk_place place = {.conversation = 1};
        static const struct talk_usage usage = {.n_prompt = 1};
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP, .n_calls = 1};
        int r = said->reply ? openai_reply_echo(said->reply, 0, "e", 1) : -ERR_NOMEM;

        if (r == 0)
                r = openai_reply_accepted(said->reply, 0, &place);
        if (r == 0)
                r = openai_rig_part(said, 0, CONFAB_PART_REASONING, "r", NULL);
        if (r == 0)
                r = openai_rig_part(said, 0, CONFAB_PART_TEXT, "A", &token);
        if (r == 0)
                r = openai_rig_plain(said, 0, "A", &token);
        if (r == 0)
                r = openai_rig_call(said, 0, "c", "f", "{", false, NULL);
        if (r == 0)
                r = openai_rig_call(said, 0, NULL, NULL, "}", true, NULL);
        if (r == 0)
                r = openai_reply_done(said->reply, 0, &done, &usage, true);
        if (r == 0)
                r = openai_reply_finish(said->reply);
        return r == 0 && !in_pieces ? openai_reply_whole(said->reply, out) : r;
}

/* The writer's own allocations; the lines that the test collects have their place before. */
static void write_until_whole(enum openai_kind kind, bool in_pieces) {
        const struct openai_reply_options options = {.kind = kind,
                .in_pieces = in_pieces,
                .include_usage = true,
                .want_logprobs = true,
                .n = 1,
                .model = "m",
                .fingerprint = "f"};
        struct fault_loop loop = {.n = 1, /* 0: of the collecting */
                .at_least = 8,
                .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                _cleanup_(buf_deinit) struct buf out = BUF_NULL;
                struct openai_said said;
                int r;

                fault_loop_arm(&loop);
                openai_said_new(&said, &options);
                r = write_reply(&said, in_pieces, &out);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                openai_said_free(&said);
        }
}

static void test_writing(void **state) {
        for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
                write_until_whole(OPENAI_CHAT, in_pieces);
                write_until_whole(OPENAI_TEXT, in_pieces);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
        };

        /* libjansson's allocations fail, too: from here these are the ones of fault.h */
        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
