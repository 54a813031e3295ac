/* SPDX-License-Identifier: MIT */
/*
 * Where a page of conversations begins.
 *
 * A cursor is the order's letter and the place behind which the list goes on: "i12" is the conversation 12
 * by id, "u1700000000000000.12" the same by time of change. Clients do not look into it.
 */
#include "daemon/methods-private.h"
#include <inttypes.h>
#include <stdio.h>

/* Digits at *s, up to the first byte that is none. */
static bool take_digits(const char **s, uint64_t *ret) {
        const char *p = *s;
        uint64_t n = 0;

        while (*p >= '0' && *p <= '9')
                if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
                        __builtin_add_overflow(n, (uint64_t)(*p++ - '0'), &n))
                        return false;
        if (p == *s)
                return false;
        *s = p;
        *ret = n;
        return true;
}

static bool parse_cursor(const char *s, enum engine_order *order, struct engine_place *ret) {
        bool updated = *s == 'u';

        if (!updated && *s != 'i')
                return false;
        s++;
        if (updated && (!take_digits(&s, &ret->updated_usec) || *s++ != '.'))
                return false;
        *order = updated ? ENGINE_ORDER_UPDATED : ENGINE_ORDER_ID;
        return take_digits(&s, &ret->id) && *s == '\0';
}

static int take_order(const Confab__V1__List *in, struct engine_request *out, struct err *e) {
        switch (in->order) {
        case CONFAB__V1__ORDER__ORDER_UNSPECIFIED:
        case CONFAB__V1__ORDER__ORDER_ID:
                out->order = ENGINE_ORDER_ID;
                return 0;
        case CONFAB__V1__ORDER__ORDER_UPDATED:
                out->order = ENGINE_ORDER_UPDATED;
                return 0;
        default:
                return err_set(
                        e, ERR_INVALID, "order: a list is ordered by id or by time of change");
        }
}

int methods_take_place(const Confab__V1__List *in, struct engine_request *out, struct err *e) {
        enum engine_order order = ENGINE_ORDER_UNSET;
        int r = take_order(in, out, e);

        if (r < 0)
                return r;
        if (in->cursor && *in->cursor) {
                if (in->after_id)
                        return err_set(
                                e, ERR_INVALID, "a list goes on by cursor or after_id, not both");
                if (!parse_cursor(in->cursor, &order, &out->after))
                        return err_set(
                                e, ERR_INVALID, "cursor: it is not of a page of this daemon");
                if (order != out->order)
                        return err_set(e, ERR_INVALID, "cursor: it is of a list in another order");
                out->goes_on = true;
        } else if (in->after_id) {
                if (out->order != ENGINE_ORDER_ID)
                        return err_set(e, ERR_INVALID,
                                "after_id: a list by time of change goes on by its cursor");
                out->goes_on = true;
                out->after.id = in->after_id;
        }
        return 0;
}

char *methods_put_cursor(const struct engine_event *in, size_t n, char out[METHODS_CURSOR_SIZE]) {
        struct engine_place place = in->convs.after;

        if (n < in->convs.n && n > 0)
                place = (struct engine_place){
                        in->convs.convs[n - 1].updated_usec, in->convs.convs[n - 1].id};
        if (in->convs.order == ENGINE_ORDER_UPDATED)
                snprintf(out, METHODS_CURSOR_SIZE, "u%" PRIu64 ".%" PRIu64, place.updated_usec,
                        place.id);
        else
                snprintf(out, METHODS_CURSOR_SIZE, "i%" PRIu64, place.id);
        return out;
}
