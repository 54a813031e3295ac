/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A call that asks a daemon: requests one after the other, then an answer. Who asks has a struct asker in what it keeps
 * of the call.
 *
 * 1. The exchange ends exactly once: by asker_reply(), asker_refuse(), asker_refuse_err(), or because the client has gone;
 *    or whoever called asker_end() ends it. `free` is called once, by each of these.
 * 2. One request is in flight at a time. Its events come to the function that it was asked with; the last one is its
 *    result or an error.
 * 3. A request that only looks is sent again on a new connection if the old one broke before it said anything, as an
 *    idle one does when the daemon was restarted.
 *
 * All functions: the thread of the event base.
 */
#include "client/gateway/gateway.h"

struct asker;
typedef void (*asker_fn)(struct asker *asker, const struct confab_event *event);

struct asker {
        struct gateway_call *call;
        const struct gateway_dialect *dialect;
        struct backend *backend;           /* of `line` */
        struct line *line;                 /* NULL: none yet */
        void (*free)(struct asker *asker); /* frees what it is a part of */
        asker_fn fn;                       /* of the request in flight */
        struct confab_request request;
        unsigned n_tries;
};

/* Begin; `closed` of the exchange is the asker's from now on. */
void asker_init(struct asker *asker, struct gateway_call *call,
        const struct gateway_dialect *dialect, void (*free_fn)(struct asker *asker));
/* Ask @backend. What @request points to lives until its last event. If it can't be asked the call is refused: the asker must not
 * be used after this, but by @fn. */
void asker_ask(struct asker *asker, struct backend *backend, const struct confab_request *request,
        asker_fn fn);
/* True: @event is an error, and the call was refused with it. */
bool asker_failed(struct asker *asker, const struct confab_event *event);

/* Each ends the asker. @r < 0: without memory; the connection ends. */
void asker_reply(struct asker *asker, const struct buf *json, int r);
void asker_refuse(struct asker *asker, const struct talk_error *error);
void asker_refuse_err(struct asker *asker, const struct err *e);
/* The exchange is left to the caller, who sets its `closed`. Returns the call. */
struct gateway_call *asker_end(struct asker *asker);
