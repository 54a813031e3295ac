/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor, and what its files have from each other. */
#include "engine/run/run.h"
#include "kern/kern.h"
#include "sample/sample.h"
#include "tok/tok.h"

/* What a Continue or Warm is doing. */
struct generation {
        struct tok_ids input;
        struct sample_params params;
        struct sample_bias *biases;
        uint64_t seed;
        uint32_t n_input_start; /* conv->n_tokens when it began */
        uint32_t n_prompt;      /* history + input + reply start */
        uint32_t max_new;
        bool was_told;      /* that it waits for the system: logged */
        bool context_bound; /* max_new was cut down by the context or the pool */
        struct conv_turn input_turn, reply_turn;
        bool has_input_turn, has_reply_turn;
        uint32_t n_generated;
        struct recall recall;
        uint32_t n_ram, n_disk, n_shared; /* tokens of the prompt by where they came from */
        uint32_t n_kept;                  /* all of these when it was accepted */
        uint32_t n_reached; /* of the prompt, there at some time since: found, or computed */
        uint32_t differs_at;
        enum engine_differs differs_why;
        size_t need_blocks;
        struct tok_stream stream;
        struct buf held; /* text that may be the beginning of a stop string */
        struct buf text; /* all that was sent */
        enum engine_finish finish;
        const char *stop;  /* the one that ended it */
        uint32_t in_batch; /* tokens in the present step */
        uint64_t t_admitted, t_restored, t_prefilled, t_last_progress;

        /* What is to be done with it when the step is over (sched.c). */
        enum generation_end {
                GOES_ON,
                ENDED, /* for the reason in `finish`: to be committed */
                FAILED /* by `why` */
        } end;
        struct err why;

        /* sched.c */
        struct user *user;
        uint64_t order;          /* of arrival */
        bool incoming, outgoing; /* has its place since this step; is to be parked for another */
        /* Since it has its place, tokens computed; before that, tokens that were new. */
        uint32_t n_here, n_new_before;
};

static inline struct generation *generation_of(struct request *request) {
        return request_own(request);
}
static inline const struct generation *generation_in(const struct request *request) {
        return (const void *)request->own;
}

static inline bool request_is_warm(const struct request *request) {
        return !request->verb->generates;
}

/* A user's requests of one class, interactive or background: what places (sched.c) and steps
 * (batch.c) are shared between. All zeros: a user who has had nothing yet. */
struct flow {
        uint32_t n_requests; /* queued or active */
        int64_t service;     /* tokens computed for it, from run.floor on */
        double debt;         /* tokens beyond its share of steps */
        bool works;          /* it had requests when last looked at */
        bool fresh;          /* it came to work, owed nothing, and had no token since */
        bool prompts_turn;   /* of one token at a time: this one was a prompt's */
        /* Filled by look() of sched.c: places held, and the request in the queue that is next. */
        uint32_t n_places;
        struct request *next;
        /* Of the step that is being built: requests by phase, tokens that they want, and have. */
        uint32_t n_decode, n_prefill, wanted, used;
};

struct user {
        uint32_t uid;
        struct list link;    /* in run.users */
        struct flow flow[2]; /* [1]: background */
};

/* What a step of n tokens takes (batch.c): sums that fade, over x = 1/n and y = time/n. */
struct costs {
        double w, x, y, xx, xy;
        double step_usec, token_usec; /* a and b */
};

struct run {
        struct model_work *work;
        struct sample_work *sampler;
        struct model_token *batch;   /* [max(batch_tokens, max_active)] */
        struct request **batch_rows; /* [max_active], request per output row */
        struct list queue;           /* requests waiting for a place, in order of arrival */
        struct list active;
        size_t n_active, active_blocks;
        struct list users; /* all that sched.c has to remember */
        int64_t floor[2];  /* least service of the flows at work, by class; it only rises */
        uint64_t next_order;
        struct costs costs;
};

static inline struct flow *flow_of(const struct request *request) {
        return &generation_in(request)->user->flow[request->r.background];
}

/* --- sched.c --- */

/* Into the queue, to be given a place. -ERR_NOMEM. */
int sched_queue(struct engine *engine, struct request *request, struct err *e);

/* --- batch.c --- */

/* Compute what the active requests may have of one step, and take what came of it. Whatever ends is
 * marked (generation.end). False if there was nothing to compute. */
bool batch_step(struct engine *engine);

/* --- generate.c --- */

/* The recall is over: decide what must be computed, tell the client. May end it. */
void generate_restored(struct engine *engine, struct request *request);
/* share_adopt() has taken more blocks of others: count what of the prompt is new by that. */
void generate_adopted(struct engine *engine, struct request *request);
/* Its share of a step was computed; @logits belong to its last token or are NULL. May end it. */
void generate_advance(struct engine *engine, struct request *request, const float *logits);
/* It is to end when the step is over. */
void generate_end(struct request *request, enum engine_finish finish);
void generate_fail(struct request *request, const struct err *e);
/* Cancelled: keep what was generated; without any, give up for reason @e. */
void generate_cancel(struct request *request, const struct err *e);
/* Carry out its end: it has left the queue and the active ones. Commits, or fails. */
void generate_close(struct engine *engine, struct request *request);
