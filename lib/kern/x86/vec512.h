/* SPDX-License-Identifier: MIT */
#pragma once
/* The vectors of products by many tokens: 16 lanes. Only for files built with the flags of AVX-512BW. */
#include "kern/kern-isa.h"
#include <immintrin.h>
#include <string.h>

#define LANES 16
/* What 32 registers have room for: without VNNI sums of 16 bits come on top. */
#ifdef __AVX512VNNI__
#define VEC_DOT4 1
#define TILE_VECS 3
#define PASS_TILES 6
#else
#define VEC_DOT4 0
#define TILE_VECS 2
#define PASS_TILES 6
#endif

typedef __m512i vi;
typedef __m512 vf;

/* Sums are made one after another, in the order of the source: left to itself gcc makes all products of a
 * step first, and has no registers for them. */
#define vi_keep(v) __asm__ volatile("" : "+v"(v))

KERN_INLINE vi vi_zero(void) {
        return _mm512_setzero_si512();
}

KERN_INLINE vi vi_load(const void *p) {
        return _mm512_load_si512(p);
}

KERN_INLINE vi vi_loadu(const void *p) {
        return _mm512_loadu_si512(p);
}

KERN_INLINE vi vi_set8(char v) {
        return _mm512_set1_epi8(v);
}

KERN_INLINE vi vi_set32(int v) {
        return _mm512_set1_epi32(v);
}

KERN_INLINE vi vi_and(vi a, vi b) {
        return _mm512_and_si512(a, b);
}

KERN_INLINE vi vi_or(vi a, vi b) {
        return _mm512_or_si512(a, b);
}

/* Of each 16 bits. */
KERN_INLINE vi vi_srli16(vi a, unsigned n) {
        return _mm512_srli_epi16(a, n);
}

KERN_INLINE vi vi_broadcast4(const void *p) {
        int32_t v;

        memcpy(&v, p, sizeof(v));
        return _mm512_set1_epi32(v);
}

KERN_INLINE vi vi_add(vi a, vi b) {
        return _mm512_add_epi32(a, b);
}

KERN_INLINE vi vi_sub(vi a, vi b) {
        return _mm512_sub_epi32(a, b);
}

KERN_INLINE vi vi_slli(vi a, unsigned n) {
        return _mm512_slli_epi32(a, n);
}

/* With copies of the sign. */
KERN_INLINE vi vi_srai(vi a, unsigned n) {
        return _mm512_srai_epi32(a, n);
}

KERN_INLINE vi vi_srai16(vi a, unsigned n) {
        return _mm512_srai_epi16(a, n);
}

KERN_INLINE vi vi_slli16(vi a, unsigned n) {
        return _mm512_slli_epi16(a, n);
}

/* By a number that is no constant. */
KERN_INLINE vi vi_srl(vi a, unsigned n) {
        return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}

/* Sums of two products of an unsigned and a signed byte. */
KERN_INLINE vi vi_dot2(vi u, vi s) {
        return _mm512_maddubs_epi16(u, s);
}

KERN_INLINE vi vi_add16(vi a, vi b) {
        return _mm512_add_epi16(a, b);
}

/* Pairs of int16, added. */
KERN_INLINE vi vi_add_pairs(vi a) {
        return _mm512_madd_epi16(a, _mm512_set1_epi16(1));
}

/* Bytes with the signs of others; what those of 0 leave is multiplied by 0. */
KERN_INLINE vi vi_sign8(vi a, vi sign) {
        return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(sign), _mm512_setzero_si512(), a);
}

/* Pairs of int16 multiplied with another's, and added. */
KERN_INLINE vi vi_dot2_16(vi a, vi b) {
        return _mm512_madd_epi16(a, b);
}

/* The same, added to @sum. */
KERN_INLINE vi vi_add_dot2_16(vi sum, vi a, vi b) {
#if VEC_DOT4
        return _mm512_dpwssd_epi32(sum, a, b);
#else
        return vi_add(sum, vi_dot2_16(a, b));
#endif
}

KERN_INLINE vi vi_mul(vi a, vi b) {
        return _mm512_mullo_epi32(a, b);
}

KERN_INLINE vi vi_abs8(vi a) {
        return _mm512_abs_epi8(a);
}

KERN_INLINE vf vf_of_int(vi a) {
        return _mm512_cvtepi32_ps(a);
}

KERN_INLINE vf vf_zero(void) {
        return _mm512_setzero_ps();
}

KERN_INLINE vf vf_load(const void *p) {
        return _mm512_load_ps(p);
}

/* Halves as floats. */
KERN_INLINE vf vf_load_half(const void *p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

KERN_INLINE void vf_storeu(float *p, vf a) {
        _mm512_storeu_ps(p, a);
}

KERN_INLINE vf vf_broadcast(const float *p) {
        return _mm512_set1_ps(*p);
}

KERN_INLINE vf vf_add(vf a, vf b) {
        return _mm512_add_ps(a, b);
}

KERN_INLINE vf vf_mul(vf a, vf b) {
        return _mm512_mul_ps(a, b);
}

KERN_INLINE vf vf_fnma(vf a, vf b, vf c) {
        return _mm512_fnmadd_ps(a, b, c);
}

KERN_INLINE vf vf_fma(vf a, vf b, vf c) {
        return _mm512_fmadd_ps(a, b, c);
}

/* The first n values; none of the others is touched. */
KERN_INLINE void vf_store_first(float *p, vf a, size_t n) {
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
}

/* Element j of register i becomes element i of register j. */
KERN_INLINE void vf_transpose(vf *r) {
        vf t[LANES];

        KERN_UNROLL for (unsigned i = 0; i < 16; i += 2) {
                t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
                t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
        }
        KERN_UNROLL for (unsigned i = 0; i < 16; i += 4) {
                r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
                r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
                r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
                r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
        }
        KERN_UNROLL for (unsigned i = 0; i < 4; i++) {
                t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
                t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
                t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
                t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        }
        KERN_UNROLL for (unsigned i = 0; i < 8; i++) {
                r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
                r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        }
}

#if VEC_DOT4
/* Adds products of 4 unsigned and signed bytes. */
KERN_INLINE vi vi_dot4(vi sum, vi u, vi s) {
        return _mm512_dpbusd_epi32(sum, u, s);
}
#endif
