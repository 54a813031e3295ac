/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the tests of fairness share: an engine whose steps are watched where it calls the model, and requests of users
 * beside each other. A program that uses it wraps model_forward, sched_queue, attach_accepted, clock_monotonic_usec and
 * store_append. One engine at a time.
 */
#include <pthread.h>

#include "rig.h"
#include "util/gate.h"
#include "util/test.h"

enum {
        UID_A = 1001,
        UID_B = 1002,
        UID_C = 1003,
        MOST = 64,
        BLOCK = 32,
        FAIR_MOST_HANDLES = 1024,
        FAIR_EXPECTED = ERIG_ROUNDS(300, 40)
};

extern struct answer A[MOST], B, C, fair_expected[8];
extern struct erig fair_rig;        /* in use by one test after another */
extern uint64_t fair_handles[MOST]; /* of the requests of UID_A that A answers */

/* --- the engine, watched --- */

struct fair_seen {
        const struct seq *seq;
        uint64_t owner;
        bool background;
        uint64_t queued, first, last; /* steps: when it was queued; first and last token */
        uint64_t stored;              /* the last step before its input was durable */
        uint64_t tokens;
        uint64_t first_at, last_at; /* made-up time: before its first token; after its last one */
};
struct fair {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        uint64_t step;
        /* Requests by the handle that the rig gives them. */
        struct fair_seen seen[FAIR_MOST_HANDLES];
        /* Of the steps in which both have tokens: how many there were, and what they had. */
        uint64_t shared_steps, shared_a, shared_b;
        bool pause; /* requests as they join the queue */
        bool slow;  /* a step takes some ms, so that long replies outlast a busy machine */
        bool fake;  /* time is made up: */
        uint64_t now, base, per_token;
        uint32_t n_layer;        /* of the model: its share of a step passes in each of them */
        const struct seq *timed; /* the longest time between two of its tokens, since it is so */
        uint64_t timed_at, longest;
        uint64_t held;  /* a conversation */
        unsigned depth; /* calls of the model in calls of it */
};
extern struct fair fair;
extern struct gate fair_gate;       /* before each step */
extern struct gate fair_store_gate; /* before the turns of conversation fair.held are stored */

/* What was seen of the request. */
struct fair_seen fair_seen(uint64_t handle);
/* Until the request has joined the queue. */
void fair_wait_queued(uint64_t handle);
void fair_make_slow(void);
/* A step takes @base and @per_token for each of its tokens, in microseconds. */
void fair_fake_time(uint64_t base, uint64_t per_token);
/* A failed test must not leave an engine behind: it would be watched by the next one. */
int fair_teardown(void **state);

/* --- what is said --- */

uint64_t fair_open_for(struct erig *r, uint64_t owner);
/* Short enough for one block together with what the chat format adds. */
struct engine_request fair_say(uint64_t conv, uint64_t owner, unsigned which, uint32_t max);
/* Tokens that no chat format adds to, @n of them from the @from-th on. */
struct engine_request fair_tokens_of(
        uint64_t conv, uint64_t owner, uint32_t from, uint32_t n, uint32_t max);
void fair_begin(struct erig *r, uint32_t max_active, uint32_t batch_tokens, uint64_t pool);
void fair_begin_with(struct erig *r, uint32_t prefill_share);
/* Every one of the eight things to say, undisturbed: fair_expected. */
void fair_find_expected(void);
/* The message is there: what the request says is a reply alone, and it need not wait for its input to be
 * stored, which takes some steps of the others. */
struct engine_request fair_reply_to(struct erig *r, struct engine_request say);
/* One is the beginning of the other. */
void fair_check_same(const struct answer *a, const struct answer *full);
void fair_send_all(struct erig *r, struct engine_request *q, unsigned n, bool background);
void fair_send_many(struct erig *r, unsigned n, bool background, uint32_t length);

/* --- from a given step on, however fast this thread is --- */

/* Those of UID_A, and @q of UID_B as the last one: all are in the queue, and nothing is computed until
 * fair_go_on(). */
void fair_send_all_paused(struct erig *r, struct engine_request *many, unsigned n, bool background,
        struct engine_request *q);
void fair_send_paused(
        struct erig *r, unsigned n, bool background, uint32_t length, struct engine_request *q);
/* Let the @n of UID_A go on until @n_active of them generate side by side, and the engine is held in
 * a step; then let UID_B's, too, which counts as queued from there. */
void fair_go_on(struct erig *r, unsigned n, unsigned n_active, const struct engine_request *q);
