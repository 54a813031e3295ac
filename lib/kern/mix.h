/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What linear attention makes of its rows before and after the recurrence (private to lib/kern). Plain C
 * of independent elements and of 16 lanes: every instruction set compiles it with its own flags, so that
 * there is one text for all of them.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "kern/state.h"

KERN_INLINE void kern_difference1(const float *x, const float *before, float *dx, size_t n) {
        for (size_t i = 0; i < n; i++)
                dx[i] = before[i] - x[i];
}

KERN_INLINE void kern_lerp1(
        const float *x, const float *dx, const float *mu, const float *m, float *y, size_t n) {
        if (m)
                for (size_t i = 0; i < n; i++)
                        y[i] = fmaf(dx[i], mu[i] + m[i], x[i]);
        else
                for (size_t i = 0; i < n; i++)
                        y[i] = fmaf(dx[i], mu[i], x[i]);
}

KERN_INLINE void kern_blend1(float *y, const float *x, const float *s, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = fmaf(x[i] - y[i], s[i], y[i]);
}

KERN_INLINE float kern_l2scale(const float *x, size_t n, float eps) {
        return 1 / kern_max2(eps, sqrtf(kern_dot16(x, x, n)));
}

KERN_INLINE void kern_l2norm1(float *x, size_t n, float eps) {
        float scale = kern_l2scale(x, n, eps);

        for (size_t i = 0; i < n; i++)
                x[i] *= scale;
}

/* One head of one token; n <= KERN_STATE_KEYS. Nothing that is written overlaps anything else. */
KERN_INLINE void kern_wkv7_keys1(const struct kern_wkv7_keys *x, size_t n) {
        const float *k_k = x->k_k, *k_a = x->k_a, *r = x->r, *a = x->a;
        float *restrict k = x->k, *restrict kk = x->kk, rk[KERN_STATE_KEYS], scale;

        for (size_t i = 0; i < n; i++)
                kk[i] = k[i] * k_k[i];
        scale = kern_l2scale(kk, n, 1e-12f);
        for (size_t i = 0; i < n; i++) {
                kk[i] *= scale;
                k[i] *= fmaf(a[i] - 1, k_a[i], 1);
                rk[i] = r[i] * k[i];
        }
        *x->bonus = kern_dot16(rk, x->r_k, n);
}
