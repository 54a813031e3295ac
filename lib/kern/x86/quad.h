/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Four softmax states side by side, for every family whose files know AVX2: what is one chain of
 * dependent operations for one query is the same chain for four.
 *
 * A quad is a register with the greatest value of query i at lane 2i and its sum at lane 2i+1, as
 * the states lie in memory. Missing queries behind the last are zeros, and are not written.
 */
#include "kern/kern-isa.h"
#include <immintrin.h>
#include <stdbool.h>

KERN_INLINE __m256i quad_lanes(unsigned n) {
        return _mm256_cmpgt_epi32(
                _mm256_set1_epi32((int)(2 * n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

KERN_INLINE __m256 quad_load(const struct kern_softmax_state *state, unsigned n) {
        return _mm256_maskload_ps(&state->m, quad_lanes(n));
}

KERN_INLINE void quad_store(struct kern_softmax_state *state, unsigned n, __m256 quad) {
        _mm256_maskstore_ps(&state->m, quad_lanes(n), quad);
}

/* max_ps(a, b) is a > b ? a : b, like kern_max2(). */
KERN_INLINE __m256 quad_op(bool add, __m256 a, __m256 b) {
        return add ? _mm256_add_ps(a, b) : _mm256_max_ps(a, b);
}

/* tree8() or maxtree8() of each b[i], at lane 2i. */
KERN_INLINE __m256 quad_tree8(bool add, const __m256 *b) {
        __m256 c02 = quad_op(add, _mm256_permute2f128_ps(b[0], b[2], 0x20),
                _mm256_permute2f128_ps(b[0], b[2], 0x31));
        __m256 c13 = quad_op(add, _mm256_permute2f128_ps(b[1], b[3], 0x20),
                _mm256_permute2f128_ps(b[1], b[3], 0x31));
        __m256 d =
                quad_op(add, _mm256_shuffle_ps(c02, c13, 0x44), _mm256_shuffle_ps(c02, c13, 0xee));

        return quad_op(add, d, _mm256_movehdup_ps(d));
}

/* Lane 2i in all lanes. */
KERN_INLINE __m256 quad_spread(__m256 quad, unsigned i) {
        return _mm256_permutevar8x32_ps(quad, _mm256_set1_epi32((int)(2 * i)));
}

/* The state with new greatest values, and sum = fmaf(sum, c, add). */
KERN_INLINE __m256 quad_next(__m256 quad, __m256 m, __m256 c, __m256 add) {
        __m256 sum = _mm256_fmadd_ps(_mm256_movehdup_ps(quad), c, add);

        return _mm256_blend_ps(m, _mm256_moveldup_ps(sum), 0xaa);
}

/* The lanes 2i to c[i]. */
KERN_INLINE void quad_store_c(float *c, unsigned n, __m256 quad) {
        __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
        __m128i lanes = _mm_cmpgt_epi32(_mm_set1_epi32((int)n), _mm_setr_epi32(0, 1, 2, 3));

        _mm_maskstore_ps(c, lanes, _mm256_castps256_ps128(_mm256_permutevar8x32_ps(quad, even)));
}
