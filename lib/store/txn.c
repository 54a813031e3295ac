/* SPDX-License-Identifier: MIT */
/*
 * Transactions for writing and reading, and how other writers are kept out.
 *
 * There are two connections, each with a lock of its own: one writes, the other reads
 * (store->reader). A reading transaction sees one moment of the register and delays no commit,
 * however long it takes.
 *
 * Another program could begin a write transaction and stay in it (the sqlite3 shell with BEGIN
 * IMMEDIATE), and every commit would have to wait for it. So the daemon keeps SQLite's lock for
 * writers (store_hold()): its next transaction begins as soon as the previous one has ended. Other
 * programs can read at any time; if they try to write, SQLite tells them that the register is
 * locked.
 *
 *                 txn_begin                      txn_commit, txn_endp
 *      held (begun) ────────→ in use by a call ─────────────────────→ held
 *        │  ↑                                                         │ BEGIN failed
 *        │  └─ begin_hold ─ free ←────────────────────────────────────┘
 *        └─ end_hold (a checkpoint is due, log.c) ─↑
 *
 * In the moment between a commit and the next BEGIN another writer may still get the lock. The next
 * writing call then waits for it, as it would without store_hold().
 */
#include "store/store-private.h"

struct store *store_lock(struct store *s) {
        pthread_mutex_lock(&s->mutex);
        return s;
}

static int run_plain(struct store *s, enum store_stmt which, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, which, e);

        return r < 0 ? r : query_run(&q, e);
}

/* --- writing --- */

void begin_hold(struct store *s) {
        if (!s->hold || s->held || !sqlite3_get_autocommit(s->db))
                return;
        /* A commit is not to wait for somebody else after it has succeeded. */
        (void)sqlite3_busy_timeout(s->db, 0);
        s->held = run_plain(s, STMT_BEGIN, NULL) == 0;
        (void)sqlite3_busy_timeout(s->db, STORE_BUSY_MSEC);
}

void end_hold(struct store *s) {
        s->held = false;
        /* If this fails, txn_begin() tries again. */
        if (!sqlite3_get_autocommit(s->db))
                (void)run_plain(s, STMT_ROLLBACK, NULL);
}

int txn_begin(struct store *s, struct store **ret, struct err *e) {
        bool begun = s->held && !sqlite3_get_autocommit(s->db);
        int r;

        s->held = false;
        /* Else it is open only when a rollback failed; without this no later write could begin. */
        if (!begun && !sqlite3_get_autocommit(s->db)) {
                r = run_plain(s, STMT_ROLLBACK, e);
                if (r < 0)
                        return r;
        }
        r = begun ? 0 : run_plain(s, STMT_BEGIN, e);
        if (r < 0)
                return r;
        *ret = s;
        return 0;
}

int txn_commit(struct store **txn, struct err *e) {
        struct store *s = *txn;
        int r = run_plain(s, STMT_COMMIT, e);

        /* FTS5 writes the index then. Tried again, the call leaves the index alone (words.c). */
        if (r == -ERR_CORRUPT && sqlite3_extended_errcode(s->db) == SQLITE_CORRUPT_VTAB &&
                !s->words_broken) {
                s->words_broken = true;
                return err_set(e, ERR_BUSY, "register: the search index is damaged");
        }
        if (r < 0)
                return r;
        *txn = NULL;
        r = log_check(s, e);
        begin_hold(s);
        return r;
}

void txn_endp(struct store **txn) {
        struct store *s = *txn;

        if (!s)
                return;
        /* Many failures have rolled back by themselves. If this fails, txn_begin() tries again. */
        if (!sqlite3_get_autocommit(s->db))
                (void)run_plain(s, STMT_ROLLBACK, NULL);
        begin_hold(s);
}

int store_hold(struct store *s, struct err *e) {
        STORE_LOCK(s);
        int r = run_plain(s, STMT_BEGIN, e);

        if (r == 0)
                s->hold = s->held = true;
        return r;
}

/* --- reading --- */

int read_begin(struct store **s, struct store **ret, struct err *e) {
        struct store *reader = (*s)->reader ? (*s)->reader : *s;
        int r = 0;

        store_lock(reader);
        if (reader != *s) {
                if (!sqlite3_get_autocommit(reader->db)) /* its end failed the last time */
                        r = run_plain(reader, STMT_ROLLBACK, e);
                if (r == 0)
                        r = run_plain(reader, STMT_READ_BEGIN, e);
        }
        if (r < 0) {
                pthread_mutex_unlock(&reader->mutex);
                return r;
        }
        *s = *ret = reader;
        return 0;
}

void read_endp(struct store **reading) {
        struct store *s = *reading;

        if (!s)
                return;
        if (!s->writes && !sqlite3_get_autocommit(s->db) && run_plain(s, STMT_COMMIT, NULL) < 0)
                (void)run_plain(s, STMT_ROLLBACK, NULL);
        pthread_mutex_unlock(&s->mutex);
}
