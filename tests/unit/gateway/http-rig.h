/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An HTTP server over a Unix socket without a name, and clients, in one thread. What a client sends has arrived when send()
 * returns, so rig_settle() runs the loop until there is nothing left to do, and waits for no time.
 */
#include "base/buf.h"
#include "client/gateway/http.h"
#include <event2/event.h>
#include <stddef.h>

#define RIG_MAX_PENDING 64

struct rig {
        struct event_base *base;
        struct http_server *server;
        struct http_limits limits;
        struct err e;
        int listener; /* a second descriptor of it */
        /* Requests that have neither been answered nor lost. */
        struct http_exchange *pending[RIG_MAX_PENDING];
        unsigned n_pending, n_handled, n_admitted, n_closed, n_drained, n_stopped;
        bool holds;   /* leave requests pending, else echo "METHOD path body" */
        bool refuses; /* admit() answers 401 */
        /* What admit() does beside that, or NULL. */
        void (*admits)(struct rig *rig, struct http_exchange *exchange);
        struct buf out; /* what rig_read() gave */
};

/* Group fixtures of cmocka: *state is a struct rig with limits of default, the server is not made yet. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* Make the server with rig->limits. */
void rig_start(struct rig *rig);
int rig_connect(struct rig *rig);
void rig_send(struct rig *rig, int fd, const char *text);
/* Until nothing more happens. */
void rig_settle(struct rig *rig);
/* All that there is, as text in rig->out, until the next call; *ret_end (may be NULL): the server has closed. */
const char *rig_read(struct rig *rig, int fd, bool *ret_end);
/* Run the loop, also over timers, until the server closes @fd; all that came. */
const char *rig_read_to_end(struct rig *rig, int fd);
/* rig_connect(), rig_send(), rig_settle(), rig_read(). The descriptor stays open in *ret_fd, or is closed if that is NULL. */
const char *rig_ask(struct rig *rig, const char *text, int *ret_fd);
/* http_set_ops() for an exchange in rig->pending. */
void rig_watch(struct rig *rig, struct http_exchange *exchange);
