/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to dmath: what the exponential function of one number and that of many share. */
#include <stddef.h>

/* ln 2 = HI + LO; HI has 32 bits, so k * HI is exact for every exponent k. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep+0

/* Adding and subtracting 1.5 * 2^52 rounds to an integer. */
#define ROUNDER 0x1.8p52

/* r^2 (1/2! + r/3! + ... ), highest first */
static const double exp_c[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
        1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5};
#define EXP_TERMS (sizeof(exp_c) / sizeof(exp_c[0]))

/* dmath_exp_each() in lanes as wide as registers are; all give the same bits. */
typedef void dmath_each_fn(double *x, size_t n);
dmath_each_fn dmath_exp_each_2, dmath_exp_each_4, dmath_exp_each_8;
/* The one of so many lanes; NULL: this machine has none. It has that of 2. */
dmath_each_fn *dmath_exp_each_by(unsigned n_lanes);
