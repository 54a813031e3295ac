/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An engine whose model is a small one with random weights, and whose template takes tools. A grammar makes it write
 * the replies that a test wants.
 */
#include "rig.h"

/* The program's model: a path of its own, which tools_model_create() makes an empty file for the caller to fill. */
extern char tools_model[64];
const char *tools_model_create(void);
/* For the teardown of all tests. */
int tools_model_remove(void **state);
/* Make the model, with a context of 4096 tokens, or MODEL_TINY: for the setup of all tests. */
int tools_rig_setup(void **state);
int tools_rig_setup_tiny(void **state);

void tools_open(struct erig *r, uint64_t pool_size);
/* Open with a system message (or NULL) and definitions (or NULL). */
uint64_t tools_new(struct erig *r, const char *system, const char *tools);
/* The text of a grammar that generates just @text. Valid until the next call. */
const char *tools_just(const char *text);
/* Say @message; the reply comes in parts, and is @reply unless that is NULL. */
struct engine_request tools_ask(uint64_t conv, const char *message, const char *reply);
/* The same with results in place of a message. */
struct engine_request tools_answer(
        uint64_t conv, const struct engine_result *results, size_t n, const char *reply);
/* Must be done, with its answer in @a. */
void tools_done(struct erig *r, struct engine_request q, struct answer *a);
/* Must be refused with this code, and words that have @why. */
void tools_refused(struct erig *r, struct engine_request q, enum err_code code, const char *why);

/* The conversation with turns, tokens and parts. */
void tools_get(struct erig *r, uint64_t conv, struct answer *a);
/* The parts of turn @i, as erig_put_parts() writes them. Valid until the next call. */
const char *tools_turn_parts(const struct answer *a, uint32_t i);
/* The id of the first call of @name in what erig_put_parts() wrote. Valid until the next call. */
const char *tools_call_id(const char *parts, const char *name);
