/* SPDX-License-Identifier: MIT */
#pragma once
/* What of linear attention's rows is the same text for every instruction set (mix.h defines the bits). Each file of
 * an instruction set includes it, so that the compiler makes vectors of it for that set. */
#include "kern/mix.h"

static inline void difference(const float *x, const float *before, float *dx, size_t n) {
        kern_difference1(x, before, dx, n);
}

static inline void lerp(
        const float *x, const float *dx, const float *mu, const float *m, float *y, size_t n) {
        kern_lerp1(x, dx, mu, m, y, n);
}

static inline void blend(float *y, const float *x, const float *s, size_t n) {
        kern_blend1(y, x, s, n);
}

static inline void l2norm(float *x, size_t n, float eps) {
        kern_l2norm1(x, n, eps);
}

static inline void wkv7_keys(const struct kern_wkv7_keys *x, size_t n) {
        kern_wkv7_keys1(x, n);
}

static inline void kern_mix_rows(struct kern_ops *ops) {
        ops->difference = difference;
        ops->lerp = lerp;
        ops->blend = blend;
        ops->l2norm = l2norm;
        ops->wkv7_keys = wkv7_keys;
}
