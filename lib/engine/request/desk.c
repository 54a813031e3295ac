/* SPDX-License-Identifier: MIT */
/*
 * The desk: the requests in flight. The submitting thread copies a request, charges it to the
 * ledger and to its user, and enters it in the tables. From then on the request belongs to the
 * engine thread.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/share.h"
#include "engine/request/copy.h"
#include "engine/request/request.h"

#define MOST_EARLY                                                                                 \
        64 /* requests of the inbox during a step: each is compared with those before it */

struct desk {
        /* under lock */
        pthread_mutex_t lock;
        struct list inbox; /* requests that the engine thread has not seen yet */
        struct list requests;
        struct map *by_handle; /* handle → request */
        struct map *usage;     /* owner → usage */
        size_t n_requests;
        bool closed;

        struct list turns; /* engine thread */
};

int desk_new(struct desk **ret, struct err *e) {
        struct desk *d = calloc(1, sizeof(*d));
        int r;

        if (!d)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        pthread_mutex_init(&d->lock, NULL);
        list_init(&d->inbox);
        list_init(&d->requests);
        list_init(&d->turns);
        r = map_new(&d->by_handle, e);
        if (r == 0)
                r = map_new(&d->usage, e);
        if (r < 0) {
                desk_free(d);
                return r;
        }
        *ret = d;
        return 0;
}

struct desk *desk_free(struct desk *d) {
        if (!d)
                return NULL;
        map_free(d->by_handle);
        map_free(d->usage);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return NULL;
}

/* --- the copy of a request --- */

static int copy_about(struct engine_request *r, struct err *e) {
        const struct about *from = r->about;
        void *block;

        if (!from)
                return 0;
        block = malloc(about_size(from));
        r->about = block ? about_put(block, from) : NULL;
        return block ? 0 : err_set(e, ERR_NOMEM, "no memory for a request");
}

static int copy_fd(struct engine_request *r, struct err *e) {
        int fd = r->fd;

        r->fd = -1;
        if (r->verb != ENGINE_IMPORT)
                return 0;
        r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return r->fd >= 0 ? 0 : err_set(e, ERR_INVALID, "an import needs a file");
}

/* Replace every borrowed pointer by an owned copy, or by NULL on failure. */
static int copy_request(struct engine_request *r, struct err *e) {
        const void *tokens = r->tokens, *known = r->known;
        int a = 0, b;

        b = copy_fd(r, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->conv_name, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->name, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->system, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->tools, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->cursor, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->reasoning, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->tenant, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->search, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->tag, e);
        a = b < 0 ? b : a;
        b = copy_about(r, e);
        a = b < 0 ? b : a;
        b = copy_results(&r->results, r->n_results, e);
        a = b < 0 ? b : a;
        b = copy_calls(&r->calls, r->n_calls, e);
        a = b < 0 ? b : a;
        b = copy_messages(&r->messages, r->n_messages, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->session, e);
        a = b < 0 ? b : a;
        b = copy_bytes(&r->text, r->text_size, e);
        a = b < 0 ? b : a;
        b = copy_bytes(&tokens, r->n_tokens * sizeof(*r->tokens), e);
        r->tokens = tokens;
        a = b < 0 ? b : a;
        b = copy_bytes(&r->constraint_text, r->constraint_size, e);
        a = b < 0 ? b : a;
        b = copy_bytes(&known, r->n_known * sizeof(*r->known), e);
        r->known = known;
        a = b < 0 ? b : a;
        for (size_t i = 0; i < r->n_stops; i++) {
                b = copy_str(&r->stops[i], e);
                a = b < 0 ? b : a;
        }
        return a;
}

/* Bytes of the copy and of the events that it certainly needs. The work is charged later. */
static size_t request_size(
        const struct engine *engine, const struct verb *verb, const struct engine_request *r) {
        size_t n = sizeof(struct request) + verb->own_size + sizeof(struct event_node) +
                   credit_size(engine, r);

        n += copy_str_size(r->conv_name) + copy_str_size(r->name) + copy_str_size(r->system);
        n += copy_str_size(r->tools) + copy_str_size(r->reasoning) + copy_str_size(r->tenant);
        n += copy_str_size(r->cursor) + copy_str_size(r->tag) + copy_str_size(r->search);
        n += copy_results_size(r->results, r->n_results);
        n += copy_calls_size(r->calls, r->n_calls);
        n += copy_messages_size(r->messages, r->n_messages) + copy_str_size(r->session);
        n += r->text_size + r->n_tokens * sizeof(*r->tokens) + 2 * COPY_OVERHEAD;
        n += r->constraint_size + COPY_OVERHEAD + r->n_known * sizeof(*r->known) + COPY_OVERHEAD;
        if (r->about)
                n += about_size(r->about) + COPY_OVERHEAD;
        for (size_t i = 0; i < r->n_stops; i++)
                n += copy_str_size(r->stops[i]);
        return n;
}

/* The limits of a request that names none. */
static struct quotas quotas_of(const struct engine_options *o) {
        struct quotas q = QUOTAS_NONE;

        q.max[QUOTA_CONVERSATIONS] = o->max_conversations_per_owner;
        q.max[QUOTA_REQUESTS] = o->max_requests_per_owner;
        if (o->max_tokens_per_owner > 0)
                q.max[QUOTA_TOKENS] = o->max_tokens_per_owner;
        if (o->max_tokens_per_day_per_owner > 0)
                q.max[QUOTA_TOKENS_PER_DAY] = o->max_tokens_per_day_per_owner;
        if (o->ram_share_per_owner > 0)
                q.max[QUOTA_RAM] = o->ram_share_per_owner;
        if (o->disk_limit_per_owner > 0)
                q.max[QUOTA_DISK] = o->disk_limit_per_owner;
        return q;
}

static int make_events(struct engine *engine, struct request *request, struct err *e) {
        size_t size = credit_size(engine, &request->r);

        request->final = event_new(engine, &request->charge, request->r.handle, ENGINE_ERROR, true);
        if (request->final && size > 0)
                request->credit = credit_new(&request->charge, size);
        return request->final && (request->credit || size == 0)
                       ? 0
                       : err_set(e, ERR_NOMEM, "no memory for a request");
}

int request_new(struct request **ret, struct engine *engine, const struct verb *verb,
        const struct engine_request *r, struct err *e) {
        struct charge charge = {.ledger = &engine->budget->requests};
        size_t size = sizeof(struct request) + verb->own_size;
        struct request *request;
        int k = charge_take(&charge, request_size(engine, verb, r), "the request", e);

        if (k < 0)
                return k;
        request = calloc(1, size);
        if (!request) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for a request");
        }
        request->verb = verb;
        request->r = *r;
        if (!r->has_quotas)
                request->r.quotas = quotas_of(&engine->o);
        request->charge = charge;
        request->keep.text.charge = &request->charge;
        request->t_submitted = clock_monotonic_usec();
        list_init(&request->link);
        list_init(&request->all);
        list_init(&request->load.link);
        list_init(&request->load.followers);
        if (verb->init)
                verb->init(request);
        k = copy_request(&request->r, e);
        if (k == 0)
                k = make_events(engine, request, e);
        if (k < 0)
                request_free(engine, request);
        else
                *ret = request;
        return k;
}

struct request *request_free(struct engine *engine, struct request *request) {
        struct charge charge;

        if (!request)
                return NULL;
        if (request->verb->deinit)
                request->verb->deinit(engine, request);
        copy_free(request->r.conv_name);
        copy_free(request->r.name);
        copy_free(request->r.system);
        copy_free(request->r.tools);
        copy_free(request->r.reasoning);
        copy_free(request->r.tenant);
        copy_free(request->r.session);
        copy_free(request->r.about);
        copy_free(request->r.cursor);
        copy_free(request->r.tag);
        copy_free(request->r.search);
        copy_free_results(request->r.results, request->r.n_results);
        copy_free_calls(request->r.calls, request->r.n_calls);
        copy_free_messages(request->r.messages, request->r.n_messages);
        copy_free(request->r.text);
        copy_free(request->r.tokens);
        copy_free(request->r.constraint_text);
        copy_free(request->r.known);
        for (size_t i = 0; i < request->r.n_stops; i++)
                copy_free(request->r.stops[i]);
        store_reading_deinit(&request->reading);
        free(request->noted.about);
        keep_deinit(&request->keep);
        if (request->r.fd >= 0)
                close(request->r.fd);
        if (request->final)
                engine_event_free(&request->final->ev);
        credit_unref(request->credit);
        charge = request->charge;
        free(request);
        charge_deinit(&charge);
        return NULL;
}

/* --- in and out --- */

/* Under the lock: may the owner of @r, with @n requests in flight, have one more? */
static int check_quotas(
        const struct engine *engine, const struct engine_request *r, uint32_t n, struct err *e) {
        const struct desk *d = engine->desk;
        uint64_t max = r->quotas.max[QUOTA_REQUESTS];
        struct share_pot places = {.total = engine->o.max_queued, .used = d->n_requests};
        struct share share = {
                .pot = &places, .used = n, .max = max, .exempt = share_exempt(r->owner)};

        if (d->n_requests >= engine->o.max_queued)
                return err_set(e, ERR_LIMIT,
                        "%zu requests of all users are in flight, the limit (max-queued = %u); "
                        "wait for some to end",
                        d->n_requests, engine->o.max_queued);
        if (n >= max)
                return quota_refuse(e, r->owner, QUOTA_REQUESTS, n, 1, max, 0);
        if (share_take(&share, 1) != 0)
                return err_set(e, ERR_LIMIT,
                        "%zu of %u requests are in flight (max-queued), and the rest is kept for "
                        "root and for users with fewer than the %u of %s; wait for some to end",
                        d->n_requests, engine->o.max_queued, n, OWNER_TEXT(r->owner));
        return 0;
}

/* Under the lock: free @u if nothing needs it. */
static void usage_put(struct desk *d, struct usage *u) {
        if (u->n_requests > 0 || u->n_jobs > 0)
                return;
        map_remove_u64(d->usage, u->owner);
        free(u);
}

/* Under the lock. */
static int enter(struct engine *engine, struct request *request, struct err *e) {
        struct desk *d = engine->desk;
        struct usage *u;
        int r;

        if (d->closed)
                return err_set(e, ERR_SHUTDOWN, "the daemon is stopping");
        u = map_get_u64(d->usage, request->r.owner);
        r = request->verb->uncounted ? 0
                                     : check_quotas(engine, &request->r, u ? u->n_requests : 0, e);
        if (r < 0)
                return r;
        if (!u) {
                u = calloc(1, sizeof(*u));
                if (!u || map_add_u64(d->usage, request->r.owner, u, e) < 0) {
                        free(u);
                        return err_set(e, ERR_NOMEM, "no memory for a request");
                }
                u->owner = request->r.owner;
                list_init(&u->account.waiting);
        }
        r = map_add_u64(d->by_handle, request->r.handle, request, e);
        if (r == 0) {
                request->usage = u;
                u->n_requests++;
                d->n_requests++;
                list_append(&d->requests, &request->all);
                list_append(&d->inbox, &request->link);
                return 0;
        }
        usage_put(d, u);
        return r > 0 ? err_set(e, ERR_INVALID, "a request with this handle is in flight") : r;
}

int desk_enter(struct engine *engine, struct request *request, struct err *e) {
        struct desk *d = engine->desk;
        int r;

        pthread_mutex_lock(&d->lock);
        r = enter(engine, request, e);
        pthread_mutex_unlock(&d->lock);
        if (r == 0)
                bell_ring(engine->bell);
        return r;
}

void desk_leave(struct engine *engine, struct request *request) {
        struct desk *d = engine->desk;

        pthread_mutex_lock(&d->lock);
        list_unlink(&request->all);
        map_remove_u64(d->by_handle, request->r.handle);
        d->n_requests--;
        request->usage->n_requests--;
        usage_put(d, request->usage);
        pthread_mutex_unlock(&d->lock);
}

void desk_keep(struct engine *engine, struct usage *usage) {
        pthread_mutex_lock(&engine->desk->lock);
        usage->n_jobs++;
        pthread_mutex_unlock(&engine->desk->lock);
}

void desk_let_go(struct engine *engine, struct usage *usage) {
        pthread_mutex_lock(&engine->desk->lock);
        usage->n_jobs--;
        usage_put(engine->desk, usage);
        pthread_mutex_unlock(&engine->desk->lock);
}

uint32_t desk_n_requests_of(struct engine *engine, uint64_t owner) {
        struct desk *d = engine->desk;
        const struct usage *u;
        uint32_t n;

        pthread_mutex_lock(&d->lock);
        u = map_get_u64(d->usage, owner);
        n = u ? u->n_requests : 0;
        pthread_mutex_unlock(&d->lock);
        return n;
}

void desk_close(struct engine *engine) {
        struct desk *d = engine->desk;

        pthread_mutex_lock(&d->lock);
        d->closed = true;
        pthread_mutex_unlock(&d->lock);
}

void desk_take(struct engine *engine, struct list *inbox) {
        struct desk *d = engine->desk;

        pthread_mutex_lock(&d->lock);
        list_move_all(inbox, &d->inbox);
        pthread_mutex_unlock(&d->lock);
}

/* Under the lock: does a request of the same owner stay in the inbox in front of it? */
static bool is_behind_own(const struct desk *d, const struct request *request) {
        struct list *it;

        for (it = d->inbox.next; it != &request->link; it = it->next)
                if (list_entry(it, struct request, link)->r.owner == request->r.owner)
                        return true;
        return false;
}

void desk_take_early(struct engine *engine, struct list *inbox) {
        struct desk *d = engine->desk;
        struct list *it, *tmp;
        unsigned n = 0;

        list_init(inbox);
        pthread_mutex_lock(&d->lock);
        list_for_each_safe (it, tmp, &d->inbox) {
                struct request *request = list_entry(it, struct request, link);

                if (n++ == MOST_EARLY)
                        break;
                if ((request->verb->start && !request->verb->looks) || is_behind_own(d, request))
                        continue;
                list_unlink(&request->link);
                list_append(inbox, &request->link);
        }
        pthread_mutex_unlock(&d->lock);
}

size_t desk_n_requests(struct engine *engine) {
        struct desk *d = engine->desk;
        size_t n;

        pthread_mutex_lock(&d->lock);
        n = d->n_requests;
        pthread_mutex_unlock(&d->lock);
        return n;
}

void desk_cancel_long(struct engine *engine) {
        struct desk *d = engine->desk;
        struct list *it;

        pthread_mutex_lock(&d->lock);
        list_for_each (it, &d->requests) {
                struct request *request = list_entry(it, struct request, all);

                if (request->verb->is_long)
                        atomic_store(&request->cancel, true);
        }
        pthread_mutex_unlock(&d->lock);
}

size_t desk_cancel_of(struct engine *engine, const struct owners *whose,
        const struct request *except, bool dry_run) {
        struct desk *d = engine->desk;
        struct list *it;
        size_t n = 0;

        pthread_mutex_lock(&d->lock);
        list_for_each (it, &d->requests) {
                struct request *request = list_entry(it, struct request, all);

                if (request == except || request->verb->uncounted ||
                        !owners_have(whose, request->r.owner))
                        continue;
                if (!dry_run)
                        atomic_store(&request->cancel, true);
                n++;
        }
        pthread_mutex_unlock(&d->lock);
        engine->again = true;
        return n;
}

size_t desk_n_working(struct engine *engine, bool cancel) {
        struct desk *d = engine->desk;
        struct list *it;
        size_t n = 0;

        pthread_mutex_lock(&d->lock);
        list_for_each (it, &d->requests) {
                struct request *request = list_entry(it, struct request, all);

                if (!request->verb->works)
                        continue;
                if (cancel)
                        atomic_store(&request->cancel, true);
                n++;
        }
        pthread_mutex_unlock(&d->lock);
        return n;
}

bool desk_awaits(struct engine *engine, uint64_t owner) {
        struct desk *d = engine->desk;
        struct list *it;
        bool found = false;

        pthread_mutex_lock(&d->lock);
        list_for_each (it, &d->requests) {
                struct request *request = list_entry(it, struct request, all);

                /* The engine thread writes `phase`, and is who asks. */
                if (request->phase == PHASE_IO && request->r.owner != owner &&
                        !request->verb->in_pieces && !request->verb->looks)
                        found = true;
        }
        pthread_mutex_unlock(&d->lock);
        return found;
}

struct list *desk_turns(struct engine *engine) {
        return &engine->desk->turns;
}

bool desk_turn_waits(struct engine *engine, uint64_t conv) {
        struct list *it, *turns = desk_turns(engine);

        list_for_each (it, turns)
                if (list_entry(it, struct request, link)->sc.id == conv)
                        return true;
        return false;
}

/* --- while a request is in flight --- */

void engine_cancel(struct engine *engine, uint64_t handle) {
        struct desk *d = engine->desk;
        struct request *request;

        pthread_mutex_lock(&d->lock);
        request = map_get_u64(d->by_handle, handle);
        if (request)
                atomic_store(&request->cancel, true);
        pthread_mutex_unlock(&d->lock);
        bell_ring(engine->bell);
}

void engine_pause(struct engine *engine, uint64_t handle, bool pause) {
        struct desk *d = engine->desk;
        struct request *request;

        pthread_mutex_lock(&d->lock);
        request = map_get_u64(d->by_handle, handle);
        if (request && pause)
                atomic_store(&request->was_paused, true);
        if (request)
                atomic_store(&request->paused, pause);
        pthread_mutex_unlock(&d->lock);
        bell_ring(engine->bell);
}
