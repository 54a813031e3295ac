/* SPDX-License-Identifier: MIT */
/*
 * Rewind and Fork to a position: the kept tokens and their memory are unchanged, so that continuing
 * gives the same reply as before, bit for bit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rig.h"
#include "util/test.h"

static struct answer A, B, C, T;

static void get(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = conv, .want_turns = true, .want_tokens = true};

        assert_int_equal(erig_do(r, &q, a), ENGINE_CONV);
}

static enum engine_event_kind cut(
        struct erig *r, enum engine_verb verb, uint64_t conv, uint32_t position, struct answer *a) {
        struct engine_request q = {
                .verb = verb, .conv_id = conv, .at_turn = ENGINE_UNSET, .at_position = position};

        return erig_do(r, &q, a);
}

static void go_on(struct erig *r, uint64_t conv, uint32_t n, struct answer *a) {
        struct engine_request q = erig_say_request(conv, "", n);

        q.input = ENGINE_INPUT_NONE;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("continue: %s", a->err.msg);
}

/* The last turn begins with what @whole's text of the same turn begins with. */
static void check_cut_turn(const struct answer *is, const struct answer *whole, uint32_t position) {
        const struct engine_turn *t = &is->turns[is->n_turns - 1],
                                 *w = &whole->turns[is->n_turns - 1];

        assert_int_equal(t->start, w->start);
        assert_int_equal(t->end, position);
        assert_int_equal(t->role, w->role);
        assert_int_equal(t->created_usec, w->created_usec);
        assert_true(t->text_size <= w->text_size);
        if (t->text_size > 0)
                assert_memory_equal(t->text, w->text, t->text_size);
        assert_true(utf8_valid((const char *)t->text, t->text_size));
}

static void test_inside_reply(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;
        uint32_t first, end;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "You are a helpful assistant.");
        erig_say(&r, c, "Hello, my name is Ada.", 20, &A);
        erig_say(&r, c, "What is my name?", 24, &B);
        get(&r, c, &T);
        end = T.conv.n_tokens;
        first = end - B.n_generated;
        print_message("%u tokens of %u: %s\n", B.n_generated, end, B.text);
        /* Going down, so that each cut finds what the one before has left. */
        for (uint32_t pos = end - 1; pos >= first; pos--) {
                uint32_t k = pos - first;

                if (pos % 3 == 0)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                assert_int_equal(cut(&r, ENGINE_REWIND, c, pos, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_tokens, pos);
                get(&r, c, &C);
                assert_int_equal(C.n_turns, T.n_turns);
                check_cut_turn(&C, &T, pos);
                assert_int_equal(C.turns[C.n_turns - 1].finish, ENGINE_FINISH_CANCELLED);
                assert_memory_equal(C.history, T.history, pos * sizeof(*C.history));
                if (pos % 5 == 0)
                        erig_restart(&r, pos % 2 == 0);
                if (pos % 4 != 0)
                        continue;
                /* The reply goes on as it went, in a turn of its own. */
                go_on(&r, c, B.n_generated - k, &A);
                assert_int_equal(A.n_tokens, B.n_tokens - k);
                assert_memory_equal(A.tokens, B.tokens + k, A.n_tokens * sizeof(A.tokens[0]));
                assert_memory_equal(A.logprobs, B.logprobs + k, A.n_tokens * sizeof(A.logprobs[0]));
                assert_int_equal(cut(&r, ENGINE_REWIND, c, pos, &A), ENGINE_CONV);
                get(&r, c, &C);
                assert_int_equal(C.n_turns, T.n_turns);
        }
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_close(&r);
}

static void test_places(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct engine_turn *user, *reply;
        struct erig r;
        char expected[64];
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "You are a helpful assistant.");
        erig_say(&r, c, "Hello, my name is Ada.", 20, &A);
        erig_say(&r, c, "Bye.", 8, &B);
        get(&r, c, &T);
        assert_int_equal(T.n_turns, 5);
        user = &T.turns[1];
        reply = &T.turns[2];
        for (uint32_t pos = user->start + 1; pos < user->end; pos++) {
                assert_int_equal(cut(&r, ENGINE_REWIND, c, pos, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_INVALID);
                snprintf(expected, sizeof(expected), "are %u and %u", user->start, user->end);
                assert_non_null(strstr(A.err.msg, expected));
                assert_int_equal(cut(&r, ENGINE_FORK, c, pos, &A), ENGINE_ERROR);
        }
        /* Inside of what invites the reply. */
        assert_int_equal(cut(&r, ENGINE_REWIND, c, reply->start + 1, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        assert_int_equal(cut(&r, ENGINE_REWIND, c, T.conv.n_tokens + 1, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        get(&r, c, &A);
        assert_int_equal(A.conv.revision, T.conv.revision); /* nothing was changed */
        /* Turns' ends. */
        assert_int_equal(cut(&r, ENGINE_REWIND, c, T.conv.n_tokens, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 5);
        assert_int_equal(cut(&r, ENGINE_REWIND, c, reply->end, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 3);
        get(&r, c, &A);
        assert_int_equal(A.turns[2].finish, reply->finish);
        assert_int_equal(cut(&r, ENGINE_REWIND, c, 0, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 0);
        assert_int_equal(A.conv.n_tokens, 0);
        erig_say(&r, c, "Hello", 4, &A);
        /* What somebody put into the assistant's mouth was not generated, and is one piece. */
        q = erig_say_request(c, "I am a bird, and I sing.", 0);
        q.role = ENGINE_ASSISTANT;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        get(&r, c, &T);
        reply = &T.turns[T.n_turns - 1];
        assert_int_equal(reply->role, ENGINE_ASSISTANT);
        assert_int_equal(cut(&r, ENGINE_REWIND, c, reply->end - 2, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        erig_close(&r);
}

/* A fork inside of a reply, while the other goes on; the trunk keeps its memory. */
static void test_fork_inside(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, d;
        uint32_t pos;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Tell me a story about a cat and a dog that live in a house.", 60, &A);
        get(&r, c, &T);
        pos = T.conv.n_tokens - A.n_generated / 2;
        assert_int_equal(cut(&r, ENGINE_FORK, c, pos, &B), ENGINE_CONV);
        d = B.conv.id;
        assert_int_equal(B.conv.fork_pos, pos);
        assert_int_equal(B.conv.n_tokens, pos);
        get(&r, d, &C);
        check_cut_turn(&C, &T, pos);
        go_on(&r, d, A.n_generated / 2, &B);
        assert_int_equal(B.n_tokens, A.n_generated / 2);
        assert_memory_equal(
                B.tokens, A.tokens + A.n_tokens - B.n_tokens, B.n_tokens * sizeof(B.tokens[0]));
        assert_memory_equal(B.logprobs, A.logprobs + A.n_tokens - B.n_tokens,
                B.n_tokens * sizeof(B.logprobs[0]));
        assert_int_equal(B.n_computed, 1); /* the token whose logits are wanted */
        /* Behind a cut reply a message may follow: it is closed first. */
        assert_int_equal(cut(&r, ENGINE_REWIND, d, pos, &B), ENGINE_CONV);
        erig_say(&r, d, "Stop. What is my name?", 8, &B);
        erig_restart(&r, true);
        get(&r, d, &C);
        assert_int_equal(C.n_turns, T.n_turns + 2);
        get(&r, c, &C);
        assert_int_equal(C.conv.n_tokens, T.conv.n_tokens);
        assert_memory_equal(C.history, T.history, C.conv.n_tokens * sizeof(*C.history));
        erig_say(&r, c, "And then?", 8, &B);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        erig_close(&r);
}

static void test_raw(void **state) {
        static const char text[] =
                "Once upon a time there was a small cat \xf0\x9f\x90\xb1 in Rome.";
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .input = ENGINE_INPUT_RAW,
                .text = text,
                .text_size = sizeof(text) - 1,
                .max_tokens = 0};
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q.conv_id = c;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        get(&r, c, &T);
        assert_int_equal(T.n_turns, 1);
        for (uint32_t pos = T.conv.n_tokens - 1; pos > 0; pos--) {
                assert_int_equal(cut(&r, ENGINE_REWIND, c, pos, &A), ENGINE_CONV);
                get(&r, c, &C);
                check_cut_turn(&C, &T, pos);
                assert_int_equal(C.turns[0].finish, ENGINE_FINISH_NONE);
        }
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inside_reply),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_fork_inside),
                cmocka_unit_test(test_raw),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
