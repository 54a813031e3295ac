/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights times many tokens. A lane is a token; weights are taken from the lanes of a register,
 * so that nothing is broadcast, and nothing is added across lanes.
 *
 * 8 rows are unpacked to signed bytes, CHUNK blocks at a time, and used for all tokens of a pass. A tile is
 * DOT_ROWS of these rows by a unit (16 tokens), or twice as many by half of one if it has no more tokens; its
 * integer sums stay in registers during a block. Between blocks the 8 accumulators of each output (contract: acc[b%8]) are in
 * memory.
 */
#include "kern/arm/block.h"

#define N_ROWS 8
#define CHUNK 32     /* blocks; a multiple of 8 */
#define PASS_UNITS 8 /* units per pass */

struct rows {
        _Alignas(64) int8_t q[N_ROWS][CHUNK * KERN_ACT_BLOCK];
        float d[CHUNK][N_ROWS], m[CHUNK][N_ROWS];
};

/* Accumulators of the rows by a unit. */
struct acc {
        float32x4_t v[8][N_ROWS][N_QUADS];
};

/* n_blocks <= CHUNK blocks from block b on of the rows from @row on; the last row stands in for those that are
 * missing. */
KERN_INLINE void unpack(const struct block_kind kind, const struct kern_mat *w, size_t row,
        size_t n_rows, size_t b, size_t n_blocks, struct rows *ret) {
        for (size_t r = 0; r < N_ROWS; r++) {
                const uint8_t *p = (const uint8_t *)w->data +
                                   (row + (r < n_rows ? r : n_rows - 1)) * w->row_size +
                                   b * kind.size;

                for (size_t i = 0; i < n_blocks; i++, p += kind.size) {
                        int8x16_t v[2];

                        values(kind, p, v);
                        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                                if (value_shift(kind))
                                        v[h] = vsubq_s8(
                                                v[h], vdupq_n_s8((int8_t)(1 << kind.shift)));
                                vst1q_s8(ret->q[r] + i * KERN_ACT_BLOCK + 16 * h, v[h]);
                        }
                        ret->d[i][r] =
                                kind.form == FORM_MXFP4 ? quant_mxfp4_scale(p[0]) : load_half(p);
                        if (kind.min)
                                ret->m[i][r] = load_half(p + 2);
                }
        }
}

/* One block of n_rows rows by n_quads quads, whose registers begin at x. */
KERN_INLINE void tile(const struct block_kind kind, unsigned n_rows, unsigned n_quads,
        const int8_t *q, const float *d, const float *m, const uint8_t *x,
        float32x4_t (*acc)[N_QUADS]) {
        bool small = kind.form != FORM_BYTES && kind.form != FORM_IQ4;
        int32x4_t s[N_QUADS][N_ROWS];

        KERN_UNROLL for (unsigned u = 0; u < n_quads; u++)
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) s[u][r] = vdupq_n_s32(0);
        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                int8x16_t w[N_ROWS];

                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) w[r] =
                        vld1q_s8(q + r * CHUNK * KERN_ACT_BLOCK + 16 * h);
                KERN_UNROLL for (unsigned u = 0; u < n_quads; u++) {
                        const int8_t *xq = (const int8_t *)x + u * PACKED_QUAD + 64 * h;
                        int8x16_t v[4] = {vld1q_s8(xq), vld1q_s8(xq + 16), vld1q_s8(xq + 32),
                                vld1q_s8(xq + 48)};

                        dot_tokens(n_rows, w, v, small, s[u]);
                }
        }
        KERN_UNROLL for (unsigned u = 0; u < n_quads; u++) {
                float32x4_t dx = vld1q_f32((const float *)(x + PACKED_SCALES) + 4 * u);
                float32x4_t sums =
                        vcvtq_f32_s32(vld1q_s32((const int32_t *)(x + PACKED_SUMS) + 4 * u));

                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                        acc[r][u] =
                                vfmaq_f32(acc[r][u], vcvtq_f32_s32(s[u][r]), vmulq_n_f32(dx, d[r]));
                        if (kind.min)
                                acc[r][u] = vfmaq_f32(acc[r][u], sums, vmulq_n_f32(dx, m[r]));
                }
        }
}

/* n_blocks blocks by a unit. */
KERN_INLINE void blocks(const struct block_kind kind, unsigned n_rows, unsigned n_quads,
        const struct rows *rows, size_t n_blocks, const uint8_t *x, struct acc *acc) {
        for (size_t r = 0; r < N_ROWS; r += n_rows)
                for (size_t b = 0; b < n_blocks; b++)
                        tile(kind, n_rows, n_quads, rows->q[r] + b * KERN_ACT_BLOCK, &rows->d[b][r],
                                &rows->m[b][r], x + b * PACKED_SIZE, &acc->v[b % 8][r]);
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

/* N_ROWS rows by the units [u0, u1) of one pass. */
KERN_INLINE void rows_by_pass(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t u0, size_t u1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK;
        struct acc acc[PASS_UNITS];
        struct rows rows;

        memset(acc, 0, (u1 - u0) * sizeof(*acc));
        for (size_t b = 0; b < n_blocks; b += CHUNK) {
                size_t n = n_blocks - b < CHUNK ? n_blocks - b : CHUNK;

                unpack(kind, w, row, n_rows, b, n, &rows);
                for (size_t u = u0; u < u1; u++) {
                        const uint8_t *x = kern_act_unit(a, u) + b * PACKED_SIZE;

                        if (unit_tokens(a, u) > KERN_ACT_UNIT / 2)
                                blocks(kind, DOT_ROWS, N_QUADS, &rows, n, x, &acc[u - u0]);
                        else
                                blocks(kind, 2 * DOT_ROWS, N_QUADS / 2, &rows, n, x, &acc[u - u0]);
                }
        }
        for (size_t u = u0; u < u1; u++)
                store_unit(&acc[u - u0], unit_tokens(a, u), n_rows,
                        y + u * KERN_ACT_UNIT * ldy + row, ldy);
}

KERN_INLINE void packed(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        for (size_t u = 0; u < n_units; u += PASS_UNITS) {
                size_t end = n_units - u < PASS_UNITS ? n_units : u + PASS_UNITS;

                for (size_t o = row0; o < row1; o += N_ROWS)
                        rows_by_pass(kind, w, a, o, row1 - o < N_ROWS ? row1 - o : N_ROWS, u, end,
                                y, ldy);
        }
}

#define X(name, type, ...)                                                                         \
        void DOT_NAME(packed_##name)(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n_units);         \
        }
BLOCK_KINDS(X)
#undef X
