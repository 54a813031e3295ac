/* SPDX-License-Identifier: MIT */
/*
 * Making room on disk: the order in which records go.
 *
 * Reclaiming makes rounds over the conversations, least recently updated first. A round removes
 * records from each conversation's tail as long as no more conversations refer to them than the
 * round allows: 1 in the first round, twice as many in each further round, so that widely shared
 * records go last. Published blocks count as shared by all and have a round of their own. A shared
 * record is removed from all its conversations at once, since otherwise no space is gained. Cutting
 * a conversation at a block also removes its later blocks: memory after a hole is useless until the
 * hole has been computed again.
 *
 * With a uid, rounds see only that uid's conversations. Records that the uid pays for but none of
 * its conversations has (of a published conversation that was closed) go last.
 */
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

struct reclaim {
        struct store *s;
        uint32_t uid;
        uint64_t wanted, keep;
        struct store_reclaimed got;
        size_t n_counted; /* of got.gone.records, in got.bytes */
};

void store_reclaimed_deinit(struct store_reclaimed *r) {
        if (!r)
                return;
        store_gone_deinit(&r->gone);
        free(r->cuts);
        *r = (struct store_reclaimed){};
}

static void reclaim_deinit(struct reclaim *x) {
        store_reclaimed_deinit(&x->got);
}

static bool enough(const struct reclaim *x) {
        return x->got.bytes >= x->wanted;
}

static int note_cut(struct reclaim *x, uint64_t conv, uint64_t from, struct err *e) {
        void *p = x->got.cuts;

        if (array_grow(&p, x->got.n_cuts, sizeof(*x->got.cuts)) < 0)
                return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
        x->got.cuts = p;
        x->got.cuts[x->got.n_cuts++] =
                (struct store_cut){.conv = conv, .from_index = (uint32_t)from};
        return 0;
}

static int cut(struct reclaim *x, uint64_t conv, uint64_t from, struct err *e) {
        int r = links_cut(x->s, conv, from, &x->got.gone, e);

        if (r < 0)
                return r;
        for (; x->n_counted < x->got.gone.n; x->n_counted++) {
                const struct store_record *rec = &x->got.gone.records[x->n_counted];

                if (x->uid == STORE_UID_ANY || rec->uid == x->uid)
                        x->got.bytes += rec->stored_size;
        }
        return note_cut(x, conv, from, e);
}

struct user {
        uint64_t conv, block;
};
struct users {
        struct user *v;
        size_t n;
};
static void users_deinit(struct users *u) {
        free(u->v);
}

static int list_users(struct reclaim *x, uint64_t record, struct users *us, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_LINK_USERS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, record);
        for (;;) {
                void *p = us->v;

                r = query_step(&q, e);
                if (r <= 0)
                        return r;
                if (array_grow(&p, us->n, sizeof(*us->v)) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
                us->v = p;
                us->v[us->n++] = (struct user){
                        query_number(&q, 0, INT64_MAX), query_number(&q, 1, UINT32_MAX)};
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
}

/* Remove @record from all conversations that refer to it. 0: one of them is to be kept. */
static int take_shared(struct reclaim *x, uint64_t record, struct err *e) {
        _cleanup_(users_deinit) struct users us = {};
        int r = list_users(x, record, &us, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < us.n; i++)
                if (us.v[i].conv == x->keep)
                        return 0;
        for (size_t i = 0; i < us.n; i++) {
                r = cut(x, us.v[i].conv, us.v[i].block, e);
                if (r < 0)
                        return r;
        }
        return us.n > 0;
}

/* What can be removed at a conversation's tail. */
struct tail {
        bool found;            /* blocks from @from on are its own */
        uint64_t from, shared; /* @shared: a record to be removed from several, or 0 */
};

/* Find the blocks at the end that only @conv refers to, as many as are needed; if there are none,
 * the last record if at most @max conversations refer to it. */
static int read_tail(struct reclaim *x, uint64_t conv, uint64_t max, bool published,
        struct tail *ret, struct err *e) {
        struct tail t = {};
        uint64_t bytes = x->got.bytes;
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_LINK_TAIL, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, conv);
        query_bind_u64(&q, max + 1);
        for (;;) {
                uint64_t block, record, size, n_users;
                uint32_t uid;
                bool is_public;

                r = query_step(&q, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
                block = query_number(&q, 0, UINT32_MAX);
                record = query_number(&q, 1, INT64_MAX);
                size = query_number(&q, 2, INT64_MAX);
                uid = query_u32(&q, 3);
                is_public = query_number(&q, 4, 1);
                n_users = query_number(&q, 5, INT64_MAX);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
                if (t.found && block != t.from && bytes >= x->wanted)
                        break;
                if (n_users > 1 || (is_public && !published)) {
                        /* Of a block in several classes all go, or none. */
                        if (t.found && block == t.from)
                                t.from++;
                        else if (!t.found && n_users <= max && (published || !is_public))
                                t.shared = record;
                        break;
                }
                t.found = true;
                t.from = block;
                if (x->uid == STORE_UID_ANY || uid == x->uid)
                        bytes += size;
        }
        *ret = t;
        return 0;
}

static int take_tail(
        struct reclaim *x, uint64_t conv, uint64_t max, bool published, struct err *e) {
        while (!enough(x)) {
                struct tail t;
                int r = read_tail(x, conv, max, published, &t, e);

                if (r < 0)
                        return r;
                if (t.shared)
                        r = take_shared(x, t.shared, e);
                else if (t.found)
                        r = cut(x, conv, t.from, e);
                else
                        return 0;
                if (r < 0)
                        return r;
                if (t.shared && r == 0)
                        return 0;
        }
        return 0;
}

/* The progress of a round. */
struct place {
        int64_t updated_usec, id;
};

/* The next conversations that have records, least recently updated first. Only as many as are
 * likely to be needed: there may be very many. */
static int list_convs(struct reclaim *x, struct place *at, struct ids *ids, struct err *e) {
        bool any = x->uid == STORE_UID_ANY;
        _query_ q = {};
        int r = query_begin(&q, x->s, any ? STMT_RECLAIM_CONVS_ANY : STMT_RECLAIM_CONVS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, MIN(x->keep, (uint64_t)INT64_MAX));
        query_bind_i64(&q, at->updated_usec);
        query_bind_i64(&q, at->id);
        if (!any)
                query_bind_i64(&q, x->uid);
        while ((r = query_step(&q, e)) > 0) {
                at->id = (int64_t)query_number(&q, 0, INT64_MAX);
                at->updated_usec = (int64_t)query_u64(&q, 1);
                r = query_check(&q, e);
                if (r == 0)
                        r = ids_push(ids, (uint64_t)at->id, e);
                if (r < 0)
                        return r;
        }
        return r;
}

/* *ret_n: conversations that were visited. */
static int run_round(
        struct reclaim *x, uint64_t max, bool published, uint64_t *ret_n, struct err *e) {
        struct place at = {INT64_MIN, 0};

        for (*ret_n = 0; !enough(x);) {
                _cleanup_(ids_deinit) struct ids convs = {};
                int r = list_convs(x, &at, &convs, e);

                if (r < 0 || convs.n == 0)
                        return r;
                *ret_n += convs.n;
                for (size_t i = 0; i < convs.n && !enough(x); i++) {
                        r = take_tail(x, convs.v[i], max, published, e);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int run_rounds(struct reclaim *x, struct err *e) {
        for (unsigned round = 0; round <= 33 && !enough(x); round++) {
                bool last = round == 33;
                uint64_t n;
                int r = run_round(x, last ? INT32_MAX : 1ull << round, last, &n, e);

                if (r < 0)
                        return r;
                /* More than all there are: on to the published ones. */
                if (round < 32 && 1ull << round > n)
                        round = 32;
        }
        return 0;
}

/* Remove records that no conversation of their payer has. */
static int take_orphaned(struct reclaim *x, struct err *e) {
        _cleanup_(ids_deinit) struct ids records = {};
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_RECLAIM_RECORDS, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, x->uid);
        r = ids_read(&q, &records, e);
        query_end(&q);
        if (r < 0)
                return r;
        for (size_t i = 0; i < records.n && !enough(x); i++) {
                r = take_shared(x, records.v[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int by_conv(const void *a, const void *b) {
        const struct store_cut *x = a, *y = b;

        if (x->conv != y->conv)
                return x->conv < y->conv ? -1 : 1;
        return x->from_index < y->from_index ? -1 : x->from_index > y->from_index;
}

/* One cut per conversation, the lowest. */
static void merge_cuts(struct store_reclaimed *got) {
        size_t n = 0;

        if (got->n_cuts == 0)
                return;
        qsort(got->cuts, got->n_cuts, sizeof(*got->cuts), by_conv);
        for (size_t i = 0; i < got->n_cuts; i++)
                if (i == 0 || got->cuts[i].conv != got->cuts[i - 1].conv)
                        got->cuts[n++] = got->cuts[i];
        got->n_cuts = n;
}

/* Commit, and pass the removed records to the caller. */
static int hand_out(
        struct reclaim *x, struct store **txn, struct store_reclaimed *ret, struct err *e) {
        int r = txn_commit(txn, e);

        if (r < 0)
                return r;
        merge_cuts(&x->got);
        *ret = x->got;
        x->got = (struct store_reclaimed){};
        return 0;
}

int store_reclaim(struct store *s, uint32_t uid, uint64_t bytes, uint64_t keep_conv,
        struct store_reclaimed *ret, struct err *e) {
        STORE_LOCK(s);
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(reclaim_deinit) struct reclaim x = {
                .s = s, .uid = uid, .wanted = bytes, .keep = keep_conv};
        int r;

        r = txn_begin(s, &txn, e);
        if (r < 0)
                return r;
        r = run_rounds(&x, e);
        if (r < 0)
                return r;
        if (!enough(&x) && uid != STORE_UID_ANY) {
                r = take_orphaned(&x, e);
                if (r < 0)
                        return r;
        }
        return hand_out(&x, &txn, ret, e);
}

int store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e) {
        STORE_LOCK(s);
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(reclaim_deinit) struct reclaim x = {.s = s, .uid = STORE_UID_ANY};
        int r;

        r = txn_begin(s, &txn, e);
        if (r == 0)
                r = store_id_possible(record) ? take_shared(&x, record, e) : 0;
        if (r < 0)
                return r;
        return hand_out(&x, &txn, ret, e);
}
