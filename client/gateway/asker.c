/* SPDX-License-Identifier: MIT */
#include "client/gateway/asker.h"
#include "base/util.h"

#define TRIES 3

static void on_closed(void *userdata) {
        asker_end(userdata);
}

void asker_init(struct asker *asker, struct gateway_call *call,
        const struct gateway_dialect *dialect, void (*free_fn)(struct asker *asker)) {
        static const struct http_answer_ops ops = {.closed = on_closed};

        *asker = (struct asker){.call = call, .dialect = dialect, .free = free_fn};
        http_set_ops(call->exchange, &ops, asker);
}

struct gateway_call *asker_end(struct asker *asker) {
        struct gateway_call *call = asker->call;

        line_put(asker->line);
        asker->free(asker);
        return call;
}

/* ---- requests ---- */

static bool only_looks(enum confab_verb verb) {
        return verb == CONFAB_GET || verb == CONFAB_LIST;
}

static void send(struct asker *asker);

static void on_event(void *userdata, const struct confab_event *event) {
        struct asker *asker = userdata;

        if (event->kind == CONFAB_EVENT_ERROR && only_looks(asker->request.verb) &&
                (confab_error_is(event->error, CONFAB_DISCONNECTED) ||
                        confab_error_is(event->error, CONFAB_SHUTDOWN)) &&
                asker->n_tries < TRIES) {
                asker->line = line_put(asker->line);
                send(asker);
                return;
        }
        asker->fn(asker, event);
}

static void send(struct asker *asker) {
        struct confab_error error = {.code = CONFAB_NO_MEMORY};
        struct talk_error refusal;
        struct err e = {0};

        asker->n_tries++;
        if (!asker->line && line_get(&asker->line, asker->backend, &asker->call->owner, &e) < 0) {
                asker_refuse_err(asker, &e);
                return;
        }
        if (line_submit(asker->line, &asker->request, on_event, asker, NULL, &error) == 0)
                return;
        talk_error_from(&refusal, &error);
        asker_refuse(asker, &refusal);
}

void asker_ask(struct asker *asker, struct backend *backend, const struct confab_request *request,
        asker_fn fn) {
        if (asker->backend != backend)
                asker->line = line_put(asker->line);
        asker->backend = backend;
        asker->request = *request;
        asker->fn = fn;
        asker->n_tries = 0;
        send(asker);
}

bool asker_failed(struct asker *asker, const struct confab_event *event) {
        struct talk_error error;

        if (event->kind != CONFAB_EVENT_ERROR)
                return false;
        talk_error_from(&error, event->error);
        asker_refuse(asker, &error);
        return true;
}

/* ---- answers ---- */

void asker_reply(struct asker *asker, const struct buf *json, int r) {
        struct gateway_call *call = asker_end(asker);

        if (r < 0)
                http_abort(call->exchange);
        else
                gateway_reply_json(call, json);
}

void asker_refuse(struct asker *asker, const struct talk_error *error) {
        const struct gateway_dialect *dialect = asker->dialect;
        struct gateway_call *call = asker->call;

        /* the words of the error may be those of an event of the line */
        gateway_refuse(call, dialect, error);
        asker_end(asker);
}

void asker_refuse_err(struct asker *asker, const struct err *e) {
        gateway_refuse_err(asker->call, asker->dialect, e);
        asker_end(asker);
}
