/* SPDX-License-Identifier: MIT */
/* Markdown on a terminal: what it looks like, and that it does not depend on the pieces it comes in. */
#include "base/cleanup.h"
#include "client/cli.h"
#include "client/markdown/markdown.h"
#include "util/test.h"
#include <locale.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {NULL};

#define BOLD "\033[0;1m"
#define ITALIC "\033[0;3m"
#define DIM "\033[0;2m"
#define CODE "\033[0;36m"
#define OFF "\033[0m"

static const struct markdown_options wide = {.columns = 80, .colours = true, .utf8 = true};

/* What becomes of @text, in pieces of @piece bytes: to be freed. */
static char *show(const struct markdown_options *o, const char *text, size_t n, size_t piece) {
        struct buf out = BUF_NULL;
        static struct markdown m;

        markdown_init(&m, o);
        for (size_t i = 0; i < n; i += piece)
                assert_int_equal(markdown_write(&m, &out, text + i, MIN(piece, n - i)), 0);
        assert_int_equal(markdown_end(&m, &out), 0);
        return buf_take(&out, NULL);
}

static void check_with(const struct markdown_options *o, const char *text, const char *expected) {
        for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
                _cleanup_(freep) char *got = show(o, text, strlen(text), piece);

                assert_string_equal(got, expected);
        }
}

static void check(const char *text, const char *expected) {
        check_with(&wide, text, expected);
}

static void test_words(void **state) {
        check("", "");
        check("a word", "a word\n");
        check("a word\n", "a word\n");
        check("a\nb\n\nc", "a\nb\n\nc\n");
        check("a  b\t.", "a  b    .\n");
        check("\n", "\n");
        check("h\xc3\xa9", "h\xc3\xa9\n");
}

static void test_emphasis(void **state) {
        check("a **bold** word", "a " BOLD "bold" OFF " word\n");
        check("*it* and _it_", ITALIC "it" OFF " and " ITALIC "it" OFF "\n");
        check("***both***", "\033[0;1;3mboth" OFF "\n");
        check("**a *b* c**", BOLD "a \033[0;1;3mb" BOLD " c" OFF "\n");
        check("__b__, ~~gone~~", BOLD "b" OFF ", \033[0;9mgone" OFF "\n");
        check("**`a*b`**!", "\033[0;1;36ma*b" OFF "!\n");
        check("\xe6\xbc\xa2**\xe5\xad\x97**\xe6\xbc\xa2",
                "\xe6\xbc\xa2" BOLD "\xe5\xad\x97" OFF "\xe6\xbc\xa2\n");
        /* none of these is one */
        check("2 * 3 * 4", "2 * 3 * 4\n");
        check("a * b* c and ** d**", "a * b* c and ** d**\n");
        check("2*3*4, 2**3**4, a*b*c", "2*3*4, 2**3**4, a*b*c\n");
        check("snake_case_name and a__b__c", "snake_case_name and a__b__c\n");
        check("**never closed", "**never closed\n");
        check("*a *b *c\n*d", "*a *b *c\n*d\n");
        check("a**** b", "a**** b\n");
        check("~one~", "~one~\n");
        check("\\*not\\* \\(x\\) \\\\", "*not* \\(x\\) \\\\\n");
        check("ends in *", "ends in *\n");
        check("ends in \\", "ends in \\\n");
}

static void test_code_and_links(void **state) {
        static const struct markdown_options plain = {.columns = 80};

        check("`x*y*z`", CODE "x*y*z" OFF "\n");
        check("`` a`b ``", CODE "a`b" OFF "\n");
        check("`open", "`open\n");
        check_with(&plain, "`x` **y**", "`x` " BOLD "y" OFF "\n");
        check("[text](http://a.b/c_d_e)!", "\033[0;4mtext" OFF " (http://a.b/c_d_e)!\n");
        check("[http://a](http://a)", "\033[0;4mhttp://a" OFF "\n");
        check("![alt](x(1).png)", "\033[0;4malt" OFF " (x(1).png)\n");
        check("[1] and a[i] = b", "[1] and a[i] = b\n");
        check("[a](b", "[a](b\n");
        check("Oh! [", "Oh! [\n");
}

static void test_blocks(void **state) {
        check("# One\n## Two\n", "\033[0;1;4mOne" OFF "\n" BOLD "Two" OFF "\n");
        check("#no heading\n#", "#no heading\n#\n");
        check("- a\n* b\n  + c\n", "\xe2\x80\xa2 a\n\xe2\x80\xa2 b\n  \xe2\x80\xa2 c\n");
        check("1. a\n12) b\n1.5 is no item", "1. a\n12) b\n1.5 is no item\n");
        check("3\n12\nx\n1.\n2", "3\n12\nx\n1.\n2\n");
        check("* 3\n-\n", "\xe2\x80\xa2 3\n-\n");
        check("* **b** c", "\xe2\x80\xa2 " BOLD "b" OFF " c\n");
        check("**b** first", BOLD "b" OFF " first\n");
        check("-5 and --- and -", "-5 and --- and -\n");
        check("> q\n> > r\n>\n", DIM "\xe2\x94\x82" OFF " q\n" DIM "\xe2\x94\x82" OFF " " DIM
                                     "\xe2\x94\x82" OFF " r\n" DIM "\xe2\x94\x82" OFF " \n");
        check("|a|b|\n|*-*|-|\n", "|a|b|\n|*-*|-|\n");
        check("a\n***\nb",
                "a\n" DIM "\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80"
                "\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80"
                "\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80"
                "\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80" OFF
                "\nb\n");
        check("    x = *a* # b\n", "    x = *a* # b\n");
        check("- a\n\n    still *it*", "\xe2\x80\xa2 a\n\n    still " ITALIC "it" OFF "\n");
}

static void test_fences(void **state) {
        static const struct markdown_options ascii = {.columns = 20};

        check_with(&ascii,
                "```c\nif (a) { *b = \"a line that is longer than the terminal\"; }\n\n  # "
                "x\n``\n```\n*x*",
                DIM
                "--- c" OFF
                "\nif (a) { *b = \"a line that is longer than the terminal\"; }\n\n  # x\n``\n" DIM
                "--------------------" OFF "\n" ITALIC "x" OFF "\n");
        check_with(&ascii, "~~~\n```\n~~~",
                DIM "--------------------" OFF "\n```\n" DIM "--------------------" OFF "\n");
        check_with(&ascii, "> ```sh\n> ls *\n> ```\n",
                DIM "|" OFF " " DIM "--- sh" OFF "\n" DIM "|" OFF " ls *\n" DIM "|" OFF " " DIM
                    "--------------------" OFF "\n");
        check_with(&ascii, "> ```\n> x\n*y*",
                DIM "|" OFF " " DIM "--------------------" OFF "\n" DIM "|" OFF " x\n" ITALIC
                    "y" OFF "\n");
        check("```never`closed` it is code", "```never" CODE "closed" OFF " it is code\n");
        check_with(&ascii, "```", DIM "--------------------" OFF "\n");
}

static void test_wrapping(void **state) {
        static const struct markdown_options narrow = {.columns = 10};

        check_with(&narrow, "one two three", "one two\nthree\n");
        check_with(&narrow, "1234567890 x", "1234567890\nx\n");
        check_with(&narrow, "a 12345678901234", "a\n1234567890\n1234\n");
        check_with(&narrow, "12345678901234", "1234567890\n1234\n");
        check_with(&narrow, "- one two three", "- one two\n  three\n");
        check_with(&narrow, "1. one two three", "1. one two\n   three\n");
        check_with(&narrow, "> one two three", DIM "|" OFF " one two\n" DIM "|" OFF " three\n");
        check_with(&narrow, "**one two three**", BOLD "one two" OFF "\n" BOLD "three" OFF "\n");
        /* wide ones take two columns, combining ones none, and stay with what they belong to */
        check_with(&narrow,
                "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2",
                "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\n\xe6\xbc\xa2\n");
        check_with(&narrow,
                "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe3\x80\x82",
                "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\n\xe6\xbc\xa2\xe3\x80\x82\n");
        check_with(&narrow, "12345678 e\xcc\x81xy", "12345678\ne\xcc\x81xy\n");
        check_with(&narrow, "1234567 e\xcc\x81x", "1234567 e\xcc\x81x\n");
}

static void test_controls(void **state) {
        check("a\033[2Jb\r", "a^[[2Jb^M\n");
        check("\xc2\x9b", "<U+009B>\n");
        check("```\033[1m\n\033[1m\n",
                DIM "\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80 ^[[1m" OFF "\n^[[1m\n");
        check("a\xff\xe6\xbc", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
        check("| \t\007|", "| \t^G|\n");
}

/* The size may change between two pieces, and somebody else may have written. */
static void test_changes(void **state) {
        struct buf out = BUF_NULL;
        static struct markdown m;

        markdown_init(&m, &wide);
        assert_int_equal(markdown_write(&m, &out, "one two three ", 14), 0);
        markdown_resize(&m, 16);
        assert_int_equal(markdown_write(&m, &out, "four five ", 10), 0);
        markdown_moved(&m);
        assert_int_equal(markdown_write(&m, &out, "seven eight nine", 16), 0);
        assert_int_equal(markdown_end(&m, &out), 0);
        assert_string_equal(out.data, "one two three\nfour five seven eight\nnine\n");
        out.size = 0;
        markdown_begin(&m, true, WRAP_DIM);
        assert_int_equal(markdown_write(&m, &out, "# *a*\n- b", 9), 0);
        assert_int_equal(markdown_end(&m, &out), 0);
        assert_string_equal(out.data, DIM "# *a*" OFF "\n" DIM "- b" OFF "\n");
        buf_deinit(&out);
}

/* What is held back is bounded: what can't be decided is shown as it came. */
static void test_bounds(void **state) {
        static const char *const marks[] = {
                "*", "`", "[", "[a](", "> ", "- ", "#", "1", "![", "\\", "|", " "};
        static char text[40000];

        for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
                _cleanup_(freep) char *once = NULL, *split = NULL;
                size_t n = 0;

                while (n + 8 < sizeof(text)) {
                        memcpy(text + n, marks[i], strlen(marks[i]));
                        n += strlen(marks[i]);
                        if (n > 300)
                                text[n++] = 'x';
                }
                once = show(&wide, text, n, n);
                split = show(&wide, text, n, 7);
                assert_string_equal(once, split);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_words),
                cmocka_unit_test(test_emphasis),
                cmocka_unit_test(test_code_and_links),
                cmocka_unit_test(test_blocks),
                cmocka_unit_test(test_fences),
                cmocka_unit_test(test_wrapping),
                cmocka_unit_test(test_controls),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_bounds),
        };

        setlocale(LC_CTYPE, "C.UTF-8"); /* the widths of characters */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
