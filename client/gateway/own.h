/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * /confab/v1: the native protocol as JSON and server-sent events, for programs that want all of confab and for pages.
 *
 *      own-read.h    body or query -> struct confab_request        (pure)
 *      own-call.c    a call: a daemon, a line, a request, its events
 *      own-write.c   events -> JSON, errors
 *      own-reply.h   a reply as one object                        (pure)
 *      own-handle.c  routes
 *
 *      READ ──▶ (MODELS ──▶) ASKED ──▶ ANSWERING ──▶ ended
 *       │ wrong                 │ error               │ error: an event, or the end of the connection
 *       └──────▶ refused ◀──────┘
 *
 * 1. One call is one request of the protocol. Nothing is sent before its first event, so what fails until then has a status.
 * 2. A client that goes cancels its request (but for detached replies); one that reads slowly pauses its line.
 * 3. A request that changes nothing is asked again where a kept connection turns out to be over; others are not, since
 *    the daemon may have done them.
 * 4. What a stream tells has ids, so that a client whose connection broke goes on behind what it has.
 */
#include "client/gateway/gateway.h"
#include "client/gateway/own-read.h"
#include "client/gateway/own-reply.h"

enum own_kind {
        OWN_ONE,   /* one event, told as JSON */
        OWN_REPLY, /* a stream of what is written, or all of it */
        OWN_WATCH, /* a stream of notices */
        OWN_BYTES  /* a file */
};

/* What a route asks for. */
struct own_route {
        enum confab_verb verb;
        enum own_kind kind;
        bool has_conversation; /* the path names it, at its first star */
        bool creates;          /* 201, and where it is */
};

struct own_call {
        struct gateway_call *call;
        const struct own_route *route;
        json_t *body;        /* until the request was answered */
        struct form *memory; /* likewise */
        struct own_asked asked;
        struct backend *backend;
        struct line *line;
        uint64_t id; /* of the request */
        unsigned n_tries;
        struct stream *stream;   /* OWN_REPLY, OWN_WATCH: from the first event on */
        struct own_reply *reply; /* OWN_REPLY, whole */
        uint64_t revision;       /* of the reply's accepted event */
        bool has_begun;          /* OWN_BYTES */
};

/* ---- own-call.c ---- */

/* Handle a call of @route, which lives for ever. */
void own_handle(struct gateway_call *call, const struct own_route *route);
/* The same in two steps: read what is asked for, and ask. NULL: the exchange has ended. */
struct own_call *own_new(struct gateway_call *call, const struct own_route *route);
void own_ask(struct own_call *own);
/* Whatever runs is cancelled; the exchange is left as it is. */
void own_free(struct own_call *own);

/* ---- own-write.c ---- */

/* gateway_error_body */
int own_error(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);
/* The exchange ends with an error; @param as in struct talk_error. */
void own_refuse(struct gateway_call *call, enum confab_verb verb, const struct confab_error *error);
void own_refuse_err(struct gateway_call *call, const struct err *e, const char *param);
/* The result of a request that has one event. -ERR_NOMEM, -ERR_STATE (no result of a known kind). */
int own_write_result(
        struct buf *out, const struct confab_event *event, const struct own_asked *asked);
/* One event of a stream, with its id. -ERR_NOMEM. */
int own_write_event(struct own_call *own, const struct confab_event *event);

/* ---- own-models.c ---- */

void own_handle_models(struct gateway_call *call);

/* ---- own-session.c ---- */

void own_handle_session(struct gateway_call *call);

/* ---- own-import.c ---- */

/* gateway_dialect.admit and the handler of an import. */
void own_admit_import(struct gateway_call *call);
void own_handle_import(struct gateway_call *call);
/* Its request was submitted. */
void own_begin_import(struct own_call *own);

/* ---- own-file.c ---- */

/* What of a file comes, and its end. The call may have ended then: false. */
bool own_tell_bytes(struct own_call *own, const struct confab_event *event);
