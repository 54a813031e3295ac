/* SPDX-License-Identifier: MIT */
/*
 * Checking the register while it is used.
 *
 *      TABLES: SQLite's own check of each table ─→ CONVS: each conversation ─→ ROWS: what one statement checks of all rows
 *                                                                                    │
 *                               records, page by page, for whoever reads what they refer to
 *
 * 1. The check reads through a connection of its own. It takes no lock that a call of the register or a commit waits for.
 * 2. A slice is one step: a table, a conversation, or a statement over all rows. Each is one reading transaction, so what it
 *    compares is of one moment, and what is committed between two slices is no damage.
 * 3. While a reading transaction lasts, the log cannot be emptied behind its moment, so it grows by what is committed. That is
 *    why no transaction outlives a slice. The longest slices are the largest table (turn) and the statements over all rows:
 *    they take as long as reading that much of the file takes.
 * 4. Conversations come by rising id. One that is closed before its turn is not looked at, one that is made meanwhile is.
 * 5. What only a look at the whole file at one moment can tell is left to store_check(): pages that no table has, or two.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "store/check.h"
#include "store/pg.h"
#include "store/words.h"

#define STEPS_PER_LOOK 20000 /* of SQLite's machine, between two looks at stop() */

struct store_checker {
        struct check x;
        bool (*stop)(void *arg);
        void *stop_arg;
        enum { TABLES, CONVS, ROWS, OVER } stage;
        char **tables; /* [n_tables], owned */
        size_t n_tables, at;
        int64_t id; /* the last conversation, or record, that was looked at */
        bool has_id;
        uint64_t page_size, n_pages_read;
};

/* --- the connection --- */

static int stop_now(void *arg) {
        struct store_checker *c = arg;

        return c->stop && c->stop(c->stop_arg);
}

static int run(struct store_checker *c, enum store_stmt which, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, c->x.s, which, e);

        return r < 0 ? r : query_run(&q, e);
}

static void end_slice(struct store_checker *c) {
        int n = 0, highest = 0;

        if (c->x.s->pg) {
                c->x.s->driver->read_end(c->x.s);
                c->n_pages_read += c->x.s->pg->received; /* of one byte */
                c->x.s->pg->received = 0;
                return;
        }
        if (!sqlite3_get_autocommit(c->x.s->db) && run(c, STMT_COMMIT, NULL) < 0)
                (void)run(c, STMT_ROLLBACK, NULL);
        if (sqlite3_db_status(c->x.s->db, SQLITE_DBSTATUS_CACHE_MISS, &n, &highest, 1) ==
                        SQLITE_OK &&
                n > 0)
                c->n_pages_read += (uint64_t)n;
}

/* What stopped a slice is told as that, whatever SQLite made of it. */
static int result(struct store_checker *c, int r, struct err *e) {
        if (r < 0 && stop_now(c))
                return err_set(e, ERR_CANCELLED, "the check was stopped");
        if (r < 0 && e)
                *e = c->x.err;
        return r;
}

static int read_page_size(struct store_checker *c, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, c->x.s, STMT_PAGE_SIZE, e);

        if (r == 0)
                r = query_step(&q, e);
        if (r > 0)
                c->page_size = query_number(&q, 0, 65536);
        return r < 0 ? r : query_check(&q, e);
}

static int push_table(struct store_checker *c, const char *name, size_t n, struct err *e) {
        void *p = c->tables;

        if (array_grow(&p, c->n_tables, sizeof(*c->tables)) < 0)
                return err_set(e, ERR_NOMEM, "no memory to check the register");
        c->tables = p;
        c->tables[c->n_tables] = strndup(name, n);
        if (!c->tables[c->n_tables])
                return err_set(e, ERR_NOMEM, "no memory to check the register");
        c->n_tables++;
        return 0;
}

/* Those that have pages. The first is SQLite's own, with which it checks the free pages. */
static int list_tables(struct store_checker *c, struct err *e) {
        _query_ q = {};
        int r = push_table(c, "sqlite_schema", strlen("sqlite_schema"), e);

        if (r == 0)
                r = query_begin(&q, c->x.s, STMT_CHECK_TABLES, e);
        while (r == 0 && (r = query_step(&q, e)) > 0) {
                size_t n;
                const char *name = query_bytes(&q, 0, &n);

                r = push_table(c, name, n, e);
        }
        return r;
}

int store_checker_new(struct store_checker **ret, struct store *s,
        const struct store_check_options *o, struct err *e) {
        _cleanup_(store_checker_freep) struct store_checker *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return err_set(e, ERR_NOMEM, "no memory to check the register");
        c->x = (struct check){
                .found = o->found, .arg = o->arg, .admit = o->admit, .admit_arg = o->admit_arg};
        c->stop = o->stop;
        c->stop_arg = o->stop_arg;
        r = store_connect_reader(&c->x.s, s, e);
        if (r == 0 && s->pg) {
                c->page_size = 1;
                c->stage = CONVS; /* its tables are the server's to check (pg_amcheck) */
                *ret = TAKE_PTR(c);
                return 0;
        }
        if (r == 0)
                r = store_exec(c->x.s, "PRAGMA cache_size = -256", "settings", e); /* KiB */
        if (r == 0)
                r = read_page_size(c, e);
        if (r < 0)
                return r;
        sqlite3_progress_handler(c->x.s->db, STEPS_PER_LOOK, stop_now, c);
        *ret = TAKE_PTR(c);
        return 0;
}

struct store_checker *store_checker_free(struct store_checker *c) {
        if (!c)
                return NULL;
        store_free(c->x.s);
        for (size_t i = 0; i < c->n_tables; i++)
                free(c->tables[i]);
        free(c->tables);
        free(c);
        return NULL;
}

/* --- slices --- */

static void next_stage(struct store_checker *c) {
        c->stage++;
        c->at = 0;
}

static int check_table(struct store_checker *c, const char *name) {
        char *sql = sqlite3_mprintf("PRAGMA integrity_check(%Q)", name);
        struct query q = {.s = c->x.s, .rc = SQLITE_OK};
        int r = sql ? sqlite3_prepare_v2(c->x.s->db, sql, -1, &q.st, NULL) : SQLITE_NOMEM;

        sqlite3_free(sql);
        r = r == SQLITE_OK ? check_integrity(&c->x, &q)
                           : store_fail(c->x.s, r, "checking a table", &c->x.err);
        sqlite3_finalize(q.st);
        return r;
}

static int step_tables(struct store_checker *c) {
        int r = c->n_tables > 0 ? 0 : list_tables(c, &c->x.err);

        if (r == 0 && c->at < c->n_tables)
                r = check_table(c, c->tables[c->at++]);
        /* A list that cannot be read is a finding, and ends there. */
        if (r != 0 || c->at == c->n_tables)
                next_stage(c);
        return r;
}

/* The conversation behind the last one. 1; 0: there is none. */
static int next_conv(struct store_checker *c) {
        _query_ q = {};
        int r = query_begin(&q, c->x.s, STMT_CHECK_NEXT_CONV, &c->x.err);

        if (r < 0)
                return r;
        query_bind_i64(&q, c->has_id ? c->id : INT64_MIN);
        r = query_step(&q, &c->x.err);
        if (r <= 0)
                return r;
        c->id = (int64_t)query_u64(&q, 0);
        c->has_id = true;
        return 1;
}

static int step_convs(struct store_checker *c) {
        int r = next_conv(c);

        if (r <= 0) {
                next_stage(c);
                return r;
        }
        if (c->id < 1) {
                check_report(&c->x, STORE_FINDING_CONV, 0, 0, "a conversation has the id %lld",
                        (long long)c->id);
                return 0;
        }
        r = check_conv(&c->x, (uint64_t)c->id);
        if (r == 0)
                r = words_current(c->x.s, &c->x.err);
        if (r > 0)
                r = check_conv_words(&c->x, (uint64_t)c->id);
        return r;
}

static int step_rows(struct store_checker *c) {
        int r = check_tables[c->at++](&c->x);

        if (c->at == check_n_tables)
                next_stage(c);
        return r;
}

int store_checker_step(struct store_checker *c, struct err *e) {
        static int (*const steps[])(struct store_checker *) = {
                [TABLES] = step_tables, [CONVS] = step_convs, [ROWS] = step_rows};
        int r;

        if (c->stage == OVER)
                return 0;
        r = c->x.s->pg ? c->x.s->driver->read_begin(c->x.s, true, &c->x.err)
                       : run(c, STMT_READ_BEGIN, &c->x.err);
        if (r == 0)
                r = steps[c->stage](c);
        if (r < 0 && !stop_now(c))
                r = check_absorb(&c->x, r, STORE_FINDING_FILE, 0, 0);
        end_slice(c);
        if (c->stage == OVER)
                c->has_id = false; /* records come by their own ids */
        return r < 0 ? result(c, r, e) : c->stage != OVER;
}

/* --- records --- */

int store_checker_total(
        struct store_checker *c, uint64_t *ret_n, uint64_t *ret_size, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, c->x.s, STMT_CHECK_TOTAL, &c->x.err);

        if (r == 0)
                r = query_step(&q, &c->x.err);
        if (r > 0) {
                *ret_n = query_number(&q, 0, INT64_MAX);
                *ret_size = query_number(&q, 1, INT64_MAX);
                r = 0; /* sums of what cannot be so are told already */
        }
        query_end(&q);
        end_slice(c);
        return result(c, r, e);
}

/* The present row. 1: it is impossible, which was told already. */
static int read_held(struct store_checker *c, struct query *q, struct store_held *ret) {
        struct store_held h = {0};
        int r = record_read(q, &h.record, &c->x.err);

        if (r == 0) {
                h.conv = query_number(q, 12, INT64_MAX);
                h.model.weights = query_u64(q, 13);
                h.model.rules = query_u64(q, 14);
                r = query_check(q, &c->x.err);
        }
        q->bad = NULL;
        if (r == 0)
                *ret = h;
        return r == -ERR_CORRUPT ? 1 : r;
}

int store_checker_records(struct store_checker *c, struct store_held *out, size_t max,
        size_t *ret_n, bool *ret_more, struct err *e) {
        size_t n = 0, n_rows = 0;
        _query_ q = {};
        int r = query_begin(&q, c->x.s, STMT_CHECK_PAGE, &c->x.err);

        if (r == 0) {
                query_bind_i64(&q, c->has_id ? c->id : INT64_MIN);
                query_bind_u64(&q, max);
        }
        while (r == 0 && (r = query_step(&q, &c->x.err)) > 0) {
                c->id = (int64_t)query_u64(&q, 0);
                c->has_id = true;
                q.bad = NULL;
                n_rows++;
                r = read_held(c, &q, &out[n]);
                if (r == 0)
                        n++;
                r = MIN(r, 0);
        }
        query_end(&q);
        end_slice(c);
        if (r < 0)
                return result(c, r, e);
        *ret_n = n;
        *ret_more = n_rows == max;
        return 0;
}

int store_checker_has(struct store_checker *c, uint64_t record, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, c->x.s, STMT_CHECK_HAS, &c->x.err);

        if (r == 0) {
                query_bind_u64(&q, record);
                r = query_step(&q, &c->x.err);
        }
        query_end(&q);
        end_slice(c);
        return result(c, r, e);
}

void store_checker_tell(
        const struct store_checker *c, struct store_census *ret, uint64_t *ret_read_size) {
        *ret = c->x.census;
        *ret_read_size = c->n_pages_read * c->page_size;
}
