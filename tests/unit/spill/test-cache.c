/* SPDX-License-Identifier: MIT */
/* Spill files leave the page cache to others: after writing and settling, and after reading, no
 * page of them is resident, unless that is wanted. tests/bench/spill/bench-cache shows what that is
 * good for. */
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

enum { N = 60, RAW = 300000, N_PAGES = N * 74 };

static uint8_t raw[RAW], back[N][RAW];
static struct spill_item items[N];

static void start(struct store *t, bool keep_cached, enum spill_read_ahead ahead) {
        store_make(t);
        if (!resident_can_drop(t->dir)) {
                store_remove(t);
                print_message("SKIP: this file system cannot drop pages\n");
                skip();
        }
        t->options.max_raw_size = RAW;
        t->options.keep_cached = keep_cached;
        t->options.read_ahead = ahead;
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

/* Resident pages when no more come: while the disk fills them they neither count nor can be
 * dropped. */
static size_t wait_for_pages(const char *path) {
        size_t n = 0, before;
        int tries = 500;

        do {
                before = n;
                usleep(20000);
                n = resident_of_file(path);
        } while (--tries > 0 && (n == 0 || n != before));
        return n;
}

static void dropped(enum spill_read_ahead ahead) {
        struct spill_load *l = NULL;
        struct store t;
        size_t n;

        start(&t, false, ahead);
        write_all(&t);
        /* Bounded without waiting for anyone; a page more where the last write was begun. */
        n = resident_of_file(store_path(&t, 1));
        assert_true(n <= (SPILL_UNSETTLED_MAX + RAW) / 4096 + 1);
        spill_settle(t.s, 1);
        assert_int_equal(resident_of_file(store_path(&t, 1)), 0);
        spill_settle(t.s, 1);
        spill_settle(t.s, 99);

        for (uint32_t i = 0; i < N; i += 7) {
                assert_int_equal(spill_read(t.s, &items[i].ref, &items[i].meta, raw, RAW, NULL), 0);
                /* The kernel's read-ahead goes on behind it, in pieces that it drops as a whole:
                 * that may be what is read next. */
                assert_true(ahead == SPILL_READ_AHEAD_KERNEL ||
                            resident_of_file(store_path(&t, 1)) == 0);
        }
        assert_int_equal(spill_read_batch(t.s, items, N, NULL), 0);
        assert_int_equal(resident_of_file(store_path(&t, 1)), 0);
        /* A load that was given up after its read-ahead had begun. */
        assert_int_equal(spill_load_new(&l, t.s, items, N, NULL), 0);
        n = ahead == SPILL_READ_AHEAD_OWN ? wait_for_pages(store_path(&t, 1)) : 0;
        assert_true((n > 0) == (ahead == SPILL_READ_AHEAD_OWN));
        assert_true(n <= N_PAGES);
        spill_load_free(l);
        assert_int_equal(resident_of_file(store_path(&t, 1)), 0);
        store_remove(&t);
}

static void test_dropped(void **state) {
        dropped(SPILL_READ_AHEAD_OWN);
}

static void test_dropped_after_the_kernel(void **state) {
        dropped(SPILL_READ_AHEAD_KERNEL);
}

/* Only what was read is dropped: what somebody else, or the next load, wants of the file stays. */
static void test_others_kept(void **state) {
        struct store t;
        size_t n_read = N / 3;
        const char *path;
        int fd;

        start(&t, false, SPILL_READ_AHEAD_OWN);
        write_all(&t);
        spill_settle(t.s, 1);
        path = store_path(&t, 1);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(pread(fd, raw, RAW, (off_t)items[i].ref.offset), RAW);
        close(fd);
        assert_int_equal(resident_of_file(path), N_PAGES);
        assert_int_equal(spill_read_batch(t.s, items, n_read, NULL), 0);
        /* But for large pages that reach to both sides. */
        assert_true(resident_of_file(path) >= (N - n_read) * 74 - 512);
        assert_true(resident_of_file(path) <= (N - n_read) * 74 + 512);
        store_remove(&t);
}

static void test_kept(void **state) {
        struct store t;

        start(&t, true, SPILL_READ_AHEAD_AUTO);
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
                cmocka_unit_test(test_dropped),
                cmocka_unit_test(test_dropped_after_the_kernel),
                cmocka_unit_test(test_others_kept),
                cmocka_unit_test(test_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
