/* SPDX-License-Identifier: MIT */
/* Windows, chunks and states: what is kept, what goes, and where a sequence can come back to. */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

enum { BLOCK = 4096, STATE = 3 * 4096, TOKENS = 4 };

static const struct seq_shape
        window_shape = {.size[SEQ_WINDOW] = BLOCK, .block_tokens = TOKENS, .window = 6},
        chunk_shape = {.size[SEQ_WINDOW] = BLOCK, .block_tokens = TOKENS, .chunk = 8},
        state_shape = {.size[SEQ_STATE] = STATE, .block_tokens = TOKENS},
        hybrid_shape = {.size = {BLOCK, BLOCK, STATE}, .block_tokens = TOKENS, .window = 6};

struct fixture {
        struct ledger ledger;
        struct seq_pool *pool;
        struct seq *s;
};

static void open_fixture(struct fixture *f, const struct seq_shape *shape) {
        *f = (struct fixture){.ledger = LEDGER_INIT((size_t)1 << 22)};
        assert_int_equal(seq_pool_new(&f->pool, &f->ledger, shape, NULL), 0);
        assert_int_equal(seq_new(&f->s, f->pool, NULL), 0);
}

static void close_fixture(struct fixture *f) {
        seq_free(f->s);
        assert_int_equal(ledger_used(&f->ledger), 0);
        seq_pool_free(f->pool);
}

/* Append @n tokens, @chunk at a time. Position p's memory is p + 1, and so is the state after it. */
static void say(struct seq *s, uint32_t n, uint32_t chunk) {
        for (uint32_t end = seq_n_tokens(s) + n; seq_n_tokens(s) < end;) {
                uint32_t at = seq_n_tokens(s), k = MIN(chunk, end - at);

                assert_int_equal(seq_reserve(s, k, NULL), 0);
                for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                        for (uint32_t p = at; seq_table(s, c) && p < at + k; p++)
                                ((uint32_t *)seq_table(s, c)[p / TOKENS])[p % TOKENS] = p + 1;
                if (seq_next_state(s)) {
                        const uint32_t *before = seq_state(s);

                        assert_int_equal(before ? *before : 0, at);
                        *(uint32_t *)seq_next_state(s) = at + k;
                }
                seq_commit(s, k);
        }
}

/* Whether exactly these cells of the class are not absent; @want ends with -1. */
static void check_cells(const struct seq *s, enum seq_class c, const int *want) {
        struct seq_cell cell;
        size_t it = 0;

        for (; seq_next_cell(s, c, &it, &cell); want++) {
                assert_int_equal(cell.index, *want);
                assert_true(seq_cell_at(s, c, cell.index, &cell));
                if (cell.block)
                        assert_int_equal(seq_block_class(cell.block), c);
        }
        assert_int_equal(*want, -1);
}
#define CELLS(...) ((const int[]){__VA_ARGS__ __VA_OPT__(, ) - 1})

static void test_window(void **state) {
        struct fixture f;

        open_fixture(&f, &window_shape);
        say(f.s, 5, 5);
        check_cells(f.s, SEQ_WINDOW, CELLS(0, 1));
        assert_int_equal(seq_whole(f.s, 3), 3);
        say(f.s, 3, 1); /* token 8 sees from 3 on */
        check_cells(f.s, SEQ_WINDOW, CELLS(0, 1));
        say(f.s, 1, 1); /* token 9 sees from 4 on */
        check_cells(f.s, SEQ_WINDOW, CELLS(1, 2));
        say(f.s, 11, 11);
        check_cells(f.s, SEQ_WINDOW, CELLS(3, 4));
        assert_int_equal(ledger_used(&f.ledger), 2 * BLOCK);
        assert_int_equal(seq_n_cells(f.s), 2);
        assert_null(seq_table(f.s, SEQ_ALL));
        assert_null(seq_table(f.s, SEQ_WINDOW)[2]);
        assert_null(seq_state(f.s));
        assert_null(seq_next_state(f.s));
        /* Token 17 sees from 12 on, token 16 from 11. */
        assert_int_equal(seq_whole(f.s, 100), 20);
        assert_int_equal(seq_whole(f.s, 17), 17);
        assert_int_equal(seq_whole(f.s, 16), 0);
        assert_int_equal(seq_cut(f.s, 16), 0);
        assert_int_equal(ledger_used(&f.ledger), 0);
        close_fixture(&f);
}

static void test_chunk(void **state) {
        struct fixture f;

        open_fixture(&f, &chunk_shape);
        say(f.s, 15, 4);
        check_cells(f.s, SEQ_WINDOW, CELLS(2, 3));
        assert_int_equal(seq_whole(f.s, 9), 9);
        assert_int_equal(seq_whole(f.s, 8), 8); /* token 8 begins a chunk: it sees nothing before */
        assert_int_equal(seq_whole(f.s, 7), 0);
        say(f.s, 1, 1);
        check_cells(f.s, SEQ_WINDOW, CELLS());
        assert_int_equal(ledger_used(&f.ledger), 0);
        assert_int_equal(seq_whole(f.s, 15), 8);
        assert_int_equal(seq_mark(f.s, 8, NULL), 0);
        assert_int_equal(seq_cut(f.s, 15), 8);
        say(f.s, 3, 2);
        check_cells(f.s, SEQ_WINDOW, CELLS(2));
        close_fixture(&f);
}

static void test_state(void **state) {
        struct seq *fork = NULL;
        struct fixture f;
        uint32_t mark = 0;
        size_t it = 0;

        open_fixture(&f, &state_shape);
        assert_null(seq_state(f.s));
        assert_int_equal(seq_reserve_cost(f.s, 3), STATE);
        say(f.s, 7, 7);
        check_cells(f.s, SEQ_STATE, CELLS(6));
        assert_int_equal(seq_mark(f.s, 6, NULL), 1);
        assert_int_equal(seq_mark(f.s, 8, NULL), 1);
        assert_int_equal(seq_mark(f.s, 0, NULL), 0);
        assert_int_equal(seq_mark(f.s, 7, NULL), 0);
        assert_int_equal(seq_mark(f.s, 7, NULL), 0);
        assert_int_equal(seq_mark_cost(f.s, 7), 0);
        say(f.s, 5, 2);
        check_cells(f.s, SEQ_STATE, CELLS(6, 11));
        assert_int_equal(seq_mark_cost(f.s, 7), STATE);
        assert_int_equal(ledger_used(&f.ledger), 2 * STATE);
        assert_true(seq_next_mark(f.s, &it, &mark));
        assert_int_equal(mark, 7);
        assert_false(seq_next_mark(f.s, &it, &mark));

        /* A reservation has one block, which a commit uses up. */
        assert_int_equal(seq_reserve(f.s, 9, NULL), 0);
        assert_int_equal(seq_reserve_cost(f.s, 9), 0);
        assert_int_equal(ledger_used(&f.ledger), 3 * STATE);
        assert_int_equal(*(const uint32_t *)seq_state(f.s), 12);
        *(uint32_t *)seq_next_state(f.s) = 14;
        seq_commit(f.s, 2);
        assert_int_equal(seq_n_reserved(f.s), 0);
        assert_null(seq_next_state(f.s));

        assert_int_equal(seq_fork(&fork, f.s, 13, NULL), 0);
        assert_int_equal(seq_n_tokens(fork), 7);
        assert_int_equal(*(const uint32_t *)seq_state(fork), 7);
        assert_int_equal(ledger_used(&f.ledger), 2 * STATE);
        say(fork, 2, 1);
        assert_int_equal(seq_cut(f.s, 13), 7);
        seq_unmark(f.s, 7);
        say(f.s, 1, 1);
        check_cells(f.s, SEQ_STATE, CELLS(7));
        check_cells(fork, SEQ_STATE, CELLS(6, 8));
        assert_int_equal(seq_cut(fork, 6), 0);
        assert_null(seq_state(fork));
        seq_free(fork);
        close_fixture(&f);
}

static void test_marks_of_all_classes(void **state) {
        struct fixture f;
        struct seq_cell cell;

        open_fixture(&f, &hybrid_shape);
        say(f.s, 10, 10);
        assert_int_equal(seq_mark(f.s, 10, NULL), 0); /* token 10 sees from 5 on */
        say(f.s, 30, 3);
        check_cells(f.s, SEQ_WINDOW, CELLS(1, 2, 8, 9));
        check_cells(f.s, SEQ_STATE, CELLS(9, 39));
        assert_int_equal(seq_mark_cost(f.s, 10), 2 * BLOCK + STATE);
        assert_int_equal(seq_n_cells(f.s), 10 + 4 + 2);
        assert_int_equal(seq_resident_size(f.s), 14 * BLOCK + 2 * STATE);
        assert_int_equal(ledger_used(&f.ledger), seq_resident_size(f.s));
        assert_true(seq_cell_at(f.s, SEQ_WINDOW, 2, &cell));
        assert_false(cell.needed);
        assert_int_equal(cell.end, 12);
        /* Holes that only the mark needs do no harm. */
        seq_drop(f.s, SEQ_WINDOW, 2);
        seq_drop(f.s, SEQ_STATE, 9);
        assert_int_equal(seq_n_missing(f.s), 0);
        say(f.s, 1, 1);
        seq_drop(f.s, SEQ_STATE, 40);
        assert_int_equal(seq_n_missing(f.s), 1);
        assert_int_equal(seq_reserve(f.s, 1, NULL), -ERR_STATE);
        /* The end's state is nowhere: the mark is what is left. */
        assert_int_equal(seq_forget(f.s, SEQ_STATE, 40), 10);
        check_cells(f.s, SEQ_WINDOW, CELLS(1, 2));
        check_cells(f.s, SEQ_STATE, CELLS(9));
        assert_int_equal(seq_n_missing(f.s), 2);
        assert_int_equal(seq_forget(f.s, SEQ_WINDOW, 2), 0);
        assert_int_equal(ledger_used(&f.ledger), 0);
        close_fixture(&f);
}

/* What admission counts is enough, and of a sequence that is not short it is what computing takes in
 * the worst case, to the byte. */
static void test_need(void **state) {
        static const struct seq_shape shapes[] = {
                {.size = {BLOCK}, .block_tokens = TOKENS},
                {.size = {0, BLOCK}, .block_tokens = TOKENS, .window = 6},
                {.size = {0, BLOCK}, .block_tokens = TOKENS, .window = 1},
                {.size = {0, BLOCK}, .block_tokens = TOKENS, .chunk = 8},
                {.size = {0, BLOCK}, .block_tokens = TOKENS, .chunk = 7},
                {.size = {BLOCK, BLOCK, STATE}, .block_tokens = TOKENS, .window = 9},
                {.size = {0, 0, STATE}, .block_tokens = TOKENS},
        };
        static const uint32_t lengths[] = {1, 2, 4, 5, 13, 40};

        for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
                for (size_t k = 0; k < ARRAY_SIZE(lengths); k++)
                        for (uint32_t batch = 1; batch < 12; batch++) {
                                size_t most = 0, need;
                                struct fixture f;

                                open_fixture(&f, &shapes[i]);
                                need = seq_need(f.pool, lengths[k], batch);
                                ledger_set_budget(&f.ledger, need);
                                /* From every alignment. */
                                for (uint32_t from = 0; from < 24; from++) {
                                        uint32_t n = MIN(from, lengths[k]);

                                        seq_cut(f.s, 0);
                                        say(f.s, n, 1);
                                        say(f.s, lengths[k] - n, batch);
                                        most = MAX(most, ledger_peak(&f.ledger));
                                }
                                assert_true(most <= need);
                                if (lengths[k] == 40)
                                        assert_int_equal(most, need);
                                close_fixture(&f);
                        }
}

static struct seq_step step_of(const struct seq *s, uint32_t i) {
        struct seq_step step = {0};

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                struct seq_cell cell;

                if (seq_cell_at(s, c, c == SEQ_STATE ? (i + 1) * TOKENS - 1 : i, &cell))
                        step.block[c] = cell.block;
        }
        return step;
}

/* Another sequence's memory of the same tokens, in place of what is lacking, for what the new end
 * needs; marks stay, but those in a partial tail that is replaced by nothing. */
static void test_adopt(void **state) {
        struct seq *s = NULL;
        struct seq_step steps[5];
        struct fixture f;
        uint32_t mark;
        size_t it = 0;

        open_fixture(&f, &hybrid_shape);
        say(f.s, 20, 20);
        for (uint32_t i = 0; i < 5; i++)
                steps[i] = step_of(f.s, i);
        assert_null(steps[2].block[SEQ_WINDOW]); /* token 20 sees from 15 on */
        assert_null(steps[3].block[SEQ_STATE]);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 5), 5);
        assert_int_equal(seq_steps_whole(f.pool, NULL, steps, 4), 0);
        assert_int_equal(seq_new(&s, f.pool, NULL), 0);
        say(s, 5, 5);
        assert_int_equal(seq_mark(s, 5, NULL), 0);
        say(s, 4, 2);
        assert_int_equal(seq_mark(s, 9, NULL), 0);
        assert_int_equal(seq_steps_whole(f.pool, s, steps, 4), 0);
        check_cells(s, SEQ_WINDOW, CELLS(0, 1, 2));
        assert_int_equal(seq_adopt(s, steps, 5, NULL), 0);
        assert_int_equal(seq_n_tokens(s), 20);
        /* Cell 2 was the tail. Position 9 needed it. */
        check_cells(s, SEQ_WINDOW, CELLS(0, 1, 3, 4));
        check_cells(s, SEQ_STATE, CELLS(4, 19));
        assert_true(seq_next_mark(s, &it, &mark));
        assert_int_equal(mark, 5);
        assert_false(seq_next_mark(s, &it, &mark));
        assert_int_equal(seq_whole(s, 19), 5);
        assert_ptr_equal(seq_state(s), seq_state(f.s));
        assert_ptr_equal(seq_table(s, SEQ_WINDOW)[3], seq_table(f.s, SEQ_WINDOW)[3]);
        assert_ptr_not_equal(seq_table(s, SEQ_ALL)[1], seq_table(f.s, SEQ_ALL)[1]);
        assert_ptr_equal(seq_table(s, SEQ_ALL)[2], seq_table(f.s, SEQ_ALL)[2]);
        say(s, 1, 1);
        assert_int_equal(seq_cut(s, 19), 5);
        say(s, 1, 1);
        seq_free(s);
        close_fixture(&f);
}

/* The sequence's own block, full as it was before a cut, comes back. */
static void test_adopt_of_its_own_tail(void **state) {
        struct seq_step steps[3];
        struct fixture f;

        open_fixture(&f,
                &(struct seq_shape){.size = {BLOCK, BLOCK}, .block_tokens = TOKENS, .window = 20});
        say(f.s, 8, 8);
        for (uint32_t i = 0; i < 2; i++)
                steps[i] = step_of(f.s, i);
        assert_int_equal(seq_cut(f.s, 6), 6);
        assert_int_equal(seq_adopt(f.s, steps, 2, NULL), 0);
        assert_int_equal(seq_block_n_refs(steps[1].block[SEQ_ALL]), 1);
        assert_int_equal(seq_block_n_refs(steps[1].block[SEQ_WINDOW]), 1);
        assert_int_equal(((const uint32_t *)seq_table(f.s, SEQ_WINDOW)[1])[3], 8);
        assert_int_equal(ledger_used(&f.ledger), 4 * BLOCK);
        close_fixture(&f);
}

static void test_set_holes(void **state) {
        static const struct seq_place good[] = {
                {SEQ_WINDOW, 1}, {SEQ_WINDOW, 2}, {SEQ_STATE, 8}, {SEQ_STATE, 9}};
        static const struct seq_place bad[][2] = {{{SEQ_WINDOW, 2}, {SEQ_WINDOW, 1}},
                {{SEQ_STATE, 1}, {SEQ_WINDOW, 1}}, {{SEQ_WINDOW, 1}, {SEQ_WINDOW, 1}},
                {{SEQ_ALL, 0}, {SEQ_WINDOW, 1}}, {{SEQ_WINDOW, 1}, {SEQ_WINDOW, 3}},
                {{SEQ_WINDOW, 1}, {SEQ_STATE, 11}}, {{SEQ_WINDOW, 1}, {SEQ_N_CLASSES, 1}}};
        struct seq_cell cell;
        struct fixture f;
        struct err e;

        open_fixture(&f, &hybrid_shape);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(seq_set_holes(f.s, 11, bad[i], 2, &e), -ERR_INVALID);
        assert_int_equal(seq_n_cells(f.s), 0);
        /* State 10 is nowhere. */
        assert_int_equal(seq_set_holes(f.s, 11, good, 4, NULL), 0);
        assert_int_equal(seq_n_tokens(f.s), 10);
        assert_int_equal(seq_whole(f.s, 9), 9);
        assert_int_equal(seq_mark(f.s, 9, NULL), 0);
        assert_int_equal(seq_set_holes(f.s, 11, good, 4, &e), -ERR_STATE);
        assert_int_equal(seq_n_cells(f.s), 3 + 2 + 2);
        assert_int_equal(seq_n_missing(f.s), 3 + 2 + 1);
        assert_int_equal(seq_n_resident(f.s), 0);
        assert_true(seq_cell_at(f.s, SEQ_STATE, 8, &cell));
        assert_false(cell.needed);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                for (size_t it = 0; seq_next_cell(f.s, c, &it, &cell);) {
                        struct seq_block *b = NULL;

                        if (!cell.needed)
                                continue;
                        assert_int_equal(seq_block_new(&b, f.pool, c, NULL), 0);
                        *(uint32_t *)seq_block_data(b) = 10;
                        seq_attach(f.s, c, cell.index, b);
                        seq_block_unref(b);
                }
        assert_int_equal(seq_n_missing(f.s), 0);
        say(f.s, 10, 4);
        check_cells(f.s, SEQ_STATE, CELLS(8, 19));
        check_cells(f.s, SEQ_WINDOW, CELLS(1, 2, 3, 4));
        close_fixture(&f);
}

/* While a sequence is reserved for writing, its state can be shared, its partial blocks not. */
static void test_fork_while_reserved(void **state) {
        struct seq *a = NULL, *b = NULL;
        struct fixture f;
        struct err e;

        open_fixture(&f, &state_shape);
        say(f.s, 5, 5);
        assert_int_equal(seq_reserve(f.s, 1, NULL), 0);
        assert_int_equal(seq_fork(&a, f.s, 5, NULL), 0);
        assert_ptr_equal(seq_state(a), seq_state(f.s));
        seq_free(a);
        close_fixture(&f);

        open_fixture(&f, &window_shape);
        say(f.s, 8, 8);
        say(f.s, 1, 1);
        assert_int_equal(seq_reserve(f.s, 1, NULL), 0);
        assert_int_equal(seq_fork(&b, f.s, 9, &e), -ERR_STATE);
        assert_int_equal(seq_fork(&b, f.s, 8, NULL), 0);
        assert_int_equal(seq_n_tokens(b), 0); /* token 8 saw token 3, whose block is gone */
        seq_free(b);
        close_fixture(&f);
}

/* Copy on write in every class of attention; a state is not written, so it is not copied. */
static void test_copy_on_write(void **state) {
        struct seq *fork = NULL;
        struct seq_pool_stats st;
        struct fixture f;

        open_fixture(&f, &hybrid_shape);
        say(f.s, 10, 10);
        assert_int_equal(seq_fork(&fork, f.s, 10, NULL), 0);
        assert_int_equal(seq_reserve_cost(fork, 1), 2 * BLOCK + STATE);
        say(fork, 1, 1);
        seq_pool_stats(f.pool, &st);
        assert_int_equal(st.n_copied_on_write, 2);
        assert_int_equal(((const uint32_t *)seq_table(fork, SEQ_WINDOW)[2])[1], 10);
        assert_int_equal(((const uint32_t *)seq_table(f.s, SEQ_WINDOW)[2])[2], 0);
        assert_int_equal(*(const uint32_t *)seq_state(f.s), 10);
        /* The last holder writes in place. */
        assert_int_equal(seq_reserve_cost(f.s, 1), STATE);
        seq_free(fork);
        close_fixture(&f);
}

/* A token costs the same at the end of a long sequence with many marks. */
static void test_long(void **state) {
        enum { N = 20000 };
        struct fixture f;
        uint64_t at;

        open_fixture(&f,
                &(struct seq_shape){.size = {0, BLOCK, 64}, .block_tokens = TOKENS, .window = 6});
        ledger_set_budget(&f.ledger, SIZE_MAX);
        at = clock_monotonic_usec();
        for (uint32_t i = 0; i < N; i++) {
                say(f.s, 1, 1);
                if (i % 10 == 0)
                        assert_int_equal(seq_mark(f.s, i + 1, NULL), 0);
        }
        for (uint32_t i = 0; i < N; i += 10) {
                seq_unmark(f.s, i + 1);
                if (i % 1000 == 0)
                        seq_release(f.s);
        }
        seq_release(f.s);
        assert_int_equal(seq_n_cells(f.s), 2 + 1);
        seq_cut(f.s, 0);
        at = clock_monotonic_usec() - at;
        print_message("%d tokens with %d marks in %llu usec\n", N, N / 10, (unsigned long long)at);
        close_fixture(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_window),
                cmocka_unit_test(test_chunk),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_marks_of_all_classes),
                cmocka_unit_test(test_need),
                cmocka_unit_test(test_adopt),
                cmocka_unit_test(test_adopt_of_its_own_tail),
                cmocka_unit_test(test_set_holes),
                cmocka_unit_test(test_fork_while_reserved),
                cmocka_unit_test(test_copy_on_write),
                cmocka_unit_test(test_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
