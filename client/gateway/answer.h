/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An answer: one call that one talk answers, through a writer. It joins the three and outlives none of them.
 *
 *      a form -> talk -> writer -> a stream of events or lines, or one JSON text
 *
 * 1. The exchange ends exactly once: by the reply, by an error in the dialect's form, or because the client has gone; then the
 *    talk is cancelled.
 * 2. Nothing is sent before the input is accepted, so what is wrong until then has a status of its own. What fails later
 *    ends a stream by the dialect's event of errors, and is a status where nothing is streamed.
 * 3. A client that reads slowly pauses the talk; nothing is dropped.
 * 4. A lack of memory ends the connection, so that no client takes what it got for the whole reply.
 *
 * All functions: the thread of the event base.
 */
#include "client/gateway/fields.h"
#include "client/gateway/gateway.h"
#include "client/gateway/writer.h"

struct answer;

/* What is the same for all answers of a dialect, or of one of its routes. */
struct answer_kind {
        const struct gateway_dialect *dialect;
        bool lines; /* streams are lines, not events */
        /* The status of an error, where the dialect has one of its own; or NULL. */
        unsigned (*status)(const struct talk_error *error);
        /* The writer's done() was 1, and the talk has ended: answer_complete() is to be called, now or later. */
        void (*finish)(void *userdata, struct answer *answer);
        /* The answer is being freed; or NULL. */
        void (*ended)(void *userdata);
};

/* The JSON of a call's body, to be given to json_decref(); the body's memory is given back. Errors as fields_parse(). */
int answer_read_body(struct gateway_call *call, json_t **ret, struct err *e);
/* Begin. @form and @writer belong to the answer from now on (also if it fails at once: then the call is refused and
 * ended() was called). @writer NULL: refused for lack of memory. @kind has to live for ever. */
void answer_start(struct gateway_call *call, const struct answer_kind *kind, void *userdata,
        struct form *form, struct writer *writer);
/* After finish(): @r is what the writer returned, 0: the answer is whole. Frees the answer. */
void answer_complete(struct answer *answer, int r);
/* Where the reply is; valid from finish() on. */
const struct talk_place *answer_place(const struct answer *answer);
/* The conversation's revision with the reply; likewise. */
uint64_t answer_revision(const struct answer *answer);
/* gateway_refuse() with the status that the kind has for @error. */
void answer_refuse(
        struct gateway_call *call, const struct answer_kind *kind, const struct talk_error *error);
/* The same with what talk_new() or talk_count() said: not found is the model. */
void answer_refuse_start(
        struct gateway_call *call, const struct answer_kind *kind, const struct err *e);

/* The JSON of a number of tokens, appended. 0 or -ERR_NOMEM. */
typedef int (*answer_write_count)(struct buf *out, uint32_t n_tokens);
/* Answer with the number of tokens that @form's history and input have, without computing anything. @form belongs to the
 * answer from now on. @kind has to live for ever; its lines, finish() and ended() aren't used. */
void answer_count(struct gateway_call *call, const struct answer_kind *kind, struct form *form,
        answer_write_count write);
