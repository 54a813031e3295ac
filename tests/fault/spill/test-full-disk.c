/* SPDX-License-Identifier: MIT */
/* Real faults of a file system: a full disk, one that became read-only, folders without permission.
 * Uses a small tmpfs in a mount namespace of its own; needs root, and reports what it skips. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/spill/store.h"

enum { DISK = 45 * 4096 }; /* four blocks of ten pages, and some */

static uint8_t raw[BLOCK], back[BLOCK];

/* Mount @size bytes of tmpfs on t->dir, or skip. */
static void mount_small(struct store *t, int size) {
        char options[32];

        store_make(t);
        snprintf(options, sizeof(options), "size=%d,mode=700", size);
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("tmpfs", t->dir, "tmpfs", 0, options) < 0) {
                rmdir(t->dir);
                print_message("SKIP: cannot mount a tmpfs here\n");
                skip();
        }
}

static void umount_small(struct store *t) {
        t->s = spill_free(t->s);
        assert_int_equal(umount(t->dir), 0);
        assert_int_equal(rmdir(t->dir), 0);
}

static int put(struct store *t, uint64_t key, uint32_t i, size_t size, struct spill_ref *ref,
        enum spill_refusal *why, struct err *e) {
        struct spill_block b = {.file_key = key, .meta = meta_of(i), .raw = raw, .raw_size = size};

        fill(raw, size, RANDOM, i);
        return spill_write(t->s, &b, ref, why, e);
}

static int get(struct store *t, const struct spill_ref *ref, uint32_t i, struct err *e) {
        struct spill_meta m = meta_of(i);
        int r = spill_read(t->s, ref, &m, back, BLOCK, e);

        if (r == 0) {
                fill(raw, BLOCK, RANDOM, i);
                assert_memory_equal(raw, back, BLOCK);
        }
        return r;
}

static void test_full_disk(void **state) {
        struct spill_ref ref[40];
        enum spill_refusal why;
        struct store t;
        struct err e;
        uint32_t n = 0;
        int r;

        mount_small(&t, DISK);
        store_start(&t);
        for (;; n++) {
                assert_true(n < ARRAY_SIZE(ref));
                r = put(&t, n % 2, n, BLOCK, &ref[n], &why, &e);
                if (r < 0)
                        break;
        }
        assert_int_equal(r, -ERR_LIMIT);
        assert_int_equal(why, SPILL_REFUSED_FULL);
        assert_non_null(strstr(e.msg, "No space left"));
        assert_true(n >= 2);
        assert_int_equal(store_stats(&t).disk_size, n * 40960);
        assert_int_equal(store_stats(&t).n_refused, 1);
        assert_int_equal(store_stats(&t).n_refused_by[SPILL_REFUSED_FULL], 1);
        /* What did not fit took nothing with it but wear: a smaller one fits still, then the space
         * of a released one is used again. */
        assert_true(store_stats(&t).written_today >= n * 40960);
        assert_true(store_stats(&t).written_today < (n + 1) * 40960);
        assert_int_equal(put(&t, 9, 50, 4000 - 128, &ref[n], &why, &e), 0);
        assert_int_equal(spill_release(t.s, &ref[n], NULL), 0);
        assert_int_equal(spill_release(t.s, &ref[0], NULL), 0);
        assert_int_equal(put(&t, 0, 0, BLOCK, &ref[0], &why, &e), 0);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(get(&t, &ref[i], i, &e), 0);
        umount_small(&t);
}

/* The kernel makes a disk with errors read-only: what is there can be read, nothing else is lost,
 * and when it is writable again everything goes on. */
static void test_read_only_disk(void **state) {
        struct spill_ref ref[3], other;
        enum spill_refusal why;
        struct spill_stats st;
        struct store t;
        struct err e;
        size_t n;

        mount_small(&t, 100 * 4096);
        store_start(&t);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(put(&t, i / 2, i, BLOCK, &ref[i], &why, &e), 0);
        /* Not while a file is open for writing. */
        t.s = spill_free(t.s);
        assert_int_equal(mount(NULL, t.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
        store_open(&t);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(spill_adopt(t.s, &ref[i], NULL), 0);
        assert_int_equal(spill_sweep(t.s, &n, &e), -ERR_SYS);
        assert_int_equal(put(&t, 0, 5, BLOCK, &other, &why, &e), -ERR_SYS);
        assert_non_null(strstr(e.msg, "Read-only"));
        assert_int_equal(put(&t, 7, 5, BLOCK, &other, &why, &e), -ERR_SYS);
        st = store_stats(&t);
        assert_int_equal(st.disk_size, 3 * 40960);
        assert_int_equal(st.n_files, 2);
        assert_int_equal(st.n_refused, 0);
        assert_int_equal(st.written_today, 0);
        /* It cannot go, so it stays counted. */
        assert_int_equal(spill_release(t.s, &ref[2], NULL), 0);
        assert_int_equal(store_stats(&t).disk_size, 3 * 40960);
        assert_int_equal(store_stats(&t).n_records, 2);
        t.s = spill_free(t.s);

        /* To look, it need not be writable. */
        t.options.read_only = true;
        store_open(&t);
        assert_int_equal(spill_adopt(t.s, &ref[1], NULL), 0);
        assert_int_equal(get(&t, &ref[1], 1, &e), 0);
        t.s = spill_free(t.s);
        t.options.read_only = false;
        assert_int_equal(mount(NULL, t.dir, NULL, MS_REMOUNT, NULL), 0);
        store_open(&t);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(spill_adopt(t.s, &ref[i], NULL), 0);
        assert_int_equal(spill_sweep(t.s, &n, &e), 0);
        assert_int_equal(n, 1);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(get(&t, &ref[i], i, &e), 0);
        assert_int_equal(put(&t, 0, 5, BLOCK, &other, &why, &e), 0);
        umount_small(&t);
}

/* As a user who may not: 0, or the line that failed. */
static int without_permission(struct store *t, const struct spill_ref *ref) {
        struct spill *s = NULL;
        enum spill_refusal why;
        struct spill_ref other;
        struct spill_stats st;
        struct err e;

        if (setgid(65534) < 0 || setuid(65534) < 0)
                return __LINE__;
        /* A folder in which nothing can be made. */
        if (spill_open(&s, t->dir, &t->options, &e) != 0)
                return __LINE__;
        if (spill_adopt(s, ref, &e) != 0)
                return __LINE__;
        if (spill_sweep(s, NULL, &e) != -ERR_SYS || !strstr(e.msg, "Permission denied"))
                return __LINE__;
        t->s = s;
        if (put(t, 3, 1, BLOCK, &other, &why, &e) != -ERR_SYS)
                return __LINE__;
        if (put(t, 1, 1, BLOCK, &other, &why, &e) != -ERR_SYS)
                return __LINE__;
        if (spill_read(s, ref, &(struct spill_meta){0}, back, BLOCK, &e) != -ERR_SYS)
                return __LINE__;
        spill_stats(s, &st);
        if (st.disk_size != ref->stored_size || st.n_files != 1 || st.n_corrupt != 0)
                return __LINE__;
        spill_free(s);
        return 0;
}

static void test_no_permission(void **state) {
        struct store t;
        struct spill_ref ref;
        enum spill_refusal why;
        struct err e;
        int status, line;
        pid_t pid;

        if (geteuid() != 0) {
                print_message("SKIP: needs root\n");
                skip();
        }
        store_make(&t);
        store_start(&t);
        assert_int_equal(put(&t, 1, 1, BLOCK, &ref, &why, &e), 0);
        t.s = spill_free(t.s);
        assert_int_equal(chown(t.dir, 65534, 65534), 0);
        assert_int_equal(chmod(t.dir, 0555), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                line = without_permission(&t, &ref);
                _exit(line == 0 ? 0 : 1 + line % 250);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full_disk),
                cmocka_unit_test(test_read_only_disk),
                cmocka_unit_test(test_no_permission),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
