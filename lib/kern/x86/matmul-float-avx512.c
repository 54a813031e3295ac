/* SPDX-License-Identifier: MIT */
/*
 * Float weights times float activations. A tile is 4 rows by up to 6 tokens: 24 accumulators, each
 * the 16 lanes of one output; weights are widened once per tile.
 */
#include "kern/x86/avx512.h"
#include "quant/quant.h"

#define N_ROWS 4

KERN_INLINE size_t value_size(enum quant_type type) {
        return type == QUANT_F32 ? 4 : 2;
}

KERN_INLINE __m512 load16(enum quant_type type, const uint8_t *p) {
        if (type == QUANT_F32)
                return _mm512_loadu_ps(p);
        if (type == QUANT_F16)
                return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

KERN_INLINE __m512 load_first(enum quant_type type, const uint8_t *p, __mmask16 m) {
        if (type == QUANT_F32)
                return _mm512_maskz_loadu_ps(m, p);
        if (type == QUANT_F16)
                return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
        return _mm512_castsi512_ps(
                _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
}

/* tree16 of four registers at once. */
KERN_INLINE __m128 tree16x4(__m512 v0, __m512 v1, __m512 v2, __m512 v3) {
        /* b: the halves of two registers each; 128-bit lanes v0 b0-3, v0 b4-7, v1 b0-3, v1 b4-7 */
        __m512 b01 = _mm512_add_ps(
                _mm512_shuffle_f32x4(v0, v1, 0x44), _mm512_shuffle_f32x4(v0, v1, 0xee));
        __m512 b23 = _mm512_add_ps(
                _mm512_shuffle_f32x4(v2, v3, 0x44), _mm512_shuffle_f32x4(v2, v3, 0xee));
        /* c: one 128-bit lane per register */
        __m512 c = _mm512_add_ps(
                _mm512_shuffle_f32x4(b01, b23, 0x88), _mm512_shuffle_f32x4(b01, b23, 0xdd));
        __m512 d = _mm512_add_ps(c, _mm512_permute_ps(c, 0x4e));
        __m512 s = _mm512_add_ps(d, _mm512_permute_ps(d, 0xb1));

        return _mm512_castps512_ps128(_mm512_permutexvar_ps(
                _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0), s));
}

/* @rows: the rows of y that exist. @next: bytes to the rows that come after these, which a single token has to
 * be asked for ahead: four streams of a row's length are not foreseen. */
KERN_INLINE void tile(enum quant_type type, unsigned n_tokens, const uint8_t *const *w, size_t next,
        const float *x, size_t ldx, size_t n, float *y, size_t ldy, __mmask8 rows) {
        const uint8_t *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
        size_t vs = value_size(type), i = 0;
        __m512 acc[6][N_ROWS];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) acc[t][r] = _mm512_setzero_ps();
        for (; i + 16 <= n; i += 16) {
                if (n_tokens == 1 && i * vs % 64 == 0)
                        KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++)
                                __builtin_prefetch(w[r] + next + i * vs);
                __m512 v0 = load16(type, w0 + i * vs), v1 = load16(type, w1 + i * vs);
                __m512 v2 = load16(type, w2 + i * vs), v3 = load16(type, w3 + i * vs);

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        __m512 xv = _mm512_loadu_ps(x + t * ldx + i);

                        acc[t][0] = _mm512_fmadd_ps(v0, xv, acc[t][0]);
                        acc[t][1] = _mm512_fmadd_ps(v1, xv, acc[t][1]);
                        acc[t][2] = _mm512_fmadd_ps(v2, xv, acc[t][2]);
                        acc[t][3] = _mm512_fmadd_ps(v3, xv, acc[t][3]);
                }
        }
        if (i < n) {
                __mmask16 m = first_lanes(n - i);

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        __m512 xv = _mm512_maskz_loadu_ps(m, x + t * ldx + i);

                        KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) acc[t][r] =
                                _mm512_fmadd_ps(load_first(type, w[r] + i * vs, m), xv, acc[t][r]);
                }
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) _mm_mask_storeu_ps(
                y + t * ldy, rows, tree16x4(acc[t][0], acc[t][1], acc[t][2], acc[t][3]));
}

/* Tokens whose activations stay in the second cache while all rows pass by. */
static size_t tokens_per_pass(size_t n_in) {
        size_t n = 512 * 1024 / (n_in * sizeof(float) + 1);

        return n < 12 ? 12 : n - n % 6;
}

KERN_INLINE void rows_by_tokens(enum quant_type type, const uint8_t *const *w, size_t next,
        __mmask8 rows, size_t n_in, const float *x, size_t ldx, size_t n_tokens, float *y,
        size_t ldy) {
        for (; n_tokens >= 6; n_tokens -= 6, x += 6 * ldx, y += 6 * ldy)
                tile(type, 6, w, next, x, ldx, n_in, y, ldy, rows);
        for (; n_tokens >= 3; n_tokens -= 3, x += 3 * ldx, y += 3 * ldy)
                tile(type, 3, w, next, x, ldx, n_in, y, ldy, rows);
        for (; n_tokens > 0; n_tokens--, x += ldx, y += ldy)
                tile(type, 1, w, next, x, ldx, n_in, y, ldy, rows);
}

KERN_INLINE void matmul(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        size_t pass = tokens_per_pass(w->n_in);

        for (size_t t = 0; t < a->n_tokens; t += pass)
                for (size_t o = row0; o < row1; o += N_ROWS) {
                        __mmask8 rows =
                                row1 - o < N_ROWS ? (__mmask8)((1u << (row1 - o)) - 1) : 0xf;
                        const uint8_t *p[N_ROWS];

                        for (size_t r = 0; r < N_ROWS; r++)
                                p[r] = (const uint8_t *)w->data +
                                       (o + r < row1 ? o + r : row1 - 1) * w->row_size;
                        rows_by_tokens(type, p, N_ROWS * w->row_size, rows, w->n_in,
                                a->x + t * a->ldx, a->ldx,
                                a->n_tokens - t < pass ? a->n_tokens - t : pass, y + t * ldy + o,
                                ldy);
                }
}

static void matmul_f32(const struct kern_mat *w, const struct kern_act *a, size_t row0, size_t row1,
        float *y, size_t ldy) {
        matmul(QUANT_F32, w, a, row0, row1, y, ldy);
}

static void matmul_f16(const struct kern_mat *w, const struct kern_act *a, size_t row0, size_t row1,
        float *y, size_t ldy) {
        matmul(QUANT_F16, w, a, row0, row1, y, ldy);
}

static void matmul_bf16(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy) {
        matmul(QUANT_BF16, w, a, row0, row1, y, ldy);
}

void kern_avx512_matmul_float(struct kern_ops *ops) {
        ops->matmul[QUANT_F32] = matmul_f32;
        ops->matmul[QUANT_F16] = matmul_f16;
        ops->matmul[QUANT_BF16] = matmul_bf16;
}
