/* SPDX-License-Identifier: MIT */
#include "sample/rank.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

static void test_sorts_with_ties(void **state) {
        struct candidate items[60];
        uint64_t x = 5;

        for (size_t n = 1; n <= 60; n++) {
                struct rank rank;

                for (size_t i = 0; i < n; i++) {
                        x = x * 6364136223846793005 + 1442695040888963407;
                        items[i] = (struct candidate){(double)(x >> 61), (int32_t)i};
                }
                if (n > 3)
                        items[3].logit = -(double)INFINITY;
                rank_init(&rank, items, n);
                for (size_t i = 0; i < n; i++) {
                        const struct candidate *c = rank_take(&rank);

                        assert_ptr_equal(c, rank_taken(&rank, i));
                        if (i)
                                assert_true(rank_better(rank_taken(&rank, i - 1), c));
                }
                assert_int_equal(rank.left, 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorts_with_ties)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
