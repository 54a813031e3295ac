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
 *                 txn_begin                      txn_commit, txn_end
 *      held (begun) ────────→ in use by a call ─────────────────────→ held
 *        │  ↑                                                         │ BEGIN failed
 *        │  └─ begin_hold ─ free ←────────────────────────────────────┘
 *        └─ end_hold (a checkpoint is due, log.c) ─↑
 *
 * In the moment between a commit and the next BEGIN another writer may still get the lock. The next
 * writing call then waits for it, as it would without store_hold().
 */
#include "store/store-private.h"

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

int sqlite_txn_begin(struct store *s, struct err *e) {
        bool begun = s->held && !sqlite3_get_autocommit(s->db);
        int r;

        s->held = false;
        /* Else it is open only when a rollback failed; without this no later write could begin. */
        if (!begun && !sqlite3_get_autocommit(s->db)) {
                r = run_plain(s, STMT_ROLLBACK, e);
                if (r < 0)
                        return r;
        }
        return begun ? 0 : run_plain(s, STMT_BEGIN, e);
}

int sqlite_txn_commit(struct store **txn, struct err *e) {
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

void sqlite_txn_end(struct store *s) {
        /* Many failures have rolled back by themselves. If this fails, txn_begin() tries again. */
        if (!sqlite3_get_autocommit(s->db))
                (void)run_plain(s, STMT_ROLLBACK, NULL);
        begin_hold(s);
}

int sqlite_hold(struct store *s, struct err *e) {
        int r = run_plain(s, STMT_BEGIN, e);

        if (r == 0)
                s->hold = s->held = true;
        return r;
}

/* --- reading --- */

int sqlite_read_begin(struct store *s, bool in_txn, struct err *e) {
        int r = 0;

        if (!in_txn)
                return 0;
        if (!sqlite3_get_autocommit(s->db)) /* its end failed the last time */
                r = run_plain(s, STMT_ROLLBACK, e);
        return r < 0 ? r : run_plain(s, STMT_READ_BEGIN, e);
}

void sqlite_read_end(struct store *s) {
        if (!s->writes && !sqlite3_get_autocommit(s->db) && run_plain(s, STMT_COMMIT, NULL) < 0)
                (void)run_plain(s, STMT_ROLLBACK, NULL);
}
