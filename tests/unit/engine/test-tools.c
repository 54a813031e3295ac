/* SPDX-License-Identifier: MIT */
/* Tools: definitions, calls, results, and replies in parts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/verbs/transfer-format.h"
#include "tools-rig.h"
#include "util/test.h"
#include "util/tiny-model.h"

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

/* What is dropped from the memory ends in front of a message, not between a call and its result; and
 * results stay behind the call that they answer. */
static void test_shift(void **state) {
        static const char words[] = "go on and on and on and on and on, please, and on and on";
        const struct engine_call call = {"c1", "f", "{}"};
        const struct engine_result result = {"c1", NULL, "r"};
        struct engine_options o = erig_options(POOL);
        struct engine_request q;
        unsigned n_shifts = 0;
        struct erig r;
        uint64_t c = 0;

        (void)state;
        o.model_path = tools_model;
        o.context = 256;
        erig_open(&r, &o);
        /* Messages of several lengths, so that the half of the context ends anywhere. */
        for (size_t i = 0; i < 8 * 6; i++) {
                if (i % 8 == 0) {
                        q = erig_request(ENGINE_OPEN, 0);
                        q.overflow = ENGINE_OVERFLOW_SHIFT;
                        answer_reset(&A);
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                        c = A.conv.id;
                }
                q = tools_ask(c, words + 9 * (i / 8), NULL);
                q.max_tokens = 0;
                tools_done(&r, q, &A);
                q = erig_request(ENGINE_CONTINUE, c);
                q.input = ENGINE_INPUT_GIVEN;
                q.calls = &call;
                q.n_calls = 1;
                q.max_tokens = 0;
                tools_done(&r, q, &A);
                tools_done(&r, tools_answer(c, &result, 1, "Well."), &A);
                n_shifts += A.n_dropped > 0;
                tools_get(&r, c, &G);
                for (uint32_t k = 0; k < G.n_turns; k++)
                        if (G.conv.dropped_to > 0 && G.turns[k].start == G.conv.dropped_to)
                                assert_int_equal(G.turns[k].role, ENGINE_USER);
        }
        assert_true(n_shifts > 0);
        answer_reset(&G);
        erig_close(&r);
}

/* Two turns say the same. The ids of calls follow from where the calls are. */
static void same_turn(const struct answer *a, const struct answer *b, uint32_t i) {
        const struct engine_turn *s = &a->turns[i], *t = &b->turns[i];

        assert_int_equal(s->role, t->role);
        assert_int_equal(s->text_size, t->text_size);
        if (s->text_size > 0)
                assert_memory_equal(s->text, t->text, s->text_size);
        assert_int_equal(s->n_results, t->n_results);
        assert_int_equal(s->n_parts, t->n_parts);
        for (size_t k = 0; k < s->n_parts; k++) {
                assert_int_equal(s->parts[k].kind, t->parts[k].kind);
                assert_string_equal(s->parts[k].name ? s->parts[k].name : "",
                        t->parts[k].name ? t->parts[k].name : "");
        }
        assert_int_equal(!s->tools, !t->tools);
        if (s->tools)
                assert_string_equal(s->tools, t->tools);
        /* The tokens of a reply were sampled; those of a message are the same in both vocabularies. */
        if (s->finish == ENGINE_FINISH_NONE)
                assert_int_equal(s->end - s->start, t->end - t->start);
}

/* Definitions, calls, results and given messages are written anew for another vocabulary; a model
 * whose template takes no tools does not get them. */
static void test_carry(void **state) {
        const struct engine_call call = {"c1", "g", "{\"y\": [2]}"};
        const struct engine_result late = {"c1", NULL, "3"};
        struct engine_result result = {.text = "1"};
        static struct answer before;
        char other[80], id[64];
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        snprintf(other, sizeof(other), "%s.other", tools_model);
        assert_int_equal(tiny_model_write_arch(other, "llama"), 0);
        tools_open(&r, POOL);
        c = tools_new(&r, "Help.", DEFS);
        tools_done(&r, tools_ask(c, "go", THINK CALL_F), &A);
        strcpy(id, tools_call_id(A.parts, "f"));
        result.call_id = id;
        tools_done(&r, tools_answer(c, &result, 1, "Well."), &A);
        q = erig_request(ENGINE_CONTINUE, c);
        q.input = ENGINE_INPUT_GIVEN;
        q.text = "So.";
        q.text_size = 3;
        q.reasoning = "hm";
        q.calls = &call;
        q.n_calls = 1;
        q.max_tokens = 0;
        tools_done(&r, q, &A);
        tools_get(&r, c, &before);
        assert_int_equal(before.n_turns, 6);

        erig_stop(&r, true);
        r.o.model_path = other;
        erig_start(&r);
        answer_reset(&A);
        if (erig_simple(&r, ENGINE_CARRY, c, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        assert_true(A.conv.carried);
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, before.n_turns);
        for (uint32_t i = 0; i < G.n_turns; i++)
                same_turn(&before, &G, i);
        assert_string_equal(G.tools, DEFS);
        tools_done(&r, tools_answer(c, &late, 1, "Well."), &A);

        if (erig_model()) {
                erig_stop(&r, true);
                r.o.model_path = erig_model();
                erig_start(&r);
                answer_reset(&A);
                assert_int_equal(erig_simple(&r, ENGINE_CARRY, c, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_UNSUPPORTED);
                assert_non_null(strstr(A.err.msg, "turn 0 (system) cannot be carried over"));
        }
        answer_reset(&G);
        answer_reset(&before);
        unlink(other);
        erig_close(&r);
}

static int sealed_copy(int from, const char *find, const char *replace) {
        static char data[1 << 20];
        ssize_t n = pread(from, data, sizeof(data), 0);
        int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        char *p = find ? memmem(data, (size_t)n, find, strlen(find)) : NULL;
        uint64_t transcript, hash;

        assert_true(n > XFER_HEADER_SIZE && fd >= 0);
        if (find) {
                struct xfer_header h;

                assert_non_null(p);
                assert_int_equal(strlen(find), strlen(replace));
                memcpy(p, replace, strlen(replace));
                assert_int_equal(
                        xfer_header_parse((uint8_t *)data, (size_t)n, (uint64_t)n, &h, NULL), 0);
                transcript = xfer_transcript_size(&h);
                hash = hash64(data + XFER_HEADER_SIZE, (size_t)transcript, 0);
                memcpy(data + XFER_HEADER_SIZE + transcript, &hash, 8);
        }
        assert_int_equal(write(fd, data, (size_t)n), n);
        assert_int_equal(
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
                0);
        return fd;
}

static enum engine_event_kind import(struct erig *r, int fd, struct answer *a) {
        struct engine_request q = erig_request(ENGINE_IMPORT, 0);
        enum engine_event_kind kind;

        q.fd = fd;
        answer_reset(a);
        kind = erig_do(r, &q, a);
        close(fd);
        return kind;
}

/* An export has all of it; an import takes nothing that the daemon would not have written. */
static void test_export(void **state) {
        static const struct {
                const char *find, *replace, *why;
        } hostile[] = {
                {"[{\"type\"", "{{\"type\"", "definitions of tools"},
                {"{\"calls\"", "{\"cslls\"", "turn 1 of the export file"},
                {"\"content\"", "\"contenu\"", "turn 2 of the export file"},
        };
        const struct engine_call call = {"c1", "f", "{}"};
        const struct engine_result result = {"c1", NULL, "1"};
        struct engine_request q = erig_request(ENGINE_CONTINUE, 0);
        char want[4096];
        struct erig r;
        int fd;

        (void)state;
        tools_open(&r, POOL);
        q.conv_id = tools_new(&r, NULL, DEFS);
        tools_done(&r, tools_ask(q.conv_id, "go", "Yes."), &A);
        q = erig_request(ENGINE_CONTINUE, q.conv_id);
        q.at_turn = 1; /* in place of the reply */
        q.cuts = true;
        q.input = ENGINE_INPUT_GIVEN;
        q.calls = &call;
        q.n_calls = 1;
        q.max_tokens = 0;
        tools_done(&r, q, &A);
        tools_done(&r, tools_answer(q.conv_id, &result, 1, "It is <tool_call>\n{\"name\": \"f\"}"),
                &A);
        tools_get(&r, q.conv_id, &G);
        snprintf(want, sizeof(want), "%s%s", tools_turn_parts(&G, 1), (char *)G.turns[2].text);
        strcat(want, tools_turn_parts(&G, 3));
        answer_reset(&A);
        assert_int_equal(erig_simple(&r, ENGINE_EXPORT, q.conv_id, &A), ENGINE_EXPORTED);
        fd = A.fd;
        A.fd = 0;
        assert_int_equal(import(&r, sealed_copy(fd, NULL, NULL), &B), ENGINE_CONV);
        tools_get(&r, B.conv.id, &G);
        assert_string_equal(G.tools, DEFS);
        assert_int_equal(G.n_turns, 4);
        assert_true(strncmp(want, tools_turn_parts(&G, 1), strlen(tools_turn_parts(&G, 1))) == 0);
        assert_non_null(strstr(want, (char *)G.turns[2].text));
        assert_non_null(strstr(want, tools_turn_parts(&G, 3)));
        for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
                assert_int_equal(
                        import(&r, sealed_copy(fd, hostile[i].find, hostile[i].replace), &B),
                        ENGINE_ERROR);
                if (!strstr(B.err.msg, hostile[i].why))
                        fail_msg("'%s', not '%s'", B.err.msg, hostile[i].why);
        }
        close(fd);
        answer_reset(&G);
        erig_close(&r);
}

/* Each page of the turns is what all of them are there, with the parts and the ids of calls; the page's
 * numbers tell from which end it is counted. */
static void same_page(struct erig *r, uint64_t c, uint32_t first, uint32_t n, bool from_end) {
        struct engine_request q = erig_request(ENGINE_GET, c);
        char want[16384];

        q.want_turns = q.want_parts = q.pages = true;
        q.max_turns = n;
        q.from_turn = from_end ? ENGINE_UNSET : first;
        q.before_turn = from_end ? first + n : ENGINE_UNSET;
        answer_reset(&B);
        if (erig_do(r, &q, &B) != ENGINE_CONV)
                fail_msg("%s", B.err.msg);
        assert_true(B.conv.is_page);
        assert_int_equal(B.conv.first_turn, first);
        assert_int_equal(B.n_turns, n);
        assert_string_equal(B.tools, G.tools);
        for (uint32_t i = 0; i < n; i++) {
                const struct engine_turn *got = &B.turns[i], *all = &G.turns[first + i];

                assert_int_equal(got->start, all->start);
                assert_int_equal(got->end, all->end);
                assert_int_equal(got->text_size, all->text_size);
                assert_memory_equal(got->text, all->text, got->text_size);
                assert_int_equal(!got->figures, !all->figures);
                assert_int_equal(!got->tools, !all->tools);
                assert_int_equal(got->n_results, all->n_results);
                strcpy(want, tools_turn_parts(&G, first + i));
                assert_string_equal(tools_turn_parts(&B, i), want);
        }
}

static void test_pages(void **state) {
        static const char reply[] = "x < y and <tool_call>\n{\"name\": \"f\", \"arguments\": "
                                    "{\"x\": [1, 2]}}\n</tool_call>";
        struct engine_result result = {.text = "2"};
        char id[64];
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, POOL);
        c = tools_new(&r, "Help.", DEFS);
        tools_done(&r, tools_ask(c, "go", CALL_F), &A);
        strcpy(id, tools_call_id(A.parts, "f"));
        result.call_id = id;
        tools_done(&r, tools_answer(c, &result, 1, "It is 2."), &A);
        /* A reply in several turns. */
        q = tools_ask(c, "go", reply);
        q.max_tokens = 9;
        tools_done(&r, q, &A);
        for (int i = 0; i < 3; i++) {
                q = tools_ask(c, "", reply);
                q.input = ENGINE_INPUT_NONE;
                q.max_tokens = i < 2 ? 11 : 400;
                tools_done(&r, q, &A);
        }
        tools_get(&r, c, &G);
        assert_int_equal(G.n_turns, 10);
        for (uint32_t first = 0; first <= G.n_turns; first++)
                for (uint32_t n = first < G.n_turns; first + n <= G.n_turns; n++) {
                        same_page(&r, c, first, n, false);
                        if (n > 0)
                                same_page(&r, c, first, n, true);
                }
        /* Without parts, from both ends, with all tokens. */
        q = erig_request(ENGINE_GET, c);
        q.want_turns = q.want_tokens = q.pages = true;
        q.from_turn = 2;
        q.before_turn = 4;
        answer_reset(&B);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        assert_int_equal(B.conv.first_turn, 2);
        assert_int_equal(B.n_turns, 2);
        assert_int_equal(B.n_history, G.n_history);
        assert_memory_equal(B.history, G.history, G.n_history * sizeof(int32_t));
        q.before_turn = 11;
        tools_refused(&r, q, ERR_INVALID, "before_turn");
        q.before_turn = ENGINE_UNSET;
        q.from_turn = 11;
        tools_refused(&r, q, ERR_INVALID, "from_turn");
        answer_reset(&B);
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
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_shift),
                cmocka_unit_test(test_carry),
                cmocka_unit_test(test_export),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup_tiny, tools_model_remove);
}
