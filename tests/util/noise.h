/* SPDX-License-Identifier: MIT */
#pragma once
/* Reproducible random numbers for model weights. */
#include <stdint.h>

/* splitmix64 */
static inline uint64_t noise_bits(uint64_t *state) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

/* About normal: four 16-bit uniforms added up, variance 1. */
static inline float noise(uint64_t *state) {
        uint64_t z = noise_bits(state);
        int32_t sum = 0;

        for (int i = 0; i < 4; i++)
                sum += (int32_t)(z >> (16 * i) & 0xffff);
        return (float)(sum - 2 * 65535) / 65536.0f * 1.7320508f;
}
