/* SPDX-License-Identifier: MIT */
#pragma once
/* A reply with a part of each kind, as a talk tells it. Telling it allocates nothing, so that each allocation that fails is the
 * writer's. */
#include "client/gateway/writer.h"

#define WHOLE_REPLY_PARTS 5

/* Reasoning, text, a call, text, and a call that broke. */
extern const struct confab_part whole_reply_parts[WHOLE_REPLY_PARTS];
/* All of them, and a token. */
extern const struct confab_delta whole_reply_delta;

/* Tell the reply to @writer from begin() on; it ends with done(), or with failed() if @error is not NULL. What is put is dropped.
 * -ERR_NOMEM if @writer is NULL. */
int whole_reply_tell(struct writer *writer, const struct talk_error *error);
