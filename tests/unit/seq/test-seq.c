/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

enum { BLOCK = 4096, TOKENS = 4 };

static const struct seq_shape shape = {.size[SEQ_ALL] = BLOCK, .block_tokens = TOKENS};

struct fixture {
        struct ledger ledger;
        struct seq_pool *pool;
        size_t slot;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->ledger.budget = (size_t)1 << 20;
        assert_int_equal(seq_pool_new(&f->pool, &f->ledger, &shape, NULL), 0);
        f->slot = seq_pool_slot_size(f->pool, SEQ_ALL);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        assert_int_equal(ledger_used(&f->ledger), 0);
        seq_pool_free(f->pool);
        free(f);
        return 0;
}

/* Append tokens whose memory is the byte @v. */
static void say(struct seq *s, uint32_t n, uint8_t v) {
        uint32_t at = seq_n_tokens(s);

        assert_int_equal(seq_reserve(s, n, NULL), 0);
        for (uint32_t i = at; i < at + n; i++)
                memset((char *)seq_table(s, SEQ_ALL)[i / TOKENS] + i % TOKENS * (BLOCK / TOKENS), v,
                        BLOCK / TOKENS);
        seq_commit(s, n);
}

static uint8_t at(const struct seq *s, uint32_t i) {
        return *((uint8_t *)seq_table(s, SEQ_ALL)[i / TOKENS] + i % TOKENS * (BLOCK / TOKENS));
}

static struct seq_block *block_at(const struct seq *s, uint32_t i) {
        struct seq_cell cell = {0};

        assert_true(seq_cell_at(s, SEQ_ALL, i, &cell));
        return cell.block;
}

static void test_grow_and_cut(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        assert_int_equal(seq_n_cells(s), 0);
        assert_int_equal(seq_reserve(s, 0, NULL), 0);
        seq_commit(s, 0);
        assert_int_equal(seq_reserve_cost(s, 1), 1 * f->slot);
        assert_int_equal(seq_reserve_cost(s, 9), 3 * f->slot);
        say(s, 9, 1);
        assert_int_equal(seq_n_tokens(s), 9);
        assert_int_equal(seq_n_cells(s), 3);
        assert_int_equal(seq_n_resident(s), 3);
        assert_int_equal(seq_reserve_cost(s, 3), 0 * f->slot);
        assert_int_equal(ledger_used(&f->ledger), 3 * f->slot);
        assert_int_equal(seq_cut(s, 100), 9);
        assert_int_equal(seq_cut(s, 5), 5);
        assert_int_equal(ledger_used(&f->ledger), 2 * f->slot);
        say(s, 4, 2);
        for (uint32_t i = 0; i < 9; i++)
                assert_int_equal(at(s, i), i < 5 ? 1 : 2);
        assert_int_equal(seq_cut(s, 0), 0);
        assert_int_equal(ledger_used(&f->ledger), 0);
        assert_null(seq_free(NULL));
}

static void test_reservation(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL;
        struct err e;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        say(s, 2, 1);
        assert_int_equal(seq_reserve(s, 7, NULL), 0);
        assert_int_equal(seq_n_reserved(s), 7);
        assert_int_equal(seq_n_cells(s), 1);
        assert_int_equal(ledger_used(&f->ledger), 3 * f->slot);
        /* A smaller one keeps the first, a larger one extends it. */
        assert_int_equal(seq_reserve(s, 1, NULL), 0);
        assert_int_equal(seq_n_reserved(s), 7);
        assert_int_equal(seq_reserve(s, 11, NULL), 0);
        assert_int_equal(ledger_used(&f->ledger), 4 * f->slot);
        seq_commit(s, 3);
        assert_int_equal(seq_n_tokens(s), 5);
        assert_int_equal(seq_n_reserved(s), 8);
        seq_unreserve(s);
        assert_int_equal(ledger_used(&f->ledger), 2 * f->slot);
        assert_int_equal(seq_n_reserved(s), 0);
        assert_int_equal(seq_reserve(s, UINT32_MAX - 4, &e), -ERR_INVALID);
        assert_int_equal(seq_reserve(s, UINT32_MAX - 5, NULL), SEQ_FULL);
        /* All or nothing: 1 MiB of budget is 256 blocks. */
        assert_int_equal(seq_reserve(s, 255 * TOKENS, NULL), SEQ_FULL);
        assert_int_equal(seq_n_reserved(s), 0);
        assert_int_equal(ledger_used(&f->ledger), 2 * f->slot);
        assert_int_equal(seq_reserve(s, 254 * TOKENS + 3, NULL), 0);
        assert_int_equal(ledger_used(&f->ledger), f->ledger.budget);
        seq_cut(s, 5);
        assert_int_equal(ledger_used(&f->ledger), 2 * f->slot);
}

static void test_fork_shares_and_copies_on_write(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *a = NULL, *b = NULL, *c = NULL;
        struct seq_pool_stats st;
        struct err e;

        assert_int_equal(seq_new(&a, f->pool, NULL), 0);
        say(a, 10, 1);
        assert_int_equal(seq_fork(&b, a, 11, &e), -ERR_INVALID);
        assert_int_equal(seq_fork(&b, a, 10, NULL), 0);
        assert_int_equal(seq_fork(&c, a, 8, NULL), 0);
        assert_int_equal(ledger_used(&f->ledger), 3 * f->slot);
        assert_int_equal(seq_block_n_refs(block_at(a, 0)), 3);
        assert_int_equal(seq_block_n_refs(block_at(a, 2)), 2);

        /* Full blocks are never copied, the shared tail is, once. */
        assert_int_equal(seq_reserve_cost(c, 1), 1 * f->slot);
        say(c, 1, 3);
        seq_pool_stats(f->pool, &st);
        assert_int_equal(st.n_copied_on_write, 0);
        assert_int_equal(st.n_forks, 2);
        seq_block_set_tag(block_at(b, 2), 5);
        assert_int_equal(seq_reserve_cost(b, 1), 1 * f->slot);
        say(b, 1, 2);
        assert_int_equal(seq_block_tag(block_at(b, 2)), 0);
        assert_int_equal(seq_block_tag(block_at(a, 2)), 5);
        assert_int_equal(seq_reserve_cost(a, 1), 0 * f->slot);
        say(a, 1, 4);
        assert_int_equal(seq_block_tag(block_at(a, 2)), 0);
        seq_pool_stats(f->pool, &st);
        assert_int_equal(st.n_copied_on_write, 1);
        assert_int_equal(ledger_used(&f->ledger), 5 * f->slot);
        for (uint32_t i = 0; i < 10; i++) {
                assert_int_equal(at(a, i), 1);
                assert_int_equal(at(b, i), 1);
        }
        assert_int_equal(at(a, 10), 4);
        assert_int_equal(at(b, 10), 2);
        assert_int_equal(at(c, 8), 3);
}

static void test_fork_of_a_reserved_tail(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *a = NULL, *b = NULL;
        struct err e;

        assert_int_equal(seq_new(&a, f->pool, NULL), 0);
        say(a, 6, 1);
        assert_int_equal(seq_reserve(a, 1, NULL), 0);
        assert_int_equal(seq_fork(&b, a, 5, &e), -ERR_STATE);
        assert_null(b);
        assert_int_equal(seq_fork(&b, a, 4, NULL), 0);
        b = seq_free(b);
        seq_unreserve(a);
        assert_int_equal(seq_fork(&b, a, 5, NULL), 0);
}

/* A block that a spill worker holds is not written: the sequence goes on in a copy. */
static void test_held_tail_is_left_alone(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL;
        struct seq_block *held;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        say(s, 2, 1);
        held = seq_block_ref(block_at(s, 0));
        ledger_set_budget(&f->ledger, f->slot);
        assert_int_equal(seq_reserve(s, 1, NULL), SEQ_FULL);
        assert_ptr_equal(block_at(s, 0), held);
        ledger_set_budget(&f->ledger, 2 * f->slot);
        say(s, 1, 2);
        assert_ptr_not_equal(block_at(s, 0), held);
        assert_int_equal(((uint8_t *)seq_block_data(held))[2 * (BLOCK / TOKENS)], 0);
        seq_block_unref(held);
        assert_int_equal(ledger_used(&f->ledger), f->slot);
}

static void test_holes(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL, *t = NULL, *u = NULL;
        struct seq_block *b = NULL;
        struct err e;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        say(s, 9, 1);
        assert_int_equal(seq_set_holes(s, 3, NULL, 0, &e), -ERR_STATE);
        assert_int_equal(seq_reserve(s, 9, NULL), 0);
        seq_drop(s, SEQ_ALL, 1);
        assert_int_equal(seq_n_reserved(s), 0);
        seq_drop(s, SEQ_ALL, 1);
        assert_null(block_at(s, 1));
        assert_int_equal(seq_n_resident(s), 2);
        assert_int_equal(ledger_used(&f->ledger), 2 * f->slot);
        assert_int_equal(seq_reserve(s, 1, &e), -ERR_STATE);
        assert_int_equal(seq_fork(&t, s, 7, NULL), 0);
        assert_int_equal(seq_n_resident(t), 1);

        assert_int_equal(seq_block_new(&b, f->pool, SEQ_ALL, NULL), 0);
        memset(seq_block_data(b), 1, BLOCK);
        seq_attach(s, SEQ_ALL, 1, b);
        seq_attach(t, SEQ_ALL, 1, b);
        assert_int_equal(seq_block_n_refs(b), 3);
        seq_block_unref(b);
        assert_int_equal(seq_n_resident(s), 3);
        say(s, 1, 2);
        say(t, 1, 3);
        assert_int_equal(at(s, 7), 1);
        assert_int_equal(at(t, 7), 3);

        assert_int_equal(seq_new(&u, f->pool, NULL), 0);
        assert_int_equal(seq_set_holes(u, 9, NULL, 0, NULL), 0);
        assert_int_equal(seq_n_tokens(u), 9);
        assert_int_equal(seq_n_cells(u), 3);
        assert_int_equal(seq_n_resident(u), 0);
        assert_int_equal(seq_cut(u, 4), 4);
        seq_attach(u, SEQ_ALL, 0, block_at(s, 0));
        say(u, 1, 9);
        assert_int_equal(at(u, 0), 1);
        assert_int_equal(at(u, 4), 9);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_grow_and_cut, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reservation, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_fork_shares_and_copies_on_write, setup, teardown),
                cmocka_unit_test_setup_teardown(test_fork_of_a_reserved_tail, setup, teardown),
                cmocka_unit_test_setup_teardown(test_held_tail_is_left_alone, setup, teardown),
                cmocka_unit_test_setup_teardown(test_holes, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
