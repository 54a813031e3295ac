/* SPDX-License-Identifier: MIT */
#pragma once
/* A reply for a client that wants it whole: its events are kept, and told as one object. Bounded by OWN_REPLY_MAX. */
#include "base/buf.h"
#include "client/confab.h"

#define OWN_REPLY_MAX (64u << 20) /* bytes of texts, and of tokens as JSON */

struct own_reply;

/* NULL without memory. */
struct own_reply *own_reply_new(void);
/* NULL is harmless; returns NULL. */
struct own_reply *own_reply_free(struct own_reply *reply);
/* accepted, delta; others are nothing to keep. -ERR_NOMEM, -ERR_TOO_LARGE. */
int own_reply_add(struct own_reply *reply, const struct confab_event *event);
/* {"accepted", "text", "parts", "tokens", "done"}; @done is the last event. Once. -ERR_NOMEM. */
int own_reply_write(struct own_reply *reply, const struct confab_event *done, struct buf *out);
