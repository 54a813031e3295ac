/* SPDX-License-Identifier: MIT */
#pragma once
/* Blocks of 32 weights in registers. */
#include "kern/arm/dot.h"
#include "kern/arm/packed.h"
#include "kern/kern-block.h"

/* Values that are codes of a table, or bytes, have their signs; others become signed by taking 1 << shift off. */
KERN_INLINE bool is_signed(const struct block_kind kind) {
        return kind.form == FORM_BYTES || kind.form == FORM_IQ4 || kind.form == FORM_MXFP4;
}

/* What is to be taken off the values of a type; 0 also if they have an offset. */
KERN_INLINE unsigned value_shift(const struct block_kind kind) {
        return is_signed(kind) || kind.min ? 0 : kind.shift;
}

/* 16, where the bit of the value is set. */
KERN_INLINE uint8x16_t spread_bits(uint32_t bits, unsigned half) {
        static const uint8_t byte[2][16] = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                {2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3}};
        static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
        uint8x16_t v = vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(bits)), vld1q_u8(byte[half]));

        return vandq_u8(vtstq_u8(v, vld1q_u8(bit)), vdupq_n_u8(16));
}

/* 32 values, before anything is taken off. */
KERN_INLINE void values(const struct block_kind kind, const uint8_t *w, int8x16_t *ret) {
        const uint8_t *p = w + values_at(kind);
        uint8x16_t n = vld1q_u8(p), v[2];
        int8x16_t codes;

        if (kind.form == FORM_BYTES) {
                ret[0] = vreinterpretq_s8_u8(n);
                ret[1] = vreinterpretq_s8_u8(vld1q_u8(p + 16));
                return;
        }
        v[0] = vandq_u8(n, vdupq_n_u8(15));
        v[1] = vshrq_n_u8(n, 4);
        if (kind.form == FORM_FIVE)
                KERN_UNROLL for (unsigned h = 0; h < 2; h++) v[h] =
                        vorrq_u8(v[h], spread_bits(fifth_bits(kind, w), h));
        KERN_UNROLL for (unsigned h = 0; h < 2; h++) ret[h] = vreinterpretq_s8_u8(v[h]);
        if (kind.form == FORM_IQ4 || kind.form == FORM_MXFP4) {
                codes = vld1q_s8(kind.form == FORM_IQ4 ? quant_iq4_values : quant_mxfp4_values);
                KERN_UNROLL for (unsigned h = 0; h < 2; h++) ret[h] = vqtbl1q_s8(codes, v[h]);
        }
}

#define X(name, type, ...)                                                                         \
        void DOT_NAME(packed_##name)(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units);
BLOCK_KINDS(X)
#undef X
