/* SPDX-License-Identifier: MIT */
/* Recurrence with a matrix for each head. The columns left over, fewer than a register has, are computed
 * by the plain C that defines the result. */
#include "kern/arm/neon.h"
#include "kern/state.h"

/* Registers of values at once; with the sums of each, 16 chains of additions run beside one another. */
#define N_REGS 8

/* For each column a = sum of s[i] p[i], b = sum of s[i] r[i]. */
KERN_INLINE void two_sums(const struct kern_state_part *x, const float *s, const float *p,
        const float *r, float32x4_t *a, float32x4_t *b, unsigned n) {
        KERN_UNROLL
        for (unsigned g = 0; g < n; g++)
                a[g] = b[g] = vdupq_n_f32(0);
        for (size_t i = 0; i < x->n_key; i++, s += x->n)
                KERN_UNROLL
        for (unsigned g = 0; g < n; g++) {
                float32x4_t sv = vld1q_f32(s + 4 * g);

                a[g] = vfmaq_n_f32(a[g], sv, p[i]);
                b[g] = vfmaq_n_f32(b[g], sv, r[i]);
        }
}

/* n registers of columns from @col on. */
KERN_INLINE void delta_regs(const struct kern_delta_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_delta_token y;
        float32x4_t a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ldv + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ldo + col, *to = s->next + col;

                kern_delta_token(x, t, &y);
                two_sums(s, from, y.p, y.r, a, b, n);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        a[g] = vmulq_n_f32(vsubq_f32(vld1q_f32(v + 4 * g), a[g]), y.beta);
                        b[g] = vfmaq_n_f32(b[g], a[g], y.c);
                        vst1q_f32(out + 4 * g, vmulq_n_f32(b[g], x->scale));
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n)
                        KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        float32x4_t sv = vmulq_n_f32(vld1q_f32(from + 4 * g), y.d[i]);

                        vst1q_f32(to + 4 * g, vfmaq_n_f32(sv, a[g], y.k[i]));
                }
        }
}

KERN_INLINE void wkv6_regs(const struct kern_wkv_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv6_token y;
        float32x4_t v[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv6_token(x, t, &y);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        v[g] = vld1q_f32(x->v + t * x->ld + col + 4 * g);
                        b[g] = vdupq_n_f32(0);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n)
                        KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        float32x4_t sv = vld1q_f32(from + 4 * g);

                        b[g] = vfmaq_n_f32(b[g], sv, y.r[i]);
                        sv = vmulq_n_f32(sv, y.w[i]);
                        vst1q_f32(to + 4 * g, vfmaq_n_f32(sv, v[g], y.k[i]));
                }
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++)
                        vst1q_f32(x->out + t * x->ld + col + 4 * g, vfmaq_n_f32(b[g], v[g], y.c));
        }
}

KERN_INLINE void wkv7_regs(const struct kern_wkv_part *x, size_t col, unsigned n) {
        const struct kern_state_part *s = &x->s;
        struct kern_wkv7_token y;
        float32x4_t v[N_REGS], a[N_REGS], b[N_REGS];

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *from = kern_state_before(s, t) + col;
                float *to = s->next + col;

                kern_wkv7_token(x, t, &y);
                two_sums(s, from, y.kk, y.p, a, b, n);
                KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        a[g] = vnegq_f32(a[g]);
                        v[g] = vld1q_f32(x->v + t * x->ld + col + 4 * g);
                        b[g] = vfmaq_n_f32(b[g], v[g], y.c);
                        b[g] = vfmaq_n_f32(b[g], a[g], y.f);
                        vst1q_f32(x->out + t * x->ld + col + 4 * g, b[g]);
                }
                for (size_t i = 0; i < s->n_key; i++, from += s->n, to += s->n)
                        KERN_UNROLL
                for (unsigned g = 0; g < n; g++) {
                        float32x4_t sv = vmulq_n_f32(vld1q_f32(from + 4 * g), y.w[i]);

                        sv = vfmaq_n_f32(sv, v[g], y.k[i]);
                        vst1q_f32(to + 4 * g, vfmaq_n_f32(sv, a[g], y.m[i]));
                }
        }
}

static void delta(const struct kern_delta_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 4 * N_REGS <= n; col += 4 * N_REGS)
                delta_regs(x, col, N_REGS);
        for (; col + 4 <= n; col += 4)
                delta_regs(x, col, 1);
        if (col < n)
                kern_delta_columns(x, col, n - col);
}

static void wkv6(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 4 * N_REGS <= n; col += 4 * N_REGS)
                wkv6_regs(x, col, N_REGS);
        for (; col + 4 <= n; col += 4)
                wkv6_regs(x, col, 1);
        if (col < n)
                kern_wkv6_columns(x, col, n - col);
}

static void wkv7(const struct kern_wkv_part *x) {
        size_t n = x->s.n, col = 0;

        for (; col + 4 * N_REGS <= n; col += 4 * N_REGS)
                wkv7_regs(x, col, N_REGS);
        for (; col + 4 <= n; col += 4)
                wkv7_regs(x, col, 1);
        if (col < n)
                kern_wkv7_columns(x, col, n - col);
}

void kern_neon_state(struct kern_ops *ops) {
        ops->delta = delta;
        ops->wkv6 = wkv6;
        ops->wkv7 = wkv7;
}
