/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void write_file(const char *path, const void *data, size_t n) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        assert_int_equal(fwrite(data, 1, n, f), n);
        fclose(f);
}

static void test_open_makes_private_file(void **state) {
        struct fixture *f = *state;
        struct stat st;
        mode_t old = umask(0);

        fixture_open(f);
        fixture_conv(f, 1, "a");
        umask(old);
        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        strcat(f->path, "-wal");
        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        f->path[strlen(f->path) - 4] = 0;
}

static void test_reopen_keeps(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_say(f, id, 40, "hello");
        fixture_reopen(f);
        fixture_verify(f->s, id, 1, 40);
        fixture_say(f, id, 2, "again");
        fixture_reopen(f);
        fixture_verify(f->s, id, 2, 42);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
}

static void test_wal_and_durable(void **state) {
        struct fixture *f = *state;
        char wal[128];

        snprintf(wal, sizeof(wal), "%s-wal", f->path);
        fixture_conv(f, 1, "a");
        assert_int_equal(access(wal, F_OK), 0);
}

static void test_empty_file_is_migrated(void **state) {
        struct fixture *f = *state;

        write_file(f->path, "", 0);
        fixture_open(f);
        fixture_conv(f, 1, "a");
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
}

/* A database of version 0: SQLite's header, but nothing of ours yet, as a crash before the first
 * migration's commit leaves it. */
static void test_version_zero_is_migrated(void **state) {
        struct fixture *f = *state;

        fixture_sql(f, "CREATE TABLE t (x); DROP TABLE t;");
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 0);
        fixture_open(f);
        fixture_verify(f->s, fixture_conv(f, 1, "a"), 0, 0);
}

static void expect_open(struct fixture *f, int want, const char *part) {
        struct store *s = (void *)f;

        assert_int_equal(store_open(&s, f->path, &f->e), want);
        assert_ptr_equal(s, f);
        assert_int_equal(f->e.code, -want);
        if (!strstr(f->e.msg, part))
                fail_msg("'%s' does not say '%s'", f->e.msg, part);
}

static void test_garbage_is_refused(void **state) {
        struct fixture *f = *state;
        char data[8192];

        memset(data, 'x', sizeof(data));
        write_file(f->path, data, sizeof(data));
        expect_open(f, -ERR_CORRUPT, f->path);
}

static void test_foreign_database_is_refused(void **state) {
        struct fixture *f = *state;

        fixture_sql(f, "CREATE TABLE t (x);");
        expect_open(f, -ERR_CORRUPT, "not a register");
        fixture_sql(f, "PRAGMA user_version = 1;");
        expect_open(f, -ERR_CORRUPT, "not a register");
        /* Looking at it did not change it. */
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM sqlite_schema"), 1);
}

/* Where a register is expected, what has no tables is as good as missing, and stays as it is. */
static void test_lost_register_is_refused(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;
        struct stat st;

        assert_int_equal(store_open_existing(&s, f->path, &f->e), -ERR_STATE);
        assert_non_null(strstr(f->e.msg, "is missing"));
        assert_int_not_equal(access(f->path, F_OK), 0);
        write_file(f->path, "", 0);
        assert_int_equal(store_open_existing(&s, f->path, &f->e), -ERR_STATE);
        assert_non_null(strstr(f->e.msg, "is empty"));
        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_size, 0);
        fixture_sql(f, "CREATE TABLE t (x); DROP TABLE t;");
        assert_int_equal(store_open_existing(&s, f->path, &f->e), -ERR_STATE);
        fixture_sql(f, "CREATE TABLE t (x);");
        assert_int_equal(store_open_existing(&s, f->path, &f->e), -ERR_CORRUPT);
        assert_null(s);
        assert_int_equal(unlink(f->path), 0);
        fixture_open(f);
        f->s = store_free(f->s);
        assert_int_equal(store_open_existing(&f->s, f->path, &f->e), 0);
}

/* SQLite would delete the log of a register that was emptied. */
static void test_log_of_an_empty_register_stays(void **state) {
        struct fixture *f = *state;
        struct stat before, after;
        struct store *s = NULL;
        char wal[128], aside[128], cmd[512];

        fixture_open(f);
        fixture_conv(f, 1, "a");
        snprintf(wal, sizeof(wal), "%s-wal", f->path);
        snprintf(aside, sizeof(aside), "%s/aside", f->dir);
        snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", wal, aside);
        assert_int_equal(system(cmd), 0);
        f->s = store_free(f->s);
        assert_int_equal(rename(aside, wal), 0);
        assert_int_equal(stat(wal, &before), 0);
        assert_true(before.st_size > 0);
        for (int gone = 0; gone < 2; gone++) {
                if (gone)
                        assert_int_equal(unlink(f->path), 0);
                else
                        assert_int_equal(truncate(f->path, 0), 0);
                assert_int_equal(store_open(&s, f->path, &f->e), -ERR_STATE);
                assert_null(s);
                assert_non_null(strstr(f->e.msg, "remove the log"));
                assert_int_equal(stat(wal, &after), 0);
                assert_int_equal(after.st_size, before.st_size);
        }
}

/* Opening a register leaves another connection of the process its locks. */
static void test_opening_keeps_locks(void **state) {
        struct fixture *f = *state;
        struct store *again = NULL;
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1073741824 + 2};
        int status;
        pid_t pid;

        fixture_conv(f, 1, "a");
        assert_int_equal(store_open(&again, f->path, &f->e), 0);
        again = store_free(again);
        /* The shared lock of SQLite's: another process cannot take it whole. */
        l.l_len = 510;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                int db = open(f->path, O_RDWR | O_CLOEXEC);

                _exit(db < 0 || fcntl(db, F_GETLK, &l) < 0 ? 2 : l.l_type != F_UNLCK);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
}

static void test_newer_version_is_refused(void **state) {
        struct fixture *f = *state;

        fixture_open(f);
        f->s = store_free(f->s);
        fixture_sql(f, "PRAGMA user_version = 99;");
        expect_open(f, -ERR_UNSUPPORTED, "schema version 99");
        fixture_sql(f, "PRAGMA user_version = 12;"); /* the very next one */
        expect_open(f, -ERR_UNSUPPORTED, "schema version 12");
        fixture_sql(f, "PRAGMA user_version = -3;");
        expect_open(f, -ERR_CORRUPT, "not a register");
}

static void test_missing_folder(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;

        assert_int_equal(store_open(&s, "/nonexistent/register.db", &f->e), -ERR_SYS);
        assert_null(s);
        assert_int_equal(store_open(&s, f->dir, &f->e), -ERR_SYS);
        assert_null(s);
}

/* Run @f as somebody without rights, also when the tests are root's. */
static void as_nobody(struct fixture *x, void (*f)(struct fixture *)) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
                        _exit(1);
                f(x);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The child has no test to fail: it says what is wrong and ends badly. */
static void refused(struct fixture *f) {
        struct store *s = NULL;
        struct err e = {};

        if (store_open(&s, f->path, &e) != -ERR_SYS || s || e.sys != EACCES ||
                !strstr(e.msg, f->path) || !strstr(e.msg, "Permission denied")) {
                print_error("'%s' (%d)\n", e.msg, e.sys);
                _exit(1);
        }
}

static void refused_readonly(struct fixture *f) {
        struct store *s = NULL;
        struct err e = {};

        refused(f);
        if (store_open_readonly(&s, f->path, &e) != -ERR_SYS || e.sys != EACCES)
                _exit(1);
}

static void can_look(struct fixture *f) {
        struct store *s = NULL;
        struct store_conv c = {.owner = 1, .name = "new"}, got;
        struct err e = {};

        refused(f);
        if (store_open_readonly(&s, f->path, &e) < 0 ||
                store_conv_get(s, 1, 0, "a", &got, &e) < 0 ||
                store_conv_create(s, &c, NULL, 0, NULL, 0, &e) != -ERR_SYS || e.sys != EROFS) {
                print_error("'%s' (%d)\n", e.msg, e.sys);
                _exit(1);
        }
        store_free(s);
}

static void test_without_permission(void **state) {
        struct fixture *f = *state;

        fixture_open(f);
        fixture_conv(f, 1, "a");
        f->s = store_free(f->s);
        /* A file that can be read only, in a folder that can be looked at only. */
        assert_int_equal(chmod(f->path, 0444), 0);
        assert_int_equal(chmod(f->dir, 0555), 0);
        as_nobody(f, can_look);
        /* One that can be written, but the log beside it cannot be made. */
        assert_int_equal(chmod(f->path, 0666), 0);
        as_nobody(f, refused);
        assert_int_equal(chmod(f->dir, 0), 0);
        as_nobody(f, refused_readonly);
        assert_int_equal(chmod(f->dir, 0700), 0);
        as_nobody(f, refused_readonly);
        assert_int_equal(chmod(f->path, 0), 0);
        assert_int_equal(chmod(f->dir, 0555), 0);
        as_nobody(f, refused_readonly);
        assert_int_equal(chmod(f->dir, 0700), 0);
        assert_int_equal(chmod(f->path, 0600), 0);
        fixture_open(f);
}

static void test_missing_table(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};

        fixture_open(f);
        f->s = store_free(f->s);
        fixture_sql(f, "DROP TABLE link; DROP TABLE record;");
        fixture_open(f);
        assert_int_equal(store_records(f->s, &gone, &f->e), -ERR_CORRUPT);
        assert_null(gone.records);
}

/* Calls that look at all of it. What they say does not matter here. */
static void look_everywhere(struct store *s) {
        struct fingerprint model = {11, 12};
        struct store_reclaimed got = {};
        struct store_census census;
        struct store_held *held = NULL;
        struct store_prefix p = {};
        int32_t tokens[64];
        uint64_t hashes[2] = {UINT64_MAX, UINT64_MAX - 1}; /* of fixture_link() */
        struct err e = {};
        size_t n;

        for (uint32_t i = 0; i < 64; i++)
                tokens[i] = fixture_token(i);
        (void)store_check(s, NULL, NULL, &census, &e);
        (void)store_list_held(s, &held, &n, &e);
        free(held);
        (void)store_prefix_find(s, 1, &model, 0, &fixture_shape, tokens, hashes, 2, &p, &e);
        store_prefix_deinit(&p);
        (void)store_reclaim(s, 1, 20000, 0, &got, &e);
        store_reclaimed_deinit(&got);
}

/* Flip bytes all over the file: every call either works or says that the register is damaged. */
static void test_bit_flips(void **state) {
        struct fixture *f = *state;
        uint8_t *good;
        struct stat st;
        int fd;

        fixture_open(f);
        for (int i = 0; i < 4; i++) {
                uint64_t id = fixture_conv(f, (uint32_t)i, "some name");

                fixture_say(f, id, 300, "what was said");
                fixture_link(f, id, 7, 0, 9, NULL, 0);
        }
        f->s = store_free(f->s);
        fd = open(f->path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        good = malloc((size_t)st.st_size);
        assert_non_null(good);
        assert_int_equal(read(fd, good, (size_t)st.st_size), st.st_size);
        close(fd);
        for (size_t at = 3; at < (size_t)st.st_size; at += 97) {
                uint8_t flip = (uint8_t)(1u << (at % 8));
                struct store *s = NULL;
                struct err e = {};
                int r;

                good[at] ^= flip;
                write_file(f->path, good, (size_t)st.st_size);
                good[at] ^= flip;
                r = store_open(&s, f->path, &e);
                if (r == 0) {
                        struct store_conv convs[8];
                        size_t n = 0;

                        look_everywhere(s);
                        r = fixture_list(s, OWNER_ANY, 0, convs, 8, &n, &e);
                        for (size_t i = 0; i < n; i++) {
                                struct store_gone links = {};
                                struct store_turns ts = {};
                                int32_t tokens[512];

                                if (convs[i].n_tokens <= 512)
                                        (void)store_tokens(
                                                s, convs[i].id, tokens, convs[i].n_tokens, &e);
                                (void)store_turns(s, convs[i].id, true, &ts, &e);
                                (void)store_links(s, convs[i].id, &links, &e);
                                store_turns_deinit(&ts);
                                store_gone_deinit(&links);
                                (void)store_conv_delete(s, convs[i].id, &links, &e);
                                store_gone_deinit(&links);
                        }
                }
                store_free(s);
        }
        free(good);
}

static void test_transcript_reads_in_the_shell(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_say(f, id, 3, "Hello, ünïcode");
        assert_int_equal(fixture_append(f->s, id, 2, 2, "Hi", &f->e), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM transcript WHERE "
                                          "(conversation, turn, role, text, n_tokens) IN "
                                          "(('a', 0, 'user', 'Hello, ünïcode', 3),"
                                          " ('a', 1, 'assistant', 'Hi', 2))"),
                2);
        assert_int_equal(
                fixture_count(f, "SELECT finish = 'stop' FROM transcript WHERE turn = 1"), 1);
        assert_int_equal(fixture_count(f, "SELECT at LIKE '20__-__-__ __:%' FROM transcript"), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test_closed(test_open_makes_private_file),
                store_test(test_reopen_keeps),
                store_test(test_wal_and_durable),
                store_test_closed(test_empty_file_is_migrated),
                store_test_closed(test_version_zero_is_migrated),
                store_test_closed(test_garbage_is_refused),
                store_test_closed(test_foreign_database_is_refused),
                store_test_closed(test_lost_register_is_refused),
                store_test_closed(test_log_of_an_empty_register_stays),
                store_test(test_opening_keeps_locks),
                store_test_closed(test_newer_version_is_refused),
                store_test_closed(test_missing_folder),
                store_test_closed(test_without_permission),
                store_test_closed(test_missing_table),
                store_test_closed(test_bit_flips),
                store_test(test_transcript_reads_in_the_shell),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
