/* SPDX-License-Identifier: MIT */
/*
 * /v1/models and /v1/models/{id}: the models of the daemons. Daemons that were never reached have none; one that was
 * keeps its place in the list while it is away. With one daemon alone any name is its model's, as in requests.
 */
#include "client/gateway/openai-handle.h"
#include "client/gateway/openai-reply.h"
#include "base/util.h"

#define MAX_AGE_USEC 5000000ull

static void on_closed(void *userdata) {
        struct gateway_call *call = userdata;

        backends_forget(gateway_call_backends(call), call);
}

static void reply(struct gateway_call *call, int r, const struct buf *json) {
        static const struct err no_memory = {.code = ERR_NOMEM, .msg = "out of memory"};

        if (r < 0)
                gateway_refuse_err(call, &gateway_openai, &no_memory);
        else
                gateway_reply_json(call, json);
}

static void refuse_unreachable(struct gateway_call *call) {
        static const struct talk_error error = {.status = 503,
                .code = CONFAB_UNAVAILABLE,
                .message = "no daemon could be reached yet",
                .retry_after = 1};

        gateway_refuse(call, &gateway_openai, &error);
}

static void list_models(void *userdata) {
        struct gateway_call *call = userdata;
        struct backends *backends = gateway_call_backends(call);
        _cleanup_(freep) const struct backend_model **models = NULL;
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        size_t n = 0;

        models = calloc(backends_count(backends) + 1, sizeof(*models));
        for (size_t i = 0; models && i < backends_count(backends); i++) {
                const struct backend_model *model = backend_model(backends_at(backends, i));

                if (model->known)
                        models[n++] = model;
        }
        if (models && n == 0)
                refuse_unreachable(call);
        else
                reply(call, models ? openai_write_models(&json, models, n) : -ERR_NOMEM, &json);
}

static void tell_model(void *userdata) {
        struct gateway_call *call = userdata;
        struct backend *backend = backends_find(gateway_call_backends(call), call->arg[0]);
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        struct err e;

        if (!backend) {
                err_set(&e, ERR_NOT_FOUND, "there is no model '%.100s'", call->arg[0]);
                openai_refuse(call, NULL, &e);
        } else if (!backend_model(backend)->known) {
                refuse_unreachable(call);
        } else {
                reply(call, openai_write_model(&json, backend_model(backend)), &json);
        }
}

static void ask(struct gateway_call *call, backends_ready fn) {
        static const struct http_answer_ops ops = {.closed = on_closed};

        http_set_ops(call->exchange, &ops, call);
        if (backends_refresh(gateway_call_backends(call), MAX_AGE_USEC, fn, call) < 0)
                reply(call, -ERR_NOMEM, NULL);
}

void openai_handle_models(struct gateway_call *call) {
        ask(call, list_models);
}

void openai_handle_model(struct gateway_call *call) {
        ask(call, tell_model);
}
