/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows. */
#include "kern/mix-rows.h"
#include "kern/x86/avx2.h"

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
        kern_mix_rows(ops);
        ops->exp_scaled = exp_scaled;
}
