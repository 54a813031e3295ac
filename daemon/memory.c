/* SPDX-License-Identifier: MIT */
#include "daemon/memory.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/util.h"
#include "daemon/daemon.h"
#include "service/log.h"
#include "service/loop.h"
#include <event2/event.h>
#include <malloc.h>
#include <stdio.h>

#define CAUSE_MAX 224 /* bytes of a cause in words */

/* Bytes that are free at the end of one of malloc's arenas and stay there, and the least size of a block that is mapped by
 * itself. A job that reads a conversation takes some hundred kilobytes and gives them back: with glibc's 128 KiB the
 * system gets these each time, and gives them anew page by page. A Find of 40 kB of text, some time after the turn before,
 * took 0.98 ms with those and takes 0.78 ms with these. glibc would also raise the second limit by itself, to 32 MiB. */
#define ARENA_KEEPS (1 << 20)

static unsigned long long mib(uint64_t n) {
        return (unsigned long long)(n >> 20);
}

/* --- what is left --- */

static bool is_short_of(uint64_t left, uint64_t all, uint64_t weights) {
        uint64_t margin = MIN(all / MEMORY_SHORT_DIVISOR, (uint64_t)MEMORY_SHORT_MOST);

        return left < weights + margin;
}

/* The weights count, because the kernel reports their pages as available too. */
bool memory_is_short(const struct machine_memory *m, uint64_t weights) {
        return (m->total > 0 && is_short_of(m->available, m->total, weights)) ||
               (m->limit != UINT64_MAX && is_short_of(m->group_available, m->limit, weights));
}

static bool look_short(struct daemon *d, struct machine_memory *ret) {
        struct engine_pool_use use;

        machine_memory(d->memory.root, ret);
        engine_pool_use(d->engine, &use);
        return memory_is_short(ret, use.weights);
}

/* --- words --- */

static void say_left(char *text, size_t size, const struct machine_memory *m) {
        int n = snprintf(text, size, "MemAvailable %llu MiB", mib(m->available));

        if (m->limit != UINT64_MAX && n > 0 && (size_t)n < size)
                snprintf(text + n, size - (size_t)n, ", %llu MiB left of the cgroup's %llu",
                        mib(m->group_available), mib(m->limit));
}

static void say_cause(
        char *text, size_t size, const struct pressure_report *r, const struct machine_memory *m) {
        static const char *const origins[] = {[PRESSURE_OF_MANAGER] = "service manager",
                [PRESSURE_OF_GROUP] = "cgroup",
                [PRESSURE_OF_SYSTEM] = "system"};
        int n = snprintf(text, size, "%s: ", origins[r->origin]);

        if (r->span > 0)
                n += snprintf(text + n, size - (size_t)n,
                        "some avg10 %.2f, %llu ms stalled in %.1f s; ", r->avg10,
                        (unsigned long long)r->stalled / 1000, (double)r->span / 1e6);
        say_left(text + n, size - (size_t)n, m);
}

static void apply(struct daemon *d) {
        engine_set_pool_size(d->engine, d->memory.policy.budget);
}

/* --- time --- */

/* Set the timer to the next time at which there is something to do. */
static void arm(struct daemon *d) {
        struct memory *m = &d->memory;
        uint64_t now = clock_monotonic_usec(), at = pressure_next(&m->policy);
        struct timeval t;

        if (m->is_auto)
                at = MIN(at, m->next_look);
        if (m->next_step)
                at = MIN(at, m->next_step);
        if (at == UINT64_MAX) {
                event_del(m->timer);
                return;
        }
        at = at > now ? at - now : 0;
        t = (struct timeval){
                .tv_sec = (time_t)(at / 1000000), .tv_usec = (suseconds_t)(at % 1000000)};
        if (event_add(m->timer, &t) < 0)
                LOG(LOGGED_SHORT_OF_RESOURCES,
                        "no memory for a timer: the budget stays until memory is short again");
}

static void look_at_auto(struct daemon *d, uint64_t now) {
        struct memory *m = &d->memory;
        uint64_t before = m->policy.budget, ceiling = m->policy.ceiling;
        struct machine_memory left;
        char words[CAUSE_MAX];

        if (!m->is_auto || now < m->next_look)
                return;
        m->next_look = now + MEMORY_LOOK_USEC;
        if (!pressure_set_ceiling(&m->policy, engine_pool_auto(d->engine)) &&
                m->policy.ceiling == ceiling)
                return;
        (void)look_short(d, &left);
        say_left(words, sizeof(words), &left);
        LOG_FIELDS(LOGGED_BUDGET_CHANGED, ({"CONFAB_BYTES", NULL, m->policy.budget}),
                "pool-size auto is %llu MiB now instead of %llu (%s): budget %llu -> %llu MiB",
                mib(m->policy.ceiling), mib(ceiling), words, mib(before), mib(m->policy.budget));
        if (m->policy.budget != before)
                apply(d);
}

/* One step down, if there is idle memory. */
static void press(
        struct daemon *d, const struct pressure_report *report, const struct machine_memory *left) {
        struct memory *m = &d->memory;
        uint64_t now = clock_monotonic_usec(), before = m->policy.budget;
        bool was_pressed = m->policy.pressed;
        struct engine_pool_use use;
        char words[CAUSE_MAX];

        engine_pool_use(d->engine, &use);
        say_cause(words, sizeof(words), report, left);
        if (!was_pressed)
                engine_set_spare(d->engine, false); /* until it is calm */
        m->next_step = now + PRESSURE_STEP_USEC;
        if (pressure_event(&m->policy, now, use.used, use.idle)) {
                apply(d);
                engine_note_pressure(d->engine, true, m->policy.budget);
                malloc_trim(0);
                LOG_FIELDS(LOGGED_MEMORY_SHORT, ({"CONFAB_BYTES", NULL, m->policy.budget}),
                        "memory is short (%s): idle memory %llu -> %llu MiB; budget %llu -> %llu "
                        "MiB",
                        words, mib(use.idle), mib(use.idle - (use.used - m->policy.budget)),
                        mib(before), mib(m->policy.budget));
        } else if (!was_pressed) {
                engine_note_pressure(d->engine, true, before);
                LOG_FIELDS(LOGGED_MEMORY_SHORT, ({"CONFAB_BYTES", NULL, before}),
                        "memory is short (%s): %llu MiB are idle, the budget stays at %llu MiB",
                        words, mib(use.idle), mib(before));
        }
}

void memory_pressure(struct daemon *d, const struct pressure_report *report) {
        struct memory *m = &d->memory;
        struct machine_memory left;
        bool scarce;

        if (d->state != DAEMON_RUNNING)
                return;
        scarce = look_short(d, &left);
        if (report->origin == PRESSURE_OF_SYSTEM && !scarce) {
                log_debug(NULL,
                        "stalls of others: %llu ms in %.1f s, with MemAvailable %llu MiB; ignored",
                        (unsigned long long)report->stalled / 1000, (double)report->span / 1e6,
                        mib(left.available));
                return;
        }
        if (m->next_step && clock_monotonic_usec() < m->next_step) {
                m->pending = *report;
                m->has_pending = true;
                m->policy.n_events++;
        } else {
                press(d, report, &left);
        }
        arm(d);
}

static void on_pressure(void *arg, const struct pressure_report *report) {
        memory_pressure(arg, report);
}

/* A while after a step: step again if there is still pressure. */
static void look_again(struct daemon *d, uint64_t now) {
        struct memory *m = &d->memory;
        struct pressure_report report;
        struct machine_memory left;
        bool scarce;

        if (!m->next_step || now < m->next_step)
                return;
        m->next_step = 0;
        scarce = look_short(d, &left);
        if (m->has_pending)
                report = m->pending;
        if (pressure_watch_look(m->watch, scarce, &report) || m->has_pending) {
                if (m->has_pending)
                        m->policy.n_events--; /* it was counted when it came */
                m->has_pending = false;
                press(d, &report, &left);
        }
}

static void grow(struct daemon *d, uint64_t now) {
        struct memory *m = &d->memory;
        uint64_t before = m->policy.budget;
        bool was_pressed = m->policy.pressed, scarce;
        struct machine_memory left;
        char words[CAUSE_MAX];

        if (now < pressure_next(&m->policy))
                return;
        scarce = look_short(d, &left);
        if (!pressure_tick(&m->policy, now, scarce) && m->policy.pressed == was_pressed)
                return;
        if (was_pressed && !m->policy.pressed) {
                engine_set_spare(d->engine, true);
                engine_note_pressure(d->engine, false, m->policy.budget);
        }
        say_left(words, sizeof(words), &left);
        LOG_FIELDS(LOGGED_MEMORY_CALM, ({"CONFAB_BYTES", NULL, m->policy.budget}),
                "no memory pressure for %.1f s (%s): budget %llu -> %llu MiB",
                (double)(now - m->policy.last_event) / 1e6, words, mib(before),
                mib(m->policy.budget));
        if (m->policy.budget != before)
                apply(d);
}

static void on_timer(int fd, short what, void *arg) {
        struct daemon *d = arg;
        uint64_t now = clock_monotonic_usec();

        (void)fd, (void)what;
        look_at_auto(d, now);
        look_again(d, now);
        grow(d, now);
        arm(d);
}

int memory_start(struct daemon *d, struct err *e) {
        struct memory *m = &d->memory;
        const char *source;
        int r;

        mallopt(M_TRIM_THRESHOLD, ARENA_KEEPS);
        mallopt(M_MMAP_THRESHOLD, ARENA_KEEPS);
        m->is_auto = d->settings->pool_size == 0;
        pressure_init(&m->policy, engine_pool_size(d->engine));
        if (!d->settings->pressure)
                return 0;
        m->next_look = clock_monotonic_usec() + MEMORY_LOOK_USEC;
        m->timer = loop_event_new(d->base, -1, 0, on_timer, d);
        if (!m->timer)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        r = pressure_watch_new(&m->watch, d->base, m->root, on_pressure, d, e);
        if (r < 0)
                return r;
        source = pressure_watch_source(m->watch);
        if (pressure_watch_problem(m->watch)->code)
                LOG_ERROR(LOGGED_PRESSURE_UNWATCHED, pressure_watch_problem(m->watch),
                        "the service manager's way to tell of memory pressure does not work");
        log_debug(NULL, "memory pressure is told by %s", source ? source : "nobody");
        arm(d);
        return 0;
}

void memory_stop(struct daemon *d) {
        d->memory.watch = pressure_watch_free(d->memory.watch);
        d->memory.timer = loop_event_free(d->memory.timer);
}
