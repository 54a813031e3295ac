/* SPDX-License-Identifier: MIT */
/*
 * Memory of freed blocks that the pool keeps for the next ones: how much, how long, and none while
 * memory is short. On an engine that has nothing but a ledger and a pool, whose clock the test
 * sets. (How it goes together with conversations: test-budget.c.)
 */
#include <string.h>

#include "base/clock.h"
#include "engine/main/main.h"
#include "engine/memory/state.h"
#include "util/test.h"

#define MIB ((uint64_t)1 << 20)

struct blocks {
        struct engine en;
        struct seq_block *b[64];
};

static void blocks_open(struct blocks *f, uint64_t budget) {
        memset(f, 0, sizeof(*f));
        f->en.budget = budget_new();
        f->en.bell = bell_new();
        assert_non_null(f->en.budget);
        assert_non_null(f->en.bell);
        f->en.info.shape = (struct seq_shape){.size = {[SEQ_ALL] = MIB}, .block_tokens = 32};
        f->en.budget->block_size = f->en.budget->piece_size = MIB;
        f->en.budget->least_size = 4 * MIB;
        assert_int_equal(
                seq_pool_new(&f->en.pool, &f->en.budget->ledger, &f->en.info.shape, NULL), 0);
        assert_int_equal(budget_open(f->en.budget, budget, 0, NULL), 0);
        assert_int_equal(memory_new(&f->en, NULL), 0);
        assert_int_equal(grow_spare(&f->en, 0), UINT64_MAX);
}

static void blocks_close(struct blocks *f) {
        f->en.memory = memory_free(f->en.memory);
        seq_pool_free(f->en.pool);
        assert_int_equal(ledger_used(&f->en.budget->ledger), budget_reserved(f->en.budget));
        bell_free(f->en.bell);
        free(f->en.budget);
}

static void take_and_free(struct blocks *f, size_t n) {
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(seq_block_new(&f->b[i], f->en.pool, SEQ_ALL, NULL), 0);
                memset(seq_block_data(f->b[i]), 1, MIB);
        }
        for (size_t i = 0; i < n; i++)
                f->b[i] = seq_block_unref(f->b[i]);
}

static size_t n_spare(struct blocks *f) {
        return (ledger_used(&f->en.budget->ledger) - budget_reserved(f->en.budget)) / MIB;
}

/* An eighth of the budget stays, for a while; then it goes in parts. */
static void test_spare_idle(void **state) {
        struct blocks f;
        uint64_t now = clock_monotonic_usec(), due;

        blocks_open(&f, 320 * MIB);
        take_and_free(&f, 64);
        assert_int_equal(n_spare(&f), 40);
        due = grow_spare(&f.en, 0);
        assert_true(due > now + 5000000 && due <= clock_monotonic_usec() + 10000000);
        assert_int_equal(n_spare(&f), 40);
        /* Ten seconds later, as far as it knows. */
        f.en.memory->t_pool = now > 11000000 ? now - 11000000 : 0;
        assert_true(grow_spare(&f.en, 0) <= clock_monotonic_usec());
        assert_int_equal(n_spare(&f), 8);
        (void)grow_spare(&f.en, 0);
        assert_int_equal(n_spare(&f), 0);
        assert_int_equal(grow_spare(&f.en, 0), UINT64_MAX);
        /* Whatever moves begins a new time. */
        take_and_free(&f, 3);
        assert_true(grow_spare(&f.en, 0) > now + 5000000);
        f.en.memory->t_pool = 0;
        take_and_free(&f, 1);
        (void)grow_spare(&f.en, 0);
        assert_int_equal(n_spare(&f), 3);
        blocks_close(&f);
}

/* While memory is short nothing is kept. */
static void test_spare_refused(void **state) {
        struct blocks f;

        blocks_open(&f, 320 * MIB);
        take_and_free(&f, 64);
        engine_set_spare(&f.en, false);
        assert_true(bell_has_rung(f.en.bell));
        assert_int_equal(grow_spare(&f.en, 0), UINT64_MAX);
        assert_int_equal(n_spare(&f), 0);
        take_and_free(&f, 64);
        assert_int_equal(n_spare(&f), 0);
        engine_set_spare(&f.en, true);
        (void)grow_spare(&f.en, 0);
        take_and_free(&f, 64);
        assert_int_equal(n_spare(&f), 40);
        blocks_close(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spare_idle),
                cmocka_unit_test(test_spare_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
