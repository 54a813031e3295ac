/* SPDX-License-Identifier: MIT */
/* Headers of tar archives: what is written is read, sizes beyond eleven octal digits too, and nothing else is. */
#include "base/buf.h"
#include "base/err.h"
#include "base/tar.h"
#include "util/test.h"
#include <string.h>

static struct err e;

static void put(struct buf *b, const char *name, uint64_t size) {
        *b = BUF_NULL;
        assert_int_equal(tar_put_header(b, name, size, 1700000000), 0);
}

static void test_round_trip(void **state) {
        static const uint64_t sizes[] = {
                0, 1, 511, 512, 513, 077777777777, 0100000000000, UINT64_MAX};
        struct tar_entry entry;
        uint64_t size;
        struct buf b;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                bool large = sizes[i] > 077777777777;

                put(&b, "folder/file", sizes[i]);
                assert_int_equal(b.size, large ? 3 * TAR_BLOCK : TAR_BLOCK);
                assert_int_equal(tar_read_header(&entry, b.data, &e), 0);
                assert_int_equal(entry.kind, large ? TAR_PAX : TAR_FILE);
                if (large) {
                        assert_int_equal(tar_read_pax((char *)b.data + TAR_BLOCK,
                                                 (size_t)entry.size, &size, &e),
                                0);
                        assert_true(size == sizes[i]);
                        assert_int_equal(tar_read_header(&entry, b.data + 2 * TAR_BLOCK, &e), 0);
                        assert_int_equal(entry.kind, TAR_FILE);
                } else {
                        assert_true(entry.size == sizes[i]);
                }
                assert_string_equal(entry.name, "folder/file");
                assert_int_equal((sizes[i] + tar_padding(sizes[i])) % TAR_BLOCK, 0);
                assert_true(tar_padding(sizes[i]) < TAR_BLOCK);
                buf_deinit(&b);
        }
}

static void test_end(void **state) {
        struct tar_entry entry;
        struct buf b = BUF_NULL;

        assert_int_equal(tar_put_end(&b), 0);
        assert_int_equal(b.size, 2 * TAR_BLOCK);
        assert_int_equal(tar_read_header(&entry, b.data, &e), 0);
        assert_int_equal(entry.kind, TAR_END);
        buf_deinit(&b);
}

/* Each byte counts: none can be changed unnoticed, but for the blank behind the checksum. */
static void test_flipped(void **state) {
        struct tar_entry entry;
        struct buf b;

        put(&b, "name", 1234);
        for (size_t i = 0; i < TAR_BLOCK; i++) {
                b.data[i] ^= 1;
                if (i != 155 && tar_read_header(&entry, b.data, &e) == 0)
                        fail_msg("byte %zu", i);
                b.data[i] ^= 1;
        }
        assert_int_equal(tar_read_header(&entry, b.data, &e), 0);
        buf_deinit(&b);
}

static void test_pax(void **state) {
        static const char *const good[] = {
                "12 size=123\n", "9 a=bcde\n12 size=123\n", "12 size=999\n12 size=123\n"};
        static const char *const bad[] = {"", "9 a=bcde\n"};
        static const char *const broken[] = {"12 size=123", "13 size=123\n", "11 size=123\n",
                "0 size=1\n", "x size=1\n", " 9 size=1\n", "11 size=x3\n", "10 size=\n\n",
                "99999999999999999999999 size=1\n", "32 size=99999999999999999999999\n"};
        uint64_t size;

        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(tar_read_pax(good[i], strlen(good[i]), &size, &e), 0);
                assert_int_equal(size, 123);
        }
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(tar_read_pax(bad[i], strlen(bad[i]), &size, &e), 1);
        for (size_t i = 0; i < 10; i++)
                if (tar_read_pax(broken[i], strlen(broken[i]), &size, &e) != -ERR_FORMAT)
                        fail_msg("%s", broken[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_end),
                cmocka_unit_test(test_flipped),
                cmocka_unit_test(test_pax),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
