/* SPDX-License-Identifier: MIT */
/* Answers that are a number of tokens. */
#include "client/gateway/answer.h"

struct counting {
        struct gateway_call *call;
        const struct answer_kind *kind;
        answer_write_count write;
        struct talk *talk;
};

static void on_closed(void *userdata) {
        struct counting *counting = userdata;

        talk_free(counting->talk);
        free(counting);
}

static void on_counted(void *userdata, uint32_t n_tokens, const struct talk_error *error) {
        struct counting *counting = userdata;
        struct gateway_call *call = counting->call;
        struct buf body = BUF_NULL;

        if (error)
                answer_refuse(call, counting->kind, error);
        else if (counting->write(&body, n_tokens) < 0)
                http_abort(call->exchange);
        else
                gateway_reply_json(call, &body);
        free(counting);
        buf_deinit(&body);
}

void answer_count(struct gateway_call *call, const struct answer_kind *kind, struct form *form,
        answer_write_count write) {
        static const struct http_answer_ops ops = {.closed = on_closed};
        struct counting *counting = calloc(1, sizeof(*counting));
        struct err e = {0};
        int r;

        if (!counting) {
                form_free(form);
                r = err_no_memory(&e);
        } else {
                *counting = (struct counting){.call = call, .kind = kind, .write = write};
                r = talk_count(&counting->talk, gateway_call_backends(call),
                        &gateway_settings(call->gateway)->talk, &call->owner, form, on_counted,
                        counting, &e);
        }
        if (r < 0) {
                free(counting);
                answer_refuse_start(call, kind, &e);
                return;
        }
        http_set_ops(call->exchange, &ops, counting);
}
