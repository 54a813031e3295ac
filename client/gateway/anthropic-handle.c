/* SPDX-License-Identifier: MIT */
/* Routes of Anthropic's dialect. */
#include "client/gateway/anthropic.h"
#include "client/gateway/answer.h"
#include <stdlib.h>
#include <string.h>

/* Clients know 529 for a server that is full, and come again after a while. */
static unsigned status_of(const struct talk_error *error) {
        bool full = error->status == 503 ||
                    (error->status == 429 && error->code && strcmp(error->code, CONFAB_LIMIT) == 0);

        return full ? 529 : error->status;
}

static const struct answer_kind kind = {.dialect = &gateway_anthropic, .status = status_of};

/* The form of a call's body. */
static int read_form(struct gateway_call *call, bool counts, struct form **ret,
        struct anthropic_wish *wish, struct err *e) {
        json_t *body = NULL;
        struct form *form = NULL;
        int r = answer_read_body(call, &body, e);

        if (r == 0)
                r = form_new(&form, e);
        if (r == 0)
                r = anthropic_parse(form, body, counts, wish, e);
        json_decref(body);
        if (r == 0)
                r = gateway_fill_form(call, form, e);
        if (r < 0)
                form_free(form);
        else
                *ret = form;
        return r;
}

static void handle_messages(struct gateway_call *call) {
        struct anthropic_wish wish = {0};
        struct form *form = NULL;
        struct err e = {0};

        if (read_form(call, false, &form, &wish, &e) < 0)
                gateway_refuse_err(call, &gateway_anthropic, &e);
        else
                answer_start(call, &kind, NULL, form,
                        anthropic_writer_new(form_fields(form)->stream, &wish));
}

/* --- counting --- */

struct counting {
        struct gateway_call *call;
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

        free(counting);
        if (error)
                answer_refuse(call, &kind, error);
        else if (anthropic_write_count(&body, n_tokens) < 0)
                http_abort(call->exchange);
        else
                gateway_reply_json(call, &body);
        buf_deinit(&body);
}

static void handle_count(struct gateway_call *call) {
        static const struct http_answer_ops ops = {on_closed, NULL};
        struct anthropic_wish wish = {0};
        struct counting *counting = NULL;
        struct form *form = NULL;
        struct err e = {0};
        int r = read_form(call, true, &form, &wish, &e);

        if (r == 0) {
                counting = calloc(1, sizeof(*counting));
                if (!counting) {
                        form_free(form);
                        r = err_set(&e, ERR_NOMEM, "out of memory");
                }
        }
        if (r == 0) {
                counting->call = call;
                r = talk_count(&counting->talk, gateway_backends(call->gateway),
                        &gateway_settings(call->gateway)->talk, &call->owner, form, on_counted,
                        counting, &e);
        }
        if (r < 0) {
                free(counting);
                gateway_refuse_err(call, &gateway_anthropic, &e);
                return;
        }
        http_set_ops(call->exchange, &ops, counting);
}

static const struct gateway_route routes[] = {
        {HTTP_POST, "/v1/messages", handle_messages, false},
        {HTTP_POST, "/v1/messages/count_tokens", handle_count, false},
        {0},
};

const struct gateway_dialect gateway_anthropic = {
        .name = "anthropic",
        .prefix = "/v1/messages",
        .routes = routes,
        .error = anthropic_error,
};
