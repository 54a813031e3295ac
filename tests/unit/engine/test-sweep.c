/* SPDX-License-Identifier: MIT */
/*
 * Throw-away conversations: closed when nobody has used them for so long, not while they are used, the
 * oldest first where there are too many. Time is made up.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/about.h"
#include "base/clock.h"
#include "edit-rig.h"
#include "rig.h"
#include "util/test.h"

#define SECOND 1000000u

static struct answer A, B;
static atomic_uint_fast64_t ahead; /* of the real time, in microseconds */

uint64_t __real_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void) {
        return __real_clock_realtime_usec() + ahead;
}
uint64_t __real_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void) {
        return __real_clock_monotonic_usec() + ahead;
}

static uint64_t make(struct erig *r, uint32_t seconds) {
        static const struct about never = {0};
        struct about about = {.has = ABOUT_EXPIRES, .expires_after = seconds};
        struct engine_request q = erig_request(ENGINE_OPEN, 0);

        q.about = seconds ? &about : &never;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        return A.conv.id;
}

static void expires(struct erig *r, uint64_t c, uint32_t seconds) {
        const struct about about = {.has = ABOUT_EXPIRES, .expires_after = seconds};
        struct engine_request q = erig_request(ENGINE_UPDATE, c);

        q.about = &about;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
}

static bool is_there(struct erig *r, uint64_t c) {
        return erig_simple(r, ENGINE_GET, c, &B) == ENGINE_CONV;
}

/* So much later; until a look at the register of then is over. */
static void later(struct erig *r, uint64_t seconds, uint64_t n_expired) {
        ahead += seconds * SECOND;
        erig_wait_stat(r, "conversations_expired", n_expired);
}

static int reset(void **state) {
        ahead = 0;
        return 0;
}

/* Those that are due, and no others; after a restart, too. */
static void test_due(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t kept, soon, late, marked, unmarked;
        struct erig r;

        erig_open(&r, &o);
        kept = make(&r, 0);
        soon = make(&r, 100);
        late = make(&r, 10000);
        marked = make(&r, 0);
        unmarked = make(&r, 100);
        expires(&r, marked, 100);
        expires(&r, unmarked, 0);
        later(&r, 101, 2);
        assert_true(is_there(&r, kept) && is_there(&r, late) && is_there(&r, unmarked));
        assert_false(is_there(&r, soon) || is_there(&r, marked));
        erig_restart(&r, true);
        later(&r, 10000, 1);
        assert_false(is_there(&r, late));
        assert_true(is_there(&r, kept) && is_there(&r, unmarked));
        erig_check_register(&r);
        erig_close(&r);
}

/* Whoever uses it has it: while a reply is written, and for as long after its end. */
static void test_used(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = make(&r, 100);
        d = make(&r, 100);
        q = erig_long_request(c, "Tell me a story.", 60);
        edit_send_and_hold(&r, &q, 0, &A);
        edit_walk(&r, &A, 3);
        engine_pause(r.en, q.handle, true);
        gate_open(&edit_step_gate);
        later(&r, 1000, 1); /* the other one */
        assert_false(is_there(&r, d));
        assert_true(is_there(&r, c));
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        /* Reading its memory is use as well, though nothing changes. */
        ahead += (uint64_t)60 * SECOND;
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &B), ENGINE_CONV);
        d = make(&r, 50);
        later(&r, 60, 2);
        assert_false(is_there(&r, d));
        assert_true(is_there(&r, c));
        later(&r, 101, 3);
        assert_false(is_there(&r, c));
        erig_check_empty(&r);
        erig_close(&r);
}

/* Too many of one owner: the oldest go, of this owner alone. */
static void test_too_many(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct about about = {.has = ABOUT_EXPIRES, .expires_after = 100000};
        uint64_t ids[9], other;
        struct engine_request q;
        struct erig r;

        o.max_throwaways_per_owner = 4;
        erig_open(&r, &o);
        q = erig_request(ENGINE_OPEN, 0);
        q.owner = 7;
        q.about = &about;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        other = A.conv.id;
        for (size_t i = 0; i < 9; i++) {
                ahead += SECOND;
                ids[i] = make(&r, 100000);
        }
        erig_wait_stat(&r, "conversations_expired", 5);
        for (size_t i = 0; i < 9; i++)
                assert_int_equal(is_there(&r, ids[i]), i >= 5);
        q = erig_request(ENGINE_GET, other);
        q.owner = 7;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        /* Used lately counts. */
        erig_say(&r, ids[5], "Hello.", 2, &A);
        ahead += SECOND;
        (void)make(&r, 100000);
        erig_wait_stat(&r, "conversations_expired", 6);
        assert_true(is_there(&r, ids[5]));
        assert_false(is_there(&r, ids[6]));
        erig_close(&r);
}

/* Hundreds at once, over several pages. */
static void test_many(void **state) {
        enum { N = 150 };
        struct engine_options o = erig_options(64 << 20);
        uint64_t kept;
        struct erig r;

        erig_open(&r, &o);
        for (size_t i = 0; i < N; i++)
                (void)make(&r, 100);
        kept = make(&r, 0);
        later(&r, 101, N);
        assert_true(is_there(&r, kept));
        assert_int_equal(erig_stat(&r, "conversations_expired"), N);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_due, reset),
                cmocka_unit_test_setup(test_used, reset),
                cmocka_unit_test_setup(test_too_many, reset),
                cmocka_unit_test_setup(test_many, reset),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
