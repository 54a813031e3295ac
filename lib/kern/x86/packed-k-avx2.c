/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times many tokens. A register is 8 tokens; a register of weights
 * has the same 4 values of one row in every lane. Sums of two products stay 16 bits wide as long as
 * they fit (steps_of_16_bits), so most steps are one product and one addition.
 *
 * A tile is 2 rows by one unit (16 tokens). Its 4 integer sums stay in registers during a block;
 * the 8 accumulators of each output (contract: acc[b%8]) are in memory.
 */
#include "kern/x86/packed-k.h"
#include "kern/x86/matmul-k.h"

#define TILE_ROWS 2

/* Accumulators of K_ROWS rows by one unit. */
struct acc {
        __m256 v[8][K_ROWS][2];
};

/* How many steps of 4 values leave the sum of products of two within int16, up to a sub-block:
 * 2 * 127 * (greatest value) each. */
KERN_INLINE unsigned steps_of_16_bits(enum quant_type type) {
        switch (type) {
        case QUANT_Q4_K: /* 15 */
                return 8;
        case QUANT_Q6_K: /* 63 */
                return 2;
        case QUANT_IQ4_XS: /* 127 */
                return 1;
        default: /* at most 31 (Q5_K); scales of Q2_K and Q3_K change after 4 steps */
                return 4;
        }
}

KERN_INLINE __m256i dot2(enum quant_type type, __m256i w, __m256i x) {
        if (type == QUANT_IQ4_XS)
                return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
        return _mm256_maddubs_epi16(w, x);
}

KERN_INLINE __m256i load(const void *p) {
        return _mm256_load_si256((const __m256i *)p);
}

KERN_INLINE __m256i broadcast4(const void *p) {
        int32_t v;

        memcpy(&v, p, sizeof(v));
        return _mm256_set1_epi32(v);
}

/* Sub-block s of block b: 2 rows from row r on. @x: its registers. */
KERN_INLINE void sub_block(enum quant_type type, const struct k_rows *rows, size_t r, size_t b,
        size_t s, const uint8_t *x, __m256i (*isum)[2]) {
        const unsigned steps = steps_of_16_bits(type);

        KERN_UNROLL for (unsigned k0 = 0; k0 < 8; k0 += steps) {
                __m256i c[TILE_ROWS][2];

                KERN_UNROLL for (unsigned k = k0; k < k0 + steps; k++) {
                        __m256i x0 = load(x + 64 * k), x1 = load(x + 64 * k + 32);

                        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                                __m256i w = broadcast4(&rows->q[r + i][b][32 * s + 4 * k]);
                                __m256i p0 = dot2(type, w, x0), p1 = dot2(type, w, x1);

                                c[i][0] = k == k0 ? p0 : _mm256_add_epi16(c[i][0], p0);
                                c[i][1] = k == k0 ? p1 : _mm256_add_epi16(c[i][1], p1);
                        }
                }
                KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                        __m256i scale = _mm256_set1_epi32(rows->scales[r + i][b][2 * s + k0 / 4]);

                        KERN_UNROLL for (unsigned u = 0; u < 2; u++) isum[i][u] =
                                _mm256_add_epi32(isum[i][u], _mm256_madd_epi16(c[i][u], scale));
                }
        }
}

/* Block b of 2 rows by one unit, whose registers begin at x. */
KERN_INLINE void tile(enum quant_type type, const struct k_rows *rows, size_t r, size_t b,
        const uint8_t *x, __m256 (*acc)[2]) {
        __m256i isum[TILE_ROWS][2];

        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) isum[i][0] = isum[i][1] =
                _mm256_setzero_si256();
        for (size_t s = 0; s < 8; s++)
                sub_block(type, rows, r, b, s, x + 512 * s, isum);
        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++)
                KERN_UNROLL for (unsigned u = 0; u < 2; u++) {
                __m256 dx = _mm256_load_ps((const float *)(x + K_PACKED_SCALES + 32 * u));
                __m256 dw = _mm256_set1_ps(rows->d[r + i][b]);
                __m256i second = _mm256_setzero_si256();

                if (super_has_min(type) || super_shift(type))
                        KERN_UNROLL for (unsigned s = 0; s < 8; s++) second = _mm256_add_epi32(
                                second,
                                _mm256_madd_epi16(broadcast4(&rows->seconds[r + i][b][2 * s]),
                                        load(x + K_PACKED_SUMS + 64 * s + 32 * u)));
                if (super_shift(type))
                        isum[i][u] = _mm256_sub_epi32(
                                isum[i][u], _mm256_slli_epi32(second, super_shift(type)));
                acc[i][u] = _mm256_fmadd_ps(
                        _mm256_cvtepi32_ps(isum[i][u]), _mm256_mul_ps(dw, dx), acc[i][u]);
                if (super_has_min(type))
                        acc[i][u] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(second),
                                _mm256_mul_ps(_mm256_set1_ps(rows->m[r + i][b]), dx), acc[i][u]);
        }
}

/* tree8 over the accumulators, and n_rows rows of n_tokens tokens into y. */
static void store_unit(
        const struct acc *acc, size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        float out[K_ROWS][KERN_ACT_UNIT];

        for (size_t r = 0; r < n_rows; r++)
                for (size_t u = 0; u < 2; u++) {
                        __m256 c[4];

                        for (size_t i = 0; i < 4; i++)
                                c[i] = _mm256_add_ps(acc->v[i][r][u], acc->v[i + 4][r][u]);
                        _mm256_storeu_ps(&out[r][8 * u], _mm256_add_ps(_mm256_add_ps(c[0], c[2]),
                                                                 _mm256_add_ps(c[1], c[3])));
                }
        for (size_t t = 0; t < n_tokens; t++)
                for (size_t r = 0; r < n_rows; r++)
                        y[t * ldy + r] = out[r][t];
}

/* K_ROWS rows by the units [u0, u1) of one pass. */
KERN_INLINE void rows_by_pass(enum quant_type type, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t u0, size_t u1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_SUPER;
        struct acc acc[K_PASS_UNITS];
        struct k_rows rows;

        memset(acc, 0, (u1 - u0) * sizeof(*acc));
        for (size_t b = 0; b < n_blocks; b += K_CHUNK) {
                size_t n = n_blocks - b < K_CHUNK ? n_blocks - b : K_CHUNK;

                k_unpack(type, true, 0, w, row, n_rows, b, n, &rows);
                for (size_t u = u0; u < u1; u++)
                        for (size_t i = 0; i < n; i++) {
                                const uint8_t *x = kern_act_unit(a, u) + (b + i) * K_PACKED_SIZE;

                                for (size_t r = 0; r < K_ROWS; r += TILE_ROWS)
                                        tile(type, &rows, r, i, x, &acc[u - u0].v[i % 8][r]);
                        }
        }
        for (size_t u = u0; u < u1; u++) {
                size_t t = u * KERN_ACT_UNIT, left = a->n_tokens - t;

                store_unit(&acc[u - u0], left < KERN_ACT_UNIT ? left : KERN_ACT_UNIT, n_rows,
                        y + t * ldy + row, ldy);
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
        void kern_avx2_packed_##name(const struct kern_mat *w, const struct kern_act *a,           \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed(type, w, a, row0, row1, y, ldy, n_units);                                   \
        }
K_TYPES(X)
#undef X
