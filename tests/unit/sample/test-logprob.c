/* SPDX-License-Identifier: MIT */
#include "sample/sample.h"
#include "util/test.h"
#include <math.h>

static void test_plain(void **state) {
        static const float logits[] = {0, 0, 0, 0};
        static const float two[] = {1, 0};

        for (int t = 0; t < 4; t++)
                assert_true(sample_logprob(logits, 4, t) == (float)-log(4));
        assert_true(fabsf(sample_logprob(two, 2, 0) + (float)log1p(exp(-1))) < 1e-7f);
        assert_true(fabsf(sample_logprob(two, 2, 1) + 1 + (float)log1p(exp(-1))) < 1e-7f);
}

static void test_sums_to_one(void **state) {
        float logits[500];
        double sum = 0;

        for (int i = 0; i < 500; i++)
                logits[i] = (float)((i * 7919) % 1000) / 37 - 400;
        for (int i = 0; i < 500; i++)
                sum += exp((double)sample_logprob(logits, 500, i));
        assert_true(fabs(sum - 1) < 1e-5);
}

static void test_extremes(void **state) {
        static const float big[] = {3e38f, -3e38f, 3e38f};
        static const float infinite[] = {INFINITY, 1, INFINITY, NAN, -INFINITY};
        static const float nothing[] = {-INFINITY, NAN};

        assert_true(sample_logprob(big, 3, 0) == (float)-log(2));
        assert_true(sample_logprob(big, 3, 1) == -INFINITY || sample_logprob(big, 3, 1) < -1e38f);
        assert_true(sample_logprob(infinite, 5, 0) == (float)-log(2));
        assert_true(sample_logprob(infinite, 5, 1) == -INFINITY);
        assert_true(sample_logprob(infinite, 5, 3) == -INFINITY);
        assert_true(sample_logprob(infinite, 5, 4) == -INFINITY);
        assert_true(sample_logprob(nothing, 2, 0) == -INFINITY);
        assert_true(sample_logprob(nothing, 2, 1) == -INFINITY);
}

static void test_top(void **state) {
        static const float logits[] = {1, 3, NAN, 3, -INFINITY, 2};
        static const int32_t order[] = {1, 3, 5, 0, 2, 4}; /* ties and worthless ones by id */
        struct sample_logprob out[6];
        struct sample_work *w;

        assert_int_equal(sample_work_new(&w, 6, NULL), 0);
        for (size_t top = 0; top <= 6; top++) {
                for (int32_t token = 0; token < 6; token++) {
                        float one = sample_top_logprobs(w, logits, 6, token, top, out);

                        assert_true(one == sample_logprob(logits, 6, token));
                }
                for (size_t i = 0; i < top; i++) {
                        assert_int_equal(out[i].token, order[i]);
                        assert_true(out[i].logprob == sample_logprob(logits, 6, order[i]));
                }
        }
        assert_null(sample_work_free(w));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_sums_to_one),
                cmocka_unit_test(test_extremes),
                cmocka_unit_test(test_top),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
