/* SPDX-License-Identifier: MIT */
#include "sample/rank.h"
#include "util/test.h"
#include <math.h>
#include <stdlib.h>
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

static uint64_t draw(uint64_t *x) {
        *x = *x * 6364136223846793005 + 1442695040888963407;
        return *x >> 33;
}

/* Logits that bins divide well, badly, and not at all. */
static double logit_of(unsigned kind, uint64_t *x) {
        double u = (double)draw(x) / 0x1p31;

        switch (kind) {
        case 0:
                return u * 20 - 10;
        case 1: /* from 1 down to the smallest numbers there are */
                return ldexp(1, -(int)(u * 1070));
        case 2:
                return u < 0.01 ? -1e300 : u < 0.02 ? 1e300 : u;
        case 3:
                return u < 0.3 ? (double)INFINITY : u < 0.6 ? -(double)INFINITY : u;
        case 4:
                return 1;
        default: /* the fewest bits apart */
                return 1 + (double)(draw(x) % 3) * 0x1p-52;
        }
}

static int in_order(const void *a, const void *b) {
        return rank_better(a, b) ? -1 : 1;
}

/* In one go and in stages it is the order that qsort() makes. */
static void test_many(void **state) {
        enum { N = 30000 };
        static struct candidate items[N], expected[N];
        static const size_t taken[] = {1, 64, 65, 2000, N};
        uint64_t x = 11;

        for (unsigned kind = 0; kind < 6; kind++) {
                size_t n = kind == 3 ? 5000 : N;

                for (size_t t = 0; t < 5; t++) {
                        struct rank rank;

                        for (size_t i = 0; i < n; i++)
                                items[i] = expected[i] = (struct candidate){
                                        logit_of(kind, &x), (int32_t)((i * 7919) % n)};
                        qsort(expected, n, sizeof(expected[0]), in_order);
                        rank_init(&rank, items, n);
                        for (size_t i = 0; i < taken[t] && i < n; i++) {
                                const struct candidate *c = rank_take(&rank);

                                assert_true(c->logit == expected[i].logit);
                                assert_int_equal(c->token, expected[i].token);
                                rank_taken(&rank, i)->logit = NAN; /* the caller's from here on */
                        }
                }
        }
}

/* What is reached by at least so many, and by few more. */
static void test_reached(void **state) {
        enum { N = 10007, BLOCKS = N / 64 + 1 };
        static float logits[N], greatest[BLOCKS], heap[BLOCKS];
        uint64_t x = 3;

        for (unsigned kind = 0; kind < 3; kind++)
                for (size_t want = 0; want <= BLOCKS; want++) {
                        size_t n = 0;
                        float least;

                        for (size_t i = 0; i < N; i++)
                                logits[i] = kind == 1 && i % 3
                                                    ? NAN
                                                    : (float)logit_of(kind == 2 ? 4 : 0, &x);
                        least = rank_reached(logits, N, want, greatest, heap);
                        if (want == 0 || want > BLOCKS / 4) {
                                assert_true(least == -INFINITY);
                                continue;
                        }
                        for (size_t i = 0; i < N; i++)
                                n += logits[i] >= least;
                        assert_true(n >= want);
                        assert_true(kind == 2 || n < want * 2 + 8);
                }
        for (size_t i = 0; i < N; i++)
                logits[i] = -INFINITY;
        assert_true(rank_reached(logits, N, 5, greatest, heap) == -INFINITY);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorts_with_ties),
                cmocka_unit_test(test_many), cmocka_unit_test(test_reached)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
