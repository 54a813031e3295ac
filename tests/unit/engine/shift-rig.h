/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the tests of conversations that drop old turns from their memory share. The backbone: a reply
 * is the reply of a fresh conversation that holds exactly the tokens of the memory, bit for bit.
 */
#include "edit-rig.h"

#define SHIFT_CONTEXT 256

/* The options of an engine with a small context. */
struct engine_options shift_options(uint64_t pool_size);
/* Open an engine, and with it another one in which replies are computed anew. */
void shift_open(struct erig *r, const struct engine_options *o);
/* Both. */
void shift_close(struct erig *r);
/* A conversation with overflow "shift". @system may be NULL. */
uint64_t shift_new(struct erig *r, const char *system);
void shift_set_overflow(struct erig *r, uint64_t conv, enum engine_overflow overflow);
/* The tokens of the memory of @whole, which is an answer of erig_get(). To be freed. */
int32_t *shift_memory(const struct answer *whole, uint32_t *ret_n);
/* @reply, the last one of the conversation, is what a fresh conversation gives. */
void shift_check_reply(struct erig *r, uint64_t conv, const struct answer *reply);
/* Say the @k-th message, with a reply of 12 tokens, and check the reply. */
void shift_say(struct erig *r, uint64_t conv, unsigned k, struct answer *a);
/* The same message, as a request. */
struct engine_request shift_request(uint64_t conv, unsigned k);
/* Say messages until the conversation drops something. Returns the number of messages. */
unsigned shift_fill(struct erig *r, uint64_t conv, struct answer *a);
