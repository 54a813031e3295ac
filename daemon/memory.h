/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Adapts the engine's budget to memory pressure: reports of pressure-watch.c and figures of the
 * memory left on the machine go into the policy of pressure.c, and its budget goes to the engine.
 *
 * 1. Stalls of our own cgroup and reports of the service manager always count. Stalls of the system
 *    count only while memory is short for this process too: MemAvailable, or the room under a
 *    cgroup's limit, is less than the weights plus an eighth (4 GiB at most). Otherwise other
 *    processes stall, and memory given back by this process would not help them.
 * 2. PRESSURE_STEP_USEC after each step down, the sources are checked for pressure again. If there
 *    is none, that was the last step.
 * 3. Each change of the budget is logged with its cause and its figures.
 * 4. Watchers are told when pressure begins, of each step down, and when pressure is over (the budget
 *    then grows in steps that are not told).
 *
 * Loop thread only.
 */
#include "daemon/pressure-watch.h"
#include "daemon/pressure.h"
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct event;
struct machine_memory;

/* Between two updates of the value of "auto". */
#define MEMORY_LOOK_USEC 10000000ull
/* Memory is short when less than the weights plus this part of them is left. */
#define MEMORY_SHORT_DIVISOR 8
/* That part is at most this many bytes. */
#define MEMORY_SHORT_MOST (4ull << 30)

struct memory {
        struct pressure policy;
        struct pressure_watch *watch;
        struct event *timer;
        const char *root; /* base/machine.h; NULL except in tests */
        bool is_auto;
        uint64_t next_look; /* when to update the value of "auto" */
        uint64_t next_step; /* after a step down: when to check for pressure again; 0: never */
        bool has_pending;   /* a report came before the next step was due: */
        struct pressure_report pending;
};

/* Call after the engine and the loop were made. */
int memory_start(struct daemon *d, struct err *e);
void memory_stop(struct daemon *d);
/* Handle a report, from the watch or from a test. */
void memory_pressure(struct daemon *d, const struct pressure_report *report);
/* Rule 1. @weights: bytes of the model that should stay in the page cache. */
bool memory_is_short(const struct machine_memory *m, uint64_t weights);
