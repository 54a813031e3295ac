/* SPDX-License-Identifier: MIT */
/*
 * Records that another machine has made loose. Whoever changes the tokens of a conversation removes links to memory of the old
 * ones on all machines (STMT_LINK_CUT) and marks their records; the bytes lie on the disk of the machine whose record it is, which
 * looks for such records every now and then. One that a conversation of its own still links, or has linked again, stays.
 */
#include "store/pg.h"

static int take(struct store *s, struct store_gone *gone, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LOOSE_TAKE, e);

        if (r < 0)
                return r;
        while ((r = query_step(&q, e)) > 0) {
                struct store_record rec;

                r = record_read(&q, &rec, e);
                if (r == 0)
                        r = gone_push(gone, &rec, e);
                if (r < 0)
                        return r;
        }
        return r;
}

static int keep(struct store *s, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LOOSE_KEEP, e);

        return r < 0 ? r : query_run(&q, e);
}

static int loose_once(struct store *s, struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone got = {};
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = take(s, &got, e);
        if (r == 0)
                r = keep(s, e);
        if (r == 0)
                r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *gone = got;
        got = (struct store_gone){};
        return 0;
}

int store_loose(struct store *s, struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        *gone = (struct store_gone){};
        if (!s->pg)
                return 0;
        do
                r = loose_once(s, gone, e);
        while (txn_again(s, &r, e));
        return r;
}
