/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the families of blocks of 256 values share: where a block keeps its scales and values, and
 * what becomes of the integer sums of eight blocks. AVX2 instructions; the AVX-512 family uses them
 * too.
 *
 * A block is eight sub-blocks of 32 values. Its 16 scales are int16 in the order of
 * kern_act_super_sum(). The type is a constant everywhere, so what is not of it vanishes.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "kern/x86/tree8.h"

KERN_INLINE size_t super_size(enum quant_type type) {
        switch (type) {
        case QUANT_Q2_K:
                return 84;
        case QUANT_Q3_K:
                return 110;
        case QUANT_Q4_K:
                return 144;
        case QUANT_Q5_K:
                return 176;
        case QUANT_Q6_K:
                return 210;
        default: /* IQ4_XS */
                return 136;
        }
}

/* Where the f16 scale is; that of the mins follows it. */
KERN_INLINE size_t super_d_at(enum quant_type type) {
        return type == QUANT_Q2_K ? 80 : type == QUANT_Q3_K ? 108 : type == QUANT_Q6_K ? 208 : 0;
}

KERN_INLINE bool super_has_min(enum quant_type type) {
        return type == QUANT_Q2_K || type == QUANT_Q4_K || type == QUANT_Q5_K;
}

/* Values are made unsigned by adding 1 << shift; 0: they are unsigned, or used with their signs. */
KERN_INLINE int super_shift(enum quant_type type) {
        return type == QUANT_Q3_K ? 2 : type == QUANT_Q6_K ? 5 : 0;
}

/* 16 bytes in the order of groups to int16: even groups, then odd ones. */
KERN_INLINE __m128i super_order(__m128i bytes) {
        return _mm_shuffle_epi8(
                bytes, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
}

/* Q4_K, Q5_K: six bits of each, one for 32 values. In three words of four bytes, the first holds the
 * low scales, the second the low mins, the third the lower bits of the high ones (scales in the low
 * halves), whose upper bits are the top ones of the first two. */
KERN_INLINE void super_scales32(const uint8_t *p, __m256i *ret_scales, __m256i *ret_mins) {
        __m128i w = _mm_loadu_si128((const __m128i *)p); /* 12 bytes, and the first values */
        __m128i low = _mm_srlv_epi32(
                _mm_shuffle_epi32(w, _MM_SHUFFLE(2, 1, 2, 0)), _mm_setr_epi32(0, 0, 0, 4));
        __m128i top = _mm_srli_epi16(_mm_shuffle_epi32(w, _MM_SHUFFLE(1, 1, 0, 0)), 2);
        __m256i v;

        low = _mm_and_si128(low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
        top = _mm_and_si128(top, _mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
        v = _mm256_cvtepu8_epi16(_mm_or_si128(low, top));
        *ret_scales = _mm256_permute4x64_epi64(v, 0x44);
        *ret_mins = _mm256_permute4x64_epi64(v, 0xee);
}

KERN_INLINE __m256i super_scales_q3(const uint8_t *p) {
        const uint64_t four = 0x0f0f0f0f0f0f0f0f;
        const uint32_t two = 0x03030303;
        uint64_t low;
        uint32_t high;
        __m128i v;

        memcpy(&low, p, sizeof(low));
        memcpy(&high, p + 8, sizeof(high));
        v = _mm_set_epi64x((int64_t)((low >> 4 & four) |
                                     ((high >> 4 & two) | (uint64_t)(high >> 6 & two) << 32) << 4),
                (int64_t)((low & four) | ((high & two) | (uint64_t)(high >> 2 & two) << 32) << 4));
        return _mm256_sub_epi16(_mm256_cvtepu8_epi16(super_order(v)), _mm256_set1_epi16(32));
}

KERN_INLINE __m256i super_scales_iq4(const uint8_t *p) {
        const __m128i to_top = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 64, 16, 4, 1);
        uint32_t low;
        uint16_t high;
        __m128i v, h;

        memcpy(&high, p + 2, sizeof(high));
        memcpy(&low, p + 4, sizeof(low));
        v = _mm_unpacklo_epi8(_mm_cvtsi32_si128((int)(low & 0x0f0f0f0f)),
                _mm_cvtsi32_si128((int)(low >> 4 & 0x0f0f0f0f)));
        h = _mm_srli_epi16(_mm_mullo_epi16(_mm_set1_epi16((short)high), to_top), 14);
        v = _mm_or_si128(_mm_cvtepu8_epi16(v), _mm_slli_epi16(h, 4));
        return _mm256_broadcastsi128_si256(_mm_sub_epi16(v, _mm_set1_epi16(32)));
}

/* @ret_second: what the sums of activations are multiplied with. */
KERN_INLINE void super_scales(
        enum quant_type type, const uint8_t *w, __m256i *ret_scales, __m256i *ret_second) {
        __m128i v;

        switch (type) {
        case QUANT_Q2_K:
                v = super_order(_mm_loadu_si128((const __m128i *)w));
                *ret_scales = _mm256_cvtepu8_epi16(_mm_and_si128(v, _mm_set1_epi8(15)));
                *ret_second = _mm256_cvtepu8_epi16(
                        _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(15)));
                return;
        case QUANT_Q4_K:
        case QUANT_Q5_K:
                super_scales32(w + 4, ret_scales, ret_second);
                return;
        case QUANT_Q3_K:
                *ret_scales = super_scales_q3(w + 96);
                break;
        case QUANT_Q6_K:
                v = super_order(_mm_loadu_si128((const __m128i *)(w + 192)));
                *ret_scales = _mm256_cvtepi8_epi16(v);
                break;
        default:
                *ret_scales = super_scales_iq4(w);
                break;
        }
        *ret_second = *ret_scales;
}

/* Bits @bit and (if @n is 2) the next of each byte, moved to bit @to. */
KERN_INLINE __m256i super_bits(const uint8_t *p, int bit, int n, int to) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i mask = _mm256_set1_epi8((char)((n == 2 ? 3 : 1) << to));

        v = bit > to ? _mm256_srli_epi16(v, bit - to) : _mm256_slli_epi16(v, to - bit);
        return _mm256_and_si256(v, mask);
}

KERN_INLINE __m256i super_nibbles(const uint8_t *p, bool high) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);

        return _mm256_and_si256(high ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Sub-block s: unsigned; of IQ4_XS with signs. */
KERN_INLINE __m256i super_values(enum quant_type type, const uint8_t *w, unsigned s) {
        unsigned half = s / 4, part = s % 4;
        __m128i n;
        __m256i v;

        switch (type) {
        case QUANT_Q2_K:
                return super_bits(w + 16 + 32 * half, (int)(2 * part), 2, 0);
        case QUANT_Q3_K:
                return _mm256_or_si256(super_bits(w + 32 + 32 * half, (int)(2 * part), 2, 0),
                        super_bits(w, (int)s, 1, 2));
        case QUANT_Q4_K:
                return super_nibbles(w + 16 + s / 2 * 32, s % 2);
        case QUANT_Q5_K:
                return _mm256_or_si256(super_nibbles(w + 48 + s / 2 * 32, s % 2),
                        super_bits(w + 16, (int)s, 1, 4));
        case QUANT_Q6_K:
                return _mm256_or_si256(super_nibbles(w + 64 * half + 32 * (part % 2), part >= 2),
                        super_bits(w + 128 + 32 * half, (int)(2 * part), 2, 4));
        default:
                n = _mm_loadu_si128((const __m128i *)(w + 8 + 16 * s));
                v = _mm256_and_si256(
                        _mm256_set_m128i(_mm_srli_epi16(n, 4), n), _mm256_set1_epi8(15));
                return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
                                                   (const __m128i *)quant_iq4_values)),
                        v);
        }
}

/* Sums of 8 blocks, 8 lanes each: the integers of one token. */
struct super_sums {
        __m256i isum[8], msum[8];
};

/* Lane i: the sum of all lanes of v[i], i < n <= 8. What the other lanes have is of no block. */
KERN_INLINE __m256i super_add(const __m256i *v, size_t n) {
        const size_t last = n - 1;
        __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[last < 1 ? last : 1]),
                _mm256_hadd_epi32(v[last < 2 ? last : 2], v[last < 3 ? last : 3]));
        __m256i high;

        if (n <= 4)
                return _mm256_zextsi128_si256(_mm_add_epi32(
                        _mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
        high = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[last < 5 ? last : 5]),
                _mm256_hadd_epi32(v[last < 6 ? last : 6], v[last]));
        return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                _mm256_permute2x128_si256(low, high, 0x31));
}

KERN_INLINE short super_half(const uint8_t *p) {
        uint16_t h;

        memcpy(&h, p, sizeof(h));
        return (short)h;
}

/* The f16 at w of each of n <= 8 blocks; what the other lanes have is of no use. The register is made
 * without memory, since a load of what was stored in pieces waits for all of the pieces. */
KERN_INLINE __m256 super_halves(enum quant_type type, const uint8_t *w, size_t n) {
        const size_t size = super_size(type), last = n - 1;
        short h0 = super_half(w), h1 = super_half(w + (last < 1 ? last : 1) * size);
        short h2 = super_half(w + (last < 2 ? last : 2) * size);
        short h3 = super_half(w + (last < 3 ? last : 3) * size);

        if (n <= 4)
                return _mm256_cvtph_ps(_mm_setr_epi16(h0, h1, h2, h3, 0, 0, 0, 0));
        return _mm256_cvtph_ps(_mm_setr_epi16(h0, h1, h2, h3, super_half(w + 4 * size),
                super_half(w + (last < 5 ? last : 5) * size),
                super_half(w + (last < 6 ? last : 6) * size), super_half(w + last * size)));
}

/* The terms of n <= 8 blocks of one token, whose scales begin at dx. Only the lanes of these blocks
 * change. */
KERN_INLINE __m256 super_add_terms(enum quant_type type, const struct super_sums *s, size_t n,
        __m256 dw, __m256 mw, const float *dx, __m256 acc) {
        __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        __m256 lanes = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index));
        __m256 x = _mm256_loadu_ps(dx), v;

        v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(super_add(s->isum, n)), _mm256_mul_ps(dw, x), acc);
        if (super_has_min(type))
                v = _mm256_fnmadd_ps(
                        _mm256_cvtepi32_ps(super_add(s->msum, n)), _mm256_mul_ps(mw, x), v);
        return _mm256_blendv_ps(acc, v, lanes);
}

/* The sums of one block, with what the offsets of its values take off them. */
KERN_INLINE void super_put_sums(enum quant_type type, __m256i isum, __m256i second,
        const int16_t *sums, struct super_sums *ret, size_t b) {
        __m256i v = _mm256_madd_epi16(second, _mm256_loadu_si256((const __m256i *)sums));

        if (super_shift(type))
                isum = _mm256_sub_epi32(isum, _mm256_slli_epi32(v, super_shift(type)));
        ret->isum[b] = isum;
        ret->msum[b] = v;
}

/* Bytes ahead: what processors foresee by themselves does not keep one core busy. */
#define SUPER_PREFETCH 4608
KERN_INLINE void super_prefetch(enum quant_type type, const uint8_t *w) {
        KERN_UNROLL for (size_t i = 0; i < super_size(type); i += 64) __builtin_prefetch(w + i);
}
