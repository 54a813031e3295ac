/* SPDX-License-Identifier: MIT */
/*
 * The log (register.db-wal): it must stay in place, and must keep nothing longer than necessary.
 *
 * SQLite appends to the log and copies pages into the file only now and then. So deleted content
 * stays readable in the log, in old versions of its pages, until the log starts over.
 * store_scrub() copies the whole log into the file and truncates it. Since secure_delete overwrites
 * deleted content in the pages themselves, the content is then gone from the file as well. The
 * caller calls store_scrub() soon after something was removed. Words in the search index go first, in
 * steps (words.c); they may take several calls.
 *
 * A log that was removed lives on without a name, and everything committed to it is lost when the
 * daemon ends. So each commit is followed by a check of the names (two calls of stat()):
 *
 * - The log's name is gone or names another file: this commit and all later ones succeed only once
 *   the log has been copied into the file. Slower, but nothing is lost.
 * - The register itself was removed or replaced: all commits fail from now on.
 */
#include "base/util.h"
#include "store/words.h"
#include <errno.h>
#include <sys/stat.h>

#define SPARE_PAGES 32 /* free pages that stay in the file */

static bool is_file(const char *path, const struct file_id *id) {
        struct stat st;

        if (stat(path, &st) < 0)
                return errno != ENOENT;
        return st.st_dev == id->dev && st.st_ino == id->ino;
}

static int identify(const char *path, struct file_id *ret, struct err *e) {
        struct stat st;

        if (stat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at '%s'", path);
        *ret = (struct file_id){st.st_dev, st.st_ino};
        return 0;
}

static int read_count(struct store *s, enum store_stmt which, uint64_t *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, which, e);

        if (r == 0)
                r = query_step(&q, e);
        if (r < 0)
                return r;
        *ret = r > 0 ? query_number(&q, 0, INT64_MAX) : 0;
        return query_check(&q, e);
}

int log_watch(struct store *s, struct err *e) {
        const char *path = sqlite3_db_filename(s->db, "main");
        uint64_t n;
        int r;

        /* SQLite opens the log when something is read. */
        r = read_count(s, STMT_FREE_PAGES, &n, e);
        if (r == 0)
                r = identify(path, &s->file, e);
        if (r == 0)
                r = identify(sqlite3_filename_wal(path), &s->log, e);
        s->watches_log = r == 0;
        return r;
}

/* Copy all of the log into the file and cut it to nothing. 1: a reader is in the way. */
static int checkpoint(struct store *s, struct err *e) {
        int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

        if (rc == SQLITE_OK)
                return 0;
        if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED)
                return 1;
        return store_fail(s, rc, "checkpoint", e);
}

int log_check(struct store *s, struct err *e) {
        const char *path;
        int r;

        if (!s->watches_log)
                return 0;
        path = sqlite3_db_filename(s->db, "main");
        if (!is_file(path, &s->file))
                return err_set(e, ERR_STATE,
                        "the register '%s' was removed or replaced while it was in use: nothing "
                        "can be saved until the daemon is started again",
                        path);
        if (!atomic_load(&s->log_lost) && is_file(sqlite3_filename_wal(path), &s->log))
                return 0;
        atomic_store(&s->log_lost, true);
        r = checkpoint(s, e);
        if (r > 0)
                r = err_set(e, ERR_STATE, "locked by a reader");
        return err_wrap(e, r,
                "the log of the register '%s' was removed, and the register itself "
                "cannot be written",
                path);
}

bool store_log_lost(struct store *s) {
        return atomic_load(&s->log_lost);
}

/* 1: there is more to give back. */
static int vacuum_some(struct store *s, struct err *e) {
        uint64_t mode, n_free, left;
        _query_ q = {};
        int r = read_count(s, STMT_AUTO_VACUUM, &mode, e);

        if (r == 0)
                r = read_count(s, STMT_FREE_PAGES, &n_free, e);
        if (r < 0 || mode != 2 || n_free <= SPARE_PAGES)
                return r;
        r = query_begin(&q, s, STMT_VACUUM_SOME, e);
        if (r < 0)
                return r;
        while ((r = query_step(&q, e)) > 0)
                ;
        query_end(&q);
        if (r == 0)
                r = read_count(s, STMT_FREE_PAGES, &left, e);
        return r < 0 ? r : left > SPARE_PAGES && left < n_free;
}

static int scrub_log(struct store *s, struct err *e) {
        STORE_LOCK(s);
        int r, more;

        end_hold(s);
        /* Who is in the way now is tried again later, not waited for. */
        (void)sqlite3_busy_timeout(s->db, 0);
        more = vacuum_some(s, e);
        if (more == -ERR_BUSY)
                more = 1;
        r = more < 0 ? more : checkpoint(s, e);
        (void)sqlite3_busy_timeout(s->db, STORE_BUSY_MSEC);
        begin_hold(s);
        return r < 0 ? r : r || more;
}

int store_scrub(struct store *s, struct err *e) {
        int more, r;

        if (s->pg) /* the server's business (pg-driver.c, rule 7) */
                return 0;
        more = words_merge(s, e);
        /* What is in the log need not wait for the words. */
        r = scrub_log(s, more < 0 ? NULL : e);
        return more < 0 ? more : r < 0 ? r : r || more;
}
