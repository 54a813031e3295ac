/* SPDX-License-Identifier: MIT */
/*
 * Conversations that move between machines, where several daemons share the register (lib/store/pg-lease.c).
 *
 *      a request's row says: not held here                         another machine wants one that is held here
 *          │ in RAM here: stale, unloaded when nobody uses it           │ wanted(), on the store's thread
 *          v                                                            v
 *      take: a job ──→ held: ready, and read anew (dispatch.c)     a wish, looked at in each round: is the conversation used?
 *          │ ↑                                                          │ no; memory to the remote store (memory/part.c)
 *          v │ given(), or RETRY_USEC have passed                       v
 *      the request waits, PATIENCE_USEC at most                    unloaded, given up: a job; who wants it is told
 *
 * 1. A conversation is in RAM only where it is held. It is taken only when it is not in RAM here, so no request that began under an old
 *    lease goes on under a new one.
 * 2. A conversation is given up when no request and no job uses it, so between two turns: whoever wants it waits until a reply is
 *    written. Requests here that wait for their turn on it come first.
 * 3. A request that does not get it in time fails with ERR_MOVED: it is used there, and that is where to ask. One that is willing to
 *    wait (engine_request.wait) waits until it is cancelled.
 * 4. A wish that is lost (a notification while a connection is lost; more than MAX_WISHES) is repeated by who has it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/main/main.h"

#define MAX_WISHES 1024
#define RETRY_USEC 300000     /* between two attempts to take without having been told */
#define LOOK_USEC 50000       /* whether what is wanted has gone to the remote store */
#define PATIENCE_USEC 3000000 /* for a request that is not willing to wait */

struct wish {
        uint64_t conv, machine;
};

/* Conversations that others want, and requests that want others'. */
struct leases {
        pthread_mutex_t lock;
        struct wish heard[MAX_WISHES]; /* under the lock: those that have come */
        size_t n_heard;
        bool given; /* under the lock: something was given to this machine */
        struct wish wishes[MAX_WISHES];
        size_t n;
        struct list waiting; /* requests that will try again */
        struct list taking;  /* requests whose job takes */
        bool taken;          /* one of these has ended */
        uint64_t t_retry;
};

struct leases *leases_new(void) {
        struct leases *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        pthread_mutex_init(&l->lock, NULL);
        list_init(&l->waiting);
        list_init(&l->taking);
        return l;
}

struct leases *leases_free(struct leases *l) {
        if (!l)
                return NULL;
        pthread_mutex_destroy(&l->lock);
        free(l);
        return NULL;
}

/* --- what other machines say --- */

/* At most one wish for a conversation: the latest. */
static void add_wish(struct wish *wishes, size_t *n, const struct wish *w) {
        size_t i = 0;

        while (i < *n && wishes[i].conv != w->conv)
                i++;
        if (i == MAX_WISHES)
                return; /* rule 4 */
        wishes[i] = *w;
        *n = MAX(*n, i + 1);
}

static void wanted(void *arg, uint64_t id, uint64_t machine) {
        struct engine *engine = arg;
        struct leases *l = engine->front->leases;

        pthread_mutex_lock(&l->lock);
        add_wish(l->heard, &l->n_heard, &(struct wish){id, machine});
        pthread_mutex_unlock(&l->lock);
        bell_ring(engine->bell);
}

static void given(void *arg) {
        struct engine *engine = arg;
        struct leases *l = engine->front->leases;

        pthread_mutex_lock(&l->lock);
        l->given = true;
        pthread_mutex_unlock(&l->lock);
        bell_ring(engine->bell);
}

static void limits(void *arg) {
        overrides_changed(arg);
}

void leases_listen(struct engine *engine) {
        store_listen(engine->store, &(struct store_listener){wanted, given, limits, engine});
}

/* --- giving up --- */

struct giving {
        struct job job;
        struct wish wish;
};

static void give_run(struct engine *engine, struct job *j) {
        struct giving *g = container_of(j, struct giving, job);

        j->r = store_lease_drop(engine->store, g->wish.conv, g->wish.machine, &j->err);
}

static void give_done(struct engine *engine, struct job *j) {
        (void)engine;
        free(container_of(j, struct giving, job));
}

static bool is_being_taken(struct leases *l, uint64_t conv) {
        struct list *it;

        list_for_each (it, &l->taking)
                if (list_entry(it, struct request, link)->sc.id == conv)
                        return true;
        return false;
}

/* Whether it was given up, or nobody needs to any more. */
static bool give(struct engine *engine, const struct wish *wish) {
        struct conv *c = convs_find(engine, wish->conv);
        struct giving *g;

        if (conv_loader(engine, wish->conv) || is_being_taken(engine->front->leases, wish->conv) ||
                desk_turn_waits(engine, wish->conv) ||
                (c && (c->n_users > 0 || c->n_links > 0 || c->n_io > 0 || part_step(engine, c))))
                return false;
        g = calloc(1, sizeof(*g));
        if (!g)
                return true; /* rule 4 */
        if (c)
                conv_unload(engine, c);
        g->wish = *wish;
        g->job.run = give_run;
        g->job.done = give_done;
        io_submit(engine, &g->job);
        return true;
}

static void give_what_is_wanted(struct engine *engine, struct leases *l) {
        size_t kept = 0;

        for (size_t i = 0; i < l->n; i++)
                if (!give(engine, &l->wishes[i]))
                        l->wishes[kept++] = l->wishes[i];
        l->n = kept;
}

/* --- taking --- */

static void take_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_holder holder = {};

        j->r = store_lease_prepare(
                engine->store, request->sc.id, &request->lease_fence, &holder, &j->err);
        snprintf(request->holder.name, sizeof(request->holder.name), "%s", holder.name);
        snprintf(request->holder.address, sizeof(request->holder.address), "%s", holder.address);
}

/* Rule 3. */
static bool is_patient(const struct request *request) {
        return request->r.wait || clock_monotonic_usec() - request->t_wanted < PATIENCE_USEC;
}

/* Rule 1, once more: while the job was under way another request may have brought the conversation into RAM under a lease that was lost
 * since. What uses it comes to nothing, and the next attempt takes it. */
static int confirm(struct engine *engine, const struct request *request, struct err *e) {
        uint64_t id = request->sc.id;
        struct conv *c = convs_find(engine, id);

        if (c)
                c->stale = true;
        if (conv_loader(engine, id) || (c && (c->n_users > 0 || c->n_links > 0)))
                return err_set(e, ERR_MOVED,
                        "conversation %llu was taken by another machine meanwhile, and is still in "
                        "use here",
                        (unsigned long long)id);
        if (c)
                conv_unload(engine, c);
        if (store_lease_confirm(engine->store, id, request->lease_fence))
                return 0;
        return err_set(e, ERR_MOVED, "conversation %llu was taken by another machine meanwhile",
                (unsigned long long)id);
}

static void wait(struct engine *engine, struct request *request) {
        struct leases *l = engine->front->leases;

        request->phase = PHASE_WAITS;
        list_append(&l->waiting, &request->link);
        l->t_retry = MIN(l->t_retry ? l->t_retry : UINT64_MAX, clock_monotonic_usec() + RETRY_USEC);
}

static void take_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct leases *l = engine->front->leases;

        list_unlink(&request->link);
        l->taken = true;
        if (j->r > 0)
                j->r = confirm(engine, request, &j->err);
        if (j->r >= 0) {
                request->sc.lease = STORE_LEASE_HELD; /* loading reads the row anew */
                convs_make_ready(engine, &request->link);
        } else if (j->r != -ERR_MOVED || engine->stopping || !is_patient(request)) {
                request_fail(engine, request, &j->err);
        } else {
                wait(engine, request);
        }
}

/* One at a time takes a conversation: the others find it held, when they try again. */
static void submit(struct engine *engine, struct request *request) {
        struct leases *l = engine->front->leases;

        if (is_being_taken(l, request->sc.id)) {
                wait(engine, request);
                return;
        }
        list_append(&l->taking, &request->link);
        request_submit(engine, request, take_run, take_done);
}

void lease_take(struct engine *engine, struct request *request) {
        struct conv *c = convs_find(engine, request->sc.id);
        struct err e;

        if (request->t_wanted == 0)
                request->t_wanted = clock_monotonic_usec();
        if (c)
                c->stale = true;
        if (c && (c->n_users > 0 || c->n_links > 0)) {
                err_set(&e, ERR_MOVED,
                        "conversation %llu was taken by another machine, or what became of it is "
                        "not "
                        "known: it is still in use here",
                        (unsigned long long)c->id);
                request_fail(engine, request, &e);
                return;
        }
        if (c)
                conv_unload(engine, c);
        submit(engine, request);
}

static void end_waiting(struct engine *engine, struct request *request) {
        bool cancelled = atomic_load(&request->cancel);
        struct err e;

        if (cancelled)
                err_set(&e, ERR_CANCELLED, "cancelled before the reply began; nothing was changed");
        else
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
        request_fail(engine, request, &e);
}

/* Requests that were cancelled end; all others try again, if @again. */
static void go_on(struct engine *engine, struct leases *l, bool again) {
        struct list waiting;

        list_move_all(&waiting, &l->waiting);
        while (!list_empty(&waiting)) {
                struct request *request = list_entry(waiting.next, struct request, link);

                list_unlink(&request->link);
                if (atomic_load(&request->cancel) || engine->stopping)
                        end_waiting(engine, request);
                else if (again)
                        submit(engine, request);
                else
                        list_append(&l->waiting, &request->link);
        }
}

uint64_t lease_step(struct engine *engine) {
        struct leases *l = engine->front->leases;
        uint64_t now, due;
        bool again;

        pthread_mutex_lock(&l->lock);
        for (size_t i = 0; i < l->n_heard; i++)
                add_wish(l->wishes, &l->n, &l->heard[i]);
        l->n_heard = 0;
        again = l->given;
        l->given = false;
        pthread_mutex_unlock(&l->lock);
        give_what_is_wanted(engine, l);
        again = again || l->taken;
        l->taken = false;
        now = clock_monotonic_usec();
        due = l->n > 0 && engine->remote ? now + LOOK_USEC : UINT64_MAX;
        if (list_empty(&l->waiting))
                return due;
        again = again || now >= l->t_retry;
        if (again)
                l->t_retry = 0;
        go_on(engine, l, again);
        return l->t_retry ? MIN(l->t_retry, due) : due;
}
