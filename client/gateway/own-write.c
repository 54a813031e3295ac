/* SPDX-License-Identifier: MIT */
#include "base/json.h"
#include "base/util.h"
#include "client/event-json.h"
#include "client/gateway/own.h"
#include <stdio.h>

/* ---- errors ---- */

/* @error: where the machine and the address are, or NULL. */
static int put_error(struct buf *out, const char *code, const char *message, bool retry,
        const char *param, const struct confab_error *error) {
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        json_put_key(&json, "error");
        json_object_begin(&json);
        json_put_key_string(&json, "code", code);
        json_put_key_string(&json, "message", message);
        json_put_key_bool(&json, "retry", retry);
        json_put_key_string(&json, "param", param);
        if (error && *error->machine)
                json_put_key_string(&json, "machine", error->machine);
        if (error && *error->address)
                json_put_key_string(&json, "address", error->address);
        json_object_end(&json);
        json_object_end(&json);
        return json_finish(&json);
}

int own_error(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        return put_error(
                out, code, message, status == 408 || status == 429 || status == 503, param, NULL);
}

void own_refuse(
        struct gateway_call *call, enum confab_verb verb, const struct confab_error *error) {
        struct buf body = BUF_NULL;
        struct talk_error told;

        talk_error_from(&told, error);
        if (verb == CONFAB_IMPORT && strcmp(error->code, "corrupt") == 0)
                told.status = 422; /* the client's file, not what is stored */
        if (put_error(&body, error->code, error->message, error->retry, NULL, error) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                gateway_refuse_body(call, &told, &body);
        buf_deinit(&body);
}

void own_refuse_err(struct gateway_call *call, const struct err *e, const char *param) {
        const struct talk_error error = {.status = 400,
                .code = CONFAB_INVALID,
                .message = e->msg,
                .param = param && *param ? param : NULL};

        if (e->code == ERR_INVALID)
                gateway_refuse(call, &gateway_own, &error);
        else
                gateway_refuse_err(call, &gateway_own, e);
}

/* ---- results ---- */

static void put_conversation(struct json *json, const struct confab_conversation *conversation,
        const struct own_asked *asked) {
        json_object_begin(json);
        event_json_conversation(json, conversation, EVENT_JSON_SEED_TEXT);
        if (asked->request.want_turns)
                event_json_turns(json, conversation, EVENT_JSON_SEED_TEXT);
        if (asked->request.want_tokens)
                event_json_tokens(json, conversation);
        json_object_end(json);
}

int own_write_result(
        struct buf *out, const struct confab_event *event, const struct own_asked *asked) {
        struct json json;

        json_init(&json, out);
        switch (event->kind) {
        case CONFAB_EVENT_EMPTY:
                json_object_begin(&json);
                json_object_end(&json);
                break;
        case CONFAB_EVENT_CONVERSATION:
                put_conversation(&json, event->conversation, asked);
                break;
        case CONFAB_EVENT_CONVERSATIONS:
                event_json_list(&json, event->conversations, EVENT_JSON_SEED_TEXT);
                break;
        case CONFAB_EVENT_TOKENS:
                event_json_tokenized(&json, event->tokens);
                break;
        case CONFAB_EVENT_MODEL_INFO:
                event_json_model(&json, event->model_info);
                break;
        case CONFAB_EVENT_STATS:
                event_json_stats(&json, event->stats);
                break;
        case CONFAB_EVENT_QUOTAS:
                event_json_quotas(&json, event->quotas);
                break;
        case CONFAB_EVENT_FOUND:
                event_json_found(&json, event->found, EVENT_JSON_SEED_TEXT);
                break;
        default:
                return -ERR_STATE;
        }
        return json_finish(&json);
}

/* ---- streams ---- */

static const char *name_of(const struct confab_event *event) {
        switch (event->kind) {
        case CONFAB_EVENT_ACCEPTED:
                return "accepted";
        case CONFAB_EVENT_PROGRESS:
                return "progress";
        case CONFAB_EVENT_DELTA:
                return "delta";
        case CONFAB_EVENT_DONE:
                return "done";
        case CONFAB_EVENT_NOTICE:
                return "notice";
        default:
                return "error";
        }
}

#define ID_SIZE 48

/* What own_read_place() reads, or a cursor; NULL: the event is no place to go on from. */
static const char *id_of(
        struct own_call *own, const struct confab_event *event, char text[ID_SIZE]) {
        const struct confab_request *request = &own->asked.request;
        unsigned long long revision = own->revision;
        bool resumes = request->verb == CONFAB_ATTACH && request->has_at_position;

        switch (event->kind) {
        case CONFAB_EVENT_NOTICE:
                return event->notice->cursor;
        case CONFAB_EVENT_ACCEPTED:
                snprintf(text, ID_SIZE, "%llu", revision);
                if (resumes) /* or else a client that loses this connection, too, begins anew */
                        snprintf(text, ID_SIZE, "%llu-%u", revision, request->at_position);
                return text;
        case CONFAB_EVENT_DELTA:
                snprintf(text, ID_SIZE, "%llu-%u", revision, event->delta->position);
                return event->delta->position ? text : NULL;
        case CONFAB_EVENT_DONE:
                snprintf(text, ID_SIZE, "%llu-end", revision);
                return text;
        default:
                return NULL;
        }
}

int own_write_event(struct own_call *own, const struct confab_event *event) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        char id[ID_SIZE];
        struct json json;
        int r;

        if (event->kind == CONFAB_EVENT_ACCEPTED)
                own->revision = event->accepted->revision;
        json_init(&json, &out);
        event_json_event(&json, event, EVENT_JSON_SEED_TEXT);
        r = json_finish(&json);
        if (r == 0)
                stream_event_id(own->stream, id_of(own, event, id), name_of(event), &out);
        return r;
}
