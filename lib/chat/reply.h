/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Takes a reply apart, token by token: into text, reasoning, and calls of functions. Parts are a view
 * of the tokens that were sampled. They are never stored, and never become tokens again.
 *
 * How a model writes reasoning and calls is data (reply-formats.c), chosen from the model's template
 * and vocabulary when the chat format is made. What can be relied on:
 *
 * 1. The same text gives the same parts, however it is cut into tokens. A mark is recognised by its
 *    text. Control tokens that belong to no mark print nothing.
 * 2. Parts of a reply that was cut off are those of the whole reply, cut off: what chat_reply_push()
 *    gave out stays as it is.
 * 3. Text outside of calls is never lost, except white space beside marks.
 * 4. The arguments of a call that is not broken are one JSON object.
 * 5. Memory is bounded (CHAT_REPLY_HELD) and charged. Time grows with the length of the reply.
 *
 * A call is broken if it can't be read to its end. It then reaches to its closing mark, to the mark
 * of another call, or to the end of the reply, and its bytes there are in no part.
 *
 * A reader of replies is used by one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct charge;
struct chat;
struct chat_reply;
struct err;

enum chat_part { CHAT_PART_TEXT, CHAT_PART_REASONING, CHAT_PART_CALL, CHAT_N_PARTS };
const char *chat_part_name(enum chat_part part); /* "text", "reasoning", "call" */

/* Most bytes of a call that wait: for its name, or for the type of a value. */
enum { CHAT_REPLY_HELD = 256 << 10 };
/* Most bytes of the name or id of a call, without the NUL. */
enum { CHAT_REPLY_NAME = 255 };

/*
 * News of one part. Parts follow each other: one ends before the next begins. The joined texts of a
 * part are well-formed UTF-8, and so is each of them. Pointers are valid during the call.
 */
struct chat_part_event {
        enum chat_part part;
        uint32_t index;     /* of the part within the reply, from 0 */
        bool begins, ends;  /* both may be true */
        const char *text;   /* new bytes; of a call: of its arguments. Never NULL */
        size_t size;        /* may be 0 if the part begins or ends */
        const char *name;   /* of a call that begins: may be "" if it is broken; else NULL */
        const char *id;     /* of a call that begins; NULL: the model gave none in front of them */
        const char *broken; /* of a call that ends: NULL, or a sentence without a full stop */
        /* The tokens pushed before the one in which the part begins (a call: behind the mark that
         * opens it; two calls have different ones unless one token has the beginnings of both). */
        uint32_t n_tokens_before;
};
/* 0, or a negative code, which ends the reading. */
typedef int (*chat_part_fn)(void *arg, const struct chat_part_event *event, struct err *e);

/*
 * Begin a reply. @tools: the definitions of the conversation, a JSON array, not referred to
 * afterwards; or NULL. They give the types of parameters, where the format does not say whether a
 * value is a string, and the names by which calls are recognised that have no mark. @charge: or NULL;
 * outlives the reader. -ERR_INVALID if @tools are no definitions, -ERR_NOMEM, what charge_take()
 * returns.
 */
int chat_reply_new(struct chat_reply **ret, const struct chat *c, const char *tools,
        size_t tools_size, struct charge *charge, struct err *e);
/* The tokens that invited the reply, before the first push: they may leave reasoning open. Gives out
 * nothing. -ERR_NOMEM, what charge_take() returns. */
int chat_reply_header(struct chat_reply *r, const int32_t *tokens, size_t n, struct err *e);
/* Whether reasoning is open: what comes next is of it. */
bool chat_reply_reasoning(const struct chat_reply *r);
/* The next token. -ERR_NOMEM, what charge_take() or @fn returns; the reader can then only be freed. */
int chat_reply_push(struct chat_reply *r, int32_t token, chat_part_fn fn, void *arg, struct err *e);
/* The same for a part of a token: @text, whole characters. For the text before a stop string. */
int chat_reply_push_text(struct chat_reply *r, const char *text, size_t n, chat_part_fn fn,
        void *arg, struct err *e);
/* Whether text waits that chat_reply_finish() might give out. */
bool chat_reply_holds(const struct chat_reply *r);
/* The reply is over: what was held back is given out, and the last part ends. As chat_reply_push();
 * nothing may be pushed afterwards. */
int chat_reply_finish(struct chat_reply *r, chat_part_fn fn, void *arg, struct err *e);
struct chat_reply *chat_reply_free(struct chat_reply *r);
DEFINE_CLEANUP(struct chat_reply *, chat_reply_free);

/* How the model writes calls: "hermes", ..., or "none". */
const char *chat_reply_format(const struct chat *c);
/* Whether replies may have reasoning that is marked. */
bool chat_reasons(const struct chat *c);
