/* SPDX-License-Identifier: MIT */
/* Routes of the OpenAI dialect, and bodies on their way to answers. */
#include "client/gateway/openai-handle.h"
#include "client/gateway/openai-answer.h"
#include <stdio.h>

void openai_refuse(struct gateway_call *call, const struct fields *fields, const struct err *e) {
        struct talk_error error = {.status = 400, .message = e->msg};

        if (e->code == ERR_INVALID) {
                error.code = CONFAB_INVALID;
        } else if (e->code == ERR_UNSUPPORTED) {
                error.code = CONFAB_UNSUPPORTED;
        } else if (e->code == ERR_NOT_FOUND) { /* of a form, only its model can be */
                error.status = 404;
                error.code = CONFAB_NOT_FOUND;
                error.param = "model";
        } else {
                gateway_refuse_err(call, &gateway_openai, e);
                return;
        }
        error.param = fields ? fields->wrong : openai_error_param(&error);
        gateway_refuse(call, &gateway_openai, &error);
}

/* A form of more choices than the gateway makes is refused by name. */
static int check_choices(
        const struct gateway_call *call, struct fields *fields, unsigned n, struct err *e) {
        unsigned most = gateway_settings(call->gateway)->talk.n_choices;
        char what[60];

        if (n <= most)
                return 0;
        snprintf(what, sizeof(what), "at most %u, the choices that are made here", most);
        return fields_wrong(fields, "n", what, e);
}

void openai_handle_chat(struct gateway_call *call) {
        struct openai_prompts prompts = {.n = 1};
        struct openai_options options = {};
        struct fields fields = FIELDS_NULL;
        struct err e = {};
        const char *body;
        size_t size;
        int r = form_new(&prompts.forms[0], &e);

        if (r < 0) {
                openai_refuse(call, NULL, &e);
                return;
        }
        prompts.n_forms = 1;
        body = http_body(call->exchange, &size);
        r = openai_read_chat(prompts.forms[0], &options, &fields, body, size, &e);
        http_drop_body(call->exchange);
        if (r == 0)
                r = check_choices(call, &fields, form_fields(prompts.forms[0])->n, &e);
        if (r == 0)
                r = gateway_fill_form(call, prompts.forms[0], &e);
        if (r < 0) {
                openai_prompts_deinit(&prompts);
                openai_refuse(call, &fields, &e);
                return;
        }
        prompts.n = form_fields(prompts.forms[0])->n;
        openai_answer_start(call, OPENAI_CHAT, &prompts, &options);
}

/* Prompts have conversations of their own: no field of the head can name one. */
void openai_handle_text(struct gateway_call *call) {
        struct openai_prompts prompts = {};
        struct openai_options options = {};
        struct fields fields = FIELDS_NULL;
        struct err e = {};
        size_t size;
        const char *body = http_body(call->exchange, &size);
        int r = openai_read_text(&prompts, &options, &fields, body, size, &e);

        http_drop_body(call->exchange);
        if (r == 0)
                r = check_choices(call, &fields, prompts.n, &e);
        if (r < 0) {
                openai_prompts_deinit(&prompts);
                openai_refuse(call, &fields, &e);
                return;
        }
        openai_answer_start(call, OPENAI_TEXT, &prompts, &options);
}

/* ---- what confab has not ---- */

static void refuse_media(struct gateway_call *call) {
        static const struct talk_error error = {.status = 501,
                .code = CONFAB_UNSUPPORTED,
                .message = "confab's models read and write text only"};

        gateway_refuse(call, &gateway_openai, &error);
}

static void refuse_embeddings(struct gateway_call *call) {
        static const struct talk_error error = {
                .status = 501, .code = CONFAB_UNSUPPORTED, .message = "confab makes no embeddings"};

        gateway_refuse(call, &gateway_openai, &error);
}

static const struct gateway_route routes[] = {
        {.method = HTTP_GET, .pattern = "/v1/models", .handle = openai_handle_models},
        {.method = HTTP_GET, .pattern = "/v1/models/**", .handle = openai_handle_model},
        {.method = HTTP_POST, .pattern = "/v1/chat/completions", .handle = openai_handle_chat},
        {.method = HTTP_POST, .pattern = "/v1/completions", .handle = openai_handle_text},
        {.method = HTTP_POST, .pattern = "/v1/embeddings", .handle = refuse_embeddings},
        {.method = HTTP_POST, .pattern = "/v1/audio/*", .handle = refuse_media},
        {.method = HTTP_POST, .pattern = "/v1/images/*", .handle = refuse_media},
        {},
};

const struct gateway_dialect gateway_openai = {
        .name = "openai", .prefix = "/v1/", .routes = routes, .error = openai_error_body};
