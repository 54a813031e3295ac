/* SPDX-License-Identifier: MIT */
#pragma once
#include <sched.h>

#include "util/test.h"

/* Let the calling thread, and those that it starts, run on @n processors of those it may run on; skips the test aloud if
 * these are fewer. *ret_was: for test_restore_cpus(). */
static inline void test_limit_cpus(unsigned n, cpu_set_t *ret_was) {
        cpu_set_t some;
        unsigned count = 0;

        assert_int_equal(sched_getaffinity(0, sizeof(*ret_was), ret_was), 0);
        if ((unsigned)CPU_COUNT(ret_was) < n) {
                print_message("SKIP: fewer than %u processors\n", n);
                skip();
        }
        CPU_ZERO(&some);
        for (unsigned cpu = 0; cpu < CPU_SETSIZE && count < n; cpu++)
                if (CPU_ISSET(cpu, ret_was)) {
                        CPU_SET(cpu, &some);
                        count++;
                }
        assert_int_equal(sched_setaffinity(0, sizeof(some), &some), 0);
}

static inline void test_restore_cpus(const cpu_set_t *was) {
        assert_int_equal(sched_setaffinity(0, sizeof(*was), was), 0);
}
