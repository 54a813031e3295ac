/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Keeps the engine's budget in step with what is scarce for this process: reports of
 * pressure-watch.c, and looks at what the machine has left, go into the policy of pressure.c, whose
 * budget goes to the engine.
 *
 * 1. Stalls of our own cgroup, and words of the service manager, count as they are. Stalls of the
 *    system count only while memory is short for this process too: MemAvailable, or what the limit
 *    of a cgroup leaves, is less than the weights and an eighth (4 GiB at most). Otherwise they are
 *    those of others, and memory that this process gave back would not help them.
 * 2. After each step down there is a look after PRESSURE_STEP_USEC whether there is still pressure.
 *    If not, that was the last step.
 * 3. Each change of the budget is logged with its cause and its figures.
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

/* Between two looks at what "auto" gives. */
#define MEMORY_LOOK_USEC 10000000ull
/* Memory is short when less than the weights and this part of it is left, */
#define MEMORY_SHORT_DIVISOR 8
/* which is no more than so many bytes. */
#define MEMORY_SHORT_MOST (4ull << 30)

struct memory {
        struct pressure policy;
        struct pressure_watch *watch;
        struct event *timer;
        const char *root; /* base/machine.h; NULL, but in tests */
        bool is_auto;
        uint64_t next_look; /* at what "auto" gives */
        uint64_t next_step; /* after a step down: is there still pressure? 0: no */
        bool has_pending;   /* a report came before the next step was due: */
        struct pressure_report pending;
};

/* When the engine and the loop are there. */
int memory_start(struct daemon *d, struct err *e);
void memory_stop(struct daemon *d);
/* The watch has a report; tests have some of their own. */
void memory_pressure(struct daemon *d, const struct pressure_report *report);
/* Rule 1. @weights: bytes of the model's that want to stay in the page cache. */
bool memory_is_short(const struct machine_memory *m, uint64_t weights);
