/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The dialect of Ollama: its two halves, which know no server.
 *
 *      ollama-parse.c, ollama-messages.c    body -> form
 *      ollama-write.c                       events of a talk -> lines, or one object
 *      ollama-models.c                      what is told of models
 *      ollama-handle.c, ollama-generate.c   routes; join the two with a talk
 */
#include "client/gateway/fields.h"
#include "client/gateway/form.h"
#include "client/gateway/writer.h"

/* What a request asks for that is not in its form. */
struct ollama_wish {
        bool loads;    /* there is nothing to answer: is the model there? */
        bool unloads;  /* likewise, with keep_alive 0 */
        bool thinking; /* the reply's reasoning is told, as `thinking` */
        /* generate: */
        bool gives_context;     /* the reply ends with the tokens of the conversation */
        const int32_t *context; /* [n_context], the form's: what the prompt goes on from; or NULL */
        size_t n_context;
};

/* Read a body of /api/chat or /api/generate into an empty @form. What confab can't do is -ERR_INVALID with the name of the
 * field; -ERR_NOMEM. */
int ollama_parse_chat(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e);
int ollama_parse_generate(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e);
/* `messages` of a chat alone. */
int ollama_parse_messages(
        struct form *form, struct fields *fields, json_t *messages, struct err *e);
/* Refuse @object's `images`, if it has any. */
int ollama_refuse_images(struct fields *fields, const json_t *object, struct err *e);

enum ollama_kind { OLLAMA_CHAT, OLLAMA_GENERATE };
/* A writer of one reply: to be given to writer_free(). NULL without memory. */
struct writer *ollama_writer_new(
        enum ollama_kind kind, bool stream, const struct ollama_wish *wish, bool logprobs);
/* Of a reply whose done() was 1: its end, with the tokens of the conversation. */
int ollama_writer_end(struct writer *writer, const int32_t *tokens, size_t n_tokens);
/* The answer to a request that only loads or unloads. */
int ollama_write_loaded(
        struct buf *out, enum ollama_kind kind, const char *model, const struct ollama_wish *wish);

/* The body of an error, as gateway_error_body. */
int ollama_error(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);

/* RFC 3339 in UTC, with microseconds. */
#define OLLAMA_TIME_SIZE 40
void ollama_time(char ret[OLLAMA_TIME_SIZE], uint64_t realtime_usec);
/* An item of `models` of /api/tags, or of /api/ps. */
struct json;
void ollama_put_model(struct json *j, const struct backend_model *model, bool loaded);
/* The answer of /api/show. */
int ollama_write_show(struct buf *out, const struct backend_model *model);
