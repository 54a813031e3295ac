/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows. */
#include "kern/mix-rows.h"
#include "kern/x86/avx512.h"

static void exp_scaled(float *x, const float *s, bool each, size_t n) {
        __m512 sv = _mm512_set1_ps(s[0]);

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(m, x + i);

                if (each)
                        sv = _mm512_maskz_loadu_ps(m, s + i);
                _mm512_mask_storeu_ps(x + i, m, exp16(_mm512_mul_ps(v, sv)));
        }
}

void kern_avx512_mix(struct kern_ops *ops) {
        kern_mix_rows(ops);
        ops->exp_scaled = exp_scaled;
}
