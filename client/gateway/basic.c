/* SPDX-License-Identifier: MIT */
/* What no dialect has: /health. */
#include "base/json.h"
#include "client/gateway/gateway-private.h"

static void handle_health(struct gateway_call *call) {
        struct buf out = BUF_NULL;
        struct json json;

        json_init(&json, &out);
        json_object_begin(&json);
        json_put_key(&json, "status");
        json_put_string(&json, "ok");
        json_object_end(&json);
        if (json_finish(&json) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                gateway_reply_json(call, &out);
        buf_deinit(&out);
}

static const struct gateway_route routes[] = {
        {HTTP_GET, "/health", handle_health, .is_public = true}, {}};

const struct gateway_dialect gateway_basic = {
        .name = "basic", .prefix = "/", .routes = routes, .error = gateway_plain_error};
