/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The record format, version 3. A record begins at a multiple of 4 KiB and takes whole 4 KiB pages:
 * a header, the payloads of its sections in sequence, zeros. All integers are little-endian.
 *
 *      0  u32 magic "cKVr"             32  u32 tokens valid
 *      4  u16 version (3)              36  u32 zero
 *      6  u16 sections, n              40  u64 token hash
 *      8  u64 fingerprint: weights     48  u64 raw size, of all sections
 *     16  u64 fingerprint: rules       56  u64 payload size, of all sections
 *     24  u32 class                    64  n × { u32 raw size, u32 payload size, u32 codec,
 *     28  u32 position                           u32 zero, u64 XXH3-64 of the payload }
 *                                          zeros to a multiple of 64, less 8
 *                                      -8  u64 XXH64 of the header so far, seed 0
 *
 * 1. 1 <= n <= 128; so the header has 128 to 3,200 bytes and lies in the first page.
 * 2. Every section has 1 <= payload size and 1 <= raw size; the header has the sums of both; the
 *    sum of raw sizes is <= 1 GiB. A payload's place follows from the sizes before it.
 * 3. Codec raw: payload size == raw size. Any other codec: the payload is smaller than the raw
 *    bytes by at least 1/64.
 * 4. If any section is not raw, the record takes fewer pages than it would with all sections raw.
 *    So the size on disk tells whether a record is raw, and encoding never makes a record larger.
 * 5. Every bit of the header is covered by its checksum, every bit of a payload by the section's.
 *    Only the padding is not covered; it means nothing.
 * 6. A section can be checked and decoded with the header and its own payload alone.
 *
 * Versions 1 (one section, codec and checksum in the header itself) and 2 (XXH64 of the payloads)
 * are not read any more ("record version 2 is not known"): a cache may lose them.
 */
#include <stddef.h>
#include <stdint.h>

#include "spill/spill.h"

enum {
        SPILL_HEADER_MAX = 3200,
        SPILL_RAW_MAX = 1 << 30,
};

struct spill_section {
        uint64_t hash;        /* of the payload */
        uint32_t offset;      /* of the payload, from the record's start */
        uint32_t stored_size; /* of the payload */
        uint32_t raw_size;
        uint16_t codec;
        bool is_read; /* not of the format: load.c has brought it in */
};

struct spill_record {
        struct fingerprint fingerprint;
        struct spill_meta meta;
        uint64_t raw_size, payload_size;
        size_t n_sections;
        struct spill_section *sections; /* borrowed; [n_sections] */
};

/* 1 <= n_sections <= SPILL_MAX_SECTIONS */
static inline size_t spill_header_size(size_t n_sections) {
        return (64 + 24 * n_sections + 8 + 63) & ~(size_t)63;
}
/* Bytes on disk of a record with this payload. payload_size <= SPILL_RAW_MAX */
static inline uint64_t spill_record_stored_size(size_t n_sections, uint64_t payload_size) {
        return (spill_header_size(n_sections) + payload_size + SPILL_ALIGN - 1) &
               ~(uint64_t)(SPILL_ALIGN - 1);
}
/* The largest payload for which a section is stored encoded (invariant 3); 0: always raw. */
static inline size_t spill_section_encoded_max(size_t raw_size) {
        return raw_size - (raw_size + 63) / 64;
}

/* Write the header: spill_header_size(rec->n_sections) bytes. Ignores the offsets of sections. */
void spill_record_format(const struct spill_record *rec, uint8_t *out);
/* Parse and check a header; data[0..size) is not trusted. @sections has room for @max_sections.
 * 0 or -ERR_CORRUPT. A parsed record keeps the invariants and its codecs are known. On failure
 * @sections is undefined. */
int spill_record_parse(const uint8_t *data, size_t size, struct spill_section *sections,
        size_t max_sections, struct spill_record *ret, struct err *e);
/* Check that a record is the wanted one, and divided as @section_ends[0..rec->n_sections) (NULL:
 * in any way). 0 or -ERR_CORRUPT. */
int spill_record_match(const struct spill_record *rec, const struct fingerprint *fingerprint,
        const struct spill_meta *meta, const struct spill_ref *ref, const uint64_t *section_ends,
        struct err *e);
/* Check a payload (sec->stored_size bytes). 0 or -ERR_CORRUPT. */
int spill_section_verify(const struct spill_section *sec, const void *payload, struct err *e);
/* Decode a verified payload into dst[0..sec->raw_size). @scratch as codec.h says. 0 or
 * -ERR_CORRUPT. */
int spill_section_decode(const struct spill_section *sec, const void *payload, void *dst,
        const struct spill_array *arrays, size_t n_arrays, void *scratch, struct err *e);
