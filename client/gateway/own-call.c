/* SPDX-License-Identifier: MIT */
/* See own.h. */
#include "client/gateway/own.h"
#include "base/util.h"
#include <stdio.h>

/* Kept connections to a daemon that has gone may be found over one after the other. */
#define TRIES_MAX 4

static void forget_request(struct own_call *own) {
        json_decref(own->body);
        own->body = NULL;
        own->memory = form_free(own->memory);
}

void own_free(struct own_call *own) {
        line_put(own->line);
        stream_free(own->stream);
        own_reply_free(own->reply);
        forget_request(own);
        free(own);
}

/* ---- endings ---- */

static void refuse(struct own_call *own, const struct confab_error *error) {
        struct gateway_call *call = own->call;

        own_refuse(call, own->route->verb, error);
        own_free(own);
}

static void refuse_err(struct own_call *own, const struct err *e, const char *param) {
        struct gateway_call *call = own->call;

        own_refuse_err(call, e, param);
        own_free(own);
}

static void refuse_code(struct own_call *own, enum err_code code, const char *message) {
        struct err e = {0};

        err_set(&e, code, "%s", message);
        refuse_err(own, &e, NULL);
}

/* The client must not take what it has for the whole. */
static void abort_call(struct own_call *own) {
        struct http_exchange *exchange = own->call->exchange;

        own_free(own);
        http_abort(exchange);
}

static void reply_json(struct own_call *own, const struct confab_event *event, struct buf *json) {
        struct http_exchange *exchange = own->call->exchange;
        bool creates = own->route->creates && event->kind == CONFAB_EVENT_CONVERSATION;
        char where[64];
        int r = 0;

        if (creates) {
                snprintf(where, sizeof(where), "/confab/v1/conversations/%llu",
                        (unsigned long long)event->conversation->id);
                r = http_add_header(exchange, "Location", where);
        }
        own_free(own);
        if (r < 0)
                http_reply(exchange, 503, NULL, NULL, 0);
        else
                http_reply(
                        exchange, creates ? 201 : 200, "application/json", json->data, json->size);
}

/* ---- events of the daemon ---- */

static void tell_one(struct own_call *own, const struct confab_event *event) {
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        int r = own_write_result(&json, event, &own->asked);

        if (r == -ERR_STATE)
                refuse_code(own, ERR_STATE, "the daemon's answer is of an unknown kind");
        else if (r < 0)
                refuse_code(own, ERR_NOMEM, "out of memory");
        else
                reply_json(own, event, &json);
}

static void tell_whole(struct own_call *own, const struct confab_event *event) {
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        int r = own_reply_add(own->reply, event);

        if (r == 0 && event->final)
                r = own_reply_write(own->reply, event, &json);
        if (r == -ERR_TOO_LARGE)
                refuse_code(own, ERR_TOO_LARGE,
                        "the reply is too long to be told in one piece: ask for a stream");
        else if (r < 0)
                refuse_code(own, ERR_NOMEM, "out of memory");
        else if (event->final)
                reply_json(own, event, &json);
}

static void on_closed(void *userdata) {
        own_free(userdata);
}

static void on_drained(void *userdata) {
        struct own_call *own = userdata;

        if (own->line)
                line_resume(own->line);
}

static const struct http_answer_ops http_ops = {on_closed, on_drained};

static void tell_stream(struct own_call *own, const struct confab_event *event);

/* The gateway stops, and a watch has no end. */
static void on_stop(void *userdata) {
        struct own_call *own = userdata;
        const struct confab_error error = {
                .code = CONFAB_SHUTDOWN, .message = "the gateway is stopping", .retry = true};
        const struct confab_event event = {
                .kind = CONFAB_EVENT_ERROR, .final = true, .error = &error};

        if (own->stream)
                tell_stream(own, &event);
        else
                refuse(own, &error);
}

static void tell_stream(struct own_call *own, const struct confab_event *event) {
        if (!own->stream) {
                own->stream = stream_new_events(own->call, &http_ops, own);
                if (!own->stream) { /* the exchange was aborted */
                        own_free(own);
                        return;
                }
        }
        /* The end of a watch was asked for by nobody here: nothing is to be said. */
        if (event->kind != CONFAB_EVENT_EMPTY && own_write_event(own, event) < 0) {
                abort_call(own);
        } else if (event->final) {
                stream_end(TAKE_PTR(own->stream));
                own_free(own);
        } else if (stream_is_slow(own->stream)) {
                line_pause(own->line);
        }
}

static void tell_bytes(struct own_call *own, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CHUNK || event->kind == CONFAB_EVENT_EXPORTED) {
                if (own_tell_bytes(own, event))
                        return;
        } else {
                http_abort(own->call->exchange);
        }
        own_free(own);
}

/* A kept connection was over. True: the request is asked once more. */
static bool ask_again(struct own_call *own, const struct confab_error *error);

static bool has_begun(const struct own_call *own) {
        return own->stream || own->has_begun;
}

static void on_event(void *userdata, const struct confab_event *event) {
        struct own_call *own = userdata;

        if (event->kind == CONFAB_EVENT_ERROR && !has_begun(own)) {
                if (!ask_again(own, event->error))
                        refuse(own, event->error);
                return;
        }
        forget_request(own);
        switch (own->route->kind) {
        case OWN_ONE:
                tell_one(own, event);
                break;
        case OWN_REPLY:
                if (own->reply)
                        tell_whole(own, event);
                else
                        tell_stream(own, event);
                break;
        case OWN_WATCH:
                tell_stream(own, event);
                break;
        case OWN_BYTES:
                tell_bytes(own, event);
                break;
        }
}

/* ---- asking ---- */

static void error_from(struct confab_error *ret, const struct err *e) {
        const char *code = e->code == ERR_NOMEM     ? CONFAB_NO_MEMORY
                           : e->code == ERR_LIMIT   ? CONFAB_LIMIT
                           : e->code == ERR_INVALID ? CONFAB_INVALID
                                                    : CONFAB_NO_DAEMON;

        *ret = (struct confab_error){.retry = e->code != ERR_INVALID};
        snprintf(ret->code, sizeof(ret->code), "%s", code);
        snprintf(ret->message, sizeof(ret->message), "%s", e->msg);
}

static int submit(struct own_call *own, struct confab_error *error) {
        struct err e;

        own->n_tries++;
        if (line_get(&own->line, own->backend, &own->call->owner, &e) < 0) {
                error_from(error, &e);
                return -1;
        }
        if (line_submit(own->line, &own->asked.request, on_event, own, &own->id, error) < 0)
                return -1;
        if (own->asked.request.verb == CONFAB_IMPORT)
                own_begin_import(own);
        return 0;
}

static bool changes_nothing(const struct own_call *own) {
        switch (own->asked.request.verb) {
        case CONFAB_GET:
        case CONFAB_LIST:
        case CONFAB_FIND:
        case CONFAB_TOKENIZE:
        case CONFAB_MODEL_INFO:
        case CONFAB_STATS:
        case CONFAB_QUOTA:
        case CONFAB_ATTACH:
        case CONFAB_WATCH:
        case CONFAB_EXPORT:
                return true;
        default:
                return false;
        }
}

static bool ask_again(struct own_call *own, const struct confab_error *error) {
        struct confab_error other;

        if (!confab_error_is(error, CONFAB_DISCONNECTED) || !changes_nothing(own) ||
                own->n_tries >= TRIES_MAX || own->reply)
                return false;
        own->line = line_put(own->line);
        if (submit(own, &other) < 0)
                refuse(own, &other);
        return true;
}

/* The daemon that the call names: by the query's `model`, or the field X-Confab-Model. NULL: there is none. */
static struct backend *find_backend(struct gateway_call *call) {
        const char *name = http_query(call->exchange, "model");

        if (!name)
                name = http_header(call->exchange, "x-confab-model");
        return backends_find(gateway_call_backends(call), name);
}

static void begin(struct own_call *own) {
        struct confab_error error;

        http_set_ops(own->call->exchange, &http_ops, own);
        if (own->route->kind == OWN_WATCH)
                http_set_stop(own->call->exchange, on_stop);
        if (submit(own, &error) < 0)
                refuse(own, &error);
}

static void on_models(void *userdata) {
        struct own_call *own = userdata;

        own->backend = find_backend(own->call);
        if (own->backend)
                begin(own);
        else
                refuse_code(own, ERR_NOT_FOUND, "there is no model of this name");
}

static void on_closed_early(void *userdata) {
        struct own_call *own = userdata;

        backends_forget(gateway_call_backends(own->call), own);
        own_free(own);
}

/* A name that is not known may be that of a daemon that was not asked yet. */
void own_ask(struct own_call *own) {
        static const struct http_answer_ops ops = {.closed = on_closed_early};

        own->backend = find_backend(own->call);
        if (own->backend) {
                begin(own);
                return;
        }
        http_set_ops(own->call->exchange, &ops, own);
        if (backends_refresh(gateway_call_backends(own->call), UINT64_MAX, on_models, own) < 0)
                refuse_code(own, ERR_NOMEM, "out of memory");
}

/* ---- reading ---- */

static const char *get_parameter(void *userdata, const char *name) {
        return http_query(userdata, name);
}

/* GET, and an import, have their fields in the query, others in the body, which may be empty. */
static int read_body(struct own_call *own, struct err *e) {
        struct http_exchange *exchange = own->call->exchange;
        enum http_method method = http_method(exchange);
        size_t size;
        const char *body = http_body(exchange, &size);
        int r;

        if (method == HTTP_GET || method == HTTP_HEAD || own->route->verb == CONFAB_IMPORT)
                return own_read_query(&own->body, own->route->verb, get_parameter, exchange, e);
        r = size > 0 ? fields_parse(&own->body, body, size, e) : 0;
        http_drop_body(exchange);
        if (r == 0 && !own->body)
                own->body = json_object();
        return r == 0 && !own->body ? err_no_memory(e) : r;
}

/* "-" stands for a name that a path can't have: it is in the query. */
static int read_conversation(struct own_call *own, struct err *e) {
        const char *text = own->call->arg[0];

        if (!own->route->has_conversation)
                return 0;
        if (strcmp(text, "-") == 0 && http_query(own->call->exchange, "conversation"))
                text = http_query(own->call->exchange, "conversation");
        if (own_read_ref(text, &own->asked.request) == 0)
                return 0;
        return err_set(e, ERR_NOT_FOUND, "there is no conversation %.40s", text);
}

/* What a client had when its connection broke. 1: there is nothing more. */
static int read_last_id(struct own_call *own, struct err *e) {
        struct confab_request *request = &own->asked.request;
        const char *id = http_header(own->call->exchange, "last-event-id");

        if (!id || !*id)
                return 0;
        if (request->verb == CONFAB_WATCH)
                request->cursor = id;
        return request->verb == CONFAB_ATTACH ? own_read_place(id, request, e) : 0;
}

/* One rule for all that speak HTTP: a reply goes on until the model ends it (talk-run.c has why). */
static void fill_limit(struct own_call *own) {
        struct confab_request *request = &own->asked.request;

        if (request->verb != CONFAB_CONTINUE || request->has_max_tokens)
                return;
        request->has_max_tokens = true;
        request->max_tokens = talk_longest_reply(&gateway_settings(own->call->gateway)->talk);
}

static int read_request(struct own_call *own, struct fields *fields, struct err *e) {
        int r = form_new(&own->memory, e);

        if (r == 0)
                r = read_body(own, e);
        if (r == 0)
                r = own_read(own->memory, fields, own->route->verb, own->body, &own->asked, e);
        if (r == 0)
                r = read_conversation(own, e);
        if (r == 0)
                r = read_last_id(own, e);
        if (r == 0)
                fill_limit(own);
        own->asked.request.in_stream = true; /* files: the gateway has no descriptors to pass on */
        if (r == 0 && own->asked.whole) {
                own->reply = own_reply_new();
                r = own->reply ? 0 : err_no_memory(e);
        }
        return r;
}

struct own_call *own_new(struct gateway_call *call, const struct own_route *route) {
        struct own_call *own = calloc(1, sizeof(*own));
        struct fields fields = FIELDS_NULL;
        struct err e = {0};
        int r;

        if (!own) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
                return NULL;
        }
        own->call = call;
        own->route = route;
        r = read_request(own, &fields, &e);
        if (r == 0)
                return own;
        if (r < 0) {
                refuse_err(own, &e, fields.wrong);
                return NULL;
        }
        own_free(own);
        http_reply(call->exchange, 204, NULL, NULL, 0);
        return NULL;
}

/* What a stream or a file is told without asking for it: a watch has no end. */
static void reply_head(struct gateway_call *call, enum own_kind kind) {
        http_begin(call->exchange, 200,
                kind == OWN_BYTES ? "application/octet-stream" : "text/event-stream");
        http_end(call->exchange);
}

void own_handle(struct gateway_call *call, const struct own_route *route) {
        struct own_call *own;

        if (http_method(call->exchange) == HTTP_HEAD && route->kind != OWN_ONE) {
                reply_head(call, route->kind);
                return;
        }
        own = own_new(call, route);
        if (own)
                own_ask(own);
}
