/* SPDX-License-Identifier: MIT */
/*
 * Fair places: whatever one user has running and queued, another user's short reply begins within two steps of the
 * engine. No reply's bits change, and equal prompts of two users tell them nothing of each other.
 *
 * Steps are counted where the engine calls the model, from the moment when a request has joined the
 * queue (fair-rig.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fair-rig.h"

/* --- places --- */

/* A reply of 4 tokens to UID_B: it began and ended in time. */
static void check_short_reply(uint64_t handle, unsigned which) {
        struct fair_seen s = fair_seen(handle);

        assert_int_equal(B.kind, ENGINE_DONE);
        if (s.first > s.queued + 2)
                fail_msg("queued after step %llu, it began in step %llu",
                        (unsigned long long)s.queued, (unsigned long long)s.first);
        /* The prompt in one step, and three more tokens. They wait for the disk, which takes as many steps
         * of the others as it likes. */
        if (s.last > MAX(s.first, s.stored) + 3)
                fail_msg("begun in step %llu and stored after step %llu, it ended in step %llu",
                        (unsigned long long)s.first, (unsigned long long)s.stored,
                        (unsigned long long)s.last);
        fair_check_same(&B, &fair_expected[which]);
}

static void short_reply(struct erig *r, uint64_t conv, unsigned which, bool background) {
        struct engine_request q = fair_say(conv, UID_B, which, 4);

        q.background = background;
        erig_do(r, &q, &B);
        check_short_reply(q.handle, which);
}

/* @n replies of one user, and then another user's. */
static void newcomer(unsigned n, bool background, uint32_t max_active) {
        enum { LENGTH = 1900 };
        struct engine_request q;
        struct erig *r = &fair_rig;
        uint64_t c[3];

        fair_begin(r, max_active, 256, 256 << 20); /* room for all */
        for (unsigned i = 0; i < 3; i++)
                c[i] = fair_open_for(r, UID_B);
        fair_make_slow();
        fair_send_many(r, n, background, LENGTH);
        while (A[0].n_tokens < 3 || A[MIN(n, max_active) - 1].n_tokens < 1)
                erig_step(r);
        for (unsigned i = 0; i < 3; i++) {
                short_reply(r, c[i], i, background && i == 2);
                assert_true(i > 0 || !A[0].final); /* there was somebody to give way */
        }
        /* Enough was heard. Those that were parked said nothing wrong before or since. */
        for (unsigned i = 0; i < MIN(n, max_active); i++)
                while (A[i].n_tokens < 8)
                        erig_step(r);
        for (unsigned i = 0; i < n; i++)
                engine_cancel(r->en, fair_handles[i]);
        for (unsigned i = 0; i < n; i++) {
                erig_wait(r, &A[i]);
                if (i < max_active)
                        fair_check_same(&A[i], &fair_expected[i % 8]);
        }
        assert_true(n < max_active || erig_stat(r, "requests_parked") > 0);
        /* Which goes for the conversations, too: they go on. */
        q = fair_say(c[2] + 1, UID_A, 0, 1);
        assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        erig_check_budget(r);
        erig_close(r);
}

static void test_newcomer(void **state) {
        fair_find_expected();
        newcomer(ERIG_ROUNDS(64, 5), false, ERIG_ROUNDS(16, 3));
        if (TEST_TSAN)
                return;
        newcomer(1, false, 16);
        newcomer(16, false, 16);
        newcomer(1, false, 1);
        newcomer(3, false, 1);
}

static void test_newcomer_background(void **state) {
        fair_find_expected();
        newcomer(ERIG_ROUNDS(64, 5), true, ERIG_ROUNDS(16, 3));
        if (TEST_TSAN)
                return;
        newcomer(1, true, 16);
        newcomer(16, true, 16);
        newcomer(2, true, 1);
}

/* Of the requests that may go for a newcomer, the one that came last is storing its input, which takes long:
 * then another one goes. */
static void test_newcomer_storing(void **state) {
        enum { LENGTH = 1900 };
        struct engine_request q;
        struct erig *r = &fair_rig;
        uint64_t c, last;

        fair_find_expected();
        fair_begin(r, 2, 256, 256 << 20);
        c = fair_open_for(r, UID_B);
        last = fair_open_for(r, UID_A);
        fair_make_slow();
        fair_send_many(r, 1, false, LENGTH);
        while (A[0].n_tokens < 3)
                erig_step(r);
        pthread_mutex_lock(&fair.lock);
        fair.held = last;
        pthread_mutex_unlock(&fair.lock);
        gate_close(&fair_store_gate, 0);
        q = fair_say(last, UID_A, 1, LENGTH);
        erig_send(r, &q, &A[1]);
        fair_handles[1] = q.handle;
        gate_wait(&fair_store_gate);
        q = fair_say(c, UID_B, 2, 4);
        erig_send(r, &q, &B);
        while (B.n_tokens < 1)
                erig_step(r);
        assert_true(fair_seen(q.handle).first <= fair_seen(q.handle).queued + 2);
        assert_false(A[1].accepted);
        gate_open(&fair_store_gate);
        erig_wait(r, &B);
        check_short_reply(q.handle, 2);
        for (unsigned i = 0; i < 2; i++) {
                engine_cancel(r->en, fair_handles[i]);
                erig_wait(r, &A[i]);
        }
        erig_close(r);
}

/* Where memory is short: the blocks that the newcomer may need are counted against the others'. */
static void test_newcomer_memory(void **state) {
        enum { N = 4, LENGTH = 1500 };
        struct erig *r = &fair_rig;
        struct engine_request q;
        uint64_t c;
        size_t n;

        fair_find_expected();
        fair_begin(r, 16, 256, erig_pool(100)); /* for two of them, but not for three */
        c = fair_open_for(r, UID_B);
        fair_make_slow();
        fair_send_many(r, N, false, LENGTH);
        while (A[0].n_tokens < 40 || A[1].n_tokens < 40)
                erig_step(r);
        assert_int_equal(erig_stat(r, "requests_active"), 2);
        q = fair_say(c, UID_B, 5, 90);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        fair_check_same(&B, &fair_expected[5]);
        assert_int_equal(erig_stat(r, "requests_parked"), 1);
        /* The one that was parked, the last to come, goes on. */
        n = A[1].n_tokens + 10;
        while (A[1].n_tokens < n)
                erig_step(r);
        /* Those that wait first, or they would have the places of the others. */
        for (unsigned i = N; i-- > 0;)
                engine_cancel(r->en, fair_handles[i]);
        for (unsigned i = 0; i < N; i++)
                erig_wait(r, &A[i]);
        fair_check_same(&A[0], &fair_expected[0]);
        fair_check_same(&A[1], &fair_expected[1]);
        erig_check_budget(r);
        erig_close(r);
}

/* Two users with long replies and one place: they take turns, each of half of batch_tokens, and
 * memory that goes to disk in between comes back as it was. */
static void turns(uint64_t pool) {
        enum { LENGTH = ERIG_ROUNDS(300, 100), BATCH = 64, TURN = BATCH / 2 };
        struct engine_request a, q;
        uint64_t parked, prompt;
        struct erig *r = &fair_rig;

        fair_begin(r, 1, BATCH, pool);
        /* They begin together. */
        a = fair_say(fair_open_for(r, UID_A), UID_A, 0, LENGTH);
        q = fair_say(fair_open_for(r, UID_B), UID_B, 1, LENGTH);
        erig_send(r, &a, &A[0]);
        engine_pause(r->en, a.handle, true);
        erig_send(r, &q, &B);
        engine_pause(r->en, q.handle, true);
        fair_wait_queued(a.handle);
        fair_wait_queued(q.handle);
        engine_pause(r->en, a.handle, false);
        engine_pause(r->en, q.handle, false);
        erig_wait(r, &A[0]);
        erig_wait(r, &B);
        fair_check_same(&A[0], &fair_expected[0]);
        fair_check_same(&B, &fair_expected[1]);
        assert_int_equal(A[0].n_tokens, LENGTH);
        assert_int_equal(B.n_tokens, LENGTH);
        assert_int_equal(A[0].done_computed, A[0].n_prompt);
        parked = erig_stat(r, "requests_parked");
        /* Each turn parks one; to and fro is two turns, and the first ones may be longer. */
        prompt = B.n_prompt;
        if (parked < 2 * (LENGTH - TURN) / TURN / 4 || parked > 2 * (LENGTH + prompt) / TURN + 2)
                fail_msg("parked %llu times", (unsigned long long)parked);
        assert_int_equal(erig_stat(r, "tokens_recomputed"), 0);
        /* The first token of a reply comes from the prompt's last. */
        assert_int_equal(erig_stat(r, "tokens_decoded"), 2 * (LENGTH - 1));
        assert_int_equal(erig_stat(r, "tokens_prefilled"), A[0].n_prompt + B.n_prompt);
        assert_int_equal(erig_stat(r, "tokens_reused_disk"), 0);
        erig_check_budget(r);
        erig_close(r);
}

static void test_turns(void **state) {
        fair_find_expected();
        if (!TEST_TSAN)
                turns(64 << 20);
        turns(erig_pool(13)); /* the memory of one and a bit */
}

/* A user's own background requests give way to the user's interactive one, and go on afterwards. */
static void test_own_background(void **state) {
        enum { N = 3, LENGTH = 60 };
        struct engine_request q;
        struct erig *r = &fair_rig;
        struct fair_seen s;

        fair_find_expected();
        fair_begin(r, 2, 256, 64 << 20);
        fair_send_many(r, N, true, LENGTH);
        while (A[0].n_tokens < 3)
                erig_step(r);
        q = fair_say(fair_open_for(r, UID_A), UID_A, 4, 8);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        s = fair_seen(q.handle);
        assert_true(s.first <= s.queued + 2);
        fair_check_same(&B, &fair_expected[4]);
        for (unsigned i = 0; i < N; i++) {
                erig_wait(r, &A[i]);
                assert_int_equal(A[i].n_tokens, LENGTH);
                fair_check_same(&A[i], &fair_expected[i]);
        }
        erig_close(r);
}
/* A request that was parked is still the first of its user's. */
static void test_parked_is_first(void **state) {
        enum { N = 3, LENGTH = 40 };
        struct engine_request q;
        struct erig *r = &fair_rig;

        erig_need_model();
        fair_find_expected();
        fair_begin(r, 1, 256, 64 << 20);
        q = fair_say(fair_open_for(r, UID_B), UID_B, 4, 4);
        fair_send_paused(r, N, false, LENGTH, &q);
        fair_go_on(r, N, 1, &q);
        erig_wait(r, &B);
        check_short_reply(q.handle, 4);
        assert_true(erig_stat(r, "requests_parked") > 0);
        for (unsigned i = 0; i < N; i++) {
                for (unsigned k = i + 1; k < N; k++)
                        assert_false(A[k].accepted && !A[i].final);
                erig_wait(r, &A[i]);
                fair_check_same(&A[i], &fair_expected[i]);
        }
        for (unsigned i = 1; i < N; i++)
                assert_true(fair_seen(fair_handles[i]).first > fair_seen(fair_handles[i - 1]).last);
        erig_close(r);
}
/* --- equal prompts (I6) --- */

/* Two equal prompts, begun in the same step. True if both have tokens in it. */
static bool beside(uint32_t uid_b, uint32_t uid_c) {
        enum { HISTORY = BLOCK + 8 };
        struct engine_request other, b, c;
        struct erig *r = &fair_rig;
        bool both;

        fair_begin(r, 4, 256, 64 << 20);
        other = fair_say(fair_open_for(r, UID_A), UID_A, 0, 2000);
        /* So much is in RAM, and the rest so little, that nobody looks for it on disk first. */
        b = fair_tokens_of(fair_open_for(r, uid_b), uid_b, 0, HISTORY, 0);
        assert_int_equal(erig_do(r, &b, &B), ENGINE_DONE);
        c = fair_tokens_of(fair_open_for(r, uid_c), uid_c, 0, HISTORY, 0);
        assert_int_equal(erig_do(r, &c, &B), ENGINE_DONE);
        b = fair_tokens_of(b.conv_id, uid_b, HISTORY, 50, 1);
        c = fair_tokens_of(c.conv_id, uid_c, HISTORY, 50, 1);
        erig_send(r, &other, &A[0]);
        while (A[0].n_tokens < 3)
                erig_step(r);
        gate_step(&fair_gate);
        gate_wait(&fair_gate);
        erig_send(r, &b, &B);
        engine_pause(r->en, b.handle, true);
        erig_send(r, &c, &A[1]);
        engine_pause(r->en, c.handle, true);
        gate_open(&fair_gate);
        fair_wait_queued(b.handle);
        fair_wait_queued(c.handle);
        gate_step(&fair_gate);
        gate_wait(&fair_gate);
        engine_pause(r->en, b.handle, false);
        engine_pause(r->en, c.handle, false);
        gate_open(&fair_gate);
        erig_wait(r, &B);
        erig_wait(r, &A[1]);
        answer_same(&B, &A[1]);
        both = fair_seen(b.handle).first == fair_seen(c.handle).first;
        if (both) {
                assert_int_equal(fair_seen(b.handle).last, fair_seen(c.handle).last);
                assert_int_equal(fair_seen(b.handle).tokens, fair_seen(c.handle).tokens);
        }
        engine_cancel(r->en, other.handle);
        erig_wait(r, &A[0]);
        erig_close(r);
        return both;
}

static void test_equal_prompts(void **state) {
        /* One of the same user's two waits for the other's blocks: so the test can tell. */
        assert_false(beside(UID_B, UID_B));
        assert_true(beside(UID_B, UID_C));
}
int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_newcomer, fair_teardown),
                cmocka_unit_test_teardown(test_newcomer_background, fair_teardown),
                cmocka_unit_test_teardown(test_newcomer_storing, fair_teardown),
                cmocka_unit_test_teardown(test_newcomer_memory, fair_teardown),
                cmocka_unit_test_teardown(test_turns, fair_teardown),
                cmocka_unit_test_teardown(test_own_background, fair_teardown),
                cmocka_unit_test_teardown(test_parked_is_first, fair_teardown),
                cmocka_unit_test_teardown(test_equal_prompts, fair_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
