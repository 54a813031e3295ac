/* SPDX-License-Identifier: MIT */
/* Prompts become texts, texts titles; what is noted about a conversation. */
#include "base/cleanup.h"
#include "base/util.h"
#include "client/acp/content.h"
#include "client/acp/note.h"
#include "util/test.h"
#include <locale.h>

static struct json_value *parse_value(const char *text) {
        struct json_value *value = NULL;

        assert_int_equal(json_tree_parse(&value, text, strlen(text), NULL), 0);
        return value;
}

static void check_text_n(const char *blocks, const char *expected, size_t size) {
        struct json_value *value = parse_value(blocks);
        _cleanup_(freep) char *text = NULL;
        struct acp_failure failure;
        size_t n;

        assert_int_equal(acp_content_text(value, &text, &n, &failure), 0);
        assert_int_equal(n, size);
        assert_memory_equal(text, expected, size + 1);
        json_tree_free(value);
}

static void check_text(const char *blocks, const char *expected) {
        check_text_n(blocks, expected, strlen(expected));
}

static void test_text(void **state) {
        check_text("[{\"type\":\"text\",\"text\":\" a\\n\"}]", " a\n");
        check_text(
                "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]", "a\nb");
        check_text("[{\"type\":\"text\",\"text\":\"a\\n\"},{\"type\":\"text\",\"text\":\"b\"}]",
                "a\nb");
        check_text("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"}]", "a");
        check_text("[{\"type\":\"text\",\"text\":\"see \",\"annotations\":{}},"
                   "{\"type\":\"resource_link\",\"uri\":\"file:///x\",\"name\":\"x\",\"size\":7},"
                   "{\"type\":\"text\",\"text\":\" now\"}]",
                "see [@x](file:///x) now");
        check_text("[{\"type\":\"resource_link\",\"uri\":\"u\"}]", "[@u](u)");
        check_text("[{\"type\":\"text\",\"text\":\"see\"},"
                   "{\"type\":\"resource\",\"resource\":{\"uri\":\"u\",\"text\":\"line\"}},"
                   "{\"type\":\"text\",\"text\":\"ok?\"}]",
                "see\n<context ref=\"u\">\nline\n</context>\nok?");
        check_text("[{\"type\":\"resource\",\"resource\":{\"uri\":\"u\",\"text\":\"line\\n\"}}]",
                "<context ref=\"u\">\nline\n</context>\n");
        check_text("[{\"type\":\"resource\",\"resource\":{\"uri\":\"u\",\"text\":\"\"}}]",
                "<context ref=\"u\">\n</context>\n");
        check_text_n("[{\"type\":\"text\",\"text\":\"a\\u0000b\"}]", "a\0b", 3);
}

static void test_refused(void **state) {
        static const struct {
                const char *blocks, *words;
        } cases[] = {
                {"[]", "prompt has no text"},
                {"[{\"type\":\"text\",\"text\":\" \\n\"}]", "prompt has no text"},
                {"[7]", "prompt[0] is an object"},
                {"[{\"type\":\"text\",\"text\":\"a\"},{}]", "prompt[1]: type is missing"},
                {"[{\"type\":7}]", "prompt[0]: type is a string"},
                {"[{\"type\":\"text\"}]", "prompt[0]: text is missing"},
                {"[{\"type\":\"text\",\"text\":7}]", "prompt[0]: text is a string"},
                {"[{\"type\":\"image\",\"data\":\"\"}]", "prompt[0]: blocks of type image are not "
                                                         "taken, only text, resource_link and "
                                                         "resource"},
                {"[{\"type\":\"audio\",\"data\":\"\"}]", "prompt[0]: blocks of type audio are not "
                                                         "taken, only text, resource_link and "
                                                         "resource"},
                {"[{\"type\":\"resource_link\"}]", "prompt[0]: uri is missing"},
                {"[{\"type\":\"resource_link\",\"uri\":\"u\",\"name\":7}]",
                        "prompt[0]: name is a string"},
                {"[{\"type\":\"resource\"}]", "prompt[0]: resource is missing"},
                {"[{\"type\":\"resource\",\"resource\":7}]", "prompt[0]: resource is an object"},
                {"[{\"type\":\"resource\",\"resource\":{\"text\":\"\"}}]",
                        "prompt[0]: uri is missing"},
                {"[{\"type\":\"resource\",\"resource\":{\"uri\":\"u\"}}]",
                        "prompt[0]: text is missing"},
                {"[{\"type\":\"resource\",\"resource\":{\"uri\":\"u\",\"blob\":\"\"}}]",
                        "prompt[0]: resource has a blob, and only text is taken"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct json_value *value = parse_value(cases[i].blocks);
                struct acp_failure failure;
                char *text = NULL;
                size_t n = 7;

                assert_int_equal(acp_content_text(value, &text, &n, &failure), -1);
                assert_int_equal(failure.code, ACP_CODE_PARAMS);
                assert_string_equal(failure.message, cases[i].words);
                assert_null(text);
                assert_int_equal(n, 7);
                json_tree_free(value);
        }
}

static void check_title(const char *text, const char *expected) {
        char title[ACP_TITLE_SIZE];

        acp_content_title(title, text, strlen(text));
        assert_string_equal(title, expected);
}

#define TEN "0123456789"
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN
#define MORE "\xe2\x80\xa6"

static void test_title(void **state) {
        char many[4000], title[ACP_TITLE_SIZE];

        check_title("Hello", "Hello");
        check_title("\n \t\n  Hello there \r\nand more", "Hello there");
        check_title("", "");
        check_title(" \n\t ", "");
        check_title("a\tb\x1b[2J\x7f\xc2\x85.", "a b [2J  .");
        check_title(SEVENTY TEN, SEVENTY TEN);
        check_title(SEVENTY TEN "x", SEVENTY "012345678" MORE);
        check_title(SEVENTY "012345678\xe4\xb8\xad", SEVENTY "012345678" MORE);
        check_title(SEVENTY "01234567\xe4\xb8\xad", SEVENTY "01234567\xe4\xb8\xad");
        check_title(SEVENTY "01234567\xe4\xb8\xad.", SEVENTY "01234567" MORE);
        /* characters without width: bytes are bounded, too, and none is cut */
        memset(many, 'e', sizeof(many));
        for (size_t i = 1; i + 2 < sizeof(many); i += 2)
                memcpy(many + i, "\xcc\x81", 2);
        acp_content_title(title, many, sizeof(many) - 1);
        assert_true(strlen(title) > 500 && strlen(title) < ACP_TITLE_SIZE);
        assert_string_equal(title + strlen(title) - 5, "\xcc\x81" MORE);
}

static void check_cwd(const char *metadata, const char *expected) {
        _cleanup_(freep) char *cwd = NULL;

        assert_int_equal(acp_note_cwd(metadata, &cwd), 0);
        if (expected)
                assert_string_equal(cwd, expected);
        else
                assert_null(cwd);
}

static void check_metadata(const char *metadata, const char *expected) {
        _cleanup_(freep) char *got = NULL;

        assert_int_equal(acp_note_metadata(metadata, "/new", &got), 0);
        assert_string_equal(got, expected);
}

static void test_note(void **state) {
        static const char *const tags[] = {"x", ACP_TAG};
        struct confab_about about = {.tags = tags, .n_tags = 1};
        char deep[400] = "{\"a\":";

        assert_false(acp_note_has_tag(NULL));
        assert_false(acp_note_has_tag(&about));
        about.n_tags = 2;
        assert_true(acp_note_has_tag(&about));
        check_cwd(NULL, NULL);
        check_cwd("", NULL);
        check_cwd("no JSON", NULL);
        check_cwd("{\"cwd\":7}", NULL);
        check_cwd("{\"cwd\":\"relative\"}", NULL);
        check_cwd("{\"x\":1,\"cwd\":\"/home\"}", "/home");
        check_metadata(NULL, "{\"cwd\":\"/new\"}");
        check_metadata("", "{\"cwd\":\"/new\"}");
        check_metadata("[1]", "{\"cwd\":\"/new\"}");
        check_metadata(
                "{\"cwd\":\"/old\",\"x\":{\"y\":[1]}}", "{\"x\":{\"y\":[1]},\"cwd\":\"/new\"}");
        memset(deep + 5, '[', 63); /* the object is the 64th */
        memset(deep + 5 + 63, ']', 63);
        strcat(deep, "}");
        check_metadata(deep, "{\"cwd\":\"/new\"}");
        memset(deep + 5, '[', 100); /* more than is read */
        check_metadata(deep, "{\"cwd\":\"/new\"}");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_title),
                cmocka_unit_test(test_note),
        };

        if (!setlocale(LC_CTYPE, "C.UTF-8")) /* columns of characters */
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
