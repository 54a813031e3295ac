/* SPDX-License-Identifier: MIT */
/*
 * Pages of conversations, by id or by time of change, all of them or those with a tag.
 *
 * 1. A page begins behind a place (time, id), not behind a number of rows: what comes and goes meanwhile
 *    moves no other conversation out of the next page.
 * 2. Each combination is a statement of its own that walks one index (tests/unit/store/test-plan.c).
 *    Only those with a tag and without an owner sort: they are for administrators.
 */
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

static enum store_stmt choose(const struct store_list *list) {
        static const enum store_stmt all[2][2][2] = {/* [by_update][tag][any owner] */
                {{STMT_CONV_LIST, STMT_CONV_LIST_ANY}, {STMT_LIST_ID_TAG, STMT_LIST_ID_TAG_ANY}},
                {{STMT_LIST_UPDATED, STMT_LIST_UPDATED_ANY},
                        {STMT_LIST_UPDATED_TAG, STMT_LIST_UPDATED_TAG_ANY}}};

        return all[list->by_update][list->tag != NULL][list->owner == OWNER_ANY];
}

/* The parameters have the same numbers in all statements, but for the two that are older. */
static void bind(struct query *q, const struct store_list *list, size_t max) {
        struct store_list_place after = list->after;

        if (!list->goes_on)
                after = list->by_update ? (struct store_list_place){INT64_MAX, INT64_MAX}
                                        : (struct store_list_place){};
        after.updated_usec = MIN(after.updated_usec, (uint64_t)INT64_MAX);
        after.id = MIN(after.id, (uint64_t)INT64_MAX);
        if (!list->by_update && !list->tag) {
                query_bind_u64(q, after.id);
                if (list->owner != OWNER_ANY)
                        query_bind_u64(q, list->owner);
        } else {
                query_bind_text(q, list->tag ? list->tag : "", list->tag ? strlen(list->tag) : 0);
                query_bind_u64(q, list->owner);
                query_bind_u64(q, after.updated_usec);
                query_bind_u64(q, after.id);
        }
        query_bind_u64(q, MIN((uint64_t)max, (uint64_t)INT64_MAX - 1) + 1); /* one tells of more */
}

int listed_read(struct query *q, struct store *s, store_admit_fn *admit, void *arg,
        struct store_listed *out, struct err *e) {
        int r = conv_read_row(q, &out->conv, e);

        if (r == 0) {
                out->disk_size = query_number(q, CONV_DISK_SIZE_COLUMN, INT64_MAX);
                r = query_check(q, e);
        }
        if (r == 0)
                r = about_read(s, out->conv.id, admit, arg, &out->about, e);
        return r == -ERR_CORRUPT && out->conv.id && !q->bad ? 0 : r;
}

static bool is_full(int r) {
        return r == -ERR_LIMIT || r == -ERR_TOO_LARGE;
}

static int read_page(struct store *s, const struct store_list *list, store_admit_fn *admit,
        void *arg, struct store_listed *out, size_t max, size_t *ret_n, bool *ret_more,
        struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, choose(list), e);

        if (r < 0)
                return r;
        bind(&q, list, max);
        while ((r = query_step(&q, e)) > 0 && *ret_n < max) {
                r = listed_read(&q, s, admit, arg, &out[*ret_n], e);
                if (is_full(r) && *ret_n > 0) {
                        *ret_more = true;
                        return 0;
                }
                if (r < 0)
                        return r;
                (*ret_n)++;
        }
        *ret_more = r > 0;
        return MIN(r, 0);
}

int store_list(struct store *s, const struct store_list *list, store_admit_fn *admit, void *arg,
        struct store_listed *out, size_t max, size_t *ret_n, bool *ret_more, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        bool more = false;
        size_t n = 0;
        int r = read_begin(&s, &reading, e);

        for (size_t i = 0; i < max; i++)
                out[i] = (struct store_listed){};
        if (r == 0)
                r = read_page(s, list, admit, arg, out, max, &n, &more, e);
        if (r < 0)
                return r;
        *ret_n = n;
        *ret_more = more;
        return 0;
}
