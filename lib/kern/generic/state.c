/* SPDX-License-Identifier: MIT */
/* Recurrence with a matrix for each head, the definition. */
#include "kern/state.h"

static void delta(const struct kern_delta_part *x) {
        kern_delta_columns(x, 0, x->s.n);
}

static void wkv6(const struct kern_wkv_part *x) {
        kern_wkv6_columns(x, 0, x->s.n);
}

static void wkv7(const struct kern_wkv_part *x) {
        kern_wkv7_columns(x, 0, x->s.n);
}

void kern_generic_state(struct kern_ops *ops) {
        ops->delta = delta;
        ops->wkv6 = wkv6;
        ops->wkv7 = wkv7;
}
