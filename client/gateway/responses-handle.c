/* SPDX-License-Identifier: MIT */
/* What becomes of a response: retrieved, cancelled, deleted, its input listed; and the routes. */
#include "base/util.h"
#include "client/gateway/openai-reply.h"
#include "client/gateway/responses-fetch.h"
#include "client/gateway/responses-list.h"
#include <stdlib.h>
#include <string.h>

static struct responses_fetching *fetching_of(struct asker *asker) {
        return container_of(asker, struct responses_fetching, asker);
}

/* ---- retrieve ---- */

/* The query's `starting_after`: -1, if there is none. */
static bool read_after(const char *text, int64_t *ret) {
        char *end;

        *ret = -1;
        if (!text || !*text)
                return true;
        *ret = strtoll(text, &end, 10);
        return *text >= '0' && *text <= '9' && !*end;
}

static void tell(struct responses_fetching *fetching) {
        const struct http_exchange *exchange = fetching->asker.call->exchange;
        const char *stream = http_query(exchange, "stream");

        if (!stream || strcmp(stream, "true") != 0)
                responses_fetch_reply(fetching);
        else if (!read_after(http_query(exchange, "starting_after"), &fetching->after))
                responses_refuse(&fetching->asker, "starting_after",
                        "starting_after is not the number of an event");
        else
                responses_attach(fetching);
}

static void handle_get(struct gateway_call *call) {
        responses_fetch(call, tell);
}

/* ---- cancel ---- */

static void on_attached(struct asker *asker, const struct confab_event *event) {
        if (event->final)
                responses_fetch_again(fetching_of(asker));
}

/* It was cancelled: wait until its reply is stored. */
static void on_cancelled(struct asker *asker, const struct confab_event *event) {
        struct responses_fetching *fetching = fetching_of(asker);
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (asker_failed(asker, event))
                return;
        fetching->then = responses_fetch_reply;
        request.verb = CONFAB_ATTACH;
        request.conversation_id = fetching->id.conversation;
        request.has_expect_revision = true;
        request.expect_revision = fetching->id.revision;
        asker_ask(asker, fetching->backend, &request, on_attached);
}

static void cancel(struct responses_fetching *fetching) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (!(fetching->id.flags & RESPONSES_BACKGROUND)) {
                responses_refuse(&fetching->asker, NULL,
                        "only responses that were made with background can be cancelled");
        } else if (fetching->fate != RESPONSES_WRITING) {
                responses_fetch_reply(fetching);
        } else {
                request.verb = CONFAB_CANCEL;
                request.conversation_id = fetching->id.conversation;
                asker_ask(&fetching->asker, fetching->backend, &request, on_cancelled);
        }
}

static void handle_cancel(struct gateway_call *call) {
        responses_fetch(call, cancel);
}

/* ---- delete ---- */

static void on_deleted(struct asker *asker, const struct confab_event *event) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;

        if (!asker_failed(asker, event))
                asker_reply(asker, &out,
                        responses_write_deleted(&out, &fetching_of(asker)->id, "response"));
}

/* Its reply and its input are taken back, and so is a conversation that has nothing else. */
static void delete_it(struct responses_fetching *fetching) {
        const struct responses_id *id = &fetching->id;
        uint32_t first = id->turn - id->n_new;
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (fetching->fate == RESPONSES_WRITING) {
                responses_refuse(
                        &fetching->asker, NULL, "the response is being written: cancel it first");
                return;
        }
        if (!fetching->is_last) {
                responses_refuse(&fetching->asker, NULL,
                        "the conversation goes on behind this response: delete what follows first");
                return;
        }
        request.conversation_id = id->conversation;
        if (first == 0 && !(id->flags & RESPONSES_IN_CONVERSATION)) {
                request.verb = CONFAB_CLOSE;
        } else {
                request.verb = CONFAB_REWIND;
                request.has_at_turn = request.has_expect_revision = true;
                request.at_turn = first;
                request.expect_revision = fetching->revision;
        }
        asker_ask(&fetching->asker, fetching->backend, &request, on_deleted);
}

static void handle_delete(struct gateway_call *call) {
        responses_fetch(call, delete_it);
}

/* ---- input items ---- */

static struct responses_range range_of(const struct responses_id *id) {
        bool late = id->flags & RESPONSES_LATE_INSTRUCTIONS;

        return (struct responses_range){.from = id->turn - id->n_input,
                .before = id->turn,
                .instructions_turn = late ? id->turn - id->n_new : 0,
                .instructions_size = id->instructions_size};
}

static void reply_page(struct responses_fetching *fetching, const struct confab_conversation *c) {
        const struct responses_range range = range_of(&fetching->id);
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct responses_page page;
        int r = responses_read_page(fetching->asker.call->exchange, &page, NULL);

        if (r == 0)
                r = responses_write_page(&out, &page, &range, &fetching->id, c);
        asker_reply(&fetching->asker, &out, r);
}

static void on_items(struct asker *asker, const struct confab_event *event) {
        if (!asker_failed(asker, event))
                reply_page(fetching_of(asker), event->conversation);
}

static void list(struct responses_fetching *fetching) {
        static const struct confab_conversation empty = {.id = 0};
        const struct responses_range range = range_of(&fetching->id);
        struct confab_request request;
        struct responses_page page;
        uint32_t from, before;
        struct err e = {0};

        if (responses_read_page(fetching->asker.call->exchange, &page, &e) < 0) {
                asker_refuse_err(&fetching->asker, &e);
                return;
        }
        responses_page_turns(&page, &range, &from, &before);
        if (from == before) {
                reply_page(fetching, &empty);
                return;
        }
        responses_fill_turns(&request, fetching->id.conversation, from, before);
        asker_ask(&fetching->asker, fetching->backend, &request, on_items);
}

static void handle_input_items(struct gateway_call *call) {
        responses_fetch(call, list);
}

/* ---- routes ---- */

static const struct gateway_route routes[] = {
        {HTTP_POST, "/v1/responses", responses_handle_create, false},
        {HTTP_POST, "/v1/responses/input_tokens", responses_handle_count, false},
        {HTTP_GET, "/v1/responses/*", handle_get, false},
        {HTTP_DELETE, "/v1/responses/*", handle_delete, false},
        {HTTP_POST, "/v1/responses/*/cancel", handle_cancel, false},
        {HTTP_GET, "/v1/responses/*/input_items", handle_input_items, false},
        {HTTP_POST, "/v1/conversations", conversations_handle_create, false},
        {HTTP_GET, "/v1/conversations/*", conversations_handle_get, false},
        {HTTP_POST, "/v1/conversations/*", conversations_handle_update, false},
        {HTTP_DELETE, "/v1/conversations/*", conversations_handle_delete, false},
        {HTTP_GET, "/v1/conversations/*/items", conversations_handle_list, false},
        {HTTP_POST, "/v1/conversations/*/items", conversations_handle_add, false},
        {HTTP_GET, "/v1/conversations/*/items/*", conversations_handle_item, false},
        {HTTP_DELETE, "/v1/conversations/*/items/*", conversations_handle_remove, false},
        {0},
};

/* What the daemon refuses has a name here, too: those of chat completions that are others in responses. */
static int error_body(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        const struct talk_error error = {
                .status = status, .code = code, .message = message, .param = param};
        const char *name = openai_error_param(&error);

        if (name && strcmp(name, "messages") == 0)
                name = "input";
        else if (name && strcmp(name, "response_format") == 0)
                name = "text.format";
        return openai_error_body(out, status, code, message, name);
}

const struct gateway_dialect gateway_responses = {
        .name = "responses", .prefix = "/v1/responses", .routes = routes, .error = error_body};
