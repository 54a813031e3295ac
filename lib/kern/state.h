/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Recurrence with a matrix for each head, shared by all instruction sets (private to lib/kern): what one
 * task works on, what is made of a token before its passes over the state, and the passes in plain C,
 * which define the result. See the contract in kern.h.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"

/* The greatest panel, in values: 128 keys of so many are 32 KiB. */
#define KERN_STATE_PANEL 64

/* One panel of one head's matrix, [n_key][n]. */
struct kern_state_part {
        const float *state; /* before the first token; may be `next` */
        float *next;
        size_t n_key, n;
        size_t n_tokens;
};

/* Pointers to the head in the first token's row; v and out to the first value. */
struct kern_delta_part {
        struct kern_state_part s;
        const float *q, *k, *v, *decay, *beta;
        float *out;
        size_t ldq, ldk, ldv, ldo, lddecay, ldbeta;
        bool decay_per_key;
        float scale;
};

struct kern_wkv_part {
        struct kern_state_part s;
        const float *r, *w, *k, *v, *u, *kk, *a;
        float *out;
        size_t ld;
};

/* dot() of the contract. */
KERN_INLINE float kern_dot16(const float *a, const float *b, size_t n) {
        float acc[16] = {0};
        size_t i = 0;

        for (; i + 16 <= n; i += 16)
                for (size_t l = 0; l < 16; l++)
                        acc[l] = fmaf(a[i + l], b[i + l], acc[l]);
        for (size_t l = 0; i + l < n; l++)
                acc[l] = fmaf(a[i + l], b[i + l], acc[l]);
        return kern_tree16(acc);
}

/* The state that token t of the part reads. */
static inline const float *kern_state_before(const struct kern_state_part *s, size_t t) {
        return t ? s->next : s->state;
}

/* What the passes need of a token, by key. */
struct kern_delta_token {
        float d[KERN_STATE_KEYS], p[KERN_STATE_KEYS], r[KERN_STATE_KEYS];
        const float *k;
        float c, beta;
};

KERN_INLINE void kern_delta_token(
        const struct kern_delta_part *x, size_t t, struct kern_delta_token *y) {
        const float *q = x->q + t * x->ldq, *k = x->k + t * x->ldk;
        const float *decay = x->decay + t * x->lddecay;
        size_t n = x->s.n_key;

        for (size_t i = 0; i < n; i++) {
                float d = x->decay_per_key ? decay[i] : decay[0];

                y->d[i] = d;
                y->p[i] = d * k[i];
                y->r[i] = d * q[i];
        }
        y->k = k;
        y->c = kern_dot16(k, q, n);
        y->beta = x->beta[t * x->ldbeta];
}

/* Columns [col, col + n) through all tokens. */
KERN_INLINE void kern_delta_columns(const struct kern_delta_part *x, size_t col, size_t n) {
        const struct kern_state_part *s = &x->s;
        float a[KERN_STATE_PANEL], b[KERN_STATE_PANEL], e[KERN_STATE_PANEL];
        struct kern_delta_token y;

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ldv + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ldo + col, *to = s->next + col;

                kern_delta_token(x, t, &y);
                for (size_t j = 0; j < n; j++)
                        a[j] = b[j] = 0;
                for (size_t i = 0; i < s->n_key; i++)
                        for (size_t j = 0; j < n; j++) {
                                a[j] = fmaf(from[i * s->n + j], y.p[i], a[j]);
                                b[j] = fmaf(from[i * s->n + j], y.r[i], b[j]);
                        }
                for (size_t j = 0; j < n; j++) {
                        e[j] = (v[j] - a[j]) * y.beta;
                        out[j] = fmaf(y.c, e[j], b[j]) * x->scale;
                }
                for (size_t i = 0; i < s->n_key; i++)
                        for (size_t j = 0; j < n; j++)
                                to[i * s->n + j] = fmaf(y.k[i], e[j], y.d[i] * from[i * s->n + j]);
        }
}

struct kern_wkv6_token {
        const float *r, *w, *k;
        float c;
};

KERN_INLINE void kern_wkv6_token(
        const struct kern_wkv_part *x, size_t t, struct kern_wkv6_token *y) {
        float ru[KERN_STATE_KEYS];

        y->r = x->r + t * x->ld;
        y->w = x->w + t * x->ld;
        y->k = x->k + t * x->ld;
        for (size_t i = 0; i < x->s.n_key; i++)
                ru[i] = y->r[i] * x->u[i];
        y->c = kern_dot16(ru, y->k, x->s.n_key);
}

KERN_INLINE void kern_wkv6_columns(const struct kern_wkv_part *x, size_t col, size_t n) {
        const struct kern_state_part *s = &x->s;
        float b[KERN_STATE_PANEL];
        struct kern_wkv6_token y;

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ld + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ld + col, *to = s->next + col;

                kern_wkv6_token(x, t, &y);
                for (size_t j = 0; j < n; j++)
                        b[j] = 0;
                for (size_t i = 0; i < s->n_key; i++)
                        for (size_t j = 0; j < n; j++) {
                                float m = from[i * s->n + j];

                                b[j] = fmaf(m, y.r[i], b[j]);
                                to[i * s->n + j] = fmaf(y.k[i], v[j], y.w[i] * m);
                        }
                for (size_t j = 0; j < n; j++)
                        out[j] = fmaf(y.c, v[j], b[j]);
        }
}

struct kern_wkv7_token {
        float m[KERN_STATE_KEYS], p[KERN_STATE_KEYS];
        const float *w, *k, *kk;
        float c, f;
};

KERN_INLINE void kern_wkv7_token(
        const struct kern_wkv_part *x, size_t t, struct kern_wkv7_token *y) {
        const float *r = x->r + t * x->ld, *a = x->a + t * x->ld;

        y->w = x->w + t * x->ld;
        y->k = x->k + t * x->ld;
        y->kk = x->kk + t * x->ld;
        for (size_t i = 0; i < x->s.n_key; i++) {
                y->m[i] = y->kk[i] * a[i];
                y->p[i] = y->w[i] * r[i];
        }
        y->c = kern_dot16(y->k, r, x->s.n_key);
        y->f = kern_dot16(y->m, r, x->s.n_key);
}

KERN_INLINE void kern_wkv7_columns(const struct kern_wkv_part *x, size_t col, size_t n) {
        const struct kern_state_part *s = &x->s;
        float a[KERN_STATE_PANEL], b[KERN_STATE_PANEL];
        struct kern_wkv7_token y;

        for (size_t t = 0; t < s->n_tokens; t++) {
                const float *v = x->v + t * x->ld + col, *from = kern_state_before(s, t) + col;
                float *out = x->out + t * x->ld + col, *to = s->next + col;

                kern_wkv7_token(x, t, &y);
                for (size_t j = 0; j < n; j++)
                        a[j] = b[j] = 0;
                for (size_t i = 0; i < s->n_key; i++)
                        for (size_t j = 0; j < n; j++) {
                                a[j] = fmaf(from[i * s->n + j], y.kk[i], a[j]);
                                b[j] = fmaf(from[i * s->n + j], y.p[i], b[j]);
                        }
                for (size_t j = 0; j < n; j++) {
                        a[j] = -a[j];
                        out[j] = fmaf(y.f, a[j], fmaf(y.c, v[j], b[j]));
                }
                for (size_t i = 0; i < s->n_key; i++)
                        for (size_t j = 0; j < n; j++) {
                                float m = y.w[i] * from[i * s->n + j];

                                m = fmaf(y.k[i], v[j], m);
                                to[i * s->n + j] = fmaf(y.m[i], a[j], m);
                        }
        }
}
