/* SPDX-License-Identifier: MIT */
/* The record parser on any bytes; then on the same bytes with checksums that fit, so that what lies
 * behind the checksums is reached too. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "spill/codec.h"
#include "spill/codec/checksum.h"
#include "spill/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_RAW = 1 << 20, MAX_SECTIONS = 4 };

static void put(uint8_t *p, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

/* Decode every section whose payload is there and right. data[0..size) is the record. */
static void decode(const struct spill_record *rec, const uint8_t *data, size_t size) {
        uint8_t *dst;
        void *scratch;

        if (rec->raw_size > MAX_RAW)
                return;
        dst = malloc(rec->raw_size);
        scratch = aligned_alloc(64, spill_codec_scratch_size(rec->raw_size));
        for (size_t k = 0; dst && scratch && k < rec->n_sections; k++) {
                const struct spill_section *sec = &rec->sections[k];

                if (sec->offset > size || sec->stored_size > size - sec->offset ||
                        spill_section_verify(sec, data + sec->offset, NULL) < 0)
                        continue;
                (void)spill_section_decode(sec, data + sec->offset, dst, NULL, 0, scratch, NULL);
        }
        free(dst);
        free(scratch);
}

/* Make magic, version, sums and checksums right, and the last section the one that takes all the
 * rest of the payload. */
static void mend(uint8_t *rec, size_t size, size_t n) {
        size_t header = spill_header_size(n), at = header;
        uint64_t raw_size = 0;

        memcpy(rec, "cKVr\2\0", 6);
        put(rec + 6, n, 2);
        put(rec + 36, 0, 4);
        for (size_t k = 0; k < n; k++) {
                uint8_t *sec = rec + 64 + 24 * k;
                uint32_t raw, stored;

                memcpy(&raw, sec, 4);
                memcpy(&stored, sec + 4, 4);
                stored = k + 1 == n || stored > size - at ? (uint32_t)(size - at) : stored;
                put(sec + 4, stored, 4);
                put(sec + 8, sec[8], 4);
                put(sec + 12, 0, 4);
                put(sec + 16, spill_checksum(rec + at, stored), 8);
                raw_size += raw;
                at += stored;
        }
        put(rec + 48, raw_size, 8);
        put(rec + 56, size - header, 8);
        memset(rec + 64 + 24 * n, 0, header - 72 - 24 * n);
        put(rec + header - 8, hash64(rec, header - 8, 0), 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct spill_section sections[MAX_SECTIONS];
        struct spill_record rec;
        uint8_t *copy;
        size_t n;

        if (spill_record_parse(data, size, sections, MAX_SECTIONS, &rec, NULL) == 0)
                decode(&rec, data, size);
        if (size < 8 || size > MAX_RAW)
                return 0;
        n = 1 + data[6] % MAX_SECTIONS;
        if (size < spill_header_size(n))
                return 0;
        copy = malloc(size);
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        mend(copy, size, n);
        if (spill_record_parse(copy, size, sections, MAX_SECTIONS, &rec, NULL) == 0)
                decode(&rec, copy, size);
        free(copy);
        return 0;
}
