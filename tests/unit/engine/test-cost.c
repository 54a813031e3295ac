/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/util.h"
#include "engine/run/cost.h"
#include "util/test.h"

/* A machine: reading weights takes 20 ms, a row 5 ms, and 2 microseconds for each key. */
static double truth(uint32_t rows, double depth) {
        return MAX(20000, 5000.0 * rows) + 2.0 * rows * depth;
}

static void see(struct cost *c, uint32_t rows, double depth, unsigned times) {
        for (unsigned i = 0; i < times; i++)
                cost_observe(c, rows, depth, (uint64_t)truth(rows, depth));
}

static void assert_near(double a, double b, double part) {
        if (fabs(a - b) > part * fabs(b))
                fail_msg("%g is not within %g%% of %g", a, part * 100, b);
}

static void test_unknown(void **state) {
        struct cost c = {0};

        assert_true(cost_predict(&c, 3, 0) == 0);
        assert_int_equal(cost_rows_within(&c, 3, 100, 0, 1e9), 3);
        assert_true(cost_ratio(&c, 256) == 0);
        cost_observe(&c, 0, 0, 5); /* no step */
        assert_true(cost_predict(&c, 3, 0) == 0);
        /* One size: fewer rows in proportion, more as if free; not far at once. */
        see(&c, 4, 0, 1);
        assert_near(cost_predict(&c, 2, 0), 10000, 1e-9);
        assert_near(cost_predict(&c, 8, 0), 20000, 1e-9);
        assert_int_equal(cost_rows_within(&c, 4, 100, 0, 20000), 8);
        assert_int_equal(cost_rows_within(&c, 4, 100, 0, 19999), 4);
        assert_true(cost_ratio(&c, 256) == 0);
}

static void test_curve(void **state) {
        static const uint32_t seen[] = {1, 4, 5, 8, 64, 256};
        struct cost c = {0};
        double before = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(seen); i++)
                see(&c, seen[i], 0, 20);
        for (unsigned i = 0; i < ARRAY_SIZE(seen); i++)
                assert_near(cost_predict(&c, seen[i], 0), truth(seen[i], 0), 0.001);
        assert_near(cost_predict(&c, 32, 0), 160000, 0.001);
        assert_near(cost_predict(&c, 1000, 0), 5000000, 0.001);
        for (uint32_t n = 1; n < 2000; n++) {
                assert_true(cost_predict(&c, n, 0) >= before);
                before = cost_predict(&c, n, 0);
        }
        /* 1.5 times a step of one row */
        assert_int_equal(cost_rows_within(&c, 1, 256, 0, 30000), 6);
        assert_int_equal(cost_rows_within(&c, 1, 4, 0, 30000), 4);
        assert_int_equal(cost_rows_within(&c, 7, 256, 0, 30000), 7);
        assert_int_equal(cost_rows_within(&c, 1, 65536, 0, 1e12), 512);
}

/* What nobody has seen and might be fast enough. */
static void test_to_try(void **state) {
        struct cost c = {0};
        double usec = 0;

        assert_int_equal(cost_rows_to_try(&c, 1, 256, 0, 1e9, &usec), 0);
        see(&c, 1, 0, 5);
        see(&c, 256, 0, 5);
        /* Twice those that were seen, once, as long as a row as in the largest step fits. */
        assert_int_equal(cost_rows_to_try(&c, 1, 256, 0, 30000, &usec), 2);
        assert_near(usec, 20000, 0.001);
        see(&c, 2, 0, 1);
        assert_int_equal(cost_rows_to_try(&c, 1, 256, 0, 30000, &usec), 4);
        see(&c, 4, 0, 1);
        assert_int_equal(cost_rows_to_try(&c, 1, 256, 0, 30000, &usec), 6);
        assert_near(usec, 30000, 0.001);
        assert_int_equal(cost_rows_to_try(&c, 1, 5, 0, 30000, &usec), 5);
        assert_int_equal(cost_rows_to_try(&c, 6, 256, 0, 30000, &usec), 0);
        see(&c, 6, 0, 1);
        see(&c, 5, 0, 1);
        assert_int_equal(cost_rows_to_try(&c, 4, 256, 0, 30000, &usec), 0);
        /* Not less than a smaller step takes. */
        assert_int_equal(cost_rows_to_try(&c, 2, 256, 0, 19000, &usec), 0);
}

/* The least and the most rows that a step can have. */
static void test_ends(void **state) {
        struct cost c = {0};

        see(&c, 1, 0, 5);
        see(&c, 65536, 0, 5);
        for (uint32_t n = 1; n <= 65536; n = n * 5 / 4 + 1)
                see(&c, n, 0, 5);
        assert_near(cost_predict(&c, 65536, 0), truth(65536, 0), 0.01);
        assert_near(cost_predict(&c, 1, 0), truth(1, 0), 0.01);
        for (uint32_t n = 1; n <= 65536; n = n * 5 / 4 + 1)
                assert_near(cost_predict(&c, n, 0), truth(n, 0), 0.15);
}

/* Deep rows are dearer. What one knot knows of it helps others that have seen one depth only. */
static void test_depth(void **state) {
        struct cost c = {0};

        for (unsigned i = 0; i < 40; i++)
                see(&c, 8, 100 * i, 1);
        see(&c, 4, 1000, 20);
        see(&c, 16, 1000, 20);
        assert_near(cost_predict(&c, 8, 8000), truth(8, 8000), 0.02);
        assert_near(cost_predict(&c, 4, 4000), truth(4, 4000), 0.02);
        assert_near(cost_predict(&c, 16, 0), truth(16, 0), 0.02);
        /* at any depth some time is left */
        assert_true(cost_predict(&c, 16, 0) > 0);
}

/* A prompt deepens by a few keys a step, and times are not exact: what depth costs is known from the large steps that a
 * prompt had before, not from the noise of the small ones. */
static void test_deepening(void **state) {
        struct cost c = {0};
        uint32_t random = 1;

        for (unsigned i = 0; i < 16; i++)
                see(&c, 256, 128 + 256 * i, 1);
        for (unsigned i = 0; i < 64; i++)
                for (unsigned rows = 4; rows <= 12; rows += 4) {
                        double depth = 200 + 8 * i, t = truth(rows, depth);

                        random = random * 1664525 + 1013904223;
                        t *= 0.95 + 0.1 * (random >> 16) / 65536;
                        cost_observe(&c, rows, depth, (uint64_t)t);
                        if (i < 4)
                                continue;
                        assert_near(cost_predict(&c, rows, 0), truth(rows, 0), 0.1);
                        assert_near(cost_predict(&c, rows, 4000), truth(rows, 4000), 0.1);
                }
}

/* The machine becomes twice as slow, or something takes the processors for a moment. */
static void test_change(void **state) {
        struct cost c = {0};

        see(&c, 1, 0, 30);
        see(&c, 8, 0, 30);
        see(&c, 32, 0, 30);
        cost_observe(&c, 8, 0, 100 * 40000);
        assert_true(cost_predict(&c, 8, 0) < 1.2 * 40000);
        for (unsigned i = 0; i < 100; i++)
                cost_observe(&c, 8, 0, 80000);
        assert_near(cost_predict(&c, 8, 0), 80000, 0.01);
        /* steps of 32 rows are not seen again: they cannot take less than those of 8 */
        for (unsigned i = 0; i < 3000; i++) {
                cost_observe(&c, 1, 0, 40000);
                cost_observe(&c, 8, 0, 80000);
        }
        assert_int_equal(c.knots[15].w, 0);
        for (unsigned i = 0; i < 3000; i++)
                cost_observe(&c, 1, 0, 40000);
        /* but two sizes stay known */
        assert_near(cost_predict(&c, 8, 0), 80000, 0.01);
}

/* Of noise it is still true that more rows take no less time. */
static void test_noise(void **state) {
        struct cost c = {0};
        double before = 0;
        uint32_t random = 12345;

        for (unsigned i = 0; i < 2000; i++) {
                uint32_t rows;

                random = random * 1664525 + 1013904223;
                rows = 1 + (random >> 16) % 20;
                random = random * 1664525 + 1013904223;
                cost_observe(
                        &c, rows, 0, (uint64_t)(truth(rows, 0) * (0.5 + (random >> 16) / 65536.0)));
        }
        for (uint32_t n = 1; n < 40; n++) {
                double t = cost_predict(&c, n, 0);

                assert_true(t >= before);
                before = t;
                if (n <= 20)
                        assert_near(t, truth(n, 0), 0.3);
        }
}

static void test_ratio(void **state) {
        struct cost c = {0};

        /* 1000 + 100 n */
        for (unsigned i = 0; i < 300; i++)
                for (uint32_t n = 1; n <= 256; n *= 4)
                        cost_observe(&c, n, 0, 1000 + 100 * n);
        assert_near(cost_ratio(&c, 256), 10, 0.05);
        assert_true(cost_ratio(&c, 5) == 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_curve),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_to_try),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_deepening),
                cmocka_unit_test(test_change),
                cmocka_unit_test(test_noise),
                cmocka_unit_test(test_ratio),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
