/* SPDX-License-Identifier: MIT */
/*
 * Endings: what is cancelled, stopped or not read by its peer ends once, leaves the conversation as
 * the register has it, and is not noticed by others.
 */
#include <string.h>

#include "edit-rig.h"
#include "inside.h"
#include "rig.h"
#include "util/test.h"

enum { N_MANY = 8 };
static struct answer A, B, C, many[N_MANY];

/* Peers that don't read must not be noticed by others: neither their places nor their memory are
 * withheld from those who wait. */
static void paused_case(uint32_t max_active, uint64_t pool) {
        struct engine_options o = erig_options(pool);
        struct engine_request q = erig_long_request(0, "Tell me a long story.", 60), other;
        struct erig r;
        uint64_t c, d;

        o.max_active = max_active;
        erig_alone(q, &C);
        erig_open(&r, &o);
        r.silence_msec = 20000;
        c = erig_new(&r, NULL, NULL);
        d = erig_new(&r, NULL, NULL);
        q.conv_id = c;
        edit_send_and_hold(&r, &q, 0, &A);
        edit_walk(&r, &A, 5);
        engine_pause(r.en, q.handle, true);
        gate_open(&edit_step_gate);
        other = erig_long_request(d, "Hello.", 70);
        assert_int_equal(erig_do(&r, &other, &B), ENGINE_DONE);
        other = erig_long_request(d, "Hello again.", 10);
        assert_int_equal(erig_do(&r, &other, &B), ENGINE_DONE);
        assert_false(A.final);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        answer_same(&A, &C);
        erig_check_budget(&r);
        erig_close(&r);
}

static void test_paused_slot(void **state) {
        paused_case(1, 64 << 20);
}

static void test_paused_memory(void **state) {
        paused_case(8, erig_pool(6));
}

/* What was said up to a cancel is kept; the conversation goes on as if that had been all. */
static void check_partial(struct erig *r, uint64_t conv, const struct answer *cut) {
        struct engine_request q = {.verb = ENGINE_GET, .conv_id = conv, .want_tokens = true};
        size_t n;

        assert_int_equal(cut->kind, ENGINE_DONE);
        assert_int_equal(cut->finish, ENGINE_FINISH_CANCELLED);
        assert_true(cut->n_tokens > 0 && cut->n_tokens == cut->n_generated);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_CONV);
        n = B.conv.n_tokens;
        assert_int_equal(B.conv.revision, cut->revision);
        assert_true(n > cut->n_tokens);
        assert_memory_equal(
                B.history + n - cut->n_tokens, cut->tokens, cut->n_tokens * sizeof(cut->tokens[0]));
        assert_false(B.conv.busy);
        erig_say(r, conv, "And now?", 6, &B);
}

static void test_cancel_paused(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, other;
        struct erig r;
        uint64_t c, d;

        for (int parked = 0; parked < 2; parked++) {
                o.max_active = parked ? 1 : 4;
                erig_open(&r, &o);
                r.silence_msec = 20000;
                c = erig_new(&r, NULL, NULL);
                d = erig_new(&r, NULL, NULL);
                q = erig_long_request(c, "Tell me a long story.", 500);
                edit_send_and_hold(&r, &q, 0, &A);
                edit_walk(&r, &A, 5);
                engine_pause(r.en, q.handle, true);
                gate_open(&edit_step_gate);
                other = erig_long_request(d, "Hello.", 10);
                assert_int_equal(erig_do(&r, &other, &B), ENGINE_DONE);
                engine_cancel(r.en, q.handle);
                erig_wait(&r, &A);
                check_partial(&r, c, &A);
                erig_close(&r);
        }
}

static void test_cancel_phases(void **state) {
        struct engine_options o = erig_options(0);
        struct engine_request q[3];
        struct erig r;
        uint64_t c[3];

        o.pool_size = erig_pool(40);
        o.max_active = 1;
        o.batch_tokens = 2;
        erig_open(&r, &o);
        for (int i = 0; i < 3; i++)
                c[i] = erig_new(&r, NULL, NULL);
        q[0] = erig_long_request(c[0], "One.", 400);
        q[1] = erig_long_request(c[1], "Two.", 400);
        q[2] = (struct engine_request){.verb = ENGINE_CANCEL, .conv_id = c[0]};
        edit_send_and_hold(&r, &q[0], 0, &many[0]);
        edit_walk(&r, &many[0], 1); /* or the other one might be loaded first */
        erig_send(&r, &q[1], &many[1]);
        edit_walk(&r, &many[0], 3);
        /* In the queue: nothing was changed. */
        engine_cancel(r.en, q[1].handle);
        edit_walk_meanwhile(&r, &many[0], &many[1]);
        assert_int_equal(many[1].err.code, ERR_CANCELLED);
        assert_false(many[0].final);
        /* While it decodes, through the conversation. */
        erig_send(&r, &q[2], &many[2]);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[2]);
        assert_int_equal(many[2].kind, ENGINE_EMPTY);
        erig_wait(&r, &many[0]);
        check_partial(&r, c[0], &many[0]);
        /* In the middle of a prompt. */
        q[1] = erig_long_request(c[1], erig_words(200, 3), 4);
        edit_send_and_hold(&r, &q[1], 0, &many[1]);
        edit_walk_accepted(&r, &many[1]);
        engine_cancel(r.en, q[1].handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].kind, ENGINE_DONE);
        assert_int_equal(many[1].finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(many[1].n_tokens, 0);
        q[1] = (struct engine_request){.verb = ENGINE_GET, .conv_id = c[1]};
        assert_int_equal(erig_do(&r, &q[1], &B), ENGINE_CONV);
        assert_int_equal(B.conv.n_turns, 1); /* the message was accepted */
        assert_int_equal(B.conv.revision, many[1].revision);
        assert_int_equal(B.conv.revision, 2);
        /* Before it was even looked at: the engine is in a step of another one. */
        q[0] = erig_long_request(c[0], "Three.", 400);
        edit_send_and_hold(&r, &q[0], 0, &many[0]);
        q[1] = erig_long_request(c[2], "Two.", 4);
        erig_send(&r, &q[1], &many[1]);
        engine_cancel(r.en, q[1].handle);
        engine_cancel(r.en, q[0].handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].err.code, ERR_CANCELLED);
        erig_wait(&r, &many[0]);
        q[1] = erig_long_request(c[2], "Two.", 4);
        assert_int_equal(erig_do(&r, &q[1], &B), ENGINE_DONE);
        erig_alone(erig_long_request(0, "Two.", 4), &A);
        answer_same(&A, &B);
        erig_close(&r);
}

static void test_stop_while_busy(void **state) {
        enum { N = 6 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[N];
        struct erig r;
        uint64_t c[N];

        o.max_active = 3;
        for (int life = 0; life < 2; life++) {
                erig_open(&r, &o);
                for (int i = 0; i < N; i++)
                        c[i] = erig_new(&r, NULL, NULL);
                for (int i = 0; i < N; i++) {
                        q[i] = erig_long_request(c[i], erig_words(5, (unsigned)i), 1900);
                        if (i == 5)
                                q[i].background = true;
                        if (i == 0)
                                edit_send_and_hold(&r, &q[i], 0, &many[i]);
                        else
                                erig_send(&r, &q[i], &many[i]);
                        if (i < 3) /* or others might be loaded first, and have the places */
                                edit_walk(&r, &many[i], 4);
                }
                engine_pause(r.en, q[1].handle, true);
                gate_open(&edit_step_gate);
                if (life == 0) {
                        erig_stop(&r, true);
                        for (int i = 0; i < N; i++) {
                                assert_true(many[i].final);
                                if (i == 1 || many[i].n_tokens > 0) {
                                        assert_int_equal(many[i].kind, ENGINE_DONE);
                                        assert_int_equal(many[i].finish, ENGINE_FINISH_CANCELLED);
                                } else {
                                        assert_int_equal(many[i].err.code, ERR_SHUTDOWN);
                                }
                        }
                        erig_start(&r);
                        for (int i = 0; i < 3; i++)
                                check_partial(&r, c[i], &many[i]);
                } else {
                        erig_restart(&r, false);
                }
                for (int i = 0; i < N; i++)
                        erig_say(&r, c[i], "Hello?", 4, &A);
                erig_close(&r);
        }
}

static void test_refuse_while_stopping(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_OPEN};
        struct erig r;

        erig_open(&r, &o);
        engine_stop(r.en);
        erig_send(&r, &q, &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_SHUTDOWN);
        while (!r.stopped)
                erig_step(&r);
        erig_close(&r);
}

/* Requests that find the conversation not loaded, all at once, while some of them change it: none
 * may trip over another. */
static void test_load_races(void **state) {
        enum { N = 6 };
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (int i = 0; i < 30; i++)
                erig_say(&r, c, erig_words(20, (unsigned)i), 1, &A);
        for (int round = 0; round < ERIG_ROUNDS(25, 4); round++) {
                struct engine_request q[N] = {
                        {.verb = ENGINE_REWIND,
                                .at_turn = ENGINE_UNSET,
                                .at_position = ENGINE_UNSET,
                                .drop_turns = 1},
                        {.verb = ENGINE_GET, .want_tokens = true, .want_turns = true},
                        erig_request(ENGINE_FORK, 0),
                        {.verb = ENGINE_UPDATE},
                        {.verb = ENGINE_EVICT},
                        {.verb = ENGINE_GET, .want_tokens = true, .want_turns = true},
                };

                erig_restart(&r, round % 2);
                for (int i = 0; i < N; i++)
                        q[i].conv_id = c;
                erig_do_all(&r, q, many, N);
                for (int i = 0; i < N; i++)
                        if (many[i].kind == ENGINE_ERROR && many[i].err.code != ERR_BUSY)
                                fail_msg("round %d, request %d: %s", round, i, many[i].err.msg);
                if (many[2].kind == ENGINE_CONV)
                        assert_int_equal(
                                erig_simple(&r, ENGINE_CLOSE, many[2].conv.id, &A), ENGINE_EMPTY);
        }
        erig_close(&r);
}

/* Nobody reads events: the engine stops producing, and can still be cancelled and freed. */
static void test_backlog(void **state) {
        enum { N = ERIG_ROUNDS(8, 4) };
        struct engine_options o = erig_options(256 << 20);
        struct engine_request q[N];
        struct erig r;

        erig_open(&r, &o);
        for (int i = 0; i < N; i++) {
                q[i] = erig_long_request(erig_new(&r, NULL, NULL), erig_words(5, (unsigned)i), 600);
                q[i].n_logprobs = 1000;
        }
        for (int i = 0; i < N; i++)
                erig_send(&r, &q[i], &many[i]);
        erig_settle(r.en);
        for (int i = 0; i < N; i++)
                engine_cancel(r.en, q[i].handle);
        for (int i = 0; i < N; i++)
                erig_wait(&r, &many[i]);
        for (int i = 0; i < N; i++)
                assert_true(
                        many[i].kind == ENGINE_ERROR || many[i].finish == ENGINE_FINISH_CANCELLED);
        for (int i = 0; i < N; i++)
                erig_send(&r, &q[i], &many[i]);
        erig_settle(r.en);
        erig_close(&r);
}

/* Events that were taken are none that wait: a reply whose events are a multiple of what may wait
 * comes to its end while somebody takes them. */
static void test_events_are_taken(void **state) {
        enum { LENGTH = 60, ALTERNATIVES = 1000 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_long_request(0, "Tell me a story.", LENGTH);
        struct erig r;

        erig_open(&r, &o);
        r.silence_msec = 20000;
        q.conv_id = erig_new(&r, NULL, NULL);
        q.n_logprobs = ALTERNATIVES;
        assert_true(LENGTH * ALTERNATIVES * sizeof(struct engine_logprob) >
                    inside_requests_budget(r.en));
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.n_tokens, LENGTH);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paused_slot),
                cmocka_unit_test(test_paused_memory),
                cmocka_unit_test(test_cancel_paused),
                cmocka_unit_test(test_cancel_phases),
                cmocka_unit_test(test_stop_while_busy),
                cmocka_unit_test(test_refuse_while_stopping),
                cmocka_unit_test(test_load_races),
                cmocka_unit_test(test_backlog),
                cmocka_unit_test(test_events_are_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
