/* SPDX-License-Identifier: MIT */
#pragma once
/* The highest floor: opening, closing, the engine thread, and how a request gets to its verb. */
#include <pthread.h>

#include "engine/verbs/verbs.h"

/* The state of this floor. */
struct front {
        int lock_fd;
        bool looking;                        /* by engine_look(): nothing may be changed */
        bool remembered;                     /* the hash of the weights came from the register */
        enum engine_register register_state; /* what engine_look() found */
        uint64_t n_looked;                   /* conversations in it */

        pthread_t thread;
        bool thread_started;
        struct event_node *stopped; /* the last event, made in time */

        /* under lock */
        pthread_mutex_t lock;
        bool stop_asked, abandon;
};

/* --- thread.c --- */

/* The engine thread: until it was asked to stop and nothing is left to do. */
void *thread_main(void *arg);
/* Ask for that; with @abandon without saving what is not on disk. Any thread. */
void thread_stop(struct engine *engine, bool abandon);

/* --- dispatch.c --- */

/* The row of the request's verb. */
const struct verb *dispatch_verb(const struct engine_request *r);
/* A request that came. */
void dispatch_request(struct engine *engine, struct request *request);
/* Requests that may act now: what they waited for is over. */
void dispatch_ready(struct engine *engine);
/* Let those requests go on that waited for their turn on a conversation and have it now; end those
 * that were cancelled. Once in each round of the engine thread. */
void dispatch_turns(struct engine *engine);

/* --- open.c --- */

/* An engine that has opened nothing yet. */
int engine_new(struct engine **ret, const struct engine_options *o, struct err *e);

/* --- load.c --- */

/* Everything that is in memory: model, tokenizer, pool, buffers. engine.store may be NULL. */
int engine_load(struct engine *engine, struct err *e);

/* --- state-folder.c --- */

/* Makes the folder if need be; -ERR_BUSY if another engine uses it. */
int state_lock(struct engine *engine, struct err *e);
/* Before the model, because it remembers the hash of the weights. */
int state_open_register(struct engine *engine, struct err *e);
/* Register and spill files must agree: adopt what the register knows, sweep the rest. */
int state_open_spill(struct engine *engine, struct err *e);
/* -ERR_STATE if there are spill files beside a register that is missing or empty. */
int engine_check_register(const char *path, const char *spill_dir, struct err *e);
struct spill_options engine_spill_options(struct engine *engine);

/* --- identity.c --- */

/* Tell the caller of engine_open(); the negative result ends the opening. */
int engine_tell(struct engine *engine, const struct engine_opening *o, struct err *e);
/* The hash of the weights: as the register remembers it for just this file, or by reading it. */
int identity_open_model(struct engine *engine, const struct model_options *o, struct err *e);
/* Is it the model that the options want? */
int identity_check(struct engine *engine, struct err *e);
/* What looks needs the register no more. */
void identity_release(struct engine *engine);
