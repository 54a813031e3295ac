/* SPDX-License-Identifier: MIT */
/* The mapping between transcript and memory, against a list that is built token by token. */
#include "base/gap.h"
#include "util/test.h"

enum { N = 24 };

/* The transcript is 0, 1, 2, ...: each token of a memory tells its place. */
static uint32_t memory(const struct gap *g, uint32_t n, uint32_t *out) {
        uint32_t k = 0;

        for (uint32_t i = 0; i < n; i++)
                if (i < g->from || i >= g->to)
                        out[k++] = i;
        return k;
}

static void test_places(void **state) {
        struct gap g;

        for (g.from = 0; g.from <= N; g.from++)
                for (g.to = g.from; g.to <= N; g.to++) {
                        uint32_t list[N], n = memory(&g, N, list);

                        assert_true(gap_is_possible(&g, N));
                        assert_int_equal(n, N - gap_size(&g));
                        for (uint32_t i = 0; i < n; i++)
                                assert_int_equal(gap_to_transcript(&g, i), list[i]);
                        for (uint32_t pos = 0; pos <= N; pos++) {
                                uint32_t before = 0;

                                while (before < n && list[before] < pos)
                                        before++;
                                assert_int_equal(gap_to_memory(&g, pos), before);
                        }
                }
        assert_false(gap_is_possible(&(struct gap){3, 2}, N));
        assert_false(gap_is_possible(&(struct gap){3, N + 1}, N));
}

/* Cut off, or left out in another way: the beginning that stays is as long as promised, at least. */
static void test_common(void **state) {
        struct gap a, b;

        for (a.from = 0; a.from < N; a.from += 3)
                for (a.to = a.from; a.to <= N; a.to += 3)
                        for (b.from = 0; b.from < N; b.from += 3)
                                for (b.to = b.from; b.to <= N; b.to += 3) {
                                        uint32_t x[N], y[N], n_x = memory(&a, N, x);
                                        uint32_t n_y = memory(&b, b.to + (N - b.to) / 2, y), n = 0;

                                        while (n < n_x && n < n_y && x[n] == y[n])
                                                n++;
                                        assert_int_equal(gap_common(&a, n_x, &b, n_y), n);
                                }
}

static void test_cut(void **state) {
        struct gap g = {5, 9}, cut;

        cut = gap_cut(&g, 20);
        assert_true(gap_equal(&cut, &g));
        cut = gap_cut(&g, 7);
        assert_true(cut.from == 5 && cut.to == 7);
        cut = gap_cut(&g, 5);
        assert_true(gap_is_none(&cut) && gap_equal(&cut, &(struct gap){3, 3}));
}

/* From one arrangement into another. */
static void test_copies(void **state) {
        static const struct gap gaps[] = {{0, 0}, {5, 9}, {0, 4}, {5, N}, {0, N}, {7, 8}};
        enum { N_GAPS = sizeof(gaps) / sizeof(gaps[0]) };
        int32_t all[N];

        for (int32_t i = 0; i < N; i++)
                all[i] = 100 + i;
        for (unsigned i = 0; i < N_GAPS; i++)
                for (unsigned k = 0; k < N_GAPS; k++) {
                        struct transcript plain = {.memory = all}, t = {.gap = gaps[i]};
                        int32_t tokens[N], dropped[N], out[N];
                        uint32_t want[N], n;

                        assert_int_equal(transcript_memory(&plain, N, &gaps[i], tokens),
                                N - gap_size(&gaps[i]));
                        transcript_copy(&plain, gaps[i].from, gaps[i].to, dropped);
                        t.memory = tokens;
                        t.dropped = dropped;
                        for (uint32_t pos = 0; pos < N; pos++)
                                assert_int_equal(transcript_token(&t, pos), all[pos]);
                        n = memory(&gaps[k], N, want);
                        assert_int_equal(transcript_memory(&t, N, &gaps[k], out), n);
                        for (uint32_t pos = 0; pos < n; pos++)
                                assert_int_equal(out[pos], 100 + (int32_t)want[pos]);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_common),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_copies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
