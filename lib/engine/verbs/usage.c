/* SPDX-License-Identifier: MIT */
/*
 * Limits, as far as the engine knows of them: what an owner uses of them, the overrides in the register, and that
 * other ones hold from now on.
 *
 * Quotas of requests hold none of these back: an owner that may do nothing any more can still see why, and an
 * administrator can always change it. The daemon has few of them in flight.
 */
#include "base/clock.h"
#include "engine/verbs/create.h"

/* --- usage --- */

struct look {
        struct store_usage usage;
        uint64_t owner; /* whose it is; OWNER_ANY: of a tenant that nobody has named yet */
};

static struct look *look_of(struct request *request) {
        return request_own(request);
}

static void usage_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct look *look = look_of(request);

        j->r = tenant_find(engine, request->r.owner, request->r.tenant, &look->owner, &j->err);
        if (j->r == 0 && look->owner != OWNER_ANY)
                j->r = store_usage(engine->store, look->owner, &look->usage, &j->err);
        request->account.reads = look->owner == request->r.owner;
}

/* What the register had, and of the request's own owner also what is on its way there. */
static void fill_tokens(struct request *request, uint64_t *used) {
        const struct look *look = look_of(request);
        uint64_t now = clock_realtime_usec();

        if (look->owner == request->r.owner) {
                request->account.seen = look->usage;
                used[QUOTA_TOKENS] = account_used(request, QUOTA_TOKENS, now);
                used[QUOTA_TOKENS_PER_DAY] = account_used(request, QUOTA_TOKENS_PER_DAY, now);
                return;
        }
        used[QUOTA_TOKENS] = look->usage.n_tokens;
        if (look->usage.day == quota_day(now))
                used[QUOTA_TOKENS_PER_DAY] = look->usage.day_tokens;
}

static void usage_start(struct engine *engine, struct request *request);

static void usage_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct look *look = look_of(request);
        uint64_t *used;

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (account_read_again(engine, request, usage_start))
                return;
        used = request_answer(request, ENGINE_USED)->used;
        if (look->owner != OWNER_ANY) {
                fill_tokens(request, used);
                used[QUOTA_CONVERSATIONS] = look->usage.n_conversations;
                used[QUOTA_RAM] = ration_used(engine, look->owner);
                used[QUOTA_DISK] = spill_owner_size(engine->spill, look->owner);
                used[QUOTA_REQUESTS] = desk_n_requests_of(engine, look->owner);
                /* This one is not held back, so it does not count. */
                if (look->owner == request->r.owner)
                        used[QUOTA_REQUESTS]--;
        }
        request_finish(engine, request);
}

static void usage_start(struct engine *engine, struct request *request) {
        account_look(request);
        request_submit(engine, request, usage_run, usage_done);
}

const struct verb verb_usage = {
        .own_size = sizeof(struct look), .start = usage_start, .looks = true, .uncounted = true};

/* --- overrides --- */

static void override_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct engine_request *r = &request->r;
        const struct quota_subject subject = {
                r->subject_kind, r->subject_number, r->tenant ? r->tenant : ""};
        struct store_override_change changes[QUOTA_N];
        unsigned tries = 0;
        size_t n = 0;

        for (size_t i = 0; i < QUOTA_N; i++)
                if (r->overrides[i].is)
                        changes[n++] = (struct store_override_change){.quota = (enum quota)i,
                                .clear = r->overrides[i].clear,
                                .value = r->overrides[i].value};
        do
                j->r = store_overrides_change(engine->store, &subject, changes, n, &j->err);
        while (register_retry(engine, &tries, j->r, &j->err));
}

static void override_done(struct engine *engine, struct job *j) {
        /* What was read of others' changes meanwhile may be from before this one. */
        if (engine->verbs->overriding)
                atomic_store(&engine->verbs->overrides_changed, true);
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                request_finish_empty(engine, request_of(j));
}

static void override_start(struct engine *engine, struct request *request) {
        struct err e;

        if (request->r.subject_kind == QUOTA_OF_TENANT &&
                create_check_label(request->r.tenant ? request->r.tenant : "", &e) < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, override_run, override_done);
}

const struct verb verb_override = {.start = override_start, .uncounted = true};

/* Another machine has changed some: all are read, and told. */
struct overriding {
        struct job job;
        struct quota_override *list;
        size_t n;
};

static void overriding_run(struct engine *engine, struct job *j) {
        struct overriding *x = container_of(j, struct overriding, job);

        j->r = store_overrides(engine->store, &x->list, &x->n, &j->err);
}

/* If they can't be read, what holds here goes on holding, until the register is heard again (lib/store/pg-keeper.c). */
static void overriding_done(struct engine *engine, struct job *j) {
        struct overriding *x = container_of(j, struct overriding, job);
        struct event_node *n =
                j->r == 0 ? event_new(engine, NULL, 0, ENGINE_OVERRIDES, false) : NULL;

        if (n) {
                n->ev.overrides.list = TAKE_PTR(x->list);
                n->ev.overrides.n = x->n;
                event_send(engine, n);
        }
        free(x->list);
        free(x);
        engine->verbs->overriding = NULL;
        engine->again = true;
}

void overrides_changed(struct engine *engine) {
        atomic_store(&engine->verbs->overrides_changed, true);
        bell_ring(engine->bell);
}

void overrides_step(struct engine *engine) {
        struct verb_state *v = engine->verbs;
        struct overriding *x;

        if (v->overriding || engine->stopping || !atomic_exchange(&v->overrides_changed, false))
                return;
        x = calloc(1, sizeof(*x));
        if (!x)
                return;
        x->job.run = overriding_run;
        x->job.done = overriding_done;
        v->overriding = x;
        io_submit(engine, &x->job);
}

int engine_overrides(
        struct engine *engine, struct quota_override **ret, size_t *ret_n, struct err *e) {
        return store_overrides(engine->store, ret, ret_n, e);
}

/* --- limits --- */

static void limit_start(struct engine *engine, struct request *request) {
        conv_limit_all(engine, request->r.owner, &request->r.quotas);
        request_finish_empty(engine, request);
}

const struct verb verb_limit = {.start = limit_start, .uncounted = true};
