/* SPDX-License-Identifier: MIT */
/* Routes of Anthropic's dialect. */
#include "client/gateway/anthropic.h"
#include "client/gateway/answer.h"

static const struct answer_kind kind = {.dialect = &gateway_anthropic, .status = anthropic_status};

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

/* Of a form, only its thread can be missing. */
static void refuse_form(struct gateway_call *call, const struct err *e) {
        const struct talk_error no_thread = {.status = 404,
                .code = CONFAB_NOT_FOUND,
                .message = e->msg,
                .param = ANTHROPIC_THREAD};

        if (e->code == ERR_NOT_FOUND)
                answer_refuse(call, &kind, &no_thread);
        else
                gateway_refuse_err(call, &gateway_anthropic, e);
}

static void handle_messages(struct gateway_call *call) {
        struct anthropic_wish wish = {0};
        struct form *form = NULL;
        struct err e = {0};

        if (read_form(call, false, &form, &wish, &e) < 0)
                refuse_form(call, &e);
        else
                answer_start(call, &kind, NULL, form,
                        anthropic_writer_new(form_fields(form)->stream, &wish));
}

static void handle_count(struct gateway_call *call) {
        struct anthropic_wish wish = {0};
        struct form *form = NULL;
        struct err e = {0};

        if (read_form(call, true, &form, &wish, &e) < 0)
                refuse_form(call, &e);
        else
                answer_count(call, &kind, form, anthropic_write_count);
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
