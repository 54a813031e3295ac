/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights times many tokens. Reading a prompt consists mostly of this, so it must
 * be as fast as VNNI. A lane is a token; a register of weights has the same 4 values of one row in
 * every lane.
 *
 * 8 rows are unpacked to plain unsigned bytes, CHUNK blocks at a time, and used for all tokens of a
 * pass. A tile is these 8 rows by two units (32 tokens); its 16 integer sums stay in registers
 * during a block. Between blocks the 8 accumulators of each output (contract: acc[b%8]) are in
 * memory.
 */
#include "kern/x86/block-avx512.h"

#define N_ROWS 8
#define CHUNK 64     /* blocks; a multiple of 8 */
#define PASS_PAIRS 4 /* pairs of units per pass */

struct rows {
        _Alignas(64) uint8_t q[N_ROWS][CHUNK * KERN_ACT_BLOCK];
        float d[CHUNK][N_ROWS], m[CHUNK][N_ROWS];
};

/* Accumulators of 8 rows by two units. */
struct acc {
        __m512 v[8][N_ROWS][2];
};

/* 32 values, made unsigned. */
KERN_INLINE __m256i values(const struct block_kind kind, const uint8_t *w) {
        const uint8_t *p = w + values_at(kind);
        __m128i n;
        __m256i v;

        if (kind.form == FORM_BYTES)
                return _mm256_xor_si256(
                        _mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(-128));
        n = _mm_loadu_si128((const __m128i *)p);
        v = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(n, 4), n), _mm256_set1_epi8(15));
        if (kind.form == FORM_FIVE)
                v = _mm256_mask_add_epi8(v, fifth_bits(kind, w), v, _mm256_set1_epi8(16));
        if (kind.form == FORM_IQ4 || kind.form == FORM_MXFP4)
                v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(block_codes(kind)), v);
        return v;
}

/* The scale or, 2 bytes on, the offset. */
KERN_INLINE float half_at(const uint8_t *p) {
        uint16_t h;

        memcpy(&h, p, sizeof(h));
        return _cvtsh_ss(h);
}

KERN_INLINE void unpack(
        const struct block_kind kind, const uint8_t *const *w, size_t n_blocks, struct rows *ret) {
        for (size_t r = 0; r < N_ROWS; r++) {
                const uint8_t *p = w[r];

                for (size_t b = 0; b < n_blocks; b++, p += kind.size) {
                        ret->d[b][r] =
                                kind.form == FORM_MXFP4 ? quant_mxfp4_scale(p[0]) : half_at(p);
                        if (kind.min)
                                ret->m[b][r] = half_at(p + 2);
                        _mm256_store_si256(
                                (__m256i *)(ret->q[r] + b * KERN_ACT_BLOCK), values(kind, p));
                }
        }
}

/* One block of 8 rows by n_units units. */
KERN_INLINE void block(const struct block_kind kind, unsigned n_units, const uint8_t *q,
        const float *d, const float *m, const uint8_t *const *x, __m512 (*acc)[2]) {
        __m512i s[N_ROWS][2];

        KERN_UNROLL for (unsigned u = 0; u < n_units; u++) {
                __m512i zero = _mm512_setzero_si512();

                if (!kind.min)
                        zero = _mm512_sub_epi32(
                                zero, _mm512_slli_epi32(
                                              _mm512_load_si512(x[u] + PACKED_SUMS), kind.shift));
                KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) s[r][u] = zero;
        }
        KERN_UNROLL for (unsigned k = 0; k < KERN_ACT_BLOCK / 4; k++) {
                __m512i v[2];

                KERN_UNROLL for (unsigned u = 0; u < n_units; u++) v[u] =
                        _mm512_load_si512(x[u] + 64 * k);
                KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) {
                        int32_t four;
                        __m512i w;

                        memcpy(&four, q + r * CHUNK * KERN_ACT_BLOCK + 4 * k, sizeof(four));
                        w = _mm512_set1_epi32(four);
                        KERN_UNROLL for (unsigned u = 0; u < n_units; u++) s[r][u] =
                                _mm512_dpbusd_epi32(s[r][u], w, v[u]);
                }
        }
        KERN_UNROLL for (unsigned u = 0; u < n_units; u++) {
                __m512 dx = _mm512_load_ps(x[u] + PACKED_SCALES);

                KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) acc[r][u] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[r][u]),
                                _mm512_mul_ps(_mm512_set1_ps(d[r]), dx), acc[r][u]);
                if (kind.min) {
                        __m512 sums = _mm512_cvtepi32_ps(_mm512_load_si512(x[u] + PACKED_SUMS));

                        KERN_UNROLL for (unsigned r = 0; r < N_ROWS; r++) acc[r][u] =
                                _mm512_fmadd_ps(
                                        sums, _mm512_mul_ps(_mm512_set1_ps(m[r]), dx), acc[r][u]);
                }
        }
}

KERN_INLINE void blocks(const struct block_kind kind, unsigned n_units, const struct rows *rows,
        size_t n_blocks, const uint8_t *x0, const uint8_t *x1, struct acc *acc) {
        for (size_t b = 0; b < n_blocks; b++) {
                const uint8_t *x[2] = {x0 + b * PACKED_SIZE, x1 + b * PACKED_SIZE};

                block(kind, n_units, rows->q[0] + b * KERN_ACT_BLOCK, rows->d[b], rows->m[b], x,
                        acc->v[b % 8]);
        }
}

/* 4 rows by 16 tokens to 4 values per token: 128-bit lane i of ret[c] is token 4i+c. */
KERN_INLINE void transpose4(const __m512 *v, __m512 *ret) {
        __m512 a = _mm512_unpacklo_ps(v[0], v[1]), b = _mm512_unpackhi_ps(v[0], v[1]);
        __m512 c = _mm512_unpacklo_ps(v[2], v[3]), d = _mm512_unpackhi_ps(v[2], v[3]);

        ret[0] = _mm512_shuffle_ps(a, c, 0x44);
        ret[1] = _mm512_shuffle_ps(a, c, 0xee);
        ret[2] = _mm512_shuffle_ps(b, d, 0x44);
        ret[3] = _mm512_shuffle_ps(b, d, 0xee);
}

/* tree8 over the accumulators, and 8 rows of up to 16 tokens into y. */
static void store_unit(
        const struct acc *acc, unsigned u, size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        _Alignas(64) float out[KERN_ACT_UNIT][N_ROWS];
        __m512 v[N_ROWS], q[4];

        for (unsigned r = 0; r < N_ROWS; r++) {
                __m512 c[4];

                for (unsigned i = 0; i < 4; i++)
                        c[i] = _mm512_add_ps(acc->v[i][r][u], acc->v[i + 4][r][u]);
                v[r] = _mm512_add_ps(_mm512_add_ps(c[0], c[2]), _mm512_add_ps(c[1], c[3]));
        }
        for (unsigned h = 0; h < 2; h++) {
                transpose4(v + 4 * h, q);
                for (unsigned c = 0; c < 4; c++) {
                        _mm_store_ps(out[c] + 4 * h, _mm512_castps512_ps128(q[c]));
                        _mm_store_ps(out[4 + c] + 4 * h, _mm512_extractf32x4_ps(q[c], 1));
                        _mm_store_ps(out[8 + c] + 4 * h, _mm512_extractf32x4_ps(q[c], 2));
                        _mm_store_ps(out[12 + c] + 4 * h, _mm512_extractf32x4_ps(q[c], 3));
                }
        }
        for (size_t t = 0; t < n_tokens; t++)
                _mm256_mask_storeu_ps(
                        y + t * ldy, (__mmask8)((1u << n_rows) - 1), _mm256_load_ps(out[t]));
}

/* 8 rows by the units [u0, u1) of one pass. */
KERN_INLINE void rows_by_pass(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t u0, size_t u1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, n_pairs = (u1 - u0 + 1) / 2;
        const uint8_t *p[N_ROWS];
        struct acc acc[PASS_PAIRS];
        struct rows rows;

        memset(acc, 0, n_pairs * sizeof(*acc));
        for (size_t b = 0; b < n_blocks; b += CHUNK) {
                size_t n = n_blocks - b < CHUNK ? n_blocks - b : CHUNK;

                for (size_t r = 0; r < N_ROWS; r++)
                        p[r] = (const uint8_t *)w->data +
                               (row + (r < n_rows ? r : n_rows - 1)) * w->row_size + b * kind.size;
                unpack(kind, p, n, &rows);
                for (size_t i = 0; i < n_pairs; i++) {
                        const uint8_t *x0 = kern_act_unit(a, u0 + 2 * i) + b * PACKED_SIZE;

                        if (u0 + 2 * i + 1 < u1)
                                blocks(kind, 2, &rows, n, x0,
                                        kern_act_unit(a, u0 + 2 * i + 1) + b * PACKED_SIZE,
                                        &acc[i]);
                        else
                                blocks(kind, 1, &rows, n, x0, x0, &acc[i]);
                }
        }
        for (size_t u = u0; u < u1; u++) {
                size_t t = u * KERN_ACT_UNIT, left = a->n_tokens - t;

                store_unit(&acc[(u - u0) / 2], (u - u0) % 2,
                        left < KERN_ACT_UNIT ? left : KERN_ACT_UNIT, n_rows, y + t * ldy + row,
                        ldy);
        }
}

KERN_INLINE void packed(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        for (size_t u = 0; u < n_units; u += 2 * PASS_PAIRS) {
                size_t end = n_units - u < 2 * PASS_PAIRS ? n_units : u + 2 * PASS_PAIRS;

                for (size_t o = row0; o < row1; o += N_ROWS)
                        rows_by_pass(kind, w, a, o, row1 - o < N_ROWS ? row1 - o : N_ROWS, u, end,
                                y, ldy);
        }
}

#define X(name, type, ...)                                                                         \
        void kern_avx512_packed_##name(const struct kern_mat *w, const struct kern_act *a,         \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {                  \
                packed((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n_units);         \
        }
BLOCK_KINDS(X)
#undef X
