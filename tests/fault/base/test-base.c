/* SPDX-License-Identifier: MIT */
/* Every allocation of lib/base fails once: -ERR_NOMEM, with outputs and objects unchanged. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "fault/fault.h"
#include "fault/loop.h"
#include "util/test.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ALLOCATIONS 100

static void test_map_new(void **state) {
        struct fault_loop loop = {.at_least = 2, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct map *m = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = map_new(&m, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!m, r == 0);
                map_free(m);
        }
        assert_int_equal(loop.n, 2);
}

static void test_map_add(void **state) {
        long n_failed = 0;
        struct map *m;
        char key[40];

        assert_int_equal(map_new(&m, NULL), 0);
        /* each addition fails at its first allocation, at its second, ..., and then succeeds */
        for (int i = 0; i < 200; i++) {
                struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

                snprintf(key, sizeof(key), "a key of more than eight bytes %d", i);
                while (fault_loop_next(&loop)) {
                        int r;

                        fault_loop_arm(&loop);
                        r = map_add(m, key, strlen(key), m, NULL);
                        fault_loop_disarm(&loop);
                        fault_loop_expect(&loop, r, NULL);
                        assert_int_equal(map_count(m), r == 0 ? i + 1 : i);
                        assert_int_equal(!!map_get(m, key, strlen(key)), r == 0);
                }
                n_failed += loop.n;
        }
        assert_true(n_failed > 200); /* keys and growing tables */
        map_free(m);
}

static void test_buf(void **state) {
        struct buf b = BUF_NULL;
        char *s;

        fault_alloc_at(0);
        assert_int_equal(buf_append_str(&b, "x"), -ERR_NOMEM);
        assert_null(b.data);
        fault_alloc_at(0);
        assert_null(buf_take(&b, NULL));
        assert_int_equal(buf_append_str(&b, "first"), 0);
        fault_alloc_at(0);
        assert_int_equal(buf_printf(&b, "%0200d", 7), -ERR_NOMEM);
        assert_true(fault_alloc_hit());
        assert_string_equal((char *)b.data, "first");
        s = buf_take(&b, NULL);
        assert_string_equal(s, "first");
        free(s);
}

static void test_json(void **state) {
        struct buf b = BUF_NULL;
        struct json j;

        json_init(&j, &b);
        fault_alloc_at(0);
        json_array_begin(&j);
        assert_true(fault_alloc_hit());
        json_put_u64(&j, 1); /* memory is back, but the gap stays known */
        json_array_end(&j);
        assert_int_equal(json_finish(&j), -ERR_NOMEM);
        buf_deinit(&b);
}

/* Each allocation of @op fails once, and there are @at_least. */
static void fail_each(int (*op)(void), long at_least) {
        struct fault_loop loop = {.at_least = at_least, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                int r;

                fault_loop_arm(&loop);
                r = op();
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
        }
}

static char path[64];

static int op_replace(void) {
        return file_replace(path, "x", 1, 0600, NULL);
}

static int op_mkdir(void) {
        return file_mkdir_p("/tmp", 0700, NULL);
}

static int op_read(void) {
        char *data = NULL;
        int r = file_read_all(path, 1 << 20, &data, NULL, NULL);

        assert_int_equal(!!data, r == 0);
        free(data);
        return r;
}

static void test_file(void **state) {
        snprintf(path, sizeof(path), "/tmp/confab-test-fault-%ld", (long)getpid());
        fail_each(op_replace, 2);
        fail_each(op_mkdir, 1);
        fail_each(op_read, 1);
        assert_int_equal(unlink(path), 0);
}

/* What file_replace() does to the disk, in order: w(rite), s(ync), r(ename), d: sync of a folder.
 */
static char order[16];
static char fails_at;

static int note(char what) {
        size_t n = strlen(order);

        if (n + 1 < sizeof(order)) {
                order[n] = what;
                order[n + 1] = 0;
        }
        if (what != fails_at)
                return 0;
        errno = EIO;
        return -1;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        return note(S_ISDIR(st.st_mode) ? 'd' : 's') < 0 ? -1 : __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
        return note('r') < 0 ? -1 : __real_rename(from, to);
}

#define WRAP_PWRITE(name)                                                                          \
        ssize_t __real_##name(int fd, const void *p, size_t n, off_t at);                          \
        ssize_t __wrap_##name(int fd, const void *p, size_t n, off_t at);                          \
        ssize_t __wrap_##name(int fd, const void *p, size_t n, off_t at) {                         \
                return note('w') < 0 ? -1 : __real_##name(fd, p, n, at);                           \
        }
WRAP_PWRITE(pwrite)
WRAP_PWRITE(pwrite64)

static void expect_content(const char *want) {
        char *data = NULL;

        assert_int_equal(file_read_all(path, 100, &data, NULL, NULL), 0);
        assert_string_equal(data, want);
        free(data);
}

/* A power cut after the rename must not find an empty file: what is renamed is on disk before, and
 * the new name afterwards. */
static void test_replace_is_durable(void **state) {
        fault_alloc_at(-1);
        snprintf(path, sizeof(path), "/tmp/confab-test-fault-%ld", (long)getpid());
        assert_int_equal(file_replace(path, "old", 3, 0600, NULL), 0);
        assert_string_equal(order, "wsrd");
        expect_content("old");
        /* What failed before the rename left the old one; the folder's sync comes after it. */
        for (const char *p = "wsr"; *p; p++) {
                order[0] = 0;
                fails_at = *p;
                assert_int_equal(file_replace(path, "new", 3, 0600, NULL), -ERR_SYS);
                fails_at = 0;
                assert_int_equal(order[strlen(order) - 1], *p);
                expect_content("old");
        }
        order[0] = 0;
        fails_at = 'd';
        assert_int_equal(file_replace(path, "new", 3, 0600, NULL), -ERR_SYS);
        fails_at = 0;
        expect_content("new");
        assert_int_equal(unlink(path), 0);
        order[0] = 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_map_new),
                cmocka_unit_test(test_map_add),
                cmocka_unit_test(test_buf),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_replace_is_durable),
                cmocka_unit_test(test_file),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
