/* SPDX-License-Identifier: MIT */
/* Locks and transactions, whichever backend has the register. */
#include "store/store-private.h"

struct store *store_lock(struct store *s) {
        pthread_mutex_lock(&s->mutex);
        return s;
}

int txn_begin(struct store *s, struct store **ret, struct err *e) {
        int r = s->driver->txn_begin(s, e);

        if (r == 0)
                *ret = s;
        return r;
}

int txn_commit(struct store **txn, struct err *e) {
        return (*txn)->driver->txn_commit(txn, e);
}

void txn_endp(struct store **txn) {
        if (*txn)
                (*txn)->driver->txn_end(*txn);
}

bool txn_again(struct store *s, int *r, struct err *e) {
        return s->driver->again && s->driver->again(s, r, e);
}

int read_begin(struct store **s, struct store **ret, struct err *e) {
        struct store *reader = (*s)->reader ? (*s)->reader : *s;
        int r;

        store_lock(reader);
        r = reader->driver->read_begin(reader, reader != *s, e);
        if (r < 0) {
                pthread_mutex_unlock(&reader->mutex);
                return r;
        }
        *s = *ret = reader;
        return 0;
}

void read_endp(struct store **reading) {
        struct store *s = *reading;

        if (!s)
                return;
        s->driver->read_end(s);
        pthread_mutex_unlock(&s->mutex);
}

int store_hold(struct store *s, struct err *e) {
        STORE_LOCK(s);

        return s->driver->hold ? s->driver->hold(s, e) : 0;
}
