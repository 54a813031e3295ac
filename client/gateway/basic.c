/* SPDX-License-Identifier: MIT */
/*
 * What no dialect has: /health. It asks the daemons (at most those whose last answer is old), and says which models can be
 * reached; 503 if none can. It takes no token, so it tells names of models and nothing else.
 */
#include "base/json.h"
#include "client/gateway/gateway-private.h"

#define MAX_AGE_USEC 5000000ull

static int write_health(struct buf *out, struct backends *backends, bool *ret_reachable) {
        struct json json;
        bool reachable = false;

        for (size_t i = 0; i < backends_count(backends); i++)
                reachable = reachable || backend_model(backends_at(backends, i))->reachable;
        json_init(&json, out);
        json_object_begin(&json);
        json_put_key_string(&json, "status", reachable ? "ok" : "unavailable");
        json_put_key(&json, "models");
        json_array_begin(&json);
        for (size_t i = 0; i < backends_count(backends); i++) {
                const struct backend_model *model = backend_model(backends_at(backends, i));

                json_object_begin(&json);
                json_put_key_string(&json, "name", model->known ? model->name : NULL);
                json_put_key_bool(&json, "reachable", model->reachable);
                json_object_end(&json);
        }
        json_array_end(&json);
        json_object_end(&json);
        *ret_reachable = reachable;
        return json_finish(&json);
}

static void reply_health(void *userdata) {
        struct gateway_call *call = userdata;
        struct buf out = BUF_NULL;
        bool reachable;
        int r;

        r = write_health(&out, gateway_backends(call->gateway), &reachable);
        if (r == 0 && !reachable)
                r = http_add_header(call->exchange, "Retry-After", "1");
        if (r < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                http_reply(call->exchange, reachable ? 200 : 503, "application/json", out.data,
                        out.size);
        buf_deinit(&out);
}

static void on_closed(void *userdata) {
        struct gateway_call *call = userdata;

        backends_forget(gateway_backends(call->gateway), call);
}

static void handle_health(struct gateway_call *call) {
        static const struct http_answer_ops ops = {.closed = on_closed};

        http_set_ops(call->exchange, &ops, call);
        if (backends_refresh(gateway_backends(call->gateway), MAX_AGE_USEC, reply_health, call) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
}

static const struct gateway_route routes[] = {{HTTP_GET, "/health", handle_health, true}, {}};

const struct gateway_dialect gateway_basic = {
        .name = "basic", .prefix = "/", .routes = routes, .error = gateway_plain_error};
