/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times few tokens: weights are read once, in order. Products are exact in 32
 * bits before a scale multiplies them. Blocks leave 4 sums each; those of 4 blocks are added up together, and a
 * lane is then a block. Units of more tokens are packed (packed-k.c).
 */
#include "kern/arm/super.h"

#define N_TOKENS 4

/* Sums of 4 blocks, 4 lanes each: the integers of one token. */
struct sums {
        int32x4_t isum[4], msum[4];
};

/* acc + scales times the sums of activations. */
KERN_INLINE int32x4_t second_sums(bool wide, const int16x8_t *second, const int16_t *sums) {
        int16x8_t x = vld1q_s16(sums), y = vld1q_s16(sums + 8);
        int32x4_t v;

        if (wide) { /* of 32 values: at most 32 * 127 */
                x = vaddq_s16(x, y);
                return vmlal_high_s16(
                        vmull_s16(vget_low_s16(x), vget_low_s16(second[0])), x, second[0]);
        }
        v = vmlal_high_s16(vmull_s16(vget_low_s16(x), vget_low_s16(second[0])), x, second[0]);
        v = vmlal_s16(v, vget_low_s16(y), vget_low_s16(second[1]));
        return vmlal_high_s16(v, y, second[1]);
}

/* acc + v times lane s of 8. */
KERN_INLINE int32x4_t scaled(int32x4_t acc, int32x4_t v, const int32x4_t *scales, unsigned s) {
        switch (s % 4) {
        case 0:
                return vmlaq_laneq_s32(acc, v, scales[s / 4], 0);
        case 1:
                return vmlaq_laneq_s32(acc, v, scales[s / 4], 1);
        case 2:
                return vmlaq_laneq_s32(acc, v, scales[s / 4], 2);
        default:
                return vmlaq_laneq_s32(acc, v, scales[s / 4], 3);
        }
}

/* Block b (of its four) of n_tokens tokens; q and sums are those of the first token. */
KERN_INLINE void block(enum quant_type type, unsigned n_tokens, const uint8_t *w, const int8_t *q,
        const int16_t *sums, size_t x_stride, size_t b, struct sums *ret) {
        struct super_scales k = super_scales(type, w);
        int32x4_t scales[2][2], acc[N_TOKENS], zero = vdupq_n_s32(0);

        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                scales[h][0] = vmovl_s16(vget_low_s16(k.scale[h]));
                scales[h][1] = vmovl_high_s16(k.scale[h]);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = zero;
        KERN_UNROLL for (unsigned s = 0; s < 8; s++) {
                int8x16_t low = super_values(type, w, s, 0), high = super_values(type, w, s, 1);

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        const int8_t *x = q + t * x_stride + 32 * s;
                        int32x4_t p = dot16(zero, low, vld1q_s8(x));

                        if (super_wide(type)) {
                                p = dot16(p, high, vld1q_s8(x + 16));
                                acc[t] = scaled(acc[t], p, scales[0], s);
                        } else {
                                acc[t] = scaled(acc[t], p, scales[0], s);
                                p = dot16(zero, high, vld1q_s8(x + 16));
                                acc[t] = scaled(acc[t], p, scales[1], s);
                        }
                }
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                int32x4_t v = zero;

                if (super_has_min(type) || super_shift(type))
                        v = second_sums(super_wide(type), k.second,
                                (const int16_t *)((const uint8_t *)sums + t * x_stride));
                ret[t].isum[b] =
                        super_shift(type) ? vmlsq_n_s32(acc[t], v, 1 << super_shift(type)) : acc[t];
                ret[t].msum[b] = v;
        }
}

/* Lane i: the sum of all lanes of v[i]. */
KERN_INLINE float32x4_t lane_sums(const int32x4_t *v) {
        return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3])));
}

/* The f16 at w of each of n <= 4 blocks; what the other lanes have is of no use. */
KERN_INLINE float32x4_t halves(enum quant_type type, const uint8_t *w, size_t n) {
        uint16_t h[4] = {0};

        for (size_t i = 0; i < n; i++)
                memcpy(&h[i], w + i * super_size(type), sizeof(h[i]));
        return vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t){h[0], h[1], h[2], h[3]}));
}

/* The terms of n <= 4 blocks of one token, whose scales begin at dx. Only the lanes of these blocks change. */
KERN_INLINE float32x4_t add_terms(enum quant_type type, const struct sums *s, size_t n,
        float32x4_t dw, float32x4_t mw, const float *dx, float32x4_t acc) {
        static const uint32_t at[4] = {0, 1, 2, 3};
        float32x4_t x = vld1q_f32(dx), v; /* rows have scales for 16 blocks or more */

        v = vfmaq_f32(acc, lane_sums(s->isum), vmulq_f32(dw, x));
        if (super_has_min(type))
                v = vfmsq_f32(v, lane_sums(s->msum), vmulq_f32(mw, x));
        return n == 4 ? v : vbslq_f32(vcltq_u32(vld1q_u32(at), vdupq_n_u32((uint32_t)n)), v, acc);
}

/* n <= 4 blocks from block b on. @a: the first token. */
KERN_INLINE void group(enum quant_type type, unsigned n_tokens, const uint8_t *w,
        const struct kern_act_super *a, size_t x_stride, size_t b, size_t n,
        float32x4_t (*acc)[2]) {
        size_t size = super_size(type), d_at = super_d_at(type), half = b / 4 % 2;
        float32x4_t dw = halves(type, w + d_at, n), mw = vdupq_n_f32(0);
        struct sums sums[N_TOKENS];

        if (super_has_min(type))
                mw = halves(type, w + d_at + 2, n);
        if (n < 4)
                memset(sums, 0, sizeof(sums));
        for (size_t i = 0; i < n; i++)
                block(type, n_tokens, w + i * size, a->q + (b + i) * KERN_ACT_SUPER,
                        a->sums + (b + i) * KERN_ACT_SUPER_SUMS, x_stride, i, sums);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t][half] =
                add_terms(type, &sums[t], n, dw, mw,
                        (const float *)((const uint8_t *)(a->d + b) + t * x_stride), acc[t][half]);
}

KERN_INLINE void row(enum quant_type type, unsigned n_tokens, const uint8_t *w, size_t n_in,
        const uint8_t *x, size_t x_stride, float *y, size_t ldy) {
        struct kern_act_super a = kern_act_super(x, n_in);
        size_t n_blocks = n_in / KERN_ACT_SUPER, b = 0;
        float32x4_t acc[N_TOKENS][2];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t][0] = acc[t][1] = vdupq_n_f32(0);
        for (; b < n_blocks; b += 4, w += 4 * super_size(type))
                group(type, n_tokens, w, &a, x_stride, b, n_blocks - b < 4 ? n_blocks - b : 4, acc);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) y[t * ldy] =
                tree8(acc[t][0], acc[t][1]);
}

/* The tokens of one unit that is not packed, if it has any. */
KERN_INLINE void unit_rows(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy, size_t unit) {
        size_t stride = a->quantised_row_size;
        const uint8_t *unit_x = kern_act_unit(a, unit);

        if (unit * KERN_ACT_UNIT >= a->n_tokens)
                return;
        y += unit * KERN_ACT_UNIT * ldy;
        for (size_t o = row0; o < row1; o++) {
                const uint8_t *p = (const uint8_t *)w->data + o * w->row_size, *x = unit_x;
                size_t n = unit_tokens(a, unit);
                float *yo = y + o;

                if (n == 4) {
                        row(type, 4, p, w->n_in, x, stride, yo, ldy);
                        continue;
                }
                if (n >= 2) {
                        row(type, 2, p, w->n_in, x, stride, yo, ldy);
                        x += 2 * stride;
                        yo += 2 * ldy;
                        n -= 2;
                }
                if (n > 0)
                        row(type, 1, p, w->n_in, x, stride, yo, ldy);
        }
}

#define X(name, type)                                                                              \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                size_t n = n_packed_units(a);                                                      \
                                                                                                   \
                DOT_NAME(packed_##name)(w, a, row0, row1, y, ldy, n);                              \
                unit_rows(type, w, a, row0, row1, y, ldy, n);                                      \
        }
K_TYPES(X)
#undef X

void DOT_NAME(matmul_k)(struct kern_ops *ops) {
#define X(name, type) ops->matmul[type] = matmul_##name;
        K_TYPES(X)
#undef X
        ops->act_round[KERN_ACT_Q8K] = kern_neon_act_round_q8k;
}
