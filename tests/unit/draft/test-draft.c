/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "draft/draft.h"
#include "util/test.h"

static struct draft *make(size_t n) {
        struct draft *d;
        struct err e;

        assert_int_equal(draft_new(&d, n, &e), 0);
        return d;
}

#define APPEND(d, ...)                                                                             \
        do {                                                                                       \
                const int32_t _t[] = {__VA_ARGS__};                                                \
                draft_append(d, _t, ARRAY_SIZE(_t));                                               \
        } while (0)

/* Whether a draft of up to @most tokens is just @want. */
static void expect(
        const struct draft *d, size_t most, const int32_t *want, size_t n, size_t match) {
        int32_t out[64];
        size_t got = 0;

        assert_int_equal(draft_find(d, most, out, &got), n);
        if (n > 0)
                assert_int_equal(got, match);
        assert_memory_equal(out, want, n * sizeof(*want));
}
#define EXPECT(d, most, match, ...)                                                                \
        do {                                                                                       \
                const int32_t _t[] = {__VA_ARGS__};                                                \
                expect(d, most, _t, ARRAY_SIZE(_t), match);                                        \
        } while (0)
#define EXPECT_NONE(d) expect(d, 8, NULL, 0, 0)

static void test_nothing_is_known(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(100);

        EXPECT_NONE(d);
        APPEND(d, 1, 2);
        EXPECT_NONE(d);
        APPEND(d, 3, 4, 5, 6, 2, 3);
        EXPECT_NONE(d); /* two match, that is too few */
}

static void test_goes_on_as_before(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(100);

        APPEND(d, 1, 2, 3, 10, 11, 12, 13, 1, 2, 3);
        EXPECT(d, 2, 3, 10, 11);
        EXPECT(d, 0, 3);
        /* Up to the end of what was said, and on from there. */
        EXPECT(d, 9, 3, 10, 11, 12, 13, 1, 2, 3, 10, 11);
}

static void test_what_repeats_goes_on_repeating(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(100);

        APPEND(d, 7, 7, 7, 7);
        EXPECT(d, 4, 3, 7, 7, 7, 7);
        APPEND(d, 5, 6, 7, 5, 6, 7, 5);
        EXPECT(d, 7, 5, 6, 7, 5, 6, 7, 5, 6);
}

static void test_the_longest_match_wins(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(100);

        APPEND(d, 9, 1, 2, 3, 20, 8, 1, 2, 3, 30, 4, 4, 9, 1, 2, 3);
        EXPECT(d, 1, 4, 20);
        draft_end_text(d);
        APPEND(d, 4, 1, 2, 3);
        EXPECT(d, 1, 3, 30); /* of equal ones the latest that goes on */
}

static void test_texts_do_not_run_together(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(100);

        APPEND(d, 1, 2, 3, 50);
        draft_end_text(d);
        draft_end_text(d);
        APPEND(d, 1, 2);
        draft_end_text(d);
        APPEND(d, 3, 60);
        EXPECT_NONE(d);
        draft_end_text(d);
        APPEND(d, 3, 50, 1, 2, 3);
        EXPECT(d, 8, 3, 50); /* the text ended there */
        draft_end_text(d);
        APPEND(d, 2, 3, 50);
        EXPECT_NONE(d); /* nothing followed */
}

static void test_long_matches_are_cut(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(1000);

        for (int round = 0; round < 2; round++)
                for (int32_t i = 0; i < 100; i++)
                        draft_append(d, &i, 1);
        EXPECT(d, 3, DRAFT_MOST, 0, 1, 2);
}

/* What was pushed out is not found, and what is left is. */
static void test_the_oldest_goes(void **state) {
        _cleanup_(draft_freep) struct draft *d = make(256);

        APPEND(d, 1001, 1002, 1003, 1004);
        for (int32_t i = 0; i < 250; i++)
                draft_append(d, &i, 1);
        APPEND(d, 1002, 1003, 1004); /* 257 tokens */
        EXPECT(d, 1, 3, 0);
        APPEND(d, 2000, 1001, 1002, 1003, 1004);
        EXPECT(d, 1, 3, 2000); /* the first place has lost its first token */
        for (int32_t i = 5000; i < 5254; i++)
                draft_append(d, &i, 1);
        APPEND(d, 1002, 1003, 1004);
        EXPECT_NONE(d);
}

static void test_size_is_bounded(void **state) {
        assert_true(draft_size(1) < 8192);
        assert_true(draft_size(1000) > draft_size(500));
        assert_int_equal(draft_size(SIZE_MAX), draft_size(DRAFT_CAPACITY));
        assert_true(draft_size(SIZE_MAX) < 1u << 20);
}

/* --- against a search that looks at everything --- */

#define LENGTH 2000
#define TEXTS 4

/* The longest match in the texts before the end, the latest of equal ones; texts end with -1. */
static size_t search(const int32_t *all, size_t n, size_t *ret_at) {
        size_t best = DRAFT_LEAST - 1;

        for (size_t at = n - 1; at-- > 0;) {
                size_t match = 0;

                while (match < DRAFT_MOST && match <= at && all[at - match] >= 0 &&
                        all[at - match] == all[n - 1 - match])
                        match++;
                if (match > best && all[at + 1] >= 0) {
                        best = match;
                        *ret_at = at;
                }
        }
        return best;
}

static void test_random_texts(void **state) {
        static int32_t all[LENGTH];
        uint64_t x = 3;

        for (int32_t n_tokens = 3; n_tokens <= 300; n_tokens *= 10) {
                _cleanup_(draft_freep) struct draft *d = make(LENGTH);
                size_t found = 0;

                for (size_t n = 0; n < LENGTH; n++) {
                        int32_t out[8];
                        size_t match = 0, at = 0, want, got;

                        x = x * 6364136223846793005 + 1442695040888963407;
                        /* Text that repeats itself in places, and few texts. */
                        all[n] = n > 50 && (x >> 60) > 4 && all[n - 41] >= 0
                                         ? all[n - 41]
                                         : (int32_t)((x >> 33) % (uint64_t)n_tokens);
                        if (n % (LENGTH / TEXTS) == LENGTH / TEXTS - 1) {
                                all[n] = -1;
                                draft_end_text(d);
                                continue;
                        }
                        draft_append(d, &all[n], 1);
                        got = draft_find(d, 8, out, &match);
                        want = search(all, n + 1, &at);
                        /* A walk looks at so many places only: with few tokens it may miss some. */
                        if (n_tokens == 3)
                                continue;
                        assert_int_equal(got > 0, want >= DRAFT_LEAST);
                        found += got > 0;
                        if (got > 0)
                                assert_int_equal(match, want);
                        for (size_t i = 0; i < got && at + 1 + i <= n; i++)
                                assert_int_equal(out[i], all[at + 1 + i]);
                }
                assert_true(n_tokens == 3 || found > LENGTH / 20);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_is_known),
                cmocka_unit_test(test_goes_on_as_before),
                cmocka_unit_test(test_what_repeats_goes_on_repeating),
                cmocka_unit_test(test_the_longest_match_wins),
                cmocka_unit_test(test_texts_do_not_run_together),
                cmocka_unit_test(test_long_matches_are_cut),
                cmocka_unit_test(test_the_oldest_goes),
                cmocka_unit_test(test_size_is_bounded),
                cmocka_unit_test(test_random_texts),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
