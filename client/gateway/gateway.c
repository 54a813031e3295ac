/* SPDX-License-Identifier: MIT */
/*
 * From a request's head to the route that handles it. What is asked, in this order, before a byte of the body is read:
 *
 * 1. Is the Host one of ours, and does no foreign page send it (origin.h)? Else 421 and 403.
 * 2. Is it a browser's question whether it may ask (OPTIONS)? It is answered without a token, since browsers send none.
 * 3. Unless the route is public: does no foreign page make the browser send it (origin.h), who asks (session.c), and is that the
 *    one for whom another gateway sends it on (follow.c)? Else 403, 401 and 421.
 * 4. Is there such a route? Else 404, or 405 with Allow.
 *
 * Refusals have the form of the dialect whose prefix the path has.
 */
#include "base/util.h"
#include "client/gateway/follow.h"
#include "client/gateway/gateway-private.h"
#include "client/gateway/routes.h"
#include <stdio.h>

#define NO_STORE "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
#define CORP(who) "Cross-Origin-Resource-Policy: " who "\r\n"

/* One line each. */
static const struct gateway_dialect *const dialects[] = {
        &gateway_basic,
        &gateway_page,
        &gateway_openai,
        &gateway_responses,
        &gateway_anthropic,
        &gateway_ollama,
        &gateway_own,
        NULL,
};

const struct gateway_settings *gateway_settings(const struct gateway *gateway) {
        return &gateway->options.settings;
}

struct backends *gateway_backends(struct gateway *gateway) {
        return gateway->options.backends;
}

struct backends *gateway_call_backends(const struct gateway_call *call) {
        return call->backends ? call->backends : gateway_backends(call->gateway);
}

struct event_base *gateway_base(struct gateway *gateway) {
        return gateway->base;
}

struct http_server *gateway_http(struct gateway *gateway) {
        return gateway->http;
}

/* ---- before the body ---- */

static void refuse(struct gateway_call *call, unsigned status, const char *message) {
        const struct talk_error error = {.status = status, .message = message};

        gateway_refuse(call, routes_dialect(dialects, http_path(call->exchange)), &error);
}

/* 0; 1: it was refused; -ERR_NOMEM. */
static int check_origin(struct gateway_call *call, enum origin_verdict verdict) {
        const struct origins *origins = &call->gateway->options.origins;
        const char *host = http_header(call->exchange, "host");
        bool local = http_peer_uid(call->exchange, &(uid_t){0});

        if (!(local ? origin_local_host_allowed : origin_host_allowed)(origins, host)) {
                refuse(call, 421, "the field Host names neither this machine nor an allowed host");
                return 1;
        }
        if (verdict == ORIGIN_FOREIGN) {
                refuse(call, 403, "pages of this origin are not allowed here");
                return 1;
        }
        return 0;
}

/* The fields of every answer, refusals too. What a daemon says is kept nowhere, and no page of another origin can take it as
 * a script or an image unless it may ask anyway. */
static int add_fields(struct gateway_call *call, const struct gateway_dialect *dialect,
        enum origin_verdict verdict) {
        const char *origin = http_header(call->exchange, "origin");
        int r;

        if (dialect == &gateway_page)
                r = page_add_fields(call->exchange);
        else if (verdict == ORIGIN_LISTED)
                r = http_add_fields(call->exchange, NO_STORE CORP("cross-origin"));
        else
                r = http_add_fields(call->exchange, NO_STORE CORP("same-origin"));
        if (r < 0 || verdict != ORIGIN_LISTED)
                return r;
        r = http_add_fields(call->exchange, "Vary: Origin\r\n");
        return r == 0 ? http_add_header(call->exchange, "Access-Control-Allow-Origin", origin) : r;
}

/* OPTIONS, which browsers ask before they send what a page wants. */
static void reply_options(
        struct gateway_call *call, const struct route_found *found, enum origin_verdict origin) {
        const char *fields = http_header(call->exchange, "access-control-request-headers");
        char allow[ROUTES_ALLOW_SIZE];
        int r;

        routes_allow(found->methods, allow);
        r = http_add_header(call->exchange, "Allow", allow);
        if (r == 0 && origin == ORIGIN_LISTED) {
                r = http_add_header(call->exchange, "Access-Control-Allow-Methods", allow);
                if (r == 0)
                        r = http_add_header(call->exchange, "Access-Control-Allow-Headers",
                                fields ? fields : "Authorization, Content-Type");
                if (r == 0)
                        r = http_add_header(call->exchange, "Access-Control-Max-Age", "600");
        }
        http_reply(call->exchange, r < 0 ? 503 : 204, NULL, NULL, 0);
}

static void refuse_route(struct gateway_call *call, const struct route_found *found) {
        char allow[ROUTES_ALLOW_SIZE], message[160];

        if (found->methods == 0) {
                snprintf(message, sizeof(message), "there is nothing at '%.100s'",
                        http_path(call->exchange));
                refuse(call, 404, message);
                return;
        }
        routes_allow(found->methods, allow);
        snprintf(message, sizeof(message), "the path takes %s", allow);
        if (http_add_header(call->exchange, "Allow", allow) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                refuse(call, 405, message);
}

/* The parts of the path at the stars. */
static int fill_args(struct gateway_call *call, const struct route_found *found) {
        const char *path = http_path(call->exchange);

        for (size_t i = 0; i < ROUTE_ARGS; i++) {
                const struct route_arg *arg = &found->args[i];
                char *copy;

                if (arg->size == 0)
                        break;
                copy = http_alloc(call->exchange, arg->size + 1);
                if (!copy)
                        return -ERR_NOMEM;
                memcpy(copy, path + arg->at, arg->size);
                call->arg[i] = copy;
        }
        return 0;
}

/* 0: the call may go on; 1: it was answered; -ERR_NOMEM. */
static int judge(struct gateway_call *call) {
        enum http_method method = http_method(call->exchange);
        enum origin_verdict origin;
        struct route_found found;
        struct err e;
        int r;

        routes_find(&found, dialects, method, http_path(call->exchange));
        origin = origin_judge(&call->gateway->options.origins, http_header(call->exchange, "host"),
                http_header(call->exchange, "origin"));
        r = add_fields(call, found.dialect, origin);
        if (r == 0)
                r = check_origin(call, origin);
        if (r != 0)
                return r;
        if (method == HTTP_OPTIONS) {
                reply_options(call, &found, origin);
                return 1;
        }
        if (!found.route || !found.route->is_public) {
                if (origin_is_hidden(origin, http_header(call->exchange, "sec-fetch-site"))) {
                        refuse(call, 403, "pages of other origins are not allowed here");
                        return 1;
                }
                r = gateway_find_owner(call, &e);
                if (r == 0 && follow_check_owner(call, &e) < 0) {
                        refuse(call, 421, e.msg);
                        return 1;
                }
        }
        if (r < 0) {
                refuse(call, r == -ERR_PERMISSION ? 401 : r == -ERR_CONFLICT ? 403 : 400, e.msg);
                return 1;
        }
        if (!found.route) {
                refuse_route(call, &found);
                return 1;
        }
        call->route = found.route;
        call->dialect = found.dialect;
        follow_admit(call);
        r = fill_args(call, &found);
        if (r == 0 && found.dialect->admit)
                found.dialect->admit(call, found.route);
        return r;
}

static void admit(void *userdata, struct http_exchange *exchange) {
        struct gateway_call *call = http_alloc(exchange, sizeof(*call));
        int r = -ERR_NOMEM;

        if (call) {
                call->gateway = userdata;
                call->exchange = exchange;
                call->owner.uid = (uint32_t)-1;
                http_set_context(exchange, call);
                r = judge(call);
        }
        if (r < 0)
                http_reply(exchange, 503, NULL, NULL, 0);
}

static void handle(void *userdata, struct http_exchange *exchange) {
        struct gateway_call *call = http_context(exchange);

        call->route->handle(call);
}

/* ---- figures ---- */

static void answered(void *userdata, const struct http_exchange *exchange, unsigned status) {
        const struct gateway_call *call = exchange ? http_context(exchange) : NULL;
        const char *path = exchange ? http_path(exchange) : NULL;
        const struct gateway_dialect *dialect = call ? call->dialect : NULL;
        struct gateway *gateway = userdata;

        if (!dialect)
                dialect = routes_dialect(dialects, path && *path ? path : "/");
        for (size_t i = 0; i < gateway->n_dialects; i++)
                if (dialects[i] == dialect && status < 600)
                        gateway->answers[i].n[status / 100]++;
}

static void ended(
        void *userdata, const struct http_exchange *exchange, const struct http_summary *summary) {
        const struct gateway_call *call = http_context(exchange);
        const struct gateway *gateway = userdata;

        if (gateway->options.request_log)
                gateway_log_request(
                        exchange, call ? call->route : NULL, call ? &call->owner : NULL, summary);
}

const struct metrics_answers *gateway_answers(const struct gateway *gateway, size_t *ret_n) {
        *ret_n = gateway->n_dialects;
        return gateway->answers;
}

/* ---- what HTTP refuses by itself ---- */

static size_t refusal(void *userdata, const char *path, unsigned status, const char *message,
        char *ret, size_t max, const char **ret_type) {
        const struct gateway_dialect *dialect = routes_dialect(dialects, *path ? path : "/");
        struct buf body = {.max = max};
        size_t size = 0;

        if (dialect->error(&body, status, gateway_code(status), message, NULL) == 0) {
                size = body.size;
                memcpy(ret, body.data, size);
        }
        *ret_type = "application/json";
        buf_deinit(&body);
        return size;
}

int gateway_new(struct gateway **ret, struct event_base *base,
        const struct gateway_options *options, struct err *e) {
        static const struct http_handlers handlers = {.admit = admit,
                .handle = handle,
                .refusal = refusal,
                .answered = answered,
                .ended = ended};
        struct gateway *gateway = calloc(1, sizeof(*gateway));
        int r;

        if (!gateway)
                return err_set(e, ERR_NOMEM, "no memory for the gateway");
        gateway->options = *options;
        gateway->base = base;
        _Static_assert(ARRAY_SIZE(dialects) - 1 <= GATEWAY_MAX_DIALECTS, "room for all dialects");
        for (; dialects[gateway->n_dialects]; gateway->n_dialects++)
                gateway->answers[gateway->n_dialects].dialect = dialects[gateway->n_dialects]->name;
        r = follower_new(&gateway->follower, base, options->follow_ca_file, e);
        if (r == 0)
                r = http_server_new(&gateway->http, base, &options->limits, &handlers, gateway, e);
        if (r < 0)
                return gateway_free(gateway), r;
        *ret = gateway;
        return 0;
}

void gateway_take_options(struct gateway *gateway, const struct gateway_options *options) {
        gateway->options.settings = options->settings;
        gateway->options.origins = options->origins;
        gateway->options.request_log = options->request_log;
        gateway->options.tenant_header = options->tenant_header;
        gateway->options.follow = options->follow;
}

struct gateway *gateway_free(struct gateway *gateway) {
        if (!gateway)
                return NULL;
        http_server_free(gateway->http);
        follower_free(gateway->follower);
        free(gateway);
        return NULL;
}
