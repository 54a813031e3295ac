/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

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
        struct ledger l = LEDGER_INIT(1 << 20);
        struct seq_pool *p = NULL;
        struct err e;

        assert_int_equal(seq_pool_new(&p, &l, 0, 32, &e), -ERR_INVALID);
        assert_int_equal(seq_pool_new(&p, &l, 65, 32, &e), -ERR_INVALID);
        assert_int_equal(seq_pool_new(&p, &l, 64, 0, &e), -ERR_INVALID);
        assert_int_equal(seq_pool_new(&p, &l, SIZE_MAX - 63, 32, &e), -ERR_INVALID);
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
        assert_int_equal(seq_pool_new(&p, &l, 3 * 64, 4, NULL), 0);
        slot = seq_pool_slot_size(p);
        assert_true(slot >= 3 * 64);
        assert_int_equal(seq_pool_block_tokens(p), 4);
        assert_int_equal(seq_block_new(&more, p, NULL), SEQ_FULL);
        ledger_set_budget(&l, 5 * slot + slot - 1);
        for (size_t i = 0; i < 5; i++) {
                assert_int_equal(seq_block_new(&b[i], p, NULL), 0);
                assert_int_equal(ledger_used(&l), (i + 1) * slot);
                assert_int_equal((uintptr_t)seq_block_data(b[i]) % 64, 0);
                assert_int_equal(seq_block_n_refs(b[i]), 1);
                assert_int_equal(seq_block_tag(b[i]), 0);
                memset(seq_block_data(b[i]), (int)i, 3 * 64);
        }
        assert_int_equal(seq_block_new(&more, p, NULL), SEQ_FULL);
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
        assert_int_equal(seq_block_new(&b[2], p, NULL), 0);
        assert_int_equal(seq_block_tag(b[2]), 0);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks, 5);
        assert_int_equal(st.n_allocated, 6);

        /* A shrunk budget takes nothing away, and gives nothing out. */
        ledger_set_budget(&l, slot);
        b[0] = seq_block_unref(b[0]);
        assert_int_equal(seq_block_new(&b[0], p, NULL), SEQ_FULL);
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

        assert_int_equal(seq_pool_new(&p, &l, 7 * page, 32, NULL), 0);
        slot = seq_pool_slot_size(p);
        assert_int_equal(seq_block_new(&a, p, NULL), 0);
        assert_int_equal(seq_block_new(&b, p, NULL), 0);
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

        assert_int_equal(seq_pool_new(&p, &l, 4096, 32, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(b); i++) {
                assert_int_equal(seq_block_new(&b[i], p, NULL), 0);
                memcpy(seq_block_data(b[i]), &i, sizeof(i));
        }
        seq_pool_stats(p, &st);
        n_slab = st.n_free_slots + st.n_blocks;
        assert_int_equal(st.n_blocks, ARRAY_SIZE(b));
        for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                assert_memory_equal(seq_block_data(b[i]), &i, sizeof(i));
        for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                seq_block_unref(b[(i * 7) % ARRAY_SIZE(b)]);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks, 0);
        assert_true(st.n_free_slots > 0 && st.n_free_slots < n_slab);
        assert_int_equal(ledger_used(&l), 0);

        assert_int_equal(seq_pool_new(&big, &l, (size_t)100 << 20, 32, NULL), 0);
        assert_int_equal(seq_block_new(&large[0], big, NULL), 0);
        assert_int_equal(seq_block_new(&large[1], big, NULL), 0);
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

        assert_int_equal(seq_pool_new(&p, &l, 2 * page, 32, NULL), 0);
        slot = seq_pool_slot_size(p);
        seq_pool_set_spare(p, 2 * slot + 1);
        for (size_t i = 0; i < ARRAY_SIZE(b); i++) {
                assert_int_equal(seq_block_new(&b[i], p, NULL), 0);
                data[i] = memset(seq_block_data(b[i]), 1, slot);
        }
        for (size_t i = 0; i < 3; i++)
                seq_block_unref(b[i]);
        seq_pool_stats(p, &st);
        assert_int_equal(st.n_blocks, 1);
        assert_int_equal(st.spare_size, 2 * slot);
        assert_int_equal(st.charged_size, 3 * slot);
        assert_int_equal(ledger_used(&l), 3 * slot);
        assert_int_equal(n_pages_resident(data[0], slot), 2);
        assert_int_equal(n_pages_resident(data[1], slot), 2);
        assert_int_equal(n_pages_resident(data[2], slot), 0);

        ledger_set_budget(&l, 1);
        assert_int_equal(seq_block_new(&b[1], p, NULL), 0);
        assert_ptr_equal(seq_block_data(b[1]), data[1]);
        assert_int_equal(seq_block_new(&b[0], p, NULL), 0);
        assert_ptr_equal(seq_block_data(b[0]), data[0]);
        assert_int_equal(seq_block_tag(b[0]), 0);
        assert_int_equal(seq_block_new(&more, p, NULL), SEQ_FULL);
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

        assert_int_equal(seq_pool_new(&p, &l, 4096, 32, NULL), 0);
        seq_pool_set_spare(p, SIZE_MAX);
        for (size_t round = 0; round < 3; round++) {
                for (size_t i = 0; i < ARRAY_SIZE(b); i++)
                        assert_int_equal(seq_block_new(&b[i], p, NULL), 0);
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

        assert_int_equal(seq_pool_new(&p, &l, sizeof(zeros), 4, NULL), 0);
        seq_pool_set_spare(p, SIZE_MAX);
        assert_int_equal(seq_new(&a, p, NULL), 0);
        assert_int_equal(seq_reserve(a, 8, NULL), 0);
        for (size_t i = 0; i < 2; i++)
                data[i] = memset(seq_table(a)[i], 0xa5, sizeof(zeros));
        seq_commit(a, 8);
        seq_cut(a, 0);
        assert_int_equal(seq_reserve(a, 2, NULL), 0);
        assert_ptr_equal(seq_table(a)[0], data[0]);
        assert_memory_equal(seq_table(a)[0], zeros, sizeof(zeros));
        memset(seq_table(a)[0], 1, 4096);
        seq_commit(a, 2);
        /* A copy is one of the whole block, in whatever slot. */
        assert_int_equal(seq_fork(&fork, a, 1, NULL), 0);
        assert_int_equal(seq_reserve(fork, 1, NULL), 0);
        assert_ptr_equal(seq_table(fork)[0], data[1]);
        assert_memory_equal(seq_table(fork)[0], seq_table(a)[0], sizeof(zeros));
        seq_free(a);
        seq_free(fork);
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
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
