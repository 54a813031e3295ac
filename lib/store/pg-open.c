/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a register on PostgreSQL.
 *
 * Whoever comes first makes the tables, in the current schema of the connection, and others wait for that (an advisory lock). A
 * daemon enters itself under its identity, or finds the row that it had before: then what it has on disk is still its own, and
 * the incarnation counts up (pg-txn.c, rule 3). An older register is brought up to date by whoever comes first; one that is newer than
 * this program is not touched.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/util.h"
#include "store/pg.h"
#include "store/words.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the advisory lock that openings take. */
#define OPENING_LOCK "7024107"

/* --- connections --- */

/* The empty SQLite database whose tokenizer splits texts into words (words.c). */
static int open_words(struct store *s, struct err *e) {
        int rc = sqlite3_open_v2(":memory:", &s->db,
                SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

        return rc == SQLITE_OK ? words_connect(s, e) : store_fail(s, rc, "opening", e);
}

/* A store without a connection yet. Takes over nothing. */
static int new_store(struct store **ret, struct pg_shared *shared, bool writes, struct err *e) {
        _cleanup_(store_freep) struct store *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        pthread_mutex_init(&s->mutex, NULL);
        s->driver = &pg_driver;
        s->writes = writes;
        s->pg = pg_new(shared);
        if (!s->pg)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        r = open_words(s, e);
        if (r == 0)
                *ret = TAKE_PTR(s);
        return r;
}

int pg_connect_reader(struct store **ret, struct store *s, struct err *e) {
        return new_store(ret, s->pg->shared, false, e);
}

static bool is_identity(const char *id) {
        size_t n = strnlen(id, PG_MACHINE_MAX + 1);

        for (size_t i = 0; i < n; i++)
                if (id[i] <= ' ' || id[i] > '~')
                        return false;
        return n >= 1 && n <= PG_MACHINE_MAX;
}

/* Where the machine is reached. */
static int copy_places(struct pg_shared *shared, const struct store_server *o, struct err *e) {
        const struct {
                const char *from;
                char **to;
        } places[] = {{o->address, &shared->address}, {o->socket, &shared->socket},
                {o->host, &shared->host}};

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (!places[i].from || strlen(places[i].from) > STORE_ADDRESS_MAX)
                        continue;
                *places[i].to = strdup(places[i].from);
                if (!*places[i].to)
                        return err_set(e, ERR_NOMEM, "no memory for the register");
        }
        return 0;
}

static int new_shared(struct pg_shared **ret, const struct store_server *o, struct err *e) {
        struct pg_shared *shared;
        int r;

        if (!is_identity(o->machine))
                return err_set(e, ERR_INVALID,
                        "a machine's identity has 1 to %d printable characters", PG_MACHINE_MAX);
        shared = calloc(1, sizeof(*shared));
        if (!shared)
                return err_set(e, ERR_NOMEM, "no memory for the register");
        pthread_mutex_init(&shared->lock, NULL);
        shared->wait_usec = o->wait_usec;
        shared->lease_usec = o->lease_usec;
        shared->uri = strdup(o->uri);
        shared->machine_id = strdup(o->machine);
        shared->name = strdup(o->name);
        r = map_new(&shared->leases, e);
        if (r == 0)
                r = copy_places(shared, o, e);
        if (r == 0 && (!shared->uri || !shared->machine_id || !shared->name))
                r = err_set(e, ERR_NOMEM, "no memory for the register");
        if (r < 0)
                pg_shared_free(shared);
        else
                *ret = shared;
        return r;
}

/* The first one, which owns what the others share. */
static int new_server(
        struct store **ret, const struct store_server *o, bool writes, struct err *e) {
        struct pg_shared *shared = NULL;
        int r = new_shared(&shared, o, e);

        if (r < 0)
                return r;
        r = new_store(ret, shared, writes, e);
        if (r < 0)
                pg_shared_free(shared);
        else
                (*ret)->pg->owns_shared = true;
        return r;
}

/* --- the register --- */

/* The version that there is, not a newer one; 0: there are no tables. */
static int read_version(struct pg *pg, int64_t *ret, struct err *e) {
        PGresult *result = NULL;
        int r = pg_exec(
                pg, "SELECT CAST(to_regclass('confab') IS NOT NULL AS integer)", &result, e);
        bool any;

        if (r < 0)
                return r;
        any = pg_number(result, 0) == 1;
        PQclear(result);
        *ret = 0;
        if (!any)
                return 0;
        result = NULL;
        r = pg_exec(pg, "SELECT version FROM confab", &result, e);
        if (r < 0)
                return r;
        *ret = pg_number(result, 0);
        PQclear(result);
        if (*ret >= 1 && *ret <= pg_schema_version)
                return 0;
        return err_set(e, ERR_UNSUPPORTED,
                "the register in PostgreSQL has version %" PRId64 ", this confab knows version %d",
                *ret, pg_schema_version);
}

/* Makes the tables if there are none, and brings older ones up to date. In a transaction that holds others back. */
static int make_tables(struct pg *pg, struct err *e) {
        int64_t version = 0;
        char sql[64];
        int r = read_version(pg, &version, e);

        if (r < 0 || version == pg_schema_version)
                return r;
        if (version == 0)
                return pg_exec(pg, pg_tables, NULL, e);
        for (int64_t v = version; r == 0 && v < pg_schema_version; v++)
                r = pg_exec(pg, pg_migrations[v], NULL, e);
        snprintf(sql, sizeof(sql), "UPDATE confab SET version = %d", pg_schema_version);
        return r < 0 ? r : pg_exec(pg, sql, NULL, e);
}

/* The statement with texts as parameters; its one row of two numbers. */
static int ask(struct pg *pg, const char *sql, const char *const *texts, int n, int64_t ret[2],
        struct err *e) {
        PGresult *result = NULL;
        int r = pg_receive(pg, PQsendQueryParams(pg->conn, sql, n, NULL, texts, NULL, NULL, 0),
                "entering this machine", &result, e);

        if (r < 0)
                return r;
        ret[0] = pg_number(result, 0);
        ret[1] = PQnfields(result) > 1 ? pg_number(result, 1) : 0;
        PQclear(result);
        return ret[0] < 1 ? err_set(e, ERR_CORRUPT, "register: this machine has no number") : 0;
}

static int enter_machine(struct pg *pg, struct err *e) {
        struct pg_shared *shared = pg->shared;
        const char *texts[] = {
                shared->machine_id, shared->name, shared->address, shared->host, shared->socket};
        char number[24];
        const char *row[] = {number};
        int64_t got[2];
        int r = ask(pg,
                "INSERT INTO machine (id, name, address, host, socket, seen_usec) "
                "VALUES ($1, $2, $3, $4, $5, "
                "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)) "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name, address = excluded.address, "
                "host = excluded.host, socket = excluded.socket, "
                "seen_usec = excluded.seen_usec RETURNING number",
                texts, ARRAY_SIZE(texts), got, e);

        if (r < 0)
                return r;
        shared->machine = (uint64_t)got[0];
        snprintf(number, sizeof(number), "%" PRId64, got[0]);
        r = ask(pg,
                "INSERT INTO machine_txn (machine, incarnation, txn) VALUES ($1, 1, 0) "
                "ON CONFLICT (machine) DO UPDATE SET incarnation = machine_txn.incarnation + 1 "
                "RETURNING incarnation, txn",
                row, 1, got, e);
        if (r < 0)
                return r;
        shared->incarnation = (uint64_t)got[0];
        shared->txn = (uint64_t)got[1];
        return 0;
}

static int set_up(struct pg *pg, bool enter, struct err *e) {
        int r = pg_exec(pg, "BEGIN; SELECT pg_advisory_xact_lock(" OPENING_LOCK ")", NULL, e);

        if (r == 0)
                r = make_tables(pg, e);
        if (r == 0 && enter)
                r = enter_machine(pg, e);
        if (r == 0)
                return pg_exec(pg, "COMMIT", NULL, e);
        if (pg->conn)
                (void)pg_exec(pg, "ROLLBACK", NULL, NULL);
        return r;
}

/* Several machines that begin at once wait for each other; a server that is starting is waited for. */
static int set_up_waiting(struct pg *pg, struct err *e) {
        uint64_t until = clock_monotonic_usec() + pg->shared->wait_usec;
        int r;

        do {
                r = pg_ready(pg, e);
                if (r == 0)
                        r = set_up(pg, true, e);
        } while (r < 0 && pg->again && clock_monotonic_usec() < until);
        pg->again = false;
        return r == -ERR_BUSY ? -ERR_UNAVAILABLE : r;
}

int store_open_server(struct store **ret, const struct store_server *o, struct err *e) {
        _cleanup_(store_freep) struct store *s = NULL;
        int r = new_server(&s, o, true, e);

        if (r == 0)
                r = set_up_waiting(s->pg, e);
        if (r == 0)
                r = pg_keeper_start(s->pg->shared, e);
        if (r == 0)
                r = pg_connect_reader(&s->reader, s, e);
        if (r == 0)
                *ret = TAKE_PTR(s);
        return r;
}

/* Its number, if it was entered. */
static int find_machine(struct pg *pg, struct err *e) {
        const char *texts[] = {pg->shared->machine_id};
        int64_t got[2];
        int r = ask(pg, "SELECT coalesce((SELECT number FROM machine WHERE id = $1), 0) + 1, 0",
                texts, 1, got, e);

        if (r == 0)
                pg->shared->machine = (uint64_t)got[0] - 1;
        return r;
}

int store_look_server(struct store **ret, const struct store_server *o, struct err *e) {
        _cleanup_(store_freep) struct store *s = NULL;
        int64_t version = 0;
        int r = new_server(&s, o, false, e);

        if (r == 0)
                r = pg_ready(s->pg, e);
        if (r == 0)
                r = read_version(s->pg, &version, e);
        if (r == 0 && version == 0)
                r = err_set(e, ERR_STATE, "the register in PostgreSQL has no tables yet");
        if (r == 0)
                r = find_machine(s->pg, e);
        if (r == 0)
                *ret = TAKE_PTR(s);
        return r;
}

int pg_size(struct store *s, uint64_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        PGresult *result = NULL;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = pg_exec(s->pg,
                        "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS bigint) FROM "
                        "pg_class "
                        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace",
                        &result, e);
        if (r < 0)
                return r;
        *ret = (uint64_t)MAX(pg_number(result, 0), 0);
        PQclear(result);
        return 0;
}

void store_listen(struct store *s, const struct store_listener *listener) {
        if (s->pg && s->pg->shared->keeper)
                pg_keeper_listen(s->pg->shared->keeper, listener);
}

void pg_close(struct store *s) {
        struct pg_shared *shared = s->pg->shared;

        if (s->pg->owns_shared && shared->keeper) {
                shared->keeper = pg_keeper_stop(shared->keeper);
                /* If it can't be reached, the others take what this machine had a moment later. */
                if (s->pg->conn)
                        (void)pg_leases_release(s, NULL);
        }
        s->pg = pg_free(s->pg);
}

uint64_t store_now_usec(struct store *s) {
        int64_t ahead = s->pg ? atomic_load(&s->pg->shared->clock_ahead) : 0;

        return ahead ? clock_boottime_usec() + (uint64_t)ahead : clock_realtime_usec();
}
