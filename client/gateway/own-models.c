/* SPDX-License-Identifier: MIT */
/*
 * /confab/v1/models: the daemons, in the order of the settings, and who asks. All that is told of a daemon that was never
 * reached is that it is there.
 */
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/own.h"

#define MAX_AGE_USEC 5000000ull

static void put_model(struct json *json, const struct backend_model *model, bool is_default) {
        json_object_begin(json);
        json_put_key_string(json, "name", model->known ? model->name : NULL);
        json_put_key_bool(json, "default", is_default);
        json_put_key_bool(json, "reachable", model->reachable);
        if (model->known) {
                json_put_key_string(json, "architecture", model->architecture);
                json_put_key_string(json, "chat_family", model->chat_family);
                json_put_key_string(json, "reply_format", model->reply_format);
                json_put_key_string(json, "tokenizer", model->tokenizer);
                json_put_key_string(json, "fingerprint", model->fingerprint);
                json_put_key_u64(json, "context", model->context);
                json_put_key_u64(json, "context_train", model->context_train);
                json_put_key_u64(json, "n_vocab", model->n_vocab);
                json_put_key_u64(json, "n_embd", model->n_embd);
                json_put_key_u64(json, "n_params", model->n_params);
                json_put_key_u64(json, "weights_bytes", model->weights_size);
                json_put_key_bool(json, "takes_tools", model->takes_tools);
                json_put_key_bool(json, "reasons", model->reasons);
        }
        json_object_end(json);
}

static int write_models(struct buf *out, struct gateway_call *call) {
        struct backends *backends = gateway_call_backends(call);
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        json_put_key_string(&json, "software", "confab " CONFAB_VERSION);
        json_put_key_u64(&json, "uid", call->owner.uid);
        if (call->owner.tenant[0])
                json_put_key_string(&json, "tenant", call->owner.tenant);
        json_put_key(&json, "models");
        json_array_begin(&json);
        for (size_t i = 0; i < backends_count(backends); i++)
                put_model(&json, backend_model(backends_at(backends, i)), i == 0);
        json_array_end(&json);
        json_object_end(&json);
        return json_finish(&json);
}

static void reply_models(void *userdata) {
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        struct gateway_call *call = userdata;
        struct err e = {0};

        if (write_models(&json, call) < 0) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
        } else {
                gateway_reply_json(call, &json);
        }
}

static void on_closed(void *userdata) {
        struct gateway_call *call = userdata;

        backends_forget(gateway_call_backends(call), call);
}

void own_handle_models(struct gateway_call *call) {
        static const struct http_answer_ops ops = {.closed = on_closed};
        struct err e = {0};

        http_set_ops(call->exchange, &ops, call);
        if (backends_refresh(gateway_call_backends(call), MAX_AGE_USEC, reply_models, call) < 0) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
        }
}
