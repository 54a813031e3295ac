/* SPDX-License-Identifier: MIT */
/*
 * A copy of a register on PostgreSQL as an SQLite file, which a daemon alone opens as its own: a backup, and the way back from
 * many machines to one.
 *
 * 1. All rows are of one moment: they are read in one transaction (REPEATABLE READ), some rows in each slice.
 * 2. The columns are those of SQLite's tables, which have the same names here. What only PostgreSQL has (who holds a
 *    conversation, machines) stays behind, and of memory only what lies on this machine's disk comes along.
 * 3. The search index is made when the copy is first opened (words.c, rule 2), and the counts of `usage` are as they were.
 */
#include "base/buf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/pg.h"
#include "store/words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_OF_A_PAGE 4

static const struct {
        const char *name;
        const char *
                of_machine; /* of rows that are of one machine: what holds besides; NULL: all rows */
} tables[] = {
        {"tenant", NULL},
        {"conversation", NULL},
        {"turn", NULL},
        {"turn_figures", NULL},
        {"tag", NULL},
        {"quota", NULL},
        {"usage", NULL},
        {"record", "NOT loose"},
        {"link", "true"},
};

struct pg_backup {
        struct store *from, *to;
        size_t table;         /* the one that is being copied */
        sqlite3_stmt *insert; /* for it, or NULL: its cursor is not declared */
};

/* --- what is asked and written for a table --- */

/* Names of the columns that both have, with commas. How many. */
static int list_columns(struct pg_backup *b, struct buf *out, struct err *e) {
        sqlite3_stmt *st = NULL;
        int n = 0, r = 0;
        int rc = sqlite3_prepare_v2(b->to->db,
                "SELECT name FROM pragma_table_info(?) WHERE name <> 'on_disk' ORDER BY cid", -1,
                &st, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite3_bind_text(st, 1, tables[b->table].name, -1, SQLITE_STATIC);
        while (rc == SQLITE_OK && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
                const char *name = (const char *)sqlite3_column_text(st, 0);

                r = name && (n++ == 0 || buf_append(out, ", ", 2) == 0)
                            ? buf_append(out, name, strlen(name))
                            : -ERR_NOMEM;
                rc = SQLITE_OK;
        }
        sqlite3_finalize(st);
        if (r < 0 || buf_append(out, "", 1) < 0)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        return rc == SQLITE_DONE ? n : store_fail(b->to, rc, "columns", e);
}

static int declare(struct pg_backup *b, const char *columns, struct err *e) {
        const char *of_machine = tables[b->table].of_machine;
        char condition[96] = "true";
        char sql[2048];

        if (of_machine)
                snprintf(condition, sizeof(condition), "machine = %llu AND %s",
                        (unsigned long long)b->from->pg->shared->machine, of_machine);
        snprintf(sql, sizeof(sql), "DECLARE backup NO SCROLL CURSOR FOR SELECT %s FROM %s WHERE %s",
                columns, tables[b->table].name, condition);
        return pg_exec(b->from->pg, sql, NULL, e);
}

static int begin_table(struct pg_backup *b, struct err *e) {
        _cleanup_(buf_deinit) struct buf columns = BUF_NULL;
        char sql[2048];
        int n = list_columns(b, &columns, e), at, r;

        if (n < 0)
                return n;
        r = declare(b, (const char *)columns.data, e);
        if (r < 0)
                return r;
        at = snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO %s (%s) VALUES (?",
                tables[b->table].name, (const char *)columns.data);
        for (int i = 1; i < n; i++)
                at += snprintf(sql + at, sizeof(sql) - (size_t)at, ",?");
        snprintf(sql + at, sizeof(sql) - (size_t)at, ")");
        r = sqlite3_prepare_v2(b->to->db, sql, -1, &b->insert, NULL);
        return r == SQLITE_OK ? 0 : store_fail(b->to, r, "beginning a table", e);
}

static int end_table(struct pg_backup *b, struct err *e) {
        sqlite3_finalize(b->insert);
        b->insert = NULL;
        b->table++;
        return pg_exec(b->from->pg, "CLOSE backup", NULL, e);
}

/* --- rows --- */

static bool is_text(const struct value *v) {
        return v->type == VALUE_TEXT || (!memchr(v->p, 0, v->n) && utf8_valid(v->p, v->n));
}

/* What is bytes for PostgreSQL may be text here: what was said (turns.c). */
static int bind_value(sqlite3_stmt *st, int n, const struct value *v, bool said) {
        switch (v->type) {
        case VALUE_NULL:
                return sqlite3_bind_null(st, n);
        case VALUE_INTEGER:
                return sqlite3_bind_int64(st, n, v->i);
        case VALUE_REAL:
                return sqlite3_bind_double(st, n, v->d);
        case VALUE_TEXT:
        case VALUE_BLOB:
                if (said ? is_text(v) : v->type == VALUE_TEXT)
                        return sqlite3_bind_text64(
                                st, n, v->p, v->n, SQLITE_TRANSIENT, SQLITE_UTF8);
                return sqlite3_bind_blob64(st, n, v->p, v->n, SQLITE_TRANSIENT);
        }
        return SQLITE_MISUSE;
}

static int copy_row(struct pg_backup *b, struct query *q, struct err *e) {
        int rc = SQLITE_OK;

        for (int i = 0; i < query_n_columns(q) && rc == SQLITE_OK; i++) {
                struct value v;

                pg_driver.column(q, i, &v);
                rc = bind_value(b->insert, i + 1, &v, strcmp(pg_driver.name(q, i), "text") == 0);
        }
        if (rc == SQLITE_OK)
                rc = sqlite3_step(b->insert);
        if (rc == SQLITE_DONE)
                rc = sqlite3_reset(b->insert);
        return rc == SQLITE_OK ? 0 : store_fail(b->to, rc, "copying", e);
}

/* The next @n rows. 1: there may be more. */
static int copy_rows(struct pg_backup *b, unsigned n, struct err *e) {
        struct pg_query rows = {};
        struct query q = {.s = b->from, .pg = &rows};
        char sql[48];
        int r;

        snprintf(sql, sizeof(sql), "FETCH %u FROM backup", n);
        r = pg_receive(b->from->pg,
                PQsendQueryParams(b->from->pg->conn, sql, 0, NULL, NULL, NULL, NULL, 1), "copying",
                &rows.result, e);
        if (r < 0)
                return r;
        for (; rows.row < PQntuples(rows.result) && r == 0; rows.row++)
                r = copy_row(b, &q, e);
        if (r == 0)
                r = (unsigned)rows.row == n;
        PQclear(rows.result);
        return r;
}

/* --- the copy --- */

struct pg_backup *pg_backup_free(struct pg_backup *b) {
        if (!b)
                return NULL;
        sqlite3_finalize(b->insert);
        store_free(b->to);
        store_free(b->from);
        free(b);
        return NULL;
}

int pg_backup_new(struct pg_backup **ret, struct store *s, const char *path, struct err *e) {
        struct pg_backup *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        r = pg_connect_reader(&b->from, s, e);
        if (r == 0)
                r = b->from->driver->read_begin(b->from, true, e);
        /* The first look is what fixes the moment. Between two slices may be as much time as the reader of the backup takes. */
        if (r == 0)
                r = pg_exec(b->from->pg,
                        "SELECT count(*) FROM confab; SET idle_in_transaction_session_timeout = 0",
                        NULL, e);
        if (r == 0)
                r = store_open(&b->to, path, e);
        if (r == 0)
                r = store_exec(b->to, "PRAGMA synchronous = OFF; BEGIN", "settings", e);
        if (r < 0)
                pg_backup_free(b);
        else
                *ret = b;
        return r;
}

int pg_backup_step(struct pg_backup *b, unsigned n_pages, struct err *e) {
        int r = b->insert ? 0 : begin_table(b, e);

        if (r == 0)
                r = copy_rows(b, MAX(n_pages, 1u) * ROWS_OF_A_PAGE, e);
        if (r == 0)
                r = end_table(b, e);
        return r < 0 ? r : b->table < ARRAY_SIZE(tables);
}

/* Ids are never used again, in the copy either. */
static int set_counter(
        struct pg_backup *b, const char *sequence, const char *table, struct err *e) {
        PGresult *result = NULL;
        char sql[256];
        int64_t last;
        int r;

        snprintf(sql, sizeof(sql), "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM %s",
                sequence);
        r = pg_exec(b->from->pg, sql, &result, e);
        if (r < 0)
                return r;
        last = pg_number(result, 0);
        PQclear(result);
        snprintf(sql, sizeof(sql),
                "DELETE FROM sqlite_sequence WHERE name = '%s';"
                "INSERT INTO sqlite_sequence (name, seq) VALUES ('%s', %lld)",
                table, table, (long long)last);
        return store_exec(b->to, sql, "counters", e);
}

int pg_backup_finish(struct pg_backup *b, bool with_records, uint64_t *ret_n_convs, struct err *e) {
        int r = set_counter(b, "conversation_id", "conversation", e);

        if (r == 0)
                r = set_counter(b, "record_id", "record", e);
        if (r == 0)
                r = set_counter(b, "tenant_number", "tenant", e);
        if (r == 0 && !with_records)
                r = store_exec(
                        b->to, "DELETE FROM link; DELETE FROM record", "leaving out memory", e);
        if (r == 0)
                r = store_exec(b->to,
                        "UPDATE conversation SET on_disk = 1 WHERE id IN (SELECT conversation FROM "
                        "link);"
                        "INSERT OR REPLACE INTO meter (name, value) VALUES ('search_broken', 1); "
                        "COMMIT",
                        "ending", e);
        if (r == 0)
                r = store_conv_count(b->to, OWNER_ANY, ret_n_convs, e);
        b->to = store_free(b->to);
        b->from = store_free(b->from);
        return r;
}
