/* SPDX-License-Identifier: MIT */
/* Two connections, the log between them, its way to the disk, and other programs beside them. */
#include "store-fixture.h"
#include "store/store-private.h"
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static off_t log_size(struct fixture *f) {
        struct stat st;
        char path[128];

        snprintf(path, sizeof(path), "%s-wal", f->path);
        assert_int_equal(stat(path, &st), 0);
        return st.st_size;
}

/* --- the way to the disk --- */

static unsigned n_log_syncs;

static int sync_file(long call, int fd) {
        char link[64], path[128];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path));
        n_log_syncs += n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
        return (int)syscall(call, fd);
}

/* These take the place of the C library's, for SQLite as well. */
int fsync(int fd) {
        return sync_file(SYS_fsync, fd);
}

int fdatasync(int fd) {
        return sync_file(SYS_fdatasync, fd);
}

/* The log went to the disk since the last question. */
static bool was_synced(void) {
        bool any = n_log_syncs > 0;

        n_log_syncs = 0;
        return any;
}

/* What is acknowledged survives a power loss (I4): when a call that changes something returns, the
 * log has been synced. Calls that read sync nothing. */
static void test_commits_are_synced(void **state) {
        struct fixture *f = *state;
        struct store_gone gone;
        struct store_meter meter = {"written", 9};
        struct store_conv child = {.owner = 1}, c;
        struct store *s = f->s;
        uint64_t id, revision;

        for (int held = 0; held < 2; held++) {
                if (held)
                        assert_int_equal(store_hold(s, &f->e), 0);
                (void)was_synced();
                gone = (struct store_gone){0};
                id = fixture_conv(f, 1, held ? "b" : "a");
                assert_true(was_synced());
                for (uint32_t i = 0; i < 3; i++) {
                        assert_int_equal(fixture_append(s, id, i % 2, 40, "x", &f->e), 0);
                        assert_true(was_synced());
                }
                assert_int_equal(store_conv_get(s, 1, id, NULL, &c, &f->e), 0);
                assert_false(was_synced());
                assert_int_equal(store_rewind(s, id, 2, NULL, NULL, &revision, &gone, &f->e), 0);
                assert_true(was_synced());
                store_gone_deinit(&gone);
                child = (struct store_conv){.owner = 1};
                assert_int_equal(store_conv_fork(s, id, 1, NULL, NULL, &child, &f->e), 0);
                assert_true(was_synced());
                assert_int_equal(store_meter_set(s, &meter, 1, &f->e), 0);
                assert_true(was_synced());
                assert_int_equal(store_conv_delete(s, child.id, &gone, &f->e), 0);
                assert_true(was_synced());
                store_gone_deinit(&gone);
        }
}

/* --- two connections --- */

/* A call that reads sees one moment, however long it takes, and no commit waits for it. */
static void test_reading_is_one_moment(void **state) {
        struct fixture *f = *state;
        struct store *s = f->s, *reading = NULL;
        uint64_t id = fixture_conv(f, 1, "a");
        struct store_conv c;

        assert_int_equal(read_begin(&s, &reading, &f->e), 0);
        assert_int_equal(conv_read(s, id, &c, &f->e), 0);
        assert_int_equal(c.revision, 1);
        /* It would hang here if it waited. */
        {
                struct store_turn t = {.end = 1, .text = "x", .text_size = 1};
                int32_t token = fixture_token(0);
                uint64_t revision;

                assert_int_equal(store_append(f->s, id, &t, 1, &token, 1, &revision, &f->e), 0);
                assert_int_equal(revision, 2);
        }
        assert_int_equal(conv_read(s, id, &c, &f->e), 0);
        assert_int_equal(c.revision, 1);
        /* The log cannot be cut under it; nobody waits for that either. */
        assert_int_equal(store_scrub(f->s, &f->e), 1);
        assert_true(log_size(f) > 0);
        read_endp(&reading);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, 2);
        assert_int_equal(store_scrub(f->s, &f->e), 0);
        assert_int_equal(log_size(f), 0);
        fixture_verify(f->s, id, 1, 1);
        fixture_say(f, id, 3, "y");
        fixture_verify(f->s, id, 2, 4);
}

static int try_to_write(struct fixture *f) {
        sqlite3 *db;
        int rc;

        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        rc = sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
        sqlite3_close(db);
        return rc;
}

static int note_number(void *ret, int n, char **values, char **names) {
        *(int *)ret = atoi(values[0]);
        return 0;
}

/* For how many ms our connection waits for another writer. */
static int patience(struct fixture *f) {
        int n = -1;

        assert_int_equal(
                sqlite3_exec(f->s->db, "PRAGMA busy_timeout", note_number, &n, NULL), SQLITE_OK);
        return n;
}

/* A file that may not grow is told like a disk that is full, whatever errno says: the caller makes
 * room then. */
static void test_full(void **state) {
        struct fixture *f = *state;
        static char text[1 << 20];
        uint64_t id = fixture_conv(f, 1, "a");

        assert_int_equal(sqlite3_exec(f->s->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL),
                SQLITE_OK); /* no less than there are */
        memset(text, 'x', sizeof(text) - 1);
        assert_int_equal(fixture_append(f->s, id, 1, 1, text, &f->e), -ERR_SYS);
        assert_int_equal(f->e.sys, ENOSPC);
        assert_int_equal(sqlite3_exec(f->s->db, "PRAGMA max_page_count = 100000", NULL, NULL, NULL),
                SQLITE_OK);
        fixture_say(f, id, 1, text);
}

/* Others are kept out after calls of all kinds: those that succeed, fail, and scrub. */
static void test_hold(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1, .name = "a"};
        uint64_t id = fixture_conv(f, 1, "a");

        assert_int_equal(try_to_write(f), SQLITE_OK);
        assert_int_equal(store_hold(f->s, &f->e), 0);
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
        fixture_say(f, id, 40, "x");
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
        /* Should another get the lock all the same, the next call waits for it. */
        assert_int_equal(patience(f), STORE_BUSY_MSEC);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_EXISTS);
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
        assert_int_equal(store_scrub(f->s, &f->e), 0);
        assert_int_equal(log_size(f), 0);
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
        fixture_expect_sound(f);
        fixture_verify(f->s, id, 1, 40);
        /* What others read is what was committed. */
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn"), 1);
        fixture_reopen(f);
        fixture_verify(f->s, id, 1, 40);
        assert_int_equal(try_to_write(f), SQLITE_OK);
}

/* Who has the lock when the daemon starts is told of. */
static void test_hold_refused(void **state) {
        struct fixture *f = *state;
        sqlite3 *db;

        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        (void)sqlite3_busy_timeout(f->s->db, 0);
        assert_int_equal(store_hold(f->s, &f->e), -ERR_BUSY);
        sqlite3_close(db);
        assert_int_equal(store_hold(f->s, &f->e), 0);
}

/* The log goes: what is committed afterwards is in the file when the call returns. */
static void test_removed_log(void **state) {
        for (int hold = 0; hold < 2; hold++) {
                void *made = NULL;
                struct fixture *f, copy = {};
                char path[256];
                uint64_t id;

                fixture_setup(&made);
                f = made;
                if (hold)
                        assert_int_equal(store_hold(f->s, &f->e), 0);
                id = fixture_conv(f, 1, "a");
                fixture_say(f, id, 10, "one");
                assert_false(store_log_lost(f->s));
                snprintf(path, sizeof(path), "%s-wal", f->path);
                assert_int_equal(unlink(path), 0);
                for (uint32_t i = 1; i < 4; i++) {
                        fixture_say(f, id, 10, "more");
                        assert_true(store_log_lost(f->s));
                        snprintf(copy.path, sizeof(copy.path), "%s/copy", f->dir);
                        snprintf(path, sizeof(path), "cp '%s' '%s'", f->path, copy.path);
                        assert_int_equal(system(path), 0);
                        assert_int_equal(store_open_readonly(&copy.s, copy.path, &f->e), 0);
                        fixture_verify(copy.s, id, i + 1, 10 * (i + 1));
                        copy.s = store_free(copy.s);
                        assert_int_equal(unlink(copy.path), 0);
                }
                fixture_reopen(f);
                fixture_verify(f->s, id, 4, 40);
                fixture_expect_sound(f);
                fixture_teardown(&made);
        }
}

static void test_removed_register(void **state) {
        struct fixture *f = *state;
        struct store_turn t = {.end = 1, .text = "x", .text_size = 1};
        uint64_t id = fixture_conv(f, 1, "a"), revision = 9;
        int32_t token = 1;

        assert_int_equal(unlink(f->path), 0);
        assert_int_equal(store_append(f->s, id, &t, 1, &token, 1, &revision, &f->e), -ERR_STATE);
        assert_int_equal(revision, 9);
        assert_non_null(strstr(f->e.msg, "removed or replaced"));
        assert_non_null(strstr(f->e.msg, f->path));
}

/* A new register gives free pages back; one of an older form is made to. */
static void test_gives_pages_back(void **state) {
        struct fixture *f = *state;
        char text[2000];
        struct stat st;
        off_t full;
        int r;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        fixture_open(f);
        f->s = store_free(f->s);
        fixture_sql(f, "PRAGMA auto_vacuum = NONE; VACUUM");
        assert_int_equal(fixture_count(f, "PRAGMA auto_vacuum"), 0);
        for (int round = 0; round < 2; round++) {
                struct store_gone gone = {};
                uint64_t id;

                fixture_open(f);
                assert_int_equal(fixture_count(f, "PRAGMA auto_vacuum"), 2);
                id = fixture_conv(f, 1, "a");
                for (int i = 0; i < 200; i++)
                        fixture_say(f, id, 500, text);
                assert_int_equal(store_scrub(f->s, &f->e), 0);
                assert_int_equal(stat(f->path, &st), 0);
                full = st.st_size;
                assert_true(full > 400000);
                assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
                store_gone_deinit(&gone);
                for (int i = 0; (r = store_scrub(f->s, &f->e)) > 0; i++)
                        assert_true(i < 100);
                assert_int_equal(r, 0);
                assert_int_equal(stat(f->path, &st), 0);
                assert_true(st.st_size < full / 2);
                assert_true(fixture_count(f, "PRAGMA freelist_count") <= 32);
                fixture_expect_sound(f);
                f->s = store_free(f->s);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_commits_are_synced),
                store_test(test_reading_is_one_moment),
                store_test(test_full),
                store_test(test_hold),
                store_test(test_hold_refused),
                cmocka_unit_test(test_removed_log),
                store_test(test_removed_register),
                store_test_closed(test_gives_pages_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
