/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of the OpenAI dialect: /v1/models, /v1/chat/completions and /v1/completions.
 *
 *   openai-chat-read.c, openai-text-read.c, and for   a body (JSON) into a form and struct openai_options:
 *   them openai-read.c, -messages.c, -tools.c         pure, no sockets
 *   openai-write.c, -chat-write.c, -text-write.c,     what a talk tells into JSON: pure likewise, see
 *   openai-logprobs.c, openai-error.c                 openai-reply.h
 *   openai-answer.c, openai-handle.c, openai-models.c talks and streams, the routes
 *
 * Errors of reading are -ERR_INVALID, or -ERR_UNSUPPORTED for what OpenAI has and confab has not, with
 * fields->wrong as the name of the field; or -ERR_NOMEM.
 */
#include "base/buf.h"
#include "client/gateway/fields.h"
#include "client/gateway/form.h"
#include <stdbool.h>
#include <stddef.h>

/* Bounds of this dialect; those of the daemon come on top. */
enum {
        OPENAI_MAX_CHOICES = 128,
        OPENAI_MAX_PROMPTS = 128, /* of one /v1/completions */
        OPENAI_MAX_TOP_LOGPROBS = 20,
        OPENAI_MAX_CONTENT_PARTS = 4096 /* of one message */
};

/* What the answer has to know beside the form. */
struct openai_options {
        bool stream;
        bool include_usage; /* a chunk of usage at the end of a stream */
        bool want_logprobs;
        bool one_call; /* chat: parallel_tool_calls is false */
        bool echo;     /* completions: the prompt stands in front of the text */
};

/* /v1/chat/completions. */
int openai_read_chat(struct form *form, struct openai_options *options, struct fields *fields,
        const char *body, size_t size, struct err *e);

/* /v1/completions: a form for each prompt. */
struct openai_prompts {
        struct form *forms[OPENAI_MAX_PROMPTS];
        size_t n_forms;
        unsigned n; /* choices of each */
};
/* What is in @ret is to be freed, also after a failure. */
void openai_prompts_deinit(struct openai_prompts *prompts);
int openai_read_text(struct openai_prompts *ret, struct openai_options *options,
        struct fields *fields, const char *body, size_t size, struct err *e);

/* ---- parts of the two ---- */

/* -ERR_UNSUPPORTED "PATHname: WHY", with the path in fields->wrong. */
int openai_unsupported(struct fields *fields, const char *name, const char *why, struct err *e);
/* The fields that both have: model, sampling, stop, n, stream, prompt_cache_key, metadata. */
int openai_read_common(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e);
/* The field @name as the longest reply; absent or -1: none is set. */
int openai_read_limit(struct form *form, struct fields *fields, const json_t *root,
        const char *name, struct err *e);
int openai_read_messages(
        struct form *form, struct fields *fields, const json_t *root, struct err *e);
/* tools, tool_choice, parallel_tool_calls. */
int openai_read_tools(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e);
/* tool_choice alone; with "none" the form loses its tools. */
int openai_read_tool_choice(
        struct form *form, struct fields *fields, const json_t *root, struct err *e);
/* The schema of a format, into the form; "json_schema" is its type. */
typedef int (*openai_read_schema)(
        struct form *form, struct fields *fields, const json_t *format, struct err *e);
/* The field @name: an object that says what the reply is: text, json_object, or json_schema. */
int openai_read_format(struct form *form, struct fields *fields, const json_t *root,
        const char *name, openai_read_schema read, struct err *e);
/* grammar, behind another format. */
int openai_read_grammar(
        struct form *form, struct fields *fields, const json_t *root, struct err *e);
/* response_format, grammar. */
int openai_read_response_format(
        struct form *form, struct fields *fields, const json_t *root, struct err *e);
