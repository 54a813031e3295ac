/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The gateway's inside: what a dialect needs of it, and what it needs of a dialect.
 *
 * A dialect is a file (or a few with one prefix) with a table of routes and a form of error. It reads JSON with libjansson
 * through client/gateway/fields.h, makes a form, starts a talk, and writes what the talk hands out.
 */
#include "base/buf.h"
#include "client/gateway/http.h"
#include "client/gateway/talk.h"
#include <jansson.h>

struct gateway;
struct gateway_dialect;
struct follow_refusal;

/* A request for a route: who asks, and the exchange. Lives until the exchange has ended. */
struct gateway_route;
struct gateway_call {
        struct gateway *gateway;
        struct http_exchange *exchange;
        struct gateway_owner owner;
        const char *arg[2]; /* what stands in the path at "*", or NULL */
        void *userdata;     /* what the dialect's admit() has for its handler */
        /* NULL: not known yet */
        const struct gateway_dialect *dialect;
        const struct gateway_route *route;
        /* It is about to be refused, and nothing of its answer is sent (follow.c). True: it was taken over, and the exchange is not the
         * caller's any more, as if it had been answered. Else *error and *body may be others now. NULL: nobody takes it over. */
        bool (*refused)(struct gateway_call *call, const struct talk_error **error,
                const struct buf **body);
        /* follow.c: the only daemon that is asked, in place of the gateway's; what the call was refused with before. NULL: the
         * call was not followed. */
        struct backends *backends;
        const struct follow_refusal *refusal;
};

struct gateway_route {
        enum http_method method;
        const char *
                pattern; /* "/v1/models/ *" without the blank: '*' is one segment, "**" at the end is all that follows */
        void (*handle)(struct gateway_call *call);
        bool is_public; /* takes no token: by TCP call->owner is nobody, (uid_t)-1 */
};

/* How a dialect says that something is wrong: a body. @code is a word of confab's ("context_length_exceeded",
 * "invalid", ...), @param the wrong field or NULL. -ERR_NOMEM. */
typedef int (*gateway_error_body)(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);
/* The text of an error, appended: @message, behind @too_long if @code says that the context is exceeded. Agents look for
 * words of their dialect there, whatever the code, and make their history shorter when they read them. @message may be
 * NULL. -ERR_NOMEM. */
int gateway_error_text(
        struct buf *out, const char *code, const char *too_long, const char *message);

struct gateway_dialect {
        const char *name; /* "openai" */
        const char
                *prefix; /* paths whose refusals have its form: "/v1/" (the longest prefix wins) */
        const struct gateway_route *routes; /* the last has no pattern */
        gateway_error_body error;
        /* A head was admitted, and a body may follow (http_handlers.admit); or NULL. */
        void (*admit)(struct gateway_call *call, const struct gateway_route *route);
};
extern const struct gateway_dialect gateway_openai, gateway_responses, gateway_anthropic,
        gateway_ollama, gateway_own, gateway_page;

struct gateway_settings {
        struct talk_settings talk;
        uint64_t max_import;     /* bytes, of a file that is imported */
        uint64_t keepalive_usec; /* between comments while nothing else is sent in a stream */
};
const struct gateway_settings *gateway_settings(const struct gateway *gateway);
struct backends *gateway_backends(struct gateway *gateway);
/* The daemons that may answer @call. */
struct backends *gateway_call_backends(const struct gateway_call *call);
struct event_base *gateway_base(struct gateway *gateway);
struct http_server *gateway_http(struct gateway *gateway);

/* Answer with an error in the dialect's form, or go where its address says (follow.h); sets Retry-After, and for statuses that the SDKs would retry in vain
 * "x-should-retry: false". The exchange has ended. */
void gateway_refuse(struct gateway_call *call, const struct gateway_dialect *dialect,
        const struct talk_error *error);
/* The same with a body of the caller's: @error has the status and when to come again. */
void gateway_refuse_body(
        struct gateway_call *call, const struct talk_error *error, const struct buf *body);
/* What is said of a struct err: -ERR_INVALID 400, -ERR_NOT_FOUND 404, -ERR_LIMIT 429, -ERR_UNAVAILABLE 503, ...
 * @ret's message is that of @e. */
void gateway_error_from(struct talk_error *ret, const struct err *e);
/* gateway_refuse() with that. */
void gateway_refuse_err(
        struct gateway_call *call, const struct gateway_dialect *dialect, const struct err *e);
/* Answer with JSON (200) and end the exchange. */
void gateway_reply_json(struct gateway_call *call, const struct buf *json);

/* The name of the client's session on the wire (HTTP-FACTS 5.4): headers x-session-id, session-id, thread-id,
 * x-claude-code-session-id, x-openwebui-chat-id; or NULL. Fields of bodies (prompt_cache_key, metadata.user_id) are the
 * dialect's. */
const char *gateway_session(const struct gateway_call *call);
/* X-Conversation-Id sets FORM_NAMED; the session and the model header are put into the form. -ERR_INVALID: the name can't be
 * one of a conversation. */
int gateway_fill_form(const struct gateway_call *call, struct form *form, struct err *e);

/* ---- answers in pieces ---- */

/* A stream of server-sent events or of lines, which sends comments while nothing else comes (events only). */
struct stream;
/* Begins the answer (200). NULL without memory: the exchange was aborted. @ops as of http_set_ops(). */
struct stream *stream_new_events(
        struct gateway_call *call, const struct http_answer_ops *ops, void *userdata);
struct stream *stream_new_lines(struct gateway_call *call, const struct http_answer_ops *ops,
        void *userdata); /* application/x-ndjson */
/* One event; @name NULL: without "event:". @json has no line breaks. */
void stream_event(struct stream *stream, const char *name, const struct buf *json);
/* The same with "id:", by which a client goes on where its connection broke; NULL, or with a line break: without. */
void stream_event_id(
        struct stream *stream, const char *id, const char *name, const struct buf *json);
void stream_line(struct stream *stream, const struct buf *json);
bool stream_is_slow(const struct stream *stream);
/* Ends the answer and frees the stream. */
struct stream *stream_end(struct stream *stream);
/* Frees it after `closed`, without touching the exchange. NULL is harmless. */
struct stream *stream_free(struct stream *stream);
