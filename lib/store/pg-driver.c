/* SPDX-License-Identifier: MIT */
/*
 * The register on PostgreSQL, which several daemons share.
 *
 * All that store.h and store.c promise of the SQLite file holds here, but for what follows. Statements run in the same order,
 * from the same C code; this driver runs them there.
 *
 *  1. Acknowledged means committed on the server (pg-conn.c, rule 4). What a server does that loses its disk is its
 *     administrator's business.
 *  2. A transaction is READ COMMITTED, and begins the change of a conversation by locking its row (pg-lease.c), so nobody
 *     else changes the conversation meanwhile. Reading calls see one moment: REPEATABLE READ.
 *  3. A conversation is changed by the machine that holds it, and no other one: see pg-lease.c.
 *  4. A commit whose answer is lost is looked for after connecting anew (pg-txn.c): it is done or made once more, never done
 *     twice. If the server does not come back within the time, the call fails with -ERR_UNAVAILABLE and nobody knows; the
 *     conversation then counts as not held, so it is read anew before it is used.
 *  5. Records and links are of one machine: they tell what lies on its disk. Whoever changes a conversation's tokens
 *     removes links to memory of the old ones on all machines, in the same transaction; the records that are loose by it are
 *     freed by the machine that has their bytes (store_loose()).
 *  6. Statements are prepared when they are first used on a connection, and their values travel in binary. A result is
 *     here as a whole before its first row is looked at, so queries may be nested. It takes as much memory as what is read of it,
 *     beside what the caller was admitted for.
 *  7. What was removed is gone from the tables, but stays in files of the server until it vacuums them and recycles its log:
 *     store_scrub() has nothing to do there.
 */
#include "base/util.h"
#include "store/pg.h"
#include <stdio.h>
#include <string.h>

/* Codes of query_failed(). */
enum { BAD_TYPE = 1, BAD_COLUMN };

/* --- texts --- */

struct text {
        char *out; /* [size] */
        size_t n, size;
};

static void put(struct text *t, const char *s, size_t n) {
        for (size_t i = 0; i < n && t->n + 1 < t->size; i++)
                t->out[t->n++] = s[i];
        t->out[t->n] = '\0';
}

/* A parameter, ? or ?N at @s. What is behind it. */
static const char *put_place(struct text *t, const char *s, unsigned *last) {
        char place[16];
        unsigned n = 0;

        for (s++; *s >= '0' && *s <= '9'; s++)
                n = n * 10 + (unsigned)(*s - '0');
        if (n == 0)
                n = *last + 1;
        *last = MAX(*last, n);
        put(t, place, (size_t)snprintf(place, sizeof(place), "$%u", n));
        return s;
}

/* @sql with PostgreSQL's form of parameters, and the number of this machine. */
static void translate(struct text *t, const char *sql, uint64_t machine) {
        static const char word[] = "@machine";
        unsigned last = 0;
        char number[24];

        while (*sql)
                if (*sql == '?') {
                        sql = put_place(t, sql, &last);
                } else if (strncmp(sql, word, sizeof(word) - 1) == 0) {
                        put(t, number,
                                (size_t)snprintf(number, sizeof(number), "%llu",
                                        (unsigned long long)machine));
                        sql += sizeof(word) - 1;
                } else {
                        put(t, sql++, 1);
                }
}

/* --- statements --- */

static int prepare(struct pg *pg, enum store_stmt which, struct err *e) {
        struct pg_statement *st = &pg->statements[which];
        const char *sql = pg_stmt_sql[which] ? pg_stmt_sql[which] : stmt_text(which);
        char text[4096], name[16];
        struct text t = {.out = text, .size = sizeof(text)};
        PGresult *result = NULL;
        int r;

        translate(&t, sql, pg->shared->machine);
        if (t.n + 1 == sizeof(text))
                return err_set(e, ERR_STATE, "register: a statement is too long");
        snprintf(name, sizeof(name), "s%d", (int)which);
        r = pg_receive(
                pg, PQsendPrepare(pg->conn, name, text, 0, NULL), "preparing a statement", NULL, e);
        if (r == 0)
                r = pg_receive(pg, PQsendDescribePrepared(pg->conn, name), "preparing a statement",
                        &result, e);
        if (r < 0)
                return r;
        st->n_params = PQnparams(result);
        for (int i = 0; i < st->n_params && i < PG_MAX_PARAMS; i++)
                st->params[i] = PQparamtype(result, i);
        PQclear(result);
        if (st->n_params > PG_MAX_PARAMS)
                return err_set(e, ERR_STATE, "register: a statement has too many parameters");
        st->prepared = true;
        return 0;
}

static int driver_begin(struct query *q, struct err *e) {
        q->pg = calloc(1, sizeof(*q->pg));
        return q->pg ? 0 : err_set(e, ERR_NOMEM, "no memory for a query");
}

static void driver_end(struct query *q) {
        PQclear(q->pg->result);
        free(q->pg);
        q->pg = NULL;
}

static void driver_bind(struct query *q, int n, const struct value *v) {
        if (n > PG_MAX_PARAMS)
                query_failed(q, BAD_TYPE);
        else
                q->pg->bound[n - 1] = *v;
}

/* --- values that travel --- */

/* The types of columns and parameters that there are here, by PostgreSQL's numbers. */
enum {
        OID_BOOL = 16,
        OID_BYTEA = 17,
        OID_NAME = 19,
        OID_INT8 = 20,
        OID_INT2 = 21,
        OID_INT4 = 23,
        OID_TEXT = 25,
        OID_FLOAT8 = 701,
        OID_VARCHAR = 1043
};

struct sent {
        const char *values[PG_MAX_PARAMS];
        int sizes[PG_MAX_PARAMS], formats[PG_MAX_PARAMS];
        char numbers[PG_MAX_PARAMS][8];
};

static void put_number(char *out, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                out[i] = (char)(v >> (8 * (n - 1 - i)));
}

/* A parameter as the server expects it. 0: it cannot be that. */
static int encode(struct sent *x, int i, Oid type, const struct value *v) {
        uint64_t bits;

        x->formats[i] = 1;
        x->values[i] = x->numbers[i];
        switch (v->type) {
        case VALUE_NULL:
                x->values[i] = NULL;
                return 1;
        case VALUE_INTEGER:
                x->sizes[i] = type == OID_INT4 ? 4 : 8;
                put_number(x->numbers[i], (uint64_t)v->i, (size_t)x->sizes[i]);
                return type == OID_INT8 || (type == OID_INT4 && v->i == (int32_t)v->i);
        case VALUE_REAL:
                memcpy(&bits, &v->d, sizeof(bits));
                x->sizes[i] = 8;
                put_number(x->numbers[i], bits, 8);
                return type == OID_FLOAT8;
        case VALUE_TEXT:
        case VALUE_BLOB:
                x->values[i] = v->p;
                x->sizes[i] = (int)MIN(v->n, (size_t)INT32_MAX);
                return v->n <= INT32_MAX && (type == OID_TEXT || type == OID_BYTEA);
        }
        return 0;
}

static int run(struct query *q, struct err *e) {
        struct pg *pg = q->s->pg;
        const struct pg_statement *st = &pg->statements[q->which];
        struct sent x = {};
        char name[16];
        int r = st->prepared && pg->conn ? 0 : prepare(pg, q->which, e);

        if (r < 0)
                return r;
        if (q->n_bound != st->n_params)
                return err_set(e, ERR_STATE, "register: statement %d has %d parameters, not %d",
                        (int)q->which, st->n_params, q->n_bound);
        for (int i = 0; i < st->n_params; i++)
                if (!encode(&x, i, st->params[i], &q->pg->bound[i]))
                        return err_set(e, ERR_STATE,
                                "register: parameter %d of statement %d has type %u", i + 1,
                                (int)q->which, st->params[i]);
        snprintf(name, sizeof(name), "s%d", (int)q->which);
        return pg_receive(pg,
                PQsendQueryPrepared(pg->conn, name, st->n_params, x.values, x.sizes, x.formats, 1),
                "a statement", &q->pg->result, e);
}

/* A look without a transaction. A connection that was idle may have been lost long ago: that costs no try. */
static int run_alone(struct query *q, struct err *e) {
        struct pg *pg = q->s->pg;
        int r = pg_ready(pg, e);

        if (r == 0)
                r = run(q, e);
        if (r != -ERR_UNAVAILABLE || pg->conn || pg->t_down > 0)
                return r;
        r = pg_ready(pg, e);
        return r < 0 ? r : run(q, e);
}

static int driver_step(struct query *q, struct err *e) {
        struct pg *pg = q->s->pg;
        int r = 0;

        if (q->pg->result) {
                q->pg->row++;
        } else {
                if (pg->bounded && pg->n_left-- == 0) {
                        pg->n_left = 0;
                        return err_set(e, ERR_CANCELLED, "the bound of a search is reached");
                }
                /* A transaction is not begun anew without its call. */
                if (!pg->in_txn)
                        r = run_alone(q, e);
                else if (!pg->conn)
                        r = err_set(e, ERR_UNAVAILABLE, "the register's connection was lost");
                else
                        r = run(q, e);
                if (r < 0)
                        return r;
                pg->received += PQresultMemorySize(q->pg->result);
        }
        return q->pg->row < PQntuples(q->pg->result);
}

static int driver_insert(struct query *q, uint64_t *ret_id, struct err *e) {
        int r = query_step(q, e);
        uint64_t id;

        if (r <= 0)
                return r < 0 ? r : err_set(e, ERR_STATE, "register: a new row has no id");
        id = query_number(q, 0, INT64_MAX);
        r = query_check(q, e);
        if (r == 0)
                *ret_id = id;
        return r;
}

static int64_t driver_changes(struct query *q) {
        return q->pg->result ? strtoll(PQcmdTuples(q->pg->result), NULL, 10) : 0;
}

static int driver_n_columns(struct query *q) {
        return q->pg->result ? PQnfields(q->pg->result) : 0;
}

static const char *driver_name(struct query *q, int col) {
        return q->pg->result ? PQfname(q->pg->result, col) : NULL;
}

static uint64_t get_number(const char *p, int n) {
        uint64_t v = n > 0 && (p[0] & 0x80) ? UINT64_MAX : 0; /* the sign */

        for (int i = 0; i < n; i++)
                v = v << 8 | (uint8_t)p[i];
        return v;
}

static void driver_column(struct query *q, int col, struct value *ret) {
        const PGresult *result = q->pg->result;
        const char *p = PQgetvalue(result, q->pg->row, col);
        int n = PQgetlength(result, q->pg->row, col);
        uint64_t bits;

        *ret = (struct value){.type = VALUE_NULL};
        if (PQgetisnull(result, q->pg->row, col))
                return;
        switch (PQftype(result, col)) {
        case OID_BOOL:
        case OID_INT2:
        case OID_INT4:
        case OID_INT8:
                ret->type = VALUE_INTEGER;
                ret->i = (int64_t)get_number(p, n);
                break;
        case OID_FLOAT8:
                ret->type = VALUE_REAL;
                bits = get_number(p, n);
                memcpy(&ret->d, &bits, sizeof(ret->d));
                break;
        case OID_TEXT:
        case OID_VARCHAR:
        case OID_NAME:
        case OID_BYTEA:
                ret->type = PQftype(result, col) == OID_BYTEA ? VALUE_BLOB : VALUE_TEXT;
                ret->p = p;
                ret->n = (size_t)n;
                break;
        default:
                query_failed(q, BAD_COLUMN);
        }
}

static int driver_fail(struct query *q, const char *what, struct err *e) {
        return err_set(e, ERR_STATE, "register: %s: statement %d has %s of an unknown type", what,
                (int)q->which, q->rc == BAD_TYPE ? "a parameter" : "a column");
}

const struct store_driver pg_driver = {
        .begin = driver_begin,
        .end = driver_end,
        .bind = driver_bind,
        .step = driver_step,
        .insert = driver_insert,
        .changes = driver_changes,
        .n_columns = driver_n_columns,
        .name = driver_name,
        .column = driver_column,
        .fail = driver_fail,
        .txn_begin = pg_txn_begin,
        .txn_commit = pg_txn_commit,
        .txn_end = pg_txn_end,
        .read_begin = pg_read_begin,
        .read_end = pg_read_end,
        .again = pg_again,
};
