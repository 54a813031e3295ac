/* SPDX-License-Identifier: MIT */
/*
 * Connections to PostgreSQL: making them, waiting for answers, and what a failure means.
 *
 * 1. Nothing waits for ever. An answer that does not come within wait_usec, for whatever reason (the server is stopped, the
 *    network drops packets), is a lost connection: it is closed, and the server rolls back what was begun on it.
 * 2. While the server can't be reached, a call waits until wait_usec have passed since its connection found out (and an attempt
 *    to connect more, at most). From then on calls fail at once with -ERR_UNAVAILABLE, but for one attempt a second. So calls that queue
 *    for the connection do not wait one after the other.
 * 3. The server that is wanted takes writes: with several hosts in the connection string, libpq looks for it
 *    (target_session_attrs), and one that became a standby is left (SQLSTATE 25006).
 * 4. What is committed is on the server's disk: a default of synchronous_commit = off is not taken. All other values are
 *    the administrator's choice of which standbys must have it, too.
 * 5. The server ends a transaction whose daemon is silent (stopped, cut off) after idle_in_transaction_session_timeout, so
 *    what it has locked does not stop the others.
 * 6. What is read was acknowledged, or will be, unless an administrator ends a session that waits for a standby. A server that
 *    crashed while commits waited shows them after its restart, and a standby that takes over need not have them. So a new
 *    connection begins with a commit of its own: once a standby has that, it has all before.
 */
#include "base/clock.h"
#include "base/util.h"
#include "store/pg.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_USEC 200000  /* between attempts while a call waits for the server */
#define PROBE_USEC 1000000 /* between attempts once it has been away for too long */
#define SETTINGS                                                                                   \
        "SET client_min_messages = error; SET lock_timeout = '2s';"                                \
        "SET idle_in_transaction_session_timeout = '5s';"                                          \
        "SELECT set_config('synchronous_commit', 'on', false)"                                     \
        " WHERE current_setting('synchronous_commit') = 'off'"
/* Rule 6. It writes into the log, and to no table. */
#define BARRIER "SELECT pg_logical_emit_message(true, 'confabd', '')"

/* --- what failed --- */

static bool is_class(const char *state, const char *class) {
        return strncmp(state, class, strlen(class)) == 0;
}

/* The code for a SQLSTATE; *ret_again: the same may work if the whole transaction is made once more;
 * *ret_gone: not on this connection. */
static enum err_code code_of(const char *state, bool *ret_again, bool *ret_gone) {
        static const char *const again[] = {
                "40001", /* serialization failure */
                "40P01", /* deadlock */
                "55P03", /* lock_timeout */
                "23505", /* another machine took the same name: the check before will see it */
        };
        static const char *const away[] = {
                "08", "57P", "25006", "25P03", "53", "57014", "58", "XX000", "55000"};

        for (size_t i = 0; i < ARRAY_SIZE(again); i++)
                if (strcmp(state, again[i]) == 0) {
                        *ret_again = true;
                        return ERR_BUSY;
                }
        for (size_t i = 0; i < ARRAY_SIZE(away); i++)
                if (is_class(state, away[i])) {
                        *ret_again = *ret_gone = true;
                        return ERR_UNAVAILABLE;
                }
        if (is_class(state, "28") || is_class(state, "3D") || is_class(state, "42501"))
                return ERR_UNAVAILABLE;
        if (is_class(state, "54"))
                return ERR_TOO_LARGE;
        return ERR_CORRUPT; /* our SQL is fixed: a table is missing, or contradicts itself */
}

/* The server's message, or libpq's: one line of it. */
static int tell(struct err *e, enum err_code code, const char *what, const char *message) {
        size_t n = strcspn(message, "\n");

        return err_set(e, code, "PostgreSQL: %s: %.*s", what, (int)MIN(n, (size_t)200),
                n > 0 ? message : "the connection was lost");
}

/* The connection is of no use any more. */
static int lost(struct pg *pg, const char *what, const char *why, struct err *e) {
        int r = tell(e, ERR_UNAVAILABLE, what, why);

        pg_disconnect(pg);
        pg->again = true;
        return r;
}

static int fail(struct pg *pg, const PGresult *result, const char *what, struct err *e) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        bool gone = false;
        int r;

        if (!state || PQstatus(pg->conn) != CONNECTION_OK)
                return lost(pg, what, message ? message : PQerrorMessage(pg->conn), e);
        r = tell(e, code_of(state, &pg->again, &gone), what, message ? message : state);
        if (gone)
                pg_disconnect(pg);
        return r;
}

/* --- sending and receiving --- */

/* 0; -ERR_UNAVAILABLE when it is late. */
static int wait_for(struct pg *pg, bool to_send, uint64_t until) {
        struct pollfd fd = {.fd = PQsocket(pg->conn), .events = POLLIN | (to_send ? POLLOUT : 0)};

        for (;;) {
                uint64_t now = clock_monotonic_usec();
                int n;

                if (now >= until)
                        return -ERR_UNAVAILABLE;
                n = poll(&fd, 1, (int)((until - now) / 1000 + 1));
                if (n > 0 || (n < 0 && errno != EINTR))
                        return 0;
        }
}

static bool flush(struct pg *pg, uint64_t until) {
        int r;

        while ((r = PQflush(pg->conn)) > 0)
                if (wait_for(pg, true, until) < 0 || !PQconsumeInput(pg->conn))
                        return false;
        return r == 0;
}

/* The next result; NULL: there are no more, or (*ret_late) it does not come. */
static PGresult *next_result(struct pg *pg, uint64_t until, bool *ret_late) {
        while (PQisBusy(pg->conn)) {
                if (wait_for(pg, false, until) < 0) {
                        *ret_late = true;
                        return NULL;
                }
                if (!PQconsumeInput(pg->conn))
                        break;
        }
        return PQgetResult(pg->conn);
}

static bool is_failure(const PGresult *result) {
        ExecStatusType status = PQresultStatus(result);

        return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK &&
               status != PGRES_EMPTY_QUERY;
}

int pg_receive(struct pg *pg, int sent, const char *what, PGresult **ret, struct err *e) {
        uint64_t until = clock_monotonic_usec() + pg->shared->wait_usec;
        PGresult *last = NULL, *result;
        bool late = false;
        int r;

        if (!sent || !flush(pg, until))
                return lost(pg, what, PQerrorMessage(pg->conn), e);
        while ((result = next_result(pg, until, &late))) {
                /* The first failure tells the most. */
                if (last && is_failure(last)) {
                        PQclear(result);
                        continue;
                }
                PQclear(last);
                last = result;
        }
        if (late || !last || (PQstatus(pg->conn) != CONNECTION_OK && !is_failure(last))) {
                PQclear(last);
                return lost(
                        pg, what, late ? "no answer within the time" : PQerrorMessage(pg->conn), e);
        }
        r = is_failure(last) ? fail(pg, last, what, e) : 0;
        if (r < 0 || !ret)
                PQclear(last);
        else
                *ret = last;
        return r;
}

int pg_exec(struct pg *pg, const char *sql, PGresult **ret, struct err *e) {
        if (!pg->conn)
                return lost(pg, "asking", "", e);
        return pg_receive(pg, PQsendQuery(pg->conn, sql), "asking", ret, e);
}

int64_t pg_number(const PGresult *result, int col) {
        if (PQntuples(result) < 1 || PQgetisnull(result, 0, col))
                return -1;
        return strtoll(PQgetvalue(result, 0, col), NULL, 10);
}

/* --- connecting --- */

static void say_nothing(void *arg, const PGresult *result) {
        (void)arg;
        (void)result;
}

void pg_disconnect(struct pg *pg) {
        PQfinish(pg->conn);
        pg->conn = NULL;
        for (size_t i = 0; i < STMT_N; i++)
                pg->statements[i].prepared = false;
}

static int check_server(struct pg *pg, struct err *e) {
        const char *encoding = PQparameterStatus(pg->conn, "server_encoding");

        if (PQserverVersion(pg->conn) < 150000)
                return err_set(e, ERR_UNSUPPORTED,
                        "PostgreSQL %d is too old for the register: 15 is needed",
                        PQserverVersion(pg->conn) / 10000);
        if (!encoding || strcmp(encoding, "UTF8") != 0)
                return err_set(e, ERR_UNSUPPORTED,
                        "the register needs a database with encoding UTF8, not %s",
                        encoding ? encoding : "an unknown one");
        return 0;
}

int pg_connect(struct pg *pg, struct err *e) {
        /* What stands before dbname are defaults, which the string there may change. */
        const char *const keys[] = {"connect_timeout", "target_session_attrs",
                "fallback_application_name", "tcp_user_timeout", "dbname", "client_encoding", NULL};
        const char *const values[] = {
                "3", "read-write", "confabd", "10000", pg->shared->uri, "UTF8", NULL};
        int r;

        pg_disconnect(pg);
        pg->conn = PQconnectdbParams(keys, values, 1);
        if (!pg->conn)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        if (PQstatus(pg->conn) != CONNECTION_OK)
                return lost(pg, "connecting", PQerrorMessage(pg->conn), e);
        PQsetNoticeReceiver(pg->conn, say_nothing, NULL);
        r = check_server(pg, e);
        if (r == 0 && PQsetnonblocking(pg->conn, 1) < 0)
                return lost(pg, "connecting", PQerrorMessage(pg->conn), e);
        if (r == 0)
                r = pg_exec(pg, SETTINGS, NULL, e);
        if (r == 0)
                r = pg_exec(pg, BARRIER, NULL, e);
        if (r < 0)
                pg_disconnect(pg);
        return r;
}

static void nap(uint64_t usec) {
        struct timespec t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_nsec = (long)(usec % 1000000) * 1000};

        (void)nanosleep(&t, NULL);
}

int pg_ready(struct pg *pg, struct err *e) {
        uint64_t now = clock_monotonic_usec();

        if (pg->conn && PQstatus(pg->conn) == CONNECTION_OK)
                return 0;
        if (pg->t_down == 0)
                pg->t_down = now;
        /* Rule 2. */
        if (now - pg->t_down >= pg->shared->wait_usec && now - pg->t_tried < PROBE_USEC)
                return err_set(e, ERR_UNAVAILABLE,
                        "the register's server has not answered for %llu seconds",
                        (unsigned long long)((now - pg->t_down) / 1000000));
        for (;;) {
                int r = pg_connect(pg, e);

                now = pg->t_tried = clock_monotonic_usec();
                if (r == 0) {
                        pg->t_down = 0;
                        return 0;
                }
                if (r != -ERR_UNAVAILABLE || now - pg->t_down >= pg->shared->wait_usec)
                        return r;
                nap(RETRY_USEC);
        }
}

struct pg *pg_new(struct pg_shared *shared) {
        struct pg *pg = calloc(1, sizeof(*pg));

        if (!pg)
                return NULL;
        pg->shared = shared;
        pg->statements = calloc(STMT_N, sizeof(*pg->statements));
        return pg->statements ? pg : pg_free(pg);
}

struct pg *pg_free(struct pg *pg) {
        if (!pg)
                return NULL;
        PQfinish(pg->conn);
        free(pg->statements);
        if (pg->owns_shared)
                pg_shared_free(pg->shared);
        free(pg);
        return NULL;
}

struct pg_shared *pg_shared_free(struct pg_shared *shared) {
        if (!shared)
                return NULL;
        map_free(shared->leases);
        pthread_mutex_destroy(&shared->lock);
        free(shared->uri);
        free(shared->machine_id);
        free(shared->name);
        free(shared->address);
        free(shared->socket);
        free(shared->host);
        free(shared);
        return NULL;
}
