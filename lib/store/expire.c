/* SPDX-License-Identifier: MIT */
/*
 * Throw-away conversations: those with expires_after, which are closed when nobody has used them for so
 * many seconds, or when their owner has too many.
 *
 * 1. Finding them walks an index of throw-away conversations alone, those that are due first.
 * 2. What was found is closed only if it still is due in the transaction that removes it: a turn or an
 *    Update that came meanwhile keeps it.
 */
#include "store/store-private.h"

#define SECOND 1000000u

static void take_throwaway(struct query *q, void *out) {
        *(struct store_throwaway *)out =
                (struct store_throwaway){.id = query_number(q, 0, INT64_MAX),
                        .owner = query_number(q, 1, OWNER_MAX),
                        .expires_after = query_u32(q, 2),
                        .due_usec = query_number(q, 3, INT64_MAX)};
}

/* Rows of @stmt, whose parameters are @a, @b and the number of rows. */
static int read_rows(struct store *s, enum store_stmt stmt, uint64_t a, uint64_t b,
        struct store_throwaway *out, size_t max, size_t *ret_n, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, stmt, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, a);
        query_bind_u64(&q, b);
        query_bind_u64(&q, max);
        return query_rows(&q, take_throwaway, out, sizeof(*out), max, ret_n, e);
}

int store_throwaways(struct store *s, const struct store_throwaway *after,
        struct store_throwaway *out, size_t max, size_t *ret_n, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r
                     : read_rows(
                               s, STMT_EXPIRE_LIST, after->due_usec, after->id, out, max, ret_n, e);
}

int store_throwaways_beyond(struct store *s, uint32_t most, const struct store_throwaway *after,
        struct store_throwaway *out, size_t max, size_t *ret_n, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : read_rows(s, STMT_EXPIRE_BEYOND, most, after->id, out, max, ret_n, e);
}

int expire_check(struct store *s, const struct store_conv *c, uint64_t now_usec, struct err *e) {
        uint64_t expires;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_EXPIRE_GET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        r = query_step(&q, e);
        if (r <= 0)
                return r < 0 ? r : err_set(e, ERR_NOT_FOUND, "no such conversation");
        expires = query_number(&q, 0, UINT32_MAX);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        if (expires == 0 || c->updated_usec + expires * SECOND > now_usec)
                return err_set(e, ERR_STATE, "the conversation is not due to be closed");
        return 0;
}
