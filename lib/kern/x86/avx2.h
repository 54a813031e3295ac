/* SPDX-License-Identifier: MIT */
#pragma once
/* What the AVX2 families share: 16 lanes are two registers. Only for files built with its flags. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "kern/x86/tree8.h"
#include <immintrin.h>

static inline float tree16(__m256 low, __m256 high) {
        return tree8(_mm256_add_ps(low, high));
}

/* max_ps(a, b) is a > b ? a : b, like kern_max2(). */
static inline float maxtree8(__m256 b) {
        __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
        __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));

        return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

/* kern_exp() in each lane. */
static inline __m256 exp8(__m256 x) {
        __m256 under = _mm256_cmp_ps(x, _mm256_set1_ps(KERN_EXP_LO), _CMP_LT_OQ);
        __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(KERN_EXP_HI), _CMP_NLE_UQ);
        __m256 magic = _mm256_set1_ps(KERN_EXP_MAGIC), one = _mm256_set1_ps(1);
        __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(KERN_EXP_LOG2E), magic);
        __m256 n = _mm256_sub_ps(t, magic), r, p;

        r = _mm256_fmadd_ps(n, _mm256_set1_ps(-KERN_EXP_LN2_HI), x);
        r = _mm256_fmadd_ps(n, _mm256_set1_ps(-KERN_EXP_LN2_LO), r);
        p = _mm256_fmadd_ps(_mm256_set1_ps(KERN_EXP_C6), r, _mm256_set1_ps(KERN_EXP_C5));
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERN_EXP_C4));
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERN_EXP_C3));
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERN_EXP_C2));
        p = _mm256_fmadd_ps(p, r, one);
        p = _mm256_fmadd_ps(p, r, one);
        p = _mm256_castsi256_ps(_mm256_add_epi32(
                _mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
        p = _mm256_andnot_ps(under, p);
        return _mm256_blendv_ps(p, _mm256_mul_ps(x, _mm256_set1_ps(INFINITY)), over);
}

/* kern_softcap1() in each lane. */
static inline __m256 softcap8(__m256 s, float cap) {
        __m256 e = exp8(_mm256_mul_ps(s, _mm256_set1_ps(2 / cap)));
        __m256 one = _mm256_set1_ps(1);
        __m256 t = _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(e, one));

        return _mm256_mul_ps(_mm256_set1_ps(cap), _mm256_sub_ps(one, t));
}
