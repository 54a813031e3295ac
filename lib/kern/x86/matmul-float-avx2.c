/* SPDX-License-Identifier: MIT */
/*
 * Float weights times float activations. Each output has 16 lanes in two registers; a tile is 4
 * rows by 1 token or 2 rows by 3 tokens.
 */
#include "kern/x86/avx2.h"
#include "quant/quant.h"

#define N_ROWS 4
#define N_TOKENS 3

KERN_INLINE size_t value_size(enum quant_type type) {
        return type == QUANT_F32 ? 4 : 2;
}

KERN_INLINE __m256 load8(enum quant_type type, const uint8_t *p) {
        __m128i h;

        if (type == QUANT_F32)
                return _mm256_loadu_ps((const float *)p);
        h = _mm_loadu_si128((const __m128i *)p);
        if (type == QUANT_F16)
                return _mm256_cvtph_ps(h);
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* 16 values of each row and token. */
KERN_INLINE void step(enum quant_type type, unsigned n_rows, unsigned n_tokens,
        const uint8_t *const *w, const float *const *x, size_t i, __m256 (*acc)[N_ROWS][2]) {
        size_t vs = value_size(type);

        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                __m256 v[N_ROWS];

                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) v[r] =
                        load8(type, w[r] + (i + 8 * h) * vs);
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        __m256 xv = _mm256_loadu_ps(x[t] + i + 8 * h);

                        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[t][r][h] =
                                _mm256_fmadd_ps(v[r], xv, acc[t][r][h]);
                }
        }
}

/* The last values, fewer than 16, with zeros behind them. */
KERN_INLINE void last_step(enum quant_type type, unsigned n_rows, unsigned n_tokens,
        const uint8_t *const *w, const float *const *x, size_t i, size_t n,
        __m256 (*acc)[N_ROWS][2]) {
        uint8_t wb[N_ROWS][64] = {0};
        float xb[N_TOKENS][16] = {0};
        const uint8_t *wp[N_ROWS];
        const float *xp[N_TOKENS];
        size_t vs = value_size(type);

        for (unsigned r = 0; r < n_rows; r++) {
                memcpy(wb[r], w[r] + i * vs, (n - i) * vs);
                wp[r] = wb[r];
        }
        for (unsigned t = 0; t < n_tokens; t++) {
                memcpy(xb[t], x[t] + i, (n - i) * sizeof(float));
                xp[t] = xb[t];
        }
        step(type, n_rows, n_tokens, wp, xp, 0, acc);
}

/* @next: bytes to the rows that come after these, which a single token has to be asked for ahead: four streams of a
 * row's length are not foreseen. */
KERN_INLINE void tile(enum quant_type type, unsigned n_rows, unsigned n_tokens,
        const uint8_t *const *w, size_t next, const float *x0, size_t ldx, size_t n, float *y,
        size_t ldy, size_t rows_to_store) {
        const size_t vs = value_size(type);
        __m256 acc[N_TOKENS][N_ROWS][2];
        const float *x[N_TOKENS];
        size_t i = 0;

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                x[t] = x0 + t * ldx;
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[t][r][0] = acc[t][r][1] =
                        _mm256_setzero_ps();
        }
        for (; i + 16 <= n; i += 16) {
                if (next > 0 && i * vs % 64 == 0)
                        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++)
                                __builtin_prefetch(w[r] + next + i * vs);
                step(type, n_rows, n_tokens, w, x, i, acc);
        }
        if (i < n)
                last_step(type, n_rows, n_tokens, w, x, i, n, acc);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) if (r < rows_to_store)
                        y[t * ldy + r] = tree16(acc[t][r][0], acc[t][r][1]);
}

/* Tokens whose activations stay in the second cache while all rows pass by. */
static size_t tokens_per_pass(size_t n_in) {
        size_t n = 256 * 1024 / (n_in * sizeof(float) + 1);

        return n < 2 * N_TOKENS ? 2 * N_TOKENS : n - n % N_TOKENS;
}

KERN_INLINE void rows_by_tokens(enum quant_type type, const uint8_t *const *w, size_t rows_to_store,
        size_t n_in, const float *x, size_t ldx, size_t n_tokens, float *y, size_t ldy) {
        for (; n_tokens >= N_TOKENS; n_tokens -= N_TOKENS, x += N_TOKENS * ldx, y += N_TOKENS * ldy)
                tile(type, 2, N_TOKENS, w, 0, x, ldx, n_in, y, ldy, rows_to_store);
        for (; n_tokens > 0; n_tokens--, x += ldx, y += ldy)
                tile(type, 2, 1, w, 0, x, ldx, n_in, y, ldy, rows_to_store);
}

KERN_INLINE void matmul(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        size_t n_rows = a->n_tokens < N_TOKENS ? 4 : 2, pass = tokens_per_pass(w->n_in);

        for (size_t t = 0; t < a->n_tokens; t += pass)
                for (size_t o = row0; o < row1; o += n_rows) {
                        size_t n = a->n_tokens - t < pass ? a->n_tokens - t : pass;
                        const float *x = a->x + t * a->ldx;
                        float *yo = y + t * ldy + o;
                        const uint8_t *p[N_ROWS];

                        for (size_t r = 0; r < n_rows; r++)
                                p[r] = (const uint8_t *)w->data +
                                       (o + r < row1 ? o + r : row1 - 1) * w->row_size;
                        if (n_rows == 2)
                                rows_by_tokens(type, p, row1 - o, w->n_in, x, a->ldx, n, yo, ldy);
                        else
                                for (size_t i = 0; i < n; i++)
                                        tile(type, 4, 1, p, 4 * w->row_size, x + i * a->ldx, a->ldx,
                                                w->n_in, yo + i * ldy, ldy, row1 - o);
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

void kern_avx2_matmul_float(struct kern_ops *ops) {
        ops->matmul[QUANT_F32] = matmul_f32;
        ops->matmul[QUANT_F16] = matmul_f16;
        ops->matmul[QUANT_BF16] = matmul_bf16;
}
