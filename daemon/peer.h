/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A peer: a connection, who is behind it, and its requests in flight. Loop thread only.
 */
#include "daemon/conn.h"
#include "daemon/daemon.h"

struct peer {
        struct conn conn;
        struct daemon *daemon;
        struct list link; /* in daemon->peers */
        uint32_t uid;     /* SO_PEERCRED */
        int32_t pid;
        bool admin;   /* root, or of the admin group */
        bool counted; /* against its user */
        bool said_hello;
        bool over;            /* told of its protocol error: says and hears nothing more */
        uint32_t max_event;   /* longest message that it takes */
        struct list requests; /* in flight, oldest first */
        size_t n_requests;
        struct event *hello_timer;
};

/* For listeners_start(): @arg is the daemon; takes over @fd. */
void peer_accept(void *arg, int fd);
struct peer *peer_free(struct peer *p);
/* The request in flight that the peer calls @id, or NULL. */
struct request *peer_find_request(struct peer *p, uint64_t id);
/* Let the engine produce for it, or not. */
void peer_pause_requests(struct peer *p, bool pause);
/* Logs about this peer. */
struct log_about;
void peer_about(const struct peer *p, const struct err *e, struct log_about *ret);
