/* SPDX-License-Identifier: MIT */
/* Conversations themselves: made, looked at, changed, deleted. */
#include "client/gateway/conversations.h"
#include "base/util.h"
#include "client/gateway/form-json.h"
#include <string.h>

static struct conversing *conversing_of(struct asker *asker) {
        return container_of(asker, struct conversing, asker);
}

static void conversing_free(struct asker *asker) {
        struct conversing *conversing = conversing_of(asker);

        talk_free(conversing->talk);
        json_decref(conversing->body);
        form_free(conversing->form);
        free(conversing);
}

struct conversing *conversing_new(struct gateway_call *call) {
        struct conversing *conversing = calloc(1, sizeof(*conversing));
        struct err e;

        if (!conversing) {
                err_no_memory(&e);
                gateway_refuse_err(call, &gateway_responses, &e);
                return NULL;
        }
        asker_init(&conversing->asker, call, &gateway_responses, conversing_free);
        return conversing;
}

/* ---- looking ---- */

static void on_look(struct asker *asker, const struct confab_event *event) {
        struct conversing *conversing = conversing_of(asker);

        if (event->kind == CONFAB_EVENT_CONVERSATION &&
                responses_is_conversation(&conversing->id, event->conversation))
                conversing->then(conversing, event->conversation);
        else if (event->kind == CONFAB_EVENT_CONVERSATION ||
                 confab_error_is(event->error, CONFAB_NOT_FOUND))
                responses_refuse_unknown(asker, "conversation", asker->call->arg[0], NULL);
        else
                asker_failed(asker, event);
}

void conversing_look(struct conversing *conversing,
        void (*then)(struct conversing *conversing, const struct confab_conversation *c)) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (!responses_take_arg(&conversing->asker, 0, RESPONSES_ID_CONVERSATION, "conversation",
                    &conversing->id, &conversing->backend))
                return;
        conversing->then = then;
        request.verb = CONFAB_GET;
        request.conversation_id = conversing->id.conversation;
        asker_ask(&conversing->asker, conversing->backend, &request, on_look);
}

void conversing_reply(struct conversing *conversing, const struct confab_conversation *c) {
        uint32_t daemon = responses_daemon(backend_model(conversing->backend)->socket);
        const char *metadata =
                c->about && c->about->metadata && c->about->metadata[0] ? c->about->metadata : "{}";
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        char id[RESPONSES_ID_SIZE];
        struct json j;

        responses_name_conversation(daemon, c, id);
        json_init(&j, &out);
        json_object_begin(&j);
        json_put_key_string(&j, "id", id);
        json_put_key_string(&j, "object", "conversation");
        json_put_key_u64(&j, "created_at", c->created_usec / 1000000);
        json_put_key(&j, "metadata");
        json_put_raw(&j, metadata, strlen(metadata));
        json_object_end(&j);
        asker_reply(&conversing->asker, &out, json_finish(&j));
}

void conversations_handle_get(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (conversing)
                conversing_look(conversing, conversing_reply);
}

static void on_conversation(struct asker *asker, const struct confab_event *event) {
        if (!asker_failed(asker, event))
                conversing_reply(conversing_of(asker), event->conversation);
}

/* ---- the body ---- */

static int read_body(struct conversing *conversing, struct err *e) {
        struct http_exchange *exchange = conversing->asker.call->exchange;
        size_t size;
        const char *body = http_body(exchange, &size);
        json_t *metadata;
        int r = fields_parse(&conversing->body, size > 0 ? body : "{}", size > 0 ? size : 2, e);

        http_drop_body(exchange);
        if (r == 0)
                r = form_new(&conversing->form, e);
        if (r == 0)
                r = fields_object(&conversing->fields, conversing->body, "metadata", &metadata, e);
        if (r == 0 && metadata)
                r = form_dump(conversing->form, metadata, &conversing->metadata, e);
        return r;
}

bool conversing_read(struct conversing *conversing) {
        struct err e = {0};

        if (read_body(conversing, &e) == 0)
                return true;
        responses_refuse_body(&conversing->asker, &conversing->fields, &e);
        return false;
}

bool conversing_read_items(struct conversing *conversing) {
        struct err e = {0};

        if (responses_read_input(conversing->form, &conversing->fields, conversing->body, "items",
                    0, NULL, &e) == 0)
                return true;
        responses_refuse_body(&conversing->asker, &conversing->fields, &e);
        return false;
}

/* ---- changing ---- */

static void update(struct conversing *conversing, const struct confab_conversation *c) {
        const struct confab_about about = {
                .metadata = conversing->metadata ? conversing->metadata : ""};
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_UPDATE;
        request.conversation_id = c->id;
        request.about = &about;
        asker_ask(&conversing->asker, conversing->backend, &request, on_conversation);
}

void conversations_handle_update(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (conversing && conversing_read(conversing))
                conversing_look(conversing, update);
}

static void on_closed(struct asker *asker, const struct confab_event *event) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;

        if (!asker_failed(asker, event))
                asker_reply(asker, &out,
                        responses_write_deleted(
                                &out, &conversing_of(asker)->id, "conversation.deleted"));
}

static void close_it(struct conversing *conversing, const struct confab_conversation *c) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_CLOSE;
        request.conversation_id = c->id;
        asker_ask(&conversing->asker, conversing->backend, &request, on_closed);
}

void conversations_handle_delete(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (conversing)
                conversing_look(conversing, close_it);
}

/* ---- saying ---- */

static void on_accepted(void *userdata, unsigned choice, const struct talk_place *place,
        const struct talk_usage *usage) {
        struct conversing *conversing = userdata;

        (void)choice;
        (void)usage;
        conversing->place = *place;
}

static void on_ended(void *userdata, const struct talk_error *error) {
        struct conversing *conversing = userdata;

        if (error) {
                asker_refuse(&conversing->asker, error);
                return;
        }
        conversing->talk = talk_free(conversing->talk);
        conversing->said(conversing);
}

void conversing_say(struct conversing *conversing, void (*then)(struct conversing *conversing)) {
        static const struct talk_ops ops = {.accepted = on_accepted, .ended = on_ended};
        struct gateway_call *call = conversing->asker.call;
        struct form_fields *fields = form_fields(conversing->form);
        struct err e = {0};

        conversing->said = then;
        fields->input = FORM_MESSAGES;
        fields->has_max_tokens = true; /* 0: no reply */
        fields->daemon = backend_model(conversing->backend)->socket;
        fields->tag = "openai";
        fields->metadata = conversing->metadata;
        if (talk_new(&conversing->talk, gateway_call_backends(call),
                    &gateway_settings(call->gateway)->talk, &call->owner,
                    TAKE_PTR(conversing->form), &ops, conversing, &e) < 0)
                asker_refuse_err(&conversing->asker, &e);
}

/* ---- making ---- */

static void look_at_made(struct conversing *conversing) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_GET;
        request.conversation_id = conversing->place.conversation;
        asker_ask(&conversing->asker, conversing->backend, &request, on_conversation);
}

static void open_empty(struct conversing *conversing) {
        static const char *const tags[] = {"openai"};
        const struct confab_about about = {
                .metadata = conversing->metadata, .tags = tags, .n_tags = 1, .has_tags = true};
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_OPEN;
        request.about = &about;
        asker_ask(&conversing->asker, conversing->backend, &request, on_conversation);
}

/* The daemon of a `model`, which OpenAI has not here, or the default one. */
static bool choose_daemon(struct conversing *conversing) {
        struct backends *backends = gateway_call_backends(conversing->asker.call);
        const char *model;
        struct err e = {0};

        if (fields_string(&conversing->fields, conversing->body, "model", &model, &e) < 0) {
                responses_refuse_body(&conversing->asker, &conversing->fields, &e);
                return false;
        }
        conversing->backend = backends_find(backends, model);
        if (conversing->backend)
                return true;
        responses_refuse_unknown(&conversing->asker, "model", model, "model");
        return false;
}

void conversations_handle_create(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (!conversing || !conversing_read(conversing) || !conversing_read_items(conversing) ||
                !choose_daemon(conversing))
                return;
        if (form_fields(conversing->form)->n_messages == 0) {
                open_empty(conversing);
                return;
        }
        form_fields(conversing->form)->place = FORM_NEW;
        form_fields(conversing->form)->has_expires_after = true; /* 0: never */
        conversing_say(conversing, look_at_made);
}
