/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A peer: a connection, its user, and its requests in flight. Loop thread only.
 *
 * The kernel tells the uid of who connects. Hello may name another user, or a tenant, for whom the peer acts
 * (trusted.h). Requests, limits and figures are that owner's from then on. Logs name both.
 */
#include "base/owner.h"
#include "daemon/conn.h"
#include "daemon/daemon.h"
#include "service/log.h"

struct peer {
        struct conn conn;
        struct daemon *daemon;
        struct list link; /* in daemon->peers */
        uint32_t uid;     /* SO_PEERCRED */
        int32_t pid;
        uint64_t owner; /* whose requests it sends: the uid, until Hello names another */
        char *tenant;   /* the label that Hello named, owned, or NULL */
        bool acts;      /* for another owner than the uid */
        /* Root, the user whom the daemon runs as, or in the admin group; not if it acts for another. */
        bool admin;
        struct user *user; /* of the owner */
        bool counted;      /* among its user's connections */
        bool refused;      /* lingers, and was never counted */
        bool said_hello;
        bool over;          /* was told of its protocol error: nothing more is read or sent */
        uint32_t max_event; /* longest message that it accepts */
        struct request_list in_flight;
        struct list notes;   /* of the request log (request-log.h) */
        struct list streams; /* exports and imports in the stream (streams.h) */
        size_t n_streams;
        struct event *hello_timer;
        struct list questions; /* what it asked waits for the groups of users (groups.h) */
};

/* For listeners_start(): @arg is the daemon; takes over @fd. */
void peer_accept(void *arg, int fd);
struct peer *peer_free(struct peer *p);
/* From now on the peer's requests are @owner's, whose limits must allow the connection: -ERR_LIMIT, -ERR_NOMEM.
 * @gids, [n_gids]: the groups of the owner's user, if they were asked for, else NULL. */
int peer_act_for(
        struct peer *p, uint64_t owner, const uint32_t *gids, size_t n_gids, struct err *e);
/* Pause the engine's work on the peer's requests, or let it continue. */
void peer_pause_requests(struct peer *p, bool pause);
/* Who it is, for logs: "uid 990", or "uid 990 acting for tenant 'x' of user 1000". */
struct peer_text {
        char s[256];
};
struct peer_text peer_text(const struct peer *p);
/* Lives until the full expression ends. */
#define PEER_TEXT(p) (peer_text(p).s)
/* Logs about this peer. */
static inline void peer_about(const struct peer *p, const struct err *e, struct log_about *ret) {
        *ret = (struct log_about){.err = e,
                .owner = p->owner,
                .acts = p->acts,
                .actor_uid = p->uid,
                .tenant = p->tenant,
                .pid = p->pid};
}
