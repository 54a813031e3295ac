/* SPDX-License-Identifier: MIT */
/* Rates by a clock that the test sets. */
#include "base/rates.h"
#include "base/util.h"
#include "util/test.h"
#include <stdlib.h>

#define SECOND 1000000u

static struct rate_ring ring;
static unsigned seed = 1;

static uint64_t below(uint64_t n) {
        return (((uint64_t)rand_r(&seed) << 31) ^ (uint64_t)rand_r(&seed)) % n;
}

static bool near(double a, double b) {
        return a - b < 1e-9 * (b + 1) && b - a < 1e-9 * (b + 1);
}

/* What goes on evenly has one rate, whatever the window and whenever it is looked at. */
static void test_even(void **state) {
        uint64_t now = 17 * SECOND;

        rates_begin(&ring, now);
        for (; now < 1000 * SECOND; now += SECOND / 4) {
                if (now > 20 * SECOND)
                        for (size_t w = 0; w < RATES_N_WINDOWS; w++)
                                assert_true(near(
                                        rates_get(&ring, RATE_DECODED, rates_windows[w], now), 40));
                rates_add(&ring, RATE_DECODED, 10, now);
                assert_true(rates_get(&ring, RATE_PREFILLED, 300, now) == 0);
        }
}

/* Against all that was added, for times that pass by leaps. */
static void test_random(void **state) {
        enum { N = 4000 };
        static uint64_t when[N];
        static uint32_t n[N];
        uint64_t now = (uint64_t)1 << 40, began;

        now -= now % RATES_SLOT_USEC;
        began = now;
        rates_begin(&ring, now);
        for (size_t i = 0; i < N; i++) {
                uint32_t window = rates_windows[i % RATES_N_WINDOWS];
                uint64_t from, sum = 0;

                now += below(i % 100 == 0 ? 400 * SECOND : SECOND);
                when[i] = now;
                n[i] = (uint32_t)below(1000);
                rates_add(&ring, RATE_REQUESTS, n[i], now);
                from = now - now % RATES_SLOT_USEC;
                from = from - began < window * (uint64_t)SECOND ? began
                                                                : from - window * (uint64_t)SECOND;
                for (size_t k = 0; k <= i; k++)
                        sum += when[k] >= from ? n[k] : 0;
                assert_true(near(rates_get(&ring, RATE_REQUESTS, window, now),
                        (double)sum * 1e6 / (double)MAX(now - from, (uint64_t)SECOND)));
        }
}

static void test_ends(void **state) {
        rates_begin(&ring, 5 * SECOND);
        assert_true(rates_get(&ring, RATE_DECODED, 10, 5 * SECOND) == 0);
        rates_add(&ring, RATE_DECODED, 7, 5 * SECOND);
        assert_true(rates_get(&ring, RATE_DECODED, 10, 5 * SECOND) == 7); /* of a second at least */
        assert_true(near(rates_get(&ring, RATE_DECODED, 300, 7 * SECOND), 3.5));
        rates_add(&ring, RATE_DECODED, UINT32_MAX, 5 * SECOND);
        assert_true(rates_get(&ring, RATE_DECODED, 10, 5 * SECOND) == UINT32_MAX);
        /* A long silence leaves nothing. */
        assert_true(rates_get(&ring, RATE_DECODED, 300, (uint64_t)1 << 50) == 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_even),
                cmocka_unit_test(test_random),
                cmocka_unit_test(test_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
