/* SPDX-License-Identifier: MIT */
/*
 * A Continue from an earlier place (memory/edit.c) gives the same as a Rewind and a Continue. Until it has
 * committed, or if it is refused, is cancelled or fails, the conversation and its memory are
 * unchanged.
 */
#include <string.h>

#include "base/util.h"
#include "edit-rig.h"
#include "link-rig.h"
#include "util/test.h"

static struct answer A, B, C, T, many[3];

/* --- it is a Rewind and a Continue --- */

/* The same on a fork, in two requests. */
static void compare(struct erig *r, uint64_t conv, struct engine_request q) {
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = q.at_turn, .at_position = q.at_position};
        uint64_t revision;

        erig_get(r, conv, &T);
        revision = T.conv.revision;
        rewind.conv_id = erig_fork(r, conv);
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("turn %u, position %u: %s", q.at_turn, q.at_position, A.err.msg);
        assert_int_equal(
                A.revision, revision + (q.input != ENGINE_INPUT_NONE) + (q.max_tokens > 0));
        assert_int_equal(erig_do(r, &rewind, &B), ENGINE_CONV);
        q.cuts = false;
        q.conv_id = rewind.conv_id;
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        answer_same(&A, &B);
        assert_int_equal(A.n_prompt, B.n_prompt);
        assert_int_equal(A.finish, B.finish);
        erig_get(r, conv, &A);
        erig_get(r, rewind.conv_id, &B);
        /* But for what is theirs. */
        A.conv.revision = B.conv.revision;
        for (uint32_t i = 0; i < A.n_turns; i++)
                A.turns[i].created_usec = B.turns[i].created_usec;
        edit_check_same(&A, &B);
        assert_int_equal(erig_simple(r, ENGINE_CLOSE, rewind.conv_id, NULL), ENGINE_EMPTY);
        assert_int_equal(erig_simple(r, ENGINE_CLOSE, conv, NULL), ENGINE_EMPTY);
}

static void test_as_two(void **state) {
        static const int32_t tokens[] = {301, 302, 340, 377, 390};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        for (uint32_t at = 0; at <= 5; at++) {
                c = edit_talk(&r);
                if (at % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                q = edit_request(c, at, "And how long does my dog sleep?", 8);
                if (at == 3) {
                        q.input = ENGINE_INPUT_TOKENS;
                        q.tokens = tokens;
                        q.n_tokens = ARRAY_SIZE(tokens);
                }
                if (at == 4)
                        q.max_tokens = 0;
                compare(&r, c, q);
        }
        /* Another reply, and the rest of one. */
        c = edit_talk(&r);
        compare(&r, c, edit_request(c, 4, "", 8));
        for (uint32_t back = 3; back < 30; back += 7) {
                c = edit_talk(&r);
                if (back % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                erig_get(&r, c, &T);
                q = edit_request(c, ENGINE_UNSET, back > 20 ? "Never mind." : "", 8);
                q.at_position = T.conv.n_tokens - back;
                compare(&r, c, q);
        }
        erig_check_empty(&r);
        erig_close(&r);
}

/* The seed that Done tells gives the reply once more. */
static void test_seed_told(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        c = edit_open(&r, &o);
        q = edit_request(c, 3, "Tell me a story.", 16);
        q.sampling = (struct sampling){.has = SAMPLING_TEMPERATURE, .temperature = 5};
        q.ignore_eos = true;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        q.sampling.has |= SAMPLING_SEED;
        q.sampling.seed = A.seed;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_equal(B.seed, A.seed);
        answer_same(&A, &B);
        /* (And it is not that all seeds do.) */
        q.sampling.seed = A.seed + 1;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_not_equal(memcmp(A.tokens, B.tokens, 16 * sizeof(A.tokens[0])), 0);
        erig_close(&r);
}

/* --- refused: all as before, and nothing to compute again --- */

static void refuse(struct erig *r, struct engine_request *q, enum err_code code) {
        if (erig_do(r, q, &A) != ENGINE_ERROR || A.err.code != code)
                fail_msg("turn %u, position %u: %s", q->at_turn, q->at_position, A.err.msg);
        edit_check_as_before(r, q->conv_id, &T);
}

static void test_refused(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        int32_t bad = INT32_MAX;
        uint64_t c, d;

        c = edit_open(&r, &o);
        d = erig_fork(&r, c);
        erig_get(&r, c, &T);
        for (uint32_t at = 0; at < 5; at++) {
                q = edit_request(c, at, edit_words(4000), 8);
                refuse(&r, &q, ERR_CONTEXT);
                q = edit_request(c, at, "Hello", 8);
                q.sampling.has |= SAMPLING_BIASES;
                q.sampling.n_biases = 1;
                q.sampling.biases[0].token = 99999999;
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "Hello", 8);
                q.n_stops = 1;
                q.stops[0] = "";
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "", 0);
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "", 8);
                q.input = ENGINE_INPUT_TOKENS;
                q.tokens = &bad;
                q.n_tokens = 1;
                refuse(&r, &q, ERR_INVALID);
                q = edit_request(c, at, "Hello", 8);
                q.has_expect_revision = true;
                q.expect_revision = T.conv.revision + 1;
                refuse(&r, &q, ERR_CONFLICT);
        }
        q = edit_request(c, 0, "", 8);
        refuse(&r, &q, ERR_INVALID); /* nothing is left to go on from */
        q = edit_request(c, 6, "Hello", 8);
        refuse(&r, &q, ERR_INVALID);
        q = edit_request(c, ENGINE_UNSET, "Hello", 8);
        refuse(&r, &q, ERR_INVALID); /* neither, or a number that is no turn */
        q.at_position = T.conv.n_tokens + 1;
        refuse(&r, &q, ERR_INVALID);
        q.at_position = T.turns[3].start + 1;
        refuse(&r, &q, ERR_INVALID); /* within what a user said */
        q.at_position = T.turns[4].start + 1;
        refuse(&r, &q, ERR_INVALID); /* within what invites the reply */
        /* All of its memory is there, in RAM. */
        erig_say(&r, c, "And my dog?", 8, &A);
        erig_say(&r, d, "And my dog?", 8, &B);
        answer_same(&A, &B);
        assert_int_equal(A.n_ram, T.conv.n_tokens - 1);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* Another user's. */
static void test_not_ours(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        c = edit_open(&r, &o);
        erig_get(&r, c, &T);
        q = edit_request(c, 1, "Hello", 8);
        q.owner = 7;
        refuse(&r, &q, ERR_NOT_FOUND);
        q.owner = 0;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        erig_close(&r);
}

/* --- cancelled --- */

static void cancelled_early(uint32_t max_active, bool queued, bool spilled) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        struct erig r;
        uint64_t c, d, other;

        o.batch_tokens = 2;
        o.max_active = max_active;
        c = edit_open(&r, &o);
        other = erig_new(&r, NULL, NULL);
        if (spilled)
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        d = erig_fork(&r, c);
        erig_get(&r, c, &T);
        for (uint32_t at = 1; at <= T.n_turns; at += 2) {
                /* One with a message is accepted as soon as it has its place. */
                q = queued ? edit_request(c, at, edit_words(300), 8)
                           : edit_request(c, at + 1, "", 8);
                if (at == 5 && !queued)
                        continue;
                if (at == 5) { /* inside the last reply, and inside a block */
                        q.at_turn = ENGINE_UNSET;
                        q.at_position = T.conv.n_tokens - 7;
                }
                if (queued) {
                        first = erig_long_request(other, "Tell me a long story.", 400);
                        erig_send(&r, &first, &many[0]);
                        while (many[0].n_tokens == 0)
                                erig_step(&r);
                }
                if (queued) {
                        erig_send(&r, &q, &many[1]);
                        engine_pause(r.en, q.handle, true);
                        erig_get(&r, c, &C); /* it is under way: the turns are the old ones */
                        assert_int_equal(C.n_turns, T.n_turns);
                } else {
                        edit_send_and_hold(&r, &q, 0, &many[1]);
                }
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
                erig_wait(&r, &many[1]);
                assert_int_equal(many[1].kind, ENGINE_ERROR);
                assert_int_equal(many[1].err.code, ERR_CANCELLED);
                edit_check_as_before(&r, c, &T);
                if (queued) {
                        engine_cancel(r.en, first.handle);
                        erig_wait(&r, &many[0]);
                }
        }
        /* Here as on disk: a fork takes what RAM knows of the turns. */
        erig_say(&r, erig_fork(&r, c), "And my dog?", 8, &A);
        erig_say(&r, d, "And my dog?", 8, &B);
        answer_same(&A, &B);
        assert_int_equal(A.n_ram + A.n_shared + A.n_disk, T.conv.n_tokens - 1);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        /* What a cancelled one has read is there still. */
        assert_true(!spilled || queued || A.n_disk < T.conv.n_tokens - T.turns[3].end + 32);
        /* (Of a block that is cut and lies on disk only, the kept tokens are computed anew.) */
        assert_true(spilled || erig_stat(&r, "tokens_recomputed") == 0);
        erig_check_register(&r);
        erig_close(&r);
}

static void test_cancelled_early(void **state) {
        cancelled_early(4, false, false);
        cancelled_early(4, false, true);
        cancelled_early(1, true, false);
        cancelled_early(1, true, true);
}

/* Once it is accepted the message is there, and what it replaces is gone. */
static void test_cancelled_accepted(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        o.batch_tokens = 2;
        c = edit_open(&r, &o);
        d = erig_fork(&r, c);
        q = edit_request(d, 3, edit_words(100), 8);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        q.conv_id = c;
        edit_send_and_hold(&r, &q, 5, &A);
        engine_pause(r.en, q.handle, true); /* it stays in its prompt */
        gate_open(&edit_step_gate);
        erig_wait_accepted(&r, &A);
        erig_get(&r, c, &C);
        assert_int_equal(C.n_turns, 4);
        assert_int_equal(C.conv.revision, A.revision);
        assert_true(C.conv.busy);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &A);
        edit_check_unanswered(&r, c, &A);
        q = edit_answer(c, 8);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        answer_same(&A, &B);
        erig_check_register(&r);
        erig_close(&r);
}

/* The reply so far is kept. */
static void test_cancelled_late(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        c = edit_open(&r, &o);
        erig_get(&r, c, &T);
        q = edit_request(c, 3, "Tell me a long story.", 400);
        q.ignore_eos = true;
        edit_send_and_hold(&r, &q, 0, &A);
        edit_walk(&r, &A, 3);
        edit_walk_get(&r, &A, c, &C);
        assert_int_equal(C.n_turns, 4);
        assert_int_equal(C.conv.revision, T.conv.revision + 1);
        assert_true(C.conv.busy);
        engine_cancel(r.en, q.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(A.revision, T.conv.revision + 2);
        erig_get(&r, c, &C);
        assert_int_equal(C.n_turns, 5);
        assert_int_equal(C.conv.revision, A.revision);
        assert_int_equal(C.turns[3].text_size, strlen("Tell me a long story."));
        assert_int_equal(C.turns[4].finish, ENGINE_FINISH_CANCELLED);
        assert_memory_equal(C.history, T.history, T.turns[2].end * sizeof(*T.history));
        erig_say(&r, c, "And now?", 6, &A);
        erig_check_register(&r);
        erig_close(&r);
}

/* --- others, meanwhile --- */

static void test_busy(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, again, fork = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c;

        c = edit_open(&r, &o);
        q = edit_request(c, 3, "Tell me a long story.", 400);
        q.ignore_eos = true;
        erig_send(&r, &q, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        fork.conv_id = c;
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_BUSY);
        again = edit_request(c, 1, "Hello", 8);
        assert_int_equal(erig_do(&r, &again, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_BUSY);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_DONE);
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
        /* One that only appends goes together with a fork, as ever. */
        q = erig_long_request(c, "And on.", 400);
        erig_send(&r, &q, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[0]);
        erig_close(&r);
}

/* What takes turns away waits while write-behind links blocks of them, and no longer: else there
 * would be records of tokens that the conversation does not have. All others go on. */
static void link_case(enum engine_verb verb, bool cuts) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint32_t n_turns;
        struct erig r;
        bool was_over;
        uint64_t c;

        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        gate_close(&link_gate, 0);
        c = edit_talk(&r);
        gate_wait(&link_gate);
        q = edit_request(c, cuts ? 0 : ENGINE_UNSET, "Hello.", 1);
        q.verb = verb;
        q.cuts = cuts && verb == ENGINE_CONTINUE;
        erig_send(&r, &q, &many[0]);
        for (int i = 0; i < 300 && !many[0].final; i++)
                erig_get(&r, c, &T);
        if (!cuts)
                erig_wait(&r, &many[0]);
        was_over = many[0].final;
        n_turns = T.n_turns;
        gate_open(&link_gate);
        assert_int_equal(was_over, !cuts);
        if (cuts)
                assert_int_equal(n_turns, 5);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, verb == ENGINE_CONTINUE ? ENGINE_DONE : ENGINE_CONV);
        erig_get(&r, c, &T);
        assert_int_equal(T.n_turns, !cuts ? 7 : verb == ENGINE_CONTINUE ? 2 : 0);
        erig_check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

static void test_link_under_way(void **state) {
        link_case(ENGINE_REWIND, true);
        link_case(ENGINE_CONTINUE, true);
        link_case(ENGINE_CONTINUE, false);
}

/* --- Fork --- */

static void test_fork_expects(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_FORK,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .has_expect_revision = true};
        struct erig r;

        erig_open(&r, &o);
        q.conv_id = edit_talk(&r);
        erig_get(&r, q.conv_id, &T);
        q.expect_revision = T.conv.revision - 1;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONFLICT);
        assert_int_equal(erig_stat(&r, "forks"), 0);
        q.expect_revision = T.conv.revision;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_close(&r);
}

/* A conversation whose blocks are being linked stays in RAM, however much others want room for
 * theirs: loaded anew it would know nothing of the transaction. */
static void test_stays_while_linked(void **state) {
        struct engine_options o = erig_options(erig_pool(80));
        struct erig r;
        uint64_t c, d;

        erig_need_model();
        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        gate_close(&link_gate, 0);
        c = edit_talk(&r);
        gate_wait(&link_gate);
        d = edit_talk(&r);
        for (int i = 0; i < 3000 && erig_stat(&r, "unspilled_drops") == 0; i++)
                (void)erig_fork(&r, d);
        erig_get(&r, c, &T);
        gate_open(&link_gate); /* or a failed test would never end */
        assert_int_equal(T.conv.residency, ENGINE_RESIDENT);
        assert_true(erig_stat(&r, "unspilled_drops") > 0);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_as_two),
                cmocka_unit_test(test_seed_told),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_not_ours),
                cmocka_unit_test(test_cancelled_early),
                cmocka_unit_test(test_cancelled_accepted),
                cmocka_unit_test(test_cancelled_late),
                cmocka_unit_test(test_busy),
                cmocka_unit_test(test_link_under_way),
                cmocka_unit_test(test_stays_while_linked),
                cmocka_unit_test(test_fork_expects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
