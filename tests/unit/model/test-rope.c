/* SPDX-License-Identifier: MIT */
#include "model/rope.h"

#include <math.h>

#include "base/err.h"
#include "base/util.h"
#include "model/hparams.h"
#include "util/test.h"

static struct hparams_rope plain(void) {
        return (struct hparams_rope){.n_rot = 32,
                .base = 10000.0,
                .factor = 1.0,
                .attn_factor = 1.0,
                .scaling = HPARAMS_ROPE_LINEAR,
                .orig_context = 4096,
                .beta_fast = 32.0,
                .beta_slow = 1.0};
}

static void near(double a, double b, double tolerance) {
        if (!(fabs(a - b) <= tolerance))
                fail_msg("%.17g is not %.17g", a, b);
}

/* Against libm, which only a test may use. */
static void check_table(const struct rope *r, const double *freq, double magnitude) {
        static const uint32_t pos[] = {0, 1, 31, 32, 4095, 100000};
        float c[ARRAY_SIZE(pos) * 16], s[ARRAY_SIZE(pos) * 16];

        rope_table(r, pos, ARRAY_SIZE(pos), c, s);
        for (size_t t = 0; t < ARRAY_SIZE(pos); t++)
                for (int i = 0; i < 16; i++) {
                        near(c[t * 16 + i], magnitude * cos(pos[t] * freq[i]), 3e-7);
                        near(s[t * 16 + i], magnitude * sin(pos[t] * freq[i]), 3e-7);
                }
}

static void test_plain_and_linear(void **state) {
        struct hparams_rope h = plain();
        struct rope r = ROPE_NULL;
        double freq[16];

        for (int i = 0; i < 16; i++)
                freq[i] = pow(10000.0, -2.0 * i / 32);
        assert_int_equal(rope_init(&r, &h, false, NULL, 200000, NULL), 0);
        assert_true(r.freq[0] == 1.0);
        check_table(&r, freq, 1.0);
        rope_deinit(&r);

        h.factor = 4.0;
        h.attn_factor = 1.5;
        for (int i = 0; i < 16; i++)
                freq[i] /= 4;
        assert_int_equal(rope_init(&r, &h, false, NULL, 200000, NULL), 0);
        check_table(&r, freq, 1.5);
        rope_deinit(&r);
}

static void test_factors(void **state) {
        struct hparams_rope h = plain();
        struct rope r = ROPE_NULL;
        float factors[16];
        double freq[16];
        struct err e;

        for (int i = 0; i < 16; i++) {
                factors[i] = 1.0f + i;
                freq[i] = pow(10000.0, -2.0 * i / 32) / (1.0 + i);
        }
        assert_int_equal(rope_init(&r, &h, true, factors, 200000, NULL), 0);
        assert_true(r.neox);
        check_table(&r, freq, 1.0);
        rope_deinit(&r);

        factors[3] = 1e-6f; /* so that angles grow beyond any sense */
        assert_int_equal(rope_init(&r, &h, true, factors, 1u << 28, &e), -ERR_FORMAT);
        assert_null(r.freq);
        rope_deinit(&r);
}

static double yarn_freq(const struct hparams_rope *h, int i) {
        double d = 2 * log(h->base), n = h->n_rot, ctx = h->orig_context;
        double low = floor(n * log(ctx / (h->beta_fast * 2 * M_PI)) / d);
        double high = ceil(n * log(ctx / (h->beta_slow * 2 * M_PI)) / d);
        double theta = pow(h->base, -2.0 * i / n), ramp;

        low = fmax(0, low);
        high = fmin(n - 1, high);
        ramp = 1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)));
        return theta / h->factor * (1 - ramp) + theta * ramp;
}

static void test_yarn(void **state) {
        static const uint32_t contexts[] = {1, 7, 200, 4096, 32768, 1u << 28};
        struct hparams_rope h = plain();
        struct rope r = ROPE_NULL;
        double freq[16];

        h.scaling = HPARAMS_ROPE_YARN;
        h.factor = 8.0;
        for (size_t c = 0; c < ARRAY_SIZE(contexts); c++) {
                h.orig_context = contexts[c];
                for (int i = 0; i < 16; i++)
                        freq[i] = yarn_freq(&h, i);
                assert_int_equal(rope_init(&r, &h, false, NULL, 200000, NULL), 0);
                check_table(&r, freq, 1 + 0.1 * log(8.0));
                rope_deinit(&r);
        }
        h.log_multiplier = 0.707;
        h.attn_factor = 2.0;
        assert_int_equal(rope_init(&r, &h, false, NULL, 200000, NULL), 0);
        near(r.magnitude, 2 * (1 + 0.1 * log(8.0)) / (1 + 0.1 * 0.707 * log(8.0)), 1e-12);
        rope_deinit(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain_and_linear),
                cmocka_unit_test(test_factors),
                cmocka_unit_test(test_yarn),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
