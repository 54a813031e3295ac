/* SPDX-License-Identifier: MIT */
#include "base/dmath.h"
#include "base/err.h"
#include "base/util.h"
#include "sample/philox.h"
#include "sample/sample.h"
#include "util/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything off: a draw from the whole distribution. */
#define PLAIN                                                                                      \
        ((struct sample_params){                                                                   \
                .temperature = 1, .top_p = 1, .repetition_penalty = 1, .penalty_last_n = 64})

#define DRAWS 20000

static struct sample_work *work(uint32_t n_vocab) {
        struct sample_work *w = NULL;

        assert_int_equal(sample_work_new(&w, n_vocab, NULL), 0);
        return w;
}

/* How often each token is drawn over positions 0..DRAWS. */
static void count_draws(const struct sample_params *p, const float *logits, uint32_t n,
        const int32_t *recent, size_t n_recent, unsigned *counts) {
        struct sample_work *w = work(n);

        memset(counts, 0, n * sizeof(*counts));
        for (uint64_t position = 0; position < DRAWS; position++) {
                int32_t t = sample_token(w, p, logits, recent, n_recent, position);

                assert_true(t >= 0 && (uint32_t)t < n);
                counts[t]++;
        }
        sample_work_free(w);
}

/* The tokens that ever come, as a bit mask. */
static unsigned drawn(const struct sample_params *p, const float *logits, uint32_t n) {
        unsigned counts[32], mask = 0;

        count_draws(p, logits, n, NULL, 0, counts);
        for (uint32_t i = 0; i < n; i++)
                mask |= (counts[i] > 0) << i;
        return mask;
}

static int32_t greedy(const struct sample_params *p, const float *logits, uint32_t n,
        const int32_t *recent, size_t n_recent) {
        struct sample_params g = *p;
        struct sample_work *w = work(n);
        int32_t t;

        g.temperature = 0;
        t = sample_token(w, &g, logits, recent, n_recent, 0);
        /* scratch is clean afterwards: the same again */
        assert_int_equal(sample_token(w, &g, logits, recent, n_recent, 1), t);
        sample_work_free(w);
        return t;
}

static void test_greedy(void **state) {
        static const float logits[] = {1, 5, -3, 5, 2}, odd[] = {NAN, -INFINITY, -7, NAN};
        static const float infinite[] = {1, INFINITY, 3, INFINITY};

        assert_int_equal(greedy(&PLAIN, logits, 5, NULL, 0), 1); /* the lower of two equals */
        assert_int_equal(greedy(&PLAIN, odd, 4, NULL, 0), 2);
        assert_int_equal(greedy(&PLAIN, infinite, 4, NULL, 0), 1);
}

static void test_nothing_left(void **state) {
        static const float none[] = {NAN, -INFINITY, NAN}, some[] = {1, 3, 2};
        static const struct sample_bias forbid[] = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
        struct sample_params p = PLAIN;

        assert_int_equal(greedy(&p, none, 3, NULL, 0), 0);
        assert_int_equal(drawn(&p, none, 3), 1);
        p.biases = forbid;
        p.n_biases = 3;
        assert_int_equal(greedy(&p, some, 3, NULL, 0), 1);
        assert_int_equal(drawn(&p, some, 3), 1 << 1);
}

static void test_not_finite_logits(void **state) {
        static const float a[] = {1, NAN, 2, -INFINITY}, b[] = {1, INFINITY, 2, INFINITY};
        unsigned counts[4];

        assert_int_equal(drawn(&PLAIN, a, 4), 0x5);
        count_draws(&PLAIN, b, 4, NULL, 0, counts);
        assert_int_equal(counts[0] + counts[2], 0);
        assert_true(counts[1] > DRAWS * 0.48 && counts[3] > DRAWS * 0.48);
}

/* Pearson's statistic against the softmax; 11 degrees of freedom: 31.3 has probability 0.001. */
static double chi_square(const struct sample_params *p, const float *logits, uint32_t n) {
        unsigned counts[32];
        double sum = 0, chi = 0;

        count_draws(p, logits, n, NULL, 0, counts);
        for (uint32_t i = 0; i < n; i++)
                sum += exp((double)logits[i] / (double)p->temperature);
        for (uint32_t i = 0; i < n; i++) {
                double expected = DRAWS * exp((double)logits[i] / (double)p->temperature) / sum;

                chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        }
        return chi;
}

static void test_distribution(void **state) {
        static const float logits[] = {0, 1, 0.5f, 2, -1, 0, 0.2f, 1.1f, -0.5f, 1.9f, 0.7f, 0};
        static const float temperatures[] = {0.7f, 1, 1.5f};
        struct sample_params p = PLAIN;

        for (size_t i = 0; i < 3; i++)
                for (uint64_t seed = 0; seed < 3; seed++) {
                        p.temperature = temperatures[i];
                        p.seed = seed;
                        assert_true(chi_square(&p, logits, 12) < 31.3);
                }
}

static void test_temperature_extremes(void **state) {
        static const float logits[] = {1, 1.001f, 0.5f};
        struct sample_params p = PLAIN;
        unsigned counts[3];

        p.temperature = 1e-30f;
        assert_int_equal(drawn(&p, logits, 3), 1 << 1);
        p.temperature = 1e-45f; /* subnormal */
        assert_int_equal(drawn(&p, logits, 3), 1 << 1);
        p.temperature = 3e38f;
        count_draws(&p, logits, 3, NULL, 0, counts);
        for (int i = 0; i < 3; i++)
                assert_true(counts[i] > DRAWS * 0.31);
}

static void test_top_k(void **state) {
        static const float logits[] = {1, 3, 2, 3, 0, 2}; /* order: 1 3 2 5 0 4 */
        static const unsigned masks[] = {0x3F, 0x02, 0x0A, 0x0E, 0x2E, 0x2F, 0x3F, 0x3F};
        struct sample_params p = PLAIN;

        for (uint32_t k = 0; k < 8; k++) {
                p.top_k = k;
                assert_int_equal(drawn(&p, logits, 6), masks[k]);
        }
        p.top_k = UINT32_MAX;
        assert_int_equal(drawn(&p, logits, 6), 0x3F);
}

/* Logits whose weights are 8, 4, 2, 1, 1 of 16, in another order. */
static const float halves[] = {0.6931472f, 2.0794415f, 0, 1.3862944f, 0};

static void test_top_p(void **state) {
        static const struct {
                float p;
                unsigned mask;
        } cases[] = {
                {1e-6f, 0x02}, /* never less than one */
                {0.49f, 0x02},
                {0.51f, 0x0A},
                {0.74f, 0x0A},
                {0.76f, 0x0B},
                {0.88f, 0x0F}, /* of the two equal last ones the lower id */
                {0.93f, 0x0F},
                {0.94f, 0x1F},
                {1, 0x1F},
        };
        struct sample_params p = PLAIN;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                p.top_p = cases[i].p;
                assert_int_equal(drawn(&p, halves, 5), cases[i].mask);
        }
}

/* A run whose share is exactly top_p is long enough: weights 1 and 1 of 2, and 1 to 1 of 4. */
static void test_top_p_reached(void **state) {
        static const float equal[] = {3, 3, 3, 3};
        struct sample_params p = PLAIN;

        p.top_p = 0.5f;
        assert_int_equal(drawn(&p, equal, 2), 0x01);
        assert_int_equal(drawn(&p, equal, 4), 0x03);
        p.top_p = 0.75f;
        assert_int_equal(drawn(&p, equal, 4), 0x07);
        p.top_p = nextafterf(0.5f, 1);
        assert_int_equal(drawn(&p, equal, 4), 0x07);
}

static void test_min_p(void **state) {
        static const struct {
                float p;
                unsigned mask;
        } cases[] = {
                {0, 0x1F},
                {0.1249f, 0x1F},
                {0.126f, 0x0B},
                {0.2499f, 0x0B},
                {0.26f, 0x0A},
                {0.51f, 0x02},
                {0.999f, 0x02},
        };
        struct sample_params p = PLAIN;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                p.min_p = cases[i].p;
                assert_int_equal(drawn(&p, halves, 5), cases[i].mask);
        }
}

static void test_filters_together(void **state) {
        struct sample_params p = PLAIN;
        unsigned counts[5];

        /* top-p is a share of what top-k left: 8 of 12 */
        p.top_k = 2;
        p.top_p = 0.66f;
        assert_int_equal(drawn(&p, halves, 5), 0x02);
        p.top_k = 0;
        assert_int_equal(drawn(&p, halves, 5), 0x0A);
        /* the smaller of two cuts decides, whichever it is */
        p.top_p = 0.9f;
        p.min_p = 0.3f;
        assert_int_equal(drawn(&p, halves, 5), 0x0A);
        p.top_p = 0.4f;
        assert_int_equal(drawn(&p, halves, 5), 0x02);
        p.top_k = 1;
        assert_int_equal(drawn(&p, halves, 5), 0x02);
        /* filters look at the distribution after temperature: 64, 16, 4, 1, 1 of 86 */
        p = PLAIN;
        p.temperature = 0.5f;
        p.top_p = 0.75f;
        assert_int_equal(drawn(&p, halves, 5), 0x0A);
        p.top_p = 0.74f;
        assert_int_equal(drawn(&p, halves, 5), 0x02);
        p.top_p = 1;
        p.min_p = 0.2f;
        assert_int_equal(drawn(&p, halves, 5), 0x0A);
        /* what is kept keeps its proportions: 8 to 4 */
        p = PLAIN;
        p.top_k = 2;
        count_draws(&p, halves, 5, NULL, 0, counts);
        assert_true(counts[1] > DRAWS * 0.65 && counts[1] < DRAWS * 0.68);
}

/* Ranking only as far as needed must not be seen: each pair of settings is one distribution. */
static void test_same_draw_by_any_path(void **state) {
        struct sample_params whole = PLAIN, by_k = PLAIN, by_p = PLAIN;
        struct sample_work *w = work(300);
        float logits[300];

        by_k.top_k = 299;
        by_p.min_p = 1e-30f;
        for (int i = 0; i < 300; i++)
                logits[i] = (float)((i * 7919) % 300) / 10;
        logits[17] = -INFINITY; /* so that 299 candidates are all */
        for (uint64_t position = 0; position < 3000; position++) {
                int32_t a = sample_token(w, &whole, logits, NULL, 0, position);

                assert_int_equal(sample_token(w, &by_k, logits, NULL, 0, position), a);
                assert_int_equal(sample_token(w, &by_p, logits, NULL, 0, position), a);
        }
        sample_work_free(w);
}

static void test_seed_and_position_decide(void **state) {
        static const float logits[64] = {0};
        struct sample_params p = PLAIN;
        struct sample_work *a = work(64), *b = work(64);
        unsigned same_seed = 0, other_seed = 0, other_position = 0;

        for (uint64_t position = 0; position < 1000; position++) {
                int32_t t;

                p.seed = 1234567890123;
                t = sample_token(a, &p, logits, NULL, 0, position);
                same_seed += t == sample_token(b, &p, logits, NULL, 0, position);
                other_position += t == sample_token(b, &p, logits, NULL, 0, position + 1);
                p.seed++;
                other_seed += t == sample_token(b, &p, logits, NULL, 0, position);
        }
        assert_int_equal(same_seed, 1000);
        assert_true(other_seed < 50 && other_position < 50); /* 1000/64 by chance */
        sample_work_free(a);
        sample_work_free(b);
}

/* What was generated must be generated again by any later version. */
static void test_pinned_draws(void **state) {
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct sample_work *w = work(100);
        uint64_t sum = 0;
        float logits[100];

        p.seed = 42;
        for (int i = 0; i < 100; i++)
                logits[i] = (float)((i * 37) % 100) / 16;
        for (uint64_t position = 0; position < 1000; position++)
                sum = sum * 31 + (uint64_t)sample_token(w, &p, logits, NULL, 0, position);
        print_message("pinned draws: %016llx\n", (unsigned long long)sum);
        assert_true(sum == 0xBCFFE91DB3AC0A16);
        sample_work_free(w);
}

static void test_bias(void **state) {
        static const float logits[] = {1, 2, 3};
        static const struct sample_bias lift[] = {{0, 5}}, forbid[] = {{2, -INFINITY}},
                                        twice[] = {{0, 1.5f}, {0, 1}}, lose[] = {{2, -100}};
        struct sample_params p = PLAIN;

        p.n_biases = 1;
        p.biases = lift;
        assert_int_equal(greedy(&p, logits, 3, NULL, 0), 0);
        p.biases = forbid;
        assert_int_equal(greedy(&p, logits, 3, NULL, 0), 1);
        assert_int_equal(drawn(&p, logits, 3), 0x3);
        p.biases = lose;
        assert_int_equal(greedy(&p, logits, 3, NULL, 0), 1);
        p.biases = twice;
        p.n_biases = 2;
        assert_int_equal(greedy(&p, logits, 3, NULL, 0), 0);
        /* Penalties apply to what the biases have made: (1 + 3) / 2 is less than 3. */
        p.biases = (const struct sample_bias[]){{0, 3}};
        p.n_biases = 1;
        p.repetition_penalty = 2;
        p.penalty_last_n = 1;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0}, 1), 2);
}

static void test_repetition(void **state) {
        static const float positive[] = {4, 3, 1}, negative[] = {-1, -2, -9};
        static const int32_t recent[] = {0};
        struct sample_params p = PLAIN;

        p.repetition_penalty = 1.3f; /* 4 / 1.3 = 3.08 */
        assert_int_equal(greedy(&p, positive, 3, recent, 1), 0);
        p.repetition_penalty = 1.4f;
        assert_int_equal(greedy(&p, positive, 3, recent, 1), 1);
        p.repetition_penalty = 1.9f; /* -1 * 1.9 */
        assert_int_equal(greedy(&p, negative, 3, recent, 1), 0);
        p.repetition_penalty = 2.1f;
        assert_int_equal(greedy(&p, negative, 3, recent, 1), 1);
        p.repetition_penalty = 0.5f; /* and the other way */
        assert_int_equal(greedy(&p, positive, 3, (const int32_t[]){2}, 1), 0);
        assert_int_equal(greedy(&p, positive, 3, (const int32_t[]){1}, 1), 1);
        /* once per token, however often it occurred */
        p.repetition_penalty = 1.3f;
        assert_int_equal(greedy(&p, positive, 3, (const int32_t[]){0, 0, 0}, 3), 0);
}

static void test_presence_and_frequency(void **state) {
        static const float logits[] = {3, 2, 0};
        struct sample_params p = PLAIN;

        p.presence_penalty = 0.9f;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0, 0, 0}, 3), 0);
        p.presence_penalty = 1.1f;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0}, 1), 1);
        p.presence_penalty = 0;
        p.frequency_penalty = 0.4f;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0, 0}, 2), 0);
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0, 2, 0, 0}, 4), 1);
        p.presence_penalty = 0.3f;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){0, 0}, 2), 1);
        p.frequency_penalty = -1;
        p.presence_penalty = 0;
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){1, 1}, 2), 1);
}

static void test_penalty_window(void **state) {
        static const float logits[] = {3, 2, 0};
        static const int32_t recent[] = {0, 2, 2};
        struct sample_params p = PLAIN;

        p.presence_penalty = 2;
        p.penalty_last_n = 3;
        assert_int_equal(greedy(&p, logits, 3, recent, 3), 1);
        p.penalty_last_n = 2; /* token 0 is too long ago */
        assert_int_equal(greedy(&p, logits, 3, recent, 3), 0);
        p.penalty_last_n = 0;
        assert_int_equal(greedy(&p, logits, 3, recent, 3), 0);
        p.penalty_last_n = UINT32_MAX;
        assert_int_equal(greedy(&p, logits, 3, recent, 3), 1);
        /* what is no token of this vocabulary is passed over */
        assert_int_equal(greedy(&p, logits, 3, (const int32_t[]){-1, 3, INT32_MAX}, 3), 0);
}

static void test_logits_are_not_changed(void **state) {
        static const struct sample_bias bias[] = {{1, 2}};
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        float logits[] = {1, 2, 3}, before[3];
        struct sample_work *w = work(3);

        memcpy(before, logits, sizeof(before));
        p.biases = bias;
        p.n_biases = 1;
        p.repetition_penalty = 1.5f;
        sample_token(w, &p, logits, (const int32_t[]){1, 2}, 2, 0);
        assert_memory_equal(before, logits, sizeof(before));
        sample_work_free(w);
}

static void test_one_token(void **state) {
        static const float logits[] = {-4};
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;

        assert_int_equal(drawn(&p, logits, 1), 1);
}

static void refuse(struct sample_params p, const char *field) {
        struct err e;

        assert_int_equal(sample_params_validate(&p, 10, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, field));
}

#define WITH(field, value)                                                                         \
        ({                                                                                         \
                struct sample_params _p = SAMPLE_PARAMS_DEFAULT;                                   \
                _p.field = (value);                                                                \
                _p;                                                                                \
        })

static void test_validate(void **state) {
        static const struct sample_bias good[] = {{0, -INFINITY}, {9, 1}}, below[] = {{-1, 1}},
                                        above[] = {{10, 1}}, nan[] = {{1, NAN}},
                                        inf[] = {{1, INFINITY}};
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct err e;

        assert_int_equal(sample_params_validate(&p, 10, &e), 0);
        assert_int_equal(sample_params_validate(&PLAIN, 10, &e), 0);
        p.temperature = 0;
        p.top_k = UINT32_MAX;
        p.top_p = 1e-9f;
        p.n_biases = 2;
        p.biases = good;
        assert_int_equal(sample_params_validate(&p, 10, &e), 0);
        refuse(WITH(temperature, -0.1f), "temperature");
        refuse(WITH(temperature, NAN), "temperature");
        refuse(WITH(temperature, INFINITY), "temperature");
        refuse(WITH(top_p, 0), "top_p");
        refuse(WITH(top_p, 1.01f), "top_p");
        refuse(WITH(top_p, NAN), "top_p");
        refuse(WITH(min_p, -0.1f), "min_p");
        refuse(WITH(min_p, 1), "min_p");
        refuse(WITH(min_p, NAN), "min_p");
        refuse(WITH(repetition_penalty, 0), "repetition_penalty");
        refuse(WITH(repetition_penalty, -1), "repetition_penalty");
        refuse(WITH(repetition_penalty, NAN), "repetition_penalty");
        refuse(WITH(repetition_penalty, INFINITY), "repetition_penalty");
        refuse(WITH(presence_penalty, NAN), "presence_penalty");
        refuse(WITH(frequency_penalty, -INFINITY), "frequency_penalty");
        p.n_biases = 1;
        p.biases = below;
        refuse(p, "token -1");
        p.biases = above;
        refuse(p, "token 10");
        p.biases = nan;
        refuse(p, "logit_bias");
        p.biases = inf;
        refuse(p, "logit_bias");
        p.biases = NULL;
        refuse(p, "logit_bias");
}

static void test_work(void **state) {
        struct sample_work *w = NULL;
        struct err e;

        assert_int_equal(sample_work_new(&w, 0, &e), -ERR_INVALID);
        assert_int_equal(sample_work_new(&w, UINT32_MAX, &e), -ERR_INVALID);
        assert_null(w);
        assert_null(sample_work_free(NULL));
}

/* With a mask the same token comes as if all other logits were -inf, whatever the parameters. */
static void test_mask(void **state) {
        struct sample_bias biases[] = {{3, 2.5f}, {7, -INFINITY}, {11, -1}, {64, 4}};
        const int32_t recent[] = {1, 5, 5, 64, 99, 3};
        float logits[130], masked[130];
        struct sample_work *w = work(130);
        uint64_t x = 9;

        for (int round = 0; round < 3000; round++) {
                struct sample_params p = PLAIN;
                uint64_t mask[3] = {0};
                int32_t a, b;

                for (uint32_t i = 0; i < 130; i++) {
                        x = x * 6364136223846793005 + 1442695040888963407;
                        logits[i] = (float)(x >> 40) / 1e6f - 8;
                        if (x % 50 == 0)
                                logits[i] = x % 100 ? NAN : -INFINITY;
                        if ((x >> 20) % (uint64_t)(1 + round % 40) == 0)
                                mask[i / 64] |= (uint64_t)1 << (i % 64);
                }
                mask[round % 3] |= (uint64_t)1 << (round % 2);
                for (uint32_t i = 0; i < 130; i++)
                        masked[i] = mask[i / 64] >> (i % 64) & 1 ? logits[i] : -INFINITY;
                p.temperature = (float)(round % 4) / 2;
                p.top_k = (uint32_t)round % 7;
                p.top_p = round % 5 ? 1 : 0.7f;
                p.min_p = round % 6 ? 0 : 0.1f;
                p.repetition_penalty = round % 3 ? 1 : 1.3f;
                p.presence_penalty = round % 8 ? 0 : 0.5f;
                p.n_biases = (size_t)round % 5;
                p.biases = biases;
                p.seed = (uint64_t)round;
                b = sample_token(w, &p, masked, recent, 6, (uint64_t)round);
                p.mask = mask;
                a = sample_token(w, &p, logits, recent, 6, (uint64_t)round);
                assert_true(mask[a / 64] >> (a % 64) & 1);
                if (mask[b / 64] >> (b % 64) & 1) /* else nothing but -inf was left */
                        assert_int_equal(a, b);
        }
        sample_work_free(w);
}

/* Biases that forbid all that the mask allows do not open the mask. */
static void test_mask_against_bias(void **state) {
        struct sample_bias biases[] = {{2, -INFINITY}, {5, -INFINITY}};
        float logits[8] = {9, 9, 1, 9, 9, 3, 9, 9};
        struct sample_params p = PLAIN;
        struct sample_work *w = work(8);
        uint64_t mask = 1 << 2 | 1 << 5;

        p.biases = biases;
        p.n_biases = 2;
        p.mask = &mask;
        assert_int_equal(sample_token(w, &p, logits, NULL, 0, 0), 5);
        logits[2] = logits[5] = -INFINITY;
        assert_int_equal(sample_token(w, &p, logits, NULL, 0, 0), 2);
        logits[5] = NAN;
        assert_int_equal(sample_token(w, &p, logits, NULL, 0, 0), 2);
        sample_work_free(w);
}

/* --- against the steps as sample.c lists them, done plainly --- */

struct plain {
        double logit, weight;
        int32_t token;
};

static int plain_order(const void *a, const void *b) {
        const struct plain *x = a, *y = b;

        return x->logit > y->logit || (x->logit == y->logit && x->token < y->token) ? -1 : 1;
}

/* Steps 1: the candidates, by id. */
static size_t plain_candidates(struct plain *c, const struct sample_params *p, const float *logits,
        uint32_t n, const int32_t *recent, size_t n_recent) {
        size_t kept = 0;

        for (uint32_t t = 0; t < n; t++) {
                double l = (double)logits[t];
                unsigned count = 0;

                for (size_t i = 0; i < p->n_biases; i++)
                        if (p->biases[i].token == (int32_t)t)
                                l += (double)p->biases[i].bias;
                for (size_t i = n_recent - MIN(n_recent, (size_t)p->penalty_last_n); i < n_recent;
                        i++)
                        count += recent[i] == (int32_t)t;
                if (count > 0) {
                        l = l > 0 ? l / (double)p->repetition_penalty
                                  : l * (double)p->repetition_penalty;
                        l = l - count * (double)p->frequency_penalty - (double)p->presence_penalty;
                }
                if (p->mask && !(p->mask[t / 64] >> (t % 64) & 1))
                        continue;
                if (l > -(double)INFINITY)
                        c[kept++] = (struct plain){.logit = l, .token = (int32_t)t};
        }
        return kept;
}

static double plain_weight(const struct plain *c, double greatest, const struct sample_params *p) {
        return c->logit == greatest ? 1 : dmath_exp((c->logit - greatest) / (double)p->temperature);
}

static int32_t plain_token(const struct sample_params *p, const float *logits, uint32_t n,
        const int32_t *recent, size_t n_recent, uint64_t position) {
        static struct plain c[20011];
        size_t n_c = plain_candidates(c, p, logits, n, recent, n_recent), kept = 0;
        double total = 0, sum = 0, target, greatest = -(double)INFINITY;
        int32_t chosen = -1;

        for (size_t i = 0; i < n_c; i++)
                greatest = MAX(greatest, c[i].logit);
        if (!p->top_k || p->top_k >= n_c)
                for (size_t i = 0; i < n_c; i++)
                        total += plain_weight(&c[i], greatest, p);
        qsort(c, n_c, sizeof(c[0]), plain_order);
        if (p->temperature == 0)
                return c[0].token;
        for (size_t i = 0; i < n_c; i++)
                c[i].weight = plain_weight(&c[i], greatest, p);
        if (p->top_k && p->top_k < n_c) {
                n_c = p->top_k;
                for (size_t i = 0; i < n_c; i++)
                        total += c[i].weight;
        }
        if (p->top_p < 1 || p->min_p > 0) {
                for (; kept < n_c; sum += c[kept++].weight)
                        if (kept && (c[kept].weight < (double)p->min_p ||
                                            (p->top_p < 1 && sum >= (double)p->top_p * total)))
                                break;
                n_c = kept;
                total = sum;
        }
        target = philox_uniform(p->seed, position) * total;
        sum = 0;
        for (size_t i = 0; i < n_c && c[i].weight > 0; i++) {
                chosen = c[i].token;
                sum += c[i].weight;
                if (sum > target)
                        break;
        }
        return chosen;
}

static uint64_t draw(uint64_t *x, uint64_t n) {
        *x = *x * 6364136223846793005 + 1442695040888963407;
        return (*x >> 33) % n;
}

static void test_plain_steps(void **state) {
        enum { N = 20011, N_RECENT = 30, ROUNDS = 250 };
        static const uint32_t top_k[] = {0, 1, 2, 5, 40, 3000, 10000};
        static float logits[N];
        static uint64_t mask[N / 64 + 1];
        struct sample_bias biases[20];
        struct sample_work *w = work(N);
        int32_t recent[N_RECENT];
        uint64_t x = 1;

#define DRAW(n) draw(&x, n)
        for (uint64_t round = 0; round < ROUNDS; round++) {
                struct sample_params p = {.temperature = (float)(DRAW(3)) / 2,
                        .top_k = top_k[DRAW(7)],
                        .top_p = DRAW(2) ? 1 : 0.9f,
                        .min_p = DRAW(2) ? 0 : 0.02f,
                        .repetition_penalty = DRAW(2) ? 1 : 1.3f,
                        .presence_penalty = DRAW(3) ? 0 : 0.4f,
                        .frequency_penalty = DRAW(3) ? 0 : -0.3f,
                        .penalty_last_n = (uint32_t)(DRAW(2 * N_RECENT)),
                        .seed = round,
                        .biases = biases,
                        .n_biases = DRAW(2) ? 0 : DRAW(20)};
                uint64_t steps = 1 + DRAW(5000); /* few: many are equal */

                for (size_t i = 0; i < N; i++)
                        logits[i] = (float)(DRAW(steps)) / (float)steps * 20 - 10;
                for (size_t i = 0; i < 30; i++)
                        logits[DRAW(N)] = i % 2 ? NAN : -INFINITY;
                for (size_t i = 0; i < N_RECENT; i++)
                        recent[i] = (int32_t)(DRAW(round % 2 ? 50 : N));
                for (size_t i = 0; i < 20; i++)
                        biases[i] = (struct sample_bias){(int32_t)(DRAW(round % 3 ? N : 30)),
                                DRAW(4) ? (float)(DRAW(20)) - 10 : -INFINITY};
                if (round % 4 == 3) {
                        for (size_t i = 0; i < N / 64 + 1; i++)
                                mask[i] = (uint64_t)(DRAW(1u << 31)) << i % 34;
                        mask[0] |= 1;
                        logits[0] = 1;
                        p.mask = mask;
                        p.n_biases = 0;
                }
                assert_int_equal(sample_token(w, &p, logits, recent, N_RECENT, round),
                        plain_token(&p, logits, N, recent, N_RECENT, round));
        }
#undef DRAW
        sample_work_free(w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mask),
                cmocka_unit_test(test_mask_against_bias),
                cmocka_unit_test(test_greedy),
                cmocka_unit_test(test_nothing_left),
                cmocka_unit_test(test_not_finite_logits),
                cmocka_unit_test(test_distribution),
                cmocka_unit_test(test_temperature_extremes),
                cmocka_unit_test(test_top_k),
                cmocka_unit_test(test_top_p),
                cmocka_unit_test(test_top_p_reached),
                cmocka_unit_test(test_min_p),
                cmocka_unit_test(test_filters_together),
                cmocka_unit_test(test_same_draw_by_any_path),
                cmocka_unit_test(test_seed_and_position_decide),
                cmocka_unit_test(test_pinned_draws),
                cmocka_unit_test(test_bias),
                cmocka_unit_test(test_repetition),
                cmocka_unit_test(test_presence_and_frequency),
                cmocka_unit_test(test_penalty_window),
                cmocka_unit_test(test_logits_are_not_changed),
                cmocka_unit_test(test_one_token),
                cmocka_unit_test(test_validate),
                cmocka_unit_test(test_work),
                cmocka_unit_test(test_plain_steps),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
