/* SPDX-License-Identifier: MIT */
/*
 * Coming back to earlier places of a conversation, on small models of each kind of memory: states beside keys
 * and values, states alone, windows beside keys and values, windows and states. Here it is asked how much is
 * computed again, and what is kept for it; that the bits are the same is for the metamorphic programs.
 */
#include <string.h>

#include "base/util.h"
#include "edit-rig.h"
#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B, T;

/* --- coming back to the end --- */

static void test_regenerate(void **state) {
        EACH_KIND(k)
        for (enum kind_meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r;
                uint64_t c;

                kind_open(&r, k, 0);
                c = kind_talk(&r, 6, &A);
                kind_let_happen(&r, c, what);
                kind_regenerate(&r, c, &B);
                answer_same(&B, &A);
                if (kind_computed_of(&B, B.n_prompt) > KIND_AGAIN)
                        fail_msg("%s, %d: %u of %u computed", k->arch, (int)what, B.n_computed,
                                B.n_prompt);
                /* Nothing was lost, so nothing but what invites the reply is computed. */
                erig_get(&r, c, &T);
                if (what != KILLED)
                        assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                kind_close(&r);
        }
}

static void test_return(void **state) {
        EACH_KIND(k)
        for (enum kind_meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r;
                uint32_t n, again;
                uint64_t c;

                kind_open(&r, k, 0);
                c = kind_talk(&r, 6, &A);
                erig_get(&r, c, &T);
                n = T.conv.n_tokens;
                kind_let_happen(&r, c, what);
                kind_say(&r, c, 99, &B);
                again = kind_computed_of(&B, n);
                if (again > KIND_AGAIN || (again > 1 && what != KILLED))
                        fail_msg("%s, %d: %u of %u computed again", k->arch, (int)what, again, n);
                kind_close(&r);
        }
}

/* --- coming back to a turn --- */

/* With as many turns as checkpoints are never thinned out, each end of a turn is one. */
static void test_rewind_to_each(void **state) {
        EACH_KIND(k)
        for (enum kind_meanwhile what = 0; what <= EVICTED; what++) {
                struct erig r, fresh;
                uint64_t c;

                kind_open(&r, k, 0);
                kind_open(&fresh, k, UINT32_MAX);
                c = kind_talk(&r, KIND_LEAST / 2 - 1, &A);
                erig_get(&r, c, &T);
                for (unsigned n = T.n_turns - 1; n > 1; n--) {
                        struct engine_request q = kind_cut_request(ENGINE_REWIND, c, n);
                        uint32_t again;

                        kind_let_happen(&r, c, what);
                        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                        again = kind_go_on(&r, c, &T, n, &fresh, &A);
                        if (again > 0)
                                fail_msg("%s, %d: turn %u: %u computed again", k->arch, (int)what,
                                        n, again);
                }
                kind_close(&fresh);
                kind_close(&r);
        }
}

static void test_fork_at_each(void **state) {
        EACH_KIND(k)
        for (enum kind_meanwhile what = 0; what < N_MEANWHILE; what++) {
                struct erig r, fresh;
                uint64_t c;

                kind_open(&r, k, 0);
                kind_open(&fresh, k, UINT32_MAX);
                c = kind_talk(&r, KIND_LEAST / 2 - 1, &A);
                erig_get(&r, c, &T);
                kind_let_happen(&r, c, what);
                for (unsigned n = 2; n <= T.n_turns; n++) {
                        struct engine_request q = kind_cut_request(ENGINE_FORK, c, n);
                        uint32_t again;

                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                        again = kind_go_on(&r, A.conv.id, &T, n, &fresh, &A);
                        if (again > (what == KILLED && !k->states ? KIND_BLOCK : 0))
                                fail_msg("%s, %d: turn %u: %u computed again", k->arch, (int)what,
                                        n, again);
                }
                kind_close(&fresh);
                kind_close(&r);
        }
}

/* With more turns some checkpoints are gone. A return begins at the one before, and says so. */
static void test_rewind_between(void **state) {
        enum { N = 14 };

        EACH_KIND(k) {
                struct erig r, fresh;
                unsigned n_partial = 0;
                uint32_t worst = 0;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                kind_open(&fresh, k, UINT32_MAX);
                c = kind_talk(&r, N, &A);
                erig_get(&r, c, &T);
                for (unsigned n = T.n_turns - 1; n > 1; n--) {
                        struct engine_request q = kind_cut_request(ENGINE_REWIND, c, n);
                        uint32_t again;

                        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
                        again = kind_go_on(&r, c, &T, n, &fresh, &A);
                        worst = MAX(worst, again);
                        if (again == 0)
                                continue;
                        n_partial++;
                        assert_int_equal(A.differs_why, ENGINE_DIFFERS_PARTIAL);
                        assert_int_equal(A.differs_at, A.n_prompt - A.n_computed);
                }
                /* Evenly: the checkpoints but the latest three divide what is before them. */
                assert_true(n_partial > 0);
                assert_true(worst <= 2 * T.conv.n_tokens / (KIND_LEAST - 3));
                kind_close(&fresh);
                kind_close(&r);
        }
}

/* --- what is kept --- */

static uint64_t in_pages(uint64_t size) {
        return (size + 4095) / 4096 * 4096;
}

/* Checkpoints cost no more than they may, in RAM and on disk, and what lies behind windows is given back. */
static void check_bounds(struct erig *r, const struct kind *k, uint64_t c) {
        static const char *const names[] = {"pool_blocks", "pool_window_blocks", "pool_states",
                "block_bytes", "window_block_bytes", "state_bytes"};
        uint64_t v[ARRAY_SIZE(names)], most;

        erig_stats(r, names, v, ARRAY_SIZE(names));
        most = v[0] * in_pages(v[3]) / KIND_SHARE;
        /* The end is a checkpoint that costs nothing. */
        if (v[2] > KIND_LEAST && (v[2] - 1) * in_pages(v[5]) > most)
                fail_msg("%s: %llu states, %llu blocks", k->arch, (unsigned long long)v[2],
                        (unsigned long long)v[0]);
        /* A window of 16 tokens lies in two blocks at most; besides, the end has one. */
        if (v[1] > 2 * KIND_LEAST + 2 && v[1] * in_pages(v[4]) > most + 2 * in_pages(v[4]))
                fail_msg("%s: %llu blocks of windows, %llu blocks", k->arch,
                        (unsigned long long)v[1], (unsigned long long)v[0]);
        /* On disk it is the same, but for a tail that is not written yet. */
        assert_int_equal(kind_links(r, c, 2), v[2]);
        assert_in_range(kind_links(r, c, 1), v[1] - (k->windows && !k->states), v[1]);
}

/* However long a conversation gets. And the latest message and the latest reply are checkpoints always. */
static void test_bounds(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, 0);
                c = erig_new(&r, NULL, "Be kind.");
                for (unsigned i = 0; i < 18; i++) {
                        q = erig_long_request(c, erig_words(i % 6 * 12, i), 4);
                        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                        kind_wait_idle(&r);
                        check_bounds(&r, k, c);
                }
                assert_true(A.n_prompt > 3000);
                kind_regenerate(&r, c, &B);
                answer_same(&A, &B);
                erig_get(&r, c, &T);
                assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                kind_wait_idle(&r);
                check_bounds(&r, k, c);
                kind_say(&r, c, 0, &B);
                assert_int_equal(kind_computed_of(&B, T.conv.n_tokens - 1), 0);
                kind_close(&r);
        }
}

/* --- others --- */

/* Where two conversations have parted, the third one begins. */
static void test_branch(void **state) {
        const char *system = erig_words(40, 0);

        EACH_KIND(k) {
                uint32_t common;
                struct erig r;

                kind_open(&r, k, UINT32_MAX);
                kind_say_as(&r, 0, kind_open_as(&r, 0, system), "One.", &A);
                kind_say_as(&r, 0, kind_open_as(&r, 0, system), "two and more.", &A);
                assert_int_equal(A.differs_why, ENGINE_DIFFERS_TOKEN);
                common = A.differs_at / KIND_BLOCK * KIND_BLOCK;
                assert_true(common > 0);
                kind_say_as(&r, 0, kind_open_as(&r, 0, system), "Three.", &A);
                assert_int_equal(A.n_shared, common);
                kind_close(&r);
        }
}

/* What an administrator publishes, before or after it was computed, is for everybody. */
static void test_publish(void **state) {
        const char *system = erig_words(40, 0);

        EACH_KIND(k)
        for (int late = 0; late < 2; late++) {
                struct engine_request q;
                uint32_t common;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = kind_open_as(&r, 0, system);
                erig_get(&r, c, &T);
                common = T.conv.n_tokens / KIND_BLOCK * KIND_BLOCK;
                q = erig_request(ENGINE_PUBLISH, c);
                q.admin = q.publish = true;
                q.at_turn = 1;
                if (late)
                        kind_say_as(&r, 0, c, "One.", &A);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                if (!late)
                        kind_say_as(&r, 0, c, "One.", &A);
                kind_say_as(&r, 5, kind_open_as(&r, 5, system), "two and more.", &A);
                if (A.n_shared != common)
                        fail_msg("%s, late %d: user 5 shares %u of %u", k->arch, late, A.n_shared,
                                common);
                kind_say_as(&r, 6, kind_open_as(&r, 6, system), "Three.", &A);
                if (A.n_shared != common)
                        fail_msg("%s, late %d: user 6 shares %u of %u", k->arch, late, A.n_shared,
                                common);
                kind_close(&r);
        }
}

/* --- room --- */

/* Checkpoints take no room from the conversation that has them: where both do not fit, they go. */
static void test_pressure(void **state) {
        enum { N = 400 };

        EACH_KIND(k)
        for (int delay = 0; delay < 2; delay++) {
                struct engine_options o = erig_options(kind_least_pool(k, N));
                struct engine_request q;
                struct erig r;
                uint64_t c;

                o.model_path = k->path;
                o.spill_delay_ms = delay ? UINT32_MAX : 0;
                erig_open(&r, &o);
                c = kind_talk(&r, 6, &A);
                kind_wait_idle(&r);
                q = erig_long_request(c, "Go on.", 0);
                erig_get(&r, c, &T);
                q.max_tokens = N - T.conv.n_tokens - 30;
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s: %s", k->arch, A.err.msg);
                assert_int_equal(A.n_tokens, q.max_tokens);
                /* What was on disk is there still. */
                kind_regenerate(&r, c, &B);
                assert_int_equal(B.n_tokens, 4);
                if (!delay && kind_computed_of(&B, B.n_prompt) > KIND_AGAIN)
                        fail_msg("%s: %u of %u computed", k->arch, B.n_computed, B.n_prompt);
                kind_close(&r);
        }
}

/* --- an edit that is taken back --- */

static void test_undone(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint32_t end;
                uint64_t c;

                kind_open(&r, k, 0);
                r.o.batch_tokens = 2;
                erig_restart(&r, true);
                c = kind_talk(&r, 3, &A);
                B = A;
                erig_get(&r, c, &T);
                end = T.conv.n_tokens;
                kind_wait_idle(&r);
                q = edit_request(c, T.n_turns - 1, "", 12);
                edit_send_and_hold(&r, &q, 0, &A);
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
                erig_wait(&r, &A);
                assert_int_equal(A.kind, ENGINE_ERROR);
                edit_check_as_before(&r, c, &T);
                kind_regenerate(&r, c, &A);
                answer_same(&A, &B);
                assert_int_equal(kind_computed_of(&A, T.turns[T.n_turns - 2].end), 0);
                kind_say(&r, c, 9, &A);
                assert_int_equal(kind_computed_of(&A, end - 1), 0);
                kind_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_regenerate),
                cmocka_unit_test(test_return),
                cmocka_unit_test(test_rewind_to_each),
                cmocka_unit_test(test_fork_at_each),
                cmocka_unit_test(test_rewind_between),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_branch),
                cmocka_unit_test(test_publish),
                cmocka_unit_test(test_pressure),
                cmocka_unit_test(test_undone),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
