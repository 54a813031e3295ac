/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Turns roles and messages into tokens, per template family.
 *
 * History is never rendered again (I1): a turn only appends tokens. So a family defines what to
 * append: the tokens that open the conversation, close a reply that the model left open, carry one
 * message, and invite the reply. Message text is tokenised separately from the template's own text
 * and can't become control tokens. The family is recognised from the GGUF's
 * tokenizer.chat_template. Immutable; any thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "tok/tok.h"

struct err;
struct chat;

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_RAW, CHAT_N_ROLES };
const char *chat_role_name(enum chat_role r); /* "system" ... "raw" */

/* @template_text may be NULL: then only raw turns are possible (chat_family() is "none", and
 * chat_append_message() gives -ERR_UNSUPPORTED for other roles). An unknown template is treated the
 * same. Tokens that the template or the family writes are protected in @t (tok_protect()). @t must
 * outlive the chat format, and no other thread may use it yet. */
int chat_new(struct chat **ret, struct tok *t, const char *template_text, size_t template_size,
        struct err *e);
struct chat *chat_free(struct chat *c);
DEFINE_CLEANUP(struct chat *, chat_free);
const char *chat_family(const struct chat *c); /* "chatml", "llama3", ..., "none" */

/* A family is not the template: what differs from what the model's template would render, as far as
 * the template's text shows it. Sentence @i for a person, without a full stop; NULL behind the last
 * one. Of every family: messages are tokenised apart from what stands around them, so where a mark
 * is no token of its own the cuts may differ; a reply that ended with another end token than the
 * template's keeps that; and tools are not described to the model. */
const char *chat_difference(const struct chat *c, size_t i);

/* What the tokens so far ended with. */
enum chat_state {
        CHAT_EMPTY,  /* no tokens yet */
        CHAT_CLOSED, /* the last message is complete, including its closing tokens */
        CHAT_OPEN_REPLY /* a reply without its end token (limit, stop string, cancelled) */,
        CHAT_ENDED_REPLY, /* a reply that ended with an end-of-generation token */
        CHAT_OPEN_SYSTEM  /* a system message of a family without a system role: it begins the
                             user's message, which is still open */
};
/* The state that chat_append_message() leaves after a message of @role: CHAT_CLOSED, or
 * CHAT_OPEN_SYSTEM after a system message in a family that has no system role. */
enum chat_state chat_state_after(const struct chat *c, enum chat_role role);
/*
 * Append to @out the tokens for one message of @role after @state: first those that close an open
 * reply or block, then the message. A system message must be first (CHAT_EMPTY; else -ERR_STATE)
 * unless the family allows it anywhere; families without a system role put it in front of the first
 * user message, in the same block (see CHAT_OPEN_SYSTEM). A raw message is just its text and closes
 * nothing. @text need not be valid UTF-8; -ERR_LIMIT past @max tokens (0: no limit). @out is
 * unchanged on failure.
 */
int chat_append_message(const struct chat *c, enum chat_state state, enum chat_role role,
        const char *text, size_t size, size_t max, struct tok_ids *out, struct err *e);
/* Append the tokens that invite the assistant's reply (state after a user message).
 * -ERR_UNSUPPORTED without a family. */
int chat_append_reply_start(const struct chat *c, size_t max, struct tok_ids *out, struct err *e);
