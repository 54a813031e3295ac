/* SPDX-License-Identifier: MIT */
/* Close: remove the conversation, and everything that is left of it. */
#include "engine/far/far.h"
#include "engine/verbs/create.h"

static int remove_conv(
        struct engine *engine, struct request *request, struct store_gone *gone, struct err *e) {
        const struct expiry *x = request->verb == &verb_expire ? request_own(request) : NULL;

        return x ? store_conv_expire(engine->store, request->sc.id, x->due_usec, gone, e)
                 : store_conv_delete(engine->store, request->sc.id, gone, e);
}

static void close_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_gone gone = {0};
        unsigned tries = 0;

        do {
                j->r = remove_conv(engine, request, &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void close_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        if (request->verb == &verb_expire)
                engine->count.expired++;
        if (request->verb == &verb_purge)
                close_part(request)->done = true;
        notice_conv(engine, ENGINE_NOTICE_CLOSED, request->conv->owner, request->conv->id,
                request->conv->revision);
        request->conv->stale = true;
        far_forget(engine, request->conv->owner, request->conv->id, request->conv->private_memory);
        if (request->conv->n_published > 0) {
                request->conv->n_published = 0;
                share_unpublish(engine);
        }
        request_finish_empty(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        int r = request_charge_records(request, e);

        if (r == 0)
                request_submit(engine, request, close_run, close_done);
        return r;
}

const struct verb verb_close = {
        .act = act, .after = AFTER_WRITING, .removes = true, .by_admin = "closes"};

static void expire_deinit(struct engine *engine, struct request *request) {
        const struct expiry *x = request_own(request);

        if (!x->counted)
                return;
        engine->verbs->n_expiring--;
        engine->again = true;
}

/* A throw-away conversation that is due (sweep.c). Nobody hears the end of the request. */
const struct verb verb_expire = {.own_size = sizeof(struct expiry),
        .deinit = expire_deinit,
        .act = act,
        .after = AFTER_WRITING,
        .removes = true,
        .uncounted = true};

struct part *close_part(struct request *request) {
        return request_own(request);
}

static void purge_deinit(struct engine *engine, struct request *request) {
        part_ended(engine, close_part(request));
}

/* One of all conversations of a user (user-act.c). Likewise. */
const struct verb verb_purge = {.own_size = sizeof(struct part),
        .deinit = purge_deinit,
        .act = act,
        .after = AFTER_WRITING,
        .removes = true,
        .uncounted = true};
