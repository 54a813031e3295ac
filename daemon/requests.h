/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The requests whose final event the engine has not sent yet: those of peers, and the daemon's own.
 *
 * 1. A request is in the table from requests_submit() until its final event, even if its peer has
 *    disconnected.
 * 2. Each event of the engine goes to the request's own `on_event`; the table knows neither peers
 *    nor messages.
 * 3. A peer disowns its requests before it is freed (request_disown()).
 *
 * Loop thread only.
 */
#include "base/list.h"
#include "engine/engine.h"

struct audit;
struct map;
struct peer;
struct request;
struct request_note;

/* One event for @request, borrowed. The table forgets the request after its final event. */
typedef void request_fn(struct request *request, struct engine_event *event);

/* The requests in flight of one peer, oldest first. */
struct request_list {
        struct list requests;
        size_t n;
};

/* A request in the engine. */
struct request {
        uint64_t handle;            /* the engine's and ours, never used again */
        uint64_t id;                /* the peer's */
        struct peer *peer;          /* NULL: disconnected, or the daemon's own request */
        struct request_list *among; /* the peer's requests, or NULL */
        struct list link;           /* in among->requests */
        request_fn *on_event;       /* NULL: events are dropped */
        void *arg;                  /* for on_event() of the daemon's own requests */
        void *owned;                /* for on_event(); freed with the request */
        enum engine_verb verb;
        uint64_t conv_id; /* as the peer named it, or 0 */
        bool survives;    /* on_event() is called even if the peer has gone, with `peer` NULL */
        bool detach, paused;
        bool in_stream;            /* export */
        bool one_user, with_users; /* stats: it names a user; asks for users */
        /* What requests.on_audit() puts into the journal when the request ends, whether its peer is there or not.
         * Owned, freed with free(); NULL: nothing. */
        struct audit *audit;
        struct request_note *note; /* request-log.h, or NULL */
};

struct requests {
        struct map *by_handle; /* to struct request */
        uint64_t next_handle;
        struct engine *engine; /* borrowed */
        request_fn *on_audit;  /* called with the final event of a request that has an audit */
};

/* -ERR_NOMEM. The engine may be set later, before the first request. */
int requests_init(struct requests *requests, struct err *e);
/* Drops all requests without telling their owners. */
void requests_deinit(struct requests *requests);

/* Give @er (handle is filled in) to the engine. @asked provides id, peer, among, on_event, arg and detach, and audit and
 * owned, which the table takes over unless this fails. Errors are those of engine_submit(), or -ERR_NOMEM; the table is
 * then unchanged. */
int requests_submit(struct requests *requests, const struct request *asked,
        struct engine_request *er, struct err *e);
/* Hand one event of the engine to its request. Events of requests that are not in the table are
 * dropped. @failed is called first if the event is an error. */
void requests_dispatch(struct requests *requests, struct engine_event *event, request_fn *failed);
size_t requests_count(const struct requests *requests);

void request_list_init(struct request_list *list);
/* The request that its peer calls @id, or NULL. */
struct request *request_list_find(const struct request_list *list, uint64_t id);
/* The peer disconnects: @request has no peer any more, and its events are dropped. */
void request_disown(struct request *request);
