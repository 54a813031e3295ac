/* SPDX-License-Identifier: MIT */
#include "daemon/memory.h"
#include "base/clock.h"
#include "base/util.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/pressure-watch.h"
#include <event2/event.h>
#include <malloc.h>
#include <string.h>

static unsigned long long mib(uint64_t n) {
        return (unsigned long long)(n >> 20);
}

static void apply(struct daemon *d) {
        uint64_t budget = d->memory.policy.budget;

        LOG(LOG_DEBUG, "budget of memory: %llu MiB of at most %llu", mib(budget),
                mib(d->memory.policy.ceiling));
        engine_set_pool_size(d->engine, budget);
}

/* Sleep until there is something to do. */
static void arm(struct daemon *d) {
        struct memory *m = &d->memory;
        uint64_t now = clock_monotonic_usec(), at = pressure_next(&m->policy);
        struct timeval t;

        if (m->is_auto)
                at = MIN(at, m->next_look);
        if (at == UINT64_MAX) {
                event_del(m->timer);
                return;
        }
        at = at > now ? at - now : 0;
        t = (struct timeval){
                .tv_sec = (time_t)(at / 1000000), .tv_usec = (suseconds_t)(at % 1000000)};
        if (event_add(m->timer, &t) < 0)
                LOG(LOG_WARNING,
                        "no memory for a timer: the budget stays until memory is short again");
}

static void look(struct daemon *d, uint64_t now) {
        struct memory *m = &d->memory;

        if (!m->is_auto || now < m->next_look)
                return;
        m->next_look = now + MEMORY_LOOK_USEC;
        if (pressure_set_ceiling(&m->policy, engine_pool_auto(d->engine)))
                apply(d);
}

static void on_timer(int fd, short what, void *arg) {
        struct daemon *d = arg;
        struct memory *m = &d->memory;
        uint64_t now = clock_monotonic_usec();
        bool was_pressed = m->policy.pressed;

        look(d, now);
        if (pressure_tick(&m->policy, now))
                apply(d);
        if (was_pressed && !m->policy.pressed) {
                engine_set_spare(d->engine, true);
                LOG(LOG_INFO,
                        "memory is not short any more; the budget of %llu MiB grows back slowly",
                        mib(m->policy.budget));
        }
        arm(d);
}

/* Memory is short, and so much of the budget is in use. */
static void press(struct daemon *d, uint64_t used) {
        struct memory *m = &d->memory;
        uint64_t before = m->policy.budget;
        bool was_pressed = m->policy.pressed;

        if (pressure_event(&m->policy, clock_monotonic_usec(), used)) {
                apply(d);
                malloc_trim(0);
        }
        if (!was_pressed) {
                engine_set_spare(d->engine, false); /* until on_timer() finds that it is calm */
                LOG(LOG_NOTICE, "memory is short: the budget shrinks from %llu to %llu MiB",
                        mib(before), mib(m->policy.budget));
        }
        arm(d);
}

static uint64_t figure(const struct engine_event *ev, const char *name) {
        for (size_t i = 0; ev->kind == ENGINE_STATS_RESULT && i < ev->stats.n; i++)
                if (strcmp(ev->stats.stats[i].name, name) == 0)
                        return ev->stats.stats[i].value;
        return UINT64_MAX;
}

/*
 * The budget into which the blocks in use would just fit. The engine reserves shares of the budget
 * for other purposes, whether they are used or not, and they shrink with it: they are no memory
 * that can be given back. Spare blocks are given back before any other. UINT64_MAX: not known.
 */
static uint64_t budget_in_use(const struct engine_event *ev) {
        uint64_t budget = figure(ev, "budget"), used = figure(ev, "ledger_used"), blocks;
        uint64_t n_spare = figure(ev, "pool_spare_blocks"), spare;

        if (used != UINT64_MAX && n_spare != UINT64_MAX &&
                !mul_overflow(n_spare, figure(ev, "block_bytes"), &spare))
                used -= MIN(used, spare);
        if (mul_overflow(figure(ev, "pool_blocks"), figure(ev, "block_bytes"), &blocks) ||
                budget == UINT64_MAX || used == UINT64_MAX || used < blocks ||
                used - blocks >= budget)
                return UINT64_MAX;
        return (uint64_t)((double)blocks / (double)(budget - (used - blocks)) * (double)budget);
}

/* The answer to the question of on_pressure(). */
static void on_answer(struct request *question, struct engine_event *ev) {
        struct daemon *d = question->arg;

        d->memory.asking = false;
        press(d, budget_in_use(ev));
}

static void on_pressure(void *arg) {
        struct daemon *d = arg;
        const struct request question = {.on_event = on_answer, .arg = d};
        struct engine_request r = {.verb = ENGINE_STATS, .admin = true};

        if (d->memory.asking || d->state != DAEMON_RUNNING)
                return;
        /* A daemon too short of memory to ask takes the budget for what is in use. */
        if (requests_submit(&d->requests, &question, &r, NULL) == 0)
                d->memory.asking = true;
        else
                press(d, UINT64_MAX);
}

int memory_start(struct daemon *d, struct err *e) {
        struct memory *m = &d->memory;
        const char *source;
        int r;

        m->is_auto = d->settings->pool_size == 0;
        pressure_init(&m->policy, engine_pool_size(d->engine));
        if (!d->settings->pressure)
                return 0;
        m->next_look = clock_monotonic_usec() + MEMORY_LOOK_USEC;
        m->timer = loop_event_new(d->base, -1, 0, on_timer, d);
        if (!m->timer)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        r = pressure_watch_new(&m->watch, d->base, on_pressure, d, e);
        if (r < 0)
                return r;
        source = pressure_watch_source(m->watch);
        if (pressure_watch_problem(m->watch)->code)
                LOG_ERROR(LOG_WARNING, pressure_watch_problem(m->watch),
                        "the service manager's way to tell of memory pressure does not work");
        LOG(LOG_DEBUG, "memory pressure is told by %s", source ? source : "nobody");
        arm(d);
        return 0;
}

void memory_stop(struct daemon *d) {
        d->memory.watch = pressure_watch_free(d->memory.watch);
        d->memory.timer = loop_event_free(d->memory.timer);
}
