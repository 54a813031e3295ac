/* SPDX-License-Identifier: MIT */
#pragma once
/* What the AVX-512 families share: 16 lanes are one register. Only for files built with its flags.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include <immintrin.h>

/* Mask of the first n lanes, n < 16. */
static inline __mmask16 first_lanes(size_t n) {
        return (__mmask16)((1u << n) - 1);
}

/* Lanes of the group that starts at i. */
static inline __mmask16 lanes_at(size_t i, size_t n) {
        return n - i < 16 ? first_lanes(n - i) : 0xffff;
}

static inline float tree16(__m512 a) {
        __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
        __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
        __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));

        return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

/* max_ps(a, b) is a > b ? a : b, like kern_max2(). */
static inline float maxtree16(__m512 a) {
        __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
        __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
        __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));

        return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

/* kern_exp() in each lane. */
static inline __m512 exp16(__m512 x) {
        __mmask16 in = _mm512_cmp_ps_mask(x, _mm512_set1_ps(KERN_EXP_LO), _CMP_NLT_UQ);
        __mmask16 over = _mm512_cmp_ps_mask(x, _mm512_set1_ps(KERN_EXP_HI), _CMP_NLE_UQ);
        __m512 magic = _mm512_set1_ps(KERN_EXP_MAGIC), one = _mm512_set1_ps(1);
        __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(KERN_EXP_LOG2E), magic);
        __m512 n = _mm512_sub_ps(t, magic), r, p;
        __m512i y;

        r = _mm512_fmadd_ps(n, _mm512_set1_ps(-KERN_EXP_LN2_HI), x);
        r = _mm512_fmadd_ps(n, _mm512_set1_ps(-KERN_EXP_LN2_LO), r);
        p = _mm512_fmadd_ps(_mm512_set1_ps(KERN_EXP_C6), r, _mm512_set1_ps(KERN_EXP_C5));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERN_EXP_C4));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERN_EXP_C3));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERN_EXP_C2));
        p = _mm512_fmadd_ps(p, r, one);
        p = _mm512_fmadd_ps(p, r, one);
        y = _mm512_maskz_add_epi32(
                in, _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23));
        return _mm512_mask_mul_ps(_mm512_castsi512_ps(y), over, x, _mm512_set1_ps(INFINITY));
}

/* kern_softcap1() in each lane. */
static inline __m512 softcap16(__m512 s, float cap) {
        __m512 e = exp16(_mm512_mul_ps(s, _mm512_set1_ps(2 / cap)));
        __m512 one = _mm512_set1_ps(1);
        __m512 t = _mm512_div_ps(_mm512_set1_ps(2), _mm512_add_ps(e, one));

        return _mm512_mul_ps(_mm512_set1_ps(cap), _mm512_sub_ps(one, t));
}
