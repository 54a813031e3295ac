/* SPDX-License-Identifier: MIT */
/*
 * Update: change the name of a conversation, its defaults for sampling, its overflow, whether its memory is
 * pinned, and what is noted.
 *
 * Once the transaction has committed, the conversation in RAM is what the register says, also if the row can't
 * be read back for the answer: update_run() fills in what it has set.
 */
#include "engine/verbs/create.h"

/* Whether the register has the change, even if reading it back failed. */
static bool *changed_of(struct request *request) {
        return request_own(request);
}

static uint32_t new_overflow(const struct engine_request *r) {
        switch (r->overflow) {
        case ENGINE_OVERFLOW_ERROR:
                return STORE_OVERFLOW_ERROR;
        case ENGINE_OVERFLOW_SHIFT:
                return STORE_OVERFLOW_SHIFT;
        default:
                return STORE_OVERFLOW_KEEP;
        }
}

static void update_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct sampling s = {};
        const char *name = request->r.name && request->r.name[0] ? request->r.name : NULL;
        uint64_t id = request->sc.id;
        uint32_t overflow = new_overflow(&request->r);
        unsigned tries = 0;

        if (name)
                j->r = create_check_name(name, &j->err);
        if (j->r < 0)
                return;
        j->r = store_conv_get(engine->store, request->r.owner, id, NULL, &request->sc, &j->err);
        if (j->r < 0)
                return;
        if (!request->r.reset_sampling)
                s = request->sc.sampling;
        sampling_merge(&s, &request->r.sampling);
        do {
                j->r = store_conv_update(engine->store, id, name,
                        request->r.sampling.has || request->r.reset_sampling ? &s : NULL, overflow,
                        request->r.has_pinned ? &request->r.pinned : NULL, request->r.about,
                        &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        *changed_of(request) = j->r == 0;
        if (j->r == 0) {
                request->sc.sampling = s;
                if (overflow != STORE_OVERFLOW_KEEP)
                        request->sc.overflow = overflow;
                if (request->r.has_pinned)
                        request->sc.pinned = request->r.pinned;
                j->r = store_conv_get(
                        engine->store, request->r.owner, id, NULL, &request->sc, &j->err);
        }
        request_read_noted(engine, request);
}

static void update_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;

        if (*changed_of(request)) {
                notice_conv(engine, ENGINE_NOTICE_CHANGED, c->owner, c->id, c->revision);
                c->sampling = request->sc.sampling;
                c->shifts = request->sc.overflow == STORE_OVERFLOW_SHIFT;
                c->pinned = request->sc.pinned;
                register_removed(engine); /* a name or title that was */
                sweep_noted(engine, request);
        }
        if (j->r < 0 && *changed_of(request))
                request_fail_done(engine, request, &j->err);
        else
                request_row_done(engine, j);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        int r = create_check_sampling(engine, &request->r.sampling, e);

        if (r == 0)
                request_submit(engine, request, update_run, update_done);
        return r;
}

const struct verb verb_update = {.own_size = sizeof(bool), .act = act, .hold = HOLD_FORKS};
