/* SPDX-License-Identifier: MIT */
/*
 * Sweeping: throw-away conversations (expires_after) are closed when they are due.
 *
 * 1. A conversation is due when nobody has used it for expires_after seconds: no change of it in the
 *    register, and no request that held it in RAM. One that is in use is left alone, and looked at again.
 * 2. Of an owner that has more than max_throwaways_per_owner of them, those that were changed longest ago
 *    are due at once, if they are not in use.
 * 3. Each is closed by a request of its own, as Close does it, which ends at once where something has
 *    happened to the conversation meanwhile: it is busy, was used, or changed (store_conv_expire()).
 *    Few of these are under way at a time, so that they take nobody's place.
 * 4. There is one look at the register at a time: when the first conversation is due, a minute later at
 *    the latest, and when one was made or marked as throw-away.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/verbs/create.h"

#define PAGE 64
#define MOST 8 /* under way at a time */
#define SECOND 1000000u
#define LONGEST (60 * (uint64_t)SECOND) /* between two looks */
#define SHORTEST (SECOND / 10)

struct sweep {
        struct job job;
        bool runs;
        bool asked;      /* look once more, when the present look is over */
        uint64_t due;    /* clock_monotonic_usec(): of the next look */
        uint64_t handle; /* of the last request, counted down: the loop thread's rise from 1 */
        uint64_t now;    /* realtime, of the look */
        bool too_many;   /* the page has those that are too many; else those that are due */
        struct store_throwaway page[PAGE], after;
        size_t n, at;  /* of the page; so many were looked at */
        uint64_t next; /* realtime: when one of them is due */
        bool looks;    /* through the page */
};

struct sweep *sweep_new(void) {
        return calloc(1, sizeof(struct sweep));
}

struct sweep *sweep_free(struct sweep *w) {
        free(w);
        return NULL;
}

static struct sweep *sweep_of(struct job *j) {
        return container_of(j, struct sweep, job);
}

/* Was it used since it was changed? Then it is due later. */
static uint64_t due_of(struct engine *engine, const struct store_throwaway *t) {
        const struct conv *c = convs_find(engine, t->id);
        uint64_t idle, now = clock_monotonic_usec(), after = (uint64_t)t->expires_after * SECOND;

        if (conv_loader(engine, t->id) || (c && c->n_users > 0))
                return UINT64_MAX;
        if (!c || c->t_idle == 0)
                return t->due_usec;
        idle = now - MIN(now, c->t_idle);
        return idle >= after ? t->due_usec : store_now_usec(engine->store) + after - idle;
}

static void close_it(struct engine *engine, struct sweep *w, uint64_t id, uint64_t owner) {
        const struct engine_request r = {.handle = UINT64_MAX - ++w->handle,
                .verb = ENGINE_CLOSE,
                .owner = owner,
                .conv_id = id,
                .fd = -1};
        struct request *request = NULL;
        struct expiry *x;

        /* Without memory it is tried again. */
        if (request_new(&request, engine, &verb_expire, &r, NULL) < 0)
                return;
        x = request_own(request);
        x->counted = true;
        engine->verbs->n_expiring++;
        x->due_usec = w->too_many ? UINT64_MAX : w->now;
        if (desk_enter(engine, request, NULL) < 0)
                request_free(engine, request);
}

static void look_run(struct engine *engine, struct job *j) {
        struct sweep *w = sweep_of(j);

        w->now = store_now_usec(engine->store);
        w->n = 0;
        if (w->too_many)
                j->r = store_throwaways_beyond(engine->store, engine->o.max_throwaways_per_owner,
                        &w->after, w->page, PAGE, &w->n, &j->err);
        else
                j->r = store_throwaways(engine->store, &w->after, w->page, PAGE, &w->n, &j->err);
}

static void look(struct engine *engine, struct sweep *w);

/* The page was looked at: go on with the next one, or sleep. */
static void go_on(struct engine *engine, struct sweep *w, bool more) {
        uint64_t now = store_now_usec(engine->store), wait = w->next > now ? w->next - now : 0;

        if (more) {
                w->after = w->page[w->n - 1];
                look(engine, w);
        } else if (w->too_many) {
                w->too_many = false;
                w->after = (struct store_throwaway){0};
                look(engine, w);
        } else {
                w->runs = false;
                w->due = w->asked ? 0
                                  : clock_monotonic_usec() +
                                            MIN(MAX(wait, (uint64_t)SHORTEST), LONGEST);
                w->asked = false;
        }
}

static void look_done(struct engine *engine, struct job *j) {
        struct sweep *w = sweep_of(j);

        engine->again = true;
        if (engine->stopping || j->r < 0) {
                w->runs = false;
                w->due = clock_monotonic_usec() + LONGEST;
                return;
        }
        w->at = 0;
        w->looks = true;
}

/* Go through the page, as far as requests may be under way. */
static void look_at_page(struct engine *engine, struct sweep *w) {
        bool more = w->n == PAGE;

        for (; w->at < w->n; w->at++) {
                const struct store_throwaway *t = &w->page[w->at];
                uint64_t due = due_of(engine, t);

                if (!w->too_many && t->due_usec > w->now) {
                        /* They come by this time: none behind it is due. */
                        w->next = MIN(w->next, t->due_usec);
                        more = false;
                        break;
                }
                if (due == UINT64_MAX)
                        continue;
                if (!w->too_many && due > w->now) {
                        w->next = MIN(w->next, due);
                        continue;
                }
                if (engine->verbs->n_expiring == MOST)
                        return; /* sweep_step() comes back */
                close_it(engine, w, t->id, t->owner);
        }
        w->looks = false;
        go_on(engine, w, more);
}

static void look(struct engine *engine, struct sweep *w) {
        w->job.run = look_run;
        w->job.done = look_done;
        io_submit(engine, &w->job);
}

void sweep_noted(struct engine *engine, const struct request *request) {
        struct sweep *w = engine->verbs->sweep;

        if (!request->r.about || !(request->r.about->has & ABOUT_EXPIRES))
                return;
        w->asked = true;
        w->due = 0;
}

uint64_t sweep_step(struct engine *engine) {
        struct sweep *w = engine->verbs->sweep;

        if (w->looks && engine->stopping)
                w->looks = w->runs = false;
        if (w->looks && engine->verbs->n_expiring < MOST)
                look_at_page(engine, w);
        if (w->runs || engine->stopping)
                return UINT64_MAX;
        if (clock_monotonic_usec() < w->due)
                return w->due;
        w->runs = true;
        w->asked = false;
        w->next = UINT64_MAX;
        w->too_many = true;
        w->after = (struct store_throwaway){0};
        look(engine, w);
        return UINT64_MAX;
}
