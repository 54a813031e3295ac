/* SPDX-License-Identifier: MIT */
#include "base/thread.h"
#include "util/cpus.h"
#include "util/test.h"
#include <signal.h>

/* The signals that the thread blocks. */
static void *look(void *arg) {
        pthread_sigmask(SIG_BLOCK, NULL, arg);
        return arg;
}

static void test_no_signals(void **state) {
        static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD};
        sigset_t before, inside, after;
        pthread_t thread;
        void *end;

        (void)state;
        sigemptyset(&before);
        sigaddset(&before, SIGALRM);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        assert_int_equal(thread_start(&thread, NULL, look, &inside), 0);
        pthread_sigmask(SIG_BLOCK, NULL, &after);
        assert_int_equal(pthread_join(thread, &end), 0);
        assert_ptr_equal(end, &inside);
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                assert_int_equal(sigismember(&inside, signals[i]), 1);
                assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
        }
}

/* --- parts of the processors --- */

struct part {
        unsigned k, n;
        bool kept;
        cpu_set_t before, inside, after;
};

static void *keep(void *arg) {
        struct part *p = arg;

        sched_getaffinity(0, sizeof(p->before), &p->before);
        p->kept = thread_keep_to_part(p->k, p->n);
        sched_getaffinity(0, sizeof(p->inside), &p->inside);
        thread_keep_to_all();
        sched_getaffinity(0, sizeof(p->after), &p->after);
        return NULL;
}

static struct part keep_to_part(unsigned k, unsigned n) {
        struct part p = {.k = k, .n = n};
        pthread_t thread;

        assert_int_equal(thread_start(&thread, NULL, keep, &p), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        return p;
}

static void test_parts(void **state) {
        cpu_set_t all, both;
        struct part a, b, again;

        (void)state;
        test_limit_cpus(2, &all);
        a = keep_to_part(0, 2);
        b = keep_to_part(1, 2);
        assert_true(a.kept && b.kept);
        assert_int_equal(CPU_COUNT(&a.inside), 1);
        assert_int_equal(CPU_COUNT(&b.inside), 1);
        CPU_OR(&both, &a.inside, &b.inside);
        assert_true(CPU_EQUAL(&both, &a.before));
        assert_true(CPU_EQUAL(&a.after, &a.before));
        assert_true(CPU_EQUAL(&b.after, &b.before));
        /* Fewer processors than parts. */
        again = keep_to_part(3, 4);
        assert_true(again.kept);
        assert_true(CPU_EQUAL(&again.inside, &b.inside));
        test_restore_cpus(&all);
}

static void test_one_processor(void **state) {
        cpu_set_t all;
        struct part p;

        (void)state;
        test_limit_cpus(1, &all);
        p = keep_to_part(1, 2);
        assert_false(p.kept);
        assert_true(CPU_EQUAL(&p.inside, &p.before));
        assert_true(CPU_EQUAL(&p.after, &p.before));
        test_restore_cpus(&all);
}

/* A thread that has inherited one processor, when the first thread may run on more. */
struct late {
        pthread_barrier_t widened;
        struct part part;
};

static void *keep_late(void *arg) {
        struct late *l = arg;

        pthread_barrier_wait(&l->widened);
        return keep(&l->part);
}

static void test_parts_of_first_now(void **state) {
        struct late l = {.part = {.n = 2}};
        pthread_t thread;
        cpu_set_t all;

        (void)state;
        test_limit_cpus(1, &all);
        pthread_barrier_init(&l.widened, NULL, 2);
        assert_int_equal(thread_start(&thread, NULL, keep_late, &l), 0);
        test_restore_cpus(&all);
        pthread_barrier_wait(&l.widened);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_barrier_destroy(&l.widened);
        assert_int_equal(CPU_COUNT(&l.part.before), 1);
        assert_int_equal(l.part.kept, CPU_COUNT(&all) > 1);
        assert_true(CPU_EQUAL(&l.part.after, &all));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_signals),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_one_processor),
                cmocka_unit_test(test_parts_of_first_now),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
