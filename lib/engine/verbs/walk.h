/* SPDX-License-Identifier: MIT */
#pragma once
/* A walk through all owners, which keeps those with the greatest figures: for Users, and for Stats (users.c). */
#include "engine/verbs/create.h"

#define WALK_PAGE 256

struct in_ram {
        uint64_t owner, size;
};

/* The walk is done: request.own begins with it. Ends the request. Engine thread. */
typedef void walk_fn(struct engine *engine, struct request *request);

/* At the beginning of the verb's own data. */
struct walk {
        struct engine_user *rows; /* [room]: the best so far, in order; charged to the request */
        size_t n, room, max;
        bool more; /* some had no place in the page */
        walk_fn *done;

        struct in_ram *ram; /* [n_ram], by owner */
        size_t n_ram, at_ram;
        size_t at_known;
        uint64_t from; /* the next owner is this one or greater */

        /* The owner that is being looked at. */
        bool has_owner;
        struct engine_user user;
        uint64_t after; /* the conversation */

        bool ends;
        struct store_owned *page; /* [WALK_PAGE], likewise */
};

static inline struct walk *walk_of(struct request *request) {
        return request_own(request);
}
void walk_deinit(struct walk *w);
/* Begin, for @max rows by request.r.user_order. Later @done is called, unless the walk ends the request with an error.
 * -ERR_LIMIT, -ERR_TOO_LARGE, -ERR_NOMEM. Engine thread. */
int walk_begin(
        struct engine *engine, struct request *request, size_t max, walk_fn *done, struct err *e);
/* The rows, for the request's final event, which pays for them from now on. */
struct engine_user *walk_give(struct request *request);
