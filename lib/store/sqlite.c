/* SPDX-License-Identifier: MIT */
/* The driver of SQLite: statements, values, errors. Transactions are in sqlite-txn.c. */
#include "base/util.h"
#include "store/store-private.h"
#include <errno.h>

static enum err_code code_of(int rc) {
        switch (rc & 0xff) {
        case SQLITE_NOMEM:
                return ERR_NOMEM;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
        case SQLITE_FORMAT:
        case SQLITE_CONSTRAINT: /* callers check theirs: what is left contradicts itself */
        case SQLITE_SCHEMA:
        case SQLITE_MISMATCH:
        case SQLITE_ERROR: /* our SQL is fixed: a table or column is missing */
                return ERR_CORRUPT;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
        case SQLITE_PROTOCOL:
                return ERR_BUSY;
        case SQLITE_TOOBIG:
                return ERR_TOO_LARGE;
        case SQLITE_INTERRUPT: /* by our own progress handler */
                return ERR_CANCELLED;
        case SQLITE_FULL:
        case SQLITE_IOERR:
        case SQLITE_CANTOPEN:
        case SQLITE_PERM:
        case SQLITE_READONLY:
        case SQLITE_AUTH:
        case SQLITE_NOLFS:
                return ERR_SYS;
        default:
                return ERR_STATE;
        }
}

int store_fail(struct store *s, int rc, const char *what, struct err *e) {
        enum err_code code = code_of(rc);

        /* SQLite allocates inside its I/O layer too. */
        if (rc == SQLITE_IOERR_NOMEM)
                code = ERR_NOMEM;
        if (code == ERR_SYS) {
                int sys = s->db ? sqlite3_system_errno(s->db) : 0;

                if (s->commit_errno)
                        sys = s->commit_errno;

                if ((rc & 0xff) == SQLITE_FULL && sys == 0)
                        sys = ENOSPC;
                if ((rc & 0xff) == SQLITE_READONLY)
                        sys = rc == SQLITE_READONLY_DIRECTORY ? EACCES : EROFS;
                errno = sys ? sys : EIO;
        }
        if (code == ERR_NOMEM)
                return err_set(e, code, "register: %s: no memory", what);
        if (code == ERR_BUSY)
                return err_set(e, code, "register: %s: locked by another program", what);
        return err_set(e, code, "register: %s: %s (%d)", what,
                s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc), rc);
}

int store_exec(struct store *s, const char *sql, const char *what, struct err *e) {
        int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

        return rc == SQLITE_OK ? 0 : store_fail(s, rc, what, e);
}

static int sqlite_fail(struct query *q, const char *what, struct err *e) {
        return store_fail(q->s, q->rc, what, e);
}

static int sqlite_begin(struct query *q, struct err *e) {
        sqlite3_stmt **st = &q->s->stmts[q->which];
        int rc;

        if (!*st) {
                rc = sqlite3_prepare_v3(
                        q->s->db, stmt_text(q->which), -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
                if (rc != SQLITE_OK)
                        return store_fail(q->s, rc, "preparing a statement", e);
        }
        q->st = *st;
        return 0;
}

static void sqlite_end(struct query *q) {
        /* Both repeat at most the failure that the step has reported already. */
        (void)sqlite3_reset(q->st);
        (void)sqlite3_clear_bindings(q->st);
}

static void sqlite_bind(struct query *q, int n, const struct value *v) {
        int rc = SQLITE_OK;

        switch (v->type) {
        case VALUE_NULL:
                rc = sqlite3_bind_null(q->st, n);
                break;
        case VALUE_INTEGER:
                rc = sqlite3_bind_int64(q->st, n, v->i);
                break;
        case VALUE_REAL:
                rc = sqlite3_bind_double(q->st, n, v->d);
                break;
        case VALUE_TEXT:
                rc = sqlite3_bind_text64(q->st, n, v->p, v->n, SQLITE_STATIC, SQLITE_UTF8);
                break;
        case VALUE_BLOB:
                rc = sqlite3_bind_blob64(q->st, n, v->p, v->n, SQLITE_STATIC);
                break;
        }
        query_failed(q, rc);
}

static int sqlite_step(struct query *q, struct err *e) {
        int rc;

        errno = 0;
        rc = sqlite3_step(q->st);
        q->s->commit_errno = 0;
        if (rc == SQLITE_ROW)
                return 1;
        if (rc == SQLITE_DONE)
                return 0;
        if (q->which == STMT_COMMIT)
                q->s->commit_errno = errno;
        return store_fail(q->s, rc, sqlite3_sql(q->st), e);
}

static int sqlite_insert(struct query *q, uint64_t *ret_id, struct err *e) {
        int r = query_run(q, e);

        if (r == 0)
                *ret_id = (uint64_t)sqlite3_last_insert_rowid(q->s->db);
        return r;
}

static int64_t sqlite_changes(struct query *q) {
        return sqlite3_changes(q->s->db);
}

static int sqlite_n_columns(struct query *q) {
        return sqlite3_column_count(q->st);
}

static const char *sqlite_name(struct query *q, int col) {
        return sqlite3_column_name(q->st, col);
}

static void read_bytes(struct query *q, int col, struct value *ret) {
        ret->p = sqlite3_column_blob(q->st, col);
        ret->n = (size_t)sqlite3_column_bytes(q->st, col);
        if (ret->p)
                return;
        /* Empty, or out of memory while it was put together. */
        if (ret->n || sqlite3_errcode(sqlite3_db_handle(q->st)) == SQLITE_NOMEM)
                query_failed(q, SQLITE_NOMEM);
        ret->p = "";
        ret->n = 0;
}

static void sqlite_column(struct query *q, int col, struct value *ret) {
        *ret = (struct value){.type = VALUE_NULL};
        switch (sqlite3_column_type(q->st, col)) {
        case SQLITE_INTEGER:
                ret->type = VALUE_INTEGER;
                ret->i = sqlite3_column_int64(q->st, col);
                break;
        case SQLITE_FLOAT:
                ret->type = VALUE_REAL;
                ret->d = sqlite3_column_double(q->st, col);
                break;
        case SQLITE_TEXT:
                ret->type = VALUE_TEXT;
                read_bytes(q, col, ret);
                break;
        case SQLITE_BLOB:
                ret->type = VALUE_BLOB;
                read_bytes(q, col, ret);
                break;
        default:
                break;
        }
}

const struct store_driver sqlite_driver = {
        .begin = sqlite_begin,
        .end = sqlite_end,
        .bind = sqlite_bind,
        .step = sqlite_step,
        .insert = sqlite_insert,
        .changes = sqlite_changes,
        .n_columns = sqlite_n_columns,
        .name = sqlite_name,
        .column = sqlite_column,
        .fail = sqlite_fail,
        .txn_begin = sqlite_txn_begin,
        .txn_commit = sqlite_txn_commit,
        .txn_end = sqlite_txn_end,
        .read_begin = sqlite_read_begin,
        .read_end = sqlite_read_end,
        .hold = sqlite_hold,
};
