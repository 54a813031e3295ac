/* SPDX-License-Identifier: MIT */
#pragma once
/* The gateway as its main program and its own files see it. */
#include "client/gateway/gateway.h"
#include "client/gateway/metrics.h"
#include "client/gateway/origin.h"
#include "client/gateway/page.h"
#include "client/gateway/tokens.h"

struct follower;
struct show;

struct gateway_options {
        struct gateway_settings settings;
        struct http_limits limits;
        struct origins origins;      /* borrowed lists */
        const char *tenant_header;   /* name of the field in lower case, or NULL; borrowed */
        const struct tokens *tokens; /* borrowed; NULL: nobody may come by TCP */
        struct backends *backends;   /* borrowed */
        struct page_folders page;    /* borrowed */
        struct show *show;           /* borrowed; NULL: without --open */
        bool request_log;
        uint64_t follow;            /* enum follow_mode */
        const char *follow_ca_file; /* or NULL; borrowed */
};

#define GATEWAY_MAX_DIALECTS 16

struct gateway {
        struct gateway_options options;
        struct event_base *base;
        struct http_server *http;
        struct follower *follower;
        struct metrics_answers answers[GATEWAY_MAX_DIALECTS]; /* of `dialects`, in their order */
        size_t n_dialects;
};

/* What is borrowed must live until gateway_free(). */
int gateway_new(struct gateway **ret, struct event_base *base,
        const struct gateway_options *options, struct err *e);
/* Take over what may change while it runs: all but limits, backends, tokens, follow_ca_file, the page and --open. */
void gateway_take_options(struct gateway *gateway, const struct gateway_options *options);
/* Ends what runs. NULL is harmless; returns NULL. */
struct gateway *gateway_free(struct gateway *gateway);
DEFINE_CLEANUP(struct gateway *, gateway_free);

/* Answers by dialect. */
const struct metrics_answers *gateway_answers(const struct gateway *gateway, size_t *ret_n);
/* For whom the request of @call acts: 0, -ERR_PERMISSION (no token, or an unknown one), -ERR_INVALID (the tenant), -ERR_CONFLICT (the tenant is not
 * the token's). */
int gateway_find_owner(struct gateway_call *call, struct err *e);
/* The line of the request log for a request that has ended. @route NULL: it came to none; @owner NULL: it was refused before it was
 * known whose it is. */
void gateway_log_request(const struct http_exchange *exchange, const struct gateway_route *route,
        const struct gateway_owner *owner, const struct http_summary *summary);
/* A body for a status that is said before a route is known. */
int gateway_plain_error(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);
/* A word of confab's for a status. */
const char *gateway_code(unsigned status);

extern const struct gateway_dialect
        gateway_basic; /* /health; the form of what no dialect has. Its routes take no token: the
                                                  owner is nobody. */
