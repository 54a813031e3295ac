/* SPDX-License-Identifier: MIT */
#include "client/cli-line.h"
#include "client/cli.h"
#include "util/test.h"
#include <locale.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {NULL};

static enum line_outcome type(struct line *l, const char *keys) {
        enum line_outcome outcome = LINE_MORE;

        for (; *keys; keys++)
                outcome = line_feed(l, (uint8_t)*keys);
        return outcome;
}

static void check(const char *keys, const char *text, size_t cursor) {
        struct line l = LINE_NULL;

        assert_int_equal(type(&l, keys), LINE_MORE);
        assert_string_equal(l.text.data ? (char *)l.text.data : "", text);
        assert_int_equal(l.cursor, cursor);
        line_deinit(&l);
}

static void test_editing(void **state) {
        check("abc", "abc", 3);
        check("abc\x01x", "xabc", 1);             /* Ctrl-A */
        check("abc\x01\x05x", "abcx", 4);         /* Ctrl-E */
        check("abc\x02\x02x", "axbc", 2);         /* Ctrl-B */
        check("ab\x7f\x7f\x7f", "", 0);           /* Backspace */
        check("abc\x1b[D\x1b[D\x1b[3~", "ac", 1); /* left, left, Delete */
        check("abc\x1b[D\x1b[Cx", "abcx", 4);
        check("abc\x1b[Hx\x1b[Fy", "xabcy", 5);
        check("abc\x1bOHx\x1bOFy", "xabcy", 5);
        check("abc\x1b[1~x\x1b[4~y", "xabcy", 5);
        check("one two\x17", "one ", 4); /* Ctrl-W */
        check("one two\x1b[1;5Dx", "one xtwo", 5);
        check("one two\x1b"
              "b\x1b"
              "bx",
                "xone two", 1);
        check("abc\x02\x0b", "ab", 2);   /* Ctrl-K */
        check("abc\x02\x15", "c", 0);    /* Ctrl-U */
        check("ab\x02\x04", "a", 1);     /* Ctrl-D on text deletes */
        check("a\x1b[99;99zb", "ab", 2); /* unknown keys vanish */
        check("\x01\x02\x05\x06\x7f\x0b\x15\x17\x1b[3~\x1b[C\x1b[D", "", 0);
}

static void test_utf8(void **state) {
        check("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10);
        check("\xc3\xa9\x7f", "", 0);
        check("a\xf0\x9f\x98\x80\x1b[Dx", "ax\xf0\x9f\x98\x80", 2);
        check("a\xff\xfe"
              "b",
                "ab", 2); /* what is not a character is not taken */
}

static void test_endings(void **state) {
        struct line l = LINE_NULL;

        assert_int_equal(type(&l, "hi\r"), LINE_DONE);
        assert_string_equal((char *)l.text.data, "hi");
        line_reset(&l);
        assert_int_equal(type(&l, "\x04"), LINE_END);
        assert_int_equal(type(&l, "x\x03"), LINE_INTERRUPT);
        assert_int_equal(type(&l, "\x0c"), LINE_CLEAR);
        line_deinit(&l);
}

static void test_paste(void **state) {
        struct line l = LINE_NULL;

        assert_int_equal(type(&l, "\x1b[200~a\rb\tc\x03\x1b[201~"), LINE_MORE);
        assert_string_equal((char *)l.text.data, "a\nb\tc");
        assert_int_equal(type(&l, "\r"), LINE_DONE);
        line_deinit(&l);
}

static void test_history(void **state) {
        struct line l = LINE_NULL;
        char many[32];

        assert_int_equal(type(&l, "\x1b[A\x1b[B"), LINE_MORE);
        type(&l, "one\r");
        line_reset(&l);
        type(&l, "two\r");
        line_reset(&l);
        line_reset(&l); /* empty lines are not kept */
        type(&l, "dra\x1b[A");
        assert_string_equal((char *)l.text.data, "two");
        type(&l, "\x1b[A");
        assert_string_equal((char *)l.text.data, "one");
        type(&l, "\x1b[A");
        assert_string_equal((char *)l.text.data, "one");
        type(&l, "\x1b[B\x1b[B\x1b[B");
        assert_string_equal((char *)l.text.data, "dra");
        line_reset(&l);
        for (unsigned i = 0; i < 2 * LINE_HISTORY; i++) {
                snprintf(many, sizeof(many), "%u\r", i);
                type(&l, many);
                line_reset(&l);
        }
        assert_int_equal(l.n_history, LINE_HISTORY);
        type(&l, "\x10"); /* Ctrl-P */
        assert_string_equal((char *)l.text.data, "199");
        line_deinit(&l);
}

static void check_draw(const char *keys, unsigned columns, const char *expected) {
        struct line l = LINE_NULL;
        struct buf out = BUF_NULL;

        type(&l, keys);
        assert_int_equal(line_draw(&l, "> ", columns, &out), 0);
        assert_string_equal((char *)out.data, expected);
        buf_deinit(&out);
        line_deinit(&l);
}

static void test_draw(void **state) {
        check_draw("", 80, "\r> \x1b[K\r\x1b[2C");
        check_draw("abc", 80, "\r> abc\x1b[K\r\x1b[5C");
        check_draw("abc\x02", 80, "\r> abc\x1b[K\r\x1b[4C");
        check_draw("\x1b[200~a\nb\x1b[201~", 80,
                "\r> a\xe2\x86\xb5"
                "b\x1b[K\r\x1b[5C");
        /* ten columns: prompt, seven of text, one for the cursor */
        check_draw("0123456789", 10, "\r> 456789\x1b[K\r\x1b[8C");
        check_draw("0123456789\x01", 10, "\r> 0123456\x1b[K\r\x1b[2C");
        check_draw("abc", 1, "\r> \x1b[K\r\x1b[2C");
        check_draw("\xc2\x85", 80, "\r> <U+0085>\x1b[K\r\x1b[3C");
}

/* Any keys at all, on any screen: nothing is written out of bounds, and it ends. */
static void test_random_keys(void **state) {
        static const char keys[] = "ab \xc3\xa9\x1b[ABCDHF~0123;5\x01\x05\x0b\x15\x17\x7f\x02\x06";
        struct line l = LINE_NULL;
        uint32_t x = 1;

        for (unsigned i = 0; i < 20000; i++) {
                struct buf out = BUF_NULL;

                x = x * 1664525 + 1013904223;
                line_feed(&l, (uint8_t)(x >> 8 & 1 ? keys[(x >> 16) % (sizeof(keys) - 1)]
                                                   : (char)(x >> 24)));
                assert_true(l.cursor <= l.text.size);
                assert_int_equal(line_draw(&l, "> ", (x >> 10) % 40, &out), 0);
                assert_true(l.first <= l.cursor);
                buf_deinit(&out);
                if (i % 500 == 0)
                        line_reset(&l);
        }
        line_deinit(&l);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_editing),
                cmocka_unit_test(test_utf8),
                cmocka_unit_test(test_endings),
                cmocka_unit_test(test_paste),
                cmocka_unit_test(test_history),
                cmocka_unit_test(test_draw),
                cmocka_unit_test(test_random_keys),
        };

        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
