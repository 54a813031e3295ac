/* SPDX-License-Identifier: MIT */
/*
 * Who has what: owners one after the other, the conversations of one in pages, and those that have memory on this disk.
 *
 * An administrator's look at all users may take long where there are many. So it is a walk of many short calls, each a
 * reading transaction of its own over a few rows of an index: other readers get in between, and what changes meanwhile is
 * counted as it was or as it is.
 */
#include "base/util.h"
#include "store/store-private.h"

/* The number in the first row of @statement, of which @n is the parameter. 1; 0: there is no row. */
static int first_number(struct store *s, enum store_stmt statement, uint64_t n, uint64_t most,
        uint64_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        _query_ q = {};
        uint64_t found;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = query_begin(&q, s, statement, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, n);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        found = query_number(&q, 0, most);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        *ret = found;
        return 1;
}

int store_owner_next(struct store *s, uint64_t from, uint64_t *ret, struct err *e) {
        return from > OWNER_MAX ? 0 : first_number(s, STMT_OWNER_NEXT, from, OWNER_MAX, ret, e);
}

int store_on_disk_before(struct store *s, uint64_t before, uint64_t *ret, struct err *e) {
        return first_number(
                s, STMT_ON_DISK_BEFORE, MIN(before, (uint64_t)INT64_MAX), INT64_MAX, ret, e);
}

static void take_owned(struct query *q, void *out) {
        *(struct store_owned *)out = (struct store_owned){.id = query_number(q, 0, INT64_MAX),
                .n_tokens = query_u32(q, 1),
                .updated_usec = query_number(q, 2, INT64_MAX)};
}

int store_owned(struct store *s, uint64_t owner, uint64_t after, struct store_owned *out,
        size_t max, size_t *ret_n, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        _query_ q = {};
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_OWNER_CONVS, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, owner);
        query_bind_u64(&q, after);
        query_bind_u64(&q, max);
        return query_rows(&q, take_owned, out, sizeof(*out), max, ret_n, e);
}

int store_last_id(struct store *s, uint64_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        _query_ q = {};
        uint64_t last = 0;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_CONV_LAST_ID, e);
        if (r < 0)
                return r;
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0)
                last = query_number(&q, 0, INT64_MAX);
        r = query_check(&q, e);
        if (r == 0)
                *ret = last;
        return r;
}
