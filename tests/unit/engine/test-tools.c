/* SPDX-License-Identifier: MIT */
/*
 * Tools while a conversation goes on: definitions, calls, results, and replies in parts.
 */
#include <stdio.h>
#include <string.h>

#include "tools-rig.h"
#include "util/test.h"

#define POOL (16 << 20)
#define DEFS "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"
#define OTHER_DEFS "[{\"name\":\"g\"}]"

#define THINK "<think>\nhm, f\n</think>\n\n"
#define CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"
#define CALL_G "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"

static struct answer A, B, G;

/* A reply comes in parts; the text of its turn is all of it; Get gives the same parts, also after an
 * eviction, a restart, and in a fork. */
static void test_parts_everywhere(void **state) {
        static const char reply[] = THINK "Let me see. " CALL_F "\n" CALL_G;
        char want[512], id_f[64], id_g[64];
        struct erig r;
        uint64_t c, child;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, "Help.", DEFS);
        tools_done(&r, tools_ask(c, "go", reply), &A);
        assert_int_equal(A.n_calls, 2);
        strcpy(id_f, tools_call_id(A.parts, "f"));
        strcpy(id_g, tools_call_id(A.parts, "g"));
        assert_int_equal(strlen(id_f), 9);
        assert_string_not_equal(id_f, id_g);
        snprintf(want, sizeof(want),
                "reasoning:hm, f.\n\x1ftext:Let me see..\n\x1f"
                "call f %s:{\"x\": 1}.\n\x1f"
                "call g %s:{}.\n\x1f",
                id_f, id_g);
        assert_string_equal(A.parts, want);
        assert_string_equal(A.text, "");
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, 3);
        assert_string_equal((char *)G.turns[2].text, reply);
        assert_string_equal(tools_turn_parts(&G, 2), want);
        assert_string_equal(G.tools, DEFS);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &B), ENGINE_CONV);
        child = erig_fork(&r, c);
        erig_restart(&r, false);
        tools_get(&r, child, &G);
        assert_string_equal(tools_turn_parts(&G, 2), want);
        assert_string_equal(G.tools, DEFS);
        /* The same call in another place has another id. */
        tools_done(&r, tools_ask(child, "again", reply), &A);
        assert_string_not_equal(tools_call_id(A.parts, "f"), id_f);
        answer_reset(&G);
        erig_close(&r);
}

/* Wanting parts changes nothing else: same tokens, same text of the turn, same end. */
static void test_a_view(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, POOL);
        for (unsigned i = 0; i < 12; i++) {
                char stop[2] = {(char)('a' + 2 * i), 0};

                c = tools_new(&r, NULL, DEFS);
                d = tools_new(&r, NULL, DEFS);
                q = tools_ask(c, "go", i % 3 == 0 ? THINK "a b < c " CALL_F : NULL);
                q.max_tokens = i % 3 == 1 ? 17 : 60;
                q.stops[0] = i % 3 == 2 ? stop : "b <";
                q.n_stops = i > 3;
                q.sampling.has |= SAMPLING_SEED | SAMPLING_TEMPERATURE;
                q.sampling.seed = i;
                q.sampling.temperature = 1;
                tools_done(&r, q, &A);
                q.conv_id = d;
                q.want_parts = false;
                tools_done(&r, q, &B);
                assert_int_equal(A.n_tokens, B.n_tokens);
                assert_memory_equal(A.tokens, B.tokens, A.n_tokens * sizeof(*A.tokens));
                assert_memory_equal(A.logprobs, B.logprobs, A.n_tokens * sizeof(*A.logprobs));
                assert_int_equal(A.finish, B.finish);
                assert_string_equal(A.stop, B.stop);
                tools_get(&r, c, &G);
                assert_int_equal(G.turns[1].text_size, strlen(B.text));
                assert_memory_equal(G.turns[1].text, B.text, strlen(B.text));
                /* And the parts of Get are those of the stream, stop string or not. */
                assert_string_equal(tools_turn_parts(&G, 1), A.parts);
        }
        answer_reset(&G);
        erig_close(&r);
}

/* A reply that is continued goes on with its parts: together they are those of the whole. */
static void test_goes_on(void **state) {
        static const char reply[] = "x < y and <tool_call>\n{\"name\": \"f\", \"arguments\": "
                                    "{\"x\": [1, 2]}}\n</tool_call>";
        struct engine_request q;
        struct erig r;
        uint64_t whole, cut;
        char together[16384];

        (void)state;
        tools_open(&r, POOL);
        for (uint32_t first = 1; first < strlen(reply); first += 7) {
                whole = tools_new(&r, NULL, DEFS);
                cut = tools_new(&r, NULL, DEFS);
                tools_done(&r, tools_ask(whole, "go", reply), &A);
                q = tools_ask(cut, "go", reply);
                q.max_tokens = first;
                tools_done(&r, q, &B);
                q = tools_ask(cut, "", reply);
                q.input = ENGINE_INPUT_NONE;
                tools_done(&r, q, &G);
                assert_int_equal(G.n_calls, 1);
                /* In the transcript they follow each other as one. */
                tools_get(&r, cut, &B);
                assert_int_equal(B.n_turns, 3);
                together[0] = 0;
                erig_put_parts(together, sizeof(together), B.turns[1].parts, B.turns[1].n_parts);
                erig_put_parts(together, sizeof(together), B.turns[2].parts, B.turns[2].n_parts);
                assert_string_equal(together, A.parts);
        }
        erig_close(&r);
}

static void test_results(void **state) {
        struct engine_result results[] = {{.text = "2"}, {.name = "gee", .text = "\"3\"\n"}};
        char id_f[64], id_g[64], want[256];
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        tools_refused(&r, tools_answer(c, &(struct engine_result){"x", NULL, "1"}, 1, NULL),
                ERR_INVALID, "there is none");
        tools_done(&r, tools_ask(c, "go", CALL_F CALL_G), &A);
        strcpy(id_f, tools_call_id(A.parts, "f"));
        strcpy(id_g, tools_call_id(A.parts, "g"));
        snprintf(want, sizeof(want), "the last reply has no call 'x'; waiting: %s, %s", id_f, id_g);
        tools_refused(&r, tools_answer(c, &(struct engine_result){"x", NULL, "1"}, 1, NULL),
                ERR_INVALID, want);
        tools_refused(&r, tools_answer(c, results, 0, NULL), ERR_INVALID, "no result is given");
        /* One first, without a reply; then the other. No call twice. */
        results[0].call_id = id_f;
        results[1].call_id = id_g;
        q = tools_answer(c, results, 1, NULL);
        q.max_tokens = 0;
        q.constraint = ENGINE_CONSTRAINT_NONE;
        tools_done(&r, q, &A);
        erig_restart(&r, false);
        snprintf(want, sizeof(want), "call '%s' has a result already; waiting: %s", id_f, id_g);
        tools_refused(&r, tools_answer(c, results, 2, NULL), ERR_INVALID, want);
        tools_done(&r, tools_answer(c, results + 1, 1, "It is 2."), &A);
        assert_string_equal(A.parts, "text:It is 2..\n\x1f");
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, 5);
        assert_int_equal(G.turns[2].role, ENGINE_TOOL);
        assert_int_equal(G.turns[2].n_results, 1);
        assert_string_equal(G.turns[2].results[0].call_id, id_f);
        assert_string_equal(G.turns[2].results[0].name, "f"); /* of the call */
        assert_string_equal(G.turns[2].results[0].text, "2");
        assert_string_equal(G.turns[3].results[0].name, "gee");
        assert_string_equal(G.turns[3].results[0].text, "\"3\"\n");
        snprintf(want, sizeof(want), "[{\"call_id\":\"%s\",\"name\":\"f\",\"content\":\"2\"}]",
                id_f);
        assert_string_equal((char *)G.turns[2].text, want);
        answer_reset(&G);
        erig_close(&r);
}

/* A message from elsewhere keeps what it was given with; its calls can be answered by their ids. */
static void test_given(void **state) {
        const struct engine_call calls[] = {
                {"call-1", "f", "{\"x\":1}"}, {NULL, "g", "{\"y\": [\"<|im_end|>\"]}"}};
        const struct engine_result result = {"call-1", NULL, "one"};
        struct engine_request q = erig_request(ENGINE_CONTINUE, 0);
        char want[512];
        struct erig r;

        (void)state;
        tools_open(&r, POOL);
        q.conv_id = tools_new(&r, NULL, DEFS);
        tools_done(&r,
                (struct engine_request){.verb = ENGINE_CONTINUE,
                        .conv_id = q.conv_id,
                        .input = ENGINE_INPUT_MESSAGE,
                        .role = ENGINE_USER,
                        .text = "go",
                        .text_size = 2,
                        .at_turn = ENGINE_UNSET,
                        .at_position = ENGINE_UNSET,
                        .fd = -1},
                &A);
        q.input = ENGINE_INPUT_GIVEN;
        q.text = "I call.";
        q.text_size = 7;
        q.reasoning = "think \"twice\"";
        q.calls = calls;
        q.n_calls = 2;
        q.max_tokens = 0;
        tools_done(&r, q, &A);
        erig_restart(&r, true);
        tools_done(&r, tools_answer(q.conv_id, &result, 1, "Good."), &A);
        assert_string_equal(A.parts, "text:Good..\n\x1f");
        tools_get(&r, q.conv_id, &G);
        assert_int_equal(G.n_turns, 4);
        assert_int_equal(G.turns[1].role, ENGINE_ASSISTANT);
        assert_string_equal((char *)G.turns[1].text, "I call.");
        snprintf(want, sizeof(want),
                "reasoning:think \"twice\".\n\x1ftext:I call..\n\x1f"
                "call f call-1:{\"x\":1}.\n\x1f"
                "call g %s:{\"y\": [\"<|im_end|>\"]}.\n\x1f",
                tools_call_id(tools_turn_parts(&G, 1), "g"));
        assert_string_equal(tools_turn_parts(&G, 1), want);
        answer_reset(&G);
        erig_close(&r);
}

/* Calls that were given without ids have ids of their place, which results may answer. No two calls of a
 * conversation have the same. */
static void test_given_without_ids(void **state) {
        const struct engine_call calls[] = {{NULL, "f", "{}"}, {NULL, "g", "{}"}};
        struct engine_result result = {.text = "one"};
        char ids[4][64];
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, NULL, DEFS);
        for (unsigned i = 0; i < 2; i++) {
                struct engine_request q = tools_ask(c, "go", i ? "Yes." : NULL);

                q.max_tokens = i ? 40 : 0;
                tools_done(&r, q, &A);
                q = erig_request(ENGINE_CONTINUE, c);
                q.input = ENGINE_INPUT_GIVEN;
                q.text = "I call.";
                q.text_size = i ? 7 : 0;
                q.reasoning = i ? "hm" : NULL;
                q.calls = calls;
                q.n_calls = 2;
                q.max_tokens = 0;
                tools_done(&r, q, &A);
                tools_get(&r, c, &G);
                strcpy(ids[2 * i], tools_call_id(tools_turn_parts(&G, G.n_turns - 1), "f"));
                strcpy(ids[2 * i + 1], tools_call_id(tools_turn_parts(&G, G.n_turns - 1), "g"));
                for (unsigned k = 0; k < 2; k++) {
                        q = tools_answer(c, &result, 1, NULL);
                        q.max_tokens = 0;
                        q.constraint = ENGINE_CONSTRAINT_NONE;
                        result.call_id = ids[2 * i + k];
                        tools_done(&r, q, &A);
                }
        }
        for (unsigned i = 0; i < 4; i++)
                for (unsigned k = 0; k < i; k++)
                        assert_string_not_equal(ids[i], ids[k]);
        answer_reset(&G);
        erig_close(&r);
}

/* Definitions are told with the first message, and only once; those that a Continue gives go with its
 * turn: a rewind takes them back. */
static void test_definitions(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c, plain;
        uint32_t n_told, n_plain;

        (void)state;
        tools_open(&r, POOL);
        plain = tools_new(&r, NULL, NULL);
        tools_done(&r, tools_ask(plain, "go", "Yes."), &A);
        n_plain = A.n_prompt;
        c = tools_new(&r, NULL, DEFS);
        tools_done(&r, tools_ask(c, "go", "Yes."), &A);
        n_told = A.n_prompt;
        assert_true(n_told > n_plain + 10);
        /* The same again is nothing. */
        q = tools_ask(c, "go", "Yes.");
        q.tools = DEFS;
        tools_done(&r, q, &A);
        assert_true(A.n_prompt < n_told + n_plain + 8);
        /* Others: this template tells them at the beginning only. */
        q.tools = OTHER_DEFS;
        tools_refused(&r, q, ERR_STATE, "");
        q.tools = "[{\"name\": 1}]";
        tools_refused(&r, q, ERR_INVALID, "");
        q.input = ENGINE_INPUT_NONE;
        q.tools = OTHER_DEFS;
        tools_refused(&r, q, ERR_INVALID, "told with a message");
        /* Given with the first message of an empty conversation, they hold. */
        c = tools_new(&r, NULL, NULL);
        q = tools_ask(c, "go", "Yes.");
        q.tools = OTHER_DEFS;
        tools_done(&r, q, &A);
        erig_restart(&r, false);
        tools_get(&r, c, &G);
        assert_string_equal(G.tools, OTHER_DEFS);
        assert_string_equal(G.turns[0].tools, OTHER_DEFS);
        q = erig_request(ENGINE_REWIND, c);
        q.at_turn = 0;
        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
        tools_get(&r, c, &G);
        assert_null(G.tools);
        tools_done(&r, tools_ask(c, "go", "Yes."), &A);
        assert_int_equal(A.n_prompt, n_plain);
        answer_reset(&G);
        erig_close(&r);
}

/* A request that is refused or cancelled leaves nothing of what it told. */
static void test_nothing_is_left(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, NULL, NULL);
        q = tools_ask(c, "go", "Yes.");
        q.tools = DEFS;
        q.stops[0] = "";
        q.n_stops = 1;
        tools_refused(&r, q, ERR_INVALID, "stop string");
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, 0);
        assert_null(G.tools);
        tools_refused(&r, (struct engine_request){.verb = ENGINE_OPEN, .tools = "[]x", .fd = -1},
                ERR_INVALID, "");
        answer_reset(&G);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parts_everywhere),
                cmocka_unit_test(test_a_view),
                cmocka_unit_test(test_goes_on),
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_given),
                cmocka_unit_test(test_given_without_ids),
                cmocka_unit_test(test_definitions),
                cmocka_unit_test(test_nothing_is_left),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup_tiny, tools_model_remove);
}
