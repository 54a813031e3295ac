/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The service: one event loop over listening sockets, peers, the engine's events, signals and
 * timers.
 *
 *     STARTING ──daemon_new()──▶ RUNNING ──SIGTERM, SIGINT──▶ STOPPING ──ENGINE_STOPPED──▶ FLUSHING
 *     FLUSHING ──all peers have their answers──▶ STOPPED
 *     STOPPING, FLUSHING ──second signal──▶ FORCED;  STOPPING ──stop-timeout──▶ FORCED
 *
 * 1. When a peer disconnects, its requests are cancelled unless they are detached.
 * 2. In STOPPING no connection is accepted and new requests get "shutdown"; events still reach
 *    peers.
 *
 * Loop thread only, like everything in daemon/.
 */
#include "base/list.h"
#include "daemon/conn.h"
#include "service/listener.h"
#include "daemon/memory.h"
#include "daemon/requests.h"
#include "daemon/settings.h"
#include "daemon/trusted.h"
#include "daemon/users.h"
#include "engine/engine.h"

struct event;
struct event_base;

enum daemon_state {
        DAEMON_STARTING,
        DAEMON_RUNNING,
        DAEMON_STOPPING,
        DAEMON_FLUSHING,
        DAEMON_STOPPED,
        DAEMON_FORCED
};

struct daemon {
        enum daemon_state state;
        struct settings *settings; /* borrowed */
        int argc;                  /* for reload */
        char *const *argv;
        struct event_base *base;
        struct engine *engine;
        struct listeners listeners;
        struct list peers;
        size_t n_peers;
        size_t n_refused; /* of these, refused: they are being told the reason */
        struct users users;
        struct groups *groups; /* of users who are not here themselves */
        struct requests requests;
        struct list streams; /* streams.h: all of them */
        bool probing;        /* the daemon's own Stats are in flight */
        bool probe_answered;
        uint64_t heartbeat;  /* when the last sign of life was given */
        uint64_t alive_usec; /* the same as a time (monotonic) */
        bool told_stuck;     /* that there was none for long */
        uint64_t started;    /* clock_realtime_usec(): when it was ready */
        uint64_t began;      /* clock_monotonic_usec(): the same */
        uint32_t admin_gid;  /* UINT32_MAX: none */
        struct trusted trusted;
        struct memory memory;
        const struct err *refusal; /* NULL, or why every connection is refused; borrowed */
        struct conn_limits limits;
        struct event *engine_event, *signal_events[3], *stop_timer, *status_timer;
};

/* Start everything but the loop: open sockets and engine, and report readiness. @argc and @argv are
 * for reading the settings again (may be 0, NULL). */
int daemon_new(
        struct daemon **ret, struct settings *settings, int argc, char *const *argv, struct err *e);
struct daemon *daemon_free(struct daemon *d);
DEFINE_CLEANUP(struct daemon *, daemon_free);

/* Run the loop until the daemon has stopped: 0, or 1 if the stop was forced. */
int daemon_run(struct daemon *d, struct err *e);
/* Handle the events that are ready now, without waiting (tests). */
void daemon_step(struct daemon *d);
/* Stop as SIGTERM does. */
void daemon_stop(struct daemon *d);
void daemon_reload(struct daemon *d);
/* Put the limits of the settings into force: at the start, and when they were read again. */
void daemon_take_limits(struct daemon *d);
