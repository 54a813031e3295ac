/* SPDX-License-Identifier: MIT */
#pragma once
/* What the NEON families share: a register is 4 lanes, so 16 lanes are four registers. Everything here is in
 * the base of AArch64. vfmaq_f32(c, a, b) is a * b + c, rounded once. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include <arm_neon.h>

/* kern_max2() in each lane. vmaxq_f32 has other rules for NaN and zeros. */
static inline float32x4_t max2(float32x4_t a, float32x4_t b) {
        return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* a < b ? a : b in each lane. */
static inline float32x4_t min2(float32x4_t a, float32x4_t b) {
        return vbslq_f32(vcltq_f32(a, b), a, b);
}

/* The trees from the sums c[i] of kern.h on. */
static inline float tree4(float32x4_t c) {
        float32x2_t d = vadd_f32(vget_low_f32(c), vget_high_f32(c));

        return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}

static inline float tree8(float32x4_t low, float32x4_t high) {
        return tree4(vaddq_f32(low, high));
}

static inline float tree16(const float32x4_t *a) {
        return tree8(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
}

static inline float maxtree16(const float32x4_t *a) {
        float32x4_t c = max2(max2(a[0], a[2]), max2(a[1], a[3]));

        return kern_max2(kern_max2(vgetq_lane_f32(c, 0), vgetq_lane_f32(c, 2)),
                kern_max2(vgetq_lane_f32(c, 1), vgetq_lane_f32(c, 3)));
}

/* kern_exp() in each lane. */
static inline float32x4_t exp4(float32x4_t x) {
        uint32x4_t under = vcltq_f32(x, vdupq_n_f32(KERN_EXP_LO));
        uint32x4_t in = vcleq_f32(x, vdupq_n_f32(KERN_EXP_HI)); /* not of a NaN */
        float32x4_t magic = vdupq_n_f32(KERN_EXP_MAGIC), one = vdupq_n_f32(1);
        float32x4_t t = vfmaq_f32(magic, x, vdupq_n_f32(KERN_EXP_LOG2E));
        float32x4_t n = vsubq_f32(t, magic), r, p;

        r = vfmaq_f32(x, n, vdupq_n_f32(-KERN_EXP_LN2_HI));
        r = vfmaq_f32(r, n, vdupq_n_f32(-KERN_EXP_LN2_LO));
        p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C5), vdupq_n_f32(KERN_EXP_C6), r);
        p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C4), p, r);
        p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C3), p, r);
        p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C2), p, r);
        p = vfmaq_f32(one, p, r);
        p = vfmaq_f32(one, p, r);
        p = vreinterpretq_f32_u32(
                vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
        p = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), under));
        return vbslq_f32(in, p, vmulq_n_f32(x, INFINITY));
}

/* kern_softcap1() in each lane. */
static inline float32x4_t softcap4(float32x4_t s, float cap) {
        float32x4_t e = exp4(vmulq_n_f32(s, 2 / cap)), one = vdupq_n_f32(1);

        return vmulq_n_f32(vsubq_f32(one, vdivq_f32(vdupq_n_f32(2), vaddq_f32(e, one))), cap);
}

/* x / (1 + exp(-x)) in each lane. */
static inline float32x4_t silu4(float32x4_t x) {
        return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1), exp4(vnegq_f32(x))));
}

/* Halves; vcvt_f16_f32 rounds to nearest, even. */
static inline float32x4_t load_halves4(const void *p) {
        uint16x4_t h;

        memcpy(&h, p, sizeof(h));
        return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

static inline float load_half(const void *p) {
        uint16_t h;

        memcpy(&h, p, sizeof(h));
        return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

static inline uint16_t to_half(float x) {
        return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0);
}

/* 4 lanes from memory without alignment. */
static inline float32x4_t load_floats4(const void *p) {
        return vreinterpretq_f32_u8(vld1q_u8(p));
}

/* 16 rounded values to int8 within [-127, 127]. Narrowing saturates, so only -128 is left to be taken away. */
static inline int8x16_t narrow16(const int32x4_t *v) {
        int16x8_t low = vqmovn_high_s32(vqmovn_s32(v[0]), v[1]);
        int16x8_t high = vqmovn_high_s32(vqmovn_s32(v[2]), v[3]);

        return vmaxq_s8(vqmovn_high_s16(vqmovn_s16(low), high), vdupq_n_s8(-127));
}

/* 16 values times @id, rounded to nearest even, within [-127, 127]; a NaN becomes 0, as does all with @id 0. */
static inline int8x16_t round16(const float *x, float id) {
        int32x4_t v[4];

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) v[i] =
                vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), id));
        return narrow16(v);
}

/* The greatest |x| of n values, n a multiple of 16. Without their signs floats are ordered like integers,
 * NaN above infinity. */
static inline float greatest_abs(const float *x, size_t n) {
        uint32x4_t m[4], sign = vdupq_n_u32(0x80000000);

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) m[l] = vdupq_n_u32(0);
        for (size_t i = 0; i < n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) m[l] = vmaxq_u32(
                        m[l], vbicq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i + 4 * l)), sign));
        m[0] = vmaxq_u32(vmaxq_u32(m[0], m[1]), vmaxq_u32(m[2], m[3]));
        return kern_from_bits(vmaxvq_u32(m[0]));
}

/* The scale of a rounded block of n values; *ret_id is its inverse, or 0 where all values become 0. */
static inline float block_scale(const float *x, size_t n, float *ret_id) {
        float d = greatest_abs(x, n) / 127, id = 1 / d;

        *ret_id = d > 0 && d < INFINITY && id < INFINITY ? id : 0;
        return d;
}
