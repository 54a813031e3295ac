/* SPDX-License-Identifier: MIT */
/* Recurrence: a lane is a channel. The channels left over at the end are computed one by one, by the plain
 * C that defines the result. */
#include "kern/arm/neon.h"
#include "kern/kern-scan.h"

/* Of channels of a head that walk the state together. */
#define SCAN_VECTORS 8

/* 4 channels, all rows. */
KERN_INLINE void conv4(const struct kern_conv_piece *p, size_t at, unsigned n_taps) {
        const struct kern_conv *c = p->conv;
        float32x4_t w[KERN_CONV_TAPS_MAX], window[KERN_CONV_TAPS_MAX], bias = vdupq_n_f32(0);

        KERN_UNROLL
        for (unsigned i = 0; i < n_taps; i++)
                w[i] = vld1q_f32(c->w + i * c->n_channels + at);
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                window[i] =
                        p->state ? vld1q_f32(p->state + i * c->n_channels + at) : vdupq_n_f32(0);
        if (c->bias)
                bias = vld1q_f32(c->bias + at);
        for (size_t t = 0; t < p->n; t++) {
                float32x4_t y = vdupq_n_f32(0);

                window[n_taps - 1] = vld1q_f32(p->x + t * p->ldx + at);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps; i++)
                        y = vfmaq_f32(y, w[i], window[i]);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps - 1; i++)
                        window[i] = window[i + 1];
                if (c->bias)
                        y = vaddq_f32(y, bias);
                if (c->silu)
                        y = silu4(y);
                vst1q_f32(p->y + t * p->ldy + at, y);
        }
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                vst1q_f32(p->next + i * c->n_channels + at, window[i]);
}

KERN_INLINE void conv_taps(const struct kern_conv_piece *p, unsigned n_taps) {
        size_t i = p->from;

        for (; i + 4 <= p->to; i += 4)
                conv4(p, i, n_taps);
        for (; i < p->to; i++)
                kern_conv_channel(p, i);
}

static void conv(const struct kern_conv_piece *p) {
        switch (p->conv->n_taps) {
        case 2:
                conv_taps(p, 2);
                break;
        case 3:
                conv_taps(p, 3);
                break;
        case 4:
                conv_taps(p, 4);
                break;
        case 5:
                conv_taps(p, 5);
                break;
        case 6:
                conv_taps(p, 6);
                break;
        case 7:
                conv_taps(p, 7);
                break;
        default:
                conv_taps(p, 8);
        }
}

static void softplus(const float *x, const float *bias, float *y, size_t n) {
        float32x4_t e, h, z, p, v;
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                v = vld1q_f32(x + i);
                if (bias)
                        v = vaddq_f32(v, vld1q_f32(bias + i));
                e = exp4(vnegq_f32(vabsq_f32(v)));
                h = vdivq_f32(e, vaddq_f32(vdupq_n_f32(2), e));
                z = vmulq_f32(h, h);
                p = vfmaq_f32(vdupq_n_f32(KERN_LOG1P_C3), vdupq_n_f32(KERN_LOG1P_C4), z);
                p = vfmaq_f32(vdupq_n_f32(KERN_LOG1P_C2), p, z);
                p = vfmaq_f32(vdupq_n_f32(KERN_LOG1P_C1), p, z);
                p = vfmaq_f32(vdupq_n_f32(KERN_LOG1P_C0), p, z);
                p = vfmaq_f32(vaddq_f32(h, h), vmulq_f32(h, z), p);
                vst1q_f32(y + i, vaddq_f32(max2(v, vdupq_n_f32(0)), p));
        }
        for (; i < n; i++)
                y[i] = kern_softplus1(bias ? x[i] + bias[i] : x[i]);
}

/* One step of entry i of 4 channels; returns the new ones. */
KERN_INLINE float32x4_t step4(
        const float *state, float *next, float32x4_t decay, float b, float32x4_t dx) {
        float32x4_t s = vfmaq_n_f32(vmulq_f32(vld1q_f32(state), decay), dx, b);

        vst1q_f32(next, s);
        return s;
}

static void scan_channels(const struct kern_scan_tile *t) {
        const float *state = t->state;

        if (t->width < 16) {
                kern_scan_rest(t, 0, false);
                return;
        }
        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                const float *x = t->x + row * t->ldx;
                float *y = t->y + row * t->ldy;
                float32x4_t dt[4], dx[4], sum[4];

                KERN_UNROLL
                for (unsigned v = 0; v < 4; v++) {
                        dt[v] = vld1q_f32(t->dt + row * t->lddt + 4 * v);
                        dx[v] = vmulq_f32(vld1q_f32(x + 4 * v), dt[v]);
                        sum[v] = vdupq_n_f32(0);
                }
                for (size_t i = 0; i < t->n_state; i++)
                        KERN_UNROLL
                for (unsigned v = 0; v < 4; v++) {
                        size_t at = 16 * i + 4 * v;
                        float32x4_t e = exp4(vmulq_f32(dt[v], vld1q_f32(t->a + at)));

                        e = step4(state + at, t->next + at, e, b[i], dx[v]);
                        sum[v] = vfmaq_n_f32(sum[v], e, c[i]);
                }
                KERN_UNROLL
                for (unsigned v = 0; v < 4; v++)
                        vst1q_f32(y + 4 * v,
                                vfmaq_f32(sum[v], vld1q_f32(t->d + 4 * v), vld1q_f32(x + 4 * v)));
                state = t->next;
        }
}

/* @n_vectors of 4 channels of a head, all rows: their sums are independent of each other, which hides the
 * latency of the additions. */
KERN_INLINE void scan_vectors(const struct kern_scan_tile *t, size_t p, unsigned n_vectors) {
        const float *state = t->state + p;
        float *next = t->next + p;

        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                const float *x = t->x + row * t->ldx + p;
                float dt = t->dt[row * t->lddt], *y = t->y + row * t->ldy + p;
                float32x4_t decay = vdupq_n_f32(kern_exp(dt * *t->a)), dx[SCAN_VECTORS];
                float32x4_t sum[SCAN_VECTORS];

                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++) {
                        dx[v] = vmulq_n_f32(vld1q_f32(x + 4 * v), dt);
                        sum[v] = vdupq_n_f32(0);
                }
                kern_prefetch_row(x, t->ldx);
                for (size_t i = 0; i < t->n_state; i++) {
                        size_t at = i * t->stride;

                        KERN_UNROLL
                        for (unsigned v = 0; v < n_vectors; v++)
                                sum[v] = vfmaq_n_f32(sum[v],
                                        step4(state + at + 4 * v, next + at + 4 * v, decay, b[i],
                                                dx[v]),
                                        c[i]);
                }
                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++)
                        vst1q_f32(y + 4 * v, vfmaq_n_f32(sum[v], vld1q_f32(x + 4 * v), *t->d));
                state = next;
        }
}

static void scan_head(const struct kern_scan_tile *t) {
        size_t p = 0;

        for (; p + 4 * SCAN_VECTORS <= t->width; p += 4 * SCAN_VECTORS)
                scan_vectors(t, p, SCAN_VECTORS);
        if (p + 16 <= t->width) {
                scan_vectors(t, p, 4);
                p += 16;
        }
        for (; p + 4 <= t->width; p += 4)
                scan_vectors(t, p, 1);
        kern_scan_rest(t, p, true);
}

void kern_neon_scan(struct kern_ops *ops) {
        ops->conv = conv;
        ops->softplus = softplus;
        ops->scan_channels = scan_channels;
        ops->scan_head = scan_head;
}
