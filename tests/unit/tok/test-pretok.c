/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#include "tok/tok-internal.h"
#include "unit/tok/pretok-data.h"

#define MAX_READS 4 /* of each byte, by each rule */

static struct tok_pretok *open_row(const struct tok_pretok_row *row) {
        struct tok_pretok *p = NULL;
        struct err e = {0};

        if (tok_pretok_new(&p, row, &e) < 0)
                fail_msg("%s: %s", row->names, e.msg);
        return p;
}

struct joined {
        struct buf text;
        unsigned n;
};

static int put_joined(void *userdata, const char *text, size_t n, struct err *e) {
        struct joined *j = userdata;

        if (j->n++ > 0)
                buf_append_str(&j->text, "|");
        return buf_append(&j->text, text, n);
}

/* The pieces joined by '|'. */
static void assert_split(const char *pre, const char *text, const char *want) {
        const struct tok_pretok_row *row = tok_pretok_find(pre, strlen(pre));
        struct joined j = {.text = BUF_NULL};
        struct tok_work w = {0};
        struct tok_pretok *p;

        assert_non_null(row);
        p = open_row(row);
        assert_int_equal(tok_pretok_each(p, &w, text, strlen(text), put_joined, &j, NULL), 0);
        if (strcmp((char *)j.text.data, want) != 0)
                fail_msg("%s: \"%s\" is not \"%s\"", pre, (char *)j.text.data, want);
        buf_deinit(&j.text);
        tok_work_deinit(&w);
        tok_pretok_free(p);
}

static void test_names(void **state) {
        size_t n = 0;

        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                const char *p = tok_pretok_table[i].names;

                while (*p) {
                        size_t len = strcspn(p, " ");

                        assert_ptr_equal(tok_pretok_find(p, len), &tok_pretok_table[i]);
                        n++;
                        p += len + strspn(p + len, " ");
                }
        }
        assert_int_equal(n, 87);
        assert_null(tok_pretok_find("", 0));
        assert_null(tok_pretok_find("gpt-2 mpt", 9));
        assert_null(tok_pretok_find("gpt", 3));
}

static void test_splits(void **state) {
        assert_split("gpt-2", "Hello  world's 123!\n\n a", "Hello| | world|'s| 123|!|\n\n| a");
        assert_split("llama-bpe", "I'LL take 12345  of\n them.\n",
                "I|'LL| take| |123|45| | of|\n| them|.\n");
        assert_split("qwen2", "a12 \n\n  b", "a|1|2| \n\n| | b");
        assert_split("starcoder", "a 12", "a| |1|2");
        assert_split("default", "a+b 1234", "a|+|b| |123|4");
        assert_split("falcon", "a`b 1234", "a|`|b| |123|4");
        assert_split("tekken", "camelCase 42", "camel|Case| |4|2");
        assert_split("gpt-4o", "HTTPServer's", "HTTPServer's");
        assert_split("deepseek-llm", "a b   ", "a| b|   ");
        assert_split("deepseek-v3", "1234 \xe4\xb8\xad\xe6\x96\x87 a",
                "123|4| |\xe4\xb8\xad\xe6\x96\x87| a");
        assert_split("kimi-k2",
                "  \xe4\xb8\xad\xe6\x96\x87"
                "abc",
                " | |\xe4\xb8\xad\xe6\x96\x87|abc");
        assert_split("bloom", "a, b.", "a|,| b|.");
        assert_split("laguna", "a\n\nb", "a|\n\n|b");
}

static void test_digits(void **state) {
        assert_split("tiny_aya", "1234567 12345 12", "1|234|567| |12|345| |12");
        assert_split("tiny_aya", "12345x", "123|45|x"); /* a letter follows: from the left */
        assert_split("tiny_aya", "x12345", "x|12|345");
        assert_split("superbpe", "a12345, 123", "a|12|345|, |123");
        /* Arabic-Indic digits have two bytes. */
        assert_split("superbpe", "\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4",
                "\xd9\xa1|\xd9\xa2\xd9\xa3\xd9\xa4");
}

/* \s is White_Space: with NEL and the ideographic space, without U+180E and U+001C. */
static void test_white_space(void **state) {
        assert_split("gpt-2", "\xc2\x85\xe3\x80\x80 a", "\xc2\x85\xe3\x80\x80| a");
        assert_split("gpt-2", " \xe1\xa0\x8e!", " \xe1\xa0\x8e!");
        assert_split("gpt-2", " \x1c!", " \x1c!");
}

/* Pieces follow one another, and none is empty. */
static int put_next(void *userdata, const char *text, size_t n, struct err *e) {
        const char **at = userdata;

        assert_ptr_equal(text, *at);
        assert_true(n > 0);
        *at += n;
        return 0;
}

static int put_two(void *userdata, const char *text, size_t n, struct err *e) {
        int *left = userdata;

        return (*left)-- > 0 ? 0 : -ERR_CANCELLED;
}

/* The receiver ends it, in the middle of any rule. */
static void test_ended(void **state) {
        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                struct tok_pretok *p = open_row(&tok_pretok_table[i]);
                struct tok_work w = {0};
                int left = 2;

                assert_int_equal(tok_pretok_each(p, &w, "a 12345678 b,c\n12345678 d", 25, put_two,
                                         &left, NULL),
                        -ERR_CANCELLED);
                assert_int_equal(left, -1);
                tok_work_deinit(&w);
                tok_pretok_free(p);
        }
}

/* All rules on texts made to be hard: pieces cover the text, and no rule reads it more than a few
 * times, however long it is. */
static void test_no_stall(void **state) {
        static const char *const patterns[] = {"a", "A", " ", "\n", "9", "'", "a ", "A.", "9 ",
                " \n", "\xcc\x81", "\xe4\xb8\xad", "\xc7\x85", "\xc2\xa0", "<sentinel:9999",
                "  \n ",
                "\xca\xb0"
                "A",
                "\xca\xb0"
                "AAAAAAAA",
                "a'r", "aA", ".\n", ". ", "\r", "\t ", "1a", "IMGIMGABCD", "a b\xcc\x81 ",
                "\xd9\xa1"
                "2_",
                "/\n/", "'l", "\xe3\x80\x80"};
        const size_t n = 60000;
        _cleanup_(freep) char *text = malloc(n + 1);

        assert_non_null(text);
        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                struct tok_pretok *p = open_row(&tok_pretok_table[i]);
                size_t n_rules = 0;

                while (n_rules < TOK_PRETOK_MAX_RULES && tok_pretok_table[i].rules[n_rules])
                        n_rules++;
                for (size_t k = 0; k < sizeof(patterns) / sizeof(patterns[0]); k++) {
                        size_t len = strlen(patterns[k]), size = n / len * len;
                        struct tok_work w = {0};
                        const char *at = text;

                        for (size_t m = 0; m < size; m++)
                                text[m] = patterns[k][m % len];
                        text[size++] = 'x';
                        assert_int_equal(
                                tok_pretok_each(p, &w, text, size, put_next, &at, NULL), 0);
                        assert_ptr_equal(at, text + size);
                        if (w.n_read > MAX_READS * n_rules * size)
                                fail_msg("%s: \"%s\": %zu bytes read of %zu",
                                        tok_pretok_table[i].names, patterns[k], (size_t)w.n_read,
                                        size);
                        tok_work_deinit(&w);
                }
                tok_pretok_free(p);
        }
}

/* --- against what Python's regex module finds (make-pretok.py) --- */

struct sizes {
        const char *at; /* in pretok_splits[].sizes */
        bool wrong;
};

static int put_size(void *userdata, const char *text, size_t n, struct err *e) {
        struct sizes *s = userdata;
        char *end;

        s->wrong = s->wrong || strtoul(s->at, &end, 10) != n;
        if (!s->wrong)
                s->at = *end == ' ' ? end + 1 : end;
        return 0;
}

static void test_python(void **state) {
        size_t n_rows = sizeof(pretok_splits) / sizeof(pretok_splits[0]);

        assert_int_equal(n_rows, tok_pretok_table_size);
        for (size_t i = 0; i < n_rows; i++) {
                const char *name = pretok_splits[i].name;
                const struct tok_pretok_row *row = tok_pretok_find(name, strlen(name));
                struct sizes s = {.at = pretok_splits[i].sizes};
                struct tok_work w = {0};
                struct tok_pretok *p;

                assert_non_null(row);
                p = open_row(row);
                for (size_t k = 0; k < sizeof(pretok_texts) / sizeof(pretok_texts[0]); k++) {
                        tok_pretok_each(p, &w, pretok_texts[k].text, pretok_texts[k].size, put_size,
                                &s, NULL);
                        if (s.wrong || (*s.at != ',' && *s.at != 0))
                                fail_msg("%s: text %zu \"%s\" is cut wrongly", name, k,
                                        pretok_texts[k].text);
                        s.at += *s.at == ',';
                }
                assert_int_equal(*s.at, 0);
                tok_work_deinit(&w);
                tok_pretok_free(p);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_splits),
                cmocka_unit_test(test_digits),
                cmocka_unit_test(test_white_space),
                cmocka_unit_test(test_ended),
                cmocka_unit_test(test_no_stall),
                cmocka_unit_test(test_python),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
