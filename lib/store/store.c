/* SPDX-License-Identifier: MIT */
/*
 * The register as a whole, and opening and closing its file. (pg-driver.c has what is different on a server.)
 *
 * Every call that changes something is one transaction, from BEGIN IMMEDIATE to COMMIT:
 *
 *      store_open              one per missing schema version
 *      store_conv_create       row, turns, tokens (also a whole import)
 *      store_append            turns and tokens, sums, revision
 *      store_rewind            cut and shortened turns, sums, links, records, n_published, gap
 *      store_conv_fork         row, copies of turns, links
 *      store_conv_update, store_conv_publish, store_conv_set_private, store_meter_set
 *      store_link              new records, links, records replaced, fingerprint, meters
 *      store_unlink_from       links, records
 *      store_conv_delete       row, turns, links, records
 *      store_reclaim, store_forget_record  links of many conversations, records
 *
 * A stop before COMMIT has written the log (kill -9, power, a failure that is returned) leaves the
 * register as it was: SQLite ignores a log without the commit mark. A stop after that leaves the
 * new state, which the caller has not been told of but sees when it asks again. There is nothing in
 * between. The caller (lib/engine) orders its steps outside the register around these transactions:
 *
 *      the life of a block on disk                     a stop here leaves
 *
 *      not on disk
 *          | spill_write()                             bytes that nobody refers to: swept at start
 *          v
 *      written, unknown
 *          | store_link() commits                      a record with a link: used after the start
 *          v                                           (its checksum tells if the bytes were lost)
 *      recorded: 1 row in record, n >= 1 in link
 *          |  ^ store_conv_fork(), store_link() with
 *          |  | its id: n + 1; and n - 1 by the calls below, while n > 1
 *          |--+
 *          | n = 0: store_rewind(), _unlink_from(), _conv_delete(), _reclaim(), store_link() of
 *          | another record for the block, each commits
 *          v
 *      gone from the register, in the caller's hands   bytes that nobody refers to: swept at start
 *          | spill_release()
 *          v
 *      not on disk
 *
 * So a row never refers to freed bytes, and bytes without a row cost space until the next start, no
 * longer. Ids are never used again: a ref that outlives its row, in RAM or in a crashed daemon,
 * cannot come to mean another record.
 *
 * Invariants that every transaction keeps, and store_check() verifies:
 *
 * 1. Turn n of a conversation begins where turn n - 1 ends; the first at 0; each stores 4 bytes for
 *    each of its tokens; n_turns and n_tokens are their sums.
 * 2. Every link has its conversation and its record; every record has a link.
 * 3. A link and its record have the same block and class. The record's first n_valid tokens are the
 *    conversation's memory tokens there; n_valid exceeds neither the record's tokens nor the
 *    conversation's. If n_valid is all the record's tokens, its token_hash is the chained hash of
 *    the conversation's tokens up to there. (It is less if a Rewind cut the block, or if the rest
 *    was of a request under way: store_record.n_ahead.)
 * 4. Two records do not overlap in a file.
 * 5. Private records are linked by conversations of private memory only.
 * 6. n_published <= n_tokens, and 0 with private memory. The gap lies within the tokens, behind the
 *    published ones.
 * 7. No id is above its counter in sqlite_sequence; a parent's id is below its child's.
 *
 * Beside these, the search index has a row for each turn and for what each conversation is called, and no
 * others, unless it is going to be made again (words.c).
 *
 * The settings below guarantee:
 *
 * 8. WAL with synchronous=FULL: COMMIT returns after the log is fsynced, and SQLite fsyncs the
 *    folder when it makes the log. Neither a reader (sqlite3 shell) nor a program that wants to
 *    write (txn.c) blocks the daemon. A removed log is noticed (log.c).
 * 9. If COMMIT itself fails on a dying disk, the call fails and a later call overwrites its place
 *    in the log; only a power cut between the two calls can make the failed transaction reappear.
 * 10. While the disk accepts no writes (full, read-only, gone), calls that change something fail
 *    with ERR_SYS and the errno, and calls that read work. Once the disk accepts writes again, all
 *    calls work.
 * 11. The file and its companions are 0600: transcripts are private.
 * 12. secure_delete: a closed conversation is overwritten in the file, not just unlinked. It stays
 *    in the log until store_scrub(), which the caller calls soon after.
 * 13. auto_vacuum: each store_scrub() returns some free pages to the file system.
 */
#include "base/err.h"
#include "base/file.h"
#include "store/pg.h"
#include "store/words.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Size of @path with @suffix, 0 if there is no such file. */
static int size_beside(const char *path, const char *suffix, uint64_t *ret, struct err *e) {
        _cleanup_(freep) char *name = NULL;
        struct stat st = {};

        if (asprintf(&name, "%s%s", path, suffix) < 0) {
                name = NULL;
                return err_set(e, ERR_NOMEM, "no memory for a path");
        }
        if (stat(name, &st) < 0 && errno != ENOENT)
                return err_set(e, ERR_SYS, "cannot look at '%s'", name);
        *ret = (uint64_t)st.st_size;
        return 0;
}

/* SQLite would take the log of an empty file for a leftover and delete it with all its content. A
 * new register gets a log only once its tables are in the file. */
static int check_log(const char *path, struct err *e) {
        uint64_t size, log_size;
        int r = size_beside(path, "", &size, e);

        if (r == 0)
                r = size_beside(path, "-wal", &log_size, e);
        if (r < 0)
                return r;
        if (size == 0 && log_size > 0)
                return err_set(e, ERR_STATE,
                        "the register '%s' is missing or empty, but its log '%s-wal' is not: put a "
                        "copy of the register back, or remove the log to begin anew",
                        path, path);
        return 0;
}

/* Create the file with the right mode before SQLite does; SQLite copies the mode to the companion
 * files. An existing file is not opened here: closing it would drop the locks that another
 * connection of this process has on it. */
static int make_file(const char *path, struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd < 0 && errno == EEXIST)
                return 0;
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot make the register '%s'", path);
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

        rc = sqlite3_busy_timeout(s->db, STORE_BUSY_MSEC);
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

/* SQLite counts its memory under a lock that all threads share, for figures that nobody here asks for. */
static void count_no_memory(void) {
        (void)sqlite3_config(
                SQLITE_CONFIG_MEMSTATUS, 0); /* too late if it is in use: then it counts */
}

/* A connection with our settings. @alone: without locks, and with the index of the log in memory
 * instead of a file beside it. */
static int connect_to(struct store **ret, const char *path, int flags, bool alone, struct err *e) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        _cleanup_(store_freep) struct store *s = calloc(1, sizeof(*s));
        int rc, r;

        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        pthread_once(&once, count_no_memory);
        pthread_mutex_init(&s->mutex, NULL);
        s->driver = &sqlite_driver;
        s->writes = flags & SQLITE_OPEN_READWRITE;
        rc = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                alone ? "unix-none" : NULL);
        r = rc == SQLITE_OK ? 0 : store_fail(s, rc, "opening", e);
        /* Before anything is read. SQLite makes no file for the index of a log that it has locked
         * for itself, which without locks costs nothing. */
        if (r == 0 && alone)
                r = store_exec(s, "PRAGMA locking_mode = EXCLUSIVE", "settings", e);
        if (r == 0)
                r = configure(s, e);
        if (r == 0)
                r = words_connect(s, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

int store_connect_reader(struct store **ret, struct store *s, struct err *e) {
        if (s->pg)
                return pg_connect_reader(ret, s, e);
        /* The name does not change, and is that of the main file. */
        return connect_to(ret, sqlite3_db_filename(s->db, "main"), SQLITE_OPEN_READONLY, false, e);
}

/* @fresh: a file that is missing or has no tables becomes a new register. */
static int open_for_writing(struct store **ret, const char *path, bool fresh, struct err *e) {
        _cleanup_(store_freep) struct store *s = NULL;
        int r;

        r = check_log(path, e);
        if (r == 0 && fresh)
                r = make_file(path, e);
        if (r < 0)
                return r;
        r = connect_to(&s, path, SQLITE_OPEN_READWRITE, false, e);
        if (r == 0)
                r = store_migrate(s, path, fresh, e);
        if (r == 0)
                r = use_wal(s, e);
        if (r == 0)
                r = log_watch(s, e);
        if (r == 0)
                r = store_connect_reader(&s->reader, s, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        *ret = TAKE_PTR(s);
        return 0;
}

int store_open(struct store **ret, const char *path, struct err *e) {
        return open_for_writing(ret, path, true, e);
}

int store_open_existing(struct store **ret, const char *path, struct err *e) {
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return err_set(e, ERR_STATE, "the register '%s' is missing", path);
        return open_for_writing(ret, path, false, e);
}

/* The URI of @path: characters that are special in URIs are escaped. */
static char *file_uri(const char *path, const char *query) {
        static const char hex[] = "0123456789abcdef";
        size_t n = strlen(path);
        char *uri, *p;

        if (n > SIZE_MAX / 8)
                return NULL;
        uri = malloc(3 * n + strlen(query) + sizeof("file:"));
        if (!uri)
                return NULL;
        p = stpcpy(uri, "file:");
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)path[i];

                if (strchr("/-_.", c) || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z')) {
                        *p++ = (char)c;
                } else {
                        *p++ = '%';
                        *p++ = hex[c >> 4];
                        *p++ = hex[c & 15];
                }
        }
        stpcpy(p, query);
        return uri;
}

int store_open_readonly(struct store **ret, const char *path, struct err *e) {
        _cleanup_(store_freep) struct store *s = NULL;
        _cleanup_(freep) char *uri = NULL;
        uint64_t log_size;
        int rc, r;

        /* Not opened to see: see make_file(). */
        if (access(path, R_OK) < 0)
                return err_set(e, ERR_SYS, "cannot open the register '%s'", path);
        r = size_beside(path, "-wal", &log_size, e);
        if (r < 0)
                return r;
        /* Without a log the file alone is the register. */
        uri = file_uri(path, log_size > 0 ? "" : "?immutable=1");
        if (!uri)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        /* No daemon runs, so there is nobody to share the index of the log with. */
        r = connect_to(&s, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, log_size > 0, e);
        /* The log stays what it is: the next daemon puts it back. */
        if (r == 0) {
                rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
                r = rc == SQLITE_OK ? 0 : store_fail(s, rc, "settings", e);
        }
        if (r == 0)
                r = store_expect_version(s, path, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        *ret = TAKE_PTR(s);
        return 0;
}

int store_size(struct store *s, uint64_t *ret, struct err *e) {
        struct stat st;
        const char *path;

        if (s->pg)
                return pg_size(s, ret, e);
        /* Not opened to see: see make_file(). */
        path = sqlite3_db_filename(s->db, "main");
        if (stat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at '%s'", path);
        *ret = (uint64_t)st.st_size;
        return 0;
}

struct store *store_free(struct store *s) {
        if (!s)
                return NULL;
        store_free(s->reader);
        if (s->pg)
                pg_close(s);
        for (size_t i = 0; i < STMT_N; i++)
                sqlite3_finalize(s->stmts[i]);
        words_free(s->words);
        /* Puts the log back into the file; if it cannot, the next opening does. */
        sqlite3_close(s->db);
        pthread_mutex_destroy(&s->mutex);
        free(s);
        return NULL;
}
