/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/sanitize.h"
#include "util/test.h"

enum { BLOCK = 4096, TOKENS = 4, ALICE = 1000, BOB = 1001 };

static const struct seq_shape shape = {.size[SEQ_ALL] = BLOCK, .block_tokens = TOKENS};

struct fixture {
        struct ledger ledger, index_ledger;
        struct seq_pool *pool;
        struct seq_index *x;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        f->ledger.budget = (size_t)1 << 20;
        f->index_ledger.budget = 1 << 16;
        assert_int_equal(seq_pool_new(&f->pool, &f->ledger, &shape, NULL), 0);
        assert_int_equal(seq_index_new(&f->x, f->pool, &f->index_ledger, NULL), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;
        struct seq_index_stats st;

        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 0);
        assert_int_equal(st.n_bare, 0);
        assert_int_equal(st.n_scopes, 0);
        assert_int_equal(st.size, 0);
        assert_int_equal(ledger_used(&f->index_ledger), 0);
        assert_int_equal(ledger_used(&f->ledger), 0);
        seq_index_free(f->x);
        seq_pool_free(f->pool);
        free(f);
        return 0;
}

static struct seq *seq_of(const struct fixture *f, uint32_t n_tokens) {
        struct seq *s = NULL;

        assert_int_equal(seq_new(&s, f->pool, NULL), 0);
        assert_int_equal(seq_reserve(s, n_tokens, NULL), 0);
        seq_commit(s, n_tokens);
        return s;
}

static struct seq_block *block_at(const struct seq *s, size_t i) {
        struct seq_cell cell = {0};

        assert_true(seq_cell_at(s, SEQ_ALL, (uint32_t)i, &cell));
        return cell.block;
}

/* How far an empty sequence could go, and the blocks up to there. */
static size_t match(const struct fixture *f, uint64_t scope, const int32_t *tokens, size_t n,
        struct seq_block **out) {
        struct seq_step steps[16];

        assert_true(n <= ARRAY_SIZE(steps));
        n = seq_index_match(f->x, scope, tokens, n, steps);
        n = seq_steps_whole(f->pool, NULL, steps, n);
        for (size_t i = 0; out && i < n; i++)
                out[i] = steps[i].block[SEQ_ALL];
        return n;
}

/* Make @s a sequence of these blocks. */
static int adopt(struct seq *s, struct seq_block *const *blocks, size_t n, struct err *e) {
        struct seq_step steps[16] = {0};

        assert_true(n <= ARRAY_SIZE(steps));
        for (size_t i = 0; i < n; i++)
                steps[i].block[SEQ_ALL] = blocks[i];
        return seq_adopt(s, steps, n, e);
}

static void test_enter_match_adopt(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL, *t = NULL;
        struct seq_block *out[4] = {0};
        struct seq_index_stats st;
        int32_t tokens[16], other[16];

        for (int32_t i = 0; i < 16; i++)
                tokens[i] = other[i] = i;
        s = seq_of(f, 14);
        assert_int_equal(match(f, ALICE, tokens, 4, out), 0);
        assert_int_equal(seq_index_common(f->x, ALICE, tokens, 16), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 2, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 9, NULL), 0);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 3);
        assert_int_equal(st.n_entered, 3);
        assert_int_equal(st.n_scopes, 1);
        assert_true(st.size >= 3 * seq_index_entry_size(f->x));
        assert_int_equal(st.size, ledger_used(&f->index_ledger));

        /* Only the full blocks, as many as wanted, and not for anyone else. */
        assert_int_equal(match(f, ALICE, tokens, 4, out), 3);
        for (size_t i = 0; i < 3; i++)
                assert_ptr_equal(out[i], block_at(s, i));
        assert_int_equal(match(f, ALICE, tokens, 2, NULL), 2);
        assert_int_equal(match(f, ALICE, tokens, 0, NULL), 0);
        assert_int_equal(match(f, BOB, tokens, 4, NULL), 0);
        assert_int_equal(match(f, SEQ_SCOPE_PUBLIC, tokens, 4, NULL), 0);
        assert_int_equal(seq_index_common(f->x, BOB, tokens, 16), 0);
        other[6] = 99;
        assert_int_equal(match(f, ALICE, other, 4, NULL), 1);
        assert_int_equal(match(f, ALICE, tokens + 4, 2, NULL), 0);
        assert_int_equal(seq_index_common(f->x, ALICE, other, 16), 6);
        assert_int_equal(seq_index_common(f->x, ALICE, other, 5), 5);
        assert_int_equal(seq_index_common(f->x, ALICE, tokens, 16), 12);
        assert_int_equal(seq_index_common(f->x, ALICE, tokens, 0), 0);

        assert_int_equal(seq_new(&t, f->pool, NULL), 0);
        assert_int_equal(adopt(t, out, 2, NULL), 0);
        assert_int_equal(seq_n_tokens(t), 8);
        assert_int_equal(adopt(t, out, 3, NULL), 0);
        assert_int_equal(seq_n_tokens(t), 12);
        assert_int_equal(seq_block_n_refs(out[2]), 2);
        assert_ptr_equal(seq_table(t, SEQ_ALL)[1], seq_block_data(out[1]));
        /* The blocks outlive the sequence that entered them, and so do their entries. */
        s = seq_free(s);
        assert_int_equal(match(f, ALICE, tokens, 4, out), 3);
        seq_cut(t, 8);
        assert_int_equal(match(f, ALICE, tokens, 4, out), 2);
}

static void test_adopt_refuses(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 12), *t = NULL;
        struct seq_block *b[3] = {block_at(s, 0), block_at(s, 1), block_at(s, 2)}, *own;
        struct err e;

        t = seq_of(f, 5);
        own = block_at(t, 0);
        assert_int_equal(seq_reserve(t, 1, NULL), 0);
        assert_int_equal(adopt(t, b, 3, &e), -ERR_STATE);
        seq_unreserve(t);
        assert_int_equal(adopt(t, b, 0, &e), -ERR_INVALID);
        assert_int_equal(adopt(t, b, 1, &e), -ERR_INVALID);
        b[1] = NULL;
        assert_int_equal(adopt(t, b, 3, &e), -ERR_INVALID);
        assert_int_equal(seq_n_tokens(t), 5);
        assert_int_equal(ledger_used(&f->ledger), 5 * BLOCK);
        /* Its own full blocks stay, its partial tail goes. */
        b[1] = block_at(s, 1);
        assert_int_equal(adopt(t, b, 3, NULL), 0);
        assert_int_equal(seq_n_tokens(t), 12);
        assert_ptr_equal(block_at(t, 0), own);
        assert_ptr_equal(block_at(t, 1), b[1]);
        assert_int_equal(ledger_used(&f->ledger), 4 * BLOCK);
        assert_int_equal(seq_block_n_refs(b[0]), 1);
        assert_int_equal(seq_block_n_refs(b[1]), 2);
        assert_int_equal(seq_adopt(t, NULL, SIZE_MAX / 2, &e), -ERR_INVALID);
}

/* A full block that a cut made partial is found until it is about to be written, not longer. */
static void test_written_tail_is_not_found(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 12), *t = NULL;
        int32_t tokens[12] = {0};
        struct seq_block *out[3];

        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        seq_cut(s, 6);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 2);
        assert_int_equal(seq_reserve(s, 0, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 2);
        /* Shared by then, it stays as it is and is found by the one who adopted it. */
        assert_int_equal(seq_new(&t, f->pool, NULL), 0);
        assert_int_equal(adopt(t, out, 2, NULL), 0);
        assert_int_equal(seq_reserve(s, 1, NULL), 0);
        assert_ptr_not_equal(seq_table(s, SEQ_ALL)[1], seq_table(t, SEQ_ALL)[1]);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 2);
        assert_ptr_equal(out[1], block_at(t, 1));
        seq_unreserve(s);
        seq_cut(t, 7);
        assert_int_equal(seq_reserve(t, 1, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 1);
        /* Entered again, the partial block is not among the full ones. */
        assert_int_equal(seq_index_enter(f->x, ALICE, t, tokens, 0, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 1);
        seq_commit(t, 1);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, tokens, 1, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 2);
}

static void test_merge(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 13), *t = seq_of(f, 16), *fork = NULL;
        struct seq_index_stats st;
        int32_t tokens[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        struct seq_block *a, *b;

        a = block_at(s, 0);
        b = block_at(s, 1);
        seq_block_set_tag(a, 7);
        seq_block_set_tag(block_at(t, 0), 8);
        seq_block_set_tag(block_at(t, 1), 9);
        assert_int_equal(seq_fork(&fork, t, 8, NULL), 0);
        assert_int_equal(ledger_used(&f->ledger), 8 * BLOCK);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, tokens, 0, NULL), 0);
        assert_ptr_equal(block_at(t, 0), a);
        assert_ptr_equal(block_at(t, 1), b);
        assert_ptr_equal(seq_table(t, SEQ_ALL)[1], seq_block_data(b));
        assert_ptr_equal(block_at(t, 2), block_at(s, 2));
        assert_int_equal(seq_block_n_refs(b), 2);
        /* The entered block's tag stays, unless it has none. */
        assert_int_equal(seq_block_tag(a), 7);
        assert_int_equal(seq_block_tag(b), 9);
        assert_int_equal(seq_block_tag(block_at(t, 2)), 0);
        /* The fork still holds what the sequence let go. */
        assert_int_equal(ledger_used(&f->ledger), 7 * BLOCK);
        assert_int_equal(seq_index_enter(f->x, ALICE, fork, tokens, 0, NULL), 0);
        assert_int_equal(ledger_used(&f->ledger), 5 * BLOCK);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_merged, 5);
        assert_int_equal(st.n_entries, 4);
}

/* Merged in one scope, the block that goes takes its entries of the others along. */
static void test_merge_keeps_other_scopes(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 12), *t = seq_of(f, 12);
        int32_t tokens[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
        struct seq_block *out[3];

        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        assert_int_equal(seq_index_enter_range(f->x, SEQ_SCOPE_PUBLIC, s, tokens, 0, 2, NULL), 0);
        assert_int_equal(match(f, SEQ_SCOPE_PUBLIC, tokens, 3, NULL), 2);
        assert_int_equal(seq_index_enter(f->x, BOB, t, tokens, 0, NULL), 0);
        assert_int_equal(match(f, BOB, tokens, 3, out), 3);
        assert_ptr_equal(out[0], block_at(t, 0));
        assert_int_equal(seq_index_enter_range(f->x, SEQ_SCOPE_PUBLIC, t, tokens, 0, 2, NULL), 0);
        assert_int_equal(match(f, BOB, tokens, 3, out), 3);
        assert_ptr_equal(out[0], block_at(s, 0));
        assert_ptr_equal(out[1], block_at(s, 1));
        assert_ptr_equal(out[2], block_at(t, 2));
        assert_ptr_not_equal(out[2], block_at(s, 2));

        /* Withdrawn: the owner and whoever uses it keep it, each for himself. */
        seq_index_forget(f->x, SEQ_SCOPE_PUBLIC);
        seq_index_forget(f->x, SEQ_SCOPE_PUBLIC);
        assert_int_equal(match(f, SEQ_SCOPE_PUBLIC, tokens, 3, out), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 3);
        assert_int_equal(match(f, BOB, tokens, 3, out), 3);
        s = seq_free(s);
        assert_int_equal(match(f, ALICE, tokens, 3, out), 2);
        seq_index_forget(f->x, ALICE);
        assert_int_equal(match(f, BOB, tokens, 3, out), 3);
}

static void restore(const struct fixture *f, struct seq *s, size_t i) {
        struct seq_block *b = NULL;

        assert_int_equal(seq_block_new(&b, f->pool, SEQ_ALL, NULL), 0);
        seq_attach(s, SEQ_ALL, i, b);
        seq_block_unref(b);
}

/* What lies behind a block that is gone is still found, and merged with what is computed again. */
static void test_bare_entries(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = NULL, *t = NULL;
        struct seq_step steps[3];
        struct seq_block *b[3];
        struct seq_index_stats st;
        int32_t tokens[12];

        for (int32_t i = 0; i < 12; i++)
                tokens[i] = 100 + i;
        s = seq_of(f, 12);
        for (size_t i = 0; i < 3; i++)
                b[i] = block_at(s, i);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        seq_drop(s, SEQ_ALL, 0);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 3);
        assert_int_equal(st.n_bare, 1);
        assert_int_equal(st.n_matched, 0);
        assert_int_equal(seq_index_match(f->x, ALICE, tokens, 3, steps), 3);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_matched, 2);
        assert_null(steps[0].block[SEQ_ALL]);
        assert_ptr_equal(steps[1].block[SEQ_ALL], b[1]);
        assert_ptr_equal(steps[2].block[SEQ_ALL], b[2]);
        assert_int_equal(seq_steps_whole(f->pool, NULL, steps, 3), 0);
        assert_int_equal(match(f, ALICE, tokens, 3, NULL), 0);
        assert_int_equal(seq_index_common(f->x, ALICE, tokens, 12), 12);
        /* A sequence that has the block that is gone goes on behind it. */
        t = seq_of(f, 4);
        assert_int_equal(seq_steps_whole(f->pool, t, steps, 3), 3);
        assert_int_equal(seq_adopt(t, steps, 3, NULL), 0);
        assert_ptr_equal(block_at(t, 1), b[1]);
        t = seq_free(t);

        t = seq_of(f, 12);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, tokens, 0, NULL), 0);
        assert_ptr_equal(block_at(t, 1), b[1]);
        assert_ptr_equal(block_at(t, 2), b[2]);
        assert_int_equal(match(f, ALICE, tokens, 3, b), 3);
        assert_ptr_equal(block_at(t, 0), b[0]);
        /* The first sequence takes the second one's block where it has none. */
        assert_int_equal(seq_index_match(f->x, ALICE, tokens, 3, steps), 3);
        seq_cut(s, 8);
        assert_int_equal(seq_adopt(s, steps, 3, NULL), 0);
        assert_ptr_equal(block_at(s, 0), b[0]);
        assert_int_equal(seq_n_missing(s), 0);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_bare, 0);
        assert_int_equal(st.n_entries, 3);
        /* Entries without a block go with what is behind them. */
        s = seq_free(s);
        seq_drop(t, SEQ_ALL, 0);
        seq_drop(t, SEQ_ALL, 1);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_bare, 2);
        seq_cut(t, 11); /* the block is still full */
        assert_int_equal(seq_index_match(f->x, ALICE, tokens, 3, steps), 3);
        seq_cut(t, 8);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 0);
        assert_int_equal(st.size, 0);
}

static void test_holes(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 24), *t = NULL;
        struct seq_index_stats st;
        int32_t tokens[24] = {0};
        struct seq_block *out[6];

        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        seq_drop(s, SEQ_ALL, 2);
        assert_int_equal(match(f, ALICE, tokens, 6, NULL), 2);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 6);
        assert_int_equal(st.n_bare, 1);
        /* In another scope, what is behind the hole is entered too, behind a bare entry. */
        assert_int_equal(seq_index_enter(f->x, BOB, s, tokens, 3, NULL), 0);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 12);
        assert_int_equal(st.n_bare, 2);
        assert_int_equal(match(f, BOB, tokens, 6, NULL), 2);
        restore(f, s, 2);
        assert_int_equal(match(f, ALICE, tokens, 6, NULL), 2);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 2, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 6, out), 6);
        for (size_t i = 0; i < 6; i++)
                assert_ptr_equal(out[i], block_at(s, i));
        assert_int_equal(match(f, BOB, tokens, 6, NULL), 2);
        seq_index_forget(f->x, BOB);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 6);
        assert_int_equal(st.n_entered, 12);
        assert_int_equal(st.n_bare, 0);

        /* Behind what was never entered: that is entered, too. */
        seq_drop(s, SEQ_ALL, 0);
        seq_drop(s, SEQ_ALL, 1);
        restore(f, s, 0);
        restore(f, s, 1);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 2, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 6, out), 6);

        /* The same prefix in other blocks, and then the rest of the old ones behind it. */
        assert_int_equal(seq_fork(&t, s, 24, NULL), 0);
        seq_drop(s, SEQ_ALL, 0);
        seq_drop(t, SEQ_ALL, 0);
        assert_int_equal(match(f, ALICE, tokens, 6, out), 0);
        restore(f, s, 0);
        assert_int_equal(seq_index_enter_range(f->x, ALICE, s, tokens, 0, 1, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 6, out), 6);
        restore(f, t, 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, tokens, 0, NULL), 0);
        assert_ptr_equal(block_at(t, 0), block_at(s, 0));
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_entries, 6);
        assert_int_equal(st.n_merged, 1);
        /* Nothing in memory, nothing to enter. */
        for (uint32_t i = 0; i < 6; i++)
                seq_drop(t, SEQ_ALL, i);
        assert_int_equal(seq_index_enter(f->x, BOB, t, tokens, 0, NULL), 0);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_scopes, 1);
}

static void test_no_room(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 40);
        size_t used, size = seq_index_entry_size(f->x);
        struct seq_index_stats st;
        int32_t tokens[40] = {0};

        ledger_set_budget(&f->index_ledger, 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), SEQ_FULL);
        ledger_set_budget(&f->index_ledger, 1 << 16);
        assert_int_equal(seq_index_enter_range(f->x, ALICE, s, tokens, 0, 4, NULL), 0);
        used = ledger_used(&f->index_ledger);
        ledger_set_budget(&f->index_ledger, used + 3 * size + size - 1);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 4, NULL), SEQ_FULL);
        assert_int_equal(match(f, ALICE, tokens, 10, NULL), 7);
        assert_int_equal(ledger_used(&f->index_ledger), used + 3 * size);
        assert_int_equal(seq_index_enter(f->x, BOB, s, tokens, 0, NULL), SEQ_FULL);
        seq_index_stats(f->x, &st);
        assert_int_equal(st.n_scopes, 1);
        assert_int_equal(st.n_refused, 10 + 3 + 10);
        ledger_set_budget(&f->index_ledger, 1 << 16);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 9, NULL), 0);
        assert_int_equal(match(f, ALICE, tokens, 10, NULL), 10);
}

/* A caller whose tokens are wrong gets an error, and no cycle. */
static void test_wrong_callers(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 8), *t = NULL;
        int32_t tokens[12] = {1, 2, 3, 4}, same[12] = {0};
        struct seq_block *twice[2] = {block_at(s, 0), block_at(s, 0)};
        struct err e;

        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens, 0, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, s, tokens + 1, 0, &e), -ERR_INVALID);
        assert_int_equal(match(f, ALICE, tokens, 2, NULL), 2);
        seq_index_forget(f->x, ALICE);
        assert_int_equal(seq_new(&t, f->pool, NULL), 0);
        assert_int_equal(adopt(t, twice, 2, NULL), 0);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, same, 0, &e), -ERR_INVALID);
        assert_int_equal(seq_index_enter(f->x, ALICE, t, same, 2, &e), 0);
        assert_int_equal(match(f, ALICE, same, 3, NULL), 1);
}

/* The index may go first, or last. */
static void test_lifetimes(void **state) {
        struct ledger l = LEDGER_INIT((size_t)1 << 20);
        struct seq_pool *pool = NULL;
        struct seq_index *x = NULL, *y = NULL;
        struct seq_step steps[2];
        struct seq *s = NULL;
        int32_t tokens[8] = {0};

        assert_int_equal(seq_pool_new(&pool, &l, &shape, NULL), 0);
        assert_int_equal(seq_index_new(&x, pool, &l, NULL), 0);
        assert_int_equal(seq_index_new(&y, pool, &l, NULL), 0);
        assert_int_equal(seq_new(&s, pool, NULL), 0);
        assert_int_equal(seq_reserve(s, 8, NULL), 0);
        seq_commit(s, 8);
        for (uint64_t scope = 0; scope < 20; scope++) {
                assert_int_equal(seq_index_enter(x, scope, s, tokens, 0, NULL), 0);
                assert_int_equal(seq_index_enter(y, scope, s, tokens, 0, NULL), 0);
        }
        x = seq_index_free(x);
        assert_null(x);
        assert_int_equal(seq_index_match(y, 3, tokens, 2, steps), 2);
        seq_free(s);
        assert_int_equal(seq_index_match(y, 3, tokens, 2, steps), 0);
        assert_int_equal(ledger_used(&l), 0);
        seq_pool_free(pool);
        seq_index_free(y);
        assert_null(seq_index_free(NULL));
}

static void test_pool_sizes(void **state) {
        struct fixture *f = *state;
        _cleanup_(seq_freep) struct seq *s = seq_of(f, 9);
        struct seq_pool_stats st;

        seq_pool_stats(f->pool, &st);
        assert_int_equal(st.charged_size, 3 * BLOCK);
        assert_int_equal(st.unreturned_size, 0);
        assert_int_equal(st.mapped_size, (st.n_blocks[SEQ_ALL] + st.n_free_slots) * BLOCK);
        seq_cut(s, 0);
        seq_pool_stats(f->pool, &st);
        assert_int_equal(st.charged_size, 0);
        assert_int_equal(st.mapped_size, st.n_free_slots * BLOCK);
}

static uint64_t usec_of(uint64_t from) {
        return clock_monotonic_usec() - from;
}

/* What a conversation of 8,000 tokens costs; the bounds are far from what is measured. */
static void test_cost(void **state) {
        enum { N = 8000, BT = 32, REPEAT = 50 };
        struct ledger l = LEDGER_INIT((size_t)1 << 26), li = LEDGER_INIT((size_t)1 << 20);
        _cleanup_(seq_pool_freep) struct seq_pool *pool = NULL;
        _cleanup_(seq_index_freep) struct seq_index *x = NULL;
        uint64_t fork = UINT64_MAX, reserve = UINT64_MAX, again = UINT64_MAX, find = UINT64_MAX;
        const struct seq_shape usual_shape = {.size[SEQ_ALL] = BLOCK, .block_tokens = BT};
        struct seq_step out[N / BT];
        struct seq *s = NULL;
        int32_t tokens[N];
        uint64_t first;

        assert_int_equal(seq_pool_new(&pool, &l, &usual_shape, NULL), 0);
        assert_int_equal(seq_index_new(&x, pool, &li, NULL), 0);
        assert_int_equal(seq_new(&s, pool, NULL), 0);
        assert_int_equal(seq_reserve(s, N, NULL), 0);
        seq_commit(s, N);
        for (int32_t i = 0; i < N; i++)
                tokens[i] = i * 7 % 1000;
        first = clock_monotonic_usec();
        assert_int_equal(seq_index_enter(x, ALICE, s, tokens, 0, NULL), 0);
        first = usec_of(first);
        for (int i = 0; i < REPEAT; i++) {
                struct seq *t = NULL;
                uint64_t at = clock_monotonic_usec();

                assert_int_equal(seq_fork(&t, s, N - 1, NULL), 0);
                fork = MIN(fork, usec_of(at));
                assert_int_equal(ledger_used(&l), N / BT * BLOCK); /* it took no memory */
                at = clock_monotonic_usec();
                assert_int_equal(seq_reserve(t, 40, NULL), 0);
                reserve = MIN(reserve, usec_of(at));
                seq_free(t);
                at = clock_monotonic_usec();
                assert_int_equal(seq_index_enter(x, ALICE, s, tokens, 0, NULL), 0);
                again = MIN(again, usec_of(at));
                at = clock_monotonic_usec();
                assert_int_equal(seq_index_match(x, ALICE, tokens, N / BT, out), N / BT);
                find = MIN(find, usec_of(at));
        }
        print_message("8,000 tokens in usec: fork %llu, first reserve of a fork %llu, "
                      "enter %llu, again %llu, match %llu\n",
                (unsigned long long)fork, (unsigned long long)reserve, (unsigned long long)first,
                (unsigned long long)again, (unsigned long long)find);
#if !TEST_SANITIZED
        assert_true(fork < 50);
        assert_true(reserve < 200);
        assert_true(again < 200);
        assert_true(find < 200);
#endif
        seq_free(s);
}

/* Many conversations that part in the same block: still found by order, not one by one. */
static void test_many_branches(void **state) {
        enum { N = 20000, BT = 32 };
        const struct seq_shape usual_shape = {.size[SEQ_ALL] = BLOCK, .block_tokens = BT};
        struct ledger l = LEDGER_INIT((size_t)1 << 30);
        struct seq_pool *pool = NULL;
        struct seq_index *x = NULL;
        struct seq_step steps[2];
        static struct seq *s[N];
        int32_t tokens[2 * BT] = {0};
        struct seq_block *head;
        uint64_t at;

        assert_int_equal(seq_pool_new(&pool, &l, &usual_shape, NULL), 0);
        assert_int_equal(seq_index_new(&x, pool, &l, NULL), 0);
        for (int32_t i = 0; i < N; i++) {
                assert_int_equal(seq_new(&s[i], pool, NULL), 0);
                assert_int_equal(seq_reserve(s[i], 2 * BT, NULL), 0);
                seq_commit(s[i], 2 * BT);
        }
        at = clock_monotonic_usec();
        for (int32_t i = 0; i < N; i++) {
                tokens[2 * BT - 1] = i; /* rising: the worst order for a plain tree */
                assert_int_equal(seq_index_enter(x, ALICE, s[i], tokens, 0, NULL), 0);
        }
        for (int32_t i = 0; i < N; i++) {
                tokens[2 * BT - 1] = i;
                assert_int_equal(seq_index_match(x, ALICE, tokens, 2, steps), 2);
                assert_int_equal(seq_index_common(x, ALICE, tokens, 2 * BT), 2 * BT);
        }
        tokens[2 * BT - 1] = -1;
        assert_int_equal(seq_index_common(x, ALICE, tokens, 2 * BT), 2 * BT - 1);
        head = block_at(s[0], 0);
        assert_int_equal(seq_block_n_refs(head), N);
        for (size_t i = 0; i < N; i++)
                seq_drop(s[i], SEQ_ALL, 0);
        for (size_t i = 0; i < N; i++)
                seq_free(s[i]);
        at = usec_of(at);
        print_message(
                "%d branches entered, found and dropped in %llu usec\n", N, (unsigned long long)at);
#if !TEST_SANITIZED
        assert_true(at < 5000000); /* one by one it is minutes */
#endif
        assert_int_equal(ledger_used(&l), 0);
        seq_index_free(x);
        seq_pool_free(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_enter_match_adopt, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_refuses, setup, teardown),
                cmocka_unit_test_setup_teardown(test_written_tail_is_not_found, setup, teardown),
                cmocka_unit_test_setup_teardown(test_merge, setup, teardown),
                cmocka_unit_test_setup_teardown(test_merge_keeps_other_scopes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bare_entries, setup, teardown),
                cmocka_unit_test_setup_teardown(test_holes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
                cmocka_unit_test_setup_teardown(test_wrong_callers, setup, teardown),
                cmocka_unit_test(test_lifetimes),
                cmocka_unit_test_setup_teardown(test_pool_sizes, setup, teardown),
                cmocka_unit_test(test_cost),
                cmocka_unit_test(test_many_branches),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
