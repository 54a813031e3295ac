/* SPDX-License-Identifier: MIT */
/* Routes of Ollama's dialect. */
#include "client/gateway/ollama-handle.h"
#include "base/json.h"
#include "client/gateway/answer.h"
#include <string.h>

/* The version of Ollama whose API this is. Clients compare it with the one that had what they need, so it can't be
 * confab's own. */
#define API_VERSION "0.12.6"

static const struct answer_kind chat_kind = {.dialect = &gateway_ollama, .lines = true};

typedef int (*parse_fn)(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e);

static int read_form(struct gateway_call *call, parse_fn parse, struct form **ret,
        struct ollama_wish *wish, struct err *e) {
        json_t *body = NULL;
        struct form *form = NULL;
        int r = answer_read_body(call, &body, e);

        if (r == 0)
                r = form_new(&form, e);
        if (r == 0)
                r = parse(form, body, wish, e);
        json_decref(body);
        if (r == 0)
                r = gateway_fill_form(call, form, e);
        if (r < 0)
                form_free(form);
        else
                *ret = form;
        return r;
}

static void handle_chat(struct gateway_call *call) {
        struct ollama_wish wish = {0};
        struct form *form = NULL;
        struct err e = {0};

        if (read_form(call, ollama_parse_chat, &form, &wish, &e) < 0) {
                gateway_refuse_err(call, &gateway_ollama, &e);
        } else if (wish.loads) {
                ollama_ask_models(call, OLLAMA_LOADED, form_fields(form)->model, &wish);
                form_free(form);
        } else {
                const struct form_fields *fields = form_fields(form);

                answer_start(call, &chat_kind, NULL, form,
                        ollama_writer_new(
                                OLLAMA_CHAT, fields->stream, &wish, fields->want_logprobs));
        }
}

static void handle_generate(struct gateway_call *call) {
        struct ollama_wish wish = {0};
        struct form *form = NULL;
        struct err e = {0};

        if (read_form(call, ollama_parse_generate, &form, &wish, &e) < 0) {
                gateway_refuse_err(call, &gateway_ollama, &e);
        } else if (wish.loads) {
                ollama_ask_models(call, OLLAMA_LOADED_GENERATE, form_fields(form)->model, &wish);
                form_free(form);
        } else {
                ollama_generate(call, form, &wish);
        }
}

static void handle_tags(struct gateway_call *call) {
        ollama_ask_models(call, OLLAMA_TAGS, NULL, NULL);
}

static void handle_ps(struct gateway_call *call) {
        ollama_ask_models(call, OLLAMA_PS, NULL, NULL);
}

/* {"model"}, or {"name"} as it was. */
static void handle_show(struct gateway_call *call) {
        struct fields fields = FIELDS_NULL;
        const char *model = NULL;
        json_t *body = NULL;
        struct err e = {0};
        int r = answer_read_body(call, &body, &e);

        if (r == 0)
                r = fields_string(&fields, body, "model", &model, &e);
        if (r == 0 && !model)
                r = fields_string(&fields, body, "name", &model, &e);
        if (r == 0 && !model)
                r = fields_wrong(&fields, "model", "given", &e);
        if (r < 0)
                gateway_refuse_err(call, &gateway_ollama, &e);
        else
                ollama_ask_models(call, OLLAMA_SHOW, model, NULL);
        json_decref(body);
}

static void handle_version(struct gateway_call *call) {
        struct buf body = BUF_NULL;
        struct json j;

        json_init(&j, &body);
        json_object_begin(&j);
        json_put_key_string(&j, "version", API_VERSION);
        json_put_key_string(&j, "server", "confab " CONFAB_VERSION);
        json_object_end(&j);
        if (json_finish(&j) < 0)
                http_abort(call->exchange);
        else
                gateway_reply_json(call, &body);
        buf_deinit(&body);
}

static void refuse(struct gateway_call *call, const char *message) {
        const struct talk_error error = {
                .status = 501, .code = CONFAB_UNSUPPORTED, .message = message};

        gateway_refuse(call, &gateway_ollama, &error);
}

static void refuse_embeddings(struct gateway_call *call) {
        refuse(call, "confab makes no embeddings");
}

static void refuse_models(struct gateway_call *call) {
        refuse(call, "confab's models are files of its daemons: they can't be pulled, made or "
                     "deleted here");
}

static const struct gateway_route routes[] = {
        {HTTP_POST, "/api/chat", handle_chat, false},
        {HTTP_POST, "/api/generate", handle_generate, false},
        {HTTP_GET, "/api/tags", handle_tags, false},
        {HTTP_HEAD, "/api/tags", handle_tags, false},
        {HTTP_GET, "/api/ps", handle_ps, false},
        {HTTP_POST, "/api/show", handle_show, false},
        {HTTP_GET, "/api/version", handle_version, false},
        {HTTP_HEAD, "/api/version", handle_version, false},
        {HTTP_POST, "/api/embed", refuse_embeddings, false},
        {HTTP_POST, "/api/embeddings", refuse_embeddings, false},
        {HTTP_POST, "/api/pull", refuse_models, false},
        {HTTP_POST, "/api/push", refuse_models, false},
        {HTTP_POST, "/api/create", refuse_models, false},
        {HTTP_POST, "/api/copy", refuse_models, false},
        {HTTP_DELETE, "/api/delete", refuse_models, false},
        {HTTP_HEAD, "/api/blobs/*", refuse_models, false},
        {HTTP_POST, "/api/blobs/*", refuse_models, false},
        {0},
};

const struct gateway_dialect gateway_ollama = {
        .name = "ollama",
        .prefix = "/api/",
        .routes = routes,
        .error = ollama_error,
};
