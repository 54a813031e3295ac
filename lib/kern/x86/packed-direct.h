/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Weights in blocks of 32 values times one vector of tokens, or two one after the other. A row that is unpacked
 * into a panel is read for so few tokens that it does not pay: here the weights' own bytes go to all lanes, 4 at
 * a time, and become values there. The halves of bytes are not even moved: the high ones are multiplied where
 * they stand, which makes a sum 16 times as great.
 *
 * This is as fast as memory is only if the first cache has the weights before they are used: so there are no
 * more rows at a time than registers have room for, and the next are asked for meanwhile.
 *
 * Only where there are 32 registers and VNNI: a block's activations stay in 8 registers for 8 rows, whose
 * accumulators are in 8 more.
 */
#include "kern/x86/block-values.h"
#include "kern/x86/packed-zero.h"

#if VEC_DOT4 && LANES == 16
#define PACKED_DIRECT 1
#define DIRECT_ROWS 8
#define DIRECT_CHUNK 64 /* blocks; a multiple of 8 */

/* For how many vectors, of all tokens, this is faster than a panel: fifth bits would have to be spread in each lane,
 * and codes are looked up for each vector anew. */
KERN_INLINE size_t direct_vecs(const struct block_kind kind) {
        if (kind.form == FORM_FIVE)
                return 0;
        return kind.form == FORM_NIBBLES || kind.form == FORM_BYTES ? 2 : 1;
}

/* The 4 bytes in all lanes as products take them, times the activations of one or both halves. */
KERN_INLINE void direct_step(
        const struct block_kind kind, vi bytes, vi x_low, vi x_high, vi *low, vi *high) {
        const vi mask = _mm512_set1_epi8(15);

        if (kind.form == FORM_NIBBLES) {
                *low = vi_dot4(*low, _mm512_and_si512(bytes, mask), x_low);
                *high = vi_dot4(*high, _mm512_andnot_si512(mask, bytes), x_high);
        } else {
                const vi codes = _mm512_broadcast_i32x4(block_codes(kind, 1 << kind.shift));

                *low = vi_dot4(
                        *low, _mm512_shuffle_epi8(codes, _mm512_and_si512(bytes, mask)), x_low);
                *high = vi_dot4(*high,
                        _mm512_shuffle_epi8(
                                codes, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask)),
                        x_high);
        }
}

/* The sum of products of one block of a row. @zero: what takes the zero point off. */
KERN_INLINE vi direct_sum(const struct block_kind kind, const uint8_t *w, const vi *x, vi zero) {
        const uint8_t *p = w + values_at(kind);
        vi low = zero, high = vi_zero();

        if (kind.form == FORM_BYTES) {
                const vi sign = _mm512_set1_epi8(-128);

                KERN_UNROLL for (unsigned k = 0; k < 4; k++) {
                        low = vi_dot4(low, _mm512_xor_si512(vi_broadcast4(p + 4 * k), sign), x[k]);
                        high = vi_dot4(high, _mm512_xor_si512(vi_broadcast4(p + 16 + 4 * k), sign),
                                x[4 + k]);
                }
                return vi_add(low, high);
        }
        KERN_UNROLL for (unsigned k = 0; k < 4; k++)
                direct_step(kind, vi_broadcast4(p + 4 * k), x[k], x[4 + k], &low, &high);
        return vi_add(low, kind.form == FORM_NIBBLES ? _mm512_srai_epi32(high, 4) : high);
}

/* An f16 in all lanes. */
KERN_INLINE vf direct_half(const uint8_t *w) {
        int16_t h;

        memcpy(&h, w, sizeof(h));
        return _mm512_cvtph_ps(_mm256_set1_epi16(h));
}

KERN_INLINE vf direct_scale(const struct block_kind kind, const uint8_t *w) {
        return kind.form == FORM_MXFP4 ? _mm512_set1_ps(quant_mxfp4_scale(w[0])) : direct_half(w);
}

/* n_rows rows, whose first block of one remainder is at w: n blocks of it, 8 apart. @ahead: as many blocks of
 * what comes next, one behind the other. */
KERN_INLINE void direct_tile(const struct block_kind kind, unsigned n_rows, const uint8_t *w,
        size_t row_size, const uint8_t *ahead, const uint8_t *x, size_t n, bool first, vf *acc) {
        vf a[DIRECT_ROWS];

        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) a[r] = first ? vf_zero() : acc[r];
        for (size_t i = 0; i < n; i++, w += 8 * kind.size, x += PACKED_SIZE, ahead += kind.size) {
                vf dx = vf_load(x + PACKED_SCALES), sums = vf_of_int(vi_load(x + PACKED_SUMS));
                vi xk[8], zero = packed_zero_point(kind, x);

                KERN_UNROLL for (unsigned k = 0; k < 8; k++) xk[k] = vi_load(x + 64 * k);
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                        const uint8_t *p = w + r * row_size;
                        vi s = direct_sum(kind, p, xk, zero);

                        __builtin_prefetch(ahead + r * row_size);
                        a[r] = vf_fma(vf_of_int(s), vf_mul(direct_scale(kind, p), dx), a[r]);
                        if (kind.min)
                                a[r] = vf_fma(sums, vf_mul(direct_half(p + 2), dx), a[r]);
                }
        }
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) acc[r] = a[r];
}

/* n_rows <= DIRECT_ROWS rows of @all blocks by the vector whose activations begin at x0. What comes next is asked
 * for bit by bit while the first cache holds a chunk of the rows: so many streams at a time are not foreseen. */
KERN_INLINE void direct_rows(const struct block_kind kind, const uint8_t *w, size_t row_size,
        size_t n_rows, const uint8_t *x0, size_t all, vf (*acc)[DIRECT_ROWS]) {
        if (all < 8)
                memset(acc, 0, 8 * sizeof(*acc));
        for (size_t b = 0; b < all; b += DIRECT_CHUNK) {
                size_t n_blocks = all - b < DIRECT_CHUNK ? all - b : DIRECT_CHUNK;
                const uint8_t *next = w + (all - b > DIRECT_CHUNK ? (b + DIRECT_CHUNK) * kind.size
                                                                  : DIRECT_ROWS * row_size);

                for (size_t rest = 0; rest < 8 && rest < n_blocks; rest++) {
                        size_t n = (n_blocks - rest + 7) / 8;
                        const uint8_t *p = w + (b + rest) * kind.size;
                        const uint8_t *x = x0 + packed_place(b + rest, all) * PACKED_SIZE;
                        const uint8_t *ahead = next + rest * n * kind.size;

                        if (n_rows == DIRECT_ROWS)
                                direct_tile(kind, DIRECT_ROWS, p, row_size, ahead, x, n, b == 0,
                                        acc[rest]);
                        else
                                for (size_t r = 0; r < n_rows; r++)
                                        direct_tile(kind, 1, p + r * row_size, row_size, ahead, x,
                                                n, b == 0, &acc[rest][r]);
                }
        }
}
#else
#define PACKED_DIRECT 0
#endif
