/* SPDX-License-Identifier: MIT */
#include "spill/record.h"

#include <string.h>

#include "base/hash.h"
#include "unit/spill/store.h"

enum { N = 3, SIZE = 192 }; /* 64 + 3 * 24 + 8 = 144, in units of 64 */

static struct spill_section sections[N] = {
        {.raw_size = 50000, .stored_size = 40000, .codec = SPILL_CODEC_LZ4, .hash = 7},
        {.raw_size = 100, .stored_size = 100, .codec = SPILL_CODEC_RAW, .hash = 8},
        {.raw_size = 64, .stored_size = 63, .codec = SPILL_CODEC_LZ4, .hash = UINT64_MAX},
};
static const struct spill_record sample = {
        .fingerprint = {1, 2},
        .meta = {3, 4, 5, 6},
        .raw_size = 50164,
        .payload_size = 40163,
        .n_sections = N,
        .sections = sections,
};

static int parse(const uint8_t *h, size_t size, struct spill_record *r, struct err *e) {
        static struct spill_section found[SPILL_MAX_SECTIONS];

        return spill_record_parse(h, size, found, SPILL_MAX_SECTIONS, r, e);
}

static void rehash(uint8_t *h, size_t size) {
        uint64_t v = hash64(h, size - 8, 0);

        for (size_t i = 0; i < 8; i++)
                h[size - 8 + i] = (uint8_t)(v >> (8 * i));
}

static void test_sizes(void **state) {
        assert_int_equal(spill_header_size(1), 128);
        assert_int_equal(spill_header_size(2), 128);
        assert_int_equal(spill_header_size(3), 192);
        assert_int_equal(spill_header_size(SPILL_MAX_SECTIONS), SPILL_HEADER_MAX);
        assert_true((int)SPILL_HEADER_MAX < (int)SPILL_ALIGN);
        for (size_t n = 1; n <= SPILL_MAX_SECTIONS; n++)
                assert_true(spill_header_size(n) >= 64 + 24 * n + 8);
        assert_int_equal(spill_record_stored_size(1, 3968), 4096);
        assert_int_equal(spill_record_stored_size(1, 3969), 8192);
        assert_int_equal(spill_section_encoded_max(1), 0);
        assert_int_equal(spill_section_encoded_max(64), 63);
        assert_int_equal(spill_section_encoded_max(65), 63);
        assert_int_equal(spill_section_encoded_max(1 << 20), (1 << 20) - (1 << 14));
}

static void test_round_trip(void **state) {
        uint8_t h[SIZE];
        struct spill_record r;

        assert_int_equal(spill_header_size(N), SIZE);
        spill_record_format(&sample, h);
        assert_memory_equal(h, "cKVr", 4);
        memset(&r, 0, sizeof(r));
        assert_int_equal(parse(h, sizeof(h), &r, NULL), 0);
        assert_true(fingerprint_equal(&r.fingerprint, &sample.fingerprint));
        assert_int_equal(r.meta.class_id, 3);
        assert_int_equal(r.meta.position, 4);
        assert_int_equal(r.meta.n_tokens, 5);
        assert_int_equal(r.meta.token_hash, 6);
        assert_int_equal(r.raw_size, 50164);
        assert_int_equal(r.payload_size, 40163);
        assert_int_equal(r.n_sections, N);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(r.sections[i].codec, sections[i].codec);
                assert_int_equal(r.sections[i].raw_size, sections[i].raw_size);
                assert_int_equal(r.sections[i].stored_size, sections[i].stored_size);
                assert_int_equal(r.sections[i].hash, sections[i].hash);
                assert_false(r.sections[i].is_read);
        }
        assert_int_equal(r.sections[0].offset, SIZE);
        assert_int_equal(r.sections[1].offset, SIZE + 40000);
        assert_int_equal(r.sections[2].offset, SIZE + 40100);
}

static void test_every_bit_of_the_header_counts(void **state) {
        uint8_t h[SIZE];
        struct spill_record r;
        struct err e;

        spill_record_format(&sample, h);
        for (size_t i = 0; i < sizeof(h) * 8; i++) {
                h[i / 8] ^= (uint8_t)(1 << i % 8);
                assert_int_equal(parse(h, sizeof(h), &r, &e), -ERR_CORRUPT);
                h[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (size_t i = 0; i < sizeof(h); i++)
                assert_int_equal(parse(h, i, &r, &e), -ERR_CORRUPT);
        assert_int_equal(spill_record_parse(h, SIZE, sections, N - 1, &r, &e), -ERR_CORRUPT);
}

static void expect_bad(struct spill_record rec, size_t i, struct spill_section sec) {
        struct spill_section changed[N];
        struct spill_record r;
        uint8_t h[SIZE];

        memcpy(changed, sections, sizeof(changed));
        changed[i] = sec;
        rec.sections = changed;
        spill_record_format(&rec, h);
        assert_int_equal(parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
}

/* Sizes and reserved bytes are not believed because a checksum fits. */
static void test_wrong_with_a_right_checksum(void **state) {
        static const size_t reserved[] = {36, 39, 76, 79, 100, 136, 183};
        static const uint64_t sizes[] = {0, 1, 50163, 50165, SPILL_RAW_MAX, UINT32_MAX, UINT64_MAX};
        struct spill_section sec;
        struct spill_record r = sample;
        uint8_t h[SIZE];

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                r = sample;
                r.raw_size = sizes[i];
                expect_bad(r, 0, sections[0]);
                r = sample;
                r.payload_size = sizes[i];
                expect_bad(r, 0, sections[0]);
                sec = sections[0];
                sec.raw_size = (uint32_t)sizes[i];
                expect_bad(sample, 0, sec);
                sec = sections[0];
                sec.stored_size = (uint32_t)sizes[i];
                expect_bad(sample, 0, sec);
        }
        sec = sections[0];
        sec.codec = SPILL_CODEC_RAW;
        expect_bad(sample, 0, sec);
        sec.codec = 999;
        expect_bad(sample, 0, sec);
        for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
                spill_record_format(&sample, h);
                h[reserved[i]] = 1;
                rehash(h, SIZE);
                assert_int_equal(parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
        }
        spill_record_format(&sample, h);
        h[6] = 0;
        rehash(h, SIZE);
        assert_int_equal(parse(h, sizeof(h), &r, NULL), -ERR_CORRUPT);
        /* All raw but a little, which saves no page. */
        r = sample;
        r.payload_size = 50163;
        sec = (struct spill_section){.raw_size = 50000, .stored_size = 50000};
        expect_bad(r, 0, sec);
}

/* What was written before there were sections: refused, by its version. */
static void test_old_version(void **state) {
        uint8_t h[SIZE];
        struct spill_record r;
        struct err e;

        spill_record_format(&sample, h);
        h[4] = 1;
        rehash(h, 128);
        assert_int_equal(parse(h, 128, &r, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "record version 1 is not known"));
        rehash(h, SIZE);
        assert_int_equal(parse(h, SIZE, &r, &e), -ERR_CORRUPT);
        h[4] = 2;
        rehash(h, SIZE);
        assert_int_equal(parse(h, SIZE, &r, &e), -ERR_CORRUPT);
        h[4] = 4;
        rehash(h, SIZE);
        assert_int_equal(parse(h, SIZE, &r, &e), -ERR_CORRUPT);
}

static void test_match(void **state) {
        static const uint64_t ends[N] = {50000, 50100, 50164}, other[N] = {50000, 50101, 50164};
        struct spill_ref ref = {.stored_size = 40960, .raw_size = 50164};
        struct spill_meta meta = sample.meta;
        struct fingerprint fp = sample.fingerprint;

        assert_int_equal(spill_record_match(&sample, &fp, &meta, &ref, ends, NULL), 0);
        assert_int_equal(spill_record_match(&sample, &fp, &meta, &ref, NULL, NULL), 0);
        assert_int_equal(spill_record_match(&sample, &fp, &meta, &ref, other, NULL), -ERR_CORRUPT);
        ref.stored_size += 4096;
        assert_int_equal(spill_record_match(&sample, &fp, &meta, &ref, ends, NULL), -ERR_CORRUPT);
}

/* The largest header there is. */
static void test_all_sections(void **state) {
        static struct spill_section all[SPILL_MAX_SECTIONS];
        struct spill_record r = sample;
        uint8_t h[SPILL_HEADER_MAX];

        for (size_t i = 0; i < SPILL_MAX_SECTIONS; i++)
                all[i] = (struct spill_section){.raw_size = 1, .stored_size = 1, .hash = i};
        r.raw_size = r.payload_size = r.n_sections = SPILL_MAX_SECTIONS;
        r.sections = all;
        spill_record_format(&r, h);
        assert_int_equal(parse(h, sizeof(h), &r, NULL), 0);
        assert_int_equal(r.sections[SPILL_MAX_SECTIONS - 1].hash, SPILL_MAX_SECTIONS - 1);
        assert_int_equal(r.sections[SPILL_MAX_SECTIONS - 1].offset, SPILL_HEADER_MAX + 127);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_every_bit_of_the_header_counts),
                cmocka_unit_test(test_wrong_with_a_right_checksum),
                cmocka_unit_test(test_old_version),
                cmocka_unit_test(test_match),
                cmocka_unit_test(test_all_sections),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
