/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "util/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/confab-test-file-XXXXXX";

static const char *in_folder(const char *name) {
        static char path[512];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static int make_folder(void **state) {
        return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
        char command[600];

        snprintf(command, sizeof(command), "rm -rf -- '%s'", folder);
        return system(command);
}

static void test_pread_pwrite(void **state) {
        _cleanup_(closep) int fd = open(in_folder("rw"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct err e;
        char text[8] = "untouch";

        assert_true(fd >= 0);
        assert_int_equal(file_pwrite(fd, "hello", 5, 3, &e), 0);
        assert_int_equal(file_pread(fd, text, 5, 3, &e), 0);
        assert_memory_equal(text, "hello", 5);
        assert_int_equal(file_pread(fd, text, 6, 3, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "ends early"));
        assert_int_equal(file_pread(fd, text, 0, 1000, &e), 0);
        assert_int_equal(file_pread(fd, text, 1, UINT64_MAX, &e), -ERR_INVALID);
        assert_int_equal(file_pwrite(fd, text, 2, INT64_MAX, &e), -ERR_INVALID);
        assert_int_equal(file_pread(-1, text, 1, 0, &e), -ERR_SYS);
        assert_int_equal(e.sys, EBADF);
        assert_int_equal(file_pwrite(-1, text, 1, 0, &e), -ERR_SYS);
}

static void test_replace_and_read(void **state) {
        char path[512];
        size_t size = 0;
        struct stat st;
        struct err e;
        char *data = NULL;

        snprintf(path, sizeof(path), "%s", in_folder("settings"));
        assert_int_equal(file_replace(path, "one", 3, 0640, &e), 0);
        assert_int_equal(file_replace(path, "second", 6, 0640, &e), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0640);
        assert_int_equal(file_read_all(path, 6, &data, &size, &e), 0);
        assert_int_equal(size, 6);
        assert_string_equal(data, "second");
        free(data);
        data = NULL;
        assert_int_equal(file_read_all(path, 5, &data, &size, &e), -ERR_LIMIT);
        assert_null(data);
        assert_int_equal(file_replace(in_folder("none/such"), "x", 1, 0600, &e), -ERR_SYS);
        assert_int_equal(e.sys, ENOENT);
        assert_int_equal(file_read_all(in_folder("none"), 5, &data, &size, &e), -ERR_SYS);
        assert_int_equal(file_read_all(folder, 5, &data, &size, &e), -ERR_INVALID);
        /* a failed rename leaves nothing behind: a folder can't be replaced by a file */
        assert_int_equal(file_mkdir_p(in_folder("d/inside"), 0700, &e), 0);
        assert_int_equal(file_replace(in_folder("d"), "x", 1, 0600, &e), -ERR_SYS);
        snprintf(path, sizeof(path), "test -z \"$(ls %s | grep '^d\\.')\"", folder);
        assert_int_equal(system(path), 0);
}

static void test_read_all_sizes(void **state) {
        static char big[100000];
        size_t size = 0;
        struct err e;
        char *data = NULL;

        assert_int_equal(file_replace(in_folder("empty"), NULL, 0, 0600, &e), 0);
        assert_int_equal(file_read_all(in_folder("empty"), 0, &data, &size, &e), 0);
        assert_string_equal(data, "");
        assert_int_equal(size, 0);
        free(data);
        memset(big, 'b', sizeof(big));
        assert_int_equal(file_replace(in_folder("big"), big, sizeof(big), 0600, &e), 0);
        assert_int_equal(file_read_all(in_folder("big"), SIZE_MAX, &data, &size, &e), 0);
        assert_int_equal(size, sizeof(big));
        assert_memory_equal(data, big, size);
        free(data);
        /* its size is stated as 0 */
        if (access("/proc/self/maps", R_OK) == 0) {
                assert_int_equal(file_read_all("/proc/self/maps", 1 << 20, &data, NULL, &e), 0);
                assert_true(strlen(data) > 100);
                free(data);
                assert_int_equal(
                        file_read_all("/proc/self/maps", 100, &data, NULL, &e), -ERR_LIMIT);
        }
        /* a FIFO must not block */
        assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
        assert_int_equal(file_read_all(in_folder("fifo"), 100, &data, NULL, &e), -ERR_INVALID);
}

static void test_mkdir_p(void **state) {
        struct stat st;
        struct err e;

        assert_int_equal(file_mkdir_p(in_folder("a/b//c/"), 0700, &e), 0);
        assert_int_equal(stat(in_folder("a/b/c"), &st), 0);
        assert_true(S_ISDIR(st.st_mode));
        assert_int_equal(file_mkdir_p(in_folder("a/b/c"), 0700, &e), 0);
        assert_int_equal(file_mkdir_p("/", 0700, &e), 0);
        assert_int_equal(file_mkdir_p("", 0700, &e), -ERR_INVALID);
        assert_int_equal(file_replace(in_folder("a/file"), "", 0, 0600, &e), 0);
        assert_int_equal(file_mkdir_p(in_folder("a/file"), 0700, &e), -ERR_EXISTS);
        assert_int_equal(file_mkdir_p(in_folder("a/file/x"), 0700, &e), -ERR_SYS);
        assert_int_equal(e.sys, ENOTDIR);
}

static void test_map(void **state) {
        struct file_map m = FILE_MAP_NULL;
        struct err e;

        file_map_close(&m);
        file_map_close(NULL);
        assert_int_equal(file_replace(in_folder("map"), "mapped", 6, 0600, &e), 0);
        assert_int_equal(file_map_open(&m, in_folder("map"), &e), 0);
        assert_int_equal(m.size, 6);
        assert_memory_equal(m.data, "mapped", 6);
        file_map_close(&m);
        assert_int_equal(m.fd, -1);
        file_map_forget(&m, "else", 4);
        assert_int_equal(file_replace(in_folder("map"), "", 0, 0600, &e), 0);
        assert_int_equal(file_map_open(&m, in_folder("map"), &e), 0);
        assert_null(m.data);
        assert_int_equal(m.size, 0);
        file_map_close(&m);
        assert_int_equal(file_map_open(&m, folder, &e), -ERR_INVALID);
        assert_int_equal(file_map_open(&m, in_folder("nothing"), &e), -ERR_SYS);
        assert_int_equal(m.fd, -1);
}

/* Whether the page at @p is in this process's table of pages: bit 63 of its entry. */
static bool is_resident(const void *p) {
        long page = sysconf(_SC_PAGESIZE);
        int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        uint64_t entry = 0;

        if (fd < 0) {
                print_message("SKIP: no /proc/self/pagemap here\n");
                skip();
        }
        assert_int_equal(pread(fd, &entry, sizeof(entry),
                                 (off_t)((uintptr_t)p / (size_t)page * sizeof(entry))),
                sizeof(entry));
        close(fd);
        return entry >> 63;
}

/* Whole pages leave, those at both ends stay, and all bytes are there again when they are read. */
static void test_map_forget(void **state) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 8 * page + 100;
        uint8_t *bytes = malloc(size), other[8192];
        struct file_map m;
        struct err e;

        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++)
                bytes[i] = (uint8_t)(i * 7 + i / page);
        assert_int_equal(file_replace(in_folder("pages"), bytes, size, 0600, &e), 0);
        assert_int_equal(file_map_open(&m, in_folder("pages"), &e), 0);
        assert_memory_equal(m.data, bytes, size);
        file_map_forget(&m, m.data + 1, 3 * page);
        assert_true(is_resident(m.data));
        assert_false(is_resident(m.data + page));
        assert_false(is_resident(m.data + 2 * page));
        assert_true(is_resident(m.data + 3 * page));
        file_map_forget(&m, m.data + 5 * page + 1, page); /* no whole page */
        assert_true(is_resident(m.data + 5 * page));
        file_map_forget(&m, m.data + 4 * page, size); /* beyond the end: nothing */
        assert_true(is_resident(m.data + 4 * page));
        memset(other, 1, sizeof(other));
        file_map_forget(&m, other, sizeof(other));
        assert_int_equal(other[4096], 1);
        assert_memory_equal(m.data, bytes, size);
        file_map_close(&m);
        free(bytes);
}

static void test_sync_parent(void **state) {
        struct err e;

        assert_int_equal(file_sync_parent(in_folder("x"), &e), 0);
        assert_int_equal(file_sync_parent("x", &e), 0);
        assert_int_equal(file_sync_parent("/x", &e), 0);
        assert_int_equal(file_sync_parent(in_folder("no/x"), &e), -ERR_SYS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pread_pwrite),
                cmocka_unit_test(test_replace_and_read),
                cmocka_unit_test(test_read_all_sizes),
                cmocka_unit_test(test_mkdir_p),
                cmocka_unit_test(test_map),
                cmocka_unit_test(test_map_forget),
                cmocka_unit_test(test_sync_parent),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
