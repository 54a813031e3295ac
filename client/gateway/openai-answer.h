/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An answer: a call whose prompts are answered by talks, one after the other, each with n choices.
 *
 *      forms -> talk -> reply (openai-reply.h) -> a stream of events, or one JSON text
 *
 * 1. The exchange ends exactly once: by the reply, by an error, or because the client has gone, which cancels
 *    the talk.
 * 2. Nothing is sent before the first input is accepted: what is wrong until then has a status of its own. What
 *    fails later ends a stream with an event of the error and without [DONE]; of a whole answer it is a status.
 * 3. A reply that another request cancelled is an error, too: what there is of it is not what was asked for.
 * 4. A client that reads slowly pauses the talk.
 * 5. A lack of memory ends the connection, so that no client takes what it got for the whole reply.
 *
 * All functions: the thread of the event base.
 */
#include "client/gateway/gateway.h"
#include "client/gateway/openai-reply.h"

/* Begin. The forms of @prompts belong to the answer from now on, also if the call is refused at once. */
void openai_answer_start(struct gateway_call *call, enum openai_kind kind,
        struct openai_prompts *prompts, const struct openai_options *options);
