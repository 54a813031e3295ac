/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Who tells that memory is short. The first of these that works:
 *
 * 1. The service manager's protocol: a file, FIFO or socket that $MEMORY_PRESSURE_WATCH names, into
 *    which the data of $MEMORY_PRESSURE_WRITE goes (https://systemd.io/MEMORY_PRESSURE).
 * "/dev/null" turns watching off.
 * 2. A trigger (Linux Documentation/accounting/psi.rst) on the memory.pressure file of our cgroup,
 *    which takes the right to write it;
 * 3. on /proc/pressure/memory, of the whole system.
 * 4. Where no trigger may be set: reading the same two files every two seconds.
 *
 * Loop thread only.
 */
#include <stdbool.h>

struct err;
struct event_base;
struct pressure_watch;

/* Stalls of that much within that time are pressure, for sources 2 to 4. Without privileges the
 * kernel takes whole multiples of 2 s as the window. */
#define PRESSURE_STALL_USEC 150000
#define PRESSURE_WINDOW_USEC 2000000

/* Calls @fn(@arg) from the loop each time that memory is short. 0 also if nobody can tell; then
 * pressure_watch_source() says so. -ERR_NOMEM. */
int pressure_watch_new(struct pressure_watch **ret, struct event_base *base, void (*fn)(void *arg),
        void *arg, struct err *e);
struct pressure_watch *pressure_watch_free(struct pressure_watch *w);
/* What is watched, in words for people; NULL: nothing. */
const char *pressure_watch_source(const struct pressure_watch *w);
/* Why the service manager's source could not be used, or code ERR_NONE. */
const struct err *pressure_watch_problem(const struct pressure_watch *w);
