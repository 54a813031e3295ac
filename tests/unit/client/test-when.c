/* SPDX-License-Identifier: MIT */
/* Ages, times, and words, as users type them. */
#include "client/cli-when.h"
#include "client/cli-words.h"
#include "client/cli.h"
#include "util/test.h"
#include <locale.h>
#include <string.h>
#include <time.h>

const struct cli_command *const cli_commands[] = {NULL};

#define USEC 1000000ull

static void test_ages(void **state) {
        static const struct {
                const char *s;
                uint64_t seconds;
        } good[] = {{"0s", 0}, {"90s", 90}, {"15m", 900}, {"12h", 43200}, {"30d", 2592000},
                {"2w", 1209600}, {"007d", 604800}, {"5000w", 3024000000}};
        static const char *const bad[] = {"", "30", "d", "-1d", "+1d", " 1d", "1 d", "1d ", "1D",
                "1y", "1.5h", "1h30m", "0x1d", "6000w", "99999999999999999999s",
                "18446744073709551617s"};
        uint64_t usec = 7;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                assert_true(when_parse_age(good[i].s, &usec));
                assert_int_equal(usec, good[i].seconds * USEC);
        }
        usec = 7;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(when_parse_age(bad[i], &usec));
        assert_int_equal(usec, 7);
}

static void test_times(void **state) {
        static const uint64_t now = 1700000000 * USEC; /* 2023-11-14 22:13:20 UTC */
        static const struct {
                const char *s;
                uint64_t seconds;
        } good[] = {{"1h", 1699996400}, {"0s", 1700000000}, {"2023-11-14", 1699920000},
                {"2023-11-14 22:13", 1699999980}, {"2023-11-14T22:13", 1699999980},
                {"2023-11-14 22:13:20", 1700000000}, {"2023-11-14T22:13:20", 1700000000},
                {"22:13", 1699999980}, {"1970-01-01", 0}, {"5000w", 0}};
        static const char *const bad[] = {"", " 1h", "yesterday", "2023-13-01", "2023-11-14 25:00",
                "2023-11-14 ", "22:13:20:1", "1960-01-01", "11/14/2023"};
        uint64_t usec = 7;
        char text[32];

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                assert_true(when_parse(good[i].s, now, &usec));
                assert_int_equal(usec, good[i].seconds * USEC);
        }
        usec = 7;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(when_parse(bad[i], now, &usec));
        assert_int_equal(usec, 7);
        assert_string_equal(when_format(text, now), "2023-11-14 22:13:20");
        assert_string_equal(when_format(text, UINT64_MAX), "586524-01-19 08:01:49");
}

/* What is printed is taken again. */
static void test_age_texts(void **state) {
        static const uint64_t seconds[] = {0, 1, 59, 60, 61, 3600, 86400, 604800, 1209600, 90000};
        static const char *const texts[] = {
                "0s", "1s", "59s", "1m", "61s", "1h", "1d", "1w", "2w", "25h"};
        uint64_t usec;
        char text[16];

        for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
                assert_string_equal(when_format_age(text, seconds[i]), texts[i]);
                assert_true(when_parse_age(text, &usec));
                assert_int_equal(usec, seconds[i] * USEC);
        }
}

static bool fits(const char *words, const char *text, size_t size) {
        struct cli_words *w = words_new(words);
        struct confab_turn turn = {.text = {(const uint8_t *)text, size}};
        bool r;

        assert_non_null(w);
        r = words_fit(w, &turn);
        words_free(w);
        return r;
}
#define FITS(words, text) fits(words, text, strlen(text))

static void test_words(void **state) {
        char many[400] = "";

        assert_true(FITS("cat", "My Cat."));
        assert_true(FITS("CAT my", "my 'cats' sleep"));
        assert_true(FITS("cat, tom!", "Tom is a cat"));
        assert_true(FITS("\xc3\x84rger", "gro\xc3\x9f"
                                         "er \xc3\xa4rger"));
        assert_true(FITS("3", "in 365 days"));
        assert_true(FITS("a", "x a"));
        assert_true(FITS("cat cat", "cat")); /* one place may serve two words */
        assert_false(FITS("cat", "concat"));
        assert_false(FITS("cats", "cat"));
        assert_false(FITS("cat dog", "cat"));
        assert_false(FITS("cat", ""));
        assert_false(fits("cat", "ca\xfft", 4));
        assert_true(fits("t", "ca\xfft", 4)); /* a bad byte ends a word */
        assert_true(fits("b", "a\0b", 3));
        assert_true(words_valid("?a"));
        assert_false(words_valid("?! \xff"));
        assert_false(words_valid(""));
        for (size_t i = 0; i < 100; i++) /* more words than are looked for */
                strcat(many, "ab ");
        assert_true(FITS(many, "abc"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ages),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_age_texts),
                cmocka_unit_test(test_words),
        };

        setenv("TZ", "UTC", 1);
        tzset();
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
