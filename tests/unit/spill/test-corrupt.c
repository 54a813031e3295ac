/* SPDX-License-Identifier: MIT */
/* Damage of every kind to a file of an open store: each read of a damaged record is an error that
 * names the record, neighboring records stay readable, and a repaired record can be read again. */
#include <string.h>
#include <unistd.h>

#include "unit/spill/store.h"

static uint8_t raw[BLOCK], back[BLOCK], image[8 * BLOCK], copy[8 * BLOCK];

struct damage {
        struct store t;
        struct spill_ref ref[3];
        int fd;
        size_t size; /* of the file, its bytes in image */
};

static int setup(void **state) {
        struct damage *d = calloc(1, sizeof(*d));

        assert_non_null(d);
        store_make(&d->t);
        d->t.options.keep_cached = true;
        store_start(&d->t);
        for (uint32_t i = 0; i < 3; i++) {
                struct spill_meta m = meta_of(i);

                fill(raw, BLOCK, i == 0 ? RANDOM : FLOATS, i);
                assert_int_equal(store_write(d->t.s, 1, &m, raw, BLOCK, &d->ref[i], NULL), 0);
        }
        d->fd = open(store_path(&d->t, 1), O_RDWR);
        d->size = (size_t)store_file_size(&d->t, 1);
        assert_true(d->size <= sizeof(image));
        assert_int_equal(pread(d->fd, image, d->size, 0), d->size);
        *state = d;
        return 0;
}

static int teardown(void **state) {
        struct damage *d = *state;

        close(d->fd);
        store_remove(&d->t);
        free(d);
        return 0;
}

static int get(struct damage *d, uint32_t i, struct err *e) {
        struct spill_meta m = meta_of(i);
        int r;

        memset(back, 0, BLOCK);
        r = spill_read(d->t.s, &d->ref[i], &m, back, BLOCK, e);
        if (r == 0) {
                fill(raw, BLOCK, i == 0 ? RANDOM : FLOATS, i);
                assert_memory_equal(raw, back, BLOCK);
        }
        return r;
}

static void put(struct damage *d, size_t at, uint8_t v) {
        assert_int_equal(pwrite(d->fd, &v, 1, (off_t)at), 1);
}

static void expect_corrupt(struct damage *d, uint32_t i) {
        struct err e = {0};

        assert_int_equal(get(d, i, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "spill file 0000000000000001.kv at "));
}

static void test_flipped_bits(void **state) {
        struct damage *d = *state;

        for (uint32_t i = 0; i < 2; i++) {
                /* All of the header, then a bit here and there up to the last of the payload. */
                uint64_t payload = 8 * 128, n = 8 * (uint64_t)BLOCK;

                if (i == 1)
                        n = 8 * (d->ref[1].stored_size - 4096);
                for (uint64_t bit = 0; bit < n; bit += bit < payload + 64 ? 1 : 1009) {
                        size_t at = d->ref[i].offset + bit / 8;

                        put(d, at, image[at] ^ (uint8_t)(1 << bit % 8));
                        expect_corrupt(d, i);
                        put(d, at, image[at]);
                }
                assert_int_equal(get(d, i, NULL), 0);
        }
        put(d, d->ref[0].offset + 128 + BLOCK - 1, image[d->ref[0].offset + 128 + BLOCK - 1] ^ 128);
        expect_corrupt(d, 0);
        assert_int_equal(get(d, 1, NULL), 0);
        assert_int_equal(get(d, 2, NULL), 0);
}

/* Padding says nothing. */
static void test_padding(void **state) {
        struct damage *d = *state;

        put(d, d->ref[0].offset + d->ref[0].stored_size - 1, 1);
        assert_int_equal(get(d, 0, NULL), 0);
}

/* Records that came from elsewhere: each bit, each length, and what is asked for in place of it. */
static void test_unpacked(void **state) {
        struct damage *d = *state;
        struct spill *s = d->t.s;

        for (uint32_t i = 0; i < 2; i++) {
                struct spill_meta m = meta_of(i), other = meta_of(2);
                size_t n = d->ref[i].stored_size, payload_end = i == 0 ? 128 + BLOCK : n - 4096;
                static uint8_t stored[2 * BLOCK];
                struct err e;

                assert_true(n + 4096 <= sizeof(stored));
                memset(stored, 0, sizeof(stored));
                assert_int_equal(
                        spill_read_stored(s, &d->t.options.fingerprint, &d->ref[i], &m, stored, &e),
                        0);
                assert_int_equal(spill_unpack(s, &m, stored, n, back, BLOCK, &e), 0);
                fill(raw, BLOCK, i == 0 ? RANDOM : FLOATS, i);
                assert_memory_equal(raw, back, BLOCK);
                assert_int_equal(spill_unpack(s, &other, stored, n, back, BLOCK, &e), -ERR_CORRUPT);
                assert_int_equal(spill_unpack(s, &m, stored, n, back, BLOCK - 1, &e), -ERR_CORRUPT);
                assert_int_equal(
                        spill_unpack(s, &m, stored, n + 4096, back, BLOCK, &e), -ERR_CORRUPT);
                for (size_t size = 0; size < n; size += size < 256 ? 1 : 501)
                        assert_int_equal(
                                spill_unpack(s, &m, stored, size, back, BLOCK, &e), -ERR_CORRUPT);
                for (size_t bit = 0; bit < 8 * payload_end; bit += bit < 8 * 192 ? 1 : 1009) {
                        stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        assert_int_equal(
                                spill_unpack(s, &m, stored, n, back, BLOCK, &e), -ERR_CORRUPT);
                        stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
                }
                assert_int_equal(spill_unpack(s, &m, stored, n, back, BLOCK, &e), 0);
        }
}

static void test_cut_files(void **state) {
        struct damage *d = *state;

        /* Long enough for the records that lie whole before the cut, but for padding; an error for
         * the others. */
        for (size_t n = d->size; n-- > 0; n -= n % 4096 > 130 && n > 600 ? 509 : 0) {
                assert_int_equal(ftruncate(d->fd, (off_t)n), 0);
                for (uint32_t i = 0; i < 3; i++) {
                        uint64_t payload, need;

                        memcpy(&payload, image + d->ref[i].offset + 56, 8);
                        need = d->ref[i].offset + 128 + payload;
                        if (need <= n)
                                assert_int_equal(get(d, i, NULL), 0);
                        else
                                expect_corrupt(d, i);
                }
        }
        assert_int_equal(pwrite(d->fd, image, d->size, 0), d->size);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(get(d, i, NULL), 0);
}

static void test_swapped_and_foreign_records(void **state) {
        struct damage *d = *state;
        size_t size = d->ref[1].stored_size;

        assert_int_equal(d->ref[2].stored_size, size);
        memcpy(copy, image, d->size);
        memcpy(copy + d->ref[1].offset, image + d->ref[2].offset, size);
        memcpy(copy + d->ref[2].offset, image + d->ref[1].offset, size);
        assert_int_equal(pwrite(d->fd, copy, d->size, 0), d->size);
        expect_corrupt(d, 1);
        expect_corrupt(d, 2);
        assert_int_equal(get(d, 0, NULL), 0);
        memset(copy, 0, d->size);
        assert_int_equal(pwrite(d->fd, copy, d->size, 0), d->size);
        for (uint32_t i = 0; i < 3; i++)
                expect_corrupt(d, i);
}

/* A file that went, or became something else, while it was closed. */
static void test_files_that_vanish(void **state) {
        struct damage *d = *state;
        struct spill *s = d->t.s;
        struct spill_meta m = meta_of(50);
        struct spill_ref ref;

        d->t.s = spill_free(s);
        store_open(&d->t);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(spill_adopt(d->t.s, &d->ref[i], NULL), 0);
        assert_int_equal(unlink(store_path(&d->t, 1)), 0);
        assert_int_equal(spill_sweep(d->t.s, NULL, NULL), -ERR_CORRUPT);
        expect_corrupt(d, 0);
        assert_int_equal(symlink("/dev/zero", store_path(&d->t, 1)), 0);
        assert_true(get(d, 1, NULL) < 0);
        assert_int_equal(spill_adopt(d->t.s, &d->ref[0], NULL), -ERR_STATE);
        assert_int_equal(unlink(store_path(&d->t, 1)), 0);
        assert_int_equal(mkfifo(store_path(&d->t, 1), 0600), 0);
        assert_true(get(d, 2, NULL) < 0);
        assert_int_equal(unlink(store_path(&d->t, 1)), 0);
        /* New records make a new file; the old ones are missed in it. */
        fill(raw, BLOCK, RANDOM, 50);
        assert_int_equal(store_write(d->t.s, 1, &m, raw, BLOCK, &ref, NULL), 0);
        assert_int_equal(spill_read(d->t.s, &ref, &m, back, BLOCK, NULL), 0);
        expect_corrupt(d, 0);
        expect_corrupt(d, 1);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(spill_release(d->t.s, &d->ref[i], NULL), 0);
        assert_int_equal(spill_release(d->t.s, &ref, NULL), 0);
        assert_int_equal(store_stats(&d->t).disk_size, 0);
        assert_int_equal(store_file_size(&d->t, 1), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                T(test_flipped_bits),
                T(test_unpacked),
                T(test_padding),
                T(test_cut_files),
                T(test_swapped_and_foreign_records),
                T(test_files_that_vanish),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
