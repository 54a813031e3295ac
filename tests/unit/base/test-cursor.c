/* SPDX-License-Identifier: MIT */
#include "base/cursor.h"
#include "util/test.h"

static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x80, 0x3F, 0xFF, 0xFE, 9};

static void test_reads(void **state) {
        struct cursor c = {bytes, bytes + sizeof(bytes)};
        const uint8_t *p;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f;

        assert_int_equal(cursor_u64(&c, &u64), 0);
        assert_true(u64 == 0x0807060504030201);
        assert_int_equal(cursor_f32(&c, &f), 0);
        assert_true(f == 1.0f);
        assert_int_equal(cursor_u16(&c, &u16), 0);
        assert_int_equal(u16, 0xFEFF);
        assert_int_equal(cursor_u8(&c, &u8), 0);
        assert_int_equal(u8, 9);
        assert_int_equal(cursor_left(&c), 0);
        assert_int_equal(cursor_u8(&c, &u8), 1);

        c = (struct cursor){bytes, bytes + sizeof(bytes)};
        assert_int_equal(cursor_bytes(&c, 2, &p), 0);
        assert_ptr_equal(p, bytes);
        assert_int_equal(cursor_u32(&c, &u32), 0);
        assert_int_equal(u32, 0x06050403);
}

static void test_short_reads_change_nothing(void **state) {
        struct cursor c = {bytes, bytes + 1};
        const uint8_t *p = NULL;
        uint16_t u16 = 77;
        uint32_t u32 = 77;
        uint64_t u64 = 77;
        float f = 77;

        assert_int_equal(cursor_u16(&c, &u16), 1);
        assert_int_equal(cursor_u32(&c, &u32), 1);
        assert_int_equal(cursor_u64(&c, &u64), 1);
        assert_int_equal(cursor_f32(&c, &f), 1);
        assert_int_equal(cursor_bytes(&c, 2, &p), 1);
        assert_int_equal(cursor_bytes(&c, SIZE_MAX, &p), 1);
        assert_int_equal(u16, 77);
        assert_int_equal(u32, 77);
        assert_int_equal(u64, 77);
        assert_true(f == 77);
        assert_null(p);
        assert_ptr_equal(c.p, bytes);
        assert_int_equal(cursor_bytes(&c, 0, &p), 0);
        assert_int_equal(cursor_bytes(&c, 1, &p), 0);
        assert_int_equal(cursor_bytes(&c, 0, &p), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reads),
                cmocka_unit_test(test_short_reads_change_nothing),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
