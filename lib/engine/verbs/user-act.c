/* SPDX-License-Identifier: MIT */
/*
 * What administrators do to all that a user has: cancel, evict, purge.
 *
 *      start() ─→ (the tenant's number) ─→ cancel what is in flight ─→ page ─→ parts ─→ page ... ─→ UserActed
 *                                             ↑                                             │
 *                                             └──── some were in use: wait a moment ────────┘
 *
 * 1. Whom: a user and all tenants of the user, or one tenant. Requests that are made for them are cancelled, whoever sent
 *    them; conversations that they own are evicted or closed.
 * 2. Each conversation is evicted or closed by a request of its own (a part), which does what Evict and Close do and waits
 *    for what they wait for: so each is one transaction, commits of others come in between, and a crash leaves
 *    conversations that are there as a whole or not at all. A few parts are under way at a time.
 * 3. A purge removes the conversations with ids that were given before it began. What comes later is new: a user who
 *    connects after a purge starts with nothing, and is not locked out.
 * 4. A conversation in use is left alone by Evict (n_busy). A purge has cancelled what uses it, so it comes back for it,
 *    until PATIENCE is over: then it fails, and may be given again, like a purge that a crash has cut off.
 * 5. At its end a purge forgets the labels of the tenants that it was about, unless a connection holds their number: those that
 *    the caller names (known), and those that were asked for since the purge began (user_act_tenant()). The latter are
 *    KEPT at most: if there were more, all labels wait for the next start, as do those that were kept.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/verbs/create.h"

#define PAGE 64
#define STEPS 64 /* owners that one look at the register passes over */
#define MOST 8   /* parts under way at a time */
#define PAUSE 20000u
#define PATIENCE 30000000u
#define KEPT 64

struct acting {
        struct act act;
        struct owners whose;
        uint64_t n_requests, n_busy;
        bool asking; /* a job looks at the register */
        bool rests;  /* until `due`, before the next pass */
        uint64_t due, give_up;
        uint32_t kept[KEPT]; /* [n_kept]: numbers of tenants; more than KEPT: there were more */
        size_t n_kept;
        uint64_t n_failed; /* of the present pass: act.n_failed at its beginning */

        /* The walk through owners, and through the conversations of one. */
        bool ends, has_owner, has_last;
        uint64_t from, owner, after, last;
        struct store_owned page[PAGE];
        size_t n, at;
};

static struct acting *acting_of(struct request *request) {
        return request_own(request);
}

static void leave(struct request *request) {
        list_unlink(&request->link);
}

static void fail(struct engine *engine, struct request *request, const struct err *e) {
        leave(request);
        request_fail(engine, request, e);
}

static void finish(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);
        struct engine_event *ev = request_answer(request, ENGINE_USER_ACTED);

        ev->acted.owner = x->whose.owner;
        ev->acted.all_tenants = x->whose.all_tenants;
        ev->acted.purged = request->r.user_act == ENGINE_USER_PURGE && !request->r.dry_run;
        ev->acted.n_convs = x->act.n_done;
        ev->acted.n_tokens = request->r.user_act == ENGINE_USER_PURGE ? x->act.n_tokens : 0;
        ev->acted.n_requests = x->n_requests;
        ev->acted.n_busy = x->n_busy;
        if (ev->acted.purged)
                meters_forget(engine, &x->whose);
        leave(request);
        request_finish(engine, request);
}

/* --- the walk --- */

/* The next owner that is meant. 1; 0: not found yet, or there is none (ends). */
static int next_owner(struct engine *engine, struct acting *x, struct err *e) {
        uint64_t owner = 0;
        int r = store_owner_next(engine->store, x->from, &owner, e);

        if (r <= 0) {
                x->ends = r == 0;
                return r;
        }
        x->from = owner + 1;
        if (!owners_have(&x->whose, owner)) {
                x->ends = !x->whose.all_tenants && owner > x->whose.owner;
                return 0;
        }
        x->owner = owner;
        x->after = 0;
        x->has_owner = true;
        return 1;
}

static int look_at_owner(struct engine *engine, struct acting *x, struct err *e) {
        int r = store_owned(engine->store, x->owner, x->after, x->page, PAGE, &x->n, e);

        if (r < 0)
                return r;
        if (x->n > 0)
                x->after = x->page[x->n - 1].id;
        x->has_owner = x->n == PAGE;
        return 0;
}

static void look_run(struct engine *engine, struct job *j) {
        struct acting *x = acting_of(request_of(j));

        j->r = x->has_last ? 0 : store_last_id(engine->store, &x->last, &j->err);
        x->has_last = true;
        x->n = x->at = 0;
        for (unsigned i = 0; j->r == 0 && !x->ends && x->n == 0 && i < STEPS; i++) {
                int r = x->has_owner ? 1 : next_owner(engine, x, &j->err);

                j->r = r > 0 ? look_at_owner(engine, x, &j->err) : r;
        }
}

static void look_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        acting_of(request)->asking = false;
        request->phase = PHASE_WAITS;
        if (j->r < 0)
                fail(engine, request, &j->err);
}

static void look(struct engine *engine, struct request *request) {
        acting_of(request)->asking = true;
        request_submit(engine, request, look_run, look_done);
}

/* --- parts (2) --- */

static bool is_wanted(struct engine *engine, const struct request *request, uint64_t id) {
        const struct conv *c = convs_find(engine, id);

        return request->r.user_act == ENGINE_USER_PURGE || (c && seq_n_resident(c->seq) > 0);
}

static int begin_part(struct engine *engine, struct request *request,
        const struct store_owned *what, struct err *e) {
        struct acting *x = acting_of(request);
        bool purge = request->r.user_act == ENGINE_USER_PURGE;
        const struct engine_request r = {
                /* The loop thread's rise from 1, those of sweep.c fall from the end. */
                .handle = UINT64_MAX / 2 + ++engine->verbs->n_parts,
                .verb = purge ? ENGINE_CLOSE : ENGINE_EVICT,
                .owner = x->owner,
                .conv_id = what->id,
                .fd = -1};
        struct request *child = NULL;
        struct part *part;
        int k = request_new(&child, engine, purge ? &verb_purge : &verb_evict_part, &r, e);

        if (k < 0)
                return k;
        part = purge ? close_part(child) : evict_part(child);
        part->n_tokens = what->n_tokens;
        k = desk_enter(engine, child, e);
        if (k < 0) {
                request_free(engine, child);
                return k;
        }
        part->act = &x->act;
        x->act.n_under_way++;
        return 0;
}

/* The next conversation of the page. False: no part can begin now. */
static bool take_one(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);
        const struct store_owned *what = &x->page[x->at];

        if (what->id > x->last || !is_wanted(engine, request, what->id)) {
                x->at++;
                return true;
        }
        if (request->r.dry_run) {
                x->act.n_done++;
                x->act.n_tokens += what->n_tokens;
                x->at++;
                return true;
        }
        if (x->act.n_under_way == MOST)
                return false;
        x->at++;
        /* Without memory now: it is in the next pass. */
        if (begin_part(engine, request, what, NULL) < 0)
                x->act.n_failed++;
        return true;
}

/* --- passes (4) --- */

static void cancel_requests(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);
        size_t n = desk_cancel_of(engine, &x->whose, request, request->r.dry_run);

        if (x->act.n_failed == 0)
                x->n_requests = n;
}

static void forget_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct acting *x = acting_of(request);

        if (x->n_kept <= KEPT)
                j->r = store_tenants_forget_of(engine->store, request->r.uid,
                        owner_tenant(x->whose.owner), x->kept, x->n_kept, &j->err);
}

/* Everything else is done: a label that stays is no reason to fail. */
static void forget_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &j->err);
        finish(engine, request_of(j));
}

static void keep(struct acting *x, uint64_t owner) {
        if (!owners_have(&x->whose, owner) || owner_tenant(owner) == 0)
                return;
        if (x->n_kept < KEPT)
                x->kept[x->n_kept++] = owner_tenant(owner);
        else
                x->n_kept = KEPT + 1;
}

void user_act_tenant(struct engine *engine, uint64_t owner) {
        struct list *it;

        list_for_each (it, &engine->verbs->acts)
                keep(acting_of(list_entry(it, struct request, link)), owner);
}

static void end_pass(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);
        uint64_t now = clock_monotonic_usec(), n_left = x->act.n_failed - x->n_failed;
        struct err e;

        if (request->r.user_act == ENGINE_USER_EVICT)
                x->n_busy = n_left;
        if (n_left == 0 && request->r.user_act == ENGINE_USER_PURGE && !request->r.dry_run) {
                x->asking = true;
                request_submit(engine, request, forget_run, forget_done);
                return;
        }
        if (n_left == 0 || request->r.user_act == ENGINE_USER_EVICT) {
                finish(engine, request);
                return;
        }
        if (now >= x->give_up) {
                err_set(&e, ERR_BUSY,
                        "%llu conversations of %s are still in use, %llu were removed: purge again",
                        (unsigned long long)n_left, OWNER_TEXT(x->whose.owner),
                        (unsigned long long)x->act.n_done);
                fail(engine, request, &e);
                return;
        }
        cancel_requests(engine, request);
        x->n_failed = x->act.n_failed;
        x->ends = x->has_owner = false;
        x->from = 0;
        x->rests = true;
        x->due = now + PAUSE;
}

/* It is to end early. */
static bool is_over(struct engine *engine, struct request *request, struct err *e) {
        if (engine->stopping)
                err_set(e, ERR_SHUTDOWN, "the daemon is stopping");
        else if (atomic_load(&request->cancel))
                err_set(e, ERR_CANCELLED, "cancelled when %llu conversations were done",
                        (unsigned long long)acting_of(request)->act.n_done);
        else
                return false;
        return true;
}

/* Returns the time to call again at the latest. */
static uint64_t go_on(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);
        struct err e;

        if (x->asking)
                return UINT64_MAX;
        if (is_over(engine, request, &e)) {
                if (x->act.n_under_way == 0)
                        fail(engine, request, &e);
                return UINT64_MAX;
        }
        if (x->rests && clock_monotonic_usec() < x->due)
                return x->due;
        x->rests = false;
        while (x->at < x->n && take_one(engine, request))
                ;
        if (x->at < x->n || x->act.n_under_way > 0)
                return UINT64_MAX; /* parts that end call again */
        if (!x->ends) {
                look(engine, request);
                return UINT64_MAX;
        }
        x->n = x->at = 0;
        end_pass(engine, request);
        engine->again = true;
        return UINT64_MAX;
}

uint64_t user_act_step(struct engine *engine) {
        struct list *it, *tmp;
        uint64_t due = UINT64_MAX;

        list_for_each_safe (it, tmp, &engine->verbs->acts)
                due = MIN(due, go_on(engine, list_entry(it, struct request, link)));
        return due;
}

/* --- the beginning --- */

static void begin(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);

        request->phase = PHASE_WAITS;
        for (size_t i = 0; i < request->r.n_known; i++)
                keep(x, request->r.known[i].owner);
        x->give_up = clock_monotonic_usec() + PATIENCE;
        if (request->r.user_act != ENGINE_USER_EVICT)
                cancel_requests(engine, request);
        if (request->r.user_act == ENGINE_USER_CANCEL)
                finish(engine, request);
        engine->again = true;
}

static void tenant_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint32_t number = 0;

        j->r = store_tenant(engine->store, request->r.uid, request->r.tenant, 0, &number, &j->err);
        acting_of(request)->whose.owner = owner_make(request->r.uid, number);
}

static void tenant_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        acting_of(request)->asking = false;
        if (j->r < 0)
                fail(engine, request, &j->err);
        else
                begin(engine, request);
}

static void start(struct engine *engine, struct request *request) {
        struct acting *x = acting_of(request);

        list_append(&engine->verbs->acts, &request->link);
        x->whose = (struct owners){request->r.uid, request->r.tenant == NULL};
        if (!request->r.tenant) {
                begin(engine, request);
                return;
        }
        x->asking = true;
        request_submit(engine, request, tenant_run, tenant_done);
}

const struct verb verb_user_act = {.own_size = sizeof(struct acting), .start = start};
