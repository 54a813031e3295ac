/* SPDX-License-Identifier: MIT */
/* The threads that close descriptors, where the system gives none, or only with a larger stack. */
#include "daemon/closer.h"
#include "base/err.h"
#include "util/test.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* PTHREAD_STACK_MIN of aarch64. */
#define LARGE_STACK (128u << 10)

static bool no_threads, large_stacks, takes_signals;

int __real_pthread_create(
        pthread_t *thread, const pthread_attr_t *attr, void *(*f)(void *), void *arg);
int __wrap_pthread_create(
        pthread_t *thread, const pthread_attr_t *attr, void *(*f)(void *), void *arg);
int __real_pthread_attr_setstacksize(pthread_attr_t *attr, size_t size);
int __wrap_pthread_attr_setstacksize(pthread_attr_t *attr, size_t size);
long __real_sysconf(int name);
long __wrap_sysconf(int name);

int __wrap_pthread_create(
        pthread_t *thread, const pthread_attr_t *attr, void *(*f)(void *), void *arg) {
        sigset_t mask; /* which the new thread inherits */

        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        takes_signals = takes_signals || sigismember(&mask, SIGTERM) == 0;
        return no_threads ? EAGAIN : __real_pthread_create(thread, attr, f, arg);
}

int __wrap_pthread_attr_setstacksize(pthread_attr_t *attr, size_t size) {
        return large_stacks && size < LARGE_STACK ? EINVAL
                                                  : __real_pthread_attr_setstacksize(attr, size);
}

long __wrap_sysconf(int name) {
        return large_stacks && name == _SC_THREAD_STACK_MIN ? LARGE_STACK : __real_sysconf(name);
}

/* A descriptor that is no memory; *ret_other ends when it is closed. */
static int make_fd(int *ret_other) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        *ret_other = fds[1];
        return fds[0];
}

static void expect_closed(int other) {
        struct pollfd p = {.fd = other, .events = POLLIN};
        char c;

        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_int_equal(read(other, &c, 1), 0);
        close(other);
}

/* Before there is a thread: the caller does not wait, and the descriptor is closed later. */
static void test_no_thread(void **state) {
        int others[2];
        struct err e;

        no_threads = true;
        assert_int_equal(closer_start(&e), -ERR_SYS);
        assert_int_equal(e.sys, EAGAIN);
        closer_close(make_fd(&others[0]));
        no_threads = false;
        closer_close(make_fd(&others[1]));
        expect_closed(others[0]);
        expect_closed(others[1]);
}

/* Once it has been started it needs no further thread, however often. */
static void test_one_thread_is_enough(void **state) {
        int others[20];
        struct err e;

        assert_int_equal(closer_start(&e), 0);
        assert_int_equal(closer_start(&e), 0);
        no_threads = true;
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = 0; i < 20; i++)
                        closer_close(make_fd(&others[i]));
                for (unsigned i = 0; i < 20; i++)
                        expect_closed(others[i]);
        }
        no_threads = false;
}

/* A thread that sleeps for long took the daemon's SIGTERM. */
static void test_no_signals(void **state) {
        sigset_t mask;

        (void)state;
        assert_false(takes_signals);
        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        assert_int_equal(sigismember(&mask, SIGTERM), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_thread),
                cmocka_unit_test(test_one_thread_is_enough),
                cmocka_unit_test(test_no_signals),
        };

        /* All threads are those of a system that wants larger stacks. */
        large_stacks = true;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
