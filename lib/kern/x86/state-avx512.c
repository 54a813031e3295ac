/* SPDX-License-Identifier: MIT */
/* Recurrence with a matrix for each head: four registers are 64 values. */
#include "kern/state.h"
#include "kern/x86/avx512.h"

/* Registers of values at once; with the sums of each, 8 chains of additions run beside one another. */
#define N_REGS 4

KERN_INLINE __m512 load(const float *x, bool whole, __mmask16 m) {
        return whole ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(m, x);
}

KERN_INLINE void store(float *x, bool whole, __mmask16 m, __m512 v) {
        if (whole)
                _mm512_storeu_ps(x, v);
        else
                _mm512_mask_storeu_ps(x, m, v);
}

/* For each column a = sum of s[i] p[i], b = sum of s[i] r[i]. */
KERN_INLINE void two_sums(const struct kern_state_part *x, const float *s, const float *p,
        const float *r, __m512 *a, __m512 *b, unsigned n, bool whole, __mmask16 m) {
        KERN_UNROLL
        for (unsigned g = 0; g < n; g++)
                a[g] = b[g] = _mm512_setzero_ps();
        for (size_t i = 0; i < x->n_key; i++, s += x->n) {
                __m512 pv = _mm512_set1_ps(p[i]), rv = _mm512_set1_ps(r[i]);

                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        __m512 sv = load(s + 16 * g, whole, m);

                        a[g] = _mm512_fmadd_ps(sv, pv, a[g]);
                        b[g] = _mm512_fmadd_ps(sv, rv, b[g]);
                }
        }
}

/* n registers of columns from @col on; the last ones are masked if they are not whole. */
KERN_INLINE void delta_regs(
        const struct kern_delta_part *x, size_t col, unsigned n, bool whole, __mmask16 m) {
        const struct kern_state_part *s = &x->s;
        struct kern_delta_token y;
        __m512 a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ldv + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ldo + col, *to = s->next + col;

                kern_delta_token(x, t, &y);
                two_sums(s, from, y.p, y.r, a, b, n, whole, m);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        __m512 o = _mm512_set1_ps(y.c);

                        a[g] = _mm512_sub_ps(load(v + 16 * g, whole, m), a[g]);
                        a[g] = _mm512_mul_ps(a[g], _mm512_set1_ps(y.beta));
                        o = _mm512_fmadd_ps(o, a[g], b[g]);
                        o = _mm512_mul_ps(o, _mm512_set1_ps(x->scale));
                        store(out + 16 * g, whole, m, o);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m512 d = _mm512_set1_ps(y.d[i]), k = _mm512_set1_ps(y.k[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m512 sv = _mm512_mul_ps(d, load(from + 16 * g, whole, m));

                                store(to + 16 * g, whole, m, _mm512_fmadd_ps(k, a[g], sv));
                        }
                }
        }
}

KERN_INLINE void wkv6_regs(
        const struct kern_wkv_part *x, size_t col, unsigned n, bool whole, __mmask16 m) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv6_token y;
        __m512 v[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv6_token(x, t, &y);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        v[g] = load(x->v + t * x->ld + col + 16 * g, whole, m);
                        b[g] = _mm512_setzero_ps();
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m512 r = _mm512_set1_ps(y.r[i]), w = _mm512_set1_ps(y.w[i]);
                        __m512 k = _mm512_set1_ps(y.k[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m512 sv = load(from + 16 * g, whole, m);

                                b[g] = _mm512_fmadd_ps(sv, r, b[g]);
                                sv = _mm512_fmadd_ps(k, v[g], _mm512_mul_ps(w, sv));
                                store(to + 16 * g, whole, m, sv);
                        }
                }
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        b[g] = _mm512_fmadd_ps(_mm512_set1_ps(y.c), v[g], b[g]);
                        store(x->out + t * x->ld + col + 16 * g, whole, m, b[g]);
                }
        }
}

KERN_INLINE void wkv7_regs(
        const struct kern_wkv_part *x, size_t col, unsigned n, bool whole, __mmask16 m) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv7_token y;
        __m512 v[N_REGS], a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv7_token(x, t, &y);
                two_sums(s, from, y.kk, y.p, a, b, n, whole, m);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        a[g] = _mm512_xor_ps(a[g], _mm512_set1_ps(-0.0f));
                        v[g] = load(x->v + t * x->ld + col + 16 * g, whole, m);
                        b[g] = _mm512_fmadd_ps(_mm512_set1_ps(y.c), v[g], b[g]);
                        b[g] = _mm512_fmadd_ps(_mm512_set1_ps(y.f), a[g], b[g]);
                        store(x->out + t * x->ld + col + 16 * g, whole, m, b[g]);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m512 w = _mm512_set1_ps(y.w[i]), k = _mm512_set1_ps(y.k[i]);
                        __m512 mv = _mm512_set1_ps(y.m[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m512 sv = _mm512_mul_ps(w, load(from + 16 * g, whole, m));

                                sv = _mm512_fmadd_ps(mv, a[g], _mm512_fmadd_ps(k, v[g], sv));
                                store(to + 16 * g, whole, m, sv);
                        }
                }
        }
}

static void delta(const struct kern_delta_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 16 * N_REGS <= n; col += 16 * N_REGS)
                delta_regs(x, col, N_REGS, true, 0);
        for (; col + 16 <= n; col += 16)
                delta_regs(x, col, 1, true, 0);
        if (col < n)
                delta_regs(x, col, 1, false, first_lanes(n - col));
}

static void wkv6(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 16 * N_REGS <= n; col += 16 * N_REGS)
                wkv6_regs(x, col, N_REGS, true, 0);
        for (; col + 16 <= n; col += 16)
                wkv6_regs(x, col, 1, true, 0);
        if (col < n)
                wkv6_regs(x, col, 1, false, first_lanes(n - col));
}

static void wkv7(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 16 * N_REGS <= n; col += 16 * N_REGS)
                wkv7_regs(x, col, N_REGS, true, 0);
        for (; col + 16 <= n; col += 16)
                wkv7_regs(x, col, 1, true, 0);
        if (col < n)
                wkv7_regs(x, col, 1, false, first_lanes(n - col));
}

void kern_avx512_state(struct kern_ops *ops) {
        ops->delta = delta;
        ops->wkv6 = wkv6;
        ops->wkv7 = wkv7;
}
