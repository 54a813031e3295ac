/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

static int pool_new(struct seq_pool **ret, struct ledger *l, size_t size, uint32_t block_tokens,
        struct err *e) {
        struct seq_shape shape = {.size[SEQ_ALL] = size, .block_tokens = block_tokens};

        return seq_pool_new(ret, l, &shape, e);
}

static size_t n_pages_resident(const void *p, size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
        unsigned char in_core[64];

        assert_true(size / page <= sizeof(in_core));
        assert_int_equal(mincore((void *)(uintptr_t)p, size, in_core), 0);
        for (size_t i = 0; i < size / page; i++)
                n += in_core[i] & 1;
        return n;
}

static void test_bad_arguments(void **state) {
        static const struct seq_shape bad_shapes[] = {
                {.block_tokens = 4},
                {.size = {64, 64}, .block_tokens = 4},
                {.size = {64, 64}, .block_tokens = 4, .window = 1, .chunk = 1},
                {.size = {64, 0, 63}, .block_tokens = 4},
                {.size = {0, 0, 64}},
        };
        struct ledger l = LEDGER_INIT(1 << 20);
        struct seq_pool *p = NULL;
        struct err e;

        assert_int_equal(pool_new(&p, &l, 0, 32, &e), -ERR_INVALID);
        assert_int_equal(pool_new(&p, &l, 65, 32, &e), -ERR_INVALID);
        assert_int_equal(pool_new(&p, &l, 64, 0, &e), -ERR_INVALID);
        assert_int_equal(pool_new(&p, &l, SIZE_MAX - 63, 32, &e), -ERR_INVALID);
        for (size_t i = 0; i < ARRAY_SIZE(bad_shapes); i++)
                assert_int_equal(seq_pool_new(&p, &l, &bad_shapes[i], &e), -ERR_INVALID);
        assert_null(p);
        assert_null(seq_pool_free(NULL));
        assert_null(seq_block_unref(NULL));
}

static void test_ledger_is_exact(void **state) {
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        struct ledger l;
        struct seq_block *b[5] = {0}, *more = NULL;
        struct seq_pool_stats st;
        size_t slot;

        l = LEDGER_INIT(0);
        assert_int_equal(pool_new(&p, &l, 3 * 64, 4, NULL), 0);
        slot = seq_pool_slot_size(p, SEQ_ALL);
        assert_true(slot >= 3 * 64);
        assert_int_equal(seq_pool_shape(p)->block_tokens, 4);
        assert_int_equal(seq_block_new(&more, p, SEQ_ALL, NULL), SEQ_FULL);
        ledger_set_budget(&l, 5 * slot + slot - 1);
        for (size_t i = 0; i < 5; i++) {
                assert_int_equal(seq_block_new(&b[i], p, SEQ_ALL, NULL), 0);
                assert_int_equal(ledger_used(&l), (i + 1) * slot);
                assert_int_equal((uintptr_t)seq_block_data(b[i]) % 64, 0);
                assert_int_equal(seq_block_n_refs(b[i]), 1);
                assert_int_equal(seq_block_tag(b[i]), 0);
                memset(seq_block_data(b[i]), (int)i, 3 * 64);
        }
        assert_int_equal(seq_block_new(&more, p, SEQ_ALL, NULL), SEQ_FULL);
        assert_null(more);
        for (size_t i = 0; i < 5; i++)
                for (size_t j = 0; j < 3 * 64; j++)
                        assert_int_equal(((uint8_t *)seq_block_data(b[i]))[j], i);

        seq_block_set_tag(b[2], 77);
        assert_ptr_equal(seq_block_ref(b[2]), b[2]);
        seq_block_unref(b[2]);
        assert_int_equal(ledger_used(&l), 5 * slot);
        b[2] = seq_block_unref(b[2]);
        assert_int_equal(ledger_used(&l), 4 * slot);
        assert_int_equal(seq_block_new(&b[2], p, SEQ_ALL, NULL), 0);
        assert_int_equal(seq_block_tag(b[2]), 0);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks[SEQ_ALL], 5);
        assert_int_equal(st.n_allocated, 6);

        /* A shrunk budget takes nothing away, and gives nothing out. */
        ledger_set_budget(&l, slot);
        b[0] = seq_block_unref(b[0]);
        assert_int_equal(seq_block_new(&b[0], p, SEQ_ALL, NULL), SEQ_FULL);
        for (size_t i = 0; i < 5; i++)
                b[i] = seq_block_unref(b[i]);
        assert_int_equal(ledger_used(&l), 0);
        assert_int_equal(ledger_peak(&l), 5 * slot);
}

/* What is given back to the ledger has been given back to the system. */
static void test_pages_return(void **state) {
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        struct ledger l = LEDGER_INIT(1 << 20);
        struct seq_block *a = NULL, *b = NULL;
        size_t page = (size_t)sysconf(_SC_PAGESIZE), slot;
        void *data;

        assert_int_equal(pool_new(&p, &l, 7 * page, 32, NULL), 0);
        slot = seq_pool_slot_size(p, SEQ_ALL);
        assert_int_equal(seq_block_new(&a, p, SEQ_ALL, NULL), 0);
        assert_int_equal(seq_block_new(&b, p, SEQ_ALL, NULL), 0);
        data = seq_block_data(a);
        assert_int_equal(n_pages_resident(data, slot), 0);
        memset(data, 1, slot);
        memset(seq_block_data(b), 2, slot);
        assert_int_equal(n_pages_resident(data, slot), 7);
        seq_block_unref(a);
        assert_int_equal(n_pages_resident(data, slot), 0);
        assert_int_equal(n_pages_resident(seq_block_data(b), slot), 7);
        assert_int_equal(*(uint8_t *)seq_block_data(b), 2);
        seq_block_unref(b);
}

/* Blocks larger than a slab's usual size, and more blocks than a slab holds; all slabs but one go
 * back when they are empty. */
static void test_slabs(void **state) {
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL, *big = NULL;
        struct ledger l = LEDGER_INIT((size_t)1 << 30);
        struct seq_pool_stats st;
        struct seq_block *b[3000], *large[2];
        size_t n_slab;

        assert_int_equal(pool_new(&p, &l, 4096, 32, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(b); i++) {
                assert_int_equal(seq_block_new(&b[i], p, SEQ_ALL, NULL), 0);
                memcpy(seq_block_data(b[i]), &i, sizeof(i));
        }
        seq_pool_stats(p, &st);
        n_slab = st.n_free_slots + st.n_blocks[SEQ_ALL];
        assert_int_equal(st.n_blocks[SEQ_ALL], ARRAY_SIZE(b));
        for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                assert_memory_equal(seq_block_data(b[i]), &i, sizeof(i));
        for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                seq_block_unref(b[(i * 7) % ARRAY_SIZE(b)]);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks[SEQ_ALL], 0);
        assert_true(st.n_free_slots > 0 && st.n_free_slots < n_slab);
        assert_int_equal(ledger_used(&l), 0);

        assert_int_equal(pool_new(&big, &l, (size_t)100 << 20, 32, NULL), 0);
        assert_int_equal(seq_block_new(&large[0], big, SEQ_ALL, NULL), 0);
        assert_int_equal(seq_block_new(&large[1], big, SEQ_ALL, NULL), 0);
        ((uint8_t *)seq_block_data(large[1]))[((size_t)100 << 20) - 1] = 1;
        assert_int_equal(ledger_used(&l), (size_t)200 << 20);
        seq_block_unref(large[0]);
        seq_block_unref(large[1]);
        assert_int_equal(ledger_used(&l), 0);
}

/* A spare is charged and keeps its pages; it is taken before anything else, the last one first,
 * also where nothing more may be charged; the limit holds, and what is beyond it goes at once. */
static void test_spare(void **state) {
        struct ledger l = LEDGER_INIT(1 << 20);
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        size_t page = (size_t)sysconf(_SC_PAGESIZE), slot;
        struct seq_block *b[4], *more = NULL;
        struct seq_pool_stats st;
        void *data[4];

        assert_int_equal(pool_new(&p, &l, 2 * page, 32, NULL), 0);
        slot = seq_pool_slot_size(p, SEQ_ALL);
        seq_pool_set_spare(p, 2 * slot + 1);
        for (size_t i = 0; i < ARRAY_SIZE(b); i++) {
                assert_int_equal(seq_block_new(&b[i], p, SEQ_ALL, NULL), 0);
                data[i] = memset(seq_block_data(b[i]), 1, slot);
        }
        for (size_t i = 0; i < 3; i++)
                seq_block_unref(b[i]);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks[SEQ_ALL], 1);
        assert_int_equal(st.spare_size, 2 * slot);
        assert_int_equal(st.charged_size, 3 * slot);
        assert_int_equal(ledger_used(&l), 3 * slot);
        assert_int_equal(n_pages_resident(data[0], slot), 2);
        assert_int_equal(n_pages_resident(data[1], slot), 2);
        assert_int_equal(n_pages_resident(data[2], slot), 0);

        ledger_set_budget(&l, 1);
        assert_int_equal(seq_block_new(&b[1], p, SEQ_ALL, NULL), 0);
        assert_ptr_equal(seq_block_data(b[1]), data[1]);
        assert_int_equal(seq_block_new(&b[0], p, SEQ_ALL, NULL), 0);
        assert_ptr_equal(seq_block_data(b[0]), data[0]);
        assert_int_equal(seq_block_tag(b[0]), 0);
        assert_int_equal(seq_block_new(&more, p, SEQ_ALL, NULL), SEQ_FULL);
        assert_int_equal(ledger_used(&l), 3 * slot);

        seq_block_unref(b[0]);
        seq_block_unref(b[1]);
        seq_pool_trim(p, slot);
        assert_int_equal(n_pages_resident(data[0], slot), 0);
        assert_int_equal(n_pages_resident(data[1], slot), 2);
        assert_int_equal(ledger_used(&l), 2 * slot);
        seq_pool_set_spare(p, slot - 1);
        assert_int_equal(n_pages_resident(data[1], slot), 0);
        seq_block_unref(b[3]);
        assert_int_equal(n_pages_resident(data[3], slot), 0);
        assert_int_equal(ledger_used(&l), 0);
        seq_pool_stats(p, &st);
        assert_int_equal(st.spare_size, 0);
}

/* A slab with nothing but spares stays until they go; a pool that is freed takes its spares along.
 */
static void test_spare_slabs(void **state) {
        struct ledger l = LEDGER_INIT((size_t)1 << 30);
        struct seq_pool_stats st;
        struct seq_pool *p = NULL;
        struct seq_block *b[3000];
        size_t mapped;

        assert_int_equal(pool_new(&p, &l, 4096, 32, NULL), 0);
        seq_pool_set_spare(p, SIZE_MAX);
        for (size_t round = 0; round < 3; round++) {
                for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                        assert_int_equal(seq_block_new(&b[i], p, SEQ_ALL, NULL), 0);
                seq_pool_stats(p, &st);
                mapped = st.mapped_size;
                for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                        seq_block_unref(b[(i * 7) % ARRAY_SIZE(b)]);
                seq_pool_stats(p, &st);
                assert_int_equal(st.spare_size, ARRAY_SIZE(b) * 4096);
                assert_int_equal(st.mapped_size, mapped);
                assert_int_equal(ledger_used(&l), ARRAY_SIZE(b) * 4096);
                if (round == 2)
                        break;
                seq_pool_trim(p, 0);
                seq_pool_stats(p, &st);
                assert_true(st.mapped_size > 0 && st.mapped_size < mapped);
                assert_int_equal(st.mapped_size / 4096, st.n_free_slots);
                assert_int_equal(ledger_used(&l), 0);
        }
        seq_pool_free(p);
        assert_int_equal(ledger_used(&l), 0);
}

/* Who computes into a block finds nothing of the last one's in it. */
static void test_spare_tells_nothing(void **state) {
        struct ledger l = LEDGER_INIT(1 << 20);
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        static const uint8_t zeros[8192];
        struct seq *a = NULL, *fork = NULL;
        void *data[2];

        assert_int_equal(pool_new(&p, &l, sizeof(zeros), 4, NULL), 0);
        seq_pool_set_spare(p, SIZE_MAX);
        assert_int_equal(seq_new(&a, p, NULL), 0);
        assert_int_equal(seq_reserve(a, 8, NULL), 0);
        for (size_t i = 0; i < 2; i++)
                data[i] = memset(seq_table(a, SEQ_ALL)[i], 0xa5, sizeof(zeros));
        seq_commit(a, 8);
        seq_cut(a, 0);
        assert_int_equal(seq_reserve(a, 2, NULL), 0);
        assert_ptr_equal(seq_table(a, SEQ_ALL)[0], data[0]);
        assert_memory_equal(seq_table(a, SEQ_ALL)[0], zeros, sizeof(zeros));
        memset(seq_table(a, SEQ_ALL)[0], 1, 4096);
        seq_commit(a, 2);
        /* A copy is one of the whole block, in whatever slot. */
        assert_int_equal(seq_fork(&fork, a, 1, NULL), 0);
        assert_int_equal(seq_reserve(fork, 1, NULL), 0);
        assert_ptr_equal(seq_table(fork, SEQ_ALL)[0], data[1]);
        assert_memory_equal(seq_table(fork, SEQ_ALL)[0], seq_table(a, SEQ_ALL)[0], sizeof(zeros));
        seq_free(a);
        seq_free(fork);
}

/* --- several classes --- */

static const struct seq_shape two = {.size = {4096, 0, 3 * 4096 - 64}, .block_tokens = 4};

static struct seq_block *take(struct seq_pool *p, enum seq_class c) {
        struct seq_block *b = NULL;

        assert_int_equal(seq_block_new(&b, p, c, NULL), 0);
        assert_int_equal(seq_block_class(b), c);
        memset(seq_block_data(b), 1, two.size[c]);
        return b;
}

static void check_pages(struct seq_pool *p, struct ledger *l, size_t n_live, size_t n_spare) {
        struct seq_pool_stats st;

        seq_pool_stats(p, &st);
        assert_int_equal(st.live_size, n_live * 4096);
        assert_int_equal(st.spare_size, n_spare * 4096);
        assert_int_equal(st.charged_size, (n_live + n_spare) * 4096);
        assert_int_equal(ledger_used(l), st.charged_size);
}

/* One limit for the spares of all classes. A block that becomes free displaces older ones of others,
 * and not its own, and nothing if it would not fit even so. */
static void test_classes_share_the_limit(void **state) {
        struct ledger l = LEDGER_INIT(1 << 20);
        struct seq_pool *p = NULL;
        struct seq_block *a[5], *s[2];
        void *kept;

        assert_int_equal(seq_pool_new(&p, &l, &two, NULL), 0);
        assert_int_equal(seq_pool_slot_size(p, SEQ_ALL), 4096);
        assert_int_equal(seq_pool_slot_size(p, SEQ_WINDOW), 0);
        assert_int_equal(seq_pool_slot_size(p, SEQ_STATE), 3 * 4096);
        for (size_t i = 0; i < ARRAY_SIZE(a); i++)
                a[i] = take(p, SEQ_ALL);
        for (size_t i = 0; i < ARRAY_SIZE(s); i++)
                s[i] = take(p, SEQ_STATE);
        check_pages(p, &l, 11, 0);
        seq_pool_set_spare(p, 2 * 4096);
        seq_block_unref(a[0]);
        seq_block_unref(a[1]);
        check_pages(p, &l, 9, 2);
        seq_block_unref(s[0]); /* larger than the limit */
        check_pages(p, &l, 6, 2);
        seq_pool_set_spare(p, 4 * 4096);
        kept = seq_block_data(s[1]);
        seq_block_unref(s[1]); /* a[0] has to go */
        check_pages(p, &l, 3, 4);
        s[0] = take(p, SEQ_STATE);
        assert_ptr_equal(seq_block_data(s[0]), kept);
        seq_block_unref(a[2]);
        seq_block_unref(s[0]); /* a[1] is the oldest */
        check_pages(p, &l, 2, 4);
        kept = seq_block_data(a[3]);
        seq_block_unref(a[3]); /* displaces the state, which alone makes room */
        check_pages(p, &l, 1, 2);
        a[3] = take(p, SEQ_ALL);
        assert_ptr_equal(seq_block_data(a[3]), kept);
        seq_block_unref(a[3]);
        seq_block_unref(a[4]);
        check_pages(p, &l, 0, 3);
        /* Trimmed by age, whatever the class. */
        s[0] = take(p, SEQ_STATE);
        seq_pool_set_spare(p, 6 * 4096);
        seq_block_unref(s[0]);
        check_pages(p, &l, 0, 6);
        seq_pool_trim(p, 3 * 4096);
        check_pages(p, &l, 0, 3);
        seq_block_unref(take(p, SEQ_STATE)); /* it is the state that is left */
        check_pages(p, &l, 0, 3);
        seq_pool_trim(p, 3 * 4096 - 1);
        check_pages(p, &l, 0, 0);
        seq_pool_free(p);
}

/* Spares of other classes go before a block is refused, as many as must; if it is refused
 * nevertheless, they stay. */
static void test_spares_of_others_make_room(void **state) {
        struct ledger l = LEDGER_INIT(6 * 4096);
        struct seq_pool *p = NULL;
        struct seq_block *a[4], *s, *more = NULL;

        assert_int_equal(seq_pool_new(&p, &l, &two, NULL), 0);
        seq_pool_set_spare(p, SIZE_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(a); i++)
                a[i] = take(p, SEQ_ALL);
        seq_block_unref(a[0]);
        seq_block_unref(a[1]);
        check_pages(p, &l, 2, 2);
        s = take(p, SEQ_STATE); /* two pages are free, one spare has to go */
        check_pages(p, &l, 5, 1);
        assert_int_equal(seq_block_new(&more, p, SEQ_STATE, NULL), SEQ_FULL);
        check_pages(p, &l, 5, 1);
        seq_block_unref(s);
        check_pages(p, &l, 2, 4);
        a[0] = take(p, SEQ_ALL); /* the spare of its own class */
        check_pages(p, &l, 3, 3);
        a[1] = take(p, SEQ_ALL);
        check_pages(p, &l, 4, 0);
        ledger_set_budget(&l, 4096);
        assert_int_equal(seq_block_new(&more, p, SEQ_ALL, NULL), SEQ_FULL);
        for (size_t i = 0; i < ARRAY_SIZE(a); i++)
                seq_block_unref(a[i]);
        check_pages(p, &l, 0, 4);
        assert_int_equal(seq_block_new(&more, p, SEQ_STATE, NULL), SEQ_FULL);
        check_pages(p, &l, 0, 4);
        /* All of them are just enough. */
        ledger_set_budget(&l, 3 * 4096);
        assert_int_equal(seq_block_new(&more, p, SEQ_STATE, NULL), 0);
        check_pages(p, &l, 3, 0);
        seq_block_unref(more);
        seq_pool_free(p);
        assert_int_equal(ledger_used(&l), 0);
}

/* All or nothing, over all classes. */
static void test_reservation_of_all_classes(void **state) {
        struct ledger l = LEDGER_INIT(4 * 4096);
        struct seq_pool *p = NULL;
        struct seq_pool_stats st;
        struct seq *s = NULL;

        assert_int_equal(seq_pool_new(&p, &l, &two, NULL), 0);
        assert_int_equal(seq_new(&s, p, NULL), 0);
        assert_int_equal(seq_reserve_cost(s, 5), 5 * 4096);
        assert_int_equal(seq_reserve(s, 5, NULL), SEQ_FULL);
        assert_int_equal(ledger_used(&l), 0);
        assert_int_equal(seq_reserve(s, 4, NULL), 0);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks[SEQ_ALL], 1);
        assert_int_equal(st.n_blocks[SEQ_WINDOW], 0);
        assert_int_equal(st.n_blocks[SEQ_STATE], 1);
        assert_int_equal(seq_reserve(s, 5, NULL), SEQ_FULL);
        assert_int_equal(seq_n_reserved(s), 4);
        assert_int_equal(ledger_used(&l), 4 * 4096);
        seq_unreserve(s);
        assert_int_equal(ledger_used(&l), 0);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_freed, 2);
        seq_free(s);
        seq_pool_free(p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_ledger_is_exact),
                cmocka_unit_test(test_pages_return),
                cmocka_unit_test(test_slabs),
                cmocka_unit_test(test_spare),
                cmocka_unit_test(test_spare_slabs),
                cmocka_unit_test(test_spare_tells_nothing),
                cmocka_unit_test(test_classes_share_the_limit),
                cmocka_unit_test(test_spares_of_others_make_room),
                cmocka_unit_test(test_reservation_of_all_classes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
