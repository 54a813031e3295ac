/* SPDX-License-Identifier: MIT */
/* What linear attention makes of its rows, the definition. */
#include "kern/mix-rows.h"

static void exp_scaled(float *x, const float *s, bool each, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = kern_exp(x[i] * s[each ? i : 0]);
}

void kern_generic_mix(struct kern_ops *ops) {
        kern_mix_rows(ops);
        ops->exp_scaled = exp_scaled;
}
