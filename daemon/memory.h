/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Keeps the engine's budget in step with what the system has: events of pressure-watch.c and looks
 * at what "auto" gives go into the policy of pressure.c, whose budget goes to the engine.
 *
 * 1. The policy learns how much is in use by asking the engine, so an event takes effect when it
 * has answered, within one step of the engine. Events meanwhile count as one.
 * 2. One line in the log when pressure begins, one when it is over; all else is for debugging.
 *
 * Loop thread only.
 */
#include "daemon/pressure.h"
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct event;
struct pressure_watch;

/* Between two looks at what "auto" gives. */
#define MEMORY_LOOK_USEC 10000000ull

struct memory {
        struct pressure policy;
        struct pressure_watch *watch;
        struct event *timer;
        bool is_auto;
        uint64_t next_look;
        bool asking; /* Stats are in flight */
};

/* When the engine and the loop are there. */
int memory_start(struct daemon *d, struct err *e);
void memory_stop(struct daemon *d);
