/* SPDX-License-Identifier: MIT */
#pragma once
/* The checksum of a section's payload, XXH3-64 (https://xxhash.com, specification
 * doc/xxhash_spec.md), by instruction set. */
#include <stddef.h>
#include <stdint.h>

/* By the best of them that this CPU has (codec/cpu.c). Any n. Any thread. */
uint64_t spill_checksum(const void *data, size_t n);

uint64_t spill_checksum_generic(const void *data, size_t n);
uint64_t spill_checksum_avx2(const void *data, size_t n);
uint64_t spill_checksum_avx512(const void *data, size_t n);
