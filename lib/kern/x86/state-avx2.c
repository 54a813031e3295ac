/* SPDX-License-Identifier: MIT */
/* Recurrence with a matrix for each head. The columns left over, fewer than a register has, are computed
 * by the plain C that defines the result. */
#include "kern/state.h"
#include "kern/x86/avx2.h"

/* Registers of values at once; with the sums of each, 8 chains of additions run beside one another. */
#define N_REGS 4

/* For each column a = sum of s[i] p[i], b = sum of s[i] r[i]. */
KERN_INLINE void two_sums(const struct kern_state_part *x, const float *s, const float *p,
        const float *r, __m256 *a, __m256 *b, unsigned n) {
        KERN_UNROLL
        for (unsigned g = 0; g < n; g++)
                a[g] = b[g] = _mm256_setzero_ps();
        for (size_t i = 0; i < x->n_key; i++, s += x->n) {
                __m256 pv = _mm256_set1_ps(p[i]), rv = _mm256_set1_ps(r[i]);

                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        __m256 sv = _mm256_loadu_ps(s + 8 * g);

                        a[g] = _mm256_fmadd_ps(sv, pv, a[g]);
                        b[g] = _mm256_fmadd_ps(sv, rv, b[g]);
                }
        }
}

/* n registers of columns from @col on. */
KERN_INLINE void delta_regs(const struct kern_delta_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_delta_token y;
        __m256 a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ldv + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ldo + col, *to = s->next + col;

                kern_delta_token(x, t, &y);
                two_sums(s, from, y.p, y.r, a, b, n);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        __m256 o = _mm256_set1_ps(y.c);

                        a[g] = _mm256_sub_ps(_mm256_loadu_ps(v + 8 * g), a[g]);
                        a[g] = _mm256_mul_ps(a[g], _mm256_set1_ps(y.beta));
                        o = _mm256_fmadd_ps(o, a[g], b[g]);
                        o = _mm256_mul_ps(o, _mm256_set1_ps(x->scale));
                        _mm256_storeu_ps(out + 8 * g, o);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m256 d = _mm256_set1_ps(y.d[i]), k = _mm256_set1_ps(y.k[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m256 sv = _mm256_mul_ps(d, _mm256_loadu_ps(from + 8 * g));

                                _mm256_storeu_ps(to + 8 * g, _mm256_fmadd_ps(k, a[g], sv));
                        }
                }
        }
}

KERN_INLINE void wkv6_regs(const struct kern_wkv_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv6_token y;
        __m256 v[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv6_token(x, t, &y);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        v[g] = _mm256_loadu_ps(x->v + t * x->ld + col + 8 * g);
                        b[g] = _mm256_setzero_ps();
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m256 r = _mm256_set1_ps(y.r[i]), w = _mm256_set1_ps(y.w[i]);
                        __m256 k = _mm256_set1_ps(y.k[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m256 sv = _mm256_loadu_ps(from + 8 * g);

                                b[g] = _mm256_fmadd_ps(sv, r, b[g]);
                                sv = _mm256_fmadd_ps(k, v[g], _mm256_mul_ps(w, sv));
                                _mm256_storeu_ps(to + 8 * g, sv);
                        }
                }
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        b[g] = _mm256_fmadd_ps(_mm256_set1_ps(y.c), v[g], b[g]);
                        _mm256_storeu_ps(x->out + t * x->ld + col + 8 * g, b[g]);
                }
        }
}

KERN_INLINE void wkv7_regs(const struct kern_wkv_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv7_token y;
        __m256 v[N_REGS], a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv7_token(x, t, &y);
                two_sums(s, from, y.kk, y.p, a, b, n);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        a[g] = _mm256_xor_ps(a[g], _mm256_set1_ps(-0.0f));
                        v[g] = _mm256_loadu_ps(x->v + t * x->ld + col + 8 * g);
                        b[g] = _mm256_fmadd_ps(_mm256_set1_ps(y.c), v[g], b[g]);
                        b[g] = _mm256_fmadd_ps(_mm256_set1_ps(y.f), a[g], b[g]);
                        _mm256_storeu_ps(x->out + t * x->ld + col + 8 * g, b[g]);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n) {
                        __m256 w = _mm256_set1_ps(y.w[i]), k = _mm256_set1_ps(y.k[i]);
                        __m256 mv = _mm256_set1_ps(y.m[i]);

                        KERN_UNROLL
                        for (unsigned g = 0; g < n; g++) {
                                __m256 sv = _mm256_mul_ps(w, _mm256_loadu_ps(from + 8 * g));

                                sv = _mm256_fmadd_ps(mv, a[g], _mm256_fmadd_ps(k, v[g], sv));
                                _mm256_storeu_ps(to + 8 * g, sv);
                        }
                }
        }
}

static void delta(const struct kern_delta_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 8 * N_REGS <= n; col += 8 * N_REGS)
                delta_regs(x, col, N_REGS);
        for (; col + 8 <= n; col += 8)
                delta_regs(x, col, 1);
        if (col < n)
                kern_delta_columns(x, col, n - col);
}

static void wkv6(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 8 * N_REGS <= n; col += 8 * N_REGS)
                wkv6_regs(x, col, N_REGS);
        for (; col + 8 <= n; col += 8)
                wkv6_regs(x, col, 1);
        if (col < n)
                kern_wkv6_columns(x, col, n - col);
}

static void wkv7(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 8 * N_REGS <= n; col += 8 * N_REGS)
                wkv7_regs(x, col, N_REGS);
        for (; col + 8 <= n; col += 8)
                wkv7_regs(x, col, 1);
        if (col < n)
                kern_wkv7_columns(x, col, n - col);
}

void kern_avx2_state(struct kern_ops *ops) {
        ops->delta = delta;
        ops->wkv6 = wkv6;
        ops->wkv7 = wkv7;
}
