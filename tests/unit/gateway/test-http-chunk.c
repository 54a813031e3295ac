/* SPDX-License-Identifier: MIT */
/* Bodies in chunks: whole, byte by byte, and wrong. */
#include "base/buf.h"
#include "client/gateway/http-chunk.h"
#include "util/test.h"
#include <stdio.h>
#include <string.h>

/* Take @text in pieces of @step bytes: 2 at the end (*ret_rest: bytes behind it), 0, or -ERR_FORMAT. */
static int take(
        const char *text, size_t step, struct buf *out, size_t *ret_rest, unsigned *status) {
        struct http_chunks chunks = HTTP_CHUNKS_NULL;
        size_t size = strlen(text);

        for (size_t at = 0; at < size;) {
                const char *data = text + at, *piece;
                size_t n = size - at < step ? size - at : step, left = n, piece_size;
                struct err e;
                int r;

                while ((r = http_chunks_next(
                                &chunks, &data, &left, &piece, &piece_size, status, &e)) == 1)
                        assert_int_equal(buf_append(out, piece, piece_size), 0);
                *ret_rest = size - at - (n - left);
                if (r != 0)
                        return r;
                assert_int_equal(left, 0);
                at += n;
        }
        return 0;
}

static void test_bodies(void **state) {
        static const struct {
                const char *text, *body;
                size_t rest;
        } cases[] = {
                {"0\r\n\r\n", "", 0},
                {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
                {"5\r\nhello\r\n0\r\n\r\nGET /", "hello", 5},
                {"1\r\na\r\n001\r\nb\r\nA;x=\"y\"\r\n0123456789\r\n00\r\n\r\n", "ab0123456789", 0},
                {"3\r\n\r\n0\r\n0\r\nX: y\r\nZ: 1\r\n\r\nrest", "\r\n0", 4},
                {"1;\tname = value \r\na\r\n0;last\r\n\r\n", "a", 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (size_t step = 1; step < 40; step++) {
                        struct buf out = BUF_NULL;
                        unsigned status;
                        size_t rest;

                        assert_int_equal(take(cases[i].text, step, &out, &rest, &status), 2);
                        assert_int_equal(out.size, strlen(cases[i].body));
                        assert_string_equal(out.data ? (char *)out.data : "", cases[i].body);
                        /* what is behind the end within the last piece stays, and all that follows */
                        assert_int_equal(rest, cases[i].rest);
                        buf_deinit(&out);
                }
}

static void test_wrong(void **state) {
        static const char *const cases[] = {
                "\r\n",
                "g\r\n",
                "+1\r\na\r\n",
                "-1\r\na\r\n",
                "0x1\r\na\r\n",
                " 1\r\na\r\n",
                "1 \r\na\r\n",
                ";x\r\n",
                "1\na\n",
                "1\r\r\n",
                "1;\x01\r\n",
                "1\r\nab\r\n",
                "1\r\na\n",
                "1\r\na\rx",
                "0\r\nX: a\nY\r\n\r\n",
                "0\r\n\rX",
                "11111111111111111\r\n",
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (size_t step = 1; step < 20; step++) {
                        struct buf out = BUF_NULL;
                        unsigned status = 0;
                        size_t rest;

                        assert_int_equal(take(cases[i], step, &out, &rest, &status), -ERR_FORMAT);
                        assert_true(status == 400 || status == 413);
                        buf_deinit(&out);
                }
}

/* The lines between contents are bounded, all trailing fields together too. */
static void test_long_lines(void **state) {
        char text[HTTP_MAX_TRAILER + 100];
        struct buf out = BUF_NULL;
        unsigned status = 0;
        size_t rest;

        memset(text, 'x', sizeof(text));
        memcpy(text, "1;", 2);
        memcpy(text + HTTP_MAX_CHUNK_LINE - 2, "\r\na\r\n0\r\n\r\n", 11);
        assert_int_equal(take(text, 1000, &out, &rest, &status), 2);
        memset(text, 'x', sizeof(text));
        memcpy(text, "1;", 2);
        memcpy(text + HTTP_MAX_CHUNK_LINE - 1, "\r\na\r\n0\r\n\r\n", 11);
        assert_int_equal(take(text, 1000, &out, &rest, &status), -ERR_FORMAT);
        assert_int_equal(status, 400);
        memset(text, 'x', sizeof(text));
        memcpy(text, "0\r\n", 3);
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(take(text, 100, &out, &rest, &status), -ERR_FORMAT);
        assert_int_equal(status, 431);
        buf_deinit(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bodies),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_long_lines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
