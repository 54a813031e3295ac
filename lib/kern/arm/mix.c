/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows. */
#include "kern/arm/neon.h"
#include "kern/mix-rows.h"

static void exp_scaled(float *x, const float *s, bool each, size_t n) {
        float32x4_t sv = vdupq_n_f32(s[0]);
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                if (each)
                        sv = vld1q_f32(s + i);
                vst1q_f32(x + i, exp4(vmulq_f32(vld1q_f32(x + i), sv)));
        }
        for (; i < n; i++)
                x[i] = kern_exp(x[i] * s[each ? i : 0]);
}

void kern_neon_mix(struct kern_ops *ops) {
        kern_mix_rows(ops);
        ops->exp_scaled = exp_scaled;
}
