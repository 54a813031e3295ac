/* SPDX-License-Identifier: MIT */
#pragma once
/* One daemon per test, in its own folder; a test starts it with the flags that it wants. */
#include "harness.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
