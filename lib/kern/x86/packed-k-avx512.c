/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times many tokens. A register is 16 tokens; a register of weights
 * has the same 4 values of one row in every lane, and VNNI adds their products to 32-bit sums, which
 * are scaled after each group of values that share a scale.
 *
 * A tile is 4 rows by two units (32 tokens). Its 8 integer sums, and the 8 of the running group,
 * stay in registers during a block; the 8 accumulators of each output (contract: acc[b%8]) are in
 * memory.
 */
#include "kern/x86/avx512.h"
#include "kern/x86/packed-k.h"
#include "kern/x86/matmul-k.h"

#define TILE_ROWS 4

/* Accumulators of K_ROWS rows by two units. */
struct acc {
        __m512 v[8][K_ROWS][2];
};

/* IQ4_XS has no unsigned values by itself; these are of one byte. */
KERN_INLINE int shift_of(enum quant_type type) {
        return type == QUANT_IQ4_XS ? 7 : super_shift(type);
}

/* Steps of 4 values that share a scale. */
KERN_INLINE unsigned steps_of_scale(enum quant_type type) {
        return type == QUANT_Q4_K || type == QUANT_Q5_K || type == QUANT_IQ4_XS ? 8 : 4;
}

KERN_INLINE __m512i broadcast4(const void *p) {
        int32_t v;

        memcpy(&v, p, sizeof(v));
        return _mm512_set1_epi32(v);
}

/* Sub-block s of block b: 4 rows from row r on. @x: the sub-block's registers of each unit. */
KERN_INLINE void sub_block(enum quant_type type, unsigned n_units, const struct k_rows *rows,
        size_t r, size_t b, size_t s, const uint8_t *const *x, __m512i (*isum)[2]) {
        const unsigned steps = steps_of_scale(type);

        KERN_UNROLL for (unsigned k0 = 0; k0 < 8; k0 += steps) {
                __m512i c[TILE_ROWS][2];

                KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) c[i][0] = c[i][1] =
                        _mm512_setzero_si512();
                KERN_UNROLL for (unsigned k = k0; k < k0 + steps; k++) {
                        __m512i v[2];

                        KERN_UNROLL for (unsigned u = 0; u < n_units; u++) v[u] =
                                _mm512_load_si512(x[u] + 64 * k);
                        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                                __m512i w = broadcast4(&rows->q[r + i][b][32 * s + 4 * k]);

                                KERN_UNROLL for (unsigned u = 0; u < n_units; u++) c[i][u] =
                                        _mm512_dpbusd_epi32(c[i][u], w, v[u]);
                        }
                }
                KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                        __m512i scale = _mm512_set1_epi32(rows->scales[r + i][b][2 * s + k0 / 4]);

                        KERN_UNROLL for (unsigned u = 0; u < n_units; u++) isum[i][u] =
                                _mm512_add_epi32(isum[i][u], _mm512_mullo_epi32(c[i][u], scale));
                }
        }
}

/* The terms of block b of row r and one unit, whose registers begin at x. */
KERN_INLINE __m512 terms(enum quant_type type, const struct k_rows *rows, size_t r, size_t b,
        const uint8_t *x, __m512i isum, __m512 acc) {
        __m512 dx = _mm512_load_ps(x + K_PACKED_SCALES);
        __m512i second = _mm512_setzero_si512();

        if (super_has_min(type) || shift_of(type))
                KERN_UNROLL for (unsigned s = 0; s < 8; s++) second =
                        _mm512_dpwssd_epi32(second, broadcast4(&rows->seconds[r][b][2 * s]),
                                _mm512_load_si512(x + K_PACKED_SUMS + 64 * s));
        if (shift_of(type))
                isum = _mm512_sub_epi32(isum, _mm512_slli_epi32(second, (unsigned)shift_of(type)));
        acc = _mm512_fmadd_ps(
                _mm512_cvtepi32_ps(isum), _mm512_mul_ps(_mm512_set1_ps(rows->d[r][b]), dx), acc);
        if (super_has_min(type))
                acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(second),
                        _mm512_mul_ps(_mm512_set1_ps(rows->m[r][b]), dx), acc);
        return acc;
}

/* Block b of 4 rows by n_units units, whose registers begin at x. */
KERN_INLINE void tile(enum quant_type type, unsigned n_units, const struct k_rows *rows, size_t r,
        size_t b, const uint8_t *const *x, __m512 (*acc)[2]) {
        __m512i isum[TILE_ROWS][2];

        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) isum[i][0] = isum[i][1] =
                _mm512_setzero_si512();
        for (size_t s = 0; s < 8; s++) {
                const uint8_t *at[2] = {x[0] + 512 * s, x[1] + 512 * s};

                sub_block(type, n_units, rows, r, b, s, at, isum);
        }
        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++)
                KERN_UNROLL for (unsigned u = 0; u < n_units; u++) acc[i][u] =
                        terms(type, rows, r + i, b, x[u], isum[i][u], acc[i][u]);
}

/* n_blocks unpacked blocks by n_units units; x: the first of these blocks. */
KERN_INLINE void blocks(enum quant_type type, unsigned n_units, const struct k_rows *rows,
        size_t n_blocks, const uint8_t *x0, const uint8_t *x1, struct acc *acc) {
        for (size_t b = 0; b < n_blocks; b++) {
                const uint8_t *x[2] = {x0 + b * K_PACKED_SIZE, x1 + b * K_PACKED_SIZE};

                for (size_t r = 0; r < K_ROWS; r += TILE_ROWS)
                        tile(type, n_units, rows, r, b, x, &acc->v[b % 8][r]);
        }
}

/* tree8 over the accumulators, and n_rows rows of n_tokens tokens into y. */
static void store_unit(
        const struct acc *acc, size_t u, size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        float out[K_ROWS][KERN_ACT_UNIT];

        for (size_t r = 0; r < n_rows; r++) {
                __m512 c[4];

                for (size_t i = 0; i < 4; i++)
                        c[i] = _mm512_add_ps(acc->v[i][r][u], acc->v[i + 4][r][u]);
                _mm512_storeu_ps(out[r],
                        _mm512_add_ps(_mm512_add_ps(c[0], c[2]), _mm512_add_ps(c[1], c[3])));
        }
        for (size_t t = 0; t < n_tokens; t++)
                for (size_t r = 0; r < n_rows; r++)
                        y[t * ldy + r] = out[r][t];
}

/* K_ROWS rows by the units [u0, u1) of one pass. */
KERN_INLINE void rows_by_pass(enum quant_type type, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t u0, size_t u1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_SUPER, n_pairs = (u1 - u0 + 1) / 2;
        struct acc acc[K_PASS_UNITS / 2];
        struct k_rows rows;

        memset(acc, 0, n_pairs * sizeof(*acc));
        for (size_t b = 0; b < n_blocks; b += K_CHUNK) {
                size_t n = n_blocks - b < K_CHUNK ? n_blocks - b : K_CHUNK;

                k_unpack(type, false, type == QUANT_IQ4_XS ? 128 : 0, w, row, n_rows, b, n, &rows);
                for (size_t i = 0; i < n_pairs; i++) {
                        const uint8_t *x0 = kern_act_unit(a, u0 + 2 * i) + b * K_PACKED_SIZE;

                        if (u0 + 2 * i + 1 < u1)
                                blocks(type, 2, &rows, n, x0,
                                        kern_act_unit(a, u0 + 2 * i + 1) + b * K_PACKED_SIZE,
                                        &acc[i]);
                        else
                                blocks(type, 1, &rows, n, x0, x0, &acc[i]);
                }
        }
        for (size_t u = u0; u < u1; u++) {
                size_t t = u * KERN_ACT_UNIT, left = a->n_tokens - t;

                store_unit(&acc[(u - u0) / 2], (u - u0) % 2,
                        left < KERN_ACT_UNIT ? left : KERN_ACT_UNIT, n_rows, y + t * ldy + row,
                        ldy);
        }
}

KERN_INLINE void packed(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        for (size_t u = 0; u < n_units; u += K_PASS_UNITS) {
                size_t end = n_units - u < K_PASS_UNITS ? n_units : u + K_PASS_UNITS;

                for (size_t o = row0; o < row1; o += K_ROWS)
                        rows_by_pass(type, w, a, o, row1 - o < K_ROWS ? row1 - o : K_ROWS, u, end,
                                y, ldy);
        }
}

#define X(name, type)                                                                              \
        void kern_avx512_packed_##name(const struct kern_mat *w, const struct kern_act *a,         \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed(type, w, a, row0, row1, y, ldy, n_units);                                   \
        }
K_TYPES(X)
#undef X
