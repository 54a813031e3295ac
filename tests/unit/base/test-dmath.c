/* SPDX-License-Identifier: MIT */
#include "base/dmath.h"
#include "base/dmath-exp.h"
#include "util/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 200000
#define ULP_MAX 1.0L

static uint64_t bits(double x) {
        uint64_t u;

        memcpy(&u, &x, sizeof(u));
        return u;
}

static uint64_t random_state = 42;

/* In [0, 1). */
static double uniform(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (double)(random_state >> 11) * 0x1p-53;
}

/* Distance in units of the last place of the true value, which long double stands for. */
static long double ulps(double got, long double expected) {
        int exponent;

        frexpl(expected, &exponent);
        return fabsl(got - expected) / ldexpl(1, exponent - 53);
}

static void test_exp(void **state) {
        for (int i = 0; i < N; i++) {
                double x = (uniform() * 2 - 1) * 708, y = uniform() - 0.5;

                assert_true(ulps(dmath_exp(x), expl(x)) < ULP_MAX);
                assert_true(ulps(dmath_exp(y), expl(y)) < ULP_MAX);
        }
        assert_true(dmath_exp(0) == 1);
        assert_true(dmath_exp(-0.0) == 1);
        assert_true(dmath_exp(1) == 0x1.5bf0a8b14576ap+1); /* e is 0x1.5bf0a8b1457695... */
        assert_true(dmath_exp(709.78) > 1.79e308);
        assert_true(isinf(dmath_exp(709.79)) && isinf(dmath_exp(1e300)));
        assert_true(isinf(dmath_exp((double)INFINITY)));
        assert_true(dmath_exp(-708.39) >= 0x1p-1022);
        assert_true(dmath_exp(-708.40) == 0);
        assert_true(dmath_exp(-1e300) == 0);
        assert_true(dmath_exp(-(double)INFINITY) == 0);
        assert_true(isnan(dmath_exp((double)NAN)));
}

static void test_log(void **state) {
        for (int i = 0; i < N; i++) {
                double x = ldexp(0.5 + uniform(), (int)(uniform() * 2098) - 1074);
                double y = 0.5 + uniform() * 1.5;

                assert_true(ulps(dmath_log(x), logl(x)) < ULP_MAX);
                assert_true(ulps(dmath_log(y), logl(y)) < ULP_MAX);
        }
        assert_true(dmath_log(1) == 0);
        assert_true(dmath_log(2) == 0x1.62e42fefa39efp-1);
        assert_true(dmath_log(0x1p-1074) == -0x1.74385446d71c3p+9);
        assert_true(dmath_log(0) == -(double)INFINITY);
        assert_true(dmath_log(-0.0) == -(double)INFINITY);
        assert_true(dmath_log((double)INFINITY) == (double)INFINITY);
        assert_true(isnan(dmath_log(-1)) && isnan(dmath_log((double)NAN)));
}

static void test_pow(void **state) {
        for (int i = 0; i < N; i++) {
                double x = uniform() * 1e5 + 1e-5, y = (uniform() * 2 - 1) * 99 / fabs(log(x));
                long double expected = powl(x, y);

                if (fabs(y) > 1e6)
                        continue;
                assert_true(fabsl(dmath_pow(x, y) / expected - 1) < 1e-13L);
        }
        assert_true(dmath_pow(10000, 0) == 1);
        assert_true(dmath_pow(1, 1e9) == 1);
        assert_true(dmath_pow(0, 2) == 0);
        assert_true(isinf(dmath_pow(0, -2)));
        assert_true(isnan(dmath_pow(-2, 2)));
}

static void check_sincos(double x) {
        double s, c;

        dmath_sincos(x, &s, &c);
        assert_true(ulps(s, sinl(x)) < ULP_MAX);
        assert_true(ulps(c, cosl(x)) < ULP_MAX);
}

static void test_sincos(void **state) {
        double s, c;

        for (int i = 0; i < N; i++) {
                check_sincos((uniform() * 2 - 1) * ldexp(1, i % 36 - 5));
                /* near multiples of pi/2, where the reduction cancels */
                check_sincos(rint(uniform() * 0x1p29) * M_PI_2);
                check_sincos(rint(uniform() * 100) * M_PI_2);
        }
        dmath_sincos(0, &s, &c);
        assert_true(s == 0 && c == 1);
        dmath_sincos(-0.0, &s, &c);
        assert_true(c == 1);
        dmath_sincos(1, &s, &c);
        assert_true(s == 0x1.aed548f090ceep-1 && c == 0x1.14a280fb5068cp-1);
        dmath_sincos(0x1p30, &s, &c);
        assert_true(fabs(s) <= 1);
        dmath_sincos(0x1.8p30, &s, &c);
        assert_true(isnan(s) && isnan(c));
        dmath_sincos((double)NAN, &s, &c);
        assert_true(isnan(s) && isnan(c));
}

/* Bits are promised, not only accuracy: the same on every machine and with every compiler. */
static void test_bits(void **state) {
        uint64_t sum = 0;

        random_state = 1;
        for (int i = 0; i < 10000; i++) {
                double x = (uniform() * 2 - 1) * 100, y = uniform() * 1000, s, c;

                dmath_sincos(x * 1000, &s, &c);
                sum = sum * 31 + bits(dmath_exp(x));
                sum = sum * 31 + bits(dmath_log(y));
                sum = sum * 31 + bits(dmath_pow(y, x / 100));
                sum = sum * 31 + bits(s);
                sum = sum * 31 + bits(c);
        }
        print_message("dmath bits: %016llx\n", (unsigned long long)sum);
        assert_true(sum == 0x725B16F6AB04E7C5);
}

/* Several at once: the same bits, special cases among them, any number. */
static void check_exp_each(dmath_each_fn *each) {
        static const double special[] = {0, -0.0, 1, -1, 700, -700, 700.1, -700.1, 709.7, 710, 711,
                -708.3, -708.5, -709, -709.1, -745, INFINITY, -INFINITY, NAN, 1e-300, -1e-300,
                1e300};
        enum { N_SPECIAL = sizeof(special) / sizeof(special[0]), MANY = 100000 };
        static double x[MANY], y[MANY];
        uint64_t seed = 1;

        for (size_t i = 0; i < MANY; i++) {
                seed = seed * 6364136223846793005 + 1442695040888963407;
                x[i] = i % 50 == 7 ? special[(seed >> 40) % N_SPECIAL]
                                   : ((double)(seed >> 11) * 0x1p-53 - 0.5) * (i % 2 ? 1500 : 20);
        }
        for (size_t n = 0; n <= MANY; n = n < 70 ? n + 1 : n == 70 ? MANY : MANY + 1) {
                memcpy(y, x, sizeof(y));
                each(y, n);
                for (size_t i = 0; i < n; i++) {
                        double one = dmath_exp(x[i]);

                        assert_memory_equal(&y[i], &one, sizeof(one));
                }
                assert_memory_equal(y + n, x + n, (MANY - n) * sizeof(x[0]));
        }
}

/* What this machine chooses, and every width that it has. */
static void test_exp_each(void **state) {
        check_exp_each(dmath_exp_each);
        for (unsigned n_lanes = 2; n_lanes <= 8; n_lanes *= 2)
                if (dmath_exp_each_by(n_lanes))
                        check_exp_each(dmath_exp_each_by(n_lanes));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exp),
                cmocka_unit_test(test_log),
                cmocka_unit_test(test_pow),
                cmocka_unit_test(test_sincos),
                cmocka_unit_test(test_bits),
                cmocka_unit_test(test_exp_each),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
