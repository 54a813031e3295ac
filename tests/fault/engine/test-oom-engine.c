/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, in any thread, while an engine opens, and while a little program of
 * requests runs on it (open, say, evict, say again with a restore, fork, rewind, edit, warm,
 * get, publish, export, import, close; two prompts at the same time; old turns dropped; replies
 * with a constraint; tools; a conversation of another vocabulary carried over; checkpoints that are made,
 * thinned out, written, dropped and come back to; what administrators do). Each request ends
 * once, with a result or an error. Afterwards the engine works as before, and once the conversations
 * are closed nothing is left. Only some n are tried, so that the test takes seconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/fault.h"
#include "fault/loop.h"
#include "store/store.h"
#include "util/tiny-model.h"
#include "unit/engine/rig.h"
#include "util/depth.h"
#include "util/test.h"

enum { SHIFT_CONTEXT = 224 };

#define RUNS test_depth(24, 100, 300)

static struct answer A, B, expected;

static const char SYSTEM[] =
        "You are a friendly guide to a town by a river. You know the green house, the seven birds, "
        "the old bridge and the market, and you answer in one or two short sentences.";
static const char QUESTION[] = "My name is Ada, and I live in a green house near the river.";

/* Bytes of a transfer in pieces: a piece that was not written is not in the file. */
static void pieces(struct erig *r, const uint8_t *data, size_t n) {
        struct engine_file file = ENGINE_FILE_NULL;
        struct engine_request q;
        int fd;

        for (size_t at = 0, k; at < n; at += k) {
                uint64_t before = file.size;

                k = MIN((size_t)1 << 17, n - at);
                q = (struct engine_request){.verb = ENGINE_WRITE_FILE,
                        .file = &file,
                        .text = data + at,
                        .text_size = k};
                if (erig_do(r, &q, &A) == ENGINE_EMPTY) {
                        assert_int_equal(file.size, at + k);
                        continue;
                }
                assert_int_equal(file.size, before);
                break;
        }
        if (file.size > 0) {
                q = (struct engine_request){.verb = ENGINE_READ_FILE, .file = &file, .n_bytes = 16};
                if (erig_do(r, &q, &A) == ENGINE_BYTES)
                        assert_memory_equal(A.text, data, 16);
        }
        fd = engine_file_end(r->en, &file);
        if (fd >= 0)
                close(fd);
}

/* Out of the engine, and in again: as it was, and as somebody else's. */
static void transfer(struct erig *r, uint64_t c) {
        static uint8_t data[1 << 20];
        struct engine_request q = {.verb = ENGINE_EXPORT, .conv_id = c};
        ssize_t n;
        int fd;

        if (erig_do(r, &q, &A) != ENGINE_EXPORTED)
                return;
        n = pread(A.fd, data, sizeof(data), 0);
        assert_true(n > 0 && (uint64_t)n == A.size);
        pieces(r, data, (size_t)n);
        for (int foreign = 0; foreign < 2; foreign++) {
                q = (struct engine_request){.verb = ENGINE_IMPORT};
                q.fd = fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                data[n - 1] ^= (uint8_t)foreign;
                assert_int_equal(pwrite(fd, data, (size_t)n, 0), n);
                assert_int_equal(
                        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
                if (erig_do(r, &q, &A) == ENGINE_CONV) {
                        assert_true(foreign || !A.conv.private_memory);
                        q = erig_say_request(A.conv.id, "And you?", 2);
                        erig_do(r, &q, &A);
                }
                close(fd);
        }
}

/* Replaced as a whole, or by the message alone once it was accepted, or as it was. */
static void edit(struct erig *r, uint64_t c, uint32_t at_turn) {
        struct engine_request q = erig_say_request(c, QUESTION, 4);
        uint32_t n_turns, n_tokens;

        if (erig_simple(r, ENGINE_GET, c, &A) != ENGINE_CONV)
                return;
        n_turns = A.conv.n_turns;
        n_tokens = A.conv.n_tokens;
        q.cuts = q.ignore_eos = true;
        q.at_turn = at_turn;
        q.at_position = ENGINE_UNSET;
        erig_do(r, &q, &B);
        if (erig_simple(r, ENGINE_GET, c, &A) != ENGINE_CONV)
                return;
        if (B.kind == ENGINE_DONE)
                assert_int_equal(A.conv.n_turns, at_turn + 2);
        else if (A.conv.n_turns != n_turns || A.conv.n_tokens != n_tokens)
                assert_in_range(A.conv.n_turns, at_turn + 1, at_turn + 2);
        assert_true(!B.accepted || A.conv.n_turns <= at_turn + 2);
}

/* By what was said: among all, and in @c alone. */
static void finding(struct erig *r, uint64_t c) {
        const struct engine_message m[] = {
                {.role = ENGINE_SYSTEM, .text = "Be kind.", .text_size = 8},
                {.role = ENGINE_USER, .text = QUESTION, .text_size = sizeof(QUESTION) - 1},
                {.role = ENGINE_ASSISTANT, .text = "Hm.", .text_size = 3}};
        struct engine_request q = {.verb = ENGINE_FIND, .messages = m, .n_messages = 3};

        for (int named = 0; named < 2; named++) {
                q.conv_id = named ? c : 0;
                q.session = "a window";
                /* With no memory there is none that fits; a named one is told or the request fails. */
                if (erig_do(r, &q, &A) == ENGINE_FOUND && named)
                        assert_int_equal(A.conv.id, c);
        }
}

static const char *const some_tags[] = {"one", "two"};
static const struct about some = {.has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA,
        .title = "A title",
        .tags = some_tags,
        .n_tags = 2,
        .metadata = "{\"k\": \"a string\"}"};

/* Requests that may fail; nothing here allocates but the engine. */
static void requests(struct erig *r) {
        struct engine_request q = {
                .verb = ENGINE_OPEN, .name = "oom", .system = "Be kind.", .about = &some};
        uint64_t c, d = 0;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        q = erig_say_request(c, QUESTION, 6);
        q.stops[0] = "no such text";
        q.n_stops = 1;
        q.n_logprobs = 2;
        erig_do(r, &q, &A);
        q = (struct engine_request){.verb = ENGINE_FORK,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};
        if (erig_do(r, &q, &A) == ENGINE_CONV)
                d = A.conv.id;
        erig_simple(r, ENGINE_EVICT, c, &A);
        if (d)
                erig_simple(r, ENGINE_EVICT, d, &A);
        q = erig_say_request(c, "And you?", 4);
        erig_do(r, &q, &A);
        finding(r, c);
        edit(r, c, 1);
        if (d)
                erig_simple(r, ENGINE_WARM, d, &A);
        q = (struct engine_request){.verb = ENGINE_GET,
                .conv_id = c,
                .want_turns = true,
                .pages = true,
                .max_turns = 2,
                .from_turn = ENGINE_UNSET,
                .before_turn = ENGINE_UNSET};
        erig_do(r, &q, &A);
        q = (struct engine_request){.verb = ENGINE_UPDATE, .conv_id = c, .about = &some};
        erig_do(r, &q, &A);
        q = (struct engine_request){.verb = ENGINE_LIST,
                .order = ENGINE_ORDER_UPDATED,
                .search = "title",
                .tag = "one"};
        erig_do(r, &q, &A);
        q = (struct engine_request){
                .verb = ENGINE_TOKENIZE, .text = "a few words", .text_size = 11};
        erig_do(r, &q, &A);
        q = (struct engine_request){.verb = ENGINE_REWIND,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .drop_turns = 1};
        erig_do(r, &q, &A);
        transfer(r, c);
        erig_simple(r, ENGINE_EVICT, c, &A);
        q = (struct engine_request){.verb = ENGINE_PUBLISH,
                .conv_id = c,
                .admin = true,
                .publish = true,
                .at_turn = ENGINE_UNSET};
        if (erig_do(r, &q, &A) == ENGINE_CONV) {
                q = (struct engine_request){.verb = ENGINE_REWIND,
                        .conv_id = c,
                        .at_turn = ENGINE_UNSET,
                        .at_position = A.conv.n_tokens - 1};
                erig_do(r, &q, &A);
        }
        erig_simple(r, ENGINE_CLOSE, c, &A);
}

/* What administrators do. One allocation fails: asked again it is done. */
static void administering(struct erig *r) {
        struct engine_request q = erig_say_request(0, QUESTION, 2);
        char left[96];

        if (erig_simple(r, ENGINE_OPEN, 0, &A) == ENGINE_CONV) {
                q.conv_id = A.conv.id;
                erig_do(r, &q, &A);
        }
        erig_simple(r, ENGINE_OPEN, 0, &A);
        q = (struct engine_request){
                .verb = ENGINE_USERS, .admin = true, .user_order = ENGINE_USERS_BY_RAM};
        erig_do(r, &q, &A);
        q = (struct engine_request){.verb = ENGINE_BACKUP, .admin = true};
        if (erig_do(r, &q, &A) == ENGINE_EXPORTED)
                answer_reset(&A);
        q.with_memory = true;
        if (erig_do(r, &q, &A) == ENGINE_EXPORTED)
                answer_reset(&A);
        snprintf(left, sizeof(left), "%s/backup.db", r->dir);
        assert_true(access(left, F_OK) < 0);
        q = (struct engine_request){.verb = ENGINE_CHECK, .admin = true};
        if (erig_do(r, &q, &A) == ENGINE_CHECKED)
                assert_int_equal(A.checked.n_problems, 0);
        q = (struct engine_request){.verb = ENGINE_DRAIN, .admin = true};
        erig_do(r, &q, &A);
        q.off = true;
        if (erig_do(r, &q, &A) != ENGINE_DRAINED)
                assert_int_equal(erig_do(r, &q, &A), ENGINE_DRAINED);
        q = (struct engine_request){
                .verb = ENGINE_ACT_ON_USER, .admin = true, .user_act = ENGINE_USER_EVICT};
        erig_do(r, &q, &A);
        q.user_act = ENGINE_USER_PURGE;
        if (erig_do(r, &q, &A) != ENGINE_USER_ACTED)
                assert_int_equal(erig_do(r, &q, &A), ENGINE_USER_ACTED);
}

/* Another owner: a tenant, as soon as one could be made. */
static uint64_t other = 5;

/* The same for what conversations share: a prompt that another one has in RAM, or on disk, or that
 * was published, with write-behind at its heels. */
static void sharing(struct erig *r) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = 5, .tenant = "anna"};
        uint64_t c, d = 0;

        if (erig_do(r, &q, &A) == ENGINE_OWNER)
                other = A.owner;
        q = (struct engine_request){.verb = ENGINE_OPEN, .name = "a", .system = SYSTEM};
        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        q = (struct engine_request){.verb = ENGINE_PUBLISH,
                .admin = true,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .publish = true};
        erig_do(r, &q, &A);
        q = erig_say_request(c, "Hello.", 3);
        erig_do(r, &q, &A);
        q = (struct engine_request){
                .verb = ENGINE_OPEN, .name = "b", .system = SYSTEM, .owner = other};
        if (erig_do(r, &q, &A) == ENGINE_CONV)
                d = A.conv.id;
        q = erig_say_request(d, "Good day.", 3);
        q.owner = other;
        if (d)
                erig_do(r, &q, &A);
        erig_simple(r, ENGINE_EVICT, c, &A);
        q = (struct engine_request){.verb = ENGINE_EVICT, .conv_id = d, .owner = other};
        if (d)
                erig_do(r, &q, &A);
        /* From disk, through another's links. */
        q = (struct engine_request){.verb = ENGINE_OPEN, .name = "c", .system = SYSTEM};
        if (erig_do(r, &q, &A) == ENGINE_CONV) {
                q = erig_say_request(A.conv.id, "And you?", 3);
                erig_do(r, &q, &A);
        }
        q = (struct engine_request){.verb = ENGINE_CLOSE, .conv_id = d, .owner = other};
        if (d)
                erig_do(r, &q, &A);
}

/* Two prompts of several blocks at the same time: what befalls the one while a step is built, the
 * other one may look at. */
static void beside(struct erig *r) {
        struct engine_request q[2];

        for (int i = 0; i < 2; i++) {
                q[i] = (struct engine_request){.verb = ENGINE_OPEN};
                if (erig_do(r, &q[i], &A) != ENGINE_CONV)
                        return;
                q[i] = erig_say_request(A.conv.id, SYSTEM, 1);
        }
        erig_send(r, &q[0], &A);
        erig_send(r, &q[1], &B);
        erig_wait(r, &A);
        erig_wait(r, &B);
}

/* Replies with a constraint, which is another one each time, so that it is compiled. */
static void constrained(struct erig *r) {
        static unsigned n;
        char text[120];
        struct engine_request q = {.verb = ENGINE_OPEN, .system = "Be kind."};
        uint64_t c;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        q = erig_say_request(c, QUESTION, 6);
        snprintf(text, sizeof(text),
                "{\"properties\":{\"a%u\":{\"maxLength\":9},\"b\":{\"pattern\":\"^[a-c]\"}}}", n++);
        q.constraint = ENGINE_CONSTRAINT_JSON_SCHEMA;
        q.constraint_text = text;
        q.constraint_size = strlen(text);
        if (erig_do(r, &q, &A) == ENGINE_DONE && A.finish == ENGINE_FINISH_LENGTH) {
                q.input = ENGINE_INPUT_NONE;
                erig_do(r, &q, &B);
        }
        q.input = ENGINE_INPUT_MESSAGE;
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = text;
        q.constraint_size = (size_t)snprintf(
                text, sizeof(text), "root ::= \"%u \" x* | x{3,9}\nx ::= [a-z] \"\\u00e9\"?", n);
        erig_do(r, &q, &A);
}

/* Several messages in one request: all of them are turns, or none is. */
static void several(struct erig *r, uint64_t c) {
        static const struct engine_call call = {"c2", "f", "{}"};
        static const struct engine_result result = {"c2", NULL, "three"};
        const struct engine_message messages[] = {
                {.role = ENGINE_USER, .text = "Go.", .text_size = 3},
                {.role = ENGINE_ASSISTANT, .reasoning = "hm", .calls = &call, .n_calls = 1},
                {.role = ENGINE_TOOL, .results = &result, .n_results = 1},
                {.role = ENGINE_ASSISTANT, .text = "3", .text_size = 1},
                {.role = ENGINE_USER, .text = "Yes.", .text_size = 4}};
        struct engine_request q = erig_request(ENGINE_GET, c);
        uint32_t before, after;
        bool done;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        before = A.conv.n_turns;
        q = erig_request(ENGINE_CONTINUE, c);
        q.input = ENGINE_INPUT_MESSAGES;
        q.messages = messages;
        q.n_messages = ARRAY_SIZE(messages);
        q.max_tokens = 0;
        done = erig_do(r, &q, &A) == ENGINE_DONE;
        q = erig_request(ENGINE_GET, c);
        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        after = A.conv.n_turns;
        assert_true(after == before + ARRAY_SIZE(messages) || (after == before && !done));
}

/* Definitions, a call, its result, and replies in parts. The register has a turn with all that belongs
 * to it, or nothing of it. */
static void tools(struct erig *r) {
        static const struct engine_call call = {"c1", "f", "{\"x\": 1}"};
        static const struct engine_result result = {"c1", NULL, "two"};
        struct engine_request q = {
                .verb = ENGINE_OPEN, .system = "Be kind.", .tools = "[{\"name\":\"f\"}]"};
        uint64_t c;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        q = erig_say_request(c, "Go.", 9);
        q.want_parts = true;
        q.stops[0] = "e";
        q.n_stops = 1;
        erig_do(r, &q, &A);
        q = erig_request(ENGINE_CONTINUE, c);
        q.input = ENGINE_INPUT_NONE;
        q.max_tokens = 5;
        q.want_parts = q.ignore_eos = true;
        erig_do(r, &q, &A);
        q = erig_say_request(c, "On.", 0);
        erig_do(r, &q, &A);
        q = erig_request(ENGINE_CONTINUE, c);
        q.input = ENGINE_INPUT_GIVEN;
        q.reasoning = "hm";
        q.calls = &call;
        q.n_calls = 1;
        q.max_tokens = 0;
        if (erig_do(r, &q, &A) == ENGINE_DONE) {
                q = erig_request(ENGINE_CONTINUE, c);
                q.input = ENGINE_INPUT_RESULTS;
                q.results = &result;
                q.n_results = 1;
                q.max_tokens = 6;
                q.want_parts = true;
                erig_do(r, &q, &A);
        }
        several(r, c);
        q = erig_request(ENGINE_GET, c);
        q.want_turns = q.want_parts = true;
        if (erig_do(r, &q, &A) == ENGINE_CONV) {
                assert_non_null(A.tools);
                for (uint32_t i = 0; i < A.n_turns; i++)
                        if (A.turns[i].role == ENGINE_TOOL) {
                                assert_int_equal(A.turns[i].n_results, 1);
                                assert_string_equal(A.turns[i].results[0].name, "f");
                                assert_int_equal(A.turns[i - 1].n_parts, 2);
                        }
        }
        q = erig_request(ENGINE_FORK, c);
        erig_do(r, &q, &B);
        transfer(r, c);
        erig_simple(r, ENGINE_CLOSE, c, &A);
}

/* A conversation of more turns than it may have checkpoints, which comes back to some of them: in RAM, from
 * disk, and in a fork. */
static void coming_back(struct erig *r) {
        struct engine_request q = {.verb = ENGINE_OPEN, .system = "Be kind."};
        uint64_t c, d = 0;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        for (int i = 0; i < 7; i++) {
                q = erig_long_request(c, "And you?", 2);
                erig_do(r, &q, &A);
                if (i == 3)
                        erig_simple(r, ENGINE_EVICT, c, &A);
        }
        q = erig_request(ENGINE_FORK, c);
        q.at_turn = 5;
        if (erig_do(r, &q, &A) == ENGINE_CONV)
                d = A.conv.id;
        edit(r, c, 9);
        q = erig_request(ENGINE_REWIND, c);
        q.at_turn = 7;
        erig_do(r, &q, &A);
        erig_simple(r, ENGINE_EVICT, c, &A);
        q = erig_request(ENGINE_REWIND, c);
        q.at_turn = 3;
        erig_do(r, &q, &A);
        q = erig_say_request(c, "Again.", 2);
        erig_do(r, &q, &A);
        if (d) {
                q = erig_say_request(d, "Again.", 2);
                erig_do(r, &q, &A);
                erig_simple(r, ENGINE_EVICT, d, &A);
                erig_simple(r, ENGINE_WARM, d, &A);
        }
        erig_simple(r, ENGINE_CLOSE, c, &A);
}

/* Only one allocation fails, so one of two attempts succeeds. */
static bool look(struct erig *r, uint64_t c) {
        return erig_simple(r, ENGINE_GET, c, &A) == ENGINE_CONV ||
               erig_simple(r, ENGINE_GET, c, &A) == ENGINE_CONV;
}

/* A conversation that drops old turns, is cut inside of what it dropped, and drops again. Each message
 * is there if it was accepted. */
static void shifting(struct erig *r) {
        struct engine_request q = {
                .verb = ENGINE_OPEN, .system = "Be kind.", .overflow = ENGINE_OVERFLOW_SHIFT};
        uint32_t n_turns = 1;
        uint64_t c;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        for (unsigned i = 0; i < 10; i++) {
                q = erig_long_request(c, SYSTEM, 2);
                erig_do(r, &q, &B);
                if (look(r, c)) {
                        assert_in_range(A.conv.n_turns, n_turns + B.accepted, n_turns + 2);
                        assert_true(B.kind != ENGINE_DONE || A.conv.n_turns == n_turns + 2);
                        n_turns = A.conv.n_turns;
                        assert_true(A.conv.n_tokens - (A.conv.dropped_to - A.conv.dropped_from) <=
                                    SHIFT_CONTEXT);
                }
                if (i == 4)
                        erig_simple(r, ENGINE_EVICT, c, &A);
                if (i == 6) {
                        q = erig_request(ENGINE_FORK, c);
                        q.at_turn = 7;
                        erig_do(r, &q, &A);
                        q = erig_request(ENGINE_REWIND, c);
                        q.at_turn = 5;
                        erig_do(r, &q, &A);
                        if (look(r, c))
                                n_turns = A.conv.n_turns;
                }
        }
        transfer(r, c);
        erig_simple(r, ENGINE_CLOSE, c, &A);
}

/* With this, what is imported has another vocabulary, as if another daemon's model had made it. */
static bool imports_foreign;
int __real_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        if (imports_foreign)
                c->vocab = 4711;
        return __real_store_conv_create(s, c, turns, n_turns, tokens, n_tokens, e);
}

/* Carried over, or what it was: never a part of it. What a reply's tokens were is what its tokenizer
 * makes of the text. */
static void carrying(struct erig *r) {
        static uint8_t data[1 << 20];
        struct engine_request q = {.verb = ENGINE_OPEN, .system = "Be kind."};
        uint32_t n_tokens = 0;
        uint64_t c;
        ssize_t n;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        c = A.conv.id;
        for (int i = 0; i < 3; i++) {
                q = erig_say_request(c, i ? "And you?" : QUESTION, i < 2 ? 4 : 0);
                erig_do(r, &q, &A);
        }
        if (look(r, c))
                n_tokens = A.conv.n_tokens;
        q = (struct engine_request){.verb = ENGINE_EXPORT, .conv_id = c, .without_memory = true};
        if (erig_do(r, &q, &A) != ENGINE_EXPORTED)
                return;
        n = pread(A.fd, data, sizeof(data), 0);
        assert_true(n > 0 && (uint64_t)n == A.size);
        q = (struct engine_request){.verb = ENGINE_IMPORT};
        q.fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(pwrite(q.fd, data, (size_t)n, 0), n);
        assert_int_equal(fcntl(q.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
        imports_foreign = true;
        c = erig_do(r, &q, &A) == ENGINE_CONV ? A.conv.id : 0;
        imports_foreign = false;
        close(q.fd);
        if (!c)
                return;
        erig_simple(r, ENGINE_CARRY, c, &B);
        if (look(r, c)) {
                if (B.kind == ENGINE_CONV)
                        assert_true(B.conv.carried && !A.conv.other_vocab);
                assert_int_equal(A.conv.revision, A.conv.other_vocab ? 1 : 2);
                if (n_tokens > 0)
                        assert_int_equal(A.conv.n_tokens, n_tokens);
                q = erig_say_request(c, "Hm.", 2);
                if (erig_do(r, &q, &B) == ENGINE_DONE)
                        assert_false(A.conv.other_vocab);
        }
        erig_simple(r, ENGINE_CLOSE, c, &A);
}

/* Close whatever has come to be, up to one that is made for it: ids rise. */
static void close_all(struct erig *r) {
        static uint64_t closed; /* of this engine */
        uint64_t last = erig_new(r, NULL, NULL);

        if (last <= closed)
                closed = 0;
        while (closed < last) {
                struct engine_request q = {
                        .verb = ENGINE_CLOSE, .conv_id = ++closed, .owner = other};

                if (erig_do(r, &q, &A) == ENGINE_ERROR && A.err.code == ERR_NOT_FOUND)
                        erig_simple(r, ENGINE_CLOSE, closed, &A);
                if (A.kind == ENGINE_ERROR && A.err.code != ERR_NOT_FOUND)
                        fail_msg("close: %s", A.err.msg);
        }
        erig_check_empty(r);
        assert_int_equal(erig_stat(r, "requests_active"), 0);
        assert_int_equal(erig_stat(r, "requests_queued"), 0);
}

static void healthy(struct erig *r) {
        uint64_t c = erig_new(r, NULL, NULL);

        erig_say(r, c, QUESTION, 6, &B);
        answer_same(&B, &expected);
        erig_simple(r, ENGINE_EVICT, c, &B);
        assert_int_equal(B.conv.residency, ENGINE_SPILLED);
        close_all(r);
        erig_check_budget(r);
}

/* How many allocations the requests make, to spread the runs over them. */
static long count(struct erig *r, void (*program)(struct erig *r)) {
        long n = 1;

        for (;; n *= 2) {
                fault_alloc_at(n);
                program(r);
                if (!fault_alloc_hit())
                        break;
                fault_alloc_at(-1);
                close_all(r);
        }
        fault_alloc_at(-1);
        close_all(r);
        return n;
}

static size_t pool_size = 8 << 20;
static const char *model; /* or NULL: the bundled one */

static void run_requests_in(uint32_t batch_tokens, uint32_t context,
        void (*program)(struct erig *r), void (*arm)(long n), long runs, uint32_t delay) {
        struct engine_options o = erig_options(pool_size);
        struct erig r;
        long end, step;

        o.model_path = model;

        o.batch_tokens = batch_tokens;
        o.context = context;
        o.spill_delay_ms = delay;
        erig_open(&r, &o);
        r.silence_msec = 20000;
        end = count(&r, program);
        step = end / runs > 1 ? end / runs : 1;
        /* The first ones one by one: most of the engine's own are among them. */
        for (long n = 0; n < end; n += n < runs / 2 ? 1 : step) {
                arm(n);
                program(&r);
                fault_alloc_at(-1);
                healthy(&r);
        }
        erig_close(&r);
}

static void run_requests(
        void (*program)(struct erig *r), void (*arm)(long n), long runs, uint32_t delay) {
        run_requests_in(256, 0, program, arm, runs, delay);
}

static void test_requests(void **state) {
        erig_need_model();
        run_requests(requests, fault_alloc_at, RUNS, UINT32_MAX);
}

static void test_requests_write_behind(void **state) {
        erig_need_model();
        run_requests(requests, fault_alloc_at, RUNS / 3, 0);
}

static void test_administering(void **state) {
        erig_need_model();
        run_requests(administering, fault_alloc_at, RUNS / 2, UINT32_MAX);
}

static void test_sharing(void **state) {
        erig_need_model();
        run_requests(sharing, fault_alloc_at, RUNS / 2, 0);
}

/* In steps of half a block, so that there are many in which both compute. */
static void test_beside(void **state) {
        erig_need_model();
        run_requests_in(16, 0, beside, fault_alloc_at, RUNS, UINT32_MAX);
}

static void test_shifting(void **state) {
        erig_need_model();
        run_requests_in(256, SHIFT_CONTEXT, shifting, fault_alloc_at, RUNS / 3, 0);
}

static void test_carrying(void **state) {
        erig_need_model();
        run_requests(carrying, fault_alloc_at, RUNS, UINT32_MAX);
        run_requests(carrying, fault_alloc_from, RUNS / 6, UINT32_MAX);
}

static void test_constrained(void **state) {
        erig_need_model();
        pool_size = 64 << 20;
        run_requests(constrained, fault_alloc_at, RUNS, UINT32_MAX);
        run_requests(constrained, fault_alloc_from, RUNS / 6, UINT32_MAX);
        pool_size = 8 << 20;
}

/* What the model says when nothing fails. */
static void expect(void) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;

        o.model_path = model;
        erig_open(&r, &o);
        erig_say(&r, erig_new(&r, NULL, NULL), QUESTION, 6, &expected);
        erig_close(&r);
}

/* Until the end of the test, a small model, of this architecture if one is named. */
static void use_small_model(const char *arch) {
        static char path[64];

        strcpy(path, "/tmp/confab-oom-XXXXXX");
        close(mkstemp(path));
        assert_int_equal(
                arch ? tiny_model_write_arch(path, arch) : tiny_model_write(path, MODEL_TINY), 0);
        model = path;
        answer_reset(&expected);
        expect();
}

static void use_bundled_model(void) {
        unlink(model);
        model = NULL;
        answer_reset(&expected);
        if (erig_model())
                expect();
}

/* The template of the small model takes tools. */
static void test_tools(void **state) {
        use_small_model(NULL);
        run_requests(tools, fault_alloc_at, RUNS, UINT32_MAX);
        run_requests(tools, fault_alloc_from, RUNS / 6, UINT32_MAX);
        use_bundled_model();
}

/* States beside keys and values. */
static void test_states(void **state) {
        use_small_model("granitehybrid");
        run_requests(requests, fault_alloc_at, RUNS / 2, UINT32_MAX);
        run_requests(coming_back, fault_alloc_at, RUNS / 2, UINT32_MAX);
        run_requests(coming_back, fault_alloc_at, RUNS / 3, 0);
        run_requests(sharing, fault_alloc_at, RUNS / 3, 0);
        run_requests(coming_back, fault_alloc_from, RUNS / 6, UINT32_MAX);
        run_requests_in(256, SHIFT_CONTEXT, shifting, fault_alloc_at, RUNS / 6, 0);
        use_bundled_model();
}

/* Windows beside them. */
static void test_windows(void **state) {
        use_small_model("gemma3");
        run_requests(coming_back, fault_alloc_at, RUNS / 3, 0);
        run_requests(coming_back, fault_alloc_from, RUNS / 6, UINT32_MAX);
        use_bundled_model();
}

/* What could not be read for want of memory is not damaged, and stays on disk: nothing is written again. */
static void test_unread_stays(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct fault_loop loop = {.at_least = 1, .at_most = 10000};
        uint64_t c, written;
        struct erig r;

        erig_need_model();
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        r.silence_msec = 20000;
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 100, 130);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        written = erig_stat(&r, "blocks_spilled");
        while (fault_loop_next(&loop)) {
                fault_loop_arm(&loop);
                erig_simple(&r, ENGINE_WARM, c, &A);
                fault_loop_disarm(&loop);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_not_kept, 0);
                if (erig_stat(&r, "blocks_spilled") != written)
                        fail_msg("allocation %ld: what was on disk was written again", loop.n);
        }
        erig_close(&r);
}

/* From the n-th on none succeeds. */
static void test_requests_without_memory(void **state) {
        erig_need_model();
        run_requests(requests, fault_alloc_from, RUNS / 3, UINT32_MAX);
        run_requests(sharing, fault_alloc_from, RUNS / 6, 0);
}

static void test_open(void **state) {
        struct engine_options o = erig_options(8 << 20);
        struct engine *en = NULL;
        struct err e;
        struct erig r;
        long n, step = 1;

        erig_need_model();
        erig_open(&r, &o);
        erig_stop(&r, true);
        for (n = 0;; n += step) {
                int k, hit;

                if (n > 40)
                        step = n / 8;
                fault_alloc_at(n);
                k = engine_open(&en, &r.o, &e);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                if (k < 0) {
                        assert_true(hit);
                        assert_null(en);
                        assert_int_equal(e.code, -k);
                        continue;
                }
                en = engine_free(en);
                if (!hit)
                        break;
        }
        erig_start(&r);
        healthy(&r);
        erig_close(&r);
}

static int setup(void **state) {
        if (erig_model())
                expect();
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_requests),
                cmocka_unit_test(test_requests_write_behind),
                cmocka_unit_test(test_administering),
                cmocka_unit_test(test_sharing),
                cmocka_unit_test(test_beside),
                cmocka_unit_test(test_constrained),
                cmocka_unit_test(test_carrying),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_windows),
                cmocka_unit_test(test_shifting),
                cmocka_unit_test(test_requests_without_memory),
                cmocka_unit_test(test_unread_stays),
                cmocka_unit_test(test_open),
        };

        return cmocka_run_group_tests(tests, setup, NULL);
}
