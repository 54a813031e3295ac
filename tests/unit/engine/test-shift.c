/* SPDX-License-Identifier: MIT */
/*
 * Overflow "shift" (conv/shift.c): old turns leave the memory and not the transcript, and what is
 * computed then is what a fresh conversation with these tokens computes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "link-rig.h"
#include "shift-rig.h"
#include "util/test.h"

static const char system_text[] = "You are a helpful assistant who knows all animals.";
static struct answer A, B, T, many[4];

static const struct engine_turn *turn_at(const struct answer *whole, uint32_t start) {
        for (uint32_t i = 0; i < whole->n_turns; i++)
                if (whole->turns[i].start == start)
                        return &whole->turns[i];
        return NULL;
}

/* What the rules of conv/shift.c promise of the place. */
static void check_place(const struct answer *whole, uint32_t front) {
        uint32_t to = whole->conv.dropped_to;
        const struct engine_turn *t = turn_at(whole, to);

        assert_int_equal(whole->conv.dropped_from, front);
        assert_true(to > front);
        assert_non_null(t);
        assert_int_equal(t->role, ENGINE_USER);
        /* All of it is told. */
        assert_int_equal(whole->n_history, whole->conv.n_tokens);
        for (uint32_t i = 0, end = 0; i < whole->n_turns; i++) {
                assert_int_equal(whole->turns[i].start, end);
                assert_true(whole->turns[i].role == ENGINE_SYSTEM || whole->turns[i].text_size > 0);
                end = whole->turns[i].end;
        }
}

static void test_long_conversation(void **state) {
        struct engine_options o = shift_options(64 << 20);
        uint32_t front, last = 0;
        unsigned n_shifts = 0;
        struct erig r;
        uint64_t c;

        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        erig_get(&r, c, &T);
        front = T.conv.n_tokens;
        assert_int_equal(T.conv.dropped_to, 0);
        for (unsigned k = 0; k < 40; k++) {
                shift_say(&r, c, k, &A);
                erig_get(&r, c, &T);
                assert_int_equal(T.n_turns, 3 + 2 * k);
                if (A.n_dropped == 0) {
                        assert_int_equal(T.conv.dropped_to, last);
                        continue;
                }
                n_shifts++;
                check_place(&T, front);
                /* In one step, and told: what stays is at most half, and it is computed again. */
                assert_int_equal(A.n_dropped, T.conv.dropped_to - (last > 0 ? last : front));
                assert_true(T.turns[T.n_turns - 2].start - T.conv.dropped_to + front <=
                            SHIFT_CONTEXT / 2);
                assert_true(A.n_ram <= front);
                assert_true(A.n_computed >= A.n_prompt - front);
                assert_int_equal(A.differs_why, ENGINE_DIFFERS_SHIFTED);
                assert_true(A.differs_at <= front);
                last = T.conv.dropped_to;
        }
        assert_int_equal(erig_stat(&r, "memory_shifts"), n_shifts);
        print_message("%u shifts in 40 messages, %u tokens\n", n_shifts, T.conv.n_tokens);
        assert_true(n_shifts >= 4 && n_shifts <= 16);
        erig_check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        shift_close(&r);
}

/* Evicted, restarted, killed, warmed, forked between any two messages: the same replies. */
static void test_residency(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct erig r;
        uint64_t c, d;

        o.spill_delay_ms = UINT32_MAX;
        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        for (unsigned k = 0; k < 24; k++) {
                struct engine_request q = shift_request(c, k), twin;

                switch (k % 6) {
                case 0:
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                        break;
                case 1:
                        erig_restart(&r, true);
                        break;
                case 2:
                        erig_restart(&r, false);
                        break;
                case 3:
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
                        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
                        break;
                default:
                        break;
                }
                d = erig_fork(&r, c);
                if (k % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, NULL), ENGINE_CONV);
                twin = q;
                twin.conv_id = d;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                shift_check_reply(&r, c, &A);
                assert_int_equal(erig_do(&r, &twin, &B), ENGINE_DONE);
                shift_check_reply(&r, d, &B);
                answer_same(&A, &B);
                assert_int_equal(A.n_dropped, B.n_dropped);
                if (k % 5 == 0)
                        erig_check_register(&r);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        }
        assert_true(erig_stat(&r, "memory_shifts") > 0);
        erig_check_register(&r);
        shift_close(&r);
}

/* Several at once in a small pool, with write-behind at once, and small steps. */
static void test_crowd(void **state) {
        struct engine_options o = shift_options(0);
        struct engine_request q[4];
        uint64_t c[4];
        struct erig r;

        o.pool_size = erig_pool(2 * SHIFT_CONTEXT / 32);
        o.context = SHIFT_CONTEXT;
        o.spill_delay_ms = 0;
        o.batch_tokens = 24;
        o.max_active = 3;
        shift_open(&r, &o);
        for (unsigned i = 0; i < 4; i++)
                c[i] = shift_new(&r, system_text);
        for (unsigned k = 0; k < 16; k++) {
                for (unsigned i = 0; i < 4; i++) {
                        q[i] = shift_request(c[i], k + i / 2); /* two and two say the same */
                        q[i].owner = 0;
                }
                erig_do_all(&r, q, many, 4);
                for (unsigned i = 0; i < 4; i++) {
                        assert_int_equal(many[i].kind, ENGINE_DONE);
                        shift_check_reply(&r, c[i], &many[i]);
                }
        }
        assert_true(erig_stat(&r, "memory_shifts") >= 4);
        erig_check_register(&r);
        shift_close(&r);
}

/* A plain conversation with the tokens of a shifted memory takes over its blocks, and the other way
 * round; in RAM and on disk. A conversation with the transcript's tokens takes only the front. */
static void test_sharing(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        int32_t *memory;
        uint32_t n, front;
        uint64_t c, d;

        o.spill_delay_ms = UINT32_MAX;
        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        shift_fill(&r, c, &A);
        for (unsigned disk = 0; disk < 2; disk++) {
                erig_get(&r, c, &T);
                front = T.conv.dropped_from;
                memory = shift_memory(&T, &n);
                if (disk)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                d = erig_new(&r, NULL, NULL);
                q = erig_long_request(d, "", 4);
                q.input = ENGINE_INPUT_TOKENS;
                q.tokens = memory;
                q.n_tokens = n;
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                assert_int_equal((disk ? B.n_disk : B.n_shared), (n - 1) / 32 * 32);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
                d = erig_new(&r, NULL, NULL);
                q.conv_id = d;
                q.tokens = T.history;
                q.n_tokens = MIN(T.n_history, 200u);
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                assert_int_equal(B.n_shared + B.n_disk, front / 32 * 32);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
                free(memory);
        }
        /* The other way round: a fork shifts, and then its parent finds the memory. */
        c = shift_new(&r, "Another one, who knows nothing about animals, but stones.");
        do {
                q = shift_request(c, 3);
                d = erig_fork(&r, c);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                q.conv_id = d;
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                answer_same(&A, &B);
        } while (A.n_dropped == 0);
        assert_true(B.n_shared >= (B.n_prompt - 1) / 32 * 32 - 32);
        shift_check_reply(&r, d, &B);
        shift_close(&r);
}

/* Another reply in place of the last one, so long that there is no room for it. */
static struct engine_request longer_reply(uint64_t conv, uint32_t at_turn) {
        struct engine_request q = edit_request(conv, at_turn, "", 400);

        q.ignore_eos = true;
        return q;
}

/* A reply that is cancelled while it computes the shortened memory has dropped nothing. */
static void test_cancelled(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;
        unsigned k;

        o.batch_tokens = 4;
        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        d = erig_fork(&r, c);
        k = shift_fill(&r, d, &A);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        for (unsigned i = 0; i + 1 < k; i++)
                shift_say(&r, c, i, &B);
        erig_get(&r, c, &T);
        d = erig_fork(&r, c);
        q = longer_reply(d, T.n_turns - 1);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_true(A.n_dropped > 0);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        for (unsigned evicted = 0; evicted < 2; evicted++) {
                if (evicted)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                erig_get(&r, c, &T);
                q = longer_reply(c, T.n_turns - 1);
                edit_send_and_hold(&r, &q, 5, &B);
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
                erig_wait(&r, &B);
                assert_int_equal(B.kind, ENGINE_ERROR);
                assert_int_equal(B.err.code, ERR_CANCELLED);
                edit_check_as_before(&r, c, &T);
        }
        erig_check_register(&r);
        q = longer_reply(c, T.n_turns - 1);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        answer_same(&A, &B);
        assert_int_equal(A.n_dropped, B.n_dropped);
        shift_close(&r);
}

/* Once it is accepted, the message is there, and what it dropped is dropped. */
static void test_cancelled_accepted(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;
        unsigned k;

        o.batch_tokens = 4;
        shift_open(&r, &o);
        c = shift_new(&r, system_text);
        d = erig_fork(&r, c);
        k = shift_fill(&r, d, &A);
        for (unsigned i = 0; i + 1 < k; i++)
                shift_say(&r, c, i, &B);
        q = shift_request(c, k - 1);
        edit_send_and_hold(&r, &q, 2, &B);
        engine_cancel(r.en, q.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &B);
        edit_check_unanswered(&r, c, &B);
        assert_int_equal(A.n_dropped, B.n_dropped);
        q = edit_answer(c, 12);
        q.ignore_eos = true;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        answer_same(&A, &B);
        erig_check_register(&r);
        shift_close(&r);
}

/* A link transaction of write-behind is under way when a request finds out that it has to shift: it
 * waits for it. A fork of a conversation that is shifting is refused. */
static void test_links(void **state) {
        struct engine_options o = shift_options(64 << 20);
        struct engine_request q, fork;
        struct erig r;
        uint64_t c, d;
        unsigned k;

        o.batch_tokens = 4;
        o.spill_delay_ms = 0;
        shift_open(&r, &o);
        d = shift_new(&r, system_text);
        k = shift_fill(&r, d, &A);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        c = shift_new(&r, system_text);
        for (unsigned i = 0; i + 2 < k; i++)
                shift_say(&r, c, i, &B);
        gate_close(&link_gate, 0);
        shift_say(&r, c, k - 2, &B);
        gate_wait(&link_gate); /* the memory of this message is being linked */
        q = shift_request(c, k - 1);
        erig_send(&r, &q, &B);
        /* So long it can be forked: nothing has been changed. */
        for (int i = 0; i < 3; i++)
                assert_int_equal(
                        erig_simple(&r, ENGINE_CLOSE, erig_fork(&r, c), NULL), ENGINE_EMPTY);
        assert_int_equal(erig_stat(&r, "memory_shifts"), 1); /* of the other one */
        gate_close(&edit_step_gate, 3);
        gate_open(&link_gate);
        gate_wait(&edit_step_gate);
        fork = erig_request(ENGINE_FORK, c);
        erig_send(&r, &fork, &many[0]);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[0]);
        /* Once the message is stored, so is what it dropped. */
        assert_true(many[0].kind == ENGINE_CONV || many[0].err.code == ERR_BUSY);
        erig_wait(&r, &B);
        answer_same(&A, &B);
        assert_int_equal(erig_stat(&r, "memory_shifts"), 2);
        erig_check_register(&r);
        shift_say(&r, c, k, &B);
        shift_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_long_conversation),
                cmocka_unit_test(test_residency),
                cmocka_unit_test(test_crowd),
                cmocka_unit_test(test_sharing),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_cancelled_accepted),
                cmocka_unit_test(test_links),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
