/* SPDX-License-Identifier: MIT */
#pragma once
/* Elements of sequence memory. */
#include "kern/arm/neon.h"

/* n registers of elements from i on, 1, or 4 to fill 16 lanes; those of Q8_0 without their scales. */
KERN_INLINE void kv_load(
        enum kern_kv_type type, const void *x, size_t i, unsigned n, float32x4_t *ret) {
        const int8_t *bytes = (const int8_t *)x + i;
        int8x16_t v = vdupq_n_s8(0);
        int16x8_t half[2];

        if (type == KERN_KV_F32) {
                KERN_UNROLL for (unsigned l = 0; l < n; l++) ret[l] =
                        vld1q_f32((const float *)x + i + 4 * l);
                return;
        }
        if (type == KERN_KV_F16) {
                KERN_UNROLL for (unsigned l = 0; l < n; l++) ret[l] =
                        load_halves4((const uint16_t *)x + i + 4 * l);
                return;
        }
        if (n == 4)
                v = vld1q_s8(bytes);
        else
                memcpy(&v, bytes, 4);
        half[0] = vmovl_s8(vget_low_s8(v));
        half[1] = vmovl_high_s8(v);
        KERN_UNROLL for (unsigned l = 0; l < n; l++) ret[l] = vcvtq_f32_s32(
                l % 2 ? vmovl_high_s16(half[l / 2]) : vmovl_s16(vget_low_s16(half[l / 2])));
}

KERN_INLINE size_t kv_size(enum kern_kv_type type) {
        return type == KERN_KV_F32 ? 4 : type == KERN_KV_F16 ? 2 : 1;
}

/* Not of Q8_0. */
KERN_INLINE float kv_load1(enum kern_kv_type type, const void *x, size_t i) {
        return type == KERN_KV_F32 ? ((const float *)x)[i] : load_half((const uint16_t *)x + i);
}
