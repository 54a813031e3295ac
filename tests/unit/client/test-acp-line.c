/* SPDX-License-Identifier: MIT */
#include "client/acp/line.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

static void add(struct acp_lines *lines, const char *text) {
        assert_int_equal(acp_lines_add(lines, text, strlen(text)), 0);
}

static void expect_line(struct acp_lines *lines, bool ended, const char *text) {
        const char *line;
        size_t size;

        assert_int_equal(acp_lines_next(lines, ended, &line, &size), ACP_LINE_WHOLE);
        assert_int_equal(size, strlen(text));
        assert_memory_equal(line, text, size);
}

static void expect(struct acp_lines *lines, bool ended, enum acp_line kind) {
        const char *line;
        size_t size;

        assert_int_equal(acp_lines_next(lines, ended, &line, &size), kind);
}

static void test_lines(void **state) {
        struct acp_lines lines = ACP_LINES_NULL;

        expect(&lines, false, ACP_LINE_NONE);
        add(&lines, "one\ntwo\n\nthr");
        expect_line(&lines, false, "one");
        expect_line(&lines, false, "two");
        expect_line(&lines, false, "");
        expect(&lines, false, ACP_LINE_NONE);
        add(&lines, "e");
        expect(&lines, false, ACP_LINE_NONE);
        add(&lines, "e\nfour");
        expect_line(&lines, false, "three");
        expect(&lines, false, ACP_LINE_NONE);
        expect_line(&lines, true, "four");
        expect(&lines, true, ACP_LINE_NONE);
        acp_lines_deinit(&lines);
}

/* Lines of the longest size and one byte more, in pieces of @piece bytes, with short lines around them. */
static void check_long(size_t size, size_t piece, bool too_long) {
        struct acp_lines lines = ACP_LINES_NULL;
        char *text = malloc(size + 1);
        unsigned n_long = 0, n_whole = 0;
        const char *line;
        enum acp_line kind;

        assert_non_null(text);
        memset(text, 'x', size);
        text[size] = '\n';
        add(&lines, "before\n");
        expect_line(&lines, false, "before");
        for (size_t at = 0; at < size + 1; at += piece) {
                size_t n = size + 1 - at < piece ? size + 1 - at : piece, line_size;

                assert_int_equal(acp_lines_add(&lines, text + at, n), 0);
                assert_true(lines.data.size <= ACP_LINE_MAX + piece);
                while ((kind = acp_lines_next(&lines, false, &line, &line_size)) != ACP_LINE_NONE) {
                        n_long += kind == ACP_LINE_TOO_LONG;
                        n_whole += kind == ACP_LINE_WHOLE;
                        if (kind == ACP_LINE_WHOLE)
                                assert_int_equal(line_size, size);
                }
        }
        assert_int_equal(n_long, too_long);
        assert_int_equal(n_whole, !too_long);
        add(&lines, "behind\n");
        expect_line(&lines, false, "behind");
        acp_lines_deinit(&lines);
        free(text);
}

static void test_long(void **state) {
        static const size_t pieces[] = {64 << 10, ACP_LINE_MAX / 2, 2 * ACP_LINE_MAX};

        for (size_t i = 0; i < 3; i++) {
                check_long(ACP_LINE_MAX, pieces[i], false);
                check_long(ACP_LINE_MAX + 1, pieces[i], true);
                check_long(3 * ACP_LINE_MAX, pieces[i], true);
        }
}

/* The input ends inside a line that was too long: it is told once, and never handed out. */
static void test_long_end(void **state) {
        struct acp_lines lines = ACP_LINES_NULL;
        char *text = calloc(1, ACP_LINE_MAX + 1);

        assert_non_null(text);
        assert_int_equal(acp_lines_add(&lines, text, ACP_LINE_MAX + 1), 0);
        expect(&lines, false, ACP_LINE_TOO_LONG);
        add(&lines, "rest");
        expect(&lines, true, ACP_LINE_NONE);
        acp_lines_deinit(&lines);
        free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_long),
                cmocka_unit_test(test_long_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
