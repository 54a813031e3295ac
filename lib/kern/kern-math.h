/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arithmetic shared by all instruction sets, in plain C (private to lib/kern): trees, max2 and
 * the constants of the exponential. See the contract in kern.h.
 */
#include "kern/kern-isa.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "quant/quant.h"

/*
 * exp(x) = 2^n * exp(r), n = round(x/ln 2), |r| <= ln(2)/2 (Cody and Waite). exp(r) is
 * 1 + r + r^2*P(r) with P the minimax polynomial of degree 4 for the relative error of exp, found
 * by the Remez exchange in double precision and rounded to float: error 3.7e-9 before rounding.
 * n is found by adding 1.5*2^23, whose last mantissa bit is worth 1: the sum's low bits are n, and
 * shifting them into the exponent multiplies by 2^n.
 */
#define KERN_EXP_LO (-87.33f) /* below: 0 */
#define KERN_EXP_HI 88.72f    /* above: infinity */
#define KERN_EXP_LOG2E 0x1.715476p+0f
#define KERN_EXP_MAGIC 12582912.0f
#define KERN_EXP_LN2_HI 0x1.62e430p-1f
#define KERN_EXP_LN2_LO -0x1.05c610p-29f
#define KERN_EXP_C2 0x1.fffffcp-2f
#define KERN_EXP_C3 0x1.555492p-3f
#define KERN_EXP_C4 0x1.5558f2p-5f
#define KERN_EXP_C5 0x1.123a20p-7f
#define KERN_EXP_C6 0x1.6a23d0p-10f

static inline uint32_t kern_bits(float f) {
        uint32_t u;

        memcpy(&u, &f, sizeof(u));
        return u;
}

static inline float kern_from_bits(uint32_t u) {
        float f;

        memcpy(&f, &u, sizeof(f));
        return f;
}

static inline float kern_max2(float a, float b) {
        return a > b ? a : b;
}

static inline float kern_exp(float x) {
        float t, n, r, p;

        if (x < KERN_EXP_LO)
                return 0;
        if (!(x <= KERN_EXP_HI)) /* infinity, or NaN */
                return x * INFINITY;
        t = fmaf(x, KERN_EXP_LOG2E, KERN_EXP_MAGIC);
        n = t - KERN_EXP_MAGIC;
        r = fmaf(n, -KERN_EXP_LN2_HI, x);
        r = fmaf(n, -KERN_EXP_LN2_LO, r);
        p = fmaf(KERN_EXP_C6, r, KERN_EXP_C5);
        p = fmaf(p, r, KERN_EXP_C4);
        p = fmaf(p, r, KERN_EXP_C3);
        p = fmaf(p, r, KERN_EXP_C2);
        p = fmaf(p, r, 1);
        p = fmaf(p, r, 1);
        return kern_from_bits(kern_bits(p) + (kern_bits(t) << 23));
}

/* The scale (an f16) of a group of keys or values; false if all of the group become 0. */
static inline bool kern_kv_scale(uint16_t d, uint16_t *ret) {
        *ret = d >= 0x7c00 ? 0x7e00 : d; /* infinity, or NaN */
        return d > 0 && d < 0x7c00;
}

static inline float kern_sigmoid1(float x) {
        return 1 / (1 + kern_exp(-x));
}

/* With c = sqrt(2/pi): 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = c (x + 0.044715 x^3). */
#define KERN_GELU_C1 (-1.5957691216057308f) /* -2c */
#define KERN_GELU_C3 (-0.0713548162726009f) /* -2c * 0.044715 */
#define KERN_GELU_LIMIT 10.0f
#define KERN_OAI_ALPHA 1.702f
#define KERN_OAI_LIMIT 7.0f

static inline float kern_half(float x) {
        return quant_f16_to_f32(quant_f32_to_f16(x));
}

/* The factor of kern_activate() that comes from the gate. Comparisons are such that a NaN stays one. */
static inline float kern_activate_gate1(enum kern_activation a, float x) {
        float z = -x;

        switch (a) {
        case KERN_RELU2:
                x = kern_max2(0, x);
                return x * x;
        case KERN_GELU:
                if (x >= KERN_GELU_LIMIT || x <= -KERN_GELU_LIMIT)
                        return x > 0 ? x : 0;
                x = kern_half(x);
                z = x * fmaf(x * x, KERN_GELU_C3, KERN_GELU_C1);
                return kern_half(x / (1 + kern_exp(z)));
        case KERN_SWIGLU_OAI:
                x = KERN_OAI_LIMIT < x ? KERN_OAI_LIMIT : x;
                z = x * -KERN_OAI_ALPHA;
                break;
        default:
                break;
        }
        return x / (1 + kern_exp(z));
}

/* The other factor. */
static inline float kern_activate_up1(enum kern_activation a, float x) {
        if (a != KERN_SWIGLU_OAI)
                return x;
        x = KERN_OAI_LIMIT < x ? KERN_OAI_LIMIT : x;
        return kern_max2(-KERN_OAI_LIMIT, x) + 1;
}

/* All of it; @up may be NULL. */
static inline float kern_activate1(enum kern_activation a, float gate, const float *up) {
        float y = kern_activate_gate1(a, gate);

        return up ? y * kern_activate_up1(a, *up) : y;
}

/* From here to 0 exp needs no reduction, so that expm1(m) = m + m^2 * P(m). */
#define KERN_XIELU_NEAR (-0.34f)

static inline float kern_xielu1(const struct kern_xielu *k, float x) {
        float m = x < k->eps ? x : k->eps, e, p;

        if (x > 0)
                return x * fmaf(k->alpha_p, x, k->beta);
        p = fmaf(KERN_EXP_C6, m, KERN_EXP_C5);
        p = fmaf(p, m, KERN_EXP_C4);
        p = fmaf(p, m, KERN_EXP_C3);
        p = fmaf(p, m, KERN_EXP_C2);
        e = m < KERN_XIELU_NEAR ? (kern_exp(m) - 1) - x : fmaf(m * m, p, m - x);
        return fmaf(e, k->factor_n, k->beta * x);
}

/* log1p(e) = 2 artanh(h) with h = e / (2 + e): 2h + h^3 P(h^2). For 0 <= e <= 1 h^2 is at most 1/9; P is the
 * minimax polynomial for the relative error of the whole, 5.4e-10 with these floats. */
#define KERN_LOG1P_C0 0x1.555558p-1f
#define KERN_LOG1P_C1 0x1.9996b0p-2f
#define KERN_LOG1P_C2 0x1.2508b2p-2f
#define KERN_LOG1P_C3 0x1.b6e6b6p-3f
#define KERN_LOG1P_C4 0x1.f1739ep-3f

static inline float kern_softplus1(float x) {
        float e = kern_exp(-fabsf(x)), h = e / (2 + e), z = h * h, p;

        p = fmaf(KERN_LOG1P_C4, z, KERN_LOG1P_C3);
        p = fmaf(p, z, KERN_LOG1P_C2);
        p = fmaf(p, z, KERN_LOG1P_C1);
        p = fmaf(p, z, KERN_LOG1P_C0);
        return kern_max2(x, 0) + fmaf(h * z, p, h + h);
}

static inline float kern_softcap1(float s, float cap) {
        return cap * (1 - 2 / (kern_exp(s * (2 / cap)) + 1));
}

static inline float kern_tree8(const float *a) {
        float c[4];

        for (int i = 0; i < 4; i++)
                c[i] = a[i] + a[i + 4];
        return (c[0] + c[2]) + (c[1] + c[3]);
}

static inline float kern_tree16(const float *a) {
        float b[8];

        for (int i = 0; i < 8; i++)
                b[i] = a[i] + a[i + 8];
        return kern_tree8(b);
}

static inline float kern_maxtree16(const float *a) {
        float b[8];

        for (int i = 0; i < 8; i++)
                b[i] = kern_max2(a[i], a[i + 8]);
        for (int i = 0; i < 4; i++)
                b[i] = kern_max2(b[i], b[i + 4]);
        return kern_max2(kern_max2(b[0], b[2]), kern_max2(b[1], b[3]));
}
