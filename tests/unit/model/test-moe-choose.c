/* SPDX-License-Identifier: MIT */
#include "model/moe-choose.h"

#include <math.h>
#include <string.h>

#include "kern/kern.h"
#include "util/test.h"

static struct kern *kern;

static int setup(void **state) {
        return kern_new(&kern, 1, KERN_N_ISA - 1, NULL);
}

static int teardown(void **state) {
        kern = kern_free(kern);
        return 0;
}

static struct hparams_experts rule(uint32_t n, uint32_t n_used) {
        return (struct hparams_experts){.n = n,
                .n_used = n_used,
                .n_group = 1,
                .n_group_used = 1,
                .renormalise = true,
                .scale = 1.0f};
}

static void choose(const struct hparams_experts *x, const float *logits, const float *bias,
        uint32_t *expert, float *weight) {
        float copy[HPARAMS_MAX_EXPERTS];

        memcpy(copy, logits, x->n * sizeof(*copy));
        moe_choose(kern, x, copy, bias, expert, weight);
}

static void near(double a, double b) {
        if (!(fabs(a - b) <= 1e-6))
                fail_msg("%.9g is not %.9g", a, b);
}

static double sigmoid(double x) {
        return 1 / (1 + exp(-x));
}

static void test_softmax(void **state) {
        const float logits[] = {0, 2, -1, 1.5f, 0.5f};
        struct hparams_experts x = rule(5, 2);
        double sum = 0;
        uint32_t expert[5];
        float weight[5];

        for (int i = 0; i < 5; i++)
                sum += exp(logits[i]);
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 1);
        assert_int_equal(expert[1], 3);
        near(weight[0], exp(2) / (exp(2) + exp(1.5)));
        near(weight[1], exp(1.5) / (exp(2) + exp(1.5)));
        x.renormalise = false;
        choose(&x, logits, NULL, expert, weight);
        near(weight[0], exp(2) / sum);
        near(weight[1], exp(1.5) / sum);
        x = rule(5, 5);
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[4], 2);
        x = rule(5, 1);
        x.scale = 2.5f;
        choose(&x, logits, NULL, expert, weight);
        assert_true(weight[0] == 2.5f);
}

static void test_sigmoid_with_bias(void **state) {
        const float logits[] = {0, 2, -1, 1.5f}, bias[] = {0, -1, 1, 0};
        struct hparams_experts x = rule(4, 2);
        uint32_t expert[2];
        float weight[2];

        x.router = ARCH_ROUTER_SIGMOID;
        x.renormalise = false;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 1);
        assert_int_equal(expert[1], 3);
        /* The bias chooses; weights are without it. */
        choose(&x, logits, bias, expert, weight);
        assert_int_equal(expert[0], 2);
        assert_int_equal(expert[1], 3);
        near(weight[0], sigmoid(-1));
        near(weight[1], sigmoid(1.5));
}

static void test_weights_of_the_chosen_only(void **state) {
        const float logits[] = {0, 2, -1, 1.5f};
        struct hparams_experts x = rule(4, 2);
        uint32_t expert[2];
        float weight[2];

        x.renormalise = false;
        x.router = ARCH_ROUTER_SOFTMAX_CHOSEN;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 1);
        near(weight[0], exp(2) / (exp(2) + exp(1.5)));
        x.router = ARCH_ROUTER_SIGMOID_INPUT;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[1], 3);
        near(weight[1], sigmoid(1.5));
}

static void test_groups(void **state) {
        /* The best expert is alone in a weak group. */
        const float logits[] = {3, -9, 1.2f, 2, 1.5f, 1.4f, -9, -9};
        struct hparams_experts x = rule(8, 2);
        uint32_t expert[2];
        float weight[2];

        x.router = ARCH_ROUTER_SIGMOID;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 0);
        x.n_group = 4;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 3);
        assert_int_equal(expert[1], 2);
        x.n_group_used = 2;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 3);
        assert_int_equal(expert[1], 4);
        /* Groups of one. */
        x.n_group = 8;
        choose(&x, logits, NULL, expert, weight);
        assert_int_equal(expert[0], 0);
        assert_int_equal(expert[1], 3);
}

static void test_ties_take_the_lower(void **state) {
        const float logits[] = {0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
        struct hparams_experts x = rule(5, 3);
        uint32_t expert[3];
        float weight[3];

        choose(&x, logits, NULL, expert, weight);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(expert[i], i);
}

static void test_broken_logits(void **state) {
        const float logits[] = {NAN, NAN, 0.0f, NAN}, low[] = {-1000, -1000, -1000};
        struct hparams_experts x = rule(4, 4);
        uint32_t expert[4], seen = 0;
        float weight[4];

        for (x.router = 0; x.router < ARCH_ROUTER_BY_KEY; x.router++) {
                seen = 0;
                choose(&x, logits, NULL, expert, weight);
                for (int i = 0; i < 4; i++) {
                        assert_in_range(expert[i], 0, 3);
                        seen |= 1u << expert[i];
                }
                assert_int_equal(seen, 15);
        }
        x = rule(3, 2);
        x.router = ARCH_ROUTER_SIGMOID;
        choose(&x, low, NULL, expert, weight);
        assert_true(weight[0] == 0.0f && weight[1] == 0.0f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_softmax),
                cmocka_unit_test(test_sigmoid_with_bias),
                cmocka_unit_test(test_weights_of_the_chosen_only),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_ties_take_the_lower),
                cmocka_unit_test(test_broken_logits),
        };
        return cmocka_run_group_tests(tests, setup, teardown);
}
