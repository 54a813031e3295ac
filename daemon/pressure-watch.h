/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Who tells that memory is short.
 *
 * 1. The service manager's protocol: a file, FIFO or socket that $MEMORY_PRESSURE_WATCH names, into
 *    which the data of $MEMORY_PRESSURE_WRITE goes (https://systemd.io/MEMORY_PRESSURE).
 *    "/dev/null" turns watching off. Where this works, nothing else is watched.
 * 2. Else the memory.pressure file of our own cgroup, and /proc/pressure/memory of the whole system
 *    (Linux Documentation/accounting/psi.rst): by a trigger, which takes the right to write the
 *    file, or by reading it each PRESSURE_WINDOW_USEC. The file of a cgroup that is the root of all
 *    is that of the system.
 *
 * Such a file has a total, the time for which tasks were stalled. An event counts only if the total
 * has grown since the watch began, or since the last report. So stalls of before the start are
 * never told, though the kernel may raise a new trigger for them.
 *
 * Stalls of the system are mostly those of others: a group beside ours may be at its own limit. The
 * report says where the stalls were, and memory.c believes those of the system only while memory is
 * short for this process too.
 *
 * Loop thread only.
 */
#include <stdbool.h>
#include <stdint.h>

struct err;
struct event_base;
struct pressure_watch;

/* Stalls of that much within that time are pressure, of files. Without privileges the
 * kernel takes whole multiples of 2 s as the window. */
#define PRESSURE_STALL_USEC 150000
#define PRESSURE_WINDOW_USEC 2000000

enum pressure_origin { PRESSURE_OF_MANAGER, PRESSURE_OF_GROUP, PRESSURE_OF_SYSTEM };

struct pressure_report {
        enum pressure_origin origin;
        uint64_t stalled, span; /* usec; span 0: the source tells no figures */
        double avg10;           /* percent */
};

/* Calls @fn(@arg) from the loop each time that memory is short. @root: see base/machine.h, NULL but
 * in tests. 0 also if nobody can tell; then pressure_watch_source() says so. -ERR_NOMEM. */
int pressure_watch_new(struct pressure_watch **ret, struct event_base *base, const char *root,
        void (*fn)(void *arg, const struct pressure_report *report), void *arg, struct err *e);
/* Is there still pressure: were there enough stalls, or words of the manager, since the last
 * report? Of all sources; @believe_system: the system's count too. */
bool pressure_watch_look(
        struct pressure_watch *w, bool believe_system, struct pressure_report *ret);
struct pressure_watch *pressure_watch_free(struct pressure_watch *w);
/* What is watched, in words for people; NULL: nothing. */
const char *pressure_watch_source(const struct pressure_watch *w);
/* Why the service manager's source could not be used, or code ERR_NONE. */
const struct err *pressure_watch_problem(const struct pressure_watch *w);
