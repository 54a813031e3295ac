/* SPDX-License-Identifier: MIT */
/*
 * XXH3-64 of payloads, by the library's header compiled for one instruction set: the library itself
 * comes compiled for the oldest one, which is three times slower. Built once per instruction set,
 * under the name SPILL_CHECKSUM; all give the same value.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "spill/codec/checksum.h"

uint64_t SPILL_CHECKSUM(const void *data, size_t n) {
        return XXH3_64bits(data, n);
}
