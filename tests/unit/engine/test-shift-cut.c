/* SPDX-License-Identifier: MIT */
/*
 * Conversations that have dropped turns from their memory: what cuts them (Rewind, Fork, Continue
 * from an earlier place), carries them elsewhere, publishes them, and what does not fit at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "shift-rig.h"
#include "transfer-rig.h"
#include "util/test.h"

static const char system_text[] = "You are a helpful assistant who knows all animals.";
static struct answer A, B, T, whole;

static enum engine_event_kind cut(
        struct erig *r, enum engine_verb verb, uint64_t conv, uint32_t position, struct answer *a) {
        struct engine_request q = erig_request(verb, conv);

        q.at_position = position;
        return erig_do(r, &q, a);
}

/* What the gap must be when the transcript ends at @pos. */
static void check_gap(const struct answer *cut_off, uint32_t pos) {
        uint32_t from = whole.conv.dropped_from, to = whole.conv.dropped_to;

        assert_int_equal(cut_off->conv.n_tokens, pos);
        if (pos > to) {
                assert_int_equal(cut_off->conv.dropped_from, from);
                assert_int_equal(cut_off->conv.dropped_to, to);
        } else if (pos <= SHIFT_CONTEXT || pos <= from) {
                assert_int_equal(cut_off->conv.dropped_to, cut_off->conv.dropped_from);
        } else {
                assert_int_equal(cut_off->conv.dropped_from, from);
                assert_true(cut_off->conv.dropped_to < to);
                assert_true(pos - (cut_off->conv.dropped_to - from) <= SHIFT_CONTEXT / 2);
        }
}

/* At every turn's end and inside some replies, of a conversation that has shifted several times:
 * forked, rewound, edited. All three give the same reply, and it is a fresh conversation's. */
static void test_places(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d, x;

        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        for (unsigned k = 0; k < 12; k++)
                shift_say(&r, c, k, &A);
        erig_get(&r, c, &whole);
        print_message("%u tokens, without %u to %u\n", whole.conv.n_tokens, whole.conv.dropped_from,
                whole.conv.dropped_to);
        assert_true(whole.conv.dropped_to > SHIFT_CONTEXT);
        for (uint32_t i = 0; i < 2 * whole.n_turns; i++) {
                const struct engine_turn *t = &whole.turns[i / 2];
                uint32_t pos = i % 2 ? t->end - 3 : t->end;

                if (i % 2 && t->finish == ENGINE_FINISH_NONE)
                        continue;
                assert_int_equal(cut(&r, ENGINE_FORK, c, pos, &A), ENGINE_CONV);
                d = A.conv.id;
                check_gap(&A, pos);
                x = erig_fork(&r, c);
                if (i % 3 == 0)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, x, NULL), ENGINE_CONV);
                if (i % 4 == 0) {
                        assert_int_equal(cut(&r, ENGINE_REWIND, x, pos, &A), ENGINE_CONV);
                        check_gap(&A, pos);
                        if (i % 8 == 0)
                                erig_restart(&r, false);
                        q = shift_request(x, i);
                } else {
                        q = shift_request(x, i);
                        q.cuts = true;
                        q.at_turn = ENGINE_UNSET;
                        q.at_position = pos;
                }
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("position %u: %s", pos, A.err.msg);
                shift_check_reply(&r, x, &A);
                q = shift_request(d, i);
                if (i % 5 == 0)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, NULL), ENGINE_CONV);
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                shift_check_reply(&r, d, &B);
                answer_same(&A, &B);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, x, NULL), ENGINE_EMPTY);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        }
        /* The original was not touched. */
        edit_check_as_before(&r, c, &whole);
        erig_check_register(&r);
        shift_say(&r, c, 12, &A);
        shift_close(&r);
}

/* An edit inside the dropped part that is cancelled before it is accepted puts everything back. */
static void test_edit_cancelled(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q, first;
        uint64_t c, other;
        struct erig r;

        o.batch_tokens = 4;
        o.max_active = 1;
        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        other = shift_new(&r, system_text);
        for (unsigned k = 0; k < 9; k++)
                shift_say(&r, c, k, &A);
        erig_get(&r, c, &whole);
        for (unsigned i = 1; i < whole.n_turns; i += 3) {
                first = shift_request(other, i);
                edit_send_and_hold(&r, &first, 1, &B);
                q = shift_request(c, 100 + i);
                q.cuts = true;
                q.at_turn = i;
                erig_send(&r, &q, &A);
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
                erig_wait(&r, &A);
                assert_int_equal(A.kind, ENGINE_ERROR);
                edit_check_as_before(&r, c, &whole);
                erig_wait(&r, &B);
        }
        erig_check_register(&r);
        shift_say(&r, c, 9, &A);
        shift_close(&r);
}

/* The last message of @all has the tokens that it has directly behind the system turn. */
static void check_said_behind_front(struct erig *r, const struct answer *all) {
        const struct engine_turn *said = &all->turns[all->n_turns - 2];
        uint64_t c = shift_new(r, system_text);

        shift_say(r, c, 1, &B);
        erig_get(r, c, &B);
        assert_int_equal(B.turns[1].end - B.turns[1].start, said->end - said->start);
        assert_memory_equal(B.history + B.turns[1].start, all->history + said->start,
                (said->end - said->start) * sizeof(*B.history));
        erig_simple(r, ENGINE_CLOSE, c, NULL);
}

/* Replies that fill the context end there, in both kinds of conversations, and only then the next
 * request shifts: once. */
static void test_end_of_context(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        q = erig_long_request(c, "Tell me a story.", 1000);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_CONTEXT);
        assert_int_equal(A.n_prompt + A.n_generated, SHIFT_CONTEXT);
        shift_check_reply(&r, c, &A);
        /* It cannot go on: the turn is all that there is, and would have to stay. */
        d = erig_fork(&r, c);
        q = erig_long_request(d, "", 12);
        q.input = ENGINE_INPUT_NONE;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CONTEXT);
        print_message("%s\n", B.err.msg);
        /* A message drops it, and is said as if the conversation began with it. */
        shift_say(&r, c, 1, &A);
        assert_true(A.n_dropped > 0);
        erig_get(&r, c, &T);
        assert_int_equal(T.conv.dropped_to, T.turns[3].start);
        assert_int_equal(T.conv.dropped_from, T.turns[0].end);
        check_said_behind_front(&r, &T);
        /* In a plain conversation the figures are told, and nothing is changed. */
        shift_set_overflow(&r, d, ENGINE_OVERFLOW_ERROR);
        erig_get(&r, d, &whole);
        q = shift_request(d, 1);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CONTEXT);
        assert_non_null(strstr(B.err.msg, "256"));
        assert_non_null(strstr(B.err.msg, "too many"));
        print_message("%s\n", B.err.msg);
        edit_check_as_before(&r, d, &whole);
        /* What was dropped stays dropped when the conversation may no longer shift. */
        shift_set_overflow(&r, c, ENGINE_OVERFLOW_ERROR);
        shift_say(&r, c, 2, &A);
        erig_get(&r, c, &B);
        assert_int_equal(B.conv.dropped_to, T.conv.dropped_to);
        shift_close(&r);
}

/* Turns that do not fit whatever is dropped: errors with figures, and nothing is changed. */
static void test_too_long(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        shift_open(&r, &o);
        c = shift_new(&r, edit_words(60));
        shift_say(&r, c, 0, &A);
        erig_get(&r, c, &T);
        q = erig_say_request(c, edit_words(300), 8);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        print_message("%s\n", A.err.msg);
        q = erig_say_request(c, edit_words(15), 8);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        assert_non_null(strstr(A.err.msg, "first turns"));
        print_message("%s\n", A.err.msg);
        edit_check_as_before(&r, c, &T);
        shift_say(&r, c, 1, &A);
        shift_close(&r);
}

/* Without a system turn the first exchange is the front if it is short, and else only the token
 * that begins every text. Raw turns are turns like others. */
static void test_fronts(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        shift_open(&r, &o);
        c = shift_new(&r, NULL);
        shift_fill(&r, c, &A);
        shift_check_reply(&r, c, &A);
        erig_get(&r, c, &T);
        assert_int_equal(T.conv.dropped_from, T.turns[1].end);
        /* A long first exchange. */
        c = shift_new(&r, NULL);
        q = erig_long_request(c, edit_words(30), 60);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        shift_fill(&r, c, &A);
        shift_check_reply(&r, c, &A);
        erig_get(&r, c, &T);
        assert_int_equal(T.conv.dropped_from, 1);
        shift_say(&r, c, 7, &A);
        /* And one that has to go at once: what follows stands behind that token alone. */
        c = shift_new(&r, NULL);
        q = erig_long_request(c, edit_words(30), 1000);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        shift_say(&r, c, 1, &A);
        erig_get(&r, c, &T);
        assert_int_equal(T.conv.dropped_from, 1);
        assert_int_equal(T.conv.dropped_to, T.turns[2].start);
        for (unsigned k = 2; k < 9; k++)
                shift_say(&r, c, k, &A);
        erig_check_register(&r);
        c = shift_new(&r, NULL);
        for (unsigned k = 0; k < 12; k++) {
                q = shift_request(c, k);
                q.input = ENGINE_INPUT_RAW;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                shift_check_reply(&r, c, &A);
        }
        erig_get(&r, c, &T);
        assert_true(T.conv.dropped_to > 0);
        shift_close(&r);
}

/* Its export has the transcript, the gap and the memory; imported, it goes on with the same bits. */
static void test_transfer(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct transfer_file f;
        struct erig r;
        uint64_t c, d;

        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        for (unsigned k = 0; k < 10; k++)
                shift_say(&r, c, k, &A);
        erig_get(&r, c, &whole);
        for (unsigned without = 0; without < 2; without++) {
                f = transfer_export(&r, c, without);
                assert_int_equal(f.data[4], 3);
                d = transfer_import_good(&r, &f, without ? "bare" : "full");
                erig_get(&r, d, &T);
                assert_int_equal(T.conv.dropped_from, whole.conv.dropped_from);
                assert_int_equal(T.conv.dropped_to, whole.conv.dropped_to);
                assert_int_equal(T.conv.overflow, ENGINE_OVERFLOW_SHIFT);
                answer_same_history(&T, &whole);
                erig_check_register(&r);
                if (!without) {
                        assert_int_equal(erig_simple(&r, ENGINE_WARM, d, &B), ENGINE_CONV);
                        assert_true(B.conv.disk_size > 0);
                }
                shift_say(&r, d, 10, &A);
                free(f.data);
        }
        shift_say(&r, c, 10, &B);
        answer_same(&A, &B);
        shift_close(&r);
}

/* What is published ends where the memory leaves something out. */
static void test_published(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        shift_open(&r, &o);
        c = shift_new(&r, edit_words(12));
        shift_say(&r, c, 0, &A);
        q = erig_request(ENGINE_PUBLISH, c);
        q.publish = q.admin = true;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_published, A.conv.n_tokens);
        shift_fill(&r, c, &A);
        erig_get(&r, c, &T);
        assert_int_equal(T.conv.n_published, T.conv.dropped_from);
        assert_true(
                erig_others_get(&r, 7, T.history, T.conv.dropped_to + 10) <= T.conv.dropped_from);
        q.at_turn = 3;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_STATE);
        q.at_turn = 1;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_check_register(&r);
        shift_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_edit_cancelled),
                cmocka_unit_test(test_end_of_context),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_fronts),
                cmocka_unit_test(test_transfer),
                cmocka_unit_test(test_published),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
