/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Elementary functions whose result bits depend on the argument only: built from IEEE + - * / and
 * integer operations in one fixed order (no libm, no contraction), so every machine and C library
 * gives the same bits. Error below 2 ulp over the stated range. Sources: Cody & Waite argument
 * reduction; minimax/Taylor polynomials whose coefficients are derived in the .c file.
 */
#include <stddef.h>

double dmath_exp(double x); /* all x; overflow to inf, underflow to 0 (flushes below 2^-1022) */
/* Each of x[n] becomes dmath_exp() of it, with the same bits, some times faster. */
void dmath_exp_each(double *x, size_t n);
double dmath_log(double x); /* x > 0; 0 gives -inf, negative NaN */
double dmath_pow(double x,
        double y); /* x > 0: exp(y log x), relative error below 1e-13 for |y log x| < 100 */
/* Sine and cosine of @x, |x| <= 2^30. */
void dmath_sincos(double x, double *ret_sin, double *ret_cos);
