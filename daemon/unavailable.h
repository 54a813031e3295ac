/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a daemon that cannot start tells its clients.
 *
 * With sockets of the service manager, clients can connect before the daemon has started, and only
 * the daemon can answer them. So a daemon that cannot start answers them with the reason before it
 * ends. Without such sockets there is no client to answer: nothing listens yet.
 *
 * 1. Every connection that waits, or arrives within UNAVAILABLE_USEC, gets Error with the code
 *    "unavailable" and the reason, and ends. Nothing that a client sends is read.
 * 2. The daemon stays for UNAVAILABLE_USEC, even if no client waits. The next client starts it
 *    again, so a loop of clients starts it at most once in that time. The unit's limit of starts
 *    allows for this: the limit ends a loop of crashes, but clients cannot reach it.
 * 3. Signals have their default actions: SIGTERM ends the daemon at once.
 */
#include <stdint.h>

struct err;

#define UNAVAILABLE_USEC 3000000ull

/* Duplicates of the service manager's sockets; the daemon takes over the originals and may close
 * them. */
struct unavailable {
        int fds[8];
        unsigned n;
};
#define UNAVAILABLE_NULL ((struct unavailable){})

/* Call before anything takes over the sockets. Without sockets @u stays empty. */
void unavailable_prepare(struct unavailable *u);
/* Answer with @why for UNAVAILABLE_USEC. Returns at once if there are no sockets. */
void unavailable_serve(struct unavailable *u, const struct err *why);
/* Close the sockets. */
void unavailable_deinit(struct unavailable *u);
