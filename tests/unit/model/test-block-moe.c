/* SPDX-License-Identifier: MIT */
#include "model/block-moe.h"

#include <math.h>

#include "util/test.h"

static void test_best_first(void **state) {
        const float probs[] = {0.1f, 0.4f, 0.05f, 0.3f, 0.15f};
        uint32_t expert[5];
        float weight[5];

        moe_choose(probs, 5, 2, 1.0f, expert, weight);
        assert_int_equal(expert[0], 1);
        assert_int_equal(expert[1], 3);
        assert_true(weight[0] == 0.4f / (0.4f + 0.3f));
        assert_true(weight[1] == 0.3f / (0.4f + 0.3f));
        moe_choose(probs, 5, 5, 1.0f, expert, weight);
        assert_int_equal(expert[4], 2);
        moe_choose(probs, 5, 1, 2.5f, expert, weight);
        assert_true(weight[0] == 2.5f);
}

static void test_ties_take_the_lower(void **state) {
        const float probs[] = {0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
        uint32_t expert[3];
        float weight[3];

        moe_choose(probs, 5, 3, 1.0f, expert, weight);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(expert[i], i);
}

static void test_broken_probabilities(void **state) {
        const float probs[] = {NAN, NAN, 0.0f, NAN};
        const float zeros[] = {0.0f, 0.0f, 0.0f};
        uint32_t expert[4], seen = 0;
        float weight[4];

        moe_choose(probs, 4, 4, 1.0f, expert, weight);
        for (int i = 0; i < 4; i++) {
                assert_in_range(expert[i], 0, 3);
                seen |= 1u << expert[i];
        }
        assert_int_equal(seen, 15);
        moe_choose(zeros, 3, 2, 1.0f, expert, weight);
        assert_true(weight[0] == 0.0f && weight[1] == 0.0f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_best_first),
                cmocka_unit_test(test_ties_take_the_lower),
                cmocka_unit_test(test_broken_probabilities),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
