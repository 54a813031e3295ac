/* SPDX-License-Identifier: MIT */
#include "base/thread.h"
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_signals),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
