/* SPDX-License-Identifier: MIT */
/* Statements and their values, checked; the same for both backends. */
#include "store/store-private.h"
#include <math.h>

int query_begin(struct query *q, struct store *s, enum store_stmt which, struct err *e) {
        int r;

        *q = (struct query){.s = s, .which = which};
        r = s->driver->begin(q, e);
        if (r < 0)
                q->s = NULL;
        return r;
}

void query_end(struct query *q) {
        if (!q->s)
                return;
        q->s->driver->end(q);
        q->s = NULL;
}

void query_failed(struct query *q, int rc) {
        if (q->rc == 0)
                q->rc = rc;
}

static void bind(struct query *q, const struct value *v) {
        q->s->driver->bind(q, ++q->n_bound, v);
}

void query_bind_null(struct query *q) {
        bind(q, &(struct value){.type = VALUE_NULL});
}

void query_bind_i64(struct query *q, int64_t v) {
        bind(q, &(struct value){.type = VALUE_INTEGER, .i = v});
}

void query_bind_u64(struct query *q, uint64_t v) {
        query_bind_i64(q, (int64_t)v);
}

void query_bind_float(struct query *q, float v) {
        bind(q, &(struct value){.type = VALUE_REAL, .d = (double)v});
}

/* A NULL pointer would be NULL instead of an empty value. */
void query_bind_text(struct query *q, const char *s, size_t n) {
        bind(q, &(struct value){.type = VALUE_TEXT, .p = s ? s : "", .n = n});
}

void query_bind_blob(struct query *q, const void *p, size_t n) {
        bind(q, &(struct value){.type = VALUE_BLOB, .p = p ? p : "", .n = n});
}

int query_step(struct query *q, struct err *e) {
        if (q->rc != 0)
                return q->s->driver->fail(q, "binding a value", e);
        return q->s->driver->step(q, e);
}

int query_run(struct query *q, struct err *e) {
        int r = query_step(q, e);

        if (r > 0)
                return err_set(e, ERR_STATE, "register: unexpected row");
        return r;
}

int query_insert(struct query *q, uint64_t *ret_id, struct err *e) {
        return q->s->driver->insert(q, ret_id, e);
}

int64_t query_changes(struct query *q) {
        return q->s->driver->changes(q);
}

int query_n_columns(struct query *q) {
        return q->s->driver->n_columns(q);
}

static struct value column(struct query *q, int col) {
        struct value v;

        q->s->driver->column(q, col, &v);
        return v;
}

bool query_is_null(struct query *q, int col) {
        return column(q, col).type == VALUE_NULL;
}

void query_bad(struct query *q, int col) {
        if (!q->bad)
                q->bad = q->s->driver->name(q, col);
        if (!q->bad)
                q->bad = "a column";
}

uint64_t query_u64(struct query *q, int col) {
        struct value v = column(q, col);

        if (v.type != VALUE_INTEGER) {
                query_bad(q, col);
                return 0;
        }
        return (uint64_t)v.i;
}

uint64_t query_number(struct query *q, int col, uint64_t max) {
        uint64_t v = query_u64(q, col);

        if (v > max) {
                query_bad(q, col);
                return 0;
        }
        return v;
}

uint32_t query_u32(struct query *q, int col) {
        return (uint32_t)query_number(q, col, UINT32_MAX);
}

float query_float(struct query *q, int col) {
        struct value v = column(q, col);
        double d = v.type == VALUE_REAL ? v.d : (double)NAN;
        float f;

        /* Out of float's range the conversion itself would be undefined. */
        if (isnan(d) || (!isinf(d) && fabs(d) > (double)3.402823466e+38f) ||
                (double)(f = (float)d) != d) {
                query_bad(q, col);
                return 0;
        }
        return f;
}

const void *query_bytes(struct query *q, int col, size_t *ret_size) {
        struct value v = column(q, col);

        *ret_size = 0;
        if (v.type == VALUE_NULL)
                return "";
        if (v.type != VALUE_TEXT && v.type != VALUE_BLOB) {
                query_bad(q, col);
                return "";
        }
        *ret_size = v.n;
        return v.p;
}

int query_check(struct query *q, struct err *e) {
        if (q->rc != 0)
                return q->s->driver->fail(q, "reading a row", e);
        if (q->bad)
                return err_set(e, ERR_CORRUPT, "register is damaged: %s cannot be so", q->bad);
        return 0;
}

int query_rows(struct query *q, query_take_fn *take, void *out, size_t size, size_t max,
        size_t *ret_n, struct err *e) {
        size_t n = 0;
        int r = 0;

        for (; n < max && (r = query_step(q, e)) > 0; n++) {
                take(q, (char *)out + n * size);
                r = query_check(q, e);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        *ret_n = n;
        return 0;
}
