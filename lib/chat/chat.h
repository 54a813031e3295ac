/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Turns messages into tokens, by the model's own chat template (lib/jinja runs it), or by a built-in
 * family of templates if the model has none that can be used.
 *
 * History is never rendered again (I1): a message only appends tokens. Which tokens these are is
 * found by rendering the message behind stand-ins for what precedes it, and taking the part behind
 * the stand-ins (template.c). The text of a message is marked through the rendering and can't
 * become control tokens. Immutable; any thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "tok/tok.h"

struct buf;
struct err;
struct chat;

/* The numbers are in the register. */
enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_RAW, CHAT_TOOL, CHAT_N_ROLES };
const char *chat_role_name(enum chat_role r); /* "system" ... "tool" */

/*
 * @choice: NULL or "auto": the template, or if it is missing or can't be used, the family that it
 * resembles, or none. "none", or a family's name: that one, whatever the template is.
 *
 * Without template and family ("none") only raw messages are possible; other roles give
 * -ERR_UNSUPPORTED. That a template can't be used is no error; chat_difference() tells why. Tokens
 * that the template or the family writes are protected in @t (tok_protect()). @template_text may be
 * NULL, and is not referred to afterwards. @t must outlive the chat format, and no other thread may
 * use it yet. -ERR_INVALID for an unknown @choice (it lists the names), -ERR_NOMEM.
 */
int chat_new(struct chat **ret, struct tok *t, const char *template_text, size_t template_size,
        const char *choice, struct err *e);
struct chat *chat_free(struct chat *c);
DEFINE_CLEANUP(struct chat *, chat_free);
/* 0, or -ERR_INVALID with the names that chat_new() takes. */
int chat_check_choice(const char *choice, struct err *e);
/* "template": the model's own; "chatml", "llama3", ...: a family; "none". */
const char *chat_family(const struct chat *c);

/* Whether definitions of tools can be told. */
bool chat_takes_tools(const struct chat *c);
/*
 * Whether the @n bytes of @tools are definitions of tools: one JSON text, an array as in OpenAI's
 * "tools"; an entry may be the function alone. 0; -ERR_INVALID with the place; -ERR_UNSUPPORTED if the
 * format takes none; -ERR_TOO_LARGE (they may have 256 KiB); -ERR_NOMEM. Any thread; it takes memory
 * of some hundred times their size at worst, which is charged to no one.
 */
int chat_check_tools(const struct chat *c, const char *tools, size_t n, struct err *e);

/*
 * Append to @ret the grammar (GRAMMAR_PARTS of grammar/grammar.h) of a reply that is one call, with
 * arguments that meet the function's schema, behind reasoning if there is any. @tools: definitions that were
 * checked; @name: the function, or NULL: any of them. GRAMMAR_OPEN is fed to the grammar first if the
 * invitation leaves reasoning open (chat_reply_reasoning()). Schemas are checked by the grammar.
 * -ERR_UNSUPPORTED: calls can't be forced, or not with this name; -ERR_INVALID: no tool has the name,
 * or its parameters are no object; -ERR_TOO_LARGE: past ret->max; -ERR_NOMEM. @ret may have a beginning of
 * the grammar on failure.
 */
int chat_force_call(const struct chat *c, const char *tools, size_t n, const char *name,
        struct buf *ret, struct err *e);

/* Where the tokens differ from those of the template rendered as a whole: sentence @i for a person,
 * without a full stop; NULL behind the last one. Of every format: a reply keeps the tokens that were
 * sampled, its end token too. */
const char *chat_difference(const struct chat *c, size_t i);

/* What the tokens so far ended with. */
enum chat_state {
        CHAT_EMPTY,  /* no tokens yet */
        CHAT_CLOSED, /* the last message is complete, including its closing tokens */
        CHAT_OPEN_REPLY /* a reply without its end token (limit, stop string, cancelled) */,
        CHAT_ENDED_REPLY, /* a reply that ended with an end-of-generation token */
        CHAT_OPEN_SYSTEM  /* a system message that begins the user's message, which is still open */
};
/* The state that chat_append() leaves after a message of @role: CHAT_CLOSED, or CHAT_OPEN_SYSTEM after
 * a system message if the format puts its text into the user's message. @has_tools: definitions of
 * tools were told with the first message; some formats put the system text there only then. */
enum chat_state chat_state_after(const struct chat *c, enum chat_role role, bool has_tools);

/* The token that a reply ends with when the model ends it: the format's own, else the vocabulary's
 * end of turn or of text; -1 if there is none. */
int32_t chat_end_token(const struct chat *c);

/* What a message is appended to. The tokens that a message appends follow from this and from the
 * message. */
struct chat_tail {
        enum chat_state state;
        enum chat_role role;   /* of the last message; without meaning if the state is CHAT_EMPTY */
        uint64_t created_usec; /* since 1970: when the conversation began. The first message may
                                  tell the date, in UTC */
        bool has_tools;        /* definitions of tools were told with the first message */
};

/* The assistant asks for a function. */
struct chat_call {
        const char *id; /* NULL or "": none; then one is made of its number in the message */
        const char *name;
        const char *arguments; /* a JSON object; {} if it has no bytes */
        size_t arguments_size;
};

/* Fields behind the text are for the roles that are named. No text needs to be valid UTF-8. */
struct chat_message {
        enum chat_role role;
        const char *text;
        size_t size;
        const char *reasoning; /* assistant: what preceded the text; NULL: none */
        size_t reasoning_size;
        const struct chat_call *calls; /* assistant: what followed the text */
        size_t n_calls;
        /* Tool: the call that it answers, and the function. NULL or "": not known; then the template is
         * given an id made of its number in the input, and the name "tool". */
        const char *call_id, *name;
};

struct chat_input {
        const struct chat_message *messages; /* one; or several results of calls */
        size_t n;
        const char *tools; /* definitions that are told with them; NULL: none */
        size_t tools_size;
};

/*
 * Append to @out the tokens of one message (or of several results) behind @tail: first those that
 * close an open reply or block, then the message. A system message must be first, unless the template
 * allows it elsewhere (-ERR_STATE). A message that the template refuses in this place (roles must
 * alternate, say) is written as the template writes it in its regular place; -ERR_INVALID with the
 * template's own words if it is refused there as well. A raw message is just its text and closes
 * nothing. -ERR_LIMIT past @max tokens (0: no limit). Memory is charged to out->charge while it works.
 * @out is unchanged on failure.
 *
 * Definitions are told with a message of the system or the user: -ERR_STATE where the format does not
 * tell of tools, mostly behind the first message; -ERR_UNSUPPORTED if it does so nowhere; and as
 * chat_check_tools(). Results stand behind a reply, a message with calls or other results (-ERR_STATE);
 * those that answer one reply should be one input. A message of the assistant with calls is written as
 * one that results follow. -ERR_UNSUPPORTED if the format does not write results, calls, or (a
 * family) reasoning; a template leaves reasoning out where it does so with that of earlier replies.
 * -ERR_INVALID: arguments that are no JSON object; text and calls, where the template writes one of
 * them only; fields that the role does not have.
 */
int chat_append(const struct chat *c, const struct chat_tail *tail, const struct chat_input *in,
        size_t max, struct tok_ids *out, struct err *e);
/* Append the tokens that invite the assistant's reply. -ERR_UNSUPPORTED without template and family;
 * -ERR_STATE after a system message that is still open. */
int chat_append_reply_start(const struct chat *c, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e);
