/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "engine/run/pace.h"
#include "util/test.h"

/* What was seen of a machine whose steps of n rows take base, or n rows' time if that is more. */
static struct cost machine(double base, double row) {
        struct cost c = {0};

        for (int i = 0; i < 5; i++)
                for (uint32_t n = 1; n <= 256; n = n < 16 ? n + 1 : n * 2)
                        cost_observe(&c, n, 100, (uint64_t)MAX(base, row * n));
        return c;
}

static struct pace_need need_of(uint32_t n_replies, uint32_t percent) {
        return (struct pace_need){.share = percent / 100.0,
                .n_replies = n_replies,
                .reply_depth = 100,
                .prompt_depth = 100,
                .most = 256,
                .n_layer = 16,
                .may_part = true};
}

/* The weights' time has room for rows: they go along. */
static void test_together(void **state) {
        struct cost c = machine(30000, 3000);
        struct pace_need need = need_of(1, 33);
        struct pace_plan plan = pace_plan(&c, &need);

        assert_false(plan.apart);
        assert_in_range(plan.rows, 12, 14); /* 1.5 times 30 ms, less the reply's row */
        need.share = 0.5;
        assert_in_range(pace_plan(&c, &need).rows, 17, 19);
}

/* Small steps use the machine badly: a chunk is computed apart, a layer of it at most a slice long, and it has
 * its share of the rows of a step. */
static void test_apart(void **state) {
        struct cost c = {0};
        unsigned n_apart = 0;

        for (int i = 0; i < 5; i++)
                for (uint32_t n = 1; n <= 256; n = n < 16 ? n + 1 : n * 2)
                        cost_observe(&c, n, 100, n <= 16 ? 6000 * n : 96000 + 2000 * (n - 16));
        for (uint32_t percent = 20; percent <= 80; percent += 10) {
                struct pace_need need = need_of(8, percent);
                struct pace_plan plan = pace_plan(&c, &need);
                double slice = 8 * 6000 * need.share / (1 - need.share);
                double own = cost_predict(&c, plan.rows, 100);

                n_apart += plan.apart;
                if (!plan.apart)
                        continue;
                assert_true(plan.slice_usec > slice * 0.99 && plan.slice_usec < slice * 1.01);
                assert_true(plan.layer_usec <= plan.slice_usec * 1.01);
                assert_true(plan.layer_usec > own / 16.2 && plan.layer_usec < own / 15.8);
                assert_true(plan.rows <= 256 * need.share);
        }
        assert_true(n_apart >= 5);
}

/* Not where others compute, too; then at least one row goes along. */
static void test_not_apart(void **state) {
        struct cost c = machine(0, 3000);
        struct pace_need need = need_of(1, 33);

        assert_true(pace_plan(&c, &need).apart);
        need.may_part = false;
        assert_false(pace_plan(&c, &need).apart);
        assert_int_equal(pace_plan(&c, &need).rows, 1);
}

static void test_unknown(void **state) {
        struct cost c = {0};
        struct pace_need need = need_of(3, 33);

        assert_false(pace_plan(&c, &need).apart);
        assert_int_equal(pace_plan(&c, &need).rows, 1);
        need.n_replies = 255;
        cost_observe(&c, 255, 100, 1000);
        assert_true(pace_plan(&c, &need).rows >= 1);
}

/* Tiles of 8 rows. */
static double stairs(uint32_t rows) {
        return rows <= 8 ? 18000 : rows <= 16 ? 30000 : 18000.0 * (rows / 8.0);
}

/* Nine rows take more than half as long again, and go along now and then: as often as the mean permits. */
static void test_credit(void **state) {
        struct cost c = {0};
        struct pace_need need = need_of(1, 33);
        double sum = 0, rows = 0, limit = 18000 / 0.67;

        need.may_part = false;
        for (int i = 0; i < 5; i++)
                for (uint32_t n = 1; n <= 256; n++)
                        cost_observe(&c, n, 100, (uint64_t)stairs(n));
        assert_in_range(pace_plan(&c, &need).rows, 7, 8);
        for (unsigned i = 0; i < 100; i++) {
                struct pace_plan plan = pace_plan(&c, &need);

                sum += stairs(plan.rows + 1);
                rows += plan.rows;
                need.credit_usec = pace_credit(need.credit_usec, &plan, stairs(plan.rows + 1));
        }
        assert_true(sum / 100 > 0.97 * limit && sum / 100 < 1.03 * limit);
        assert_true(rows / 100 > 9);
        /* It is bounded both ways, and gone without such a step. */
        need.credit_usec = 0;
        for (unsigned i = 0; i < 100; i++)
                need.credit_usec =
                        pace_credit(need.credit_usec, &(struct pace_plan){.limit_usec = 1000}, 0);
        assert_true(need.credit_usec == 250);
        for (unsigned i = 0; i < 100; i++)
                need.credit_usec =
                        pace_credit(need.credit_usec, &(struct pace_plan){.limit_usec = 1000}, 1e6);
        assert_true(need.credit_usec == -100);
        assert_true(pace_credit(250, &(struct pace_plan){0}, 1000) == 0);
}

/* Plans and what comes of them: the last plan. @few(n): the time of a step of n rows. */
static struct pace_plan live(double (*few)(uint32_t rows), unsigned n_plans, unsigned *ret_late) {
        struct pace_need need = need_of(1, 33);
        struct cost c = {0};
        struct pace_plan plan = {0};

        /* A reply alone, and a prompt before it. */
        for (int i = 0; i < 5; i++) {
                cost_observe(&c, 256, 100, (uint64_t)few(256));
                cost_observe(&c, 1, 100, (uint64_t)few(1));
        }
        *ret_late = 0;
        for (unsigned i = 0; i < n_plans; i++) {
                plan = pace_plan(&c, &need);
                if (plan.apart) {
                        cost_observe(&c, plan.rows, 100, (uint64_t)few(plan.rows));
                        cost_observe(&c, 1, 100, (uint64_t)few(1));
                        continue;
                }
                *ret_late += few(plan.rows + 1) > 1.52 * few(1);
                assert_true(few(plan.rows + 1) <= 3 * few(1));
                cost_observe(&c, plan.rows + 1, 100, (uint64_t)few(plan.rows + 1));
        }
        return plan;
}

/* Weights take 13 ms, a row 2.2. */
static double few_rows_free(uint32_t rows) {
        return MAX(13000, 2200.0 * rows);
}

/* Of few rows each is dear. */
static double few_rows_dear(uint32_t rows) {
        return rows <= 32 ? 13000 + 9000.0 * (rows - 1) : 292000 + 600.0 * (rows - 32);
}

/* What few rows cost is found out, though it is far from a line between one row and a whole prompt. */
static void test_tries(void **state) {
        unsigned n_late;
        struct pace_plan plan = live(few_rows_free, 20, &n_late);

        assert_false(plan.apart);
        assert_in_range(plan.rows, 7, 8);
        assert_int_equal(n_late, 0);
        plan = live(few_rows_dear, 200, &n_late);
        assert_true(plan.apart);
        assert_in_range(n_late, 1, 6);
}

/* Layers of 10 between steps of replies, with slices of 25. */
static void test_slices(void **state) {
        struct pace p = {.plan = {.apart = true, .rows = 4, .slice_usec = 25, .layer_usec = 10},
                .since = 1000};
        unsigned n_replied = 0;
        uint64_t now = 1000;

        for (unsigned layer = 0; layer < 16; layer++) {
                bool due = pace_due(&p, now);

                assert_int_equal(due, layer > 0 && layer % 2 == 0);
                if (due)
                        now += 50;
                n_replied += due;
                pace_go(&p, now, due);
                now += 10;
        }
        assert_int_equal(p.away_usec, 50 * n_replied);
        assert_int_equal(n_replied, 7);
        /* The layers become slower: one at a time. */
        assert_true(pace_due(&p, now));
        pace_go(&p, now, true);
        now += 20;
        assert_true(pace_due(&p, now));
        /* There was nothing to compute: it is asked again. */
        pace_go(&p, now, false);
        now += 10;
        assert_true(pace_due(&p, now));
        /* A clock that stands still, or begins later, is no reason. */
        pace_go(&p, now, true);
        p.since = now + 1000;
        p.plan.layer_usec = 1;
        p.began = 0;
        assert_false(pace_due(&p, now));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_together),
                cmocka_unit_test(test_credit),
                cmocka_unit_test(test_apart),
                cmocka_unit_test(test_not_apart),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_tries),
                cmocka_unit_test(test_slices),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
