/* SPDX-License-Identifier: MIT */
/* Evict: write the memory of a conversation to disk now, and drop it from RAM. */
#include "engine/verbs/create.h"

struct evicting {
        struct eviction eviction;
        struct request *request;
        struct part part;
};

static void evicted(struct engine *engine, struct eviction *ev, int r, const struct err *why) {
        struct request *request = container_of(ev, struct evicting, eviction)->request;
        const struct conv *c = request->conv;
        struct engine_event *answer;

        if (r < 0) {
                request_fail(engine, request, why);
                return;
        }
        if (request->verb == &verb_evict_part) {
                evict_part(request)->done = true;
                request_finish_empty(engine, request);
                return;
        }
        /* The row was read before the request held the conversation. */
        request->sc.revision = c->revision;
        request->sc.n_tokens = conv_n_transcript(c) + c->n_lost_tokens;
        if (!c->damage)
                request->sc.gap = c->gap;
        request->sc.n_turns = c->n_turns + c->n_lost_turns;
        answer = request_answer_done(engine, request);
        if (!answer)
                return;
        answer->conv.n_not_kept = ev->n_not_kept;
        if (ev->n_not_kept > 0)
                answer->err = ev->why_not_kept;
        request_finish_held(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        struct evicting *own = request_own(request);

        (void)e;
        own->request = request;
        own->eviction.done = evicted;
        list_init(&own->eviction.link);
        evict_begin(engine, request->conv, &own->eviction);
        return 0;
}

const struct verb verb_evict = {.own_size = sizeof(struct evicting),
        .act = act,
        .by_admin = "evicts",
        .answers_found = true};

struct part *evict_part(struct request *request) {
        struct evicting *own = request_own(request);

        return &own->part;
}

static void part_deinit(struct engine *engine, struct request *request) {
        part_ended(engine, evict_part(request));
}

/* One of all conversations of a user (user-act.c). Nobody hears the end of the request. */
const struct verb verb_evict_part = {
        .own_size = sizeof(struct evicting), .deinit = part_deinit, .act = act, .uncounted = true};
