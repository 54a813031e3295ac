/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing. What the settings below promise:
 *
 * 1. WAL with synchronous=FULL: COMMIT returns after the log is fsynced, and SQLite fsyncs the
 * folder when it makes the log. A reader (sqlite3 shell) does not block the daemon.
 * 2. If COMMIT itself fails on a dying disk, the call fails and a later call writes over its place
 * in the log; only a power cut right between the two can still bring it back whole.
 * 3. The file and its companions are 0600: transcripts are private.
 * 4. secure_delete: what a user closes is overwritten in the file, not just unlinked.
 */
#include "base/err.h"
#include "base/file.h"
#include "store/store-private.h"
#include <fcntl.h>
#include <string.h>

#define BUSY_TIMEOUT_MSEC 5000

/* Make the file with its mode before SQLite does, which copies the mode for its companions. */
static int make_file(const char *path, struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd >= 0)
                return 0;
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open the register '%s'", path);
        return file_sync_parent(path, e);
}

static int use_wal(struct store *s, struct err *e) {
        sqlite3_stmt *st = NULL;
        bool ok = false;
        int rc;

        rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode = WAL", -1, &st, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(st);
        if (rc == SQLITE_ROW) {
                const char *mode = (const char *)sqlite3_column_text(st, 0);

                ok = mode && strcmp(mode, "wal") == 0;
                rc = SQLITE_OK;
        }
        sqlite3_finalize(st);
        if (rc != SQLITE_OK)
                return store_fail(s, rc, "write-ahead log", e);
        if (!ok)
                return err_set(e, ERR_UNSUPPORTED, "the register cannot have a write-ahead log");
        return 0;
}

static int configure(struct store *s, struct err *e) {
        int rc;

        rc = sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MSEC);
        if (rc == SQLITE_OK)
                rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        if (rc != SQLITE_OK)
                return store_fail(s, rc, "settings", e);
        return store_exec(s,
                "PRAGMA foreign_keys = ON;"
                "PRAGMA synchronous = FULL;"
                "PRAGMA trusted_schema = OFF;"
                "PRAGMA cell_size_check = ON;"
                "PRAGMA secure_delete = ON;",
                "settings", e);
}

int store_open(struct store **ret, const char *path, struct err *e) {
        _cleanup_(store_freep) struct store *s = NULL;
        int rc, r;

        r = make_file(path, e);
        if (r < 0)
                return r;
        s = calloc(1, sizeof(*s));
        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        pthread_mutex_init(&s->mutex, NULL);
        rc = sqlite3_open_v2(path, &s->db,
                SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
        if (rc != SQLITE_OK) {
                r = store_fail(s, rc, "opening", e);
                return err_wrap(e, r, "'%s'", path);
        }
        r = configure(s, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        r = store_migrate(s, path, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        r = use_wal(s, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        *ret = TAKE_PTR(s);
        return 0;
}

struct store *store_free(struct store *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < STMT_N; i++)
                sqlite3_finalize(s->stmts[i]);
        /* Puts the log back into the file; if it cannot, the next opening does. */
        sqlite3_close(s->db);
        pthread_mutex_destroy(&s->mutex);
        free(s);
        return NULL;
}
