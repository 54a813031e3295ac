/* SPDX-License-Identifier: MIT */
/*
 * Copying the register while it is used.
 *
 * 1. The copy reads through a connection of its own, in one reading transaction: so it is of one moment, whoever writes
 *    meanwhile, and delays no commit. (The log cannot be emptied behind that moment as long as it lasts: it grows by what
 *    is committed meanwhile.)
 * 2. SQLite's backup interface copies pages. Between two slices nobody is held up.
 * 3. The file is made here, for its owner alone, before SQLite opens it. It is not durable, and need not be: what is sent
 *    is read back from it, and it is removed afterwards.
 * 4. Links and records tell where memory lies in files that the copy may not have. Unless the caller copies these records as
 *    well, they are taken out, so that the copy keeps the invariants of a register (store.c): its conversations are computed
 *    when they are used.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/pg.h"

struct store_backup {
        struct pg_backup *pg; /* owned: of a register on PostgreSQL; then nothing else is set */
        char *path;           /* owned, then */
        sqlite3 *from, *to;
        sqlite3_backup *copy;
};

static int fail(sqlite3 *db, int rc, const char *what, struct err *e) {
        if (rc == SQLITE_NOMEM)
                return err_set(e, ERR_NOMEM, "backup of the register: no memory");
        errno = db ? sqlite3_system_errno(db) : 0;
        if (errno || (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_FULL)
                return err_set(e, ERR_SYS, "backup of the register: %s", what);
        return err_set(e, ERR_CORRUPT, "backup of the register: %s: %s", what, sqlite3_errstr(rc));
}

static int run(sqlite3 *db, const char *sql, const char *what, struct err *e) {
        int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

        return rc == SQLITE_OK ? 0 : fail(db, rc, what, e);
}

static int open_db(sqlite3 **ret, const char *path, int flags, struct err *e) {
        int rc = sqlite3_open_v2(
                path, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite3_busy_timeout(*ret, STORE_BUSY_MSEC);
        return rc == SQLITE_OK ? 0 : fail(*ret, rc, "opening", e);
}

static int make_file(const char *path, struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        return fd < 0 ? err_set(e, ERR_SYS, "cannot make '%s'", path) : 0;
}

static int begin(struct store_backup *b, const char *from, const char *path, struct err *e) {
        int r = open_db(&b->from, from, SQLITE_OPEN_READONLY, e);

        /* The first look is what fixes the moment. */
        if (r == 0)
                r = run(b->from, "BEGIN; SELECT count(*) FROM sqlite_schema", "reading", e);
        if (r == 0)
                r = open_db(&b->to, path, SQLITE_OPEN_READWRITE, e);
        if (r == 0)
                r = run(b->to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", "settings",
                        e);
        if (r < 0)
                return r;
        b->copy = sqlite3_backup_init(b->to, "main", b->from, "main");
        return b->copy ? 0 : fail(b->to, sqlite3_extended_errcode(b->to), "beginning", e);
}

int store_backup_new(struct store_backup **ret, struct store *s, const char *path, struct err *e) {
        _cleanup_(store_backup_freep) struct store_backup *b = NULL;
        int r = make_file(path, e);

        if (r < 0)
                return r;
        b = calloc(1, sizeof(*b));
        if (!b)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        if (s->pg) {
                b->path = strdup(path);
                r = b->path ? pg_backup_new(&b->pg, s, path, e)
                            : err_set(e, ERR_NOMEM, "no memory for a backup");
                if (r == 0)
                        *ret = TAKE_PTR(b);
                return r;
        }
        /* The name does not change, and is that of the main file. */
        r = begin(b, sqlite3_db_filename(s->db, "main"), path, e);
        if (r == 0)
                *ret = TAKE_PTR(b);
        return r;
}

int store_backup_step(struct store_backup *b, unsigned n, struct err *e) {
        int rc;

        if (b->pg)
                return pg_backup_step(b->pg, n, e);
        rc = sqlite3_backup_step(b->copy, (int)n);
        if (rc == SQLITE_DONE)
                return 0;
        return rc == SQLITE_OK ? 1 : fail(b->to, rc, "copying", e);
}

static int count(sqlite3 *db, uint64_t *ret, struct err *e) {
        sqlite3_stmt *st = NULL;
        int rc = sqlite3_prepare_v2(db, "SELECT count(*) FROM conversation", -1, &st, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
                *ret = (uint64_t)sqlite3_column_int64(st, 0);
        sqlite3_finalize(st);
        return rc == SQLITE_ROW ? 0 : fail(db, rc, "counting", e);
}

/* The copied pages say that there is a log; a file alone has none. */
#define ALONE "PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;"

int store_backup_seal(const char *path, struct err *e) {
        sqlite3 *db = NULL;
        int r = open_db(&db, path, SQLITE_OPEN_READWRITE, e);

        if (r == 0)
                r = run(db, ALONE, "leaving the log", e);
        sqlite3_close(db);
        return r;
}

int store_backup_finish(
        struct store_backup *b, bool with_records, uint64_t *ret_n_convs, struct err *e) {
        int rc, r;

        if (b->pg) {
                r = pg_backup_finish(b->pg, with_records, ret_n_convs, e);
                return r < 0 ? r : store_backup_seal(b->path, e);
        }
        rc = sqlite3_backup_finish(TAKE_PTR(b->copy));
        if (rc != SQLITE_OK)
                return fail(b->to, rc, "ending", e);
        r = run(b->to, ALONE, "leaving the log", e);
        if (r == 0 && !with_records)
                r = run(b->to,
                        "BEGIN; DELETE FROM link; DELETE FROM record;"
                        "UPDATE conversation SET on_disk = 0 WHERE on_disk = 1; COMMIT",
                        "leaving out memory", e);
        if (r == 0)
                r = count(b->to, ret_n_convs, e);
        if (r < 0)
                return r;
        rc = sqlite3_close(b->to);
        if (rc != SQLITE_OK)
                return fail(b->to, rc, "closing", e);
        b->to = NULL;
        return 0;
}

struct store_backup *store_backup_free(struct store_backup *b) {
        if (!b)
                return NULL;
        pg_backup_free(b->pg);
        free(b->path);
        if (b->copy)
                (void)sqlite3_backup_finish(b->copy);
        sqlite3_close(b->to);
        sqlite3_close(b->from);
        free(b);
        return NULL;
}
