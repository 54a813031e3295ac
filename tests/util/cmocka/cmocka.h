/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the tests of lib/quant and lib/kern use of cmocka, for cross builds, where Debian's library is of the wrong
 * architecture: a C compiler and an emulator are then all that they need. Results are TAP, as with
 * CMOCKA_MESSAGE_OUTPUT=TAP. A group is one static list of tests, run by one thread.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
        const char *name;
        void (*test_func)(void **state);
        void *initial_state; /* NULL: that of the group */
};
#define cmocka_unit_test(f)                                                                        \
        { #f, (f), NULL }

static struct {
        jmp_buf end; /* of the test that runs */
        enum { CMOCKA_PASSED, CMOCKA_SKIPPED, CMOCKA_FAILED } result;
} cmocka_now;

static inline __attribute__((noreturn)) void cmocka_end(int result) {
        cmocka_now.result = result;
        longjmp(cmocka_now.end, 1);
}

#define skip() cmocka_end(CMOCKA_SKIPPED)
#define print_message(...) ((void)printf(__VA_ARGS__), (void)fflush(stdout))
#define fail_msg(...)                                                                              \
        do {                                                                                       \
                printf("# %s:%d: ", __FILE__, __LINE__);                                           \
                printf(__VA_ARGS__);                                                               \
                printf("\n");                                                                      \
                cmocka_end(CMOCKA_FAILED);                                                         \
        } while (0)

#define assert_true(x)                                                                             \
        do {                                                                                       \
                if (!(x))                                                                          \
                        fail_msg("not true: %s", #x);                                              \
        } while (0)
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_null(x) assert_true((x) == NULL)
#define assert_int_equal(a, b)                                                                     \
        do {                                                                                       \
                intmax_t _a = (intmax_t)(a), _b = (intmax_t)(b);                                   \
                if (_a != _b)                                                                      \
                        fail_msg("%s is %" PRIdMAX ", not %" PRIdMAX, #a, _a, _b);                 \
        } while (0)
#define assert_string_equal(a, b)                                                                  \
        do {                                                                                       \
                const char *_a = (a), *_b = (b);                                                   \
                if (strcmp(_a, _b) != 0)                                                           \
                        fail_msg("%s is '%s', not '%s'", #a, _a, _b);                              \
        } while (0)
#define assert_memory_equal(a, b, n)                                                               \
        do {                                                                                       \
                if (memcmp((a), (b), (n)) != 0)                                                    \
                        fail_msg("%s differs from %s", #a, #b);                                    \
        } while (0)

typedef int (*cmocka_fixture)(void **state);

static inline void cmocka_run_test(const struct CMUnitTest *test, void *group_state) {
        void *state = test->initial_state ? test->initial_state : group_state;

        cmocka_now.result = CMOCKA_PASSED;
        if (setjmp(cmocka_now.end) == 0)
                test->test_func(&state);
}

static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests,
        size_t n, cmocka_fixture setup, cmocka_fixture teardown) {
        void *state = NULL;
        int n_failed = 0;

        printf("1..%zu\n", n);
        if (setup && setup(&state) != 0) {
                printf("# the setup of %s failed\n", group);
                return 1;
        }
        for (size_t i = 0; i < n; i++) {
                cmocka_run_test(&tests[i], state);
                n_failed += cmocka_now.result == CMOCKA_FAILED;
                printf("%sok %zu %s%s\n", cmocka_now.result == CMOCKA_FAILED ? "not " : "", i + 1,
                        cmocka_now.result == CMOCKA_SKIPPED ? "# SKIP " : "- ", tests[i].name);
                fflush(stdout);
        }
        if (teardown && teardown(&state) != 0)
                n_failed++;
        return n_failed;
}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
        _cmocka_run_group_tests(                                                                   \
                #tests, (tests), sizeof(tests) / sizeof((tests)[0]), (setup), (teardown))
