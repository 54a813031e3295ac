/* SPDX-License-Identifier: MIT */
#pragma once
/* The values of blocks of 32 weights in a register of AVX2. Only for files built with its flags. */
#include "kern/kern-block.h"
#include <immintrin.h>

/* 16, where the bit of the value is set. */
KERN_INLINE __m256i block_spread_bits(uint32_t bits) {
        const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2,
                2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
        const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
        __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);

        return _mm256_and_si256(
                _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), _mm256_set1_epi8(16));
}

/* The 16 values of the codes, plus @add. */
KERN_INLINE __m128i block_codes(const struct block_kind kind, int add) {
        const int8_t *codes = kind.form == FORM_IQ4 ? quant_iq4_values : quant_mxfp4_values;

        return _mm_add_epi8(_mm_loadu_si128((const __m128i *)codes), _mm_set1_epi8((char)add));
}

/* The 32 values of a block, made unsigned: without an offset they are 1 << kind.shift too much. */
KERN_INLINE __m256i block_values_unsigned(const struct block_kind kind, const uint8_t *w) {
        const uint8_t *p = w + values_at(kind);
        __m256i v;
        __m128i n;

        if (kind.form == FORM_BYTES)
                return _mm256_xor_si256(
                        _mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(-128));
        n = _mm_loadu_si128((const __m128i *)p);
        v = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(n, 4), n), _mm256_set1_epi8(15));
        if (kind.form == FORM_FIVE)
                return _mm256_or_si256(v, block_spread_bits(fifth_bits(kind, w)));
        if (kind.form == FORM_IQ4 || kind.form == FORM_MXFP4)
                return _mm256_shuffle_epi8(
                        _mm256_broadcastsi128_si256(block_codes(kind, 1 << kind.shift)), v);
        return v;
}

/* The f16 @at bytes from the beginning of a block of 4 rows. */
KERN_INLINE __m128 block_halves4(const uint8_t *const *w, size_t at) {
        uint16_t h[4];

        KERN_UNROLL for (unsigned r = 0; r < 4; r++) memcpy(&h[r], w[r] + at, sizeof(h[r]));
        return _mm_cvtph_ps(
                _mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], 0, 0, 0, 0));
}

KERN_INLINE __m128 block_scales4(const struct block_kind kind, const uint8_t *const *w) {
        if (kind.form == FORM_MXFP4)
                return _mm_setr_ps(quant_mxfp4_scale(w[0][0]), quant_mxfp4_scale(w[1][0]),
                        quant_mxfp4_scale(w[2][0]), quant_mxfp4_scale(w[3][0]));
        return block_halves4(w, 0);
}
