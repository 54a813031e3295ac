/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Forced calls, as grammars of parts (lib/grammar/parts.c).
 *
 *   force.c        how a model writes one call, learned from its template
 *   force-write.c  the grammar of a reply that is one call of certain functions
 */
#include "base/buf.h"
#include "chat/chat-internal.h"
#include "chat/reply-internal.h"

/* The items in front of the name, between name and arguments, and behind them. */
struct chat_forced {
        struct buf before, middle, after;
        const char *why; /* a call can't be forced: a sentence without a full stop; NULL: it can */
};
void chat_forced_deinit(struct chat_forced *f);
/* Learn it from a call that @t writes (NULL: there is no template). 0, -ERR_NOMEM. */
int chat_learn_forced(struct chat_forced *ret, const struct chat_template *t,
        const struct reply_rules *rules, struct err *e);
/* As chat_force_call(). */
int chat_write_forced(const struct chat_forced *f, const struct reply_rules *rules,
        const char *tools, size_t n, const char *name, struct buf *ret, struct err *e);

/* An item of @n bytes, if there are any and *@r is 0; a failure of the buffer goes into *@r. */
void chat_put_item(struct buf *out, char kind, const char *text, size_t n, int *r);
/* The token prints nothing: it is an item of the kind 'm'. */
bool chat_token_is_silent(const struct tok *t, int32_t token);
