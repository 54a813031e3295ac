/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A peer: a connection, its user, and its requests in flight. Loop thread only.
 */
#include "daemon/conn.h"
#include "daemon/daemon.h"
#include "daemon/log.h"

struct peer {
        struct conn conn;
        struct daemon *daemon;
        struct list link; /* in daemon->peers */
        uint32_t uid;     /* SO_PEERCRED */
        int32_t pid;
        bool admin; /* root, or in the admin group */
        struct user *user;
        bool counted; /* among its user's connections */
        bool refused; /* lingers, and was never counted */
        bool said_hello;
        bool over;          /* was told of its protocol error: nothing more is read or sent */
        uint32_t max_event; /* longest message that it accepts */
        struct request_list in_flight;
        struct list streams; /* exports and imports in the stream (streams.h) */
        size_t n_streams;
        struct event *hello_timer;
};

/* For listeners_start(): @arg is the daemon; takes over @fd. */
void peer_accept(void *arg, int fd);
struct peer *peer_free(struct peer *p);
/* Pause the engine's work on the peer's requests, or let it continue. */
void peer_pause_requests(struct peer *p, bool pause);
/* Logs about this peer. */
static inline void peer_about(const struct peer *p, const struct err *e, struct log_about *ret) {
        *ret = (struct log_about){.err = e, .uid = p->uid, .pid = p->pid};
}
