/* SPDX-License-Identifier: MIT */
#pragma once
/* The sum of eight lanes, as kern.h has it; for every family whose files know AVX2. */
#include <immintrin.h>

static inline float tree8(__m256 b) {
        __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
        __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));

        return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
