/* SPDX-License-Identifier: MIT */
/*
 * Places: which requests are active. batch.c tells how the active ones share a step.
 *
 * A request waits in the queue or holds one of max_active places, and the blocks that it may come
 * to need count against the pool's capacity as long as it holds the place. A user's requests of one
 * class (interactive or background) are a flow. Places and steps are shared between flows; within a
 * flow requests go in order of arrival.
 *
 *                 take_place()                 generate_restored()
 *      QUEUED ───────────────────→ RESTORE ─────────────────────────→ PREFILL → DECODE
 *        ↑ ↑                        │ ↑  │                               │        │
 *        │ └────────── park() ──────┘ │  └→ READING ─→ (restore.c)       │        │
 *        │                            └──────┘ stopped, to be parked     │        │
 *        └─────────────────────────── park() ────────────────────────────┴────────┘
 *
 * 1. A request is admitted only if the blocks that it and all active ones may come to need fit the
 *    pool together. So an active request never waits for another active one, only for evictions of
 *    memory that no active request has. A request that does not even fit alone, because the system
 *    has no memory to give, waits until the system has (budget.c, rule 4), and lets others go
 *    before it.
 * 2. Any active request may be parked between two steps: it goes back into the queue with its
 *    tokens, and its memory stays until somebody else needs the room (evict.c). When it has a place
 *    again its memory is restored or computed again, and it goes on with the same bits (I2). Its
 *    client sees a pause. A request that is being read from disk is stopped first, and parked when
 *    the workers are out of it.
 * 3. The next one to have a place is interactive rather than background, then of the flow that
 *    holds the fewest places, then of the flow with the least service, then the first to come.
 *    Nobody overtakes it while it does not fit.
 * 4. If it does not fit, others are parked for it, as many as it takes or none. Who may be parked,
 *    in this order:
 *    a. requests whose peer does not read (they are not counted anywhere here);
 *    b. for an interactive request: background requests of any user, at once;
 *    c. requests of the same class of a flow that holds at least two places more: so flows that
 *       want more places than there are hold equal numbers, and no such exchange is undone;
 *    d. for a flow without any place: requests of a flow whose service is a turn (half of
 *       batch_tokens) ahead, and that had theirs: since they have the place they computed something
 *       new, and half as much as they had to compute again. So more users than places take turns,
 *       and each of them comes on, also where the memory of the ones that wait is always lost. If
 *       the flow is fresh, a lead of nothing will do against one that is not; it is fresh only
 *       once.
 *    Of several flows the one with the most places is taken from, then the one with the most
 *    service, and of its requests the last to come. A flow never parks its own requests, and no
 *    request is parked in the step in which it got its place: so this ends.
 * 5. Service is the number of tokens computed for a flow. A flow that comes to work starts with two
 *    turns less than the least service of the flows at work, or with what it had, whichever is
 *    more. In the first case it is fresh until it has its first token. So a user who comes anew has
 *    a place at once, however long the requests of the others are, and nobody gains by being
 *    absent, or by coming and going.
 * 6. While interactive requests hold or want all places, background ones wait: they do not age.
 *    Where interactive ones leave places, background ones have them, and compute (batch.c).
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/clock.h"
#include "engine/internal.h"

static struct flow *flow_of(const struct request *request) {
        return &request->usage->flow[request->r.background];
}

bool sched_is_paused(struct request *request) {
        return atomic_load(&request->paused) && !atomic_load(&request->cancel);
}

/* The queue is kept in order of arrival, also when a request comes back to it. */
static void enqueue(struct engine *engine, struct request *request) {
        struct list *it;

        list_for_each (it, &engine->queue)
                if (list_entry(it, struct request, link)->order > request->order)
                        break;
        list_insert_before(it, &request->link);
        request->phase = PHASE_QUEUED;
}

void sched_queue(struct engine *engine, struct request *request) {
        struct usage *user = request->usage;

        if (list_empty(&user->link)) {
                list_append(&engine->users, &user->link);
                pthread_mutex_lock(&engine->lock);
                user->kept = true;
                pthread_mutex_unlock(&engine->lock);
        }
        flow_of(request)->n_requests++;
        request->phase = PHASE_QUEUED;
        request->order = engine->next_order++;
        list_append(&engine->queue, &request->link);
        engine->again = true;
}

static void leave_place(struct engine *engine, struct request *request) {
        list_unlink(&request->link);
        engine->n_active--;
        engine->active_blocks -= request->g.need_blocks;
}

void sched_leave(struct engine *engine, struct request *request) {
        engine->again = true;
        flow_of(request)->n_requests--;
        if (request->phase == PHASE_QUEUED)
                list_unlink(&request->link);
        else
                leave_place(engine, request);
}

/* --- looking --- */

static int64_t turn(const struct engine *engine) {
        return MAX(engine->o.batch_tokens / 2, 1u);
}

/* Rule 5, for the flows of one class. */
static void update_service(struct engine *engine, bool class) {
        int64_t least = INT64_MAX, start = engine->floor[class];
        struct list *it;

        list_for_each (it, &engine->users)
                if (list_entry(it, struct usage, link)->flow[class].works)
                        start = engine->floor[class] - 2 * turn(engine);
        list_for_each (it, &engine->users) {
                struct flow *f = &list_entry(it, struct usage, link)->flow[class];
                bool works = f->n_places > 0 || f->next;

                if (works && !f->works) {
                        f->fresh = f->service <= start;
                        f->service = MAX(f->service, start);
                }
                f->works = works;
                if (works)
                        least = MIN(least, f->service);
        }
        if (least != INT64_MAX)
                engine->floor[class] = MAX(engine->floor[class], least);
}

static bool worth_remembering(const struct engine *engine, const struct usage *user) {
        for (int class = 0; class < 2; class ++) {
                const struct flow *f = &user->flow[class];

                if (f->n_requests > 0 || f->debt > 0 ||
                        f->service > engine->floor[class] - 2 * turn(engine))
                        return true;
        }
        return false;
}

/* Users without requests are kept until they are like new ones, so that nobody gains by leaving. */
static void forget_users(struct engine *engine) {
        bool idle = list_empty(&engine->queue) && engine->n_active == 0;
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &engine->users) {
                struct usage *user = list_entry(it, struct usage, link);

                if (!idle && worth_remembering(engine, user))
                        continue;
                list_unlink(&user->link);
                memset(user->flow, 0, sizeof(user->flow));
                pthread_mutex_lock(&engine->lock);
                user->kept = false;
                usage_put(engine, user);
                pthread_mutex_unlock(&engine->lock);
        }
        if (idle)
                engine->floor[0] = engine->floor[1] = 2 * turn(engine);
}

/* Once for a request: why it waits. */
static void tell_waiting(struct engine *engine, struct request *request) {
        struct err e;

        if (request->g.was_told)
                return;
        request->g.was_told = true;
        err_set(&e, ERR_LIMIT,
                "conversation %llu needs %llu MiB, more than the system has to give now: it waits",
                (unsigned long long)request->conv->id,
                (unsigned long long)(request->g.need_blocks * engine->slot_size >> 20));
        engine_event_log(engine, LOG_WARNING, &e);
}

/* How many places each flow holds, and which of its requests is the next. Requests whose peer does
 * not read are left out: they hold what nobody wants yet. */
static void look(struct engine *engine) {
        struct list *it;

        list_for_each (it, &engine->users)
                for (int class = 0; class < 2; class ++) {
                        struct flow *f = &list_entry(it, struct usage, link)->flow[class];

                        f->n_places = 0;
                        f->next = NULL;
                }
        list_for_each (it, &engine->active) {
                struct request *request = list_entry(it, struct request, link);

                request->g.outgoing = false;
                if (!sched_is_paused(request))
                        flow_of(request)->n_places++;
        }
        list_for_each (it, &engine->queue) {
                struct request *request = list_entry(it, struct request, link);
                struct flow *f = flow_of(request);

                if (f->next || sched_is_paused(request))
                        continue;
                if (residency_fits(engine, request->g.need_blocks))
                        f->next = request;
                else
                        tell_waiting(engine, request);
        }
        update_service(engine, false);
        update_service(engine, true);
        forget_users(engine);
}

/* --- who is next --- */

/* Of two flows of one class that want a place (rule 3). */
static bool goes_before(const struct flow *a, const struct flow *b) {
        if (a->n_places != b->n_places)
                return a->n_places < b->n_places;
        if (a->service != b->service)
                return a->service < b->service;
        return a->next->order < b->next->order;
}

static struct request *first_in_line(struct engine *engine) {
        struct list *it;

        for (int class = 0; class < 2; class ++) {
                struct flow *best = NULL;

                list_for_each (it, &engine->users) {
                        struct flow *f = &list_entry(it, struct usage, link)->flow[class];

                        if (f->next && (!best || goes_before(f, best)))
                                best = f;
                }
                if (best)
                        return best->next;
        }
        return NULL;
}

/* --- room for it --- */

static bool fits(struct engine *engine, const struct request *request, size_t n_active,
        size_t active_blocks) {
        return n_active < engine->o.max_active &&
               residency_fits(engine, active_blocks + request->g.need_blocks);
}

/* Tokens of the conversation that are new since the request came: what it computes again, because
 * it lost its memory while it was parked, does not count. */
static uint32_t n_new(const struct request *request) {
        return request->g.n_reached + request->g.n_generated;
}

/* Something new, and half as much as it had to compute again for it (up to a turn). */
static bool had_its_turn(const struct engine *engine, const struct request *request) {
        uint32_t fresh = n_new(request) - request->g.n_new_before;
        uint32_t again = request->g.n_here - MIN(request->g.n_here, fresh);

        return fresh >= MAX(MIN(again / 2, (uint32_t)turn(engine)), 1u);
}

/* Whose turn it is to go for @request: the lower, the sooner; 0: not at all (rule 4). */
enum { STAYS, GOES_UNREAD, GOES_BACKGROUND, GOES_EQUAL };

static int may_go(struct engine *engine, struct request *victim, const struct request *request) {
        const struct flow *of = flow_of(victim), *to = flow_of(request);

        if (victim->g.incoming || victim->g.outgoing)
                return STAYS;
        if (sched_is_paused(victim))
                return GOES_UNREAD;
        if (victim->r.background != request->r.background)
                return victim->r.background ? GOES_BACKGROUND : STAYS;
        if (of == to)
                return STAYS;
        if (of->n_places > to->n_places + 1)
                return GOES_EQUAL;
        if (to->n_places > 0)
                return STAYS;
        if (to->fresh && !of->fresh && of->service >= to->service)
                return GOES_EQUAL;
        return of->service >= to->service + turn(engine) && had_its_turn(engine, victim)
                       ? GOES_EQUAL
                       : STAYS;
}

/* Of two that may go for the same reason: does @a go rather than @b? One that is being read would
 * have to be read again. */
static bool goes_sooner(const struct request *a, const struct request *b) {
        const struct flow *fa = flow_of(a), *fb = flow_of(b);

        if (fa->n_places != fb->n_places)
                return fa->n_places > fb->n_places;
        if (fa != fb && fa->service != fb->service)
                return fa->service > fb->service;
        if ((a->phase == PHASE_READING) != (b->phase == PHASE_READING))
                return b->phase == PHASE_READING;
        return a->order > b->order;
}

static struct request *next_victim(struct engine *engine, const struct request *request) {
        struct request *best = NULL;
        int best_why = STAYS;
        struct list *it;

        list_for_each (it, &engine->active) {
                struct request *victim = list_entry(it, struct request, link);
                int why = may_go(engine, victim, request);

                if (why == STAYS)
                        continue;
                if (!best || why < best_why || (why == best_why && goes_sooner(victim, best))) {
                        best = victim;
                        best_why = why;
                }
        }
        return best;
}

static void park(struct engine *engine, struct request *request) {
        residency_restore_abandon(engine, request);
        seq_unreserve(request->conv->seq);
        leave_place(engine, request);
        enqueue(engine, request);
        /* Waiting for a place is not restoring: times begin anew with the next place. */
        if (request->g.t_restored == 0)
                request->g.t_admitted = 0;
        engine->count.parked++;
}

/* Park others until @request fits (rule 4). False if they are not enough, or if the workers have to
 * be out of one of them first. */
static bool make_place(struct engine *engine, const struct request *request) {
        struct request *victims[ENGINE_MAX_ACTIVE];
        size_t n = 0, n_active = engine->n_active, blocks = engine->active_blocks;
        bool reading = false;

        while (!fits(engine, request, n_active, blocks)) {
                struct request *victim = next_victim(engine, request);

                if (!victim)
                        return false;
                victim->g.outgoing = true;
                if (!sched_is_paused(victim))
                        flow_of(victim)->n_places--;
                victims[n++] = victim;
                n_active--;
                blocks -= victim->g.need_blocks;
        }
        for (size_t i = 0; i < n; i++)
                if (victims[i]->phase == PHASE_READING) {
                        residency_restore_stop(victims[i]);
                        reading = true;
                }
        for (size_t i = 0; i < n && !reading; i++)
                park(engine, victims[i]);
        return !reading;
}

static void take_place(struct engine *engine, struct request *request, uint64_t now) {
        list_unlink(&request->link);
        list_append(&engine->active, &request->link);
        engine->n_active++;
        engine->active_blocks += request->g.need_blocks;
        budget_admitted(engine);
        request->phase = PHASE_RESTORE;
        request->g.incoming = true;
        request->g.n_here = 0;
        request->g.n_new_before = n_new(request);
        if (request->g.t_admitted == 0)
                request->g.t_admitted = now;
}

static void admit(struct engine *engine) {
        uint64_t now = clock_monotonic_usec();
        struct list *it;

        list_for_each (it, &engine->active)
                list_entry(it, struct request, link)->g.incoming = false;
        for (;;) {
                struct request *request;

                look(engine);
                request = first_in_line(engine);
                if (!request)
                        return;
                if (!fits(engine, request, engine->n_active, engine->active_blocks) &&
                        !make_place(engine, request))
                        return;
                take_place(engine, request, now);
        }
}

/* --- the step --- */

static void cancel_all(struct engine *engine, struct list *list, const struct err *e) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, list) {
                struct request *request = list_entry(it, struct request, link);

                if (!atomic_load(&request->cancel))
                        continue;
                if (request->phase == PHASE_READING)
                        residency_restore_stop(request); /* it ends when the workers are out */
                else
                        generate_cancel(engine, request, e);
        }
}

void sched_cancelled(struct engine *engine) {
        struct err e;

        if (engine->stopping)
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping; nothing was changed");
        else
                err_set(&e, ERR_CANCELLED, "cancelled before the reply began; nothing was changed");
        cancel_all(engine, &engine->queue, &e);
        cancel_all(engine, &engine->active, &e);
}

static void restore_all(struct engine *engine) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &engine->active) {
                struct request *request = list_entry(it, struct request, link);

                if (request->phase == PHASE_RESTORE)
                        residency_restore(engine, request);
        }
}

bool sched_step(struct engine *engine) {
        sched_cancelled(engine);
        if (event_backlog(engine))
                return false;
        admit(engine);
        restore_all(engine);
        return batch_step(engine);
}
