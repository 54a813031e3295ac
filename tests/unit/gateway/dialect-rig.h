/* SPDX-License-Identifier: MIT */
#pragma once
/* What tests of the dialects of Anthropic and Ollama share: forms and replies as text. */
#include "client/gateway/fields.h"
#include "client/gateway/form.h"
#include "client/gateway/writer.h"

/* What a form says, a message a line:
 *      user|TEXT    assistant|TEXT|think:REASONING|ID NAME ARGUMENTS    tool|ID(FUNCTION)=TEXT
 * The same buffer each time. */
const char *rig_messages(struct form *form);

/* What a writer has put, a line for each: NAME JSON, or JSON. */
struct rig_said {
        struct writer *writer; /* owned */
        struct buf lines;
        int n_put, refuse_at; /* -1: never; else put() fails there with -ERR_LIMIT */
};
void rig_said_init(struct rig_said *said, struct writer *writer);
void rig_said_deinit(struct rig_said *said);
/* What was put since the last time. The values of "created_at" are taken out. */
const char *rig_take(struct rig_said *said);

/* begin() with the model "m", conversation 10, turn 3, 14 tokens of which 13 were cached. */
int rig_begin(struct rig_said *said);
int rig_part(struct rig_said *said, uint32_t index, enum confab_part_kind kind, const char *text,
        bool ends);
int rig_call(struct rig_said *said, uint32_t index, const char *id, const char *name,
        const char *text, bool ends, const char *broken);
/* done() with 9 tokens, and times of 1, 2, 3 and 4 microseconds. */
int rig_done(struct rig_said *said, enum confab_finish finish, const char *stop, unsigned n_calls);
