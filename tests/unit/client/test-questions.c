/* SPDX-License-Identifier: MIT */
/* The input of map: lines as they come, and the questions that they make. */
#include "base/err.h"
#include "base/util.h"
#include "client/cli-lines.h"
#include "client/cli-template.h"
#include "util/test.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- questions ---- */

static void check_made(
        const char *template, bool json, const char *line, const char *text, const char *id) {
        struct question q;
        struct err e = {0};
        int r = question_make(&q, template, json, line, strlen(line), 100, &e);

        if (r < 0)
                print_message("%s\n", e.msg);
        assert_int_equal(r, 0);
        if (text)
                assert_string_equal(q.text, text);
        else
                assert_null(q.text);
        assert_int_equal(q.size, text ? strlen(text) : 0);
        if (id)
                assert_string_equal(q.id, id);
        else
                assert_null(q.id);
        question_deinit(&q);
}

static void check_wrong(
        const char *template, bool json, const char *line, int code, const char *why) {
        struct question q;
        struct err e;

        assert_int_equal(question_make(&q, template, json, line, strlen(line), 20, &e), -code);
        assert_null(q.text);
        assert_non_null(strstr(e.msg, why));
        question_deinit(&q);
}

static void test_plain(void **state) {
        check_made(NULL, false, "what {} is", "what {} is", NULL);
        check_made(NULL, false, " \t", NULL, NULL);
        check_made("Say {}: {}.", false, "{}a", "Say {}a: {}a.", NULL);
        check_made("{{}} {x} {{x}} { } {\"a\":{}}", false, "b", "{} {x} {{x}} { } {\"a\":b}", NULL);
        check_made("{", false, "b", "{", NULL);
        check_made("x", false, "", NULL, NULL);
        check_wrong(NULL, false, "123456789012345678901", ERR_TOO_LARGE, "longer than 20 bytes");
        check_wrong("", false, "b", ERR_INVALID, "the question is empty");
}

static void test_json(void **state) {
        check_made(NULL, true, "{\"message\":\"a\\nb\",\"id\":7}", "a\nb", "7");
        check_made(NULL, true, "{\"text\":\"t\",\"id\":{\"a\": [1]}}", "t", "{\"a\":[1]}");
        check_made("{}/{n}/{no_de-1}", true, "{\"text\":\"t\",\"n\":[1,2],\"no_de-1\":\"{}\"}",
                "t/[1,2]/{}", NULL);
        check_made("{{n}}", true, "{\"n\":1}", "{n}", NULL);
        check_made("{n", true, "{\"n\":1}", "{n", NULL);
        check_wrong("{n}", true, "{\"id\":3}", ERR_INVALID, "no member \"n\"");
        check_wrong(NULL, true, "{\"a\":1}", ERR_INVALID, "\"message\" or \"text\"");
        check_wrong(NULL, true, "[1]", ERR_INVALID, "has to be an object");
        check_wrong(NULL, true, "{\"message\":\" \"}", ERR_INVALID, "the question is empty");
        check_wrong(NULL, true, "{\"message\"", ERR_INVALID, "column ");
}

/* ---- lines ---- */

/* All lines of two files, written in pieces of @piece bytes; a bar behind each, "!" for one that is too long. */
static char *read_lines(const char *text, size_t piece, const char *second) {
        const char *paths[] = {"-", second};
        struct buf b = BUF_NULL;
        size_t at = 0, size;
        struct lines l;
        char *line;
        int fds[2], r;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
        close(fds[0]);
        lines_init(&l, paths, second ? 2 : 1, 8);
        while (!lines_end(&l)) {
                size_t n = MIN(piece, strlen(text) - at);

                if (n > 0)
                        assert_int_equal(write(fds[1], text + at, n), n);
                else if (fds[1] >= 0)
                        close(fds[1]);
                fds[1] = n > 0 ? fds[1] : -1;
                at += n;
                assert_int_equal(lines_fill(&l, NULL), 0);
                while ((r = lines_next(&l, &line, &size, NULL)) > 0) {
                        assert_int_equal(buf_printf(&b, "%s|", r == 2 ? "!" : line), 0);
                        if (r == 1) {
                                assert_int_equal(strlen(line), size);
                                free(line);
                        }
                }
                assert_int_equal(r, 0);
        }
        lines_deinit(&l);
        return buf_take(&b, NULL);
}

static void check_lines(const char *text, const char *second, const char *expected) {
        for (size_t piece = 1; piece < 12; piece++) {
                char *got = read_lines(text, piece, second);

                assert_string_equal(got, expected);
                free(got);
        }
}

static void test_lines(void **state) {
        char path[] = "/tmp/test-questions-XXXXXX";
        int fd = mkstemp(path), in = dup(STDIN_FILENO);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x\nlast", 6), 6);
        check_lines("", NULL, "");
        check_lines("a\n\r\n\nb\r\nc\rd", NULL, "a|||b|c\rd|");
        check_lines("12345678\n123456789\n1\n", NULL, "12345678|!|1|");
        check_lines("1\n12345678901234567890", NULL, "1|!|");
        check_lines("1234567890123456\n2", path, "!|2|x|last|");
        close(fd);
        unlink(path);
        dup2(in, STDIN_FILENO);
        close(in);
}

static void test_no_file(void **state) {
        const char *paths[] = {"/does/not/exist"};
        struct lines l;
        struct err e;

        lines_init(&l, paths, 1, 8);
        assert_int_equal(lines_fill(&l, &e), -ERR_SYS);
        assert_non_null(strstr(e.msg, "/does/not/exist"));
        assert_true(lines_end(&l));
        lines_deinit(&l);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_no_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
