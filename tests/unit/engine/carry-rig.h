/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the tests of Carry share: an engine that changes between the bundled model and a small one
 * with another vocabulary and another chat format (ChatML, byte by byte). The backbone: a carried
 * conversation has the tokens of the text as the chat format writes it as a whole, and its replies
 * are those of a fresh conversation with these tokens, bit for bit.
 */
#include "rig.h"

/* Open an engine on the bundled model. The small model is beside it; @o as for erig_open(). */
void carry_open(struct erig *r, const struct engine_options *o);
void carry_close(struct erig *r);
/* Stop cleanly, and start with the small model; with the bundled one. */
void carry_to_small(struct erig *r);
void carry_back(struct erig *r);
/* The small model's file. */
const char *carry_small_path(void);

/* A conversation whose replies the model, a stop string or a limit has ended; one went on. */
uint64_t carry_talk(struct erig *r);

/* Carry, and expect that it is done. @a: the answer. */
void carry(struct erig *r, uint64_t conv, struct answer *a);
/* Expect an error whose message has @part, and that nothing of the conversation has changed. */
void carry_refused(struct erig *r, uint64_t conv, enum err_code code, const char *part);
/* Roles, reasons, texts and times are the same. */
void carry_same_texts(const struct answer *a, const struct answer *b);
/* The tokens are those of @text in this vocabulary, with control tokens in it. */
void carry_has_tokens(struct erig *r, const struct answer *got, const char *text);
/* Say something in the conversation. The reply is, bit for bit, what a fresh conversation of the
 * same tokens answers in an engine of its own with the same model. */
void carry_check_reply(struct erig *r, uint64_t conv);
