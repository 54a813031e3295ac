/* SPDX-License-Identifier: MIT */
/* The memory that reads past the page cache go to. */
#include "resident.h"
#include "spill/shared.h"
#include "store.h"

enum { LARGE_PAGE = 2 << 20, RAW = 1 << 20, N = 2 };

/* What malloc() had before is in small pages; so is what it gives next. */
static void use_heap(void) {
        for (int i = 0; i < 2; i++) {
                char *volatile p = malloc(24 << 20);

                assert_non_null(p);
                memset(p, i, 24 << 20);
                free(p);
        }
}

/* Fresh memory, which can be in large pages: it begins at one, and has no small page yet. */
static void test_fresh(void **state) {
        struct spill_scratch *all[N];
        struct store t;
        struct err e;

        store_make(&t);
        t.options.max_raw_size = RAW;
        store_start(&t);
        for (int round = 0; round < 2; round++) {
                use_heap();
                for (size_t i = 0; i < N; i++) {
                        size_t size = t.s->buffer_size;

                        assert_int_equal(spill_scratch_get(t.s, &all[i], &e), 0);
                        assert_true(size >= t.s->ring_size && size % LARGE_PAGE == 0);
                        assert_int_equal((uintptr_t)all[i]->buffer % LARGE_PAGE, 0);
                        assert_int_equal(resident_of_map(all[i]->buffer, size), 0);
                        memset(all[i]->buffer, 1, size);
                }
                for (size_t i = 0; i < N; i++)
                        spill_scratch_put(t.s, all[i]);
                spill_trim(t.s);
        }
        store_remove(&t);
}

/* A small one is as small as it is asked for. */
static void test_small(void **state) {
        struct spill_scratch *p;
        struct store t;
        struct err e;

        store_make(&t);
        t.options.max_raw_size = 4096;
        t.options.ring_size = 40960;
        store_start(&t);
        assert_true(t.s->buffer_size < LARGE_PAGE);
        assert_int_equal(spill_scratch_get(t.s, &p, &e), 0);
        memset(p->buffer, 1, t.s->buffer_size);
        spill_scratch_put(t.s, p);
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fresh),
                cmocka_unit_test(test_small),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
