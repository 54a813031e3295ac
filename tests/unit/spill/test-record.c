/* SPDX-License-Identifier: MIT */
#include "spill/record.h"

#include <string.h>

#include "base/hash.h"
#include "spill/codec.h"
#include "unit/spill/store.h"

static const struct spill_record sample = {
        .fingerprint = {1, 2},
        .meta = {3, 4, 5, 6},
        .codec = SPILL_CODEC_LZ4,
        .raw_size = 100000,
        .payload_size = 90000,
        .payload_hash = 7,
};

static void rehash(uint8_t h[SPILL_HEADER_SIZE]) {
        uint64_t v = hash64(h, 120, 0);

        for (size_t i = 0; i < 8; i++)
                h[120 + i] = (uint8_t)(v >> (8 * i));
}

static void test_round_trip(void **state) {
        uint8_t h[SPILL_HEADER_SIZE];
        struct spill_record r;

        spill_record_format(&sample, h);
        assert_memory_equal(h, "cKVr", 4);
        memset(&r, 0, sizeof(r));
        assert_int_equal(spill_record_parse(h, sizeof(h), &r, NULL), 0);
        assert_true(fingerprint_equal(&r.fingerprint, &sample.fingerprint));
        assert_int_equal(r.meta.class_id, 3);
        assert_int_equal(r.meta.position, 4);
        assert_int_equal(r.meta.n_tokens, 5);
        assert_int_equal(r.meta.token_hash, 6);
        assert_int_equal(r.codec, SPILL_CODEC_LZ4);
        assert_int_equal(r.raw_size, 100000);
        assert_int_equal(r.payload_size, 90000);
        assert_int_equal(r.payload_hash, 7);
}

static void test_every_bit_of_the_header_counts(void **state) {
        uint8_t h[SPILL_HEADER_SIZE];
        struct spill_record r;
        struct err e;

        spill_record_format(&sample, h);
        for (size_t i = 0; i < sizeof(h) * 8; i++) {
                h[i / 8] ^= (uint8_t)(1 << i % 8);
                assert_int_equal(spill_record_parse(h, sizeof(h), &r, &e), -ERR_CORRUPT);
                h[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (size_t i = 0; i < sizeof(h); i++)
                assert_int_equal(spill_record_parse(h, i, &r, &e), -ERR_CORRUPT);
}

static void expect_bad(struct spill_record rec) {
        uint8_t h[SPILL_HEADER_SIZE];
        struct spill_record r;

        spill_record_format(&rec, h);
        assert_int_equal(spill_record_parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
}

/* Sizes and reserved bytes are not believed because a checksum fits. */
static void test_wrong_with_a_right_checksum(void **state) {
        static const size_t reserved[] = {36, 39, 72, 100, 119};
        uint8_t h[SPILL_HEADER_SIZE];
        struct spill_record r = sample;

        r.raw_size = 0;
        expect_bad(r);
        r.raw_size = (uint64_t)SPILL_RAW_MAX + 1;
        expect_bad(r);
        r.raw_size = UINT64_MAX;
        expect_bad(r);
        r = sample;
        r.payload_size = 0;
        expect_bad(r);
        r.payload_size = 99999;
        expect_bad(r);
        r.payload_size = UINT64_MAX;
        expect_bad(r);
        r = sample;
        r.codec = SPILL_CODEC_RAW;
        expect_bad(r);
        r.codec = 999;
        expect_bad(r);
        for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
                spill_record_format(&sample, h);
                h[reserved[i]] = 1;
                rehash(h);
                assert_int_equal(spill_record_parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
        }
        spill_record_format(&sample, h);
        h[4] = 2;
        rehash(h);
        assert_int_equal(spill_record_parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
}

static void test_encoded_max(void **state) {
        assert_int_equal(spill_record_encoded_max(1), 0);
        assert_int_equal(spill_record_encoded_max(3968), 0);
        assert_int_equal(spill_record_encoded_max(3969), 3906);
        assert_int_equal(spill_record_encoded_max(1 << 20), (1 << 20) - (1 << 14));
        for (size_t n = 1; n < 20000; n++) {
                size_t max = spill_record_encoded_max(n);

                assert_true(max < n && (n - max) * 64 >= n);
                if (max > 0)
                        assert_true(spill_record_stored_size(max) < spill_record_stored_size(n));
        }
}

/* Any payload either decodes to exactly the size or is refused. */
static void test_codecs(void **state) {
        static uint8_t raw[BLOCK], enc[BLOCK], back[BLOCK + 64];
        const struct spill_codec *lz4 = spill_codec_find(SPILL_CODEC_LZ4);

        assert_string_equal(spill_codec_find(SPILL_CODEC_RAW)->name, "raw");
        assert_null(spill_codec_find(2));
        for (size_t n = 1; n <= BLOCK; n = n * 5 / 3 + 1) {
                for (enum kind k = 0; k < N_KINDS; k++) {
                        size_t size;

                        fill(raw, n, k, n);
                        size = lz4->encode(enc, n - 1, raw, n);
                        assert_true(size < n);
                        if (size == 0)
                                continue;
                        memset(back, 0xaa, sizeof(back));
                        assert_int_equal(lz4->decode(back, n, enc, size), 0);
                        assert_memory_equal(back, raw, n);
                        assert_int_equal(lz4->decode(back, n + 1, enc, size), 1);
                        assert_int_equal(lz4->decode(back, n - 1, enc, size), 1);
                        assert_int_equal(back[n + 1], 0xaa);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_every_bit_of_the_header_counts),
                cmocka_unit_test(test_wrong_with_a_right_checksum),
                cmocka_unit_test(test_encoded_max),
                cmocka_unit_test(test_codecs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
