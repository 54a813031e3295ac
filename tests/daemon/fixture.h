/* SPDX-License-Identifier: MIT */
#pragma once
/* One daemon per test, in its own folder; a test starts it with the flags that it wants. */
#include "harness.h"
#include "util/test.h"
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int daemon_setup(void **state) {
        struct harness *h = calloc(1, sizeof(*h));

        assert_non_null(h);
        assert_int_equal(harness_init(h), 0);
        *state = h;
        return 0;
}

static inline int daemon_teardown(void **state) {
        struct harness *h = *state;

        harness_deinit(h);
        free(h);
        return 0;
}

#define daemon_test(f) cmocka_unit_test_setup_teardown(f, daemon_setup, daemon_teardown)
#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A user who is not root. */
#define OTHER_UID 54321

/* @f in a child process of another user (takes root): its result. */
static inline int run_as(
        uid_t uid, gid_t gid, int (*f)(const char *, uint64_t), const char *path, uint64_t id) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
                        _exit(100);
                _exit(f(path, id));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* For main(): 77 when there is no model to run on. */
#define DAEMON_TESTS_MAIN(tests)                                                                   \
        ({                                                                                         \
                struct harness _h;                                                                 \
                int _r = 77;                                                                       \
                if (harness_init(&_h) == 0) {                                                      \
                        harness_deinit(&_h);                                                       \
                        _r = cmocka_run_group_tests(tests, NULL, NULL);                            \
                }                                                                                  \
                _r;                                                                                \
        })
