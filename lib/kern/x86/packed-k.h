/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Many tokens times weights in blocks of 256 values: what AVX2 and AVX-512 share. A unit of more
 * than K_ROWS_MAX tokens is packed, and a lane is then a token; in other units the activations have
 * the layout of kern_act_super().
 *
 * packed: per block: 64 registers of int8 (64 bytes; register k: values 4k..4k+3 of each token), 8
 * registers of sums (register s: int16 pairs of each token, the sums of both halves of sub-block
 * s), 16 scales. Missing tokens are zero. That is never more than kern_act_super() takes.
 *
 * K_ROWS rows are unpacked to plain bytes and scales, K_CHUNK blocks at a time, and used for all
 * tokens of a pass.
 */
#include "kern/x86/super.h"

#define K_ROWS_MAX 8
#define K_PACKED_SUMS 4096
#define K_PACKED_SCALES 4608
#define K_PACKED_SIZE 4672

#define K_ROWS 16
#define K_CHUNK 32      /* blocks; a multiple of 8 */
#define K_PASS_UNITS 16 /* an even number */

/* By blocks first: rows that are a power of two apart would share sets of the first cache. */
struct k_rows {
        _Alignas(64) uint8_t q[K_CHUNK][K_ROWS][KERN_ACT_SUPER];
        int32_t scales[K_CHUNK][K_ROWS][KERN_ACT_SUPER_SUMS];  /* in the order of values */
        int16_t seconds[K_CHUNK][K_ROWS][KERN_ACT_SUPER_SUMS]; /* likewise */
        float d[K_CHUNK][K_ROWS], m[K_CHUNK][K_ROWS];
};

static inline bool k_unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > K_ROWS_MAX;
}

static inline size_t k_n_packed_units(const struct kern_act *a) {
        return a->n_tokens / KERN_ACT_UNIT + (a->n_tokens % KERN_ACT_UNIT > K_ROWS_MAX);
}

/* The 16 scales of a block in the order of values. */
KERN_INLINE void k_order(__m256i v, __m128i *ret) {
        __m128i even = _mm256_castsi256_si128(v), odd = _mm256_extracti128_si256(v, 1);

        ret[0] = _mm_unpacklo_epi16(even, odd);
        ret[1] = _mm_unpackhi_epi16(even, odd);
}

/* Block b of row r. @twice: scales are put into both halves of their 32 bits. @add to each value. */
KERN_INLINE void k_unpack_block(enum quant_type type, bool twice, int add, const uint8_t *w,
        struct k_rows *ret, size_t r, size_t b) {
        __m256i scales, second;
        __m128i half[2];

        super_scales(type, w, &scales, &second);
        k_order(scales, half);
        for (int i = 0; i < 2; i++) {
                __m256i v = _mm256_cvtepi16_epi32(half[i]);

                if (twice)
                        v = _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
                _mm256_storeu_si256((__m256i *)&ret->scales[b][r][8 * i], v);
        }
        k_order(second, half);
        _mm_storeu_si128((__m128i *)ret->seconds[b][r], half[0]);
        _mm_storeu_si128((__m128i *)&ret->seconds[b][r][8], half[1]);
        KERN_UNROLL for (unsigned s = 0; s < 8; s++)
                _mm256_store_si256((__m256i *)&ret->q[b][r][32 * s],
                        _mm256_add_epi8(super_values(type, w, s), _mm256_set1_epi8((char)add)));
        ret->d[b][r] = _cvtsh_ss((unsigned short)super_half(w + super_d_at(type)));
        if (super_has_min(type))
                ret->m[b][r] = _cvtsh_ss((unsigned short)super_half(w + super_d_at(type) + 2));
}

/* n_blocks <= K_CHUNK blocks from block b on of the rows from @row on; the last row stands in for
 * those that are missing. */
KERN_INLINE void k_unpack(enum quant_type type, bool twice, int add, const struct kern_mat *w,
        size_t row, size_t n_rows, size_t b, size_t n_blocks, struct k_rows *ret) {
        for (size_t r = 0; r < K_ROWS; r++) {
                const uint8_t *p = (const uint8_t *)w->data +
                                   (row + (r < n_rows ? r : n_rows - 1)) * w->row_size +
                                   b * super_size(type);

                for (size_t i = 0; i < n_blocks; i++, p += super_size(type)) {
                        super_prefetch(type, p + K_ROWS * w->row_size);
                        k_unpack_block(type, twice, add, p, ret, r, i);
                }
        }
}
