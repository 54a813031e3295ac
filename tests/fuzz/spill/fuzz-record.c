/* SPDX-License-Identifier: MIT */
/* The record parser on any bytes; then on the same bytes with checksums that fit, so that what lies
 * behind the checksums is reached too. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "spill/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_RAW = 1 << 20 };

static void put64(uint8_t *p, uint64_t v) {
        for (size_t i = 0; i < 8; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

static void decode(const struct spill_record *rec, const uint8_t *payload) {
        uint8_t *dst = malloc(rec->raw_size);

        if (!dst)
                return;
        if (spill_record_verify(rec, payload, NULL) == 0)
                (void)spill_record_decode(rec, payload, dst, NULL);
        free(dst);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *payload = data + SPILL_HEADER_SIZE;
        uint8_t header[SPILL_HEADER_SIZE];
        struct spill_record rec;

        if (spill_record_parse(data, size, &rec, NULL) == 0 && rec.raw_size <= MAX_RAW &&
                rec.payload_size <= size - SPILL_HEADER_SIZE)
                decode(&rec, payload);
        if (size < SPILL_HEADER_SIZE)
                return 0;
        memcpy(header, data, sizeof(header));
        /* Magic and version right, the payload is all that is there. */
        memcpy(header, "cKVr\1", 6);
        put64(header + 56, size - SPILL_HEADER_SIZE);
        put64(header + 64, hash64(payload, size - SPILL_HEADER_SIZE, 0));
        put64(header + 120, hash64(header, 120, 0));
        if (spill_record_parse(header, sizeof(header), &rec, NULL) == 0 && rec.raw_size <= MAX_RAW)
                decode(&rec, payload);
        return 0;
}
