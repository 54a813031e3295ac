/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"
#include "util/test.h"

/* Each bound belongs to its own bucket, and what is one longer to the next. */
static void test_buckets(void **state) {
        for (size_t i = 0; i < HISTOGRAM_N_BOUNDS; i++) {
                struct histogram h = {};

                histogram_add(&h, histogram_bound(i), 1);
                assert_int_equal(h.n[i], 1);
                histogram_add(&h, histogram_bound(i) + 1, 1);
                assert_int_equal(h.n[i + 1], 1);
                assert_int_equal(h.sum_usec, 2 * histogram_bound(i) + 1);
                assert_int_equal(histogram_count(&h), 2);
        }
        assert_int_equal(histogram_bound(0), 100);
        assert_int_equal(histogram_bound(HISTOGRAM_N_BOUNDS - 1), 838860800);
}

static void test_ends(void **state) {
        struct histogram h = {};

        histogram_add(&h, 0, 2);
        assert_int_equal(h.n[0], 2);
        histogram_add(&h, UINT64_MAX, 1);
        histogram_add(&h, (uint64_t)1 << 40, 1);
        assert_int_equal(h.n[HISTOGRAM_N_BOUNDS], 2);
        assert_int_equal(histogram_count(&h), 4);
}

/* Against a look at each bound, for times of all sizes. */
static void test_search(void **state) {
        for (uint64_t usec = 1; usec < (uint64_t)1 << 36; usec += usec / 7 + 1) {
                struct histogram h = {};
                size_t i = 0;

                while (i < HISTOGRAM_N_BOUNDS && histogram_bound(i) < usec)
                        i++;
                histogram_add(&h, usec, 3);
                assert_int_equal(h.n[i], 3);
        }
}

static double quantile(const struct histogram *h, double q) {
        uint64_t bounds[HISTOGRAM_N_BOUNDS];

        for (size_t i = 0; i < HISTOGRAM_N_BOUNDS; i++)
                bounds[i] = histogram_bound(i);
        return histogram_quantile(bounds, h->n, HISTOGRAM_N_BOUNDS, q);
}

static void test_quantiles(void **state) {
        static const uint64_t bounds[] = {10, 20, 40}, n[] = {4, 0, 4, 2};
        struct histogram h = {};

        assert_true(quantile(&h, 0.5) == 0);
        histogram_add(&h, 150, 10);
        assert_true(quantile(&h, 0.5) == 150);
        assert_true(quantile(&h, 1) == 200);
        assert_true(quantile(&h, 0) == 100);
        histogram_add(&h, UINT64_MAX, 90);
        assert_true(quantile(&h, 0.5) == 838860800);
        /* other bounds: from between empty buckets, and beyond all */
        assert_true(histogram_quantile(bounds, n, 3, 0.2) == 5);
        assert_true(histogram_quantile(bounds, n, 3, 0.6) == 30);
        assert_true(histogram_quantile(bounds, n, 3, 0.81) == 40);
        assert_true(histogram_quantile(bounds, n, 0, 0.5) == 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buckets),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_search),
                cmocka_unit_test(test_quantiles),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
