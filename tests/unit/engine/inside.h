/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The one place where the tests of the engine look inside it, for what engine.h does not say. All
 * of it is for an engine that has nothing to do, unless told otherwise.
 */
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct seq;
struct request;

/* --- memory --- */

/* What "auto" gives, see budget_auto(). */
uint64_t inside_budget_auto(const char *root, uint64_t weights_size, uint64_t held);
/* The least budget that has @n blocks. */
uint64_t inside_budget_of_blocks(struct engine *engine, size_t n);
/* The budget that has @n blocks for idle memory, with what is reserved for the rest as it is. */
uint64_t inside_budget_with(struct engine *engine, size_t n);
/* What a block takes of the budget, in bytes. */
uint64_t inside_block_size(struct engine *engine);
/* The workers' memory for reading and writing spill files. */
uint64_t inside_scratch_size(struct engine *engine);
/* Its spill store. */
struct spill *inside_spill(struct engine *engine);
/* What is charged for requests, conversations and the index together. Any moment, any thread. */
uint64_t inside_charged(struct engine *engine);
/* Of these, what conversations are charged for. Any thread. */
uint64_t inside_conversations_charged(struct engine *engine);
/* The share of all requests, in bytes. */
uint64_t inside_requests_budget(struct engine *engine);
/* Of that somebody holds so much that @left bytes are left. Returns how much, which is to be given
 * back. Any moment. */
size_t inside_requests_hold(struct engine *engine, size_t left);
void inside_requests_give(struct engine *engine, size_t held);
/* Spill records that RAM knows of. */
size_t inside_n_records(struct engine *engine);
/* Requests that wait for their turn on a conversation. Also while the engine is held in a step. */
size_t inside_n_waiting(struct engine *engine);

/* --- what it takes the world for --- */

/* Look for the system's memory in this folder. Kept by the caller. */
void inside_set_machine(struct engine *engine, const char *root);
/* Reading from disk has been much slower than computing; or nothing is known yet. */
void inside_set_slow_disk(struct engine *engine, bool slow);
/* Reading a byte of memory has taken as long as computing so many tokens. */
void inside_set_disk_cost(struct engine *engine, double tokens_per_byte);

/* --- model --- */

/* What engine_view() tells of the model that an engine would open, of one that is open. Any moment,
 * any thread: nothing of it changes. */
void inside_describe_model(struct engine *engine, struct engine_model_info *ret);
/* The token with this very text; the test fails if there is none. */
int32_t inside_find_token(struct engine *engine, const char *text);

/* The tokens of @text in which control tokens are recognised, at most @max. Their number. */
size_t inside_tokenize(struct engine *engine, const char *text, int32_t *out, size_t max);

/* --- on disk --- */

/* The record of the conversation's partial block, whole, into @out. Its size, 0 if there is none.
 */
size_t inside_read_tail(struct engine *engine, uint64_t conv, uint8_t *out, size_t size);

/* --- for wrapped functions: what a request is about --- */

struct inside_request {
        uint64_t handle;
        uint64_t owner;
        bool background;
        const struct seq *seq; /* the conversation's */
};
struct inside_request inside_request(const struct request *request);
