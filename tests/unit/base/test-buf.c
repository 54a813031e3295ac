/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/err.h"
#include "util/test.h"
#include <string.h>

static void test_append(void **state) {
        struct buf b = BUF_NULL;

        assert_int_equal(buf_append(&b, NULL, 0), 0);
        assert_int_equal(b.size, 0);
        assert_int_equal(b.data[0], 0);
        assert_int_equal(buf_append_str(&b, "abc"), 0);
        assert_int_equal(buf_append(&b, "d\0e", 3), 0);
        assert_int_equal(b.size, 6);
        assert_memory_equal(b.data, "abcd\0e", 7);
        assert_int_equal(buf_append_u32(&b, 0x04030201), 0);
        assert_int_equal(buf_append_u64(&b, 0x0807060504030201), 0);
        assert_memory_equal(b.data + 6, "\1\2\3\4\1\2\3\4\5\6\7\10", 13);
        buf_deinit(&b);
        assert_null(b.data);
        buf_deinit(&b);
        buf_deinit(NULL);
}

static void test_grows(void **state) {
        struct buf b = BUF_NULL;

        for (unsigned i = 0; i < 10000; i++)
                assert_int_equal(buf_printf(&b, "%04u", i), 0);
        assert_int_equal(b.size, 40000);
        assert_memory_equal(b.data + 4 * 1234, "12341235", 8);
        assert_int_equal(strlen((char *)b.data), 40000);
        buf_deinit(&b);
}

static void test_cap(void **state) {
        struct buf b = {.max = 8};

        assert_int_equal(buf_append_str(&b, "12345"), 0);
        assert_int_equal(buf_append_str(&b, "6789"), -ERR_LIMIT);
        assert_int_equal(buf_printf(&b, "%d", 6789), -ERR_LIMIT);
        assert_int_equal(buf_append_u64(&b, 1), -ERR_LIMIT);
        assert_string_equal((char *)b.data, "12345");
        assert_int_equal(buf_append_str(&b, "678"), 0);
        assert_int_equal(buf_reserve(&b, 1), -ERR_LIMIT);
        assert_int_equal(buf_reserve(&b, SIZE_MAX), -ERR_NOMEM);
        assert_string_equal((char *)b.data, "12345678");
        buf_deinit(&b);
        assert_int_equal(b.max, 8);
}

/* What strings can't have is replaced, and there is room for all of it or none. */
static void test_text(void **state) {
        struct buf b = {.max = 12};

        assert_int_equal(buf_append_text(&b, NULL, 0), 0);
        assert_int_equal(b.size, 0);
        assert_int_equal(buf_append_text(&b, "a\0b\0", 4), 0);
        assert_int_equal(b.size, 8);
        assert_string_equal((char *)b.data, "a\xef\xbf\xbd"
                                            "b\xef\xbf\xbd");
        assert_int_equal(buf_append_text(&b, "xyz\0", 4), -ERR_LIMIT);
        assert_int_equal(b.size, 8);
        assert_int_equal(buf_append_text(&b, "\0x", 2), 0);
        assert_int_equal(b.size, 12);
        assert_memory_equal(b.data + 8, "\xef\xbf\xbdx", 5);
        buf_deinit(&b);
}

static void test_consume(void **state) {
        struct buf b = BUF_NULL;

        buf_consume(&b, 0);
        assert_int_equal(buf_append_str(&b, "abcdef"), 0);
        buf_consume(&b, 2);
        assert_string_equal((char *)b.data, "cdef");
        assert_int_equal(b.size, 4);
        buf_consume(&b, 4);
        assert_int_equal(b.size, 0);
        assert_string_equal((char *)b.data, "");
        buf_deinit(&b);
}

static void test_take(void **state) {
        struct buf b = {.max = 100};
        size_t n = 7;
        char *s = buf_take(&b, &n);

        assert_string_equal(s, "");
        assert_int_equal(n, 0);
        free(s);
        assert_int_equal(buf_append_str(&b, "abc"), 0);
        s = buf_take(&b, &n);
        assert_string_equal(s, "abc");
        assert_int_equal(n, 3);
        assert_null(b.data);
        assert_int_equal(b.max, 100);
        free(s);
        assert_int_equal(buf_append_str(&b, "x"), 0);
        s = buf_take(&b, NULL);
        assert_string_equal(s, "x");
        free(s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_append),
                cmocka_unit_test(test_grows),
                cmocka_unit_test(test_cap),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_consume),
                cmocka_unit_test(test_take),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
