/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Continue and Warm from their input to their end. prompt.c turns the input into tokens, sched.c
 * gives places, batch.c and step.c compute steps for requests with a place, generate.c turns the results into
 * events and turns. Engine thread.
 */
#include "engine/conv/conv.h"
#include "engine/request/request.h"
#include "sample/sample.h"

/* Makes the floor's state, with buffers for steps. -ERR_NOMEM. */
int run_new(struct engine *engine, struct err *e);
struct run *run_free(struct run *run);
/* What is called between the layers of steps when the bell has rung. It must not change conversations, their memory, or
 * requests that have a place. */
void run_set_between(struct run *run, void (*between)(struct engine *engine));

/* Rows of verbs: Continue; Continue that cuts (engine_request.cuts); Warm; Attach. */
extern const struct verb verb_continue, verb_edit, verb_warm, verb_attach;

/* Overwrite fields of @p by the settings that are set; the caller handles seed and biases. */
void prompt_params(struct sample_params *p, const struct sampling *s);
/* Append the tokens of raw text. @first: it begins the conversation. At most @max tokens (0: any).
 * Fails as tok_encode(). Any thread. */
int input_raw(const struct engine *engine, const void *text, size_t size, bool first, size_t max,
        struct tok_ids *out, struct err *e);
/* Results, and what a message of the assistant was given with, as messages for lib/chat, which borrow
 * from them. @calls: the message's. Any thread. */
void input_results(const struct engine_result *results, size_t n,
        struct chat_message messages[ENGINE_MAX_CALLS]);
void input_given(const struct given *given, struct chat_call calls[ENGINE_MAX_CALLS],
        struct chat_message *message);
/* Bytes that tok_encode() takes for @text, in addition to the tokens. */
size_t text_memory(const struct engine *engine, const void *text, size_t size, bool special);
/* True if the text is too long to be tokenised on the engine thread. */
static inline bool text_is_long(size_t size) {
        return size > (size_t)32 << 10;
}

/* What @writer, a request that generates, has written so far; @with_text: with its text. Owned by the
 * event. -ERR_LIMIT, -ERR_NOMEM. */
int writing_fill(const struct request *writer, bool with_text, struct event_node *n,
        struct engine_writing **ret, struct err *e);

/* One step: admit, restore, compute. True if something was computed. */
bool sched_step(struct engine *engine);
/* Tell those who are attached to replies what is new. */
void attach_step(struct engine *engine);
/* Cancel all requests that wait or compute. */
void sched_stop(struct engine *engine);
/* Blocks in RAM of the conversations whose requests wait or compute. */
size_t sched_busy_size(struct engine *engine);

struct run_figures {
        size_t n_queued, n_active;
};
void run_figures(struct engine *engine, struct run_figures *ret);
