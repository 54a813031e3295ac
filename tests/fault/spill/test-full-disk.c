/* SPDX-License-Identifier: MIT */
/* A real full disk: a small tmpfs in a mount namespace of our own. Needs root. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "unit/spill/store.h"

enum { DISK = 45 * 4096 }; /* four blocks of ten pages, and some */

static void test_full_disk(void **state) {
        static uint8_t raw[BLOCK], back[BLOCK];
        struct spill_ref ref[40];
        struct spill_meta m;
        struct store t;
        struct err e;
        char options[32];
        uint32_t n = 0;
        int r;

        store_make(&t);
        snprintf(options, sizeof(options), "size=%d", DISK);
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("tmpfs", t.dir, "tmpfs", 0, options) < 0) {
                rmdir(t.dir);
                print_message("SKIP: cannot mount a tmpfs here\n");
                skip();
        }
        store_start(&t);
        for (;; n++) {
                assert_true(n < ARRAY_SIZE(ref));
                m = meta_of(n);
                fill(raw, BLOCK, RANDOM, n);
                r = spill_write(t.s, n % 2, &m, raw, BLOCK, &ref[n], &e);
                if (r < 0)
                        break;
        }
        assert_int_equal(r, -ERR_LIMIT);
        assert_non_null(strstr(e.msg, "No space left"));
        assert_true(n >= 2);
        assert_int_equal(store_stats(&t).disk_size, n * 40960);
        assert_int_equal(store_stats(&t).n_refused, 1);
        /* What did not fit took nothing with it: a smaller one fits still, then the space of a
         * released one is used again. */
        m = meta_of(50);
        fill(raw, 4000 - 128, RANDOM, 50);
        assert_int_equal(spill_write(t.s, 9, &m, raw, 4000 - 128, &ref[n], &e), 0);
        assert_int_equal(spill_release(t.s, &ref[n], NULL), 0);
        assert_int_equal(spill_release(t.s, &ref[0], NULL), 0);
        m = meta_of(0);
        fill(raw, BLOCK, RANDOM, 0);
        assert_int_equal(spill_write(t.s, 0, &m, raw, BLOCK, &ref[0], &e), 0);
        for (uint32_t i = 0; i < n; i++) {
                m = meta_of(i);
                fill(raw, BLOCK, RANDOM, i);
                assert_int_equal(spill_read(t.s, &ref[i], &m, back, BLOCK, &e), 0);
                assert_memory_equal(raw, back, BLOCK);
        }
        t.s = spill_free(t.s);
        assert_int_equal(umount(t.dir), 0);
        assert_int_equal(rmdir(t.dir), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_disk)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
