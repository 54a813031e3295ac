/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The service: one event loop over listening sockets, peers, the engine's events, signals and
 * timers.
 *
 *     STARTING ─daemon_new()─▶ RUNNING ─SIGTERM, SIGINT─▶ STOPPING ─ENGINE_STOPPED─▶ FLUSHING ─▶
 * STOPPED └─second signal, stop-timeout─▶ FORCED
 *
 * 1. A request is in `requests` from engine_submit() until its final event, whether its peer is
 *    still there or not.
 * 2. Requests of a peer that goes are cancelled, unless they asked to go on.
 * 3. In STOPPING nobody is accepted and new requests get "shutdown"; events still reach peers.
 *
 * Loop thread only, like everything in daemon/.
 */
#include "base/ledger.h"
#include "base/list.h"
#include "daemon/conn.h"
#include "daemon/listener.h"
#include "daemon/memory.h"
#include "daemon/settings.h"
#include "engine/engine.h"

struct event;
struct event_base;
struct map;
struct peer;

enum daemon_state {
        DAEMON_STARTING,
        DAEMON_RUNNING,
        DAEMON_STOPPING,
        DAEMON_FLUSHING,
        DAEMON_STOPPED,
        DAEMON_FORCED
};

/* A request in the engine. */
struct request {
        uint64_t handle;   /* the engine's and ours, never used again */
        uint64_t id;       /* the peer's */
        struct peer *peer; /* NULL: gone, or never was (the daemon's own) */
        struct list link;  /* in the peer's list */
        enum engine_verb verb;
        uint64_t conv_id; /* as the peer named it, or 0 */
        bool detach, paused;
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
        struct map *users;    /* uid to struct user */
        struct map *requests; /* handle to struct request */
        uint64_t next_handle;
        uint64_t probe; /* handle of the daemon's own Stats, 0: none */
        bool probe_answered;
        uint64_t heartbeat; /* when the last sign of life was given */
        uint32_t admin_gid; /* UINT32_MAX: none */
        struct memory memory;
        struct ledger io;
        struct conn_limits limits;
        struct event *engine_event, *signal_events[3], *stop_timer, *status_timer;
};

/* @argc, @argv are for reading the settings again (may be 0, NULL). Everything but the loop: opens
 * sockets and engine, and says that it is ready. */
int daemon_new(
        struct daemon **ret, struct settings *settings, int argc, char *const *argv, struct err *e);
struct daemon *daemon_free(struct daemon *d);
DEFINE_CLEANUP(struct daemon *, daemon_free);

/* Until it has stopped: 0, or 1 when the stop was forced. */
int daemon_run(struct daemon *d, struct err *e);
/* What is ready now, without waiting (tests). */
void daemon_step(struct daemon *d);
/* What SIGTERM does. */
void daemon_stop(struct daemon *d);
void daemon_reload(struct daemon *d);

/* Give @r (handle is filled in) to the engine on behalf of @p. The negative result is the answer
 * for the peer. */
int daemon_submit(struct daemon *d, struct peer *p, uint64_t id, bool detach,
        struct engine_request *r, struct err *e);
/* Forget a request whose final event has come, or that could not be submitted. */
void daemon_drop_request(struct daemon *d, struct request *r);

/* One more, or one fewer, connection of @uid: 0 or -ERR_LIMIT, -ERR_NOMEM. */
int daemon_count_user(struct daemon *d, uint32_t uid, struct err *e);
void daemon_discount_user(struct daemon *d, uint32_t uid);
