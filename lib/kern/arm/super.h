/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Blocks of 256 weights: where they keep their scales and values, and these in registers. A block is eight
 * sub-blocks of 32 values; a group, the values that share a scale, is a sub-block or half of one. The type is a
 * constant everywhere, so what is not of it vanishes.
 */
#include "kern/arm/dot.h"
#include "kern/arm/packed.h"

#define K_TYPES(X)                                                                                 \
        X(q2_k, QUANT_Q2_K)                                                                        \
        X(q3_k, QUANT_Q3_K)                                                                        \
        X(q4_k, QUANT_Q4_K)                                                                        \
        X(q5_k, QUANT_Q5_K)                                                                        \
        X(q6_k, QUANT_Q6_K)                                                                        \
        X(iq4_xs, QUANT_IQ4_XS)

KERN_INLINE size_t super_size(enum quant_type type) {
        switch (type) {
        case QUANT_Q2_K:
                return 84;
        case QUANT_Q3_K:
                return 110;
        case QUANT_Q4_K:
                return 144;
        case QUANT_Q5_K:
                return 176;
        case QUANT_Q6_K:
                return 210;
        default: /* IQ4_XS */
                return 136;
        }
}

/* Where the f16 scale is; that of the mins follows it. */
KERN_INLINE size_t super_d_at(enum quant_type type) {
        return type == QUANT_Q2_K ? 80 : type == QUANT_Q3_K ? 108 : type == QUANT_Q6_K ? 208 : 0;
}

KERN_INLINE bool super_has_min(enum quant_type type) {
        return type == QUANT_Q2_K || type == QUANT_Q4_K || type == QUANT_Q5_K;
}

/* Values become signed by taking 1 << shift off; 0: they are as they are. */
KERN_INLINE unsigned super_shift(enum quant_type type) {
        return type == QUANT_Q3_K ? 2 : type == QUANT_Q6_K ? 5 : 0;
}

/* Groups of 32 values, not of 16. */
KERN_INLINE bool super_wide(enum quant_type type) {
        return type == QUANT_Q4_K || type == QUANT_Q5_K || type == QUANT_IQ4_XS;
}

/* No weight, signed, is above 31 (dot.h). */
KERN_INLINE bool super_small(enum quant_type type) {
        return type != QUANT_Q6_K && type != QUANT_IQ4_XS;
}

/* Scales of the groups: of first halves of the sub-blocks, and of second ones (the same if groups are wide).
 * @second: what the sums of activations are multiplied with, mins or the scales again. */
struct super_scales {
        int16x8_t scale[2], second[2];
};

/* 16 bytes in the order of groups. */
KERN_INLINE void super_part(int8x16_t v, int16x8_t *ret) {
        ret[0] = vmovl_s8(vget_low_s8(vuzp1q_s8(v, v)));
        ret[1] = vmovl_s8(vget_low_s8(vuzp2q_s8(v, v)));
}

/* Q4_K, Q5_K: six bits of each, one for 32 values. In three words of four bytes, the first holds the low
 * scales, the second the low mins, the third the lower bits of the high ones (scales in the low halves), whose
 * upper bits are the top ones of the first two. */
KERN_INLINE void super_scales32(const uint8_t *p, int16x8_t *ret_scales, int16x8_t *ret_mins) {
        uint32_t w[3], six = 0x3f3f3f3f, four = 0x0f0f0f0f, top = 0x30303030;
        uint64_t scales, mins;

        memcpy(w, p, sizeof(w));
        scales = (w[0] & six) | (uint64_t)((w[2] & four) | (w[0] >> 2 & top)) << 32;
        mins = (w[1] & six) | (uint64_t)((w[2] >> 4 & four) | (w[1] >> 2 & top)) << 32;
        *ret_scales = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(scales)));
        *ret_mins = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(mins)));
}

/* The low four bits of the first eight are in the low halves of eight bytes; four bytes have the upper two. */
KERN_INLINE int8x16_t super_scales_q3(const uint8_t *p) {
        const uint64_t four = 0x0f0f0f0f0f0f0f0f;
        const uint32_t two = 0x03030303;
        uint64_t low, v[2];
        uint32_t high;

        memcpy(&low, p, sizeof(low));
        memcpy(&high, p + 8, sizeof(high));
        v[0] = (low & four) | ((high & two) | (uint64_t)(high >> 2 & two) << 32) << 4;
        v[1] = (low >> 4 & four) | ((high >> 4 & two) | (uint64_t)(high >> 6 & two) << 32) << 4;
        return vsubq_s8(vcombine_s8(vcreate_s8(v[0]), vcreate_s8(v[1])), vdupq_n_s8(32));
}

KERN_INLINE int16x8_t super_scales_iq4(const uint8_t *p) {
        static const int16_t down[8] = {0, -2, -4, -6, -8, -10, -12, -14};
        uint32_t low, four = 0x0f0f0f0f;
        uint16_t high;
        uint16x8_t h, v;
        uint8x8_t l;

        memcpy(&high, p + 2, sizeof(high));
        memcpy(&low, p + 4, sizeof(low));
        l = vcreate_u8((low & four) | (uint64_t)(low >> 4 & four) << 32);
        v = vmovl_u8(vzip1_u8(l, vext_u8(l, l, 4)));
        h = vandq_u16(vshlq_u16(vdupq_n_u16(high), vld1q_s16(down)), vdupq_n_u16(3));
        return vsubq_s16(vreinterpretq_s16_u16(vorrq_u16(v, vshlq_n_u16(h, 4))), vdupq_n_s16(32));
}

KERN_INLINE struct super_scales super_scales(enum quant_type type, const uint8_t *w) {
        struct super_scales ret;
        uint8x16_t v;

        switch (type) {
        case QUANT_Q2_K:
                v = vld1q_u8(w);
                super_part(vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), ret.scale);
                super_part(vreinterpretq_s8_u8(vshrq_n_u8(v, 4)), ret.second);
                return ret;
        case QUANT_Q4_K:
        case QUANT_Q5_K:
                super_scales32(w + 4, &ret.scale[0], &ret.second[0]);
                ret.scale[1] = ret.scale[0];
                ret.second[1] = ret.second[0];
                return ret;
        case QUANT_Q3_K:
                super_part(super_scales_q3(w + 96), ret.scale);
                break;
        case QUANT_Q6_K:
                super_part(vreinterpretq_s8_u8(vld1q_u8(w + 192)), ret.scale);
                break;
        default:
                ret.scale[0] = ret.scale[1] = super_scales_iq4(w);
                break;
        }
        ret.second[0] = ret.scale[0];
        ret.second[1] = ret.scale[1];
        return ret;
}

/* Bits @bit to @bit + n - 1 of each byte, moved to bit @to. Constants after inlining. */
KERN_INLINE uint8x16_t super_bits(const uint8_t *p, int bit, int n, int to) {
        uint8x16_t v = vld1q_u8(p), mask = vdupq_n_u8((uint8_t)(((1 << n) - 1) << to));

        switch (to - bit) {
        case 4:
                return vandq_u8(vshlq_n_u8(v, 4), mask);
        case 3:
                return vandq_u8(vshlq_n_u8(v, 3), mask);
        case 2:
                return vandq_u8(vshlq_n_u8(v, 2), mask);
        case 1:
                return vandq_u8(vshlq_n_u8(v, 1), mask);
        case -1:
                return vandq_u8(vshrq_n_u8(v, 1), mask);
        case -2:
                return vandq_u8(vshrq_n_u8(v, 2), mask);
        case -3:
                return vandq_u8(vshrq_n_u8(v, 3), mask);
        case -4:
                return vandq_u8(vshrq_n_u8(v, 4), mask);
        case -5:
                return vandq_u8(vshrq_n_u8(v, 5), mask);
        case -6:
                return vandq_u8(vshrq_n_u8(v, 6), mask);
        default:
                return vandq_u8(v, mask);
        }
}

KERN_INLINE uint8x16_t super_nibbles(const uint8_t *p, bool high) {
        return high ? vshrq_n_u8(vld1q_u8(p), 4) : vandq_u8(vld1q_u8(p), vdupq_n_u8(15));
}

/* Half h of sub-block s, before anything is taken off. */
KERN_INLINE int8x16_t super_values(enum quant_type type, const uint8_t *w, unsigned s, unsigned h) {
        unsigned half = s / 4, part = s % 4, at = 16 * h;
        int bit = (int)(2 * part);
        uint8x16_t v;

        switch (type) {
        case QUANT_Q2_K:
                v = super_bits(w + 16 + 32 * half + at, bit, 2, 0);
                break;
        case QUANT_Q3_K:
                v = vorrq_u8(super_bits(w + 32 + 32 * half + at, bit, 2, 0),
                        super_bits(w + at, (int)s, 1, 2));
                break;
        case QUANT_Q4_K:
                v = super_nibbles(w + 16 + s / 2 * 32 + at, s % 2);
                break;
        case QUANT_Q5_K:
                v = vorrq_u8(super_nibbles(w + 48 + s / 2 * 32 + at, s % 2),
                        super_bits(w + 16 + at, (int)s, 1, 4));
                break;
        case QUANT_Q6_K:
                v = vorrq_u8(super_nibbles(w + 64 * half + 32 * (part % 2) + at, part >= 2),
                        super_bits(w + 128 + 32 * half + at, bit, 2, 4));
                break;
        default:
                return vqtbl1q_s8(
                        vld1q_s8(quant_iq4_values), super_nibbles(w + 8 + 16 * s, h == 1));
        }
        return vreinterpretq_s8_u8(v);
}

#define X(name, type)                                                                              \
        void DOT_NAME(packed_##name)(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units);
K_TYPES(X)
#undef X
