/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The sources that report a shortage of memory.
 *
 * 1. The service manager's protocol: $MEMORY_PRESSURE_WATCH names a file, FIFO or socket, and the
 *    data of $MEMORY_PRESSURE_WRITE is written to it (https://systemd.io/MEMORY_PRESSURE).
 *    "/dev/null" turns watching off. If a FIFO or socket works, nothing else is watched. A file is
 *    that of our own cgroup (systemd 254 and later), and tells nothing of a machine whose memory
 *    others take: the system's file is watched beside it.
 * 2. Otherwise the memory.pressure file of our own cgroup, and /proc/pressure/memory of the whole
 *    system (Linux Documentation/accounting/psi.rst): with a trigger, which requires the right to
 *    write the file, or by reading the file every PRESSURE_WINDOW_USEC. If our cgroup is the root
 *    group, its file is the system's.
 *
 * Such a file has a total, the time for which tasks were stalled. An event counts only if the total
 * has grown since the watch began or since the last report. So stalls before the start are never
 * reported, though the kernel may raise a new trigger for them.
 *
 * Stalls of the system are mostly those of other groups: one of them may be at its own limit. The
 * report says where the stalls were, and memory.c ignores those of the system unless memory is
 * short for this process too.
 *
 * Loop thread only.
 */
#include <stdbool.h>
#include <stdint.h>

struct err;
struct event_base;
struct pressure_watch;

/* For files, stalls of PRESSURE_STALL_USEC within PRESSURE_WINDOW_USEC are pressure. Without
 * privileges the kernel accepts only multiples of 2 s as the window. */
#define PRESSURE_STALL_USEC 150000
#define PRESSURE_WINDOW_USEC 2000000

enum pressure_origin { PRESSURE_OF_MANAGER, PRESSURE_OF_GROUP, PRESSURE_OF_SYSTEM };

struct pressure_report {
        enum pressure_origin origin;
        uint64_t stalled, span; /* usec; span 0: the source gives no figures */
        double avg10;           /* percent */
};

/* Call @fn(@arg) from the loop each time that memory is short. @root: see base/machine.h, NULL
 * except in tests. 0 even if there is no source (pressure_watch_source() tells). -ERR_NOMEM. */
int pressure_watch_new(struct pressure_watch **ret, struct event_base *base, const char *root,
        void (*fn)(void *arg, const struct pressure_report *report), void *arg, struct err *e);
/* Whether any source has had enough stalls since the last report, so that there is still pressure.
 * @believe_system: the system's stalls count too. */
bool pressure_watch_look(
        struct pressure_watch *w, bool believe_system, struct pressure_report *ret);
struct pressure_watch *pressure_watch_free(struct pressure_watch *w);
/* What is watched, in words for people; NULL: nothing. */
const char *pressure_watch_source(const struct pressure_watch *w);
/* Why the service manager's source could not be used, or code ERR_NONE. */
const struct err *pressure_watch_problem(const struct pressure_watch *w);
