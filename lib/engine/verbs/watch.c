/* SPDX-License-Identifier: MIT */
/*
 * Watch: a request that stays, and gets notices of what happens to its owner's conversations.
 *
 *      start() ─→ MODEL ─→ (LIST_AGAIN) ─→ notices ... ─→ Empty (cancelled) or ERR_SHUTDOWN
 *                                ↑            │
 *                                └── lost ────┘
 *
 * 1. A watcher is a place in the ring of notices (io/notices.c). watch_step() gives it the notices
 *    behind this place, in order, and moves the place behind each one that was given. A notice that
 *    can't be given now stays where it is: the watcher's credit is used up (io/outbox.c), its peer does
 *    not read (engine_pause()), or there is no memory for an event. So a watcher that falls behind
 *    costs nothing, and nobody waits for it.
 * 2. If the ring has lost notices behind the place, LIST_AGAIN is given in their stead, and the watcher
 *    goes on from the newest one: whoever lists again after LIST_AGAIN finds everything older.
 * 3. A watcher that begins with a cursor that is unknown here has lost everything. Its MODEL has the same
 *    cursor once more, so that a client that stops before LIST_AGAIN does not believe to have all.
 * 4. A notice of a tenant has the tenant's label. The label is read from the register by a job, once as long
 *    as the owner stays the same; the notice waits in the ring meanwhile. If it can't be read the watch
 *    fails, since a notice without the label would be taken for one of the user's own.
 * 5. A watcher holds no conversation and no place, and nobody waits for it to end. When the engine stops,
 *    watchers end after all other requests, so that they hear how these end.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/verbs/create.h"

/* Until the next try, if there was no memory for an event. */
#define RETRY_USEC 10000

struct watching {
        struct notice_scope scope;
        uint64_t place; /* of the next notice in the ring */
        bool greeted;   /* MODEL was given */
        bool lost;      /* LIST_AGAIN is to be given */
        bool asking;    /* a job reads the label of `owner` */
        /* The owner whose label was read last; 0: none yet, and has none. */
        uint64_t owner;
        char label[STORE_NAME_MAX + 1];
};
static_assert(STORE_NAME_MAX == ENGINE_NAME_MAX, "labels fit");

static struct watching *watching_of(struct request *request) {
        return request_own(request);
}

static void start(struct engine *engine, struct request *request) {
        struct watching *w = watching_of(request);
        const struct engine_request *r = &request->r;

        w->scope = (struct notice_scope){
                .owner = r->owner, .all = r->all_users, .general = r->tell_pressure};
        w->place = notices_end(engine);
        if (r->cursor)
                w->lost = !notices_read_cursor(engine, r->cursor, &w->place);
        request->phase = PHASE_WAITS;
        list_append(&engine->verbs->watchers, &request->link);
        engine->verbs->n_watchers++;
}

/* --- labels of tenants (4) --- */

static void label_run(struct engine *engine, struct job *j) {
        struct watching *w = watching_of(request_of(j));

        j->r = store_tenant_label(engine->store, w->owner, w->label, &j->err);
}

static void leave(struct engine *engine, struct request *request);

static void label_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        watching_of(request)->asking = false;
        request->phase = PHASE_WAITS;
        if (j->r < 0) {
                leave(engine, request);
                request_fail(engine, request, &j->err);
        }
}

/* True if the label of @owner is at hand; else it will be, soon. */
static bool has_label(struct engine *engine, struct request *request, uint64_t owner) {
        struct watching *w = watching_of(request);

        if (owner_tenant(owner) == 0 || w->owner == owner)
                return true;
        w->owner = owner;
        w->asking = true;
        request_submit(engine, request, label_run, label_done);
        return false;
}

/* --- giving --- */

static void fill_model(struct engine *engine, struct request *request, struct engine_event *ev) {
        struct watching *w = watching_of(request);
        struct engine_model_info info;

        engine_describe_model(engine, &info);
        ev->notice.kind = ENGINE_NOTICE_MODEL;
        ev->notice.model = info.name;
        ev->notice.fingerprint[0] = info.fingerprint[0];
        ev->notice.fingerprint[1] = info.fingerprint[1];
        if (w->lost)
                memcpy(ev->notice.cursor, request->r.cursor, strlen(request->r.cursor) + 1);
        else
                notices_write_cursor(engine, w->place, ev->notice.cursor);
        w->greeted = true;
}

static void fill_list_again(struct engine *engine, struct watching *w, struct engine_event *ev) {
        ev->notice.kind = ENGINE_NOTICE_LIST_AGAIN;
        w->place = notices_end(engine);
        notices_write_cursor(engine, w->place, ev->notice.cursor);
        w->lost = false;
}

static void fill_notice(struct engine *engine, const struct watching *w,
        const struct notice *notice, uint64_t behind, struct engine_event *ev) {
        ev->notice.kind = notice->kind;
        ev->notice.owner = notice->owner;
        if (owner_tenant(notice->owner) > 0)
                memcpy(ev->notice.tenant, w->label, sizeof(w->label));
        ev->notice.conv = notice->conv;
        ev->notice.revision = notice->revision;
        ev->notice.parent = notice->parent;
        ev->notice.finish = notice->finish;
        ev->notice.budget = notice->budget;
        ev->notice.pressed = notice->pressed;
        notices_write_cursor(engine, behind, ev->notice.cursor);
}

/* Give the watcher one event. 1: given; 0: nothing to give, or no room for it now; -ERR_NOMEM. */
static int give(struct engine *engine, struct request *request) {
        struct watching *w = watching_of(request);
        struct notice notice = {0};
        uint64_t place = w->place;
        struct event_node *node;
        bool full;

        if (w->greeted && !w->lost) {
                switch (notices_next(engine, &w->scope, &place, &notice)) {
                case NOTICES_NONE:
                        w->place = place;
                        return 0;
                case NOTICES_LOST:
                        w->lost = true;
                        break;
                case NOTICES_ONE:
                        if (!has_label(engine, request, notice.owner))
                                return 0;
                        break;
                }
        }
        node = event_new_lent(engine, request->credit, request->r.handle, ENGINE_NOTICE, &full);
        if (!node)
                return full ? 0 : -ERR_NOMEM;
        if (!w->greeted) {
                fill_model(engine, request, &node->ev);
        } else if (w->lost) {
                fill_list_again(engine, w, &node->ev);
        } else {
                fill_notice(engine, w, &notice, place, &node->ev);
                w->place = place;
        }
        event_send(engine, node);
        return 1;
}

/* Give what there is; bounded, because the credit is. */
static int give_all(struct engine *engine, struct request *request) {
        int r = 1;

        while (r > 0 && !request_is_paused(request))
                r = give(engine, request);
        return r;
}

/* --- the end --- */

static void leave(struct engine *engine, struct request *request) {
        list_unlink(&request->link);
        engine->verbs->n_watchers--;
}

/* Everybody else has ended (5). */
static void end_stopped(struct engine *engine, struct request *request) {
        struct err e;

        err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
        leave(engine, request);
        request_fail(engine, request, &e);
}

uint64_t watch_step(struct engine *engine) {
        struct list *it, *tmp, *watchers = &engine->verbs->watchers;
        bool alone = engine->stopping && desk_n_requests(engine) == engine->verbs->n_watchers;
        bool no_memory = false;

        list_for_each_safe (it, tmp, watchers) {
                struct request *request = list_entry(it, struct request, link);

                if (watching_of(request)->asking)
                        continue; /* the job comes back */
                if (atomic_load(&request->cancel)) {
                        leave(engine, request);
                        request_finish_empty(engine, request);
                        continue;
                }
                no_memory = give_all(engine, request) < 0 || no_memory;
                if (alone && !watching_of(request)->asking)
                        end_stopped(engine, request);
        }
        return no_memory ? clock_monotonic_usec() + RETRY_USEC : UINT64_MAX;
}

const struct verb verb_watch = {.own_size = sizeof(struct watching), .start = start};
