/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The dialect of Anthropic's Messages: its two halves, which know no server.
 *
 *      anthropic-parse.c, anthropic-messages.c    body -> form
 *      anthropic-write.c                          events of a talk -> events of the dialect, or one message
 *      anthropic-handle.c                         routes; joins the two with a talk
 */
#include "client/gateway/fields.h"
#include "client/gateway/form.h"
#include "client/gateway/writer.h"

/* What a request asks for that is not in its form. */
struct anthropic_wish {
        bool thinking; /* the reply's reasoning is told, in blocks of its own */
};

/* Read the body of /v1/messages, or with @counts that of count_tokens, into an empty @form. What confab can't do is
 * -ERR_INVALID with the name of the field, but a thread that is to go on is -ERR_NOT_FOUND; -ERR_NOMEM. */
int anthropic_parse(struct form *form, const json_t *body, bool counts, struct anthropic_wish *ret,
        struct err *e);
/* Its `system` and `messages` alone. */
int anthropic_parse_messages(
        struct form *form, struct fields *fields, const json_t *body, struct err *e);

/* A writer of one reply: to be given to writer_free(). NULL without memory. */
struct writer *anthropic_writer_new(bool stream, const struct anthropic_wish *wish);

/* The status of an error: 529 for a daemon that is full or not there, which clients know as a reason to come again. */
unsigned anthropic_status(const struct talk_error *error);
/* The field that names a history which the server holds, and the @param of the error that there is none. */
#define ANTHROPIC_THREAD "thread"
/* The body of an error, as gateway_error_body. */
int anthropic_error(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);
/* The body of count_tokens. */
int anthropic_write_count(struct buf *out, uint32_t n_tokens);
