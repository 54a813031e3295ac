/* SPDX-License-Identifier: MIT */
#pragma once
/* For the layouts of activations whose lanes are tokens. Only for files built with the flags of AVX2. */
#include <immintrin.h>
#include <stdint.h>

/* 32 bytes of each of 8 tokens: bytes 4k to 4k + 3 of all of them to @to + 64 * k, half of a register of 16 tokens. */
static inline void transpose8(const __m256i *v, uint8_t *to) {
        __m256i a[8], b[8];

        for (int i = 0; i < 4; i++) {
                a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
                a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
        }
        for (int i = 0; i < 2; i++) {
                b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
                b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
                b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
                b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
        }
        for (int i = 0; i < 4; i++) {
                _mm256_store_si256(
                        (__m256i *)(to + 64 * i), _mm256_permute2x128_si256(b[i], b[i + 4], 0x20));
                _mm256_store_si256((__m256i *)(to + 64 * (i + 4)),
                        _mm256_permute2x128_si256(b[i], b[i + 4], 0x31));
        }
}
