/* SPDX-License-Identifier: MIT */
/*
 * Decoders on any bytes. The first byte chooses codec and layout, the others are the encoding. All
 * instruction sets have to agree on them; and as raw data they have to survive encoding.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fuzz/check.h"
#include "spill/codec.h"
#include "spill/spill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct spill_array layouts[][4] = {
        {{SPILL_F16, 0, 0, 2, 16, 32, true}, {SPILL_F16, 0, 2048, 2, 16, 32, false}},
        {{SPILL_I8, 0, 0, 2, 32, 32, true}, {SPILL_F16, 0, 2048, 2, 1, 32, true},
                {SPILL_I8, 0, 2176, 1, 32, 32, false}, {SPILL_F16, 0, 3200, 1, 1, 32, false}},
        {{SPILL_F32, 0, 3, 1, 5, 32, true}, {SPILL_F32, 0, 700, 3, 7, 9, false}},
        {{SPILL_BYTES, 0, 0, 1, 1, 100, false}, {SPILL_F16, 0, 128, 1, 3, 100, true},
                {SPILL_F32, 0, 800, 1, 2, 11, false}, {SPILL_I8, 0, 999, 1, 1, 77, true}},
};
static const size_t n_arrays[] = {2, 4, 2, 4};
enum { RAW_SIZE = 4096 };

static void decode(const struct spill_codec *c, const struct spill_array *arrays, size_t n,
        const uint8_t *data, size_t size, void *scratch) {
        uint8_t *dst[3] = {NULL};
        int r[3];

        for (int isa = 0; isa < 3; isa++) {
                dst[isa] = calloc(1, RAW_SIZE);
                check(dst[isa]);
                (void)spill_cap_isa(isa);
                r[isa] = c->decode(dst[isa], RAW_SIZE, data, size, arrays, n, scratch);
                check(r[isa] == r[0]);
                check(r[0] != 0 || memcmp(dst[isa], dst[0], RAW_SIZE) == 0);
        }
        for (int isa = 0; isa < 3; isa++)
                free(dst[isa]);
}

static void encode(const struct spill_codec *c, const struct spill_array *arrays, size_t n,
        const uint8_t *data, size_t size, void *scratch) {
        uint8_t *src = calloc(1, RAW_SIZE), *out = malloc(2 * RAW_SIZE), *back = malloc(RAW_SIZE);
        size_t r;

        check(src && out && back);
        memcpy(src, data, MIN(size, (size_t)RAW_SIZE));
        r = c->encode(out, 2 * RAW_SIZE, src, RAW_SIZE, arrays, n, scratch);
        if (c->id != SPILL_CODEC_RAW) {
                check(r > 0 && c->decode(back, RAW_SIZE, out, r, arrays, n, scratch) == 0);
                check(memcmp(back, src, RAW_SIZE) == 0);
        }
        free(src);
        free(out);
        free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct spill_codec *c;
        void *scratch;
        size_t i;

        if (size < 1)
                return 0;
        c = spill_codec_find(2 - data[0] % 3);
        i = data[0] / 3 % ARRAY_SIZE(layouts);
        scratch = aligned_alloc(64, spill_codec_scratch_size(RAW_SIZE));
        check(scratch);
        check(spill_codec_check(layouts[i], n_arrays[i], RAW_SIZE));
        decode(c, layouts[i], n_arrays[i], data + 1, size - 1, scratch);
        encode(c, layouts[i], n_arrays[i], data + 1, size - 1, scratch);
        free(scratch);
        return 0;
}
