/* SPDX-License-Identifier: MIT */
/* Two connections, the log between them, and other programs that use the file. */
#include "store-fixture.h"
#include "store/store-private.h"
#include <sys/stat.h>

static off_t log_size(struct fixture *f) {
        struct stat st;
        char path[128];

        snprintf(path, sizeof(path), "%s-wal", f->path);
        assert_int_equal(stat(path, &st), 0);
        return st.st_size;
}

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

/* Others are kept out after calls of all kinds: those that succeed, fail, and scrub. */
static void test_hold(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.uid = 1, .name = "a"};
        uint64_t id = fixture_conv(f, 1, "a");

        assert_int_equal(try_to_write(f), SQLITE_OK);
        assert_int_equal(store_hold(f->s, &f->e), 0);
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
        fixture_say(f, id, 40, "x");
        assert_int_equal(try_to_write(f), SQLITE_BUSY);
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
                store_test(test_reading_is_one_moment),
                store_test(test_hold),
                store_test(test_hold_refused),
                cmocka_unit_test(test_removed_log),
                store_test(test_removed_register),
                store_test_closed(test_gives_pages_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
