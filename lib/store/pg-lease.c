/* SPDX-License-Identifier: MIT */
/*
 * Who holds a conversation.
 *
 * A conversation's row says which machine holds it (`holder`; NULL: none) and how often it was taken (`fence`).
 *
 *                     made here ──────────────┐
 *                                             v
 *      nobody's ──── taken (fence + 1) ───→ held ──── store_lease_drop(), an orderly end ───→ nobody's
 *                                           │  ^
 *                another machine takes it:  │  │ taken by the other one (fence + 1)
 *                 the holder's `seen_usec`  v  │
 *                 is lease_usec old       held by another machine
 *
 * 1. A transaction that changes a conversation locks its row first, and goes on only if holder and fence are those
 *    that this daemon knows. So a daemon that was stopped or cut off can't commit over its successor, however late it comes
 *    and whatever the clocks say (I4, I6): it reads the fence of the present, not its memory of it.
 * 2. Time decides only when another machine may take a conversation without being given it, and it is the server's
 *    time on both sides: a daemon writes it every now and then (pg-keeper.c), and who wants to take compares.
 * 3. What this daemon lost (it finds another fence, it gave it up, or nobody knows what became of its last transaction) stays lost
 *    for it until it is taken anew by store_lease_prepare(). Whoever takes reads the conversation anew: what is taken stays lost until
 *    store_lease_confirm() says that nothing of an earlier lease is left in RAM, so nobody who began under one commits under another.
 * 4. A conversation that this daemon never held is taken by the first call that changes it, if nobody holds it.
 * 5. Who wants what another one holds asks for it, by the server's notifications (pg-keeper.c), and the holder gives it up between
 *    two turns. A notification may be lost; so who waits asks again.
 * 6. Reading needs no lease: it sees what is committed.
 */
#include "base/util.h"
#include "store/pg.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of the map: the fence (any, if it is lost), and whether it is lost. Never NULL. */
static void *lease_value(uint64_t fence, bool lost) {
        return (void *)(uintptr_t)(fence << 1 | lost);
}

/* *ret_lost: it was held once. The fence that this machine has; 0: it does not hold the conversation. */
static uint64_t lease_of(struct pg_shared *shared, uint64_t id, bool *ret_lost) {
        uintptr_t v;

        pthread_mutex_lock(&shared->lock);
        v = (uintptr_t)map_get_u64(shared->leases, id);
        *ret_lost = v & 1 || (v == 0 && shared->forgets);
        pthread_mutex_unlock(&shared->lock);
        return v & 1 ? 0 : v >> 1;
}

/* Under the lock. Without memory for it the conversation is one that was never held, so from then on nothing is taken without being
 * asked for: it may have been lost (rule 4). */
static void put_lease(struct pg_shared *shared, uint64_t id, uint64_t fence, bool lost) {
        (void)map_remove_u64(shared->leases, id);
        if (fence > 0 && map_add_u64(shared->leases, id, lease_value(fence, lost), NULL) < 0)
                shared->forgets = true;
}

static void set_lease(struct pg_shared *shared, uint64_t id, uint64_t fence, bool lost) {
        pthread_mutex_lock(&shared->lock);
        put_lease(shared, id, fence, lost);
        pthread_mutex_unlock(&shared->lock);
}

static int moved(uint64_t id, struct err *e) {
        return err_set(e, ERR_MOVED, "conversation %llu is held by another machine",
                (unsigned long long)id);
}

/* The row's holder (0: nobody) and fence, and the time since its holder was seen. 1; 0: there is no such row. */
struct row {
        uint64_t holder, fence, machine_age;
};
static int lock_row(struct store *s, uint64_t id, struct row *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LEASE_LOCK, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        *ret = (struct row){.holder = query_is_null(&q, 0) ? 0 : query_number(&q, 0, INT64_MAX),
                .fence = query_number(&q, 1, INT64_MAX),
                .machine_age = query_is_null(&q, 2) ? UINT64_MAX : query_number(&q, 2, INT64_MAX)};
        r = query_check(&q, e);
        return r < 0 ? r : 1;
}

static int take_row(struct store *s, uint64_t id, uint64_t fence, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LEASE_TAKE, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_u64(&q, fence);
        r = query_run(&q, e);
        if (r == 0)
                s->pg->fence = fence;
        return r;
}

int pg_own(struct store *s, uint64_t id, struct err *e) {
        struct pg *pg = s->pg;
        struct row row;
        bool lost;
        uint64_t mine = lease_of(pg->shared, id, &lost);
        int r;

        if (lost)
                return moved(id, e);
        if (!store_id_possible(id))
                return 0; /* there is none, as will be said */
        r = lock_row(s, id, &row, e);
        if (r <= 0)
                return r;
        pg->touched = id;
        if (mine > 0 && row.holder == pg->shared->machine && row.fence == mine)
                return 0;
        if (mine > 0) {
                set_lease(pg->shared, id, mine, true);
                return moved(id, e);
        }
        /* Rule 4; its own from an earlier life as well. */
        if (row.holder == 0 || row.holder == pg->shared->machine)
                return take_row(s, id, row.fence + 1, e);
        return moved(id, e);
}

int pg_lock(struct store *s, uint64_t id, struct err *e) {
        struct pg_shared *shared = s->pg->shared;
        struct row row;
        bool lost;
        uint64_t mine = lease_of(shared, id, &lost);
        int r;

        if (lost)
                return moved(id, e);
        r = store_id_possible(id) ? lock_row(s, id, &row, e) : 0;
        if (r <= 0 || mine == 0 || (row.holder == shared->machine && row.fence == mine))
                return MIN(r, 0);
        set_lease(shared, id, mine, true);
        return moved(id, e);
}

void pg_made(struct store *s, uint64_t id) {
        s->pg->touched = id;
        s->pg->fence = 1;
}

void pg_removed(struct store *s) {
        s->pg->removed = true;
}

static void forget(struct pg *pg) {
        pg->touched = pg->fence = 0;
        pg->removed = pg->given = pg->taking = false;
}

void pg_leases_committed(struct pg *pg) {
        /* What was given up counts as lost: nobody here goes on with what was read before (rule 3). */
        if (pg->touched && pg->given)
                set_lease(pg->shared, pg->touched, 1, true);
        else if (pg->touched && (pg->fence || pg->removed))
                set_lease(pg->shared, pg->touched, pg->removed ? 0 : pg->fence, pg->taking);
        forget(pg);
}

void pg_leases_dropped(struct pg *pg, bool known) {
        if (!known && pg->touched)
                set_lease(pg->shared, pg->touched, 1, true);
        forget(pg);
}

void pg_lease_told(struct store *s, uint64_t holder, uint64_t fence, struct store_conv *c) {
        bool lost;
        uint64_t mine = lease_of(s->pg->shared, c->id, &lost);

        c->holder = holder;
        /* Or held as soon as the transaction that made it is committed. */
        if (holder == s->pg->shared->machine &&
                (mine == fence || (s->pg->touched == c->id && s->pg->fence == fence)))
                c->lease = STORE_LEASE_HELD;
        else
                c->lease = holder == 0 || holder == s->pg->shared->machine ? STORE_LEASE_FREE
                                                                           : STORE_LEASE_ELSEWHERE;
}

/* --- who it is --- */

static void copy_text(struct query *q, int col, char *out, size_t size) {
        size_t n;
        const char *text = query_is_null(q, col) ? NULL : query_bytes(q, col, &n);

        snprintf(out, size, "%.*s", text ? (int)MIN(n, size - 1) : 0, text ? text : "");
}

/* What the row of machine @number tells. */
static int read_holder(struct store *s, uint64_t number, struct store_holder *ret, struct err *e) {
        char host[STORE_ADDRESS_MAX + 1], socket[STORE_ADDRESS_MAX + 1];
        const char *here = s->pg->shared->host;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LEASE_HOLDER, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, number);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        copy_text(&q, 0, ret->name, sizeof(ret->name));
        copy_text(&q, 1, ret->address, sizeof(ret->address));
        copy_text(&q, 2, host, sizeof(host));
        copy_text(&q, 3, socket, sizeof(socket));
        if (here && *socket && strcmp(here, host) == 0 &&
                strlen(socket) + strlen("unix:") <= STORE_ADDRESS_MAX &&
                access(socket, F_OK) == 0) /* another container may be on this kernel */
                snprintf(ret->address, sizeof(ret->address), "unix:%.*s",
                        (int)(STORE_ADDRESS_MAX - strlen("unix:")), socket);
        return query_check(&q, e);
}

static int moved_to(uint64_t id, const struct store_holder *holder, struct err *e) {
        if (!*holder->name)
                return moved(id, e);
        return err_set(e, ERR_MOVED, "conversation %llu is in use at machine '%s'",
                (unsigned long long)id, holder->name);
}

/* --- calls --- */

/* To another machine, once the transaction is committed. */
static int say(
        struct store *s, enum store_stmt what, uint64_t machine, uint64_t id, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, what, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, machine);
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        return MIN(r, 0);
}

/* 1: it is taken, with *ret_fence, and counts as lost until that is confirmed. */
static int take_once(struct store *s, uint64_t id, uint64_t *ret_fence,
        struct store_holder *ret_holder, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct pg_shared *shared = s->pg->shared;
        struct store_holder holder = {};
        struct row row;
        bool lost;
        uint64_t mine = lease_of(shared, id, &lost);
        int r = txn_begin(s, &txn, e);

        if (r == 0 && store_id_possible(id))
                r = lock_row(s, id, &row, e);
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
        if (r < 0)
                return r;
        s->pg->touched = id;
        if (mine > 0 && row.holder == shared->machine && row.fence == mine)
                return 0;
        if (row.holder != 0 && row.holder != shared->machine &&
                row.machine_age < shared->lease_usec) {
                r = say(s, STMT_LEASE_ASK, row.holder, id, e);
                if (r == 0)
                        r = read_holder(s, row.holder, &holder, e);
                if (r == 0)
                        r = txn_commit(&txn, e);
                if (r < 0)
                        return r;
                if (ret_holder)
                        *ret_holder = holder;
                return moved_to(id, &holder, e);
        }
        r = take_row(s, id, row.fence + 1, e);
        s->pg->taking = true;
        if (r == 0)
                r = txn_commit(&txn, e);
        *ret_fence = row.fence + 1;
        return r < 0 ? r : 1;
}

int store_lease_prepare(struct store *s, uint64_t id, uint64_t *ret_fence,
        struct store_holder *ret_holder, struct err *e) {
        STORE_LOCK(s);
        int r;

        if (!s->pg)
                return 0;
        do
                r = take_once(s, id, ret_fence, ret_holder, e);
        while (txn_again(s, &r, e));
        return r;
}

bool store_lease_confirm(struct store *s, uint64_t id, uint64_t fence) {
        struct pg_shared *shared = s->pg ? s->pg->shared : NULL;
        bool is;

        if (!shared)
                return true;
        pthread_mutex_lock(&shared->lock);
        is = map_get_u64(shared->leases, id) == lease_value(fence, true);
        if (is)
                put_lease(shared, id, fence, false);
        pthread_mutex_unlock(&shared->lock);
        return is;
}

static int drop_once(struct store *s, uint64_t id, uint64_t machine, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct row row = {};
        _query_ q = {};
        int r = txn_begin(s, &txn, e);

        /* What the row says is this machine's may be given up, whatever else is known of it. */
        if (r == 0 && store_id_possible(id))
                r = lock_row(s, id, &row, e);
        if (r > 0 && row.holder != 0 && row.holder != s->pg->shared->machine)
                r = moved(id, e);
        if (r <= 0)
                return r;
        r = query_begin(&q, s, STMT_LEASE_DROP, e);
        if (r < 0)
                return r;
        s->pg->touched = id;
        query_bind_u64(&q, id);
        r = query_run(&q, e);
        query_end(&q);
        if (r == 0 && machine > 0)
                r = say(s, STMT_LEASE_TELL, machine, id, e);
        s->pg->given = true;
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_lease_drop(struct store *s, uint64_t id, uint64_t machine, struct err *e) {
        STORE_LOCK(s);
        int r;

        if (!s->pg)
                return 0;
        do
                r = drop_once(s, id, machine, e);
        while (txn_again(s, &r, e));
        return r;
}

int store_leases_release(struct store *s, struct err *e) {
        STORE_LOCK(s);
        int r;

        if (!s->pg)
                return 0;
        do
                r = pg_leases_release(s, e);
        while (txn_again(s, &r, e));
        return r;
}

int pg_leases_release(struct store *s, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _query_ q = {};
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_LEASE_DROP_ALL, e);
        if (r < 0)
                return r;
        r = query_run(&q, e);
        query_end(&q);
        return r < 0 ? r : txn_commit(&txn, e);
}
