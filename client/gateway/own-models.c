/* SPDX-License-Identifier: MIT */
/*
 * /confab/v1/models: the daemons, in the order of the settings, and who asks. All that is told of a daemon that was never
 * reached is that it is there.
 */
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/own.h"

#define MAX_AGE_USEC 5000000ull

static void put_text(struct json *json, const char *key, const char *text) {
        json_put_key_string(json, key, text);
}

static void put_number(struct json *json, const char *key, uint64_t number) {
        json_put_key_u64(json, key, number);
}

static void put_flag(struct json *json, const char *key, bool flag) {
        json_put_key_bool(json, key, flag);
}

static void put_model(struct json *json, const struct backend_model *model, bool is_default) {
        json_object_begin(json);
        put_text(json, "name", model->known ? model->name : NULL);
        put_flag(json, "default", is_default);
        put_flag(json, "reachable", model->reachable);
        if (model->known) {
                put_text(json, "architecture", model->architecture);
                put_text(json, "chat_family", model->chat_family);
                put_text(json, "reply_format", model->reply_format);
                put_text(json, "tokenizer", model->tokenizer);
                put_text(json, "fingerprint", model->fingerprint);
                put_number(json, "context", model->context);
                put_number(json, "context_train", model->context_train);
                put_number(json, "n_vocab", model->n_vocab);
                put_number(json, "n_embd", model->n_embd);
                put_number(json, "n_params", model->n_params);
                put_number(json, "weights_bytes", model->weights_size);
                put_flag(json, "takes_tools", model->takes_tools);
                put_flag(json, "reasons", model->reasons);
        }
        json_object_end(json);
}

static int write_models(struct buf *out, struct gateway_call *call) {
        struct backends *backends = gateway_backends(call->gateway);
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        put_text(&json, "software", "confab " CONFAB_VERSION);
        put_number(&json, "uid", call->owner.uid);
        if (call->owner.tenant[0])
                put_text(&json, "tenant", call->owner.tenant);
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

        backends_forget(gateway_backends(call->gateway), call);
}

void own_handle_models(struct gateway_call *call) {
        static const struct http_answer_ops ops = {.closed = on_closed};
        struct err e = {0};

        http_set_ops(call->exchange, &ops, call);
        if (backends_refresh(gateway_backends(call->gateway), MAX_AGE_USEC, reply_models, call) <
                0) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
        }
}
