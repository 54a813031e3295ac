/* SPDX-License-Identifier: MIT */
#include "base/sampling.h"
#include "util/test.h"

static struct sampling filled(float v, uint32_t has) {
        struct sampling s = {.has = has,
                .temperature = v,
                .top_p = v,
                .min_p = v,
                .repetition_penalty = v,
                .presence_penalty = v,
                .frequency_penalty = v,
                .top_k = (uint32_t)v,
                .penalty_last_n = (uint32_t)v,
                .seed = (uint64_t)v,
                .n_biases = (uint32_t)v};

        for (uint32_t i = 0; i < SAMPLING_MAX_BIASES; i++)
                s.biases[i] = (struct sampling_bias){(int32_t)v, v};
        return s;
}

/* Each field alone is taken over when it is set, and nothing else is. */
static void test_merge(void **state) {
        for (uint32_t bit = 1; bit <= SAMPLING_BIASES; bit <<= 1) {
                struct sampling s = filled(1, SAMPLING_SEED), over = filled(2, bit);

                sampling_merge(&s, &over);
                assert_int_equal(s.has, SAMPLING_SEED | bit);
                assert_true(s.temperature == (bit == SAMPLING_TEMPERATURE ? 2 : 1));
                assert_int_equal(s.top_k, bit == SAMPLING_TOP_K ? 2 : 1);
                assert_true(s.top_p == (bit == SAMPLING_TOP_P ? 2 : 1));
                assert_true(s.min_p == (bit == SAMPLING_MIN_P ? 2 : 1));
                assert_true(s.repetition_penalty == (bit == SAMPLING_REPETITION ? 2 : 1));
                assert_true(s.presence_penalty == (bit == SAMPLING_PRESENCE ? 2 : 1));
                assert_true(s.frequency_penalty == (bit == SAMPLING_FREQUENCY ? 2 : 1));
                assert_int_equal(s.penalty_last_n, bit == SAMPLING_LAST_N ? 2 : 1);
                assert_int_equal(s.seed, bit == SAMPLING_SEED ? 2 : 1);
                assert_int_equal(s.n_biases, bit == SAMPLING_BIASES ? 2 : 1);
                assert_int_equal(s.biases[0].token, bit == SAMPLING_BIASES ? 2 : 1);
        }
}

static void test_nothing_set(void **state) {
        struct sampling s = filled(1, SAMPLING_BIASES), over = filled(2, 0);

        sampling_merge(&s, &over);
        assert_int_equal(s.has, SAMPLING_BIASES);
        assert_true(s.temperature == 1);
        assert_int_equal(s.n_biases, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_merge),
                cmocka_unit_test(test_nothing_set),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
