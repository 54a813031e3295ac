/* SPDX-License-Identifier: MIT */
/*
 * The exponential function of many numbers, in lanes: the operations of dmath_exp() in their order, so the same
 * bits. Compiled once for each width of registers; the narrowest chooses among them.
 */
#include "base/dmath.h"
#include "base/dmath-exp.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef DMATH_LANES
#define DMATH_LANES 2
#endif
#if DMATH_LANES == 8
#define EACH dmath_exp_each_8
#elif DMATH_LANES == 4
#define EACH dmath_exp_each_4
#else
#define EACH dmath_exp_each_2
#endif
#define LANES DMATH_LANES
/* Where dmath_exp() has no special cases. */
#define PLAIN 700.0

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef uint64_t bit_lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* Whether all of x[n] are plain; n is a multiple of the lanes. */
static bool all_plain(const double *x, size_t n) {
        bit_lanes special = {0};
        uint64_t any = 0;

        for (size_t at = 0; at < n; at += LANES) {
                lanes v;

                memcpy(&v, x + at, sizeof(v));
                special |= ~(bit_lanes)((v >= -PLAIN) & (v <= PLAIN)); /* NaN is neither */
        }
        for (size_t i = 0; i < LANES; i++)
                any |= special[i];
        return !any;
}

static void exp_plain(double *x) {
        lanes v, rounded, kd, hi, lo, r, p;

        memcpy(&v, x, sizeof(v));
        rounded = v * LOG2_E + ROUNDER;
        kd = rounded - ROUNDER;
        hi = v - kd * LN2_HI;
        lo = kd * LN2_LO;
        r = hi - lo;
        p = r * exp_c[0] + exp_c[1];
        for (size_t k = 2; k < EXP_TERMS; k++)
                p = p * r + exp_c[k];
        p = 1 + (hi - (lo - r * r * p));
        /* k stands in the low bits of `rounded` */
        p *= (lanes)(((bit_lanes)rounded + 1023) << 52);
        memcpy(x, &p, sizeof(p));
}

/* Most numbers are plain, so all are looked at first; one that is not slows down its own few. */
void EACH(double *x, size_t n) {
        size_t whole = n - n % LANES;
        bool plain = all_plain(x, whole);

        for (size_t at = 0; at < whole; at += LANES)
                if (plain || all_plain(x + at, LANES))
                        exp_plain(x + at);
                else
                        for (size_t i = at; i < at + LANES; i++)
                                x[i] = dmath_exp(x[i]);
        for (size_t i = whole; i < n; i++)
                x[i] = dmath_exp(x[i]);
}

#if DMATH_LANES == 2
dmath_each_fn *dmath_exp_each_by(unsigned n_lanes) {
#ifdef __x86_64__
        if (n_lanes == 8)
                return __builtin_cpu_supports("avx512f") ? dmath_exp_each_8 : NULL;
        if (n_lanes == 4)
                return __builtin_cpu_supports("avx2") ? dmath_exp_each_4 : NULL;
#endif
        return n_lanes == 2 ? dmath_exp_each_2 : NULL;
}

void dmath_exp_each(double *x, size_t n) {
        unsigned n_lanes = 8;
        dmath_each_fn *each;

        while (!(each = dmath_exp_each_by(n_lanes)))
                n_lanes /= 2;
        each(x, n);
}
#endif
