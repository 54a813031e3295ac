/* SPDX-License-Identifier: MIT */
/* Every allocation of the store fails once: the call says so, accounts and files are as before, and
 * the same call succeeds afterwards. */
#include "fault/loop.h"
#include "fault/map.h"
#include "unit/spill/store.h"

#define MAX_ALLOCATIONS 1000

struct world {
        struct store t;
        struct spill_ref ref[3], far;
};

static uint8_t raw[BLOCK], back[BLOCK];

static int op_open(struct world *w) {
        return spill_open(&w->t.s, w->t.dir, &w->t.options, NULL);
}
static int op_sweep(struct world *w) {
        return spill_sweep(w->t.s, NULL, NULL);
}
static int write_nr(struct world *w, uint32_t i, uint64_t key) {
        struct spill_meta m = meta_of(i);

        fill(raw, BLOCK, FLOATS, i);
        return store_write(w->t.s, key, &m, raw, BLOCK, &w->ref[i], NULL);
}
static int op_write(struct world *w) {
        return write_nr(w, 0, 1);
}
static int op_write_more(struct world *w) {
        return write_nr(w, 1, 1);
}
static int op_write_other(struct world *w) {
        return write_nr(w, 2, 2);
}
static int op_read(struct world *w) {
        struct spill_meta m = meta_of(0);

        return spill_read(w->t.s, &w->ref[0], &m, back, BLOCK, NULL);
}
static int op_load(struct world *w) {
        struct spill_item items[2] = {
                {.ref = w->ref[0], .meta = meta_of(0), .dst = back},
                {.ref = w->ref[0], .meta = meta_of(0), .dst = raw},
        };
        struct spill_load *l = NULL;
        int r = spill_load_new(&l, w->t.s, items, 2, NULL);

        if (!l)
                return r;
        assert_int_equal(r, 0);
        r = store_read(l, 0, 1, NULL);
        /* Nobody may take for good what was not read. */
        assert_int_equal(items[0].r, r);
        assert_int_equal(items[1].r, r);
        spill_load_free(l);
        return r;
}
static int op_adopt(struct world *w) {
        return spill_adopt(w->t.s, &w->ref[0], NULL);
}
static int op_release(struct world *w) {
        return spill_release(w->t.s, &w->ref[0], NULL);
}

/* Run @op with each of its allocations failing in turn. */
static long run(struct world *w, int (*op)(struct world *)) {
        struct fault_loop loop = {.at_least = FAULT_LOOP_CALLER_COUNTS, .at_most = MAX_ALLOCATIONS};
        struct spill_stats before = {0}, after;

        while (fault_loop_next(&loop)) {
                long long size = store_file_size(&w->t, 1);
                bool open = w->t.s != NULL;
                int r;

                if (open)
                        before = store_stats(&w->t);
                fault_loop_arm(&loop);
                r = op(w);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                if (r == 0)
                        continue;
                assert_int_equal(store_file_size(&w->t, 1), size);
                if (!open) {
                        assert_null(w->t.s);
                        continue;
                }
                after = store_stats(&w->t);
                assert_memory_equal(&before, &after, sizeof(before));
        }
        return loop.n;
}

static void test_every_allocation_may_fail(void **state) {
        static const uint64_t end = BLOCK;
        struct world w = {0};

        store_make(&w.t);
        store_divide(&w.t.options, (struct spill_layout){.section_ends = &end, .n_sections = 1});
        assert_true(run(&w, op_open) >= 6);
        run(&w, op_sweep);
        /* Buffer, file, owner, maps, two page maps; a buffer that was made stays, so the second
         * counts less. */
        assert_true(run(&w, op_write) >= 3);
        assert_int_equal(run(&w, op_write_more), 0);
        assert_true(run(&w, op_write_other) >= 3);
        w.t.s = spill_free(w.t.s);
        run(&w, op_open);
        assert_true(run(&w, op_adopt) >= 3);
        run(&w, op_sweep);
        assert_int_equal(
                run(&w, op_read), 2); /* the load, and a buffer, whose other part is mapped */
        fill(raw, BLOCK, FLOATS, 0);
        assert_memory_equal(raw, back, BLOCK);
        spill_trim(w.t.s);
        mmap_fails = true;
        assert_int_equal(op_read(&w), -ERR_NOMEM);
        mmap_fails = false;
        assert_true(mmap_failed);
        assert_int_equal(run(&w, op_load), 2);
        assert_memory_equal(raw, back, BLOCK);
        assert_int_equal(run(&w, op_release), 0);
        assert_int_equal(store_stats(&w.t).disk_size, 0);
        store_remove(&w.t);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
