/* SPDX-License-Identifier: MIT */
#pragma once
/* Which route a request takes, and whose form its refusal has. Pure. */
#include "client/gateway/gateway.h"

#define ROUTE_ARGS 2

/* A part of a path. */
struct route_arg {
        size_t at, size;
};

/* Whether @path is one of @pattern's; what stands at its stars goes to @args. A star stands for one segment that is not
 * empty, "**" for all that follows. */
bool route_matches(const char *pattern, const char *path, struct route_arg args[ROUTE_ARGS]);

struct route_found {
        const struct gateway_dialect *dialect; /* the one whose form refusals have */
        const struct gateway_route *route;     /* NULL: none; 404, or 405 if @methods is not 0 */
        struct route_arg args[ROUTE_ARGS];
        unsigned methods; /* of the path: bits 1 << HTTP_... */
};
/* @dialects ends with NULL; one of them has the prefix "/". The first route that matches counts. HEAD takes the routes of
 * GET. */
void routes_find(struct route_found *ret, const struct gateway_dialect *const *dialects,
        enum http_method method, const char *path);
/* The dialect of the longest prefix of @path. */
const struct gateway_dialect *routes_dialect(
        const struct gateway_dialect *const *dialects, const char *path);
/* The value of "Allow" for the bits of route_found.methods; OPTIONS is always in it. At most @size bytes. */
#define ROUTES_ALLOW_SIZE 64
void routes_allow(unsigned methods, char ret[ROUTES_ALLOW_SIZE]);
