/* SPDX-License-Identifier: MIT */
/*
 * Transactions on PostgreSQL, and what becomes of one whose connection is lost.
 *
 * A daemon's writing transactions come one after the other, on one connection, and have numbers. Each begins by writing its
 * number into the daemon's row of table machine_txn:
 *
 *      BEGIN; machine_txn: my number ─→ statements ─→ COMMIT ─→ answered: committed
 *         │ the row has another              │                 └→ no answer: connect, lock the row, read the number
 *         │ incarnation: another daemon      │ lost, deadlock, ...        │ mine: committed
 *         │ has this identity now            v                            │ another: it was rolled back ─┐
 *         v                             rolled back                       v no connection in time        │
 *      -ERR_STATE                            └──→ pg_again(): the call is made once more ←───────────────┘
 *                                                                   nobody knows: -ERR_UNAVAILABLE
 *
 * 1. The lock on the row lasts until the server has ended the transaction. So the number is not read before that, however
 *    slow a COMMIT is that the server still works on (it may wait for a standby).
 * 2. After a failover the number is what the new server has: a transaction that it does not have was not acknowledged.
 * 3. A daemon whose folder was copied has the same identity. The later one counts the incarnation up, and the earlier
 *    one can write nothing any more.
 * 4. What nobody knows is not told as done or undone. The conversation that it was about counts as not held
 *    (pg_leases_dropped()): it is taken and read anew before it is used.
 */
#include "base/clock.h"
#include "base/util.h"
#include "store/pg.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- writing --- */

static int roll_back(struct pg *pg, struct err *e) {
        int r = pg->conn ? pg_exec(pg, "ROLLBACK", NULL, e) : 0;

        pg->in_txn = false;
        return r;
}

static int begin(struct pg *pg, struct err *e) {
        PGresult *result = NULL;
        char sql[192];
        bool is_mine;
        int r = pg_ready(pg, e);

        if (r < 0)
                return r;
        snprintf(sql, sizeof(sql),
                "BEGIN; UPDATE machine_txn SET txn = %llu WHERE machine = %llu AND "
                "incarnation = %llu",
                (unsigned long long)pg->txn, (unsigned long long)pg->shared->machine,
                (unsigned long long)pg->shared->incarnation);
        r = pg_exec(pg, sql, &result, e);
        if (r < 0)
                return r;
        pg->in_txn = true;
        is_mine = strcmp(PQcmdTuples(result), "1") == 0;
        PQclear(result);
        if (is_mine)
                return 0;
        (void)roll_back(pg, NULL);
        return err_set(e, ERR_STATE,
                "another daemon has taken the identity '%s' of this machine: was the state folder "
                "copied?",
                pg->shared->machine_id);
}

int pg_txn_begin(struct store *s, struct err *e) {
        struct pg *pg = s->pg;
        int r;

        if (pg->in_txn)
                (void)roll_back(pg, NULL);
        pg->txn = ++pg->shared->txn;
        pg->touched = pg->fence = 0;
        pg->removed = pg->given = false;
        r = begin(pg, e);
        /* A connection that was idle may have been lost long ago: that costs no try. */
        if (r == -ERR_UNAVAILABLE && !pg->conn && pg->t_down == 0)
                r = begin(pg, e);
        return r;
}

/* After a COMMIT without an answer: is it done? 1; 0: it was rolled back; -ERR_UNAVAILABLE: nobody knows. */
static int look_for(struct pg *pg, struct err *e) {
        PGresult *result = NULL;
        char sql[192];
        int64_t txn;
        int r = pg_ready(pg, e);

        if (r < 0)
                return r;
        /* Another daemon with this identity (rule 3) goes on with the numbers: then this one's was rolled back. */
        snprintf(sql, sizeof(sql),
                "SELECT CASE WHEN incarnation = %llu THEN txn ELSE -1 END FROM machine_txn WHERE "
                "machine = %llu FOR UPDATE",
                (unsigned long long)pg->shared->incarnation,
                (unsigned long long)pg->shared->machine);
        r = pg_exec(pg, sql, &result, e);
        if (r < 0)
                return r == -ERR_BUSY ? -ERR_UNAVAILABLE
                                      : r; /* lock_timeout: it is still going on */
        txn = pg_number(result, 0);
        PQclear(result);
        return txn == (int64_t)pg->txn;
}

static int find_out(struct pg *pg, struct err *e) {
        uint64_t until = clock_monotonic_usec() + pg->shared->wait_usec;
        int r;

        do
                r = look_for(pg, e);
        while (r == -ERR_UNAVAILABLE && clock_monotonic_usec() < until);
        return r;
}

int pg_txn_commit(struct store **txn, struct err *e) {
        struct store *s = *txn;
        struct pg *pg = s->pg;
        PGresult *result = NULL;
        bool done;
        int r;

        if (!pg->conn) {
                pg->again = true;
                return err_set(e, ERR_UNAVAILABLE, "the register's connection was lost");
        }
        r = pg_exec(pg, "COMMIT", &result, e);
        done = r == 0 && strcmp(PQcmdStatus(result), "COMMIT") == 0;
        PQclear(result);
        if (r == 0 && !done)
                return err_set(e, ERR_STATE, "register: a failed transaction was committed");
        if (r == -ERR_UNAVAILABLE) {
                struct err why;

                done = (r = find_out(pg, &why)) > 0;
                if (r == 0)
                        pg->again = true;
                if (r < 0) {
                        pg->again = false;
                        pg_leases_dropped(pg, false);
                        return err_set(e, ERR_UNAVAILABLE,
                                "the register's server went away during a commit: whether it is "
                                "stored is not known");
                }
        }
        if (!done)
                return r < 0 ? r : -ERR_UNAVAILABLE;
        pg->in_txn = false;
        pg->again = false;
        pg_leases_committed(pg);
        *txn = NULL;
        return 0;
}

void pg_txn_end(struct store *s) {
        struct pg *pg = s->pg;

        if (!pg->in_txn)
                return;
        (void)roll_back(pg, NULL);
        pg_leases_dropped(pg, true);
}

/* Between two tries: a few milliseconds, more each time, not in step with others. */
static void nap(unsigned n_tries, uint64_t now) {
        uint64_t usec = 2000ull << MIN(n_tries, 6u);
        struct timespec t = {.tv_nsec = (long)(usec / 2 + now % (usec / 2)) * 1000};

        (void)nanosleep(&t, NULL);
}

bool pg_again(struct store *s, int *r, struct err *e) {
        struct pg *pg = s->pg;
        bool again = pg->again && (*r == -ERR_BUSY || *r == -ERR_UNAVAILABLE);
        uint64_t now = clock_monotonic_usec();

        pg->again = false;
        if (pg->t_first == 0)
                pg->t_first = now;
        if (again && now - pg->t_first < pg->shared->wait_usec) {
                nap(pg->n_tries++, now);
                return true;
        }
        pg->t_first = 0;
        pg->n_tries = 0;
        if (again && *r == -ERR_BUSY) {
                if (e)
                        e->code = ERR_UNAVAILABLE;
                *r = -ERR_UNAVAILABLE;
        }
        return false;
}

/* --- reading --- */

int pg_read_begin(struct store *s, bool in_txn, struct err *e) {
        static const char sql[] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        struct pg *pg = s->pg;
        int r;

        if (!in_txn)
                return 0;
        if (pg->in_txn)
                (void)roll_back(pg, NULL);
        r = pg_ready(pg, e);
        if (r == 0)
                r = pg_exec(pg, sql, NULL, e);
        if (r == -ERR_UNAVAILABLE && !pg->conn && pg->t_down == 0) {
                r = pg_ready(pg, e);
                if (r == 0)
                        r = pg_exec(pg, sql, NULL, e);
        }
        pg->in_txn = r == 0;
        return r;
}

void pg_read_end(struct store *s) {
        if (!s->writes && s->pg->in_txn)
                (void)roll_back(s->pg, NULL);
}
