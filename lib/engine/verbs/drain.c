/* SPDX-License-Identifier: MIT */
/*
 * Drain: the engine takes no new work, so that it can be stopped without anybody losing anything or waiting for long.
 *
 *      Drain ─→ DRAINING: work is refused, what runs goes on ─→ (timeout: it is cancelled) ─→ nothing runs
 *                                                                                                 ↓
 *          Drained ←── leases given up ←── in the remote store ←── all memory is on disk ←── evictions, one after the other
 *
 * 1. Work is what makes conversations, adds to them or computes (verb.works). Reading, renaming, rewinding, evicting, closing
 *    and exporting go on, and so does what was taken before.
 * 2. Requests that wait for a place or a turn were taken before: they run to their end, too, until the timeout.
 * 3. When nothing works any more all memory is evicted, tails included, as a stop does it: a stop that follows has nothing
 *    to write. What the disk does not take is dropped, and the journal tells.
 * 4. Where other machines share the register, they go on with the conversations from here on: what the disk has goes to the remote store, as far
 *    as that takes it, and then no conversation is held here any more. Work that is still done here (rule 1) takes its conversation anew.
 * 5. The state outlives the request: an administrator who stops waiting has not taken it back. It ends with `off`, or
 *    with the process.
 */
#include "base/clock.h"
#include "engine/far/far.h"
#include "engine/verbs/create.h"

#define LOOK_USEC 100000 /* whether the remote store has everything */

struct draining {
        uint64_t due; /* clock_monotonic_usec(): when what runs is cancelled; UINT64_MAX: never */
        uint64_t n_cancelled;
};

static struct draining *draining_of(struct request *request) {
        return request_own(request);
}

bool drain_refuses(struct engine *engine, const struct verb *verb, struct err *e) {
        if (!engine->verbs->draining || !verb->works)
                return false;
        err_set(e, ERR_SHUTDOWN,
                "the daemon is drained for maintenance: an administrator takes work again by "
                "'confab admin drain --off', or restarts it");
        return true;
}

static void finish(struct engine *engine, struct request *request) {
        uint64_t n = draining_of(request)->n_cancelled;

        list_unlink(&request->link);
        request_answer(request, ENGINE_DRAINED)->drained.n_requests = n;
        request_finish(engine, request);
}

static void fail(
        struct engine *engine, struct request *request, enum err_code code, const char *words) {
        struct err e;

        err_set(&e, code, "%s", words);
        list_unlink(&request->link);
        request_fail(engine, request, &e);
}

static void fail_all(struct engine *engine, enum err_code code, const char *words) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &engine->verbs->drains)
                fail(engine, list_entry(it, struct request, link), code, words);
}

/* Write and drop memory. True: nothing is left. */
static bool empty_memory(struct engine *engine) {
        for (;;) {
                switch (memory_make_room(engine)) {
                case ROOM_NOW:
                        continue;
                case ROOM_LATER:
                        return false;
                case ROOM_NEVER:
                        return true;
                }
        }
}

/* --- other machines (4) --- */

static void leave_run(struct engine *engine, struct job *j) {
        j->r = store_leases_release(engine->store, &j->err);
}

/* If the server can't be reached, others wait until the leases are old. */
static void leave_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &j->err);
        engine->verbs->leaving = LEFT;
        engine->again = true;
}

/* True: nothing is held here. */
static bool leave(struct engine *engine) {
        struct verb_state *v = engine->verbs;

        if (v->leaving == STAYS) {
                v->leaving = LEAVES;
                v->leave = (struct job){.run = leave_run, .done = leave_done};
                io_submit(engine, &v->leave);
        }
        return v->leaving == LEFT;
}

/* Cancel what has had its time. Returns when the next one's time is over. */
static uint64_t look_at_time(struct engine *engine, size_t n_working) {
        uint64_t now = clock_monotonic_usec(), due = UINT64_MAX;
        struct list *it;

        list_for_each (it, &engine->verbs->drains) {
                struct draining *x = draining_of(list_entry(it, struct request, link));

                if (x->due <= now && n_working > 0) {
                        x->n_cancelled = desk_n_working(engine, true);
                        x->due = UINT64_MAX;
                        engine->again = true;
                }
                due = MIN(due, x->due);
        }
        return due;
}

uint64_t drain_step(struct engine *engine) {
        struct list *it, *tmp, *drains = &engine->verbs->drains;
        size_t n_working;

        if (list_empty(drains))
                return UINT64_MAX;
        if (engine->stopping) {
                fail_all(engine, ERR_SHUTDOWN, "the daemon is stopping");
                return UINT64_MAX;
        }
        list_for_each_safe (it, tmp, drains) {
                struct request *request = list_entry(it, struct request, link);

                if (atomic_load(&request->cancel))
                        fail(engine, request, ERR_CANCELLED,
                                "nobody waits for its end any more, but no new work is taken");
        }
        n_working = desk_n_working(engine, false);
        if (n_working > 0)
                return look_at_time(engine, n_working);
        /* The end of a job calls again. */
        if (!empty_memory(engine))
                return UINT64_MAX;
        if (!far_hand_over(engine))
                return clock_monotonic_usec() + LOOK_USEC;
        if (!leave(engine))
                return UINT64_MAX;
        list_for_each_safe (it, tmp, drains)
                finish(engine, list_entry(it, struct request, link));
        return UINT64_MAX;
}

static void start(struct engine *engine, struct request *request) {
        struct draining *x = draining_of(request);
        uint64_t now = clock_monotonic_usec();

        if (request->r.off)
                fail_all(engine, ERR_CANCELLED, "the daemon takes work again");
        engine->verbs->draining = !request->r.off;
        if (engine->verbs->leaving == LEFT)
                engine->verbs->leaving = STAYS;
        request->phase = PHASE_WAITS;
        x->due = !request->r.has_timeout ||
                                 __builtin_add_overflow(now, request->r.timeout_usec, &x->due)
                         ? UINT64_MAX
                         : x->due;
        list_append(&engine->verbs->drains, &request->link);
        if (request->r.off)
                finish(engine, request);
}

const struct verb verb_drain = {.own_size = sizeof(struct draining), .start = start};
