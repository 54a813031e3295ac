/* SPDX-License-Identifier: MIT */
/* Recurrence, the definition (kern-scan.h has it for one channel). */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "kern/kern-scan.h"

static void conv(const struct kern_conv_piece *p) {
        for (size_t i = p->from; i < p->to; i++)
                kern_conv_channel(p, i);
}

static void softplus(const float *x, const float *bias, float *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = kern_softplus1(bias ? x[i] + bias[i] : x[i]);
}

static void scan_channels(const struct kern_scan_tile *t) {
        kern_scan_rest(t, 0, false);
}

static void scan_head(const struct kern_scan_tile *t) {
        kern_scan_rest(t, 0, true);
}

void kern_generic_scan(struct kern_ops *ops) {
        ops->conv = conv;
        ops->softplus = softplus;
        ops->scan_channels = scan_channels;
        ops->scan_head = scan_head;
}
