/* SPDX-License-Identifier: MIT */
/* Drain: no new work, what runs ends, memory is on disk; and back. */
#include <string.h>

#include "base/util.h"

#include "edit-rig.h"
#include "rig.h"
#include "util/test.h"

static struct answer A, B, reply;

static struct engine_request drain_request(void) {
        return (struct engine_request){.verb = ENGINE_DRAIN, .admin = true};
}

static enum engine_event_kind drain_off(struct erig *r) {
        struct engine_request q = drain_request();

        q.off = true;
        return erig_do(r, &q, &A);
}

/* Everything that works is refused, and says how to have it back; what reads is not. */
static void check_refused(struct erig *r, uint64_t c) {
        static const enum engine_verb work[] = {
                ENGINE_OPEN, ENGINE_CONTINUE, ENGINE_FORK, ENGINE_WARM, ENGINE_CARRY};
        static const enum engine_verb other[] = {
                ENGINE_GET, ENGINE_LIST, ENGINE_EXPORT, ENGINE_EVICT, ENGINE_MODEL_INFO};
        struct engine_request q;

        for (size_t i = 0; i < ARRAY_SIZE(work); i++) {
                assert_int_equal(erig_simple(r, work[i], c, &B), ENGINE_ERROR);
                assert_int_equal(B.err.code, ERR_SHUTDOWN);
                assert_true(err_may_pass(&B.err));
                assert_non_null(strstr(B.err.msg, "drain --off"));
        }
        q = edit_request(c, 1, "again", 4);
        assert_int_equal(erig_do(r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_SHUTDOWN);
        for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
                assert_int_not_equal(erig_simple(r, other[i], c, &B), ENGINE_ERROR);
                answer_reset(&B);
        }
}

static void test_idle(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = drain_request();
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "a", NULL);
        erig_say(&r, c, "Hello there, old friend.", 4, &A);
        assert_true(erig_stat(&r, "pool_blocks") > 0);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DRAINED);
        assert_int_equal(A.n_requests, 0);
        assert_int_equal(erig_stat(&r, "conversations_resident"), 0);
        assert_int_equal(erig_stat(&r, "draining"), 1);
        check_refused(&r, c);
        /* Once more. */
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DRAINED);
        assert_int_equal(drain_off(&r), ENGINE_DRAINED);
        assert_int_equal(erig_stat(&r, "draining"), 0);
        erig_say(&r, c, "And again.", 4, &A);
        assert_int_equal(A.n_computed + A.n_disk, A.n_prompt - A.n_ram);
        assert_true(A.n_disk > 0);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DRAINED);
        erig_restart(&r, true);
        assert_int_equal(erig_stat(&r, "draining"), 0);
        erig_close(&r);
}

/* A reply that is being written goes on to its end; the answer comes after it. */
static void test_waits(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, drain = drain_request();
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "a", NULL);
        q = erig_long_request(c, "Tell me a story.", 12);
        edit_send_and_hold(&r, &q, 0, &reply);
        edit_walk(&r, &reply, 3);
        erig_send(&r, &drain, &A);
        gate_open(&edit_step_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DRAINED);
        assert_int_equal(A.n_requests, 0);
        erig_take_all(&r);
        assert_true(reply.final); /* before */
        assert_int_equal(reply.finish, ENGINE_FINISH_LENGTH);
        assert_int_equal(reply.n_generated, 12);
        erig_close(&r);
}

/* The time is over: it is cancelled, and what was said stays. */
static void test_timeout(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, drain = drain_request();
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "a", NULL);
        q = erig_long_request(c, "Tell me a story.", 400);
        edit_send_and_hold(&r, &q, 0, &reply);
        edit_walk(&r, &reply, 3);
        drain.has_timeout = true;
        erig_send(&r, &drain, &A);
        gate_open(&edit_step_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DRAINED);
        assert_int_equal(A.n_requests, 1);
        erig_take_all(&r);
        assert_int_equal(reply.kind, ENGINE_DONE);
        assert_int_equal(reply.finish, ENGINE_FINISH_CANCELLED);
        assert_true(reply.n_generated >= 3 && reply.n_generated < 400);
        erig_close(&r);
}

/* Who stops waiting takes nothing back; `off` ends what waits. */
static void test_stopped_waiting(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, drain = drain_request();
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "a", NULL);
        q = erig_long_request(c, "Tell me a story.", 400);
        edit_send_and_hold(&r, &q, 0, &reply);
        edit_walk(&r, &reply, 3);
        erig_send(&r, &drain, &A);
        engine_cancel(r.en, drain.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.err.code, ERR_CANCELLED);
        assert_non_null(strstr(A.err.msg, "no new work is taken"));
        assert_int_equal(erig_stat(&r, "draining"), 1);
        erig_send(&r, &drain, &B);
        assert_int_equal(drain_off(&r), ENGINE_DRAINED);
        erig_wait(&r, &B);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &reply);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle),
                cmocka_unit_test(test_waits),
                cmocka_unit_test(test_timeout),
                cmocka_unit_test(test_stopped_waiting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
