/* SPDX-License-Identifier: MIT */
#pragma once
/* The highest floor: opening, closing, the engine thread, and the way of a request to its verb. */
#include <pthread.h>

#include "engine/verbs/verbs.h"

/* The state of this floor. */
struct front {
        int lock_fd;
        bool looking;                        /* engine_look() runs: nothing may be changed */
        bool remembered;                     /* the hash of the weights came from the register */
        enum engine_register register_state; /* found by engine_look() */
        uint64_t n_looked;                   /* conversations in that register */
        struct spill_options looked_meters;  /* what it remembers of codecs */
        struct spill_choice looked_choice;
        struct err looked_remote; /* why the remote store can't be used */

        struct leases *leases; /* lease.c */

        pthread_t thread;
        bool thread_started;
        struct event_node *stopped; /* the last event, made beforehand */

        /* under lock */
        pthread_mutex_t lock;
        bool stop_asked, abandon;
};

/* --- thread.c --- */

/* The engine thread: runs until it was asked to stop and nothing is left to do. */
void *thread_main(void *arg);
/* Between two layers of a step: begin requests that have arrived, as far as that changes nothing that the step has, and go
 * on with those that only look and whose job is over. Engine thread. */
void main_take_early(struct engine *engine);
/* Ask the engine thread to stop; @abandon: without saving memory to disk. Any thread. */
void thread_stop(struct engine *engine, bool abandon);

/* --- chains.c --- */

/* Compute the chains of turns that are unknown. While opening, when the model and the register are there.
 * Reports its progress. */
int chains_make_up(struct engine *engine, struct err *e);

/* --- messages.c --- */

/* Whether each message has what its role has, and nothing else. -ERR_INVALID with the number of the
 * message, from 1; -ERR_TOO_LARGE. Any thread. */
int main_check_messages(const struct engine_message *messages, size_t n, struct err *e);

/* --- dispatch.c --- */

/* The row of the request's verb. */
const struct verb *dispatch_verb(const struct engine_request *r);
/* Begin a request that has arrived. */
void dispatch_request(struct engine *engine, struct request *request);
/* Go on with requests that may act now, since what they waited for is over. */
void dispatch_ready(struct engine *engine);
/* Go on with requests that waited for their turn on a conversation and have it now; end those that
 * were cancelled. Once in each round of the engine thread. */
void dispatch_turns(struct engine *engine);

/* --- lease.c: conversations that move between machines --- */

/* NULL without memory. */
struct leases *leases_new(void);
struct leases *leases_free(struct leases *l);
/* From now on hear what other machines want. Once the register is open. */
void leases_listen(struct engine *engine);
/* The request's row says that its conversation is not held here: take it, and make the request ready; or fail. */
void lease_take(struct engine *engine, struct request *request);
/* Give up what others want, and go on with requests that wait. As watch_step(). */
uint64_t lease_step(struct engine *engine);

/* --- open.c --- */

/* An engine that has opened nothing yet. -ERR_INVALID, -ERR_NOMEM, -ERR_SYS. */
int engine_new(struct engine **ret, const struct engine_options *o, struct err *e);

/* --- load.c --- */

/* Load everything that is in memory: model, tokenizer, pool, buffers. engine.store may be NULL. */
int engine_load(struct engine *engine, struct err *e);

/* --- state-folder.c --- */

/* Makes the folder if need be, and locks it. -ERR_BUSY if another engine uses it. */
int state_lock(struct engine *engine, struct err *e);
/* Called before the model is loaded, because the register remembers the hash of the weights. */
int state_open_register(struct engine *engine, struct err *e);
/* Make register and spill files agree: adopt the records of the register, sweep the rest. */
int state_open_spill(struct engine *engine, struct err *e);
/* -ERR_STATE if there are spill files, but their register is missing or empty. */
int engine_check_register(const char *path, const char *spill_dir, struct err *e);
struct spill_options engine_spill_options(struct engine *engine);

/* --- identity.c --- */

/* Report progress to the caller of engine_open(); a negative result ends the opening. */
int engine_tell(struct engine *engine, const struct engine_opening *o, struct err *e);
/* Open the model. The hash of the weights comes from the register if it knows exactly this file,
 * else from reading them. */
int identity_open_model(struct engine *engine, const struct model_options *o, struct err *e);
/* Is this the model that the options want? -ERR_STATE, -ERR_INVALID. */
int identity_check(struct engine *engine, struct err *e);
/* engine_look() no longer needs the register. */
void identity_release(struct engine *engine);
