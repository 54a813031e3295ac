/* SPDX-License-Identifier: MIT */
#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "util/sanitize.h"
#include "util/test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

static void test_exact(void **state) {
        struct ledger l = LEDGER_INIT(100);

        assert_int_equal(ledger_reserve(&l, 60), 0);
        assert_int_equal(ledger_reserve(&l, 41), 1);
        assert_int_equal(ledger_used(&l), 60);
        assert_int_equal(ledger_reserve(&l, 40), 0);
        assert_int_equal(ledger_reserve(&l, 1), 1);
        assert_int_equal(ledger_reserve(&l, 0), 0);
        assert_int_equal(ledger_reserve(&l, SIZE_MAX), 1);
        assert_int_equal(ledger_used(&l), 100);
        assert_int_equal(ledger_peak(&l), 100);
        ledger_release(&l, 70);
        assert_int_equal(ledger_used(&l), 30);
        assert_int_equal(ledger_peak(&l), 100);
}

static void test_shrink(void **state) {
        struct ledger l = LEDGER_INIT(100);

        assert_int_equal(ledger_reserve(&l, 80), 0);
        ledger_set_budget(&l, 50);
        assert_int_equal(ledger_budget(&l), 50);
        assert_int_equal(ledger_used(&l), 80);
        assert_int_equal(ledger_reserve(&l, 1), 1);
        ledger_release(&l, 40);
        assert_int_equal(ledger_reserve(&l, 11), 1);
        assert_int_equal(ledger_reserve(&l, 10), 0);
        ledger_set_budget(&l, SIZE_MAX);
        assert_int_equal(ledger_reserve(&l, SIZE_MAX - 50), 0);
        assert_int_equal(ledger_reserve(&l, 1), 1);
}

#define THREADS 4
#define ROUNDS 20000
#define BUDGET 7
/* The moment that this is about is short: of a ledger without the lock, one run in ten hits it.
 */
#define SHRINKS (TEST_SANITIZED ? 20000u : 300000u)

static void *worker(void *arg) {
        struct ledger *l = arg;

        for (int i = 0; i < ROUNDS; i++) {
                if (ledger_reserve(l, 3) == 0) {
                        if (ledger_used(l) > BUDGET)
                                return l;
                        ledger_release(l, 3);
                }
        }
        return NULL;
}

static void test_threads_never_exceed(void **state) {
        struct ledger l = LEDGER_INIT(BUDGET);
        pthread_t threads[THREADS];
        void *bad;

        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, worker, &l), 0);
        for (int i = 0; i < THREADS; i++) {
                assert_int_equal(pthread_join(threads[i], &bad), 0);
                assert_null(bad);
        }
        assert_int_equal(ledger_used(&l), 0);
        assert_true(ledger_peak(&l) <= BUDGET);
}

static void test_shrink_to_used(void **state) {
        struct ledger l = LEDGER_INIT(100);

        assert_int_equal(ledger_reserve(&l, 60), 0);
        assert_int_equal(ledger_shrink(&l, 80), 80);
        assert_int_equal(ledger_shrink(&l, 50), 60);
        assert_int_equal(ledger_budget(&l), 60);
        assert_int_equal(ledger_reserve(&l, 1), 1);
        ledger_release(&l, 60);
        /* It only ever lowers. */
        assert_int_equal(ledger_shrink(&l, 70), 60);
        assert_int_equal(ledger_shrink(&l, 0), 0);
        assert_int_equal(ledger_reserve(&l, 1), 1);
}

/* What does not fit now but did before is told as such: it is worth another try. */
static void test_charge_tells_for_ever(void **state) {
        struct ledger l = LEDGER_INIT(100);
        struct charge c = {.ledger = &l};
        struct err e;

        assert_int_equal(charge_take(&c, 101, "x", &e), -ERR_TOO_LARGE);
        ledger_set_budget(&l, 50);
        assert_int_equal(charge_take(&c, 80, "x", &e), -ERR_LIMIT);
        assert_int_equal(charge_take(&c, 101, "x", &e), -ERR_TOO_LARGE);
        assert_int_equal(charge_take(&c, 30, "x", &e), 0);
        assert_int_equal(charge_take(&c, 70, "x", &e), -ERR_LIMIT);
        assert_int_equal(charge_take(&c, 71, "x", &e), -ERR_TOO_LARGE);
        charge_deinit(&c);
        assert_int_equal(ledger_used(&l), 0);
}

/* What was taken out of a budget is somebody else's: no reservation that was under way spends it.
 */
struct spender {
        struct ledger ledger;
        _Atomic bool over;
};

static void *spend(void *arg) {
        struct spender *s = arg;

        for (unsigned i = 0; !s->over; i++) {
                if (ledger_reserve(&s->ledger, 60) == 0)
                        ledger_release(&s->ledger, 60);
                if (i % 64 == 0) /* mostly it is preempted anywhere */
                        sched_yield();
        }
        return NULL;
}

static void test_shrink_is_one_step(void **state) {
        struct spender s = {.ledger = LEDGER_INIT(100)};
        pthread_t threads[THREADS];
        size_t shrunk = 0;

        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, spend, &s), 0);
        while (shrunk < SHRINKS) {
                if (ledger_shrink(&s.ledger, 50) == 50) {
                        shrunk++;
                        for (int k = 0; k < 20; k++)
                                assert_true(ledger_used(&s.ledger) <= 50);
                } else {
                        sched_yield();
                }
                ledger_set_budget(&s.ledger, 100);
        }
        s.over = true;
        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(ledger_used(&s.ledger), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exact),
                cmocka_unit_test(test_shrink),
                cmocka_unit_test(test_shrink_to_used),
                cmocka_unit_test(test_charge_tells_for_ever),
                cmocka_unit_test(test_threads_never_exceed),
                cmocka_unit_test(test_shrink_is_one_step),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
