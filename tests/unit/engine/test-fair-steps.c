/* SPDX-License-Identifier: MIT */
/*
 * Fair steps: each user's share of what a step computes, and a user's prompts beside the same user's replies. Most tests
 * fake the duration of a step, so that shares do not depend on the machine (fair-rig.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fair-rig.h"
#include "inside.h"

/* --- steps --- */

/* UID_A generates in 15 conversations, UID_B in one: tokens of the steps that they shared. */
static void share(bool background, uint64_t base, uint64_t per_token, double *a, double *b) {
        enum { N = 15, LENGTH = 60 };
        struct engine_request q, many[N];
        struct erig *r = &fair_rig;

        fair_begin(r, 16, 256, 256 << 20);
        fair_fake_time(base, per_token);
        for (unsigned i = 0; i < N; i++)
                many[i] = fair_reply_to(r, fair_say(fair_open_for(r, UID_A), UID_A, i, 400));
        q = fair_reply_to(r, fair_say(fair_open_for(r, UID_B), UID_B, 1, LENGTH));
        fair_send_all_paused(r, many, N, background, &q);
        fair_go_on(r, N, N, &q);
        erig_wait(r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        for (unsigned i = 0; i < N; i++)
                assert_false(A[i].final); /* all were beside it to its end */
        assert_int_equal(fair_seen(q.handle).last, fair_seen(q.handle).first + LENGTH - 1);
        *a = (double)fair.shared_a / LENGTH;
        *b = (double)fair.shared_b / LENGTH;
        erig_close(r);
}

static void test_share_of_steps(void **state) {
        double a, b;

        /* A token costs the same in a batch: token for token. */
        share(false, 0, 100, &a, &b);
        assert_true(a > 0.9 && a < 1.5);
        if (TEST_TSAN)
                return;
        /* A step costs what five tokens do: with so many beside it, it takes twice as long. */
        share(false, 500, 100, &a, &b);
        assert_true(a > 4 && a < 7);
        /* Tokens cost next to nothing: nobody is left out. */
        share(false, 100000, 1, &a, &b);
        assert_true(a > 14.5 && a <= 15);
        /* In the background an eighth of that. */
        share(true, 0, 100, &a, &b);
        assert_true(a > 0.06 && a < 0.3);
        share(true, 700, 100, &a, &b);
        assert_true(a > 0.5 && a < 1.5);
}

/* A long prompt beside a reply: neither waits for more than its share of the other. */
static void test_share_of_prompt(void **state) {
        struct engine_request q;
        struct erig *r = &fair_rig;
        struct fair_seen s;

        fair_begin(r, 16, 256, 64 << 20);
        fair_fake_time(0, 100);
        q = fair_tokens_of(fair_open_for(r, UID_B), UID_B, 0, 400, 1);
        fair_send_paused(r, 1, false, 2000, &q);
        fair_go_on(r, 1, 1, &q);
        erig_wait(r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        assert_false(A[0].final);
        s = fair_seen(q.handle);
        /* A quarter of batch_tokens at once, and then a token for each of the other's. */
        assert_in_range(s.last - s.first, 300, 400);
        erig_close(r);
}

/* A user alone has the whole step, with any number of requests, if prompts may have it. */
static void test_alone(void **state) {
        enum { N = 15 };
        struct engine_request q[N];
        struct erig *r = &fair_rig;

        fair_find_expected();
        fair_begin_with(r, 100);
        fair_fake_time(0, 100);
        for (unsigned i = 0; i < N; i++)
                q[i] = fair_reply_to(r, fair_say(fair_open_for(r, UID_A), UID_A, i, 60));
        fair_send_all(r, q, N, false);
        for (unsigned i = 0; i < N; i++) {
                erig_wait(r, &A[i]);
                fair_check_same(&A[i], &fair_expected[i % 8]);
        }
        /* Each had its prompt computed in one step, and a token in each one after it. */
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(
                        fair_seen(fair_handles[i]).last - fair_seen(fair_handles[i]).first, 60 - 1);
        assert_int_equal(erig_stat(r, "requests_parked"), 0);
        erig_close(r);
}

/* The longest interval between tokens of a reply while a long prompt of the same user is computed, and how
 * long that takes, in made-up time. */
static void beside_prompt(
        uint64_t base, uint32_t share, uint64_t *ret_interval, uint64_t *ret_prompt) {
        struct engine_request q;
        struct engine_model_info info;
        struct erig *r = &fair_rig;
        uint64_t conv;

        fair_begin_with(r, share);
        inside_describe_model(r->en, &info);
        conv = fair_open_for(r, UID_A);
        fair_fake_time(base, 100);
        pthread_mutex_lock(&fair.lock);
        fair.n_layer = info.n_layer;
        pthread_mutex_unlock(&fair.lock);
        /* steps of many sizes were seen */
        for (uint32_t n = 1; n <= 256; n *= 2) {
                q = fair_tokens_of(fair_open_for(r, UID_B), UID_B, 0, n, 2);
                assert_int_equal(erig_do(r, &q, &C), ENGINE_DONE);
        }
        q = fair_say(fair_open_for(r, UID_A), UID_A, 0, 1900);
        erig_send(r, &q, &A[0]);
        while (A[0].n_tokens < 5)
                erig_step(r);
        pthread_mutex_lock(&fair.lock);
        fair.timed = fair.seen[q.handle].seq;
        pthread_mutex_unlock(&fair.lock);
        fair_handles[0] = q.handle;
        q = fair_tokens_of(conv, UID_A, 0, 512, 1);
        erig_send(r, &q, &B);
        erig_wait(r, &B);
        pthread_mutex_lock(&fair.lock);
        *ret_interval = fair.longest;
        /* not from when it was queued: the engine goes on with the reply while other threads look for its memory */
        *ret_prompt = fair.seen[q.handle].last_at - fair.seen[q.handle].first_at;
        pthread_mutex_unlock(&fair.lock);
        assert_false(A[0].final);
        engine_cancel(r->en, fair_handles[0]);
        erig_wait(r, &A[0]);
        fair_check_same(&A[0], &fair_expected[0]);
        erig_close(r);
}

/* A user's prompt beside a reply of the same user: the interval between tokens grows as far as the setting
 * says, and a quarter beyond it at the most (the mean keeps to it: test_credit of engine/pace), however the machine is
 * made, and the prompt is computed in the time that is left. */
static void test_pace(void **state) {
        /* small steps cost little more than one row; or a row costs the same in any step, so that the prompt
         * must be computed apart */
        static const uint64_t base[] = {2000, 0};

        if (TEST_TSAN)
                return;
        fair_find_expected();
        for (unsigned i = 0; i < ARRAY_SIZE(base); i++) {
                uint64_t one = base[i] + 100, third, half, whole, prompt, sooner, soonest;

                beside_prompt(base[i], 33, &third, &prompt);
                beside_prompt(base[i], 50, &half, &sooner);
                beside_prompt(base[i], 100, &whole, &soonest);
                assert_true(third <= one * 200 / 100);
                assert_true(half <= one * 270 / 100 && half > third);
                assert_true(whole > one + 250 * 100);
                assert_true(prompt > sooner && sooner > soonest);
                assert_true(prompt < soonest * 5 && sooner < soonest * 4);
        }
}

/* More users than tokens of a step: everybody's turn comes, however shares are rounded. */
static void test_narrow_steps(void **state) {
        enum { MOST_USERS = 7, LENGTH = 12 };
        struct erig *r = &fair_rig;

        erig_need_model();
        fair_find_expected();
        for (unsigned n = 3; n <= MOST_USERS; n++) {
                struct engine_request q[MOST_USERS];

                fair_begin(r, 8, 1, 64 << 20);
                for (unsigned i = 0; i < n; i++)
                        q[i] = fair_say(fair_open_for(r, UID_A + i), UID_A + i, i, LENGTH);
                for (unsigned i = 0; i < n; i++)
                        erig_send(r, &q[i], &A[i]);
                for (unsigned i = 0; i < n; i++) {
                        erig_wait(r, &A[i]);
                        assert_int_equal(A[i].n_tokens, LENGTH);
                        fair_check_same(&A[i], &fair_expected[i]);
                }
                erig_close(r);
        }
}

/* A user's own replies leave something of each step to the same user's prompt. */
static void test_prompt_beside_replies(void **state) {
        enum { N = 4 };
        struct engine_request q;
        struct erig *r = &fair_rig;

        erig_need_model();
        fair_find_expected();
        fair_begin(r, 8, N, 256 << 20);
        fair_send_many(
                r, N, false, 1900); /* they do not end before it, however slow this thread is */
        while (A[N - 1].n_tokens < 3)
                erig_step(r);
        q = fair_say(fair_open_for(r, UID_A), UID_A, 4, 2);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        fair_check_same(&B, &fair_expected[4]);
        for (unsigned i = 0; i < N; i++) {
                assert_false(A[i].final);
                engine_cancel(r->en, fair_handles[i]);
                erig_wait(r, &A[i]);
        }
        erig_close(r);
}
int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_share_of_steps, fair_teardown),
                cmocka_unit_test_teardown(test_share_of_prompt, fair_teardown),
                cmocka_unit_test_teardown(test_pace, fair_teardown),
                cmocka_unit_test_teardown(test_alone, fair_teardown),
                cmocka_unit_test_teardown(test_narrow_steps, fair_teardown),
                cmocka_unit_test_teardown(test_prompt_beside_replies, fair_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
