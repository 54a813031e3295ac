/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "util/test.h"
#include <time.h>

static void test_clocks(void **state) {
        uint64_t a = clock_monotonic_usec(), b = clock_monotonic_usec(), real, now;

        assert_true(b >= a);
        assert_true(a > 0);
        now = (uint64_t)time(NULL);
        real = clock_realtime_usec() / 1000000;
        assert_true(real + 2 >= now && real <= now + 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_clocks)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
