/* SPDX-License-Identifier: MIT */
/* Small persistent numbers, such as the bytes written today. */
#include "store/store-private.h"
#include <string.h>

#define METER_NAME_MAX 64

static int check_meter(const char *name, struct err *e) {
        size_t n = name ? strnlen(name, METER_NAME_MAX + 1) : 0;

        if (n == 0 || n > METER_NAME_MAX)
                return err_set(e, ERR_INVALID, "a meter's name has 1 to %d bytes", METER_NAME_MAX);
        return 0;
}

static int set_one(struct store *s, const struct store_meter *m, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_METER_SET, e);

        if (r < 0)
                return r;
        query_bind_text(&q, m->name, strlen(m->name));
        query_bind_i64(&q, m->value);
        return query_run(&q, e);
}

int meters_set(struct store *s, const struct store_meter *meters, size_t n, struct err *e) {
        for (size_t i = 0; i < n; i++) {
                int r = check_meter(meters[i].name, e);

                if (r < 0)
                        return r;
                r = set_one(s, &meters[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int store_meter_get(struct store *s, const char *name, int64_t *ret, struct err *e) {
        STORE_LOCK(s);
        _query_ q = {};
        int64_t v = 0;
        int r = check_meter(name, e);

        if (r < 0)
                return r;
        r = query_begin(&q, s, STMT_METER_GET, e);
        if (r < 0)
                return r;
        query_bind_text(&q, name, strlen(name));
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0) {
                v = (int64_t)query_u64(&q, 0);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
        *ret = v;
        return 0;
}

static int meter_set_once(
        struct store *s, const struct store_meter *meters, size_t n, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r < 0)
                return r;
        r = meters_set(s, meters, n, e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

int store_meter_set(struct store *s, const struct store_meter *meters, size_t n, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = meter_set_once(s, meters, n, e);
        while (txn_again(s, &r, e));
        return r;
}
