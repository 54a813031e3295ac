/* SPDX-License-Identifier: MIT */
/* Every allocation and mapping of seq fails once: nothing visible has changed, nothing leaks, and
 * the same call succeeds afterwards. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "fault/loop.h"
#include "fault/map.h"
#include "seq/seq.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 100

enum { BLOCK = 4096, TOKENS = 4 };

static const struct seq_shape plain = {.size[SEQ_ALL] = BLOCK, .block_tokens = TOKENS},
                              hybrid = {.size = {BLOCK, BLOCK, 2 * BLOCK},
                                      .block_tokens = TOKENS,
                                      .window = 6};

static bool madvise_fails;

int __real_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice) {
        if (madvise_fails) {
                errno = EINVAL;
                return -1;
        }
        return __real_madvise(p, n, advice);
}

struct image {
        uint32_t n_tokens, n_reserved, last_mark;
        size_t n_cells, n_resident, live_size, used, cells[SEQ_N_CLASSES];
        uint64_t n_copied, n_forks;
};

static struct image look(const struct seq *s, const struct seq_pool *p, struct ledger *l) {
        struct seq_pool_stats st;
        struct image i;

        memset(&i, 0, sizeof(i));
        seq_pool_stats(p, &st);
        i.n_tokens = seq_n_tokens(s);
        i.n_reserved = seq_n_reserved(s);
        i.n_cells = seq_n_cells(s);
        i.n_resident = seq_n_resident(s);
        i.live_size = st.live_size;
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(s, c, &it, &cell))
                        i.cells[c] = i.cells[c] * 31 + cell.index + !cell.block * 7u +
                                     (uintptr_t)cell.block;
        }
        for (size_t it = 0; seq_next_mark(s, &it, &i.last_mark);) {
        }
        i.used = ledger_used(l);
        i.n_copied = st.n_copied_on_write;
        i.n_forks = st.n_forks;
        return i;
}

static void same(struct image a, struct image b) {
        assert_memory_equal(&a, &b, sizeof(a));
}

struct world {
        const struct seq_shape *shape;
        struct ledger ledger;
        struct seq_pool *pool;
        struct seq *a, *b, *c;
        struct seq_step steps[3];
};

static int op_pool(struct world *w) {
        return seq_pool_new(&w->pool, &w->ledger, w->shape, NULL);
}
static int op_new(struct world *w) {
        return seq_new(&w->a, w->pool, NULL);
}
static int op_reserve(struct world *w) {
        return seq_reserve(w->a, 9, NULL);
}
static int op_fork(struct world *w) {
        return seq_fork(&w->b, w->a, 6, NULL);
}
static int op_reserve_copy(struct world *w) {
        return seq_reserve(w->b, 4000, NULL);
}
static int op_new_c(struct world *w) {
        return seq_new(&w->c, w->pool, NULL);
}
static int op_holes(struct world *w) {
        static const struct seq_place places[] = {
                {SEQ_WINDOW, 23}, {SEQ_WINDOW, 24}, {SEQ_STATE, 50}, {SEQ_STATE, 99}};
        size_t n = w->shape->size[SEQ_STATE] ? ARRAY_SIZE(places) : 0;

        return seq_set_holes(w->c, 100, places, n, NULL);
}
static int op_reserve_one(struct world *w) {
        return seq_reserve(w->a, 1, NULL);
}
static int op_mark(struct world *w) {
        return seq_mark(w->a, seq_n_tokens(w->a), NULL);
}
static int op_adopt(struct world *w) {
        return seq_adopt(w->b, w->steps, 3, NULL);
}

/* Run @op with each of its allocations failing in turn, then for good. */
static long run(struct world *w, int (*op)(struct world *), struct seq *const *watched) {
        struct fault_loop loop = {.at_least = FAULT_LOOP_CALLER_COUNTS, .at_most = MAX_ALLOCATIONS};
        struct image before = {0};

        while (fault_loop_next(&loop)) {
                int r;

                if (*watched)
                        before = look(*watched, w->pool, &w->ledger);
                fault_loop_arm(&loop);
                r = op(w);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                if (r < 0 && *watched)
                        same(before, look(*watched, w->pool, &w->ledger));
        }
        return loop.n;
}

static void test_every_allocation_may_fail(void **state) {
        struct world w = {.shape = &plain, .ledger = LEDGER_INIT((size_t)1 << 26)};

        assert_int_equal(run(&w, op_pool, &w.a), 1);
        assert_int_equal(run(&w, op_new, &w.a), 1);
        assert_int_equal(run(&w, op_reserve, &w.a), 3); /* two tables and a slab */
        seq_commit(w.a, 9);
        assert_int_equal(run(&w, op_fork, &w.a), 3);
        assert_int_equal(run(&w, op_reserve_copy, &w.b), 2);
        assert_int_equal(run(&w, op_new_c, &w.a), 1);
        assert_int_equal(run(&w, op_holes, &w.c), 2);
        seq_free(w.a);
        seq_free(w.b);
        seq_free(w.c);
        assert_int_equal(ledger_used(&w.ledger), 0);
        seq_pool_free(w.pool);
}

/* From nothing to a reservation, so that none of the allocations has succeeded before. */
static void test_every_first_allocation(void **state) {
        struct fault_loop loop = {.at_least = 10, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct world w = {.shape = &hybrid, .ledger = LEDGER_INIT((size_t)1 << 26)};
                int r;

                fault_loop_arm(&loop);
                r = op_pool(&w);
                if (r == 0)
                        r = op_new(&w);
                if (r == 0)
                        r = op_reserve(&w);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                assert_int_equal(ledger_used(&w.ledger), r == 0 ? 8 * BLOCK : 0);
                seq_free(w.a);
                seq_pool_free(w.pool);
                assert_int_equal(ledger_used(&w.ledger), 0);
        }
        assert_int_equal(loop.n, 2 + 4 + 1 + 3); /* tables, states, slabs */
}

static void test_every_allocation_of_all_classes(void **state) {
        struct world w = {.shape = &hybrid, .ledger = LEDGER_INIT((size_t)1 << 26)};

        assert_int_equal(run(&w, op_pool, &w.a), 1);
        assert_int_equal(run(&w, op_new, &w.a), 1);
        assert_int_equal(
                run(&w, op_reserve, &w.a), 5); /* tables and states; they stay for the next */
        seq_commit(w.a, 4);
        assert_int_equal(run(&w, op_mark, &w.a), 1);
        assert_int_equal(run(&w, op_reserve_one, &w.a), 0);
        seq_commit(w.a, 1);
        assert_int_equal(run(&w, op_mark, &w.a), 0);
        for (uint32_t i = 6; i <= 10; i++) {
                assert_int_equal(op_reserve_one(&w), 0);
                seq_commit(w.a, 1);
                run(&w, op_mark, &w.a);
        }
        assert_int_equal(run(&w, op_fork, &w.a), 1 + 4 + 2); /* and marks */
        assert_int_equal(seq_n_tokens(w.b), 6);
        /* Steps from the first, taken over by the second. */
        while (seq_n_tokens(w.a) < 12) {
                assert_int_equal(op_reserve_one(&w), 0);
                seq_commit(w.a, 1);
        }
        for (uint32_t i = 0; i < 3; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        struct seq_cell cell = {0};

                        (void)seq_cell_at(w.a, c, c == SEQ_STATE ? 4 * i + 3 : i, &cell);
                        w.steps[i].block[c] = cell.block;
                }
        assert_true(run(&w, op_adopt, &w.b) > 0);
        assert_int_equal(seq_n_tokens(w.b), 12);
        assert_int_equal(run(&w, op_new_c, &w.a), 1);
        assert_int_equal(run(&w, op_holes, &w.c), 4 + 1);
        assert_int_equal(seq_n_tokens(w.c), 100);
        seq_free(w.a);
        seq_free(w.b);
        seq_free(w.c);
        assert_int_equal(ledger_used(&w.ledger), 0);
        seq_pool_free(w.pool);
}

static void test_no_mapping(void **state) {
        struct world w = {.shape = &plain, .ledger = LEDGER_INIT((size_t)1 << 26)};
        struct image before;

        assert_int_equal(op_pool(&w), 0);
        assert_int_equal(op_new(&w), 0);
        before = look(w.a, w.pool, &w.ledger);
        mmap_fails = true;
        assert_int_equal(op_reserve(&w), -ERR_NOMEM);
        mmap_fails = false;
        assert_true(mmap_failed);
        same(before, look(w.a, w.pool, &w.ledger));
        assert_int_equal(op_reserve(&w), 0);
        seq_free(w.a);
        seq_pool_free(w.pool);
        assert_int_equal(ledger_used(&w.ledger), 0);
}

/* Pages that the system does not take back stay in the ledger until they are used again. */
static void test_pages_that_stay(void **state) {
        struct world w = {.shape = &plain, .ledger = LEDGER_INIT((size_t)1 << 26)};
        struct seq_pool_stats st;

        assert_int_equal(op_pool(&w), 0);
        assert_int_equal(op_new(&w), 0);
        assert_int_equal(op_reserve(&w), 0);
        seq_commit(w.a, 9);
        assert_int_equal(ledger_used(&w.ledger), 3 * BLOCK);
        madvise_fails = true;
        seq_cut(w.a, 0);
        madvise_fails = false;
        seq_pool_stats(w.pool, &st);
        assert_int_equal(st.live_size, 0);
        assert_int_equal(st.charged_size, 3 * BLOCK);
        assert_int_equal(st.unreturned_size, 3 * BLOCK);
        assert_int_equal(ledger_used(&w.ledger), 3 * BLOCK);
        ledger_set_budget(&w.ledger, 3 * BLOCK);
        assert_int_equal(op_reserve(&w), 0);
        assert_int_equal(ledger_used(&w.ledger), 3 * BLOCK);
        assert_int_equal(seq_reserve(w.a, 13, NULL), SEQ_FULL);
        madvise_fails = true;
        seq_cut(w.a, 0);
        madvise_fails = false;
        ledger_set_budget(&w.ledger, (size_t)1 << 26);
        assert_int_equal(op_reserve_copy(&(struct world){.b = w.a}), 0);
        assert_int_equal(ledger_used(&w.ledger), 1000 * BLOCK);
        madvise_fails = true;
        seq_cut(w.a, 0);
        madvise_fails = false;
        seq_free(w.a);
        seq_pool_free(w.pool);
        assert_int_equal(ledger_used(&w.ledger), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_allocation_may_fail),
                cmocka_unit_test(test_every_first_allocation),
                cmocka_unit_test(test_every_allocation_of_all_classes),
                cmocka_unit_test(test_no_mapping),
                cmocka_unit_test(test_pages_that_stay),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
