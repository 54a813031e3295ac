/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What clients hear from a daemon that cannot start.
 *
 * Behind sockets of the service manager clients wait from the moment they connect, and nobody but
 * the daemon can answer them. So a daemon that cannot start answers them with the reason before it
 * ends. Without such sockets there is nobody to answer: nothing listens yet.
 *
 * 1. Every connection that waits, or comes within UNAVAILABLE_USEC, gets Error with the code
 *    "unavailable" and the reason, and ends. Nothing that a client sends is read.
 * 2. The daemon stays for UNAVAILABLE_USEC, also when nobody waits. The next client starts it
 *    again, so that a loop of clients starts it at most once in that time. The unit's limit of
 *    starts allows for that: it ends a loop of crashes, but not what clients do.
 * 3. Signals have their default actions: SIGTERM ends it at once.
 */
#include <stdint.h>

struct err;

#define UNAVAILABLE_USEC 3000000ull

/* Sockets of the service manager, held beside those that the daemon takes over and may close. */
struct unavailable {
        int fds[8];
        unsigned n;
};
#define UNAVAILABLE_NULL ((struct unavailable){})

/* Before anything takes the sockets over. Without any @u stays empty. */
void unavailable_prepare(struct unavailable *u);
/* Answer with @why for a moment. Returns at once when there are no sockets. */
void unavailable_serve(struct unavailable *u, const struct err *why);
/* Let the sockets go. */
void unavailable_deinit(struct unavailable *u);
