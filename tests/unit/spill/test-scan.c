/* SPDX-License-Identifier: MIT */
/* A read-only store, and the listing of the folder. */
#include <unistd.h>

#include "unit/spill/store.h"

static uint8_t raw[BLOCK], back[BLOCK];

struct seen {
        struct spill_found found[16];
        char names[16][300];
        size_t n;
        int stop_with;
};

static int see(void *arg, const struct spill_found *f) {
        struct seen *s = arg;

        assert_true(s->n < ARRAY_SIZE(s->found));
        s->found[s->n] = *f;
        snprintf(s->names[s->n++], sizeof(s->names[0]), "%s", f->name);
        return s->stop_with;
}

static const struct spill_found *by_name(const struct seen *s, const char *name) {
        for (size_t i = 0; i < s->n; i++)
                if (strcmp(s->names[i], name) == 0)
                        return &s->found[i];
        fail_msg("%s was not seen", name);
        return NULL;
}

static struct spill_ref put(struct store *t, uint64_t key, uint32_t i) {
        struct spill_meta m = meta_of(i);
        struct spill_ref ref;

        fill(raw, BLOCK, RANDOM, i);
        assert_int_equal(store_write(t->s, key, &m, raw, BLOCK, &ref, NULL), 0);
        return ref;
}

static void make(const struct store *t, const char *name) {
        char path[600];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", t->dir, name);
        fd = open(path, O_CREAT | O_RDWR | O_EXCL, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
}

static void test_scan(void **state) {
        struct store t;
        struct spill_ref ref[3];
        struct seen seen = {0};
        const struct spill_found *f;
        char path[600];
        size_t n;

        store_make(&t);
        store_start(&t);
        ref[0] = put(&t, 1, 0);
        ref[1] = put(&t, 1, 1);
        ref[2] = put(&t, 2, 2);
        t.s = spill_free(t.s);
        make(&t, "README");
        make(&t, "00000000000000aA.kv");
        make(&t, "0000000000000003.kv.tmp");
        snprintf(path, sizeof(path), "%s/0000000000000004.kv", t.dir);
        assert_int_equal(symlink("README", path), 0);
        snprintf(path, sizeof(path), "%s/0000000000000005.kv", t.dir);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/0000000000000006.kv", t.dir);
        assert_int_equal(mkfifo(path, 0600), 0);

        store_open(&t);
        assert_int_equal(spill_adopt(t.s, &ref[0], NULL), 0);
        for (unsigned i = 4; i < 7; i++) {
                struct spill_ref other = ref[0];

                other.file_key = i;
                assert_int_equal(spill_adopt(t.s, &other, NULL), -ERR_CORRUPT);
        }
        assert_int_equal(spill_scan(t.s, see, &seen, NULL), 0);
        assert_int_equal(seen.n, 8);
        f = by_name(&seen, "0000000000000001.kv");
        assert_true(f->is_ours);
        assert_int_equal(f->file_key, 1);
        assert_int_equal(f->size, 2 * 40960);
        assert_int_equal(f->n_records, 1);
        assert_int_equal(f->adopted_size, 40960);
        f = by_name(&seen, "0000000000000002.kv");
        assert_true(f->is_ours);
        assert_int_equal(f->file_key, 2);
        assert_int_equal(f->n_records, 0);
        assert_false(by_name(&seen, "README")->is_ours);
        assert_int_equal(by_name(&seen, "README")->size, 1);
        assert_false(by_name(&seen, "00000000000000aA.kv")->is_ours);
        assert_false(by_name(&seen, "0000000000000003.kv.tmp")->is_ours);
        assert_false(by_name(&seen, "0000000000000004.kv")->is_ours);
        assert_false(by_name(&seen, "0000000000000005.kv")->is_ours);
        assert_false(by_name(&seen, "0000000000000006.kv")->is_ours);
        seen = (struct seen){.stop_with = 5};
        assert_int_equal(spill_scan(t.s, see, &seen, NULL), 5);
        assert_int_equal(seen.n, 1);

        /* The sweep leaves all that is not ours. */
        assert_int_equal(spill_sweep(t.s, &n, NULL), 0);
        assert_int_equal(n, 1);
        seen = (struct seen){0};
        assert_int_equal(spill_scan(t.s, see, &seen, NULL), 0);
        assert_int_equal(seen.n, 7);
        assert_int_equal(by_name(&seen, "0000000000000001.kv")->size, 40960);
        snprintf(path, sizeof(path), "%s/0000000000000005.kv", t.dir);
        assert_int_equal(rmdir(path), 0);
        store_remove(&t);
}

static void test_names_that_are_taken(void **state) {
        struct spill_meta m = meta_of(1);
        struct store t;
        struct spill_ref ref;
        char path[600];
        struct err e;

        store_make(&t);
        store_start(&t);
        make(&t, "README");
        for (unsigned i = 4; i < 7; i++) {
                snprintf(path, sizeof(path), "%s/000000000000000%u.kv", t.dir, i);
                if (i == 4)
                        assert_int_equal(symlink("README", path), 0);
                else if (i == 5)
                        assert_int_equal(mkdir(path, 0700), 0);
                else
                        assert_int_equal(mkfifo(path, 0600), 0);
                fill(raw, BLOCK, RANDOM, 1);
                assert_int_equal(store_write(t.s, i, &m, raw, BLOCK, &ref, &e), -ERR_CORRUPT);
                assert_non_null(strstr(e.msg, "not a regular file"));
                assert_int_equal(store_stats(&t).disk_size, 0);
                assert_int_equal(store_stats(&t).n_files, 0);
                assert_int_equal(store_stats(&t).written_today, 0);
        }
        snprintf(path, sizeof(path), "%s/0000000000000005.kv", t.dir);
        assert_int_equal(rmdir(path), 0);
        store_remove(&t);
}

static void test_read_only(void **state) {
        struct store t;
        struct spill_ref ref[3], r;
        struct spill_meta m = meta_of(0);
        struct spill *other = NULL;
        struct seen seen = {0};
        char dir[300];
        struct err e;
        long long size;

        store_make(&t);
        store_start(&t);
        for (uint32_t i = 0; i < 3; i++)
                ref[i] = put(&t, i / 2, i);
        t.s = spill_free(t.s);
        size = store_file_size(&t, 0);
        t.options.read_only = true;
        snprintf(dir, sizeof(dir), "%s/none", t.dir);
        assert_int_equal(spill_open(&other, dir, &t.options, &e), -ERR_SYS);
        assert_int_equal(access(dir, F_OK), -1);
        store_open(&t);
        /* Beside one that only looks too, not beside one that writes. */
        assert_int_equal(spill_open(&other, t.dir, &t.options, &e), 0);
        other = spill_free(other);
        t.options.read_only = false;
        assert_int_equal(spill_open(&other, t.dir, &t.options, &e), -ERR_BUSY);
        assert_int_equal(spill_adopt(t.s, &ref[0], NULL), 0);
        assert_int_equal(spill_read(t.s, &ref[0], &m, back, BLOCK, NULL), 0);
        fill(raw, BLOCK, RANDOM, 0);
        assert_memory_equal(raw, back, BLOCK);
        assert_int_equal(spill_read(t.s, &ref[1], &m, back, BLOCK, &e), -ERR_NOT_FOUND);
        assert_int_equal(spill_adopt(t.s, &ref[1], NULL), 0);
        assert_int_equal(spill_read(t.s, &ref[1], &m, back, BLOCK, &e), -ERR_CORRUPT);
        assert_int_equal(spill_sweep(t.s, NULL, &e), -ERR_STATE);
        assert_int_equal(spill_release(t.s, &ref[0], &e), -ERR_STATE);
        assert_int_equal(store_write(t.s, 1, &m, raw, BLOCK, &r, &e), -ERR_STATE);
        spill_settle(t.s, 0);
        assert_int_equal(spill_scan(t.s, see, &seen, NULL), 0);
        assert_int_equal(seen.n, 2);
        t.s = spill_free(t.s);
        assert_int_equal(store_file_size(&t, 0), size);
        assert_int_equal(store_file_size(&t, 1), 40960);
        store_open(&t);
        t.options.read_only = true;
        assert_int_equal(spill_open(&other, t.dir, &t.options, &e), -ERR_BUSY);
        store_remove(&t);
}

/* Records of another division than the store's, or of one that it does not know. */
static void test_inspect(void **state) {
        static const uint64_t ends[3] = {10000, 10001, 40832};
        static uint8_t big[40832], got[40832];
        struct fingerprint fp, other = {5, 6};
        struct spill_array array = {.element = SPILL_F16,
                .offset = 10002,
                .n_tiles = 1,
                .n_channels = 8,
                .n_tokens = 8};
        struct spill_ref ref[N_KINDS], bad;
        struct spill_meta m = meta_of(1), w = m;
        struct store t;
        struct err e;
        int fd;

        store_make(&t);
        fp = t.options.fingerprint;
        t.options.max_raw_size = 40832;
        store_divide(&t.options, (struct spill_layout){.section_ends = ends, .n_sections = 3});
        store_start(&t);
        for (enum kind k = 0; k < N_KINDS; k++) {
                fill(big, sizeof(big), k, 1);
                assert_int_equal(store_write(t.s, 1, &m, big, sizeof(big), &ref[k], NULL), 0);
        }
        /* A page more than it would be in one section. */
        assert_int_equal(ref[RANDOM].stored_size, 45056);
        t.s = spill_free(t.s);
        store_divide(&t.options, (struct spill_layout){0});
        t.options.fingerprint = other;
        store_open(&t);
        /* It keeps its place, but can't be read. */
        assert_int_equal(spill_adopt(t.s, &ref[RANDOM], &e), 0);
        assert_int_equal(spill_read(t.s, &ref[RANDOM], &m, got, sizeof(got), &e), -ERR_NOT_FOUND);
        t.s = spill_free(t.s);
        t.options.read_only = true;
        store_open(&t);
        for (enum kind k = 0; k < N_KINDS; k++) {
                assert_int_equal(
                        spill_inspect(t.s, &fp, &ref[k], &m, NULL, 0, NULL, &e), -ERR_NOT_FOUND);
                assert_int_equal(spill_adopt(t.s, &ref[k], &e), 0);
                assert_int_equal(spill_inspect(t.s, &fp, &ref[k], &m, NULL, 0, NULL, &e), 0);
                memset(got, 0x55, sizeof(got));
                assert_int_equal(spill_inspect(t.s, &fp, &ref[k], &m, NULL, 0, got, &e), 0);
                fill(big, sizeof(big), k, 1);
                assert_memory_equal(big, got, sizeof(big));
        }
        assert_int_equal(spill_inspect(t.s, &fp, &ref[ZERO], &m, &array, 1, got, &e), 0);
        array.n_channels = 1 << 20;
        assert_int_equal(spill_inspect(t.s, &fp, &ref[ZERO], &m, &array, 1, got, &e), -ERR_CORRUPT);
        assert_int_equal(
                spill_inspect(t.s, &other, &ref[ZERO], &m, NULL, 0, NULL, &e), -ERR_CORRUPT);
        w.position++;
        assert_int_equal(spill_inspect(t.s, &fp, &ref[ZERO], &w, NULL, 0, NULL, &e), -ERR_CORRUPT);
        bad = ref[ZERO];
        bad.raw_size--;
        assert_int_equal(spill_inspect(t.s, &fp, &bad, &m, NULL, 0, NULL, &e), -ERR_CORRUPT);
        fd = open(store_path(&t, 1), O_RDWR);
        assert_int_equal(pwrite(fd, "x", 1, (off_t)ref[RANDOM].offset + 20000), 1);
        close(fd);
        assert_int_equal(
                spill_inspect(t.s, &fp, &ref[RANDOM], &m, NULL, 0, NULL, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "section 2"));
        store_remove(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scan),
                cmocka_unit_test(test_names_that_are_taken),
                cmocka_unit_test(test_read_only),
                cmocka_unit_test(test_inspect),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
