/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The record format, version 1. A record lies at a multiple of 4 KiB and takes whole 4 KiB pages:
 * a header of 128 bytes, the payload, zeros. All integers are little-endian.
 *
 *      0  u32 magic "cKVr"             40  u64 token hash
 *      4  u16 version (1)              48  u64 raw size
 *      6  u16 codec                    56  u64 payload size
 *      8  u64 fingerprint: weights     64  u64 XXH64 of the payload, seed 0
 *     16  u64 fingerprint: rules       72  zeros
 *     24  u32 class                   120  u64 XXH64 of bytes 0 .. 119, seed 0
 *     28  u32 position                128  payload
 *     32  u32 tokens valid
 *     36  u32 zero
 *
 * 1. 1 <= raw size <= 1 GiB; 1 <= payload size.
 * 2. Codec raw: payload size == raw size. Any other codec: the payload is smaller than the raw
 *    bytes by at least 1/64, and the record takes fewer pages than it would raw. So the size on
 *    disk tells whether a record is raw, and a raw one is read straight to where it is wanted.
 * 3. Every bit of the header is covered by its checksum, every bit of the payload by the payload's.
 *    Only the padding is not; it means nothing.
 */
#include <stddef.h>
#include <stdint.h>

#include "spill/spill.h"

enum {
        SPILL_HEADER_SIZE = 128,
        SPILL_RAW_MAX = 1 << 30,
};

struct spill_record {
        struct fingerprint fingerprint;
        struct spill_meta meta;
        unsigned codec;
        uint64_t raw_size, payload_size, payload_hash;
};

/* Bytes on disk of a record with this payload. payload_size <= SPILL_RAW_MAX */
static inline uint64_t spill_record_stored_size(uint64_t payload_size) {
        return (SPILL_HEADER_SIZE + payload_size + SPILL_ALIGN - 1) & ~(uint64_t)(SPILL_ALIGN - 1);
}
/* The largest payload of an encoding that is worth it (invariant 2); 0: raw it is. */
size_t spill_record_encoded_max(size_t raw_size);

void spill_record_format(const struct spill_record *rec, uint8_t out[SPILL_HEADER_SIZE]);
/* Parse and check a header; data[0..size) is not trusted. 0 or -ERR_CORRUPT. The codec of a parsed
 * record is known, its sizes keep the invariants. */
int spill_record_parse(const uint8_t *data, size_t size, struct spill_record *ret, struct err *e);
/* Check that a record is the one wanted. 0 or -ERR_CORRUPT. */
int spill_record_match(const struct spill_record *rec, const struct fingerprint *fingerprint,
        const struct spill_meta *meta, const struct spill_ref *ref, struct err *e);
/* Check the payload (rec->payload_size bytes). 0 or -ERR_CORRUPT. */
int spill_record_verify(const struct spill_record *rec, const void *payload, struct err *e);
/* Decode a verified payload into dst[0..rec->raw_size). 0 or -ERR_CORRUPT. */
int spill_record_decode(
        const struct spill_record *rec, const void *payload, void *dst, struct err *e);
