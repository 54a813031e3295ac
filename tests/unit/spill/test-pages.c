/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include <string.h>

#include "base/util.h"
#include "spill/pages.h"
#include "util/test.h"

enum { N = 200 };

static void test_records(void **state) {
        struct spill_pages p = {0};

        assert_false(spill_pages_is_record(&p, 0, 1));
        assert_true(spill_pages_is_dead(&p, 0, SIZE_MAX));
        assert_int_equal(spill_pages_grow(&p, 70, NULL), 0);
        spill_pages_add(&p, 3, 2);
        spill_pages_add(&p, 5, 60);
        assert_true(spill_pages_is_record(&p, 3, 2));
        assert_true(spill_pages_is_record(&p, 5, 60));
        assert_false(spill_pages_is_record(&p, 3, 62));
        assert_false(spill_pages_is_record(&p, 3, 1));
        assert_false(spill_pages_is_record(&p, 4, 1));
        assert_false(spill_pages_is_record(&p, 2, 1));
        assert_false(spill_pages_is_record(&p, 5, 59));
        assert_false(spill_pages_is_record(&p, 5, 61));
        assert_false(spill_pages_is_record(&p, 5, 0));
        assert_false(spill_pages_is_record(&p, 5, SIZE_MAX));
        assert_false(spill_pages_is_record(&p, SIZE_MAX, 1));
        assert_int_equal(spill_pages_grow(&p, 1000, NULL), 0);
        assert_true(spill_pages_is_record(&p, 5, 60));
        spill_pages_remove(&p, 5, 60);
        assert_true(spill_pages_is_record(&p, 3, 2));
        assert_true(spill_pages_is_dead(&p, 5, 60));
        assert_false(spill_pages_is_dead(&p, 4, 60));
        spill_pages_deinit(&p);
}

/* What realloc() brings is not zero: pages behind the old end begin as nobody's. */
static void test_grown_over_old_bytes(void **state) {
        struct spill_pages p = {0};
        uint8_t *volatile dirty = malloc(1 << 16);

        assert_non_null(dirty);
        memset(dirty, 0xff, 1 << 16);
        free(dirty);
        assert_int_equal(spill_pages_grow(&p, 64, NULL), 0);
        assert_int_equal(spill_pages_grow(&p, 10000, NULL), 0);
        assert_true(spill_pages_is_dead(&p, 0, 10000));
        spill_pages_add(&p, 60, 9000);
        assert_true(spill_pages_is_record(&p, 60, 9000));
        spill_pages_deinit(&p);
}

/* Against one number per page. */
static void test_random(void **state) {
        struct spill_pages p = {0};
        unsigned owner[N] = {0}, next = 1;
        uint64_t x = 1;

        assert_int_equal(spill_pages_grow(&p, N, NULL), 0);
        for (unsigned step = 0; step < 3000; step++) {
                size_t at, n, i;
                bool dead = true, is;

                x = x * 6364136223846793005u + 1442695040888963407u;
                at = (x >> 33) % N;
                n = 1 + (x >> 50) % 7;
                n = MIN(n, N - at);
                for (i = at; i < at + n; i++)
                        dead = dead && owner[i] == 0;
                assert_int_equal(spill_pages_is_dead(&p, at, n), dead);
                is = owner[at] != 0 && (at == 0 || owner[at - 1] != owner[at]) &&
                     (at + n == N || owner[at + n] != owner[at]);
                for (i = at; i < at + n; i++)
                        is = is && owner[i] == owner[at];
                assert_int_equal(spill_pages_is_record(&p, at, n), is);
                if (dead)
                        spill_pages_add(&p, at, n);
                else if (is)
                        spill_pages_remove(&p, at, n);
                for (i = at; i < at + n && (dead || is); i++)
                        owner[i] = dead ? next : 0;
                next++;
                for (at = 0; spill_pages_next_gap(&p, &at, N, &n); at += n) {
                        assert_true(at == 0 || owner[at - 1] != 0);
                        assert_true(at + n == N || owner[at + n] != 0);
                        for (i = at; i < at + n; i++)
                                assert_int_equal(owner[i], 0);
                }
        }
        spill_pages_deinit(&p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_grown_over_old_bytes),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
