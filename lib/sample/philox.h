/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Philox4x32-10: random numbers as a function of a key and a counter (Salmon, Moraes, Dror, Shaw:
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 */
#include <stdint.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* The random number for (seed, position), in [0, 1), a multiple of 2^-53. */
double philox_uniform(uint64_t seed, uint64_t position);
