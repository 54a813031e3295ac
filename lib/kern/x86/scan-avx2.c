/* SPDX-License-Identifier: MIT */
/* Recurrence: a lane is a channel. The channels left over at the end are computed one by one, by the plain
 * C that defines the result. */
#include "kern/kern-scan.h"
#include "kern/x86/avx2.h"

/* Of channels of a head that walk the state together. */
#define SCAN_VECTORS 5

KERN_INLINE __m256 silu8(__m256 x) {
        __m256 e = exp8(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));

        return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), e));
}

/* 8 channels, all rows. */
KERN_INLINE void conv8(const struct kern_conv_piece *p, size_t at, unsigned n_taps) {
        const struct kern_conv *c = p->conv;
        __m256 w[KERN_CONV_TAPS_MAX], window[KERN_CONV_TAPS_MAX], bias = _mm256_setzero_ps();

        KERN_UNROLL
        for (unsigned i = 0; i < n_taps; i++)
                w[i] = _mm256_loadu_ps(c->w + i * c->n_channels + at);
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                window[i] = p->state ? _mm256_loadu_ps(p->state + i * c->n_channels + at)
                                     : _mm256_setzero_ps();
        if (c->bias)
                bias = _mm256_loadu_ps(c->bias + at);
        for (size_t t = 0; t < p->n; t++) {
                __m256 y = _mm256_setzero_ps();

                window[n_taps - 1] = _mm256_loadu_ps(p->x + t * p->ldx + at);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps; i++)
                        y = _mm256_fmadd_ps(w[i], window[i], y);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps - 1; i++)
                        window[i] = window[i + 1];
                if (c->bias)
                        y = _mm256_add_ps(y, bias);
                if (c->silu)
                        y = silu8(y);
                _mm256_storeu_ps(p->y + t * p->ldy + at, y);
        }
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                _mm256_storeu_ps(p->next + i * c->n_channels + at, window[i]);
}

KERN_INLINE void conv_taps(const struct kern_conv_piece *p, unsigned n_taps) {
        size_t i = p->from;

        for (; i + 8 <= p->to; i += 8)
                conv8(p, i, n_taps);
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
        __m256 sign = _mm256_set1_ps(-0.0f), e, h, z, p, v;
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                v = _mm256_loadu_ps(x + i);
                if (bias)
                        v = _mm256_add_ps(v, _mm256_loadu_ps(bias + i));
                e = exp8(_mm256_or_ps(v, sign));
                h = _mm256_div_ps(e, _mm256_add_ps(_mm256_set1_ps(2), e));
                z = _mm256_mul_ps(h, h);
                p = _mm256_fmadd_ps(
                        _mm256_set1_ps(KERN_LOG1P_C4), z, _mm256_set1_ps(KERN_LOG1P_C3));
                p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(KERN_LOG1P_C2));
                p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(KERN_LOG1P_C1));
                p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(KERN_LOG1P_C0));
                p = _mm256_fmadd_ps(_mm256_mul_ps(h, z), p, _mm256_add_ps(h, h));
                v = _mm256_max_ps(v, _mm256_setzero_ps());
                _mm256_storeu_ps(y + i, _mm256_add_ps(v, p));
        }
        for (; i < n; i++)
                y[i] = kern_softplus1(bias ? x[i] + bias[i] : x[i]);
}

/* One step of 8 entries i of a channel each; returns the new ones. */
KERN_INLINE __m256 step8(const float *state, float *next, __m256 decay, __m256 b, __m256 dx) {
        __m256 s = _mm256_fmadd_ps(b, dx, _mm256_mul_ps(_mm256_loadu_ps(state), decay));

        _mm256_storeu_ps(next, s);
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
                const float *x = t->x + row * t->ldx, *dt = t->dt + row * t->lddt;
                float *y = t->y + row * t->ldy;
                __m256 dt0 = _mm256_loadu_ps(dt), dt1 = _mm256_loadu_ps(dt + 8);
                __m256 dx0 = _mm256_mul_ps(_mm256_loadu_ps(x), dt0);
                __m256 dx1 = _mm256_mul_ps(_mm256_loadu_ps(x + 8), dt1);
                __m256 y0 = _mm256_setzero_ps(), y1 = y0;

                for (size_t i = 0; i < t->n_state; i++) {
                        const float *a = t->a + i * 16, *s = state + i * 16;
                        __m256 bi = _mm256_set1_ps(b[i]), ci = _mm256_set1_ps(c[i]);
                        __m256 e0 = exp8(_mm256_mul_ps(dt0, _mm256_loadu_ps(a)));
                        __m256 e1 = exp8(_mm256_mul_ps(dt1, _mm256_loadu_ps(a + 8)));

                        y0 = _mm256_fmadd_ps(step8(s, t->next + i * 16, e0, bi, dx0), ci, y0);
                        y1 = _mm256_fmadd_ps(
                                step8(s + 8, t->next + i * 16 + 8, e1, bi, dx1), ci, y1);
                }
                y0 = _mm256_fmadd_ps(_mm256_loadu_ps(t->d), _mm256_loadu_ps(x), y0);
                y1 = _mm256_fmadd_ps(_mm256_loadu_ps(t->d + 8), _mm256_loadu_ps(x + 8), y1);
                _mm256_storeu_ps(y, y0);
                _mm256_storeu_ps(y + 8, y1);
                state = t->next;
        }
}

/* @n_vectors of 8 channels of a head, all rows: their sums are independent of each other, which hides the
 * latency of the additions. */
KERN_INLINE void scan_vectors(const struct kern_scan_tile *t, size_t p, unsigned n_vectors) {
        const float *state = t->state + p;
        float *next = t->next + p;

        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                const float *x = t->x + row * t->ldx + p;
                float dt = t->dt[row * t->lddt], *y = t->y + row * t->ldy + p;
                __m256 decay = _mm256_set1_ps(kern_exp(dt * *t->a)), dx[SCAN_VECTORS];
                __m256 sum[SCAN_VECTORS];

                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++) {
                        dx[v] = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * v), _mm256_set1_ps(dt));
                        sum[v] = _mm256_setzero_ps();
                        kern_prefetch_row(x + 8 * v, t->ldx);
                }
                for (size_t i = 0; i < t->n_state; i++) {
                        __m256 bi = _mm256_set1_ps(b[i]), ci = _mm256_set1_ps(c[i]);
                        size_t at = i * t->stride;

                        KERN_UNROLL
                        for (unsigned v = 0; v < n_vectors; v++)
                                sum[v] =
                                        _mm256_fmadd_ps(step8(state + at + 8 * v, next + at + 8 * v,
                                                                decay, bi, dx[v]),
                                                ci, sum[v]);
                }
                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++)
                        _mm256_storeu_ps(y + 8 * v, _mm256_fmadd_ps(_mm256_set1_ps(*t->d),
                                                            _mm256_loadu_ps(x + 8 * v), sum[v]));
                state = next;
        }
}

static void scan_head(const struct kern_scan_tile *t) {
        size_t n = t->width / 8, n_passes = (n + SCAN_VECTORS - 1) / SCAN_VECTORS;
        size_t each = n ? (n + n_passes - 1) / n_passes : 0;

        for (size_t v = 0; v < n; v += each)
                switch (n - v < each ? n - v : each) {
                case 1:
                        scan_vectors(t, 8 * v, 1);
                        break;
                case 2:
                        scan_vectors(t, 8 * v, 2);
                        break;
                case 3:
                        scan_vectors(t, 8 * v, 3);
                        break;
                case 4:
                        scan_vectors(t, 8 * v, 4);
                        break;
                default:
                        scan_vectors(t, 8 * v, SCAN_VECTORS);
                }
        kern_scan_rest(t, 8 * n, true);
}

void kern_avx2_scan(struct kern_ops *ops) {
        ops->conv = conv;
        ops->softplus = softplus;
        ops->scan_channels = scan_channels;
        ops->scan_head = scan_head;
}
