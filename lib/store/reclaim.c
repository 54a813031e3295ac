/* SPDX-License-Identifier: MIT */
/*
 * Making room on disk: the order in which records go.
 *
 * Reclaiming makes rounds over the conversations, least recently updated first. A round removes
 * records from each conversation as long as no more conversations refer to them than the
 * round allows: 1 in the first round, twice as many in each further round, so that widely shared
 * records go last. Published cells count as shared by all and have a round of their own. A shared
 * record is removed from all its conversations at once, since otherwise no space is gained.
 *
 * Of one conversation go, in this order (places.c tells which cells are of what use):
 *
 *   1. cells that no whole position needs
 *   2. cells that only earlier positions need (checkpoints), from the beginning on: a rewind or a fork
 *      most often goes back to a late one, and the conversation's end loses nothing
 *   3. cells that its end needs, from the tail on. The end is then an earlier position: 1 again
 *
 * So no link is left that is of no use, and as much as possible of what is left is of use. If a model's
 * memory is of class ALL alone every position is whole, there are no checkpoints, and this is a cut
 * at the tail. Of other models the end may need cells that stand for all tokens before (a state), and may
 * be lost as a whole: then what was computed up to there is worth nothing without it.
 *
 * With an owner, rounds see only that owner's conversations. Records that the owner pays for but none of
 * its conversations has (of a published conversation that was closed) go last.
 */
#include "base/util.h"
#include "store/places.h"
#include <string.h>

struct reclaim {
        struct store *s;
        uint64_t owner;
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

static bool is_all_alone(const struct store_shape *shape) {
        return (shape->classes & ~(1u << STORE_CLASS_ALL)) == 0;
}

static int drop_useless(struct reclaim *x, uint64_t conv, struct err *e);

static bool enough(const struct reclaim *x) {
        return x->got.bytes >= x->wanted;
}

static int note_cut(struct reclaim *x, uint64_t conv, uint32_t block_class, uint64_t from,
        uint64_t to, struct err *e) {
        void *p = x->got.cuts;

        if (array_grow(&p, x->got.n_cuts, sizeof(*x->got.cuts)) < 0)
                return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
        x->got.cuts = p;
        x->got.cuts[x->got.n_cuts++] = (struct store_cut){.conv = conv,
                .block_class = block_class,
                .from = (uint32_t)MIN(from, (uint64_t)UINT32_MAX),
                .to = (uint32_t)MIN(to, (uint64_t)UINT32_MAX)};
        return 0;
}

/* Count the records that have gone. */
static void count_gone(struct reclaim *x) {
        for (; x->n_counted < x->got.gone.n; x->n_counted++) {
                const struct store_record *rec = &x->got.gone.records[x->n_counted];

                if (x->owner == OWNER_ANY || rec->owner == x->owner)
                        x->got.bytes += rec->stored_size;
        }
}

/* Remove all cells of @conv that cover tokens from the beginning of block @from on. */
static int cut(struct reclaim *x, uint64_t conv, const struct store_shape *shape, uint64_t from,
        struct err *e) {
        uint64_t state = from * shape->block_tokens;
        int r = links_cut(x->s, STMT_LINK_CUT_OWN, conv, from, state, &x->got.gone, e);

        count_gone(x);
        if (r == 0)
                r = note_cut(x, conv, STORE_CLASS_ALL, from, UINT32_MAX, e);
        if (r == 0 && store_has_class(shape, STORE_CLASS_WINDOW))
                r = note_cut(x, conv, STORE_CLASS_WINDOW, from, UINT32_MAX, e);
        if (r == 0 && store_has_class(shape, STORE_CLASS_STATE))
                r = note_cut(x, conv, STORE_CLASS_STATE, state, UINT32_MAX, e);
        return r;
}

/* Remove these cells of @conv. */
static int drop(
        struct reclaim *x, uint64_t conv, const struct store_cell *cells, size_t n, struct err *e) {
        int r = links_drop(x->s, conv, cells, n, &x->got.gone, e);

        count_gone(x);
        for (size_t i = 0; i < n && r == 0; i++)
                r = note_cut(x, conv, cells[i].block_class, cells[i].index,
                        (uint64_t)cells[i].index + 1, e);
        return r;
}

struct user {
        uint64_t conv;
        struct store_cell cell;
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
                us->v[us->n++] = (struct user){query_number(&q, 0, INT64_MAX),
                        {.index = query_u32(&q, 1), .block_class = query_u32(&q, 2)}};
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
}

/* Remove a cell that is lost, and with class ALL all behind it. */
static int lose(struct reclaim *x, const struct user *u, struct err *e) {
        struct store_shape shape;
        int r;

        if (u->cell.block_class != STORE_CLASS_ALL)
                return drop(x, u->conv, &u->cell, 1, e);
        r = conv_shape(x->s, u->conv, &shape, e);
        return r < 0 ? r : cut(x, u->conv, &shape, u->cell.index, e);
}

/* Remove @record from all conversations that refer to it. 0: one of them is to be kept. */
static int take_shared(struct reclaim *x, uint64_t record, bool tidy, struct err *e) {
        _cleanup_(users_deinit) struct users us = {};
        int r = list_users(x, record, &us, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < us.n; i++)
                if (us.v[i].conv == x->keep)
                        return 0;
        for (size_t i = 0; i < us.n; i++) {
                r = lose(x, &us.v[i], e);
                if (r == 0 && tidy)
                        r = drop_useless(x, us.v[i].conv, e);
                if (r < 0)
                        return r;
        }
        return us.n > 0;
}

/* --- conversations of class ALL alone --- */

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
        query_bind_u64(&q, MIN(x->keep, (uint64_t)INT64_MAX));
        for (;;) {
                uint64_t block, record, size, owner, n_users;
                bool is_public;

                r = query_step(&q, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
                block = query_number(&q, 0, UINT32_MAX);
                record = query_number(&q, 1, INT64_MAX);
                size = query_number(&q, 2, INT64_MAX);
                owner = query_number(&q, 3, OWNER_MAX);
                is_public = query_number(&q, 4, 1);
                n_users = query_number(&q, 5, INT64_MAX);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
                if (t.found && block != t.from && bytes >= x->wanted)
                        break;
                if (n_users > 1 || (is_public && !published)) {
                        if (!t.found && n_users <= max && (published || !is_public))
                                t.shared = record;
                        break;
                }
                t.found = true;
                t.from = block;
                if (x->owner == OWNER_ANY || owner == x->owner)
                        bytes += size;
        }
        *ret = t;
        return 0;
}

static int take_tail(struct reclaim *x, uint64_t conv, const struct store_shape *shape,
        uint64_t max, bool published, struct err *e) {
        while (!enough(x)) {
                struct tail t;
                int r = read_tail(x, conv, max, published, &t, e);

                if (r < 0)
                        return r;
                if (t.shared)
                        r = take_shared(x, t.shared, true, e);
                else if (t.found)
                        r = cut(x, conv, shape, t.from, e);
                else
                        return 0;
                if (r < 0)
                        return r;
                if (t.shared && r == 0)
                        return 0;
        }
        return 0;
}

/* --- conversations of several classes --- */

struct places {
        struct store_place *v;
        size_t n;
};
static void places_deinit(struct places *ps) {
        free(ps->v);
}

static int read_place(struct query *q, struct store_place *ret, struct err *e) {
        *ret = (struct store_place){.cell = {query_u32(q, 6), query_u32(q, 0)},
                .n_valid = query_u32(q, 7),
                .record = query_number(q, 1, INT64_MAX),
                .stored_size = query_number(q, 2, INT64_MAX),
                .owner = query_number(q, 3, OWNER_MAX),
                .is_public = query_number(q, 4, 1),
                .n_users = query_number(q, 5, INT64_MAX),
                .is_kept = query_number(q, 8, 1)};
        if (ret->cell.block_class >= STORE_N_CLASSES)
                query_bad(q, 6);
        return query_check(q, e);
}

/* All cells of @conv, and of what use they are; by class and index. */
static int list_places(struct reclaim *x, uint64_t conv, const struct store_shape *shape,
        uint64_t max, struct places *ps, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_LINK_TAIL, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, conv);
        query_bind_u64(&q, max + 1);
        query_bind_u64(&q, MIN(x->keep, (uint64_t)INT64_MAX));
        while ((r = query_step(&q, e)) > 0) {
                void *p = ps->v;

                if (array_grow(&p, ps->n, sizeof(*ps->v)) < 0)
                        return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
                ps->v = p;
                r = read_place(&q, &ps->v[ps->n], e);
                if (r < 0)
                        return r;
                ps->n++;
        }
        if (r == 0)
                store_places_mark(shape, ps->v, ps->n);
        return r;
}

/* Remove the cells of @ps that are of no use. How many there were. */
static int drop_none(struct reclaim *x, uint64_t conv, const struct places *ps, struct err *e) {
        _cleanup_(freep) struct store_cell *cells = NULL;
        size_t n = 0;
        int r;

        cells = calloc(ps->n + 1, sizeof(*cells));
        if (!cells)
                return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
        for (size_t i = 0; i < ps->n; i++)
                if (ps->v[i].use == STORE_USE_NONE)
                        cells[n++] = ps->v[i].cell;
        r = n > 0 ? drop(x, conv, cells, n, e) : 0;
        return r < 0 ? r : n > 0;
}

static int drop_useless(struct reclaim *x, uint64_t conv, struct err *e) {
        _cleanup_(places_deinit) struct places ps = {};
        struct store_shape shape;
        int r = conv_shape(x->s, conv, &shape, e);

        if (r < 0 || is_all_alone(&shape))
                return r;
        r = list_places(x, conv, &shape, 1, &ps, e);
        if (r == 0)
                r = drop_none(x, conv, &ps, e);
        return MIN(r, 0);
}

/* Sort by the order in which cells go: checkpoints from the first on, then the end from the last on. */
static int by_worth(const void *a, const void *b, void *arg) {
        const struct store_place *x = a, *y = b;
        uint64_t p = store_place_end(arg, x), q = store_place_end(arg, y);
        bool last_first = x->use == STORE_USE_END;

        if (x->use != y->use)
                return x->use < y->use ? -1 : 1;
        if (p != q)
                return (p < q) == last_first ? 1 : -1;
        /* A state is worth nothing without its blocks, and is the larger one. */
        return (int)y->cell.block_class - (int)x->cell.block_class;
}

/* What is to go of a conversation next. */
struct choice {
        struct store_cell *cells; /* [n], owned: its own */
        size_t n;
        uint64_t shared; /* if n is 0: a record to be removed from several, or 0 */
};
static void choice_deinit(struct choice *c) {
        free(c->cells);
}

/* Choose as many of its own cells of one use as are needed, or one that is shared. */
static int choose(struct reclaim *x, const struct store_shape *shape, struct places *ps,
        uint64_t max, bool published, struct choice *ret, struct err *e) {
        uint64_t bytes = x->got.bytes;
        enum store_use use = STORE_USE_NONE;

        ret->cells = calloc(ps->n + 1, sizeof(*ret->cells));
        if (!ret->cells)
                return err_set(e, ERR_NOMEM, "no memory for what is reclaimed");
        if (ps->n > 1)
                qsort_r(ps->v, ps->n, sizeof(*ps->v), by_worth, (void *)(uintptr_t)shape);
        for (size_t i = 0; i < ps->n && bytes < x->wanted; i++) {
                const struct store_place *p = &ps->v[i];
                bool may_go = !p->is_kept && p->n_users <= max && (published || !p->is_public);

                if (ret->n > 0 && (p->use != use || !may_go || p->n_users > 1))
                        break;
                use = p->use;
                if (may_go && p->n_users == 1) {
                        ret->cells[ret->n++] = p->cell;
                        if (x->owner == OWNER_ANY || p->owner == x->owner)
                                bytes += p->stored_size;
                } else if (may_go) {
                        ret->shared = p->record;
                        break;
                } else if (use == STORE_USE_END && !published) {
                        break; /* a later round takes what its end shares, or else this part of it */
                }
        }
        return 0;
}

static int take_places(struct reclaim *x, uint64_t conv, const struct store_shape *shape,
        uint64_t max, bool published, struct err *e) {
        for (;;) {
                _cleanup_(places_deinit) struct places ps = {};
                _cleanup_(choice_deinit) struct choice c = {};
                int r = list_places(x, conv, shape, max, &ps, e);

                if (r == 0)
                        r = drop_none(x, conv, &ps, e);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                if (enough(x))
                        return 0;
                r = choose(x, shape, &ps, max, published, &c, e);
                if (r < 0)
                        return r;
                if (c.n > 0)
                        r = drop(x, conv, c.cells, c.n, e);
                else if (c.shared)
                        r = take_shared(x, c.shared, true, e);
                if (r < 0)
                        return r;
                if (c.n == 0 && r == 0)
                        return 0;
        }
}

static int take(struct reclaim *x, uint64_t conv, uint64_t max, bool published, struct err *e) {
        struct store_shape shape;
        int r = conv_shape(x->s, conv, &shape, e);

        if (r < 0)
                return r;
        return is_all_alone(&shape) ? take_tail(x, conv, &shape, max, published, e)
                                    : take_places(x, conv, &shape, max, published, e);
}

/* --- rounds --- */

/* The progress of a round. */
struct place {
        int64_t updated_usec, id;
};

/* The next conversations that have records, least recently updated first. Only as many as are
 * likely to be needed: there may be very many. */
static int list_convs(struct reclaim *x, struct place *at, struct ids *ids, struct err *e) {
        bool any = x->owner == OWNER_ANY;
        _query_ q = {};
        int r = query_begin(&q, x->s, any ? STMT_RECLAIM_CONVS_ANY : STMT_RECLAIM_CONVS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, MIN(x->keep, (uint64_t)INT64_MAX));
        query_bind_i64(&q, at->updated_usec);
        query_bind_i64(&q, at->id);
        if (!any)
                query_bind_i64(&q, x->owner);
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
                        r = take(x, convs.v[i], max, published, e);
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
        query_bind_i64(&q, x->owner);
        r = ids_read(&q, &records, e);
        query_end(&q);
        if (r < 0)
                return r;
        for (size_t i = 0; i < records.n && !enough(x); i++) {
                r = take_shared(x, records.v[i], true, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int by_place(const void *a, const void *b) {
        const struct store_cut *x = a, *y = b;

        if (x->conv != y->conv)
                return x->conv < y->conv ? -1 : 1;
        if (x->block_class != y->block_class)
                return x->block_class < y->block_class ? -1 : 1;
        return x->from < y->from ? -1 : x->from > y->from;
}

/* One cut for neighbours. */
static void merge_cuts(struct store_reclaimed *got) {
        size_t n = 0;

        if (got->n_cuts == 0)
                return;
        qsort(got->cuts, got->n_cuts, sizeof(*got->cuts), by_place);
        for (size_t i = 0; i < got->n_cuts; i++) {
                const struct store_cut *c = &got->cuts[i];
                struct store_cut *last = n > 0 ? &got->cuts[n - 1] : NULL;

                if (last && last->conv == c->conv && last->block_class == c->block_class &&
                        c->from <= last->to)
                        last->to = MAX(last->to, c->to);
                else
                        got->cuts[n++] = *c;
        }
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

static int reclaim_once(struct store *s, uint64_t owner, uint64_t bytes, uint64_t keep_conv,
        struct store_reclaimed *ret, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(reclaim_deinit) struct reclaim x = {
                .s = s, .owner = owner, .wanted = bytes, .keep = keep_conv};
        int r;

        r = txn_begin(s, &txn, e);
        if (r < 0)
                return r;
        r = run_rounds(&x, e);
        if (r < 0)
                return r;
        if (!enough(&x) && owner != OWNER_ANY) {
                r = take_orphaned(&x, e);
                if (r < 0)
                        return r;
        }
        return hand_out(&x, &txn, ret, e);
}

int store_reclaim(struct store *s, uint64_t owner, uint64_t bytes, uint64_t keep_conv,
        struct store_reclaimed *ret, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = reclaim_once(s, owner, bytes, keep_conv, ret, e);
        while (txn_again(s, &r, e));
        return r;
}

static int forget_record_once(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(reclaim_deinit) struct reclaim x = {.s = s, .owner = OWNER_ANY};
        int r;

        r = txn_begin(s, &txn, e);
        if (r == 0)
                r = store_id_possible(record) ? take_shared(&x, record, false, e) : 0;
        if (r < 0)
                return r;
        return hand_out(&x, &txn, ret, e);
}

int store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = forget_record_once(s, record, ret, e);
        while (txn_again(s, &r, e));
        return r;
}
