/* SPDX-License-Identifier: MIT */
/* Threads: every task runs once, also when workers sleep between regions. */
#include "kern-util.h"
#include "base/clock.h"
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define N_TASKS_MAX 1000

struct count {
        unsigned n_threads;
        _Atomic unsigned n[N_TASKS_MAX];
        size_t plain; /* written by one task, read after the region */
};

static void count_task(void *arg, size_t task, unsigned thread) {
        struct count *c = arg;

        assert_true(thread < c->n_threads);
        atomic_fetch_add(&c->n[task], 1);
        if (task == 0)
                c->plain++;
}

static void region(struct kern *k, struct count *c, size_t n_tasks) {
        c->plain = 0;
        for (size_t i = 0; i < n_tasks; i++)
                atomic_store_explicit(&c->n[i], 0, memory_order_relaxed);
        kern_run(k, n_tasks, count_task, c);
        assert_true(c->plain == (n_tasks > 0));
        for (size_t i = 0; i < n_tasks; i++)
                assert_int_equal(atomic_load_explicit(&c->n[i], memory_order_relaxed), 1);
}

static void test_run(void **state) {
        static const size_t n_tasks[] = {0, 1, 2, 3, 5, 100, N_TASKS_MAX};

        for (unsigned n = 1; n <= 4; n++) {
                struct count c = {.n_threads = n};
                struct kern *k = NULL;

                assert_int_equal(kern_new(&k, n, KERN_N_ISA, NULL), 0);
                assert_int_equal(kern_n_threads(k), n);
                for (int i = 0; i < 700; i++)
                        region(k, &c, n_tasks[i % 7]);
                kern_free(k);
        }
}

/* Pauses longer than the spin make workers sleep and the caller wake them. */
static void test_wake(void **state) {
        struct count c = {.n_threads = 3};
        struct kern *k = NULL;

        assert_int_equal(kern_new(&k, 3, KERN_GENERIC, NULL), 0);
        for (int i = 0; i < 100; i++) {
                uint64_t end = clock_monotonic_usec() + (i % 3 ? 60 : 0);

                while (clock_monotonic_usec() < end)
                        ;
                region(k, &c, 7);
        }
        kern_free(k);
}

/* One task outlasts the caller's spin. */
static void slow_task(void *arg, size_t task, unsigned thread) {
        uint64_t end = clock_monotonic_usec() + (thread > 0 ? 200 : 1);

        while (clock_monotonic_usec() < end)
                ;
        atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

/* The caller's task ends when a worker has begun the other one, which lasts far longer than the
 * caller spins. */
struct last {
        _Atomic bool begun;
        _Atomic unsigned n_ended;
};

static void last_task(void *arg, size_t task, unsigned thread) {
        struct last *last = arg;

        if (thread > 0) {
                atomic_store(&last->begun, true);
                usleep(5000);
        } else {
                while (!atomic_load(&last->begun))
                        sched_yield();
        }
        atomic_fetch_add(&last->n_ended, 1);
}

static void test_last_worker(void **state) {
        struct kern *k = NULL;

        assert_int_equal(kern_new(&k, 2, KERN_GENERIC, NULL), 0);
        for (int i = 0; i < 5; i++) {
                struct last last = {0};

                kern_run(k, 2, last_task, &last);
                assert_int_equal(atomic_load(&last.n_ended), 2);
        }
        kern_free(k);
}

static void test_slow_worker(void **state) {
        struct kern *k = NULL;

        assert_int_equal(kern_new(&k, 2, KERN_GENERIC, NULL), 0);
        for (int i = 0; i < 50; i++) {
                _Atomic unsigned n = 0;

                kern_run(k, 60, slow_task, &n);
                assert_int_equal(n, 60);
        }
        kern_free(k);
}

/* The tasks of a region as each thread ran them. One thread is stuck in its first task until all others are done. */
#define N_DEALT 12
#define PATIENCE_USEC 20000000
struct dealt {
        unsigned stuck; /* thread */
        size_t tasks[2][N_DEALT];
        size_t n[2]; /* of each thread; written by it alone */
        _Atomic size_t n_done;
        _Atomic bool begun, alone;
};

static void dealt_task(void *arg, size_t task, unsigned thread) {
        struct dealt *d = arg;
        uint64_t end = clock_monotonic_usec() + PATIENCE_USEC;
        bool first = d->n[thread] == 0;

        d->tasks[thread][d->n[thread]++] = task;
        if (thread == d->stuck && first) {
                atomic_store(&d->begun, true);
                while (atomic_load(&d->n_done) < N_DEALT - 1 && clock_monotonic_usec() < end)
                        sched_yield();
                atomic_store(&d->alone, atomic_load(&d->n_done) < N_DEALT - 1);
        } else {
                /* the stuck one is to have begun */
                while (!atomic_load(&d->begun) && clock_monotonic_usec() < end)
                        sched_yield();
        }
        atomic_fetch_add(&d->n_done, 1);
}

/* A thread has its own half in order; the other one takes what is left of it, from the end. */
static void test_taken_over(void **state) {
        struct kern *k = NULL;

        assert_int_equal(kern_new(&k, 2, KERN_GENERIC, NULL), 0);
        for (unsigned i = 0; i < 20; i++) {
                struct dealt d = {.stuck = i % 2};
                size_t other = 1 - d.stuck, half = N_DEALT / 2;

                kern_run(k, N_DEALT, dealt_task, &d);
                assert_true(!d.alone);
                assert_int_equal(d.n[d.stuck], 1);
                assert_int_equal(d.tasks[d.stuck][0], d.stuck * half);
                assert_int_equal(d.n[other], N_DEALT - 1);
                for (size_t t = 0; t < half; t++)
                        assert_int_equal(d.tasks[other][t], other * half + t);
                for (size_t t = half; t < N_DEALT - 1; t++)
                        assert_int_equal(d.tasks[other][t], d.stuck * half + N_DEALT - 1 - t);
        }
        kern_free(k);
}

static void test_new(void **state) {
        struct kern *k = NULL;
        struct err e;

        assert_int_equal(kern_new(&k, 0, KERN_N_ISA, &e), -ERR_INVALID);
        assert_int_equal(kern_new(&k, 100000, KERN_N_ISA, &e), -ERR_INVALID);
        assert_null(k);
        assert_null(kern_free(NULL));
        assert_string_equal(kern_isa_name(KERN_GENERIC), "generic");
        assert_string_equal(kern_isa_name((enum kern_isa)99), "unknown");
        for (int i = 0; i < 20; i++) {
                assert_int_equal(kern_new(&k, 3, KERN_N_ISA, &e), 0);
                assert_int_equal(kern_isa(k), kern_cpu_isa());
                k = kern_free(k);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_run),
                cmocka_unit_test(test_wake),
                cmocka_unit_test(test_slow_worker),
                cmocka_unit_test(test_last_worker),
                cmocka_unit_test(test_taken_over),
                cmocka_unit_test(test_new),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
