/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Products of int8, the one thing that an instruction of newer processors does better: files that include this
 * are compiled twice, without and with it, and their functions have the name that DOT_NAME() makes.
 *
 * All is exact. Without the instruction products are added in 16 bits: two of them stay within int16, since
 * activations are in [-127, 127] (2 * 128 * 127), and so do 8 if no weight is above 31 (@small).
 */
#include "kern/arm/neon.h"

/* DOT_ROWS by 4 registers of tokens are a tile whose sums, and all that they are made of, fit the 32 registers:
 * without the instruction the weights are spread first, and each row takes 4 registers more. */
#ifdef __ARM_FEATURE_DOTPROD
#define DOT_NAME(name) kern_neon_dotprod_##name
#define DOT_ROWS 4
#else
#define DOT_NAME(name) kern_neon_##name
#define DOT_ROWS 2
#endif

/* acc[i] + the sum of w[4i+j] x[4i+j], j = 0..3; without the instruction the products are spread over the
 * lanes in another way. */
KERN_INLINE int32x4_t dot16(int32x4_t acc, int8x16_t w, int8x16_t x) {
#ifdef __ARM_FEATURE_DOTPROD
        return vdotq_s32(acc, w, x);
#else
        int16x8_t p = vmull_s8(vget_low_s8(w), vget_low_s8(x));

        return vpadalq_s16(acc, vmlal_high_s8(p, w, x));
#endif
}

#ifndef __ARM_FEATURE_DOTPROD
KERN_INLINE int32x4_t dot_row_tokens(int32x4_t acc, int8x16_t w, const int8x16_t *x, bool small) {
        int32x4_t fours = vreinterpretq_s32_s8(w);
        int8x16_t v[4] = {vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 0)),
                vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 1)),
                vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 2)),
                vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 3))};
        int16x8_t low, high;

        KERN_UNROLL for (unsigned k = 0; k < 4; k++) {
                if (k == 0 || !small) {
                        low = vmull_s8(vget_low_s8(x[k]), vget_low_s8(v[k]));
                        high = vmull_high_s8(x[k], v[k]);
                } else {
                        low = vmlal_s8(low, vget_low_s8(x[k]), vget_low_s8(v[k]));
                        high = vmlal_high_s8(high, x[k], v[k]);
                }
                if (k == 3 || !small)
                        acc = vpadalq_s16(acc, vpaddq_s16(low, high));
        }
        return acc;
}
#endif

/* For each of n_rows rows acc[r][i] += the sum over k and j of w[r][4k+j] x[k][4i+j], k and j = 0..3: 16 weights
 * of each row times 4 tokens. */
KERN_INLINE void dot_tokens(
        unsigned n_rows, const int8x16_t *w, const int8x16_t *x, bool small, int32x4_t *acc) {
#ifdef __ARM_FEATURE_DOTPROD
        /* One row after the other, so that a sum need not wait for itself. */
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] =
                vdotq_laneq_s32(acc[r], x[0], w[r], 0);
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] =
                vdotq_laneq_s32(acc[r], x[1], w[r], 1);
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] =
                vdotq_laneq_s32(acc[r], x[2], w[r], 2);
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] =
                vdotq_laneq_s32(acc[r], x[3], w[r], 3);
#else
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] =
                dot_row_tokens(acc[r], w[r], x, small);
#endif
}
