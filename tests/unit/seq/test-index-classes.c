/* SPDX-License-Identifier: MIT */
/* The prefix index with windows and states: what is found, what is kept for what is behind it. */
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

enum { BLOCK = 4096, STATE = 2 * 4096, TOKENS = 4, ALICE = 1000, BOB = 1001, MAX_TOKENS = 40 };

static const struct seq_shape state_shape = {.size[SEQ_STATE] = STATE, .block_tokens = TOKENS},
                              hybrid_shape = {.size = {BLOCK, BLOCK, STATE},
                                      .block_tokens = TOKENS,
                                      .window = 6};

struct fixture {
        struct ledger ledger, index_ledger;
        struct seq_pool *pool;
        struct seq_index *x;
        int32_t tokens[MAX_TOKENS];
};

static void open_fixture(struct fixture *f, const struct seq_shape *shape) {
        *f = (struct fixture){
                .ledger = LEDGER_INIT((size_t)1 << 22), .index_ledger = LEDGER_INIT(1 << 16)};
        assert_int_equal(seq_pool_new(&f->pool, &f->ledger, shape, NULL), 0);
        assert_int_equal(seq_index_new(&f->x, f->pool, &f->index_ledger, NULL), 0);
        for (int32_t i = 0; i < MAX_TOKENS; i++)
                f->tokens[i] = 100 + i;
}

static struct seq_index_stats stats(const struct fixture *f) {
        struct seq_index_stats st;

        seq_index_stats(f->x, &st);
        return st;
}

static void close_fixture(struct fixture *f) {
        assert_int_equal(stats(f).n_entries, 0);
        assert_int_equal(stats(f).n_bare, 0);
        assert_int_equal(stats(f).n_scopes, 0);
        assert_int_equal(ledger_used(&f->index_ledger), 0);
        assert_int_equal(ledger_used(&f->ledger), 0);
        seq_index_free(f->x);
        seq_pool_free(f->pool);
}

/* Append tokens, and mark the end. */
static void say(struct seq *s, uint32_t n) {
        assert_int_equal(seq_reserve(s, n, NULL), 0);
        seq_commit(s, n);
        assert_int_equal(seq_mark(s, seq_n_tokens(s), NULL), 0);
}

static struct seq *seq_of(const struct fixture *f, uint32_t n) {
        struct seq *s = NULL;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        say(s, n);
        return s;
}

static int enter(struct fixture *f, uint64_t scope, struct seq *s) {
        return seq_index_enter(f->x, scope, s, f->tokens, 0, NULL);
}

static struct seq_block *block_at(const struct seq *s, enum seq_class c, uint32_t i) {
        struct seq_cell cell;

        return seq_cell_at(s, c, i, &cell) ? cell.block : NULL;
}

/* A model of states alone: entries without a block lead to those at the ends of blocks. */
static void test_states(void **state) {
        struct seq_step steps[MAX_TOKENS / TOKENS];
        struct seq *s, *t = NULL;
        struct fixture f;

        open_fixture(&f, &state_shape);
        s = seq_of(&f, 7);
        assert_int_equal(enter(&f, ALICE, s), 0); /* token 6 ends no block */
        assert_int_equal(stats(&f).n_entries, 0);
        assert_int_equal(stats(&f).n_scopes, 0);
        say(s, 5);
        say(s, 10);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(stats(&f).n_entries, 3);
        assert_int_equal(stats(&f).n_bare, 2);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 5, steps), 3);
        assert_int_equal(stats(&f).n_matched, 1);
        assert_null(steps[1].block[SEQ_STATE]);
        assert_ptr_equal(steps[2].block[SEQ_STATE], block_at(s, SEQ_STATE, 11));
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 3), 3);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 2), 0);
        assert_int_equal(seq_index_common(f.x, ALICE, f.tokens, 10), 10);
        assert_int_equal(seq_index_match(f.x, BOB, f.tokens, 5, steps), 0);

        /* Both have a state there: one is enough. */
        assert_int_equal(seq_new(&t, f.pool, NULL), 0);
        say(t, 12);
        say(t, 8);
        assert_int_equal(enter(&f, ALICE, t), 0);
        assert_ptr_equal(block_at(t, SEQ_STATE, 11), block_at(s, SEQ_STATE, 11));
        assert_int_equal(stats(&f).n_merged, 1);
        assert_int_equal(stats(&f).n_entries, 5);
        assert_int_equal(stats(&f).n_bare, 3);
        /* The path goes with the last state on it. */
        s = seq_free(s);
        assert_int_equal(stats(&f).n_entries, 5);
        seq_unmark(t, 20);
        say(t, 1);
        assert_int_equal(stats(&f).n_entries, 3);
        t = seq_free(t);
        close_fixture(&f);
}

/* Blocks of windows go sooner than those of full attention; the entry stays. */
static void test_windows(void **state) {
        struct seq_step steps[MAX_TOKENS / TOKENS];
        struct seq *s, *t = NULL;
        struct fixture f;

        open_fixture(&f, &hybrid_shape);
        s = seq_of(&f, 12); /* token 12 sees from 7 on */
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 5, steps), 3);
        assert_null(steps[0].block[SEQ_WINDOW]);
        assert_non_null(steps[1].block[SEQ_WINDOW]);
        seq_unmark(s, 12);
        say(s, 12);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 6, steps), 6);
        assert_null(steps[2].block[SEQ_WINDOW]);
        assert_non_null(steps[2].block[SEQ_ALL]);
        assert_null(steps[2].block[SEQ_STATE]);
        assert_int_equal(stats(&f).n_bare, 0);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 6), 6);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 5), 0);
        assert_int_equal(seq_new(&t, f.pool, NULL), 0);
        assert_int_equal(seq_adopt(t, steps, 6, NULL), 0);
        assert_int_equal(ledger_used(&f.ledger), 6 * BLOCK + 2 * BLOCK + STATE);
        s = seq_free(s);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 6, steps), 6);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 6), 6);
        /* Without its blocks of full attention, what is left is of no use, but found. */
        for (uint32_t i = 0; i < 6; i++)
                seq_drop(t, SEQ_ALL, i);
        assert_int_equal(stats(&f).n_bare, 4);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 6, steps), 6);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 6), 0);
        assert_int_equal(seq_steps_whole(f.pool, t, steps, 6), 6);
        t = seq_free(t);
        close_fixture(&f);
}

/* A cut makes blocks of attention partial, in both classes; the state at the cut is as it was. */
static void test_written_tail_is_not_found(void **state) {
        struct seq_step steps[MAX_TOKENS / TOKENS];
        struct fixture f;
        struct seq *s;

        open_fixture(&f, &hybrid_shape);
        s = seq_of(&f, 6);
        say(s, 2);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(seq_cut(s, 7), 6);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 2, steps), 2);
        assert_null(steps[1].block[SEQ_STATE]);
        assert_non_null(steps[1].block[SEQ_WINDOW]);
        assert_int_equal(seq_reserve(s, 1, NULL), 0);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 2, steps), 1);
        assert_non_null(steps[0].block[SEQ_ALL]);
        assert_non_null(steps[0].block[SEQ_WINDOW]);
        assert_null(steps[0].block[SEQ_STATE]);
        seq_free(s);
        close_fixture(&f);
}

/* Each class is merged for itself, keeps its tag, and takes entries of other scopes along. */
static void test_merge_of_classes(void **state) {
        struct seq_step steps[MAX_TOKENS / TOKENS];
        struct seq *s, *t;
        struct seq_block *all, *window, *last;
        struct fixture f;

        open_fixture(&f, &hybrid_shape);
        s = seq_of(&f, 8);
        t = seq_of(&f, 8);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(enter(&f, BOB, t), 0);
        all = block_at(t, SEQ_ALL, 1);
        window = block_at(t, SEQ_WINDOW, 1);
        last = block_at(s, SEQ_STATE, 7);
        seq_block_set_tag(block_at(t, SEQ_STATE, 7), 5);
        /* What the first one no longer has is not merged. */
        seq_drop(s, SEQ_WINDOW, 1);
        assert_int_equal(enter(&f, ALICE, t), 0);
        assert_int_equal(stats(&f).n_merged, 2 + 1 + 1);
        assert_ptr_not_equal(block_at(t, SEQ_ALL, 1), all);
        assert_ptr_equal(block_at(t, SEQ_WINDOW, 1), window);
        assert_ptr_equal(block_at(t, SEQ_STATE, 7), last);
        assert_int_equal(seq_block_tag(last), 5);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 2, steps), 2);
        assert_ptr_equal(steps[1].block[SEQ_WINDOW], window);
        assert_int_equal(seq_index_match(f.x, BOB, f.tokens, 2, steps), 2);
        assert_ptr_equal(steps[1].block[SEQ_ALL], block_at(s, SEQ_ALL, 1));
        assert_ptr_equal(steps[1].block[SEQ_WINDOW], window);
        assert_ptr_equal(steps[1].block[SEQ_STATE], last);
        seq_index_forget(f.x, ALICE);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 2, steps), 0);
        assert_int_equal(seq_index_match(f.x, BOB, f.tokens, 2, steps), 2);
        seq_free(s);
        seq_free(t);
        close_fixture(&f);
}

/* Without room nothing is left of a path that leads to no block. */
static void test_no_room_for_a_path(void **state) {
        struct seq_step steps[MAX_TOKENS / TOKENS];
        struct fixture f;
        struct seq *s;
        size_t size;

        open_fixture(&f, &state_shape);
        size = seq_index_entry_size(f.x);
        s = seq_of(&f, 8);
        say(s, 20);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(stats(&f).n_entries, 7);
        seq_index_forget(f.x, ALICE);
        ledger_set_budget(&f.index_ledger, 6 * size + size - 1);
        assert_int_equal(enter(&f, ALICE, s), SEQ_FULL);
        assert_int_equal(stats(&f).n_entries, 2);
        assert_int_equal(stats(&f).n_bare, 1);
        assert_int_equal(seq_index_match(f.x, ALICE, f.tokens, 7, steps), 2);
        seq_index_forget(f.x, ALICE);
        ledger_set_budget(&f.index_ledger, 2 * size);
        assert_int_equal(enter(&f, ALICE, s), SEQ_FULL);
        assert_int_equal(stats(&f).n_entries, 0);
        assert_int_equal(stats(&f).n_scopes, 0);
        assert_int_equal(ledger_used(&f.index_ledger), 0);
        seq_free(s);
        close_fixture(&f);
}

/* Behind the last block in RAM nothing is entered: an index that is just large enough for it takes it. */
static void test_nothing_behind_the_last_block(void **state) {
        struct fixture f;
        struct seq *s;

        open_fixture(&f, &hybrid_shape);
        s = seq_of(&f, 20);
        for (uint32_t i = 1; i < 5; i++)
                seq_drop(s, SEQ_ALL, i);
        for (uint32_t i = 3; i < 5; i++)
                seq_drop(s, SEQ_WINDOW, i);
        seq_drop(s, SEQ_STATE, 19);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(stats(&f).n_entered, 1);
        ledger_set_budget(&f.index_ledger, ledger_used(&f.index_ledger));
        seq_index_forget(f.x, ALICE);
        assert_int_equal(enter(&f, ALICE, s), 0);
        assert_int_equal(stats(&f).n_entries, 1);
        assert_int_equal(stats(&f).n_refused, 0);
        seq_free(s);
        close_fixture(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_windows),
                cmocka_unit_test(test_written_tail_is_not_found),
                cmocka_unit_test(test_merge_of_classes),
                cmocka_unit_test(test_no_room_for_a_path),
                cmocka_unit_test(test_nothing_behind_the_last_block),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
