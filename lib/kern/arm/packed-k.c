/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times many tokens. A lane is a token; weights, scales and mins are taken from
 * the lanes of registers, so that nothing is broadcast, and nothing is added across lanes.
 *
 * N_ROWS rows are unpacked to signed bytes and integer scales, CHUNK blocks at a time, and used for all tokens
 * of a pass. A tile is DOT_ROWS of these rows by 2 quads (8 tokens). During a block it has two integer sums per
 * output in registers: that of a group of values, and that of groups times their scales. Between blocks the 8
 * accumulators of each output (contract: acc[b%8]) are in memory.
 */
#include "kern/arm/super.h"

#define N_ROWS 4
#define CHUNK 4      /* blocks */
#define PASS_UNITS 8 /* units per pass */
#define TILE_QUADS 2

struct rows {
        _Alignas(64) int8_t q[N_ROWS][CHUNK][KERN_ACT_SUPER];
        int32_t scales[N_ROWS][CHUNK][KERN_ACT_SUPER_SUMS]; /* of the groups in order */
        int16_t mins[N_ROWS][CHUNK][KERN_ACT_SUPER_SUMS];
        float d[N_ROWS][CHUNK], m[N_ROWS][CHUNK];
};

/* Accumulators of the rows by a unit. */
struct acc {
        float32x4_t v[8][N_ROWS][N_QUADS];
};

/* Groups of a block. */
KERN_INLINE unsigned n_groups(enum quant_type type) {
        return super_wide(type) ? 8 : 16;
}

/* The scales or mins of the groups in order. */
KERN_INLINE void in_order(enum quant_type type, const int16x8_t *v, int16x8_t *ret) {
        if (super_wide(type)) {
                ret[0] = ret[1] = v[0];
                return;
        }
        ret[0] = vzip1q_s16(v[0], v[1]);
        ret[1] = vzip2q_s16(v[0], v[1]);
}

KERN_INLINE void unpack_block(
        enum quant_type type, const uint8_t *w, struct rows *ret, size_t r, size_t b) {
        struct super_scales k = super_scales(type, w);
        int8x16_t shift = vdupq_n_s8((int8_t)(super_shift(type) ? 1 << super_shift(type) : 0));
        int16x8_t v[2];

        in_order(type, k.scale, v);
        KERN_UNROLL for (unsigned i = 0; i < n_groups(type) / 8; i++) {
                vst1q_s32(&ret->scales[r][b][8 * i], vmovl_s16(vget_low_s16(v[i])));
                vst1q_s32(&ret->scales[r][b][8 * i + 4], vmovl_high_s16(v[i]));
        }
        KERN_UNROLL for (unsigned i = 0; i < 16; i++) vst1q_s8(
                &ret->q[r][b][16 * i], vsubq_s8(super_values(type, w, i / 2, i % 2), shift));
        ret->d[r][b] = load_half(w + super_d_at(type));
        if (!super_has_min(type))
                return;
        in_order(type, k.second, v);
        KERN_UNROLL for (unsigned i = 0; i < n_groups(type) / 8; i++)
                vst1q_s16(&ret->mins[r][b][8 * i], v[i]);
        ret->m[r][b] = load_half(w + super_d_at(type) + 2);
}

/* n_blocks <= CHUNK blocks from block b on of the rows from @row on; the last row stands in for those that are
 * missing. */
KERN_INLINE void unpack(enum quant_type type, const struct kern_mat *w, size_t row, size_t n_rows,
        size_t b, size_t n_blocks, struct rows *ret) {
        for (size_t r = 0; r < N_ROWS; r++) {
                const uint8_t *p = (const uint8_t *)w->data +
                                   (row + (r < n_rows ? r : n_rows - 1)) * w->row_size +
                                   b * super_size(type);

                for (size_t i = 0; i < n_blocks; i++, p += super_size(type))
                        unpack_block(type, p, ret, r, i);
        }
}

/* sum + v times the scale of lane g. */
KERN_INLINE int32x4_t scaled(int32x4_t sum, int32x4_t v, int32x4_t scales, unsigned g) {
        switch (g) {
        case 0:
                return vmlaq_laneq_s32(sum, v, scales, 0);
        case 1:
                return vmlaq_laneq_s32(sum, v, scales, 1);
        case 2:
                return vmlaq_laneq_s32(sum, v, scales, 2);
        default:
                return vmlaq_laneq_s32(sum, v, scales, 3);
        }
}

/* Four groups of values, from group g0 on, of block b and the rows from r on; @x: the first quad's block. */
KERN_INLINE void four_groups(enum quant_type type, const struct rows *rows, size_t r, size_t b,
        size_t g0, const int8_t *x, int32x4_t (*isum)[DOT_ROWS]) {
        const unsigned halves = super_wide(type) ? 2 : 1;
        int32x4_t scales[DOT_ROWS];

        KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) scales[i] =
                vld1q_s32(&rows->scales[r + i][b][g0]);
        KERN_UNROLL for (unsigned g = 0; g < 4; g++) {
                int32x4_t s[TILE_QUADS][DOT_ROWS];

                KERN_UNROLL for (unsigned u = 0; u < TILE_QUADS; u++)
                        KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) s[u][i] =
                                vdupq_n_s32(0);
                KERN_UNROLL for (unsigned h = 0; h < halves; h++) {
                        size_t at = 16 * ((g0 + g) * halves + h);
                        int8x16_t w[DOT_ROWS];

                        KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) w[i] =
                                vld1q_s8(&rows->q[r + i][b][at]);
                        KERN_UNROLL for (unsigned u = 0; u < TILE_QUADS; u++) {
                                const int8_t *xq = x + u * K_PACKED_QUAD + 4 * at;
                                int8x16_t v[4] = {vld1q_s8(xq), vld1q_s8(xq + 16),
                                        vld1q_s8(xq + 32), vld1q_s8(xq + 48)};

                                dot_tokens(DOT_ROWS, w, v, super_small(type), s[u]);
                        }
                }
                KERN_UNROLL for (unsigned u = 0; u < TILE_QUADS; u++)
                        KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) isum[u][i] =
                                scaled(isum[u][i], s[u][i], scales[i], g);
        }
}

/* sum + mins times the sums of activations of four tokens, 4 groups from lane `low` or 4 of mins on. */
KERN_INLINE int32x4_t add_mins(int32x4_t sum, int16x8_t mins, bool high, const int16x4_t *x) {
        if (high) {
                sum = vmlal_laneq_s16(sum, x[0], mins, 4);
                sum = vmlal_laneq_s16(sum, x[1], mins, 5);
                sum = vmlal_laneq_s16(sum, x[2], mins, 6);
                return vmlal_laneq_s16(sum, x[3], mins, 7);
        }
        sum = vmlal_laneq_s16(sum, x[0], mins, 0);
        sum = vmlal_laneq_s16(sum, x[1], mins, 1);
        sum = vmlal_laneq_s16(sum, x[2], mins, 2);
        return vmlal_laneq_s16(sum, x[3], mins, 3);
}

/* The sums of mins times activations of a quad, whose sums begin at @sums. */
KERN_INLINE void min_sums(enum quant_type type, const struct rows *rows, size_t r, size_t b,
        const int16_t *sums, int32x4_t *ret) {
        KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) ret[i] = vdupq_n_s32(0);
        KERN_UNROLL for (unsigned g = 0; g < n_groups(type); g += 4) {
                int16x4_t x[4];

                KERN_UNROLL for (unsigned j = 0; j < 4; j++) {
                        const int16_t *p = sums + (g + j) * KERN_ACT_UNIT;

                        if (super_wide(type)) { /* of 32 values: at most 32 * 127 */
                                p = sums + 2 * (g + j) * KERN_ACT_UNIT;
                                x[j] = vadd_s16(vld1_s16(p), vld1_s16(p + KERN_ACT_UNIT));
                        } else {
                                x[j] = vld1_s16(p);
                        }
                }
                KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) ret[i] =
                        add_mins(ret[i], vld1q_s16(&rows->mins[r + i][b][g & ~7u]), g % 8 != 0, x);
        }
}

/* Block b of the rows from r on by 2 quads from u0 on of the unit whose block is x. */
KERN_INLINE void tile(enum quant_type type, const struct rows *rows, size_t r, size_t b,
        const uint8_t *x, size_t u0, float32x4_t (*acc)[N_QUADS]) {
        int32x4_t isum[TILE_QUADS][DOT_ROWS];

        KERN_UNROLL for (unsigned u = 0; u < TILE_QUADS; u++)
                KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) isum[u][i] = vdupq_n_s32(0);
        for (size_t g = 0; g < n_groups(type); g += 4)
                four_groups(type, rows, r, b, g, (const int8_t *)x + u0 * K_PACKED_QUAD, isum);
        KERN_UNROLL for (unsigned u = 0; u < TILE_QUADS; u++) {
                float32x4_t dx = vld1q_f32((const float *)(x + K_PACKED_SCALES) + 4 * (u0 + u));
                int32x4_t msum[DOT_ROWS];

                KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) acc[i][u0 + u] =
                        vfmaq_f32(acc[i][u0 + u], vcvtq_f32_s32(isum[u][i]),
                                vmulq_n_f32(dx, rows->d[r + i][b]));
                if (!super_has_min(type))
                        continue;
                min_sums(type, rows, r, b, (const int16_t *)(x + K_PACKED_SUMS) + 4 * (u0 + u),
                        msum);
                KERN_UNROLL for (unsigned i = 0; i < DOT_ROWS; i++) acc[i][u0 + u] = vfmsq_f32(
                        acc[i][u0 + u], vcvtq_f32_s32(msum[i]), vmulq_n_f32(dx, rows->m[r + i][b]));
        }
}

/* tree8 over the accumulators, and n_rows rows of n_tokens tokens into y. */
static void store_unit(
        const struct acc *acc, size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        float out[N_ROWS][KERN_ACT_UNIT];

        for (size_t r = 0; r < n_rows; r++)
                for (size_t u = 0; 4 * u < n_tokens; u++) {
                        float32x4_t c[4];

                        for (size_t i = 0; i < 4; i++)
                                c[i] = vaddq_f32(acc->v[i][r][u], acc->v[i + 4][r][u]);
                        vst1q_f32(&out[r][4 * u],
                                vaddq_f32(vaddq_f32(c[0], c[2]), vaddq_f32(c[1], c[3])));
                }
        for (size_t t = 0; t < n_tokens; t++)
                for (size_t r = 0; r < n_rows; r++)
                        y[t * ldy + r] = out[r][t];
}

/* n blocks from block b on of all rows by a unit. */
KERN_INLINE void blocks(enum quant_type type, const struct rows *rows, size_t b, size_t n,
        const struct kern_act *a, size_t unit, struct acc *acc) {
        size_t n_quads = unit_tokens(a, unit) > KERN_ACT_UNIT / 2 ? N_QUADS : N_QUADS / 2;

        for (size_t i = 0; i < n; i++) {
                const uint8_t *x = kern_act_unit(a, unit) + (b + i) * K_PACKED_SIZE;

                for (size_t u = 0; u < n_quads; u += TILE_QUADS)
                        for (size_t r = 0; r < N_ROWS; r += DOT_ROWS)
                                tile(type, rows, r, i, x, u, &acc->v[(b + i) % 8][r]);
        }
}

/* N_ROWS rows by the units [u0, u1) of one pass. */
KERN_INLINE void rows_by_pass(enum quant_type type, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t u0, size_t u1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_SUPER;
        struct acc acc[PASS_UNITS];
        struct rows rows;

        memset(acc, 0, (u1 - u0) * sizeof(*acc));
        for (size_t b = 0; b < n_blocks; b += CHUNK) {
                size_t n = n_blocks - b < CHUNK ? n_blocks - b : CHUNK;

                unpack(type, w, row, n_rows, b, n, &rows);
                for (size_t u = u0; u < u1; u++)
                        blocks(type, &rows, b, n, a, u, &acc[u - u0]);
        }
        for (size_t u = u0; u < u1; u++)
                store_unit(&acc[u - u0], unit_tokens(a, u), n_rows,
                        y + u * KERN_ACT_UNIT * ldy + row, ldy);
}

KERN_INLINE void packed(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        for (size_t u = 0; u < n_units; u += PASS_UNITS) {
                size_t end = n_units - u < PASS_UNITS ? n_units : u + PASS_UNITS;

                for (size_t o = row0; o < row1; o += N_ROWS)
                        rows_by_pass(type, w, a, o, row1 - o < N_ROWS ? row1 - o : N_ROWS, u, end,
                                y, ldy);
        }
}

#define X(name, type)                                                                              \
        void DOT_NAME(packed_##name)(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed(type, w, a, row0, row1, y, ldy, n_units);                                   \
        }
K_TYPES(X)
#undef X
