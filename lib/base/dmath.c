/* SPDX-License-Identifier: MIT */
/*
 * All functions reduce the argument to a small interval with constants split so that the products
 * are exact (Cody and Waite 1980), and evaluate a Taylor polynomial there. The coefficients are
 * written as the quotients they are; the compiler rounds each once, to nearest. The degrees are
 * chosen so that the first term left out is below 2^-57 of the result at the interval's end:
 *
 *   exp     |r| <= ln2/2 = 0.347       r^14/14!           < 2^-57
 *   log     s = f/(2+f) <= 0.1716      2 s^24/25          < 2^-60   (of log(1+f) ~ 2s)
 *   sin     |r| <= pi/4 = 0.785        r^18/19!           < 2^-62
 *   cos                                r^20/20!           < 2^-67
 *
 * Round to nearest and 64-bit doubles without excess precision are assumed and checked below.
 */
#include "base/dmath.h"
#include "base/dmath-exp.h"
#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "dmath needs doubles without excess precision");
_Static_assert(DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024, "dmath needs IEEE doubles");

/* pi/2 = sum of five; the first four have 22 bits, so k * PIO2_n is exact for |k| < 2^31. */
#define PIO2_1 0x1.921fbp+0
#define PIO2_2 0x1.5110bp-22
#define PIO2_3 0x1.184698p-44
#define PIO2_4 0x1.3198ap-69
#define PIO2_5 0x1.701b839a25205p-92
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

static uint64_t bits_of(double x) {
        uint64_t u;

        memcpy(&u, &x, sizeof(u));
        return u;
}

static double from_bits(uint64_t u) {
        double x;

        memcpy(&x, &u, sizeof(x));
        return x;
}

/* 2^k, -1022 <= k <= 1023 */
static double power_of_two(int k) {
        return from_bits((uint64_t)(k + 1023) << 52);
}

double dmath_exp(double x) {
        double kd, hi, lo, r, p, y;
        int k;

        if (x != x)
                return x;
        if (x > 710)
                return from_bits(0x7FF0000000000000u);
        if (x < -709)
                return 0; /* e^-709 < 2^-1022 */

        kd = (x * LOG2_E + ROUNDER) - ROUNDER;
        k = (int)kd;
        hi = x - kd * LN2_HI;
        lo = kd * LN2_LO;
        r = hi - lo;
        p = exp_c[0];
        for (size_t i = 1; i < EXP_TERMS; i++)
                p = p * r + exp_c[i];
        /* e^(hi - lo) = 1 + hi - (lo - r^2 p): hi is exact, so the large terms round once */
        y = 1 + (hi - (lo - r * r * p));
        if (k == 1024)
                return y * 2 * power_of_two(1023);
        if (k < -1021) { /* may land below the smallest normal number */
                y *= power_of_two(k + 64);
                return y < 0x1p-958 ? 0 : y * 0x1p-64;
        }
        return y * power_of_two(k);
}

double dmath_log(double x) {
        /* 2/3 + 2/5 z + 2/7 z^2 + ..., z = s^2, highest first */
        static const double c[] = {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
        uint64_t u = bits_of(x);
        double m, f, s, z, p, half_square, kd;
        int k = 0;

        if (x != x)
                return x;
        if (x == 0)
                return -from_bits(0x7FF0000000000000u);
        if (u >> 63)
                return from_bits(0x7FF8000000000000u);
        if (u >> 52 == 0x7FF)
                return x;
        if (u >> 52 == 0) {
                u = bits_of(x * 0x1p54);
                k = -54;
        }
        k += (int)(u >> 52) - 1023;
        m = from_bits((u & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
        if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2 */
                m *= 0.5;
                k++;
        }

        /* log(1+f) = 2 atanh(s) = 2s + s z P(z), and 2s = f - f^2/2 + s f^2/2: the correction to f
         * is small, so that its rounding does not matter. */
        f = m - 1;
        s = f / (2 + f);
        z = s * s;
        p = c[0];
        for (int i = 1; i < (int)(sizeof(c) / sizeof(c[0])); i++)
                p = p * z + c[i];
        half_square = 0.5 * f * f;
        kd = k;
        return kd * LN2_HI + (f - (half_square - (s * (half_square + z * p) + kd * LN2_LO)));
}

double dmath_pow(double x, double y) {
        if (y == 0 || x == 1)
                return 1;
        return dmath_exp(y * dmath_log(x));
}

/* a + b = sum + *err exactly (Knuth). */
static double two_sum(double a, double b, double *err) {
        double sum = a + b, part = sum - a;

        *err = (a - (sum - part)) + (b - part);
        return sum;
}

/* sin(r + c) and cos(r + c), |r| <= pi/4, |c| far below r's last bit */
static double sin_poly(double r, double c) {
        static const double k[] = {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800,
                -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
        double z = r * r, p = k[0];

        for (int i = 1; i < (int)(sizeof(k) / sizeof(k[0])); i++)
                p = p * z + k[i];
        return r + (r * z * p + c * (1 - 0.5 * z));
}

static double cos_poly(double r, double c) {
        static const double k[] = {-1.0 / 6402373705728000, 1.0 / 20922789888000,
                -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720,
                1.0 / 24};
        double z = r * r, p = k[0], half = 0.5 * z, w = 1 - half;

        for (int i = 1; i < (int)(sizeof(k) / sizeof(k[0])); i++)
                p = p * z + k[i];
        /* (1 - w) - half is what 1 - half lost to rounding */
        return w + (((1 - w) - half) + (z * z * p - r * c));
}

void dmath_sincos(double x, double *ret_sin, double *ret_cos) {
        double kd, r, e1, e2, e3, e4, c, sn, cs;
        unsigned quadrant;

        if (!(x >= -0x1p30 && x <= 0x1p30)) {
                *ret_sin = *ret_cos = from_bits(0x7FF8000000000000u);
                return;
        }
        kd = (x * TWO_OVER_PI + ROUNDER) - ROUNDER;
        quadrant = (unsigned)(int64_t)kd & 3;
        r = two_sum(x, -kd * PIO2_1, &e1);
        r = two_sum(r, -kd * PIO2_2, &e2);
        r = two_sum(r, -kd * PIO2_3, &e3);
        r = two_sum(r, -kd * PIO2_4, &e4);
        c = ((e1 + e2) + (e3 + e4)) - kd * PIO2_5;
        r = two_sum(r, c, &c);

        sn = sin_poly(r, c);
        cs = cos_poly(r, c);
        if (quadrant & 1) {
                double t = sn;

                sn = cs;
                cs = -t;
        }
        *ret_sin = quadrant & 2 ? -sn : sn;
        *ret_cos = quadrant & 2 ? -cs : cs;
}
