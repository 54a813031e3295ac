/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"
#include "util/test.h"
#include <string.h>

static void test_every_scalar_value(void **state) {
        for (uint32_t cp = 0; cp <= 0x110000; cp++) {
                uint8_t s[4];
                uint32_t back = 0;
                int n = utf8_encode(cp, s);

                if ((cp >= 0xD800 && cp <= 0xDFFF) || cp > 0x10FFFF) {
                        assert_int_equal(n, 0);
                        continue;
                }
                assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
                assert_int_equal(utf8_decode(s, (size_t)n, &back), n);
                assert_int_equal(back, cp);
                for (int k = 1; k < n; k++)
                        assert_int_equal(utf8_decode(s, (size_t)k, NULL), -1);
        }
}

static void test_ill_formed(void **state) {
        static const char *const bad[] = {
                "\x80",     /* continuation */
                "\xC0\x80", /* overlong */
                "\xC1\xBF",
                "\xE0\x9F\xBF",
                "\xF0\x8F\xBF\xBF",
                "\xED\xA0\x80",     /* surrogate */
                "\xF4\x90\x80\x80", /* past U+10FFFF */
                "\xF5\x80\x80\x80",
                "\xFF",
                "\xC3(", /* no continuation */
                "\xE2\x82(",
                "\xF0\x90\x80(",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                uint32_t cp = 77;

                assert_int_equal(utf8_decode((const uint8_t *)bad[i], strlen(bad[i]), &cp), 0);
                assert_int_equal(cp, 77);
                assert_false(utf8_valid(bad[i], strlen(bad[i])));
        }
        /* a prefix that no continuation can save is wrong at once */
        assert_int_equal(utf8_decode((const uint8_t *)"\xE0\x80", 2, NULL), 0);
        assert_int_equal(utf8_decode((const uint8_t *)"\xED\xA0", 2, NULL), 0);
}

static void test_valid(void **state) {
        assert_true(utf8_valid("", 0));
        assert_true(utf8_valid(NULL, 0));
        assert_true(utf8_valid("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", 10));
        assert_true(utf8_valid("\0", 1));
        assert_false(utf8_valid("a\xE2\x82", 3));
}

/* ASCII is looked at a word at a time. */
static void test_valid_words(void **state) {
        (void)state;
        for (size_t size = 1; size < 27; size++)
                for (size_t at = 0; at < size; at++) {
                        char text[32];

                        memset(text, 'x', size);
                        assert_true(utf8_valid(text, size));
                        text[at] = '\x80';
                        assert_false(utf8_valid(text, size));
                        text[at] = '\xC3';
                        assert_false(utf8_valid(text, size));
                        if (at + 1 < size) {
                                text[at + 1] = '\xA4';
                                assert_true(utf8_valid(text, size));
                        }
                }
}

static void test_tail(void **state) {
        const char *s = "ab\xF0\x9F\x98\x80";

        assert_int_equal(utf8_incomplete_tail(s, 0), 0);
        assert_int_equal(utf8_incomplete_tail(s, 2), 0);
        assert_int_equal(utf8_incomplete_tail(s, 3), 1);
        assert_int_equal(utf8_incomplete_tail(s, 4), 2);
        assert_int_equal(utf8_incomplete_tail(s, 5), 3);
        assert_int_equal(utf8_incomplete_tail(s, 6), 0);
        /* what can't become a character is not held back */
        assert_int_equal(utf8_incomplete_tail("\x80\x80\x80", 3), 0);
        assert_int_equal(utf8_incomplete_tail("\xE0\x80", 2), 0);
        assert_int_equal(utf8_incomplete_tail("\xFF", 1), 0);
        assert_int_equal(utf8_incomplete_tail("\xC3\xA4\xC3", 3), 1);
}

static void assert_trimmed(const char *text, const char *want) {
        size_t n = strlen(text);

        utf8_trim(&text, &n);
        assert_int_equal(n, strlen(want));
        assert_memory_equal(text, want, n);
}

/* The same as Python's str.strip(): its 29 characters of white space, and no others. */
static void test_trim(void **state) {
        size_t n = 0;

        for (uint32_t cp = 0; cp <= 0x10FFFF; cp++)
                n += utf8_is_space(cp);
        assert_int_equal(n, 29);
        assert_trimmed("", "");
        assert_trimmed(" \t\n\v\f\r\x1C\x1F", "");
        assert_trimmed(" a b\n", "a b");
        assert_trimmed(
                "\xC2\xA0\xE3\x80\x80h\xC3\xA9\xE2\x80\x89\xC2\x85\xE1\x9A\x80", "h\xC3\xA9");
        assert_trimmed("\xE2\x80\xA8", "");
        assert_trimmed(
                "\xE2\x80\x8B x \xEF\xBB\xBF", "\xE2\x80\x8B x \xEF\xBB\xBF"); /* not space */
        assert_trimmed(" \x80\xA0 ", "\x80\xA0");                              /* ill-formed */
        assert_trimmed("\xE3\x80 \xE3\x80\x80", "\xE3\x80");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_scalar_value),
                cmocka_unit_test(test_ill_formed),
                cmocka_unit_test(test_valid),
                cmocka_unit_test(test_valid_words),
                cmocka_unit_test(test_tail),
                cmocka_unit_test(test_trim),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
