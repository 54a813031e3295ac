/* SPDX-License-Identifier: MIT */
/* Recurrence: a lane is a channel. */
#include "kern/kern-scan.h"
#include "kern/x86/avx512.h"

/* Of channels of a head that walk the state together; 5 are a head size of 80. */
#define SCAN_VECTORS 5

KERN_INLINE __m512 silu16(__m512 x) {
        __m512 e = exp16(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)));

        return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), e));
}

/* 16 channels, all rows: weights and window stay in registers. */
KERN_INLINE void conv16(const struct kern_conv_piece *p, size_t at, unsigned n_taps, __mmask16 m) {
        const struct kern_conv *c = p->conv;
        __m512 w[KERN_CONV_TAPS_MAX], window[KERN_CONV_TAPS_MAX], bias = _mm512_setzero_ps();

        KERN_UNROLL
        for (unsigned i = 0; i < n_taps; i++)
                w[i] = _mm512_maskz_loadu_ps(m, c->w + i * c->n_channels + at);
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                window[i] = p->state ? _mm512_maskz_loadu_ps(m, p->state + i * c->n_channels + at)
                                     : _mm512_setzero_ps();
        if (c->bias)
                bias = _mm512_maskz_loadu_ps(m, c->bias + at);
        for (size_t t = 0; t < p->n; t++) {
                __m512 y = _mm512_setzero_ps();

                window[n_taps - 1] = _mm512_maskz_loadu_ps(m, p->x + t * p->ldx + at);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps; i++)
                        y = _mm512_fmadd_ps(w[i], window[i], y);
                KERN_UNROLL
                for (unsigned i = 0; i < n_taps - 1; i++)
                        window[i] = window[i + 1];
                if (c->bias)
                        y = _mm512_add_ps(y, bias);
                if (c->silu)
                        y = silu16(y);
                _mm512_mask_storeu_ps(p->y + t * p->ldy + at, m, y);
        }
        KERN_UNROLL
        for (unsigned i = 0; i < n_taps - 1; i++)
                _mm512_mask_storeu_ps(p->next + i * c->n_channels + at, m, window[i]);
}

KERN_INLINE void conv_taps(const struct kern_conv_piece *p, unsigned n_taps) {
        for (size_t i = p->from; i < p->to; i += 16)
                conv16(p, i, n_taps, lanes_at(i, p->to));
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
        __m512 sign = _mm512_set1_ps(-0.0f), h, z, p;

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(m, x + i), e;

                if (bias)
                        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, bias + i));
                e = exp16(_mm512_or_ps(v, sign));
                h = _mm512_div_ps(e, _mm512_add_ps(_mm512_set1_ps(2), e));
                z = _mm512_mul_ps(h, h);
                p = _mm512_fmadd_ps(
                        _mm512_set1_ps(KERN_LOG1P_C4), z, _mm512_set1_ps(KERN_LOG1P_C3));
                p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(KERN_LOG1P_C2));
                p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(KERN_LOG1P_C1));
                p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(KERN_LOG1P_C0));
                p = _mm512_fmadd_ps(_mm512_mul_ps(h, z), p, _mm512_add_ps(h, h));
                v = _mm512_max_ps(v, _mm512_setzero_ps());
                _mm512_mask_storeu_ps(y + i, m, _mm512_add_ps(v, p));
        }
}

static void scan_channels(const struct kern_scan_tile *t) {
        const float *state = t->state;

        if (t->width < 16) {
                kern_scan_rest(t, 0, false);
                return;
        }
        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                __m512 x = _mm512_loadu_ps(t->x + row * t->ldx), y = _mm512_setzero_ps();
                __m512 dt = _mm512_loadu_ps(t->dt + row * t->lddt), dx = _mm512_mul_ps(x, dt);

                for (size_t i = 0; i < t->n_state; i++) {
                        __m512 e = exp16(_mm512_mul_ps(dt, _mm512_loadu_ps(t->a + i * 16)));
                        __m512 s = _mm512_mul_ps(_mm512_loadu_ps(state + i * 16), e);

                        s = _mm512_fmadd_ps(_mm512_set1_ps(b[i]), dx, s);
                        _mm512_storeu_ps(t->next + i * 16, s);
                        y = _mm512_fmadd_ps(s, _mm512_set1_ps(c[i]), y);
                }
                y = _mm512_fmadd_ps(_mm512_loadu_ps(t->d), x, y);
                _mm512_storeu_ps(t->y + row * t->ldy, y);
                state = t->next;
        }
}

/*
 * @n_vectors of 16 channels of a head, all rows: their sums are independent of each other, which hides the
 * latency of the additions. Only channels @m of the last vector are there; the others of its state are
 * zeros.
 */
KERN_INLINE void scan_vectors(
        const struct kern_scan_tile *t, size_t p, unsigned n_vectors, __mmask16 m) {
        const float *state = t->state + p;
        float *next = t->next + p;

        for (size_t row = 0; row < t->n; row++) {
                const float *b = t->b + row * t->ldbc, *c = t->c + row * t->ldbc;
                const float *x = t->x + row * t->ldx + p;
                float dt = t->dt[row * t->lddt], *y = t->y + row * t->ldy + p;
                __m512 decay = _mm512_set1_ps(kern_exp(dt * *t->a));
                __m512 xs[SCAN_VECTORS], dx[SCAN_VECTORS], sum[SCAN_VECTORS];

                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++) {
                        xs[v] = _mm512_maskz_loadu_ps(v == n_vectors - 1 ? m : 0xffff, x + 16 * v);
                        dx[v] = _mm512_mul_ps(xs[v], _mm512_set1_ps(dt));
                        sum[v] = _mm512_setzero_ps();
                        kern_prefetch_row(x + 16 * v, t->ldx);
                }
                for (size_t i = 0; i < t->n_state; i++) {
                        __m512 bi = _mm512_set1_ps(b[i]), ci = _mm512_set1_ps(c[i]);

                        KERN_UNROLL
                        for (unsigned v = 0; v < n_vectors; v++) {
                                __m512 s = _mm512_loadu_ps(state + i * t->stride + 16 * v);

                                s = _mm512_mul_ps(s, decay);
                                if (v == n_vectors - 1)
                                        s = _mm512_maskz_fmadd_ps(m, bi, dx[v], s);
                                else
                                        s = _mm512_fmadd_ps(bi, dx[v], s);
                                _mm512_storeu_ps(next + i * t->stride + 16 * v, s);
                                sum[v] = _mm512_fmadd_ps(s, ci, sum[v]);
                        }
                }
                KERN_UNROLL
                for (unsigned v = 0; v < n_vectors; v++)
                        _mm512_mask_storeu_ps(y + 16 * v, v == n_vectors - 1 ? m : 0xffff,
                                _mm512_fmadd_ps(_mm512_set1_ps(*t->d), xs[v], sum[v]));
                state = next;
        }
}

static void scan_head(const struct kern_scan_tile *t) {
        size_t n = (t->width + 15) / 16, n_passes = (n + SCAN_VECTORS - 1) / SCAN_VECTORS;
        size_t each = (n + n_passes - 1) / n_passes;

        for (size_t v = 0; v < n; v += each) {
                size_t p = 16 * v, end = t->width - p;
                __mmask16 m = end < 16 * each ? lanes_at((end - 1) / 16 * 16, end) : 0xffff;

                switch (end < 16 * each ? (end + 15) / 16 : each) {
                case 1:
                        scan_vectors(t, p, 1, m);
                        break;
                case 2:
                        scan_vectors(t, p, 2, m);
                        break;
                case 3:
                        scan_vectors(t, p, 3, m);
                        break;
                case 4:
                        scan_vectors(t, p, 4, m);
                        break;
                default:
                        scan_vectors(t, p, SCAN_VECTORS, m);
                }
        }
}

void kern_avx512_scan(struct kern_ops *ops) {
        ops->conv = conv;
        ops->softplus = softplus;
        ops->scan_channels = scan_channels;
        ops->scan_head = scan_head;
}
