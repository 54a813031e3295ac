/* SPDX-License-Identifier: MIT */
/*
 * Places: which requests are active. batch.c decides how the active ones share a step.
 *
 * A request waits in the queue or holds one of max_active places. While it holds a place, the
 * memory that it may come to need counts against the pool's capacity. A user's requests of one class
 * (interactive or background) are a flow. Places and steps are shared between flows; within a flow
 * requests go in order of arrival.
 *
 *                 take_place()                 generate_restored()
 *      QUEUED ───────────────────→ RESTORE ─────────────────────────→ PREFILL → DECODE
 *        ↑ ↑                        │   (memory/recall.c)                │        │
 *        │ └───────── park() ───────┘                                    │        │
 *        └─────────────────────────── park() ────────────────────────────┴────────┘
 *
 * 1. A request is admitted only if the memory that it and all active requests may come to need fits
 *    the pool together. So an active request never waits for another active one, only for evictions
 *    of memory that no active request has. A request may not even fit alone, because the system has
 *    no memory to give. Then it waits until the system has (budget.c, rule 4), and lets others go
 *    before it.
 * 2. Any active request may be parked between two steps. It goes back into the queue with its
 *    tokens, and its memory stays until the room is needed (memory/evict.c). When it has a place
 *    again, its memory is restored or computed again, and it goes on with the same bits (I2). Its
 *    client sees a pause. If its memory is just being read from disk, the reading is stopped first,
 *    and the request is parked when the workers are done; nor is it parked while its input
 *    is being stored (commit.c).
 * 3. The next request to get a place is chosen by class (interactive before background), then by
 *    flow (fewest places, then least service), then by arrival. While it does not fit, nobody
 *    overtakes it.
 * 4. If it does not fit, others are parked for it: as many as necessary, or none. These may be
 *    parked, in this order:
 *    a. requests whose peer does not read (they are not counted anywhere here);
 *    b. for an interactive request: background requests of any user, at once;
 *    c. requests of the same class, of a flow that holds at least two places more: so flows that
 *       want more places than there are hold equal numbers, and no such exchange is undone;
 *    d. for a flow without any place: requests of a flow whose service is a turn (half of
 *       batch_tokens) ahead, if they have had their turn. A request has had its turn if since it
 *       got its place it computed something new, and half as much as it had to compute again. So
 *       more users than places take turns, and each of them makes progress, even if waiting
 *       requests always lose their memory. A fresh flow takes a place from a flow that is not
 *       fresh even if their service is equal; a flow is fresh only once.
 *    Among several flows the one with the most places loses one, then the one with the most
 *    service; among its requests the latest to arrive, but rather one that can go at once (rule 2).
 *    A flow never parks its own requests, and no request is parked in the step in which it got its
 *    place: so this ends.
 * 5. Service is the number of tokens computed for a flow. A flow that comes to work starts with two
 *    turns less than the least service of the working flows, or with what it had if that is more.
 *    In the first case it is fresh until it has its first token. So a new user gets a place at
 *    once, however long the requests of the others are, and nobody gains by being absent, or by
 *    coming and going.
 * 6. While interactive requests hold or want all places, background requests wait, for however
 *    long. If interactive ones leave places free, background ones have them, and compute (batch.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/run/state.h"

/* The queue is kept in order of arrival, also when a request returns to it. */
static void enqueue(struct engine *engine, struct request *request) {
        uint64_t order = generation_of(request)->order;
        struct list *it;

        list_for_each (it, &engine->run->queue)
                if (generation_of(list_entry(it, struct request, link))->order > order)
                        break;
        list_insert_before(it, &request->link);
        request->phase = PHASE_QUEUED;
        conv_set_waiting(engine, request->conv, true, request->r.background, order);
}

static struct user *find_user(struct run *run, uint64_t owner) {
        struct user *user;
        struct list *it;

        list_for_each (it, &run->users)
                if (list_entry(it, struct user, link)->owner == owner)
                        return list_entry(it, struct user, link);
        user = calloc(1, sizeof(*user));
        if (!user)
                return NULL;
        user->owner = owner;
        list_append(&run->users, &user->link);
        return user;
}

int sched_queue(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);

        g->user = find_user(engine->run, request->r.owner);
        if (!g->user)
                return err_set(e, ERR_NOMEM, "no memory for a user");
        flow_of(request)->n_requests++;
        g->order = engine->run->next_order++;
        enqueue(engine, request);
        engine->again = true;
        return 0;
}

static void leave_place(struct engine *engine, struct request *request) {
        struct run *run = engine->run;

        list_unlink(&request->link);
        run->n_active--;
        run->active_size -= generation_of(request)->need_size;
        budget_need(engine->budget, run->active_size);
        credit_set_active(engine, request->credit, false);
}

/* Leave the queue or the active requests. */
static void leave(struct engine *engine, struct request *request) {
        engine->again = true;
        flow_of(request)->n_requests--;
        if (request->phase == PHASE_QUEUED) {
                list_unlink(&request->link);
                conv_set_waiting(engine, request->conv, false, request->r.background, 0);
        } else {
                leave_place(engine, request);
        }
        generation_of(request)->user = NULL;
}

/* --- looking --- */

static int64_t turn(const struct engine *engine) {
        return MAX(engine->o.batch_tokens / 2, 1u);
}

/* Apply rule 5 to the flows of one class. */
static void update_service(struct engine *engine, bool class) {
        int64_t least = INT64_MAX, start = engine->run->floor[class];
        struct list *it;

        list_for_each (it, &engine->run->users)
                if (list_entry(it, struct user, link)->flow[class].works)
                        start = engine->run->floor[class] - 2 * turn(engine);
        list_for_each (it, &engine->run->users) {
                struct flow *f = &list_entry(it, struct user, link)->flow[class];
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
                engine->run->floor[class] = MAX(engine->run->floor[class], least);
}

static bool worth_remembering(const struct engine *engine, const struct user *user) {
        for (int class = 0; class < 2; class ++) {
                const struct flow *f = &user->flow[class];

                if (f->n_requests > 0 || f->debt > 0 ||
                        f->service > engine->run->floor[class] - 2 * turn(engine))
                        return true;
        }
        return false;
}

/* Users without requests are kept until they equal new ones, so that nobody gains by leaving. */
static void forget_users(struct engine *engine) {
        bool idle = list_empty(&engine->run->queue) && engine->run->n_active == 0;
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &engine->run->users) {
                struct user *user = list_entry(it, struct user, link);

                if (!idle && worth_remembering(engine, user))
                        continue;
                list_unlink(&user->link);
                free(user);
        }
        if (idle)
                engine->run->floor[0] = engine->run->floor[1] = 2 * turn(engine);
}

/* Log once for each request why it waits. */
static void tell_waiting(struct engine *engine, struct request *request) {
        struct err e;

        if (generation_of(request)->was_told)
                return;
        generation_of(request)->was_told = true;
        err_set(&e, ERR_LIMIT,
                "conversation %llu needs %llu MiB, more than the system has to give now: it waits",
                (unsigned long long)request->conv->id,
                (unsigned long long)(generation_of(request)->need_size >> 20));
        event_log(engine, ENGINE_LOG_WAITS, request->r.owner, request->conv->id, &e);
}

/* Count the places of each flow, and find its next request. Requests whose peer does not read are
 * left out: nobody wants their places yet. */
static void look(struct engine *engine) {
        struct list *it;

        list_for_each (it, &engine->run->users)
                for (int class = 0; class < 2; class ++) {
                        struct flow *f = &list_entry(it, struct user, link)->flow[class];

                        f->n_places = 0;
                        f->next = NULL;
                }
        list_for_each (it, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);

                generation_of(request)->outgoing = false;
                if (!request_is_paused(request))
                        flow_of(request)->n_places++;
        }
        list_for_each (it, &engine->run->queue) {
                struct request *request = list_entry(it, struct request, link);
                struct flow *f = flow_of(request);

                if (f->next || request_is_paused(request))
                        continue;
                if (budget_fits(engine->budget, generation_of(request)->need_size))
                        f->next = request;
                else
                        tell_waiting(engine, request);
        }
        update_service(engine, false);
        update_service(engine, true);
        forget_users(engine);
}

/* --- who is next --- */

/* Compare two flows of one class that want a place (rule 3). */
static bool goes_before(const struct flow *a, const struct flow *b) {
        if (a->n_places != b->n_places)
                return a->n_places < b->n_places;
        if (a->service != b->service)
                return a->service < b->service;
        return generation_in(a->next)->order < generation_in(b->next)->order;
}

static struct request *first_in_line(struct engine *engine) {
        struct list *it;

        for (int class = 0; class < 2; class ++) {
                struct flow *best = NULL;

                list_for_each (it, &engine->run->users) {
                        struct flow *f = &list_entry(it, struct user, link)->flow[class];

                        if (f->next && (!best || goes_before(f, best)))
                                best = f;
                }
                if (best)
                        return best->next;
        }
        return NULL;
}

/* --- room for it --- */

static bool fits(
        struct engine *engine, const struct request *request, size_t n_active, size_t active_size) {
        return n_active < engine->o.max_active &&
               budget_fits(engine->budget, active_size + generation_in(request)->need_size);
}

/* Tokens of the conversation that are new since the request came. Tokens computed again, because
 * their memory was lost while the request was parked, do not count. */
static uint32_t n_new(const struct request *request) {
        return generation_in(request)->n_reached + generation_in(request)->n_generated;
}

/* Did it compute something new, and half as much as it had to compute again (up to a turn)? */
static bool had_its_turn(const struct engine *engine, const struct request *request) {
        uint32_t fresh = n_new(request) - generation_in(request)->n_new_before;
        uint32_t again =
                generation_in(request)->n_here - MIN(generation_in(request)->n_here, fresh);

        return fresh >= MAX(MIN(again / 2, (uint32_t)turn(engine)), 1u);
}

/* Why a request may be parked for another (rule 4): lower numbers first; 0: not at all. */
enum { STAYS, GOES_UNREAD, GOES_BACKGROUND, GOES_EQUAL };

static int may_go(struct engine *engine, struct request *victim, const struct request *request) {
        const struct flow *of = flow_of(victim), *to = flow_of(request);

        if (generation_of(victim)->incoming || generation_of(victim)->outgoing)
                return STAYS;
        if (request_is_paused(victim))
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

/* One that is storing its input cannot be parked now, and memory that is being read for one would have to
 * be read again. */
static bool goes_badly(const struct request *request) {
        return generation_in(request)->storing == STORING || generation_in(request)->recall.reading;
}

/* Of two requests that may be parked for the same reason: does @a go rather than @b? */
static bool goes_sooner(const struct request *a, const struct request *b) {
        const struct flow *fa = flow_of(a), *fb = flow_of(b);

        if (fa->n_places != fb->n_places)
                return fa->n_places > fb->n_places;
        if (fa != fb && fa->service != fb->service)
                return fa->service > fb->service;
        if (goes_badly(a) != goes_badly(b))
                return goes_badly(b);
        return generation_in(a)->order > generation_in(b)->order;
}

static struct request *next_victim(struct engine *engine, const struct request *request) {
        struct request *best = NULL;
        int best_why = STAYS;
        struct list *it;

        list_for_each (it, &engine->run->active) {
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
        recall_abandon(engine, &generation_of(request)->recall);
        seq_unreserve(request->conv->seq);
        leave_place(engine, request);
        enqueue(engine, request);
        /* Waiting for a place is not restoring: measure anew with the next place. */
        if (generation_of(request)->t_restored == 0)
                generation_of(request)->t_admitted = 0;
        engine->count.parked++;
}

/* Park others until @request fits (rule 4). False if they are not enough, or if workers must first
 * stop reading for one of them, or store its input. */
static bool make_place(struct engine *engine, const struct request *request) {
        struct request *victims[ENGINE_MAX_ACTIVE];
        size_t n = 0, n_active = engine->run->n_active, size = engine->run->active_size;
        bool busy = false;

        while (!fits(engine, request, n_active, size)) {
                struct request *victim = next_victim(engine, request);

                if (!victim)
                        return false;
                generation_of(victim)->outgoing = true;
                if (!request_is_paused(victim))
                        flow_of(victim)->n_places--;
                victims[n++] = victim;
                n_active--;
                size -= generation_of(victim)->need_size;
        }
        for (size_t i = 0; i < n; i++) {
                struct generation *g = generation_of(victims[i]);

                if (g->recall.reading)
                        recall_stop(engine, &g->recall);
                busy = busy || g->recall.reading || g->storing == STORING;
        }
        for (size_t i = 0; i < n && !busy; i++)
                park(engine, victims[i]);
        return !busy;
}

static void take_place(struct engine *engine, struct request *request, uint64_t now) {
        list_unlink(&request->link);
        list_append(&engine->run->active, &request->link);
        engine->run->n_active++;
        engine->run->active_size += generation_of(request)->need_size;
        budget_need(engine->budget, engine->run->active_size);
        credit_set_active(engine, request->credit, true);
        conv_set_waiting(engine, request->conv, false, request->r.background, 0);
        request->phase = PHASE_RESTORE;
        generation_of(request)->incoming = true;
        generation_of(request)->n_here = 0;
        generation_of(request)->n_new_before = n_new(request);
        if (generation_of(request)->t_admitted == 0)
                generation_of(request)->t_admitted = now;
}

static void admit(struct engine *engine) {
        uint64_t now = clock_monotonic_usec();
        struct list *it;

        list_for_each (it, &engine->run->active)
                generation_of(list_entry(it, struct request, link))->incoming = false;
        for (;;) {
                struct request *request;

                look(engine);
                request = first_in_line(engine);
                if (!request)
                        return;
                if (!fits(engine, request, engine->run->n_active, engine->run->active_size) &&
                        !make_place(engine, request))
                        return;
                take_place(engine, request, now);
        }
}

/* --- the step --- */

static void close_ended(struct engine *engine, struct list *list) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, list) {
                struct request *request = list_entry(it, struct request, link);

                /* commit.c, 3 */
                if (generation_of(request)->end == GOES_ON ||
                        generation_of(request)->storing == STORING)
                        continue;
                leave(engine, request);
                generate_close(engine, request);
        }
}

/* End the requests that are marked: commit, or fail. */
static void close_all(struct engine *engine) {
        close_ended(engine, &engine->run->queue);
        close_ended(engine, &engine->run->active);
}

static void cancel_all(struct engine *engine, struct list *list, const struct err *e) {
        struct list *it;

        list_for_each (it, list) {
                struct request *request = list_entry(it, struct request, link);
                struct recall *recall = &generation_of(request)->recall;

                if (!atomic_load(&request->cancel))
                        continue;
                if (recall->reading)
                        recall_stop(engine, recall);
                if (!recall->reading) /* else it ends after that */
                        generate_cancel(request, e);
        }
}

static void end_cancelled(struct engine *engine) {
        struct err e;

        if (engine->stopping)
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping; nothing was changed");
        else
                err_set(&e, ERR_CANCELLED, "cancelled before the reply began; nothing was changed");
        cancel_all(engine, &engine->run->queue, &e);
        cancel_all(engine, &engine->run->active, &e);
        close_all(engine);
}

/* Bring memory into RAM: for requests that have all of it (@done), or for all requests. */
static void recall_all(struct engine *engine, bool done) {
        struct run *run = engine->run;
        bool alone = run->n_active == 1 && list_empty(&run->queue);
        struct list *it;

        list_for_each (it, &run->active) {
                struct request *request = list_entry(it, struct request, link);
                struct generation *g = generation_of(request);
                struct err e;
                int r;

                if (request->phase != PHASE_RESTORE || (done && !g->recall.done))
                        continue;
                g->recall.alone = alone && g->n_generated == 0;
                g->recall.again = g->t_restored > 0;
                r = recall_step(engine, &g->recall, &e);
                if (r == 0)
                        generate_restored(engine, request);
                else if (r < 0)
                        generate_fail(request, &e);
        }
        close_all(engine);
}

bool sched_step(struct engine *engine) {
        bool computed;

        recall_all(engine, true);
        end_cancelled(engine);
        if (event_backlog(engine))
                return false;
        admit(engine);
        recall_all(engine, false);
        computed = step_run(engine);
        close_all(engine);
        return computed;
}

void sched_stop(struct engine *engine) {
        struct list *const both[] = {&engine->run->queue, &engine->run->active};
        struct list *it;

        for (size_t i = 0; i < ARRAY_SIZE(both); i++)
                list_for_each (it, both[i])
                        atomic_store(&list_entry(it, struct request, link)->cancel, true);
}

size_t sched_busy_size(struct engine *engine) {
        struct list *const both[] = {&engine->run->queue, &engine->run->active};
        struct list *it;
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(both); i++)
                list_for_each (it, both[i])
                        n += seq_resident_size(list_entry(it, struct request, link)->conv->seq);
        return n;
}
