/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The program: one event loop over listening sockets, connections, lines to daemons, and signals.
 *
 *     RUNNING ──SIGTERM, SIGINT──▶ STOPPING ──all answers have ended, stop-timeout, second signal──▶ STOPPED
 *
 * In STOPPING nobody is accepted, idle connections are closed, and answers that run come to their end.
 */
#include "client/gateway/config.h"
#include "client/gateway/gateway-private.h"
#include "client/gateway/show.h"
#include "service/listener.h"

struct event;

struct serve {
        struct gateway_config *config; /* borrowed */
        int argc;                      /* for reload */
        char *const *argv;
        struct event_base *base;
        struct listeners listeners;
        struct tokens tokens;
        const char *page; /* folder; NULL: there is no page */
        /* What the settings say; with --open what stands for what they do not say. Borrowed, but for own_daemon. */
        const char *listen, *tcp; /* NULL: there is none */
        char *own_daemon;         /* in place of the setting; or NULL */
        struct show show;
        struct backends *backends;
        struct gateway *gateway;
        struct event *signals[3], *stop_timer, *watchdog;
        bool stopping;
};
#define SERVE_NULL ((struct serve){})

/* Open everything and say that it is ready. @serve is to be given to serve_deinit() in any case. */
int serve_init(struct serve *serve, struct gateway_config *config, int argc, char *const *argv,
        struct err *e);
/* Until it has stopped. */
int serve_run(struct serve *serve, struct err *e);
void serve_deinit(struct serve *serve);
