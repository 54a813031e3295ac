/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights times few tokens: weights are read once, in order. The products of a block leave 4
 * sums; those of 4 blocks are added up together, and a lane is then a block. Units of more tokens are packed
 * (packed-block.c).
 */
#include "kern/arm/block.h"

#define N_TOKENS 4

/* The f16 at the beginning of 4 blocks. */
KERN_INLINE float32x4_t halves(const struct block_kind kind, const uint8_t *w) {
        uint16_t h[4];

        KERN_UNROLL for (unsigned b = 0; b < 4; b++) memcpy(&h[b], w + b * kind.size, sizeof(h[b]));
        return vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t){h[0], h[1], h[2], h[3]}));
}

KERN_INLINE float32x4_t weight_scales(const struct block_kind kind, const uint8_t *w) {
        uint32x4_t one = vdupq_n_u32(1), e, normal, subnormal;

        if (kind.form != FORM_MXFP4)
                return halves(kind, w);
        e = (uint32x4_t){w[0], w[kind.size], w[2 * kind.size], w[3 * kind.size]};
        normal = vshlq_n_u32(vsubq_u32(e, one), 23);
        subnormal = vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(e));
        return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, one), normal, subnormal));
}

/* 4 sums of the products of a block. */
KERN_INLINE int32x4_t dot_block(const int8x16_t *v, const int8_t *q) {
        return dot16(dot16(vdupq_n_s32(0), v[0], vld1q_s8(q)), v[1], vld1q_s8(q + 16));
}

struct row_act {
        const float *d;
        const int32_t *sums;
        const int8_t *q;
};

KERN_INLINE struct row_act row_act(const uint8_t *x, size_t n_blocks) {
        size_t n8 = (n_blocks + 7) & ~(size_t)7;
        const float *d = (const float *)x;

        return (struct row_act){d, (const int32_t *)(d + n8), (const int8_t *)(d + 2 * n8)};
}

/* 4 blocks from block b of the tokens on. */
KERN_INLINE void four_blocks(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        const struct row_act *x, size_t b, float32x4_t (*acc)[2], unsigned half) {
        float32x4_t dw = weight_scales(kind, w), mw = vdupq_n_f32(0);
        int8x16_t v[4][2];

        if (kind.min)
                mw = halves(kind, w + 2);
        KERN_UNROLL for (unsigned i = 0; i < 4; i++) values(kind, w + i * kind.size, v[i]);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                const int8_t *q = x[t].q + b * KERN_ACT_BLOCK;
                float32x4_t dx = vld1q_f32(x[t].d + b);
                int32x4_t p[4], sum, x_sum = vdupq_n_s32(0);

                KERN_UNROLL for (unsigned i = 0; i < 4; i++) p[i] = dot_block(v[i], q + 32 * i);
                sum = vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3]));
                if (value_shift(kind) || kind.min)
                        x_sum = vld1q_s32(x[t].sums + b);
                if (value_shift(kind))
                        sum = vmlsq_n_s32(sum, x_sum, 1 << value_shift(kind));
                acc[t][half] = vfmaq_f32(acc[t][half], vcvtq_f32_s32(sum), vmulq_f32(dw, dx));
                if (kind.min)
                        acc[t][half] =
                                vfmaq_f32(acc[t][half], vcvtq_f32_s32(x_sum), vmulq_f32(mw, dx));
        }
}

/* Block b of a token, into the lane that is its own. */
KERN_INLINE void one_block(const struct block_kind kind, const uint8_t *w, const struct row_act *x,
        size_t b, float *lanes) {
        float d = kind.form == FORM_MXFP4 ? quant_mxfp4_scale(w[0]) : load_half(w);
        int8x16_t v[2];
        int32_t sum;

        values(kind, w, v);
        sum = vaddvq_s32(dot_block(v, x->q + b * KERN_ACT_BLOCK));
        if (value_shift(kind))
                sum -= x->sums[b] * (1 << value_shift(kind));
        lanes[b % 8] = fmaf((float)sum, d * x->d[b], lanes[b % 8]);
        if (kind.min)
                lanes[b % 8] = fmaf((float)x->sums[b], load_half(w + 2) * x->d[b], lanes[b % 8]);
}

KERN_INLINE void row(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        size_t n_blocks, const uint8_t *x0, size_t x_stride, float *y, size_t ldy) {
        float32x4_t acc[N_TOKENS][2];
        struct row_act x[N_TOKENS];
        float lanes[8];
        size_t b = 0;

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                x[t] = row_act(x0 + t * x_stride, n_blocks);
                acc[t][0] = acc[t][1] = vdupq_n_f32(0);
        }
        for (; b + 8 <= n_blocks; b += 8, w += 8 * kind.size) {
                four_blocks(kind, n_tokens, w, x, b, acc, 0);
                four_blocks(kind, n_tokens, w + 4 * kind.size, x, b + 4, acc, 1);
        }
        if (b == n_blocks) {
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) y[t * ldy] =
                        tree8(acc[t][0], acc[t][1]);
                return;
        }
        for (unsigned t = 0; t < n_tokens; t++) {
                vst1q_f32(lanes, acc[t][0]);
                vst1q_f32(lanes + 4, acc[t][1]);
                for (size_t i = b; i < n_blocks; i++)
                        one_block(kind, w + (i - b) * kind.size, &x[t], i, lanes);
                y[t * ldy] = kern_tree8(lanes);
        }
}

/* The tokens of one unit that is not packed, if it has any. */
KERN_INLINE void unit_rows(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t unit) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, stride = a->quantised_row_size;
        const uint8_t *unit_x = kern_act_unit(a, unit);

        if (unit * KERN_ACT_UNIT >= a->n_tokens)
                return;
        y += unit * KERN_ACT_UNIT * ldy;
        for (size_t o = row0; o < row1; o++) {
                const uint8_t *p = (const uint8_t *)w->data + o * w->row_size, *x = unit_x;
                size_t n = unit_tokens(a, unit);
                float *yo = y + o;

                if (n == 4) {
                        row(kind, 4, p, n_blocks, x, stride, yo, ldy);
                        continue;
                }
                if (n >= 2) {
                        row(kind, 2, p, n_blocks, x, stride, yo, ldy);
                        x += 2 * stride;
                        yo += 2 * ldy;
                        n -= 2;
                }
                if (n > 0)
                        row(kind, 1, p, n_blocks, x, stride, yo, ldy);
        }
}

#define X(name, type, ...)                                                                         \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                size_t n = n_packed_units(a);                                                      \
                                                                                                   \
                DOT_NAME(packed_##name)(w, a, row0, row1, y, ldy, n);                              \
                unit_rows((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n);            \
        }
BLOCK_KINDS(X)
#undef X

void DOT_NAME(matmul_block)(struct kern_ops *ops) {
#define X(name, type, ...) ops->matmul[type] = matmul_##name;
        BLOCK_KINDS(X)
#undef X
        ops->act_round[KERN_ACT_Q8] = kern_neon_act_round_q8;
}
