/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows, the definition. */
#include "kern/mix.h"

static void difference(const float *x, const float *before, float *dx, size_t n) {
        kern_difference1(x, before, dx, n);
}

static void lerp(
        const float *x, const float *dx, const float *mu, const float *m, float *y, size_t n) {
        kern_lerp1(x, dx, mu, m, y, n);
}

static void blend(float *y, const float *x, const float *s, size_t n) {
        kern_blend1(y, x, s, n);
}

static void l2norm(float *x, size_t n, float eps) {
        kern_l2norm1(x, n, eps);
}

static void wkv7_keys(const struct kern_wkv7_keys *x, size_t n) {
        kern_wkv7_keys1(x, n);
}

static void exp_scaled(float *x, const float *s, bool each, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = kern_exp(x[i] * s[each ? i : 0]);
}

void kern_generic_mix(struct kern_ops *ops) {
        ops->difference = difference;
        ops->lerp = lerp;
        ops->blend = blend;
        ops->l2norm = l2norm;
        ops->wkv7_keys = wkv7_keys;
        ops->exp_scaled = exp_scaled;
}
