/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows. */
#include "kern/mix.h"
#include "kern/x86/avx2.h"

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
        __m256 sv = _mm256_set1_ps(s[0]);
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                if (each)
                        sv = _mm256_loadu_ps(s + i);
                _mm256_storeu_ps(x + i, exp8(_mm256_mul_ps(_mm256_loadu_ps(x + i), sv)));
        }
        for (; i < n; i++)
                x[i] = kern_exp(x[i] * s[each ? i : 0]);
}

void kern_avx2_mix(struct kern_ops *ops) {
        ops->difference = difference;
        ops->lerp = lerp;
        ops->blend = blend;
        ops->l2norm = l2norm;
        ops->wkv7_keys = wkv7_keys;
        ops->exp_scaled = exp_scaled;
}
