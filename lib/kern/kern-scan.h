/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One channel of the recurrent kernels, in plain C: the definition of all channels (generic/scan.c), and
 * what computes the channels left over behind full vectors elsewhere. Private to lib/kern.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"

/* The next row's @x, perhaps behind the last row. Rows are far apart, and a row of a head takes so long that
 * the first load of the next one would otherwise begin when it is needed. */
static inline void kern_prefetch_row(const float *x, size_t ldx) {
        __builtin_prefetch((const void *)((uintptr_t)x + ldx * sizeof(*x)));
}

static inline void kern_conv_channel(const struct kern_conv_piece *p, size_t channel) {
        const struct kern_conv *c = p->conv;
        size_t n = c->n_taps - 1, width = c->n_channels;
        float window[KERN_CONV_TAPS_MAX];

        for (size_t i = 0; i < n; i++)
                window[i] = p->state ? p->state[i * width + channel] : 0;
        for (size_t t = 0; t < p->n; t++) {
                float y = 0;

                window[n] = p->x[t * p->ldx + channel];
                for (size_t i = 0; i <= n; i++)
                        y = fmaf(c->w[i * width + channel], window[i], y);
                for (size_t i = 0; i < n; i++)
                        window[i] = window[i + 1];
                if (c->bias)
                        y += c->bias[channel];
                p->y[t * p->ldy + channel] = c->silu ? kern_activate1(KERN_SILU, y, NULL) : y;
        }
        for (size_t i = 0; i < n; i++)
                p->next[i * width + channel] = window[i];
}

/* Channel @p of a tile (@of_head false) or of a head. */
static inline void kern_scan_channel(const struct kern_scan_tile *t, size_t p, bool of_head) {
        const float *state = t->state;

        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                float dt = t->dt[row * t->lddt + (of_head ? 0 : p)];
                float x = t->x[row * t->ldx + p], dx = x * dt, y = 0;
                float decay = of_head ? kern_exp(dt * *t->a) : 0;

                for (size_t i = 0; i < t->n_state; i++) {
                        float s = state[i * t->stride + p];

                        if (!of_head)
                                decay = kern_exp(dt * t->a[i * t->stride + p]);
                        s = fmaf(b[i], dx, s * decay);
                        t->next[i * t->stride + p] = s;
                        y = fmaf(s, c[i], y);
                }
                t->y[row * t->ldy + p] = fmaf(t->d[of_head ? 0 : p], x, y);
                state = t->next;
        }
}

/* Channels from @p on, and zeros behind the last one. */
static inline void kern_scan_rest(const struct kern_scan_tile *t, size_t p, bool of_head) {
        for (; p < t->width; p++)
                kern_scan_channel(t, p, of_head);
        for (; p < t->stride; p++)
                for (size_t i = 0; i < t->n_state; i++)
                        t->next[i * t->stride + p] = 0;
}
