/* SPDX-License-Identifier: MIT */
/* Spill files leave the page cache to others: after writing and settling, and after reading, none
 * of their pages is resident, unless keep_cached is set. Pages in the cache are read from there.
 * tests/bench/spill/bench-cache shows the benefit. */
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

enum { N = 60, RAW = 300000, N_PAGES = N * 74 };

static uint8_t raw[RAW], back[N][RAW];
static struct spill_item items[N];

static void start(struct store *t, bool keep_cached, bool no_direct) {
        store_make(t);
        if (!resident_can_drop(t->dir)) {
                store_remove(t);
                print_message("SKIP: this file system cannot drop pages\n");
                skip();
        }
        t->options.max_raw_size = RAW;
        t->options.keep_cached = keep_cached;
        t->options.no_direct = no_direct;
        store_start(t);
}

static void write_all(struct store *t) {
        for (uint32_t i = 0; i < N; i++) {
                items[i] = (struct spill_item){.meta = meta_of(i), .dst = back[i]};
                fill(raw, RAW, RANDOM, i);
                assert_int_equal(
                        store_write(t->s, 1, &items[i].meta, raw, RAW, &items[i].ref, NULL), 0);
                assert_int_equal(items[i].ref.stored_size, 74 * 4096);
        }
}

static size_t resident(struct store *t) {
        return resident_of_file(store_path(t, 1));
}

static void expect_all(void) {
        for (uint32_t i = 0; i < N; i++) {
                fill(raw, RAW, RANDOM, i);
                assert_int_equal(items[i].r, 0);
                assert_memory_equal(raw, back[i], RAW);
        }
}

static void dropped(bool no_direct) {
        struct spill_load *l = NULL;
        struct spill_stats st;
        struct store t;

        start(&t, false, no_direct);
        write_all(&t);
        /* Bounded without waiting for anyone; a page more where the last write was begun. */
        assert_true(resident(&t) <= (SPILL_UNSETTLED_MAX + RAW) / 4096 + 1);
        spill_settle(t.s, 1);
        assert_int_equal(resident(&t), 0);
        spill_settle(t.s, 1);
        spill_settle(t.s, 99);

        for (uint32_t i = 0; i < N; i += 7) {
                assert_int_equal(spill_read(t.s, &items[i].ref, &items[i].meta, raw, RAW, NULL), 0);
                assert_int_equal(resident(&t), 0);
        }
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        assert_int_equal(resident(&t), 0);
        expect_all();
        /* Memory that is short does not cost the way past it. */
        spill_trim(t.s);
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        expect_all();
        /* A load that was given up. */
        assert_int_equal(spill_load_new(&l, t.s, items, N, NULL), 0);
        spill_load_free(l);
        assert_int_equal(resident(&t), 0);
        st = store_stats(&t);
        assert_true(st.n_preads > 0);
        assert_int_equal(
                st.n_direct, !no_direct && has_direct(store_path(&t, 1)) ? st.n_preads : 0);
        store_remove(&t);
}

static void test_past_the_cache(void **state) {
        dropped(false);
}

static void test_through_the_cache(void **state) {
        dropped(true);
}

/* Have the first @n records in the page cache, in small pages or in such as the kernel likes. */
static void bring(struct store *t, uint32_t n, bool small) {
        int fd = open(store_path(t, 1), O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        if (small)
                assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(pread(fd, raw, RAW, (off_t)items[i].ref.offset), RAW);
        close(fd);
}

/* The same until all of them are there: on a busy machine the system may take a page away meanwhile. */
static void bring_all(struct store *t, bool small) {
        for (int i = 0; i < 100 && (i == 0 || resident(t) < N_PAGES); i++)
                bring(t, N, small);
        assert_int_equal(resident(t), N_PAGES);
}

/* Only what was read is dropped: what somebody else, or the next load, wants of the file stays. */
static void test_others_kept(void **state) {
        struct store t;
        size_t n_read = N / 3;

        start(&t, false, false);
        write_all(&t);
        spill_settle(t.s, 1);
        bring_all(&t, false);
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        assert_int_equal(store_stats(&t).n_direct, 0);
        assert_int_equal(resident(&t), 0);

        bring_all(&t, true);
        assert_int_equal(spill_read_batch(t.s, items, n_read, NULL), 0);
        /* What was there was used. */
        assert_int_equal(store_stats(&t).n_direct, 0);
        /* But for large pages that reach to both sides. */
        assert_true(resident(&t) >= (N - n_read) * 74 - 512);
        assert_true(resident(&t) <= (N - n_read) * 74 + 512);
        store_remove(&t);
}

/* Some records are in the page cache, others not, and of one only a part; one was changed there
 * and is not on disk yet. */
static void test_mixed(void **state) {
        struct spill_stats st;
        struct store t;
        uint8_t b;
        int fd;

        start(&t, false, false);
        write_all(&t);
        spill_settle(t.s, 1);
        bring(&t, N / 2, true);
        fd = open(store_path(&t, 1), O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(
                posix_fadvise(fd, (off_t)items[4].ref.offset + 8192, 65536, POSIX_FADV_DONTNEED),
                0);
        assert_int_equal(pread(fd, &b, 1, (off_t)items[N - 2].ref.offset + 100000), 1);
        b ^= 1;
        assert_int_equal(pwrite(fd, &b, 1, (off_t)items[N - 2].ref.offset + 100000), 1);
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), -ERR_CORRUPT);
        assert_int_equal(items[N - 2].r, -ERR_CORRUPT);
        b ^= 1;
        assert_int_equal(pwrite(fd, &b, 1, (off_t)items[N - 2].ref.offset + 100000), 1);
        close(fd);
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        expect_all();
        st = store_stats(&t);
        assert_true(st.n_direct < st.n_preads);
        assert_true(st.n_direct > 0 || !has_direct(store_path(&t, 1)));
        store_remove(&t);
}

static void test_kept(void **state) {
        struct store t;

        start(&t, true, false);
        write_all(&t);
        spill_settle(t.s, 1);
        store_sync(&t, 1);
        assert_int_equal(resident_of_file(store_path(&t, 1)), N_PAGES);
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        assert_int_equal(resident_of_file(store_path(&t, 1)), N_PAGES);
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_past_the_cache),
                cmocka_unit_test(test_through_the_cache),
                cmocka_unit_test(test_others_kept),
                cmocka_unit_test(test_mixed),
                cmocka_unit_test(test_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
