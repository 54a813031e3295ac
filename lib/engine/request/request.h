/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A request from its arrival to its last event: what it owns, where it stands, and how it ends.
 * What a verb keeps besides is behind the request, in one allocation with it (request_own()).
 *
 * Engine thread, unless said otherwise. A request's job is a worker's while it runs; then the job
 * may use all that belongs to the request but `link`, `phase` and `conv->...` that others change.
 */
#include <stdalign.h>
#include <stddef.h>

#include "base/charge.h"
#include "base/list.h"
#include "engine/conv/conv.h"
#include "engine/io/io.h"
#include "engine/memory/memory.h"
#include "engine/parts.h"

struct request;

/* How a verb is treated. A verb is a row, and the functions that it names; main/dispatch.c acts by
 * these rows. */
struct verb {
        /* What the verb keeps for each request, zeroed at first; and how that begins (any thread,
         * cannot fail) and ends (any thread). May be 0 and NULL. */
        size_t own_size;
        void (*init)(struct request *request);
        void (*deinit)(struct engine *engine, struct request *request);

        /* One of the two. For a verb that is not about a conversation in RAM: begin, and end the
         * request in whatever way. */
        void (*start)(struct engine *engine, struct request *request);
        /* For a verb that is: the conversation is found and loaded, nothing is in the way. Begin, or
         * fail before anything was begun. */
        int (*act)(struct engine *engine, struct request *request, struct err *e);

        /* What act() wants of the conversation. */
        enum verb_hold {
                HOLD,       /* it alone, from act() to the end of the request */
                HOLD_FORKS, /* the same, but forks may go on beside it: it appends, or reads */
                HOLD_NOT    /* a snapshot, of what nobody changes meanwhile */
        } hold;
        bool at_once;   /* acts whatever the conversation is doing, also while the engine stops */
        bool may_wait;  /* engine_request.wait: takes turns with others */
        bool needs_all; /* of the history: refused where it is damaged */
        bool generates; /* a reply */
        bool removes;   /* tokens, by its job: no link of write-behind meanwhile */
        enum verb_after {
                AFTER_ANY,     /* whatever is being written */
                AFTER_LINKS,   /* when no link transaction of write-behind is under way */
                AFTER_WRITING, /* when write-behind is out of the conversation */
        } after;
        /* An administrator may name conversations of all users by id: "closes", for the journal. */
        const char *by_admin;
        bool is_long; /* engine_stop() cancels it: its client can ask again */
        bool is_made; /* its conversation exists before it acts: acting in vain is no failure */
};

enum phase {
        PHASE_NEW,
        PHASE_IO,      /* a job of its own is under way */
        PHASE_WAITS,   /* for its conversation's I/O, or for who loads it, or for its turn */
        PHASE_QUEUED,  /* waits for a place */
        PHASE_RESTORE, /* has a place: its memory comes into RAM */
        PHASE_PREFILL,
        PHASE_DECODE,
        PHASE_COMMIT,
};

/* What one uid has in flight. In a table while it has requests. */
struct usage {
        uint32_t uid;
        uint32_t n_requests; /* under the desk's lock */
};

struct request {
        struct list link; /* inbox, turns, queue, active, ready, or a conversation's waiters */
        struct list all;  /* all that are in flight, under the desk's lock */
        struct job job;   /* at most one at a time */
        const struct verb *verb;
        struct engine_request r; /* strings are owned copies */
        atomic_bool cancel, paused;
        enum phase phase;
        struct conv *conv;
        /* All memory that the request holds but its conversation's, in budget.requests: the engine
         * thread's, or its job's while one runs. */
        struct charge charge;
        struct usage *usage;
        struct event_node *final; /* its final event, made when it came: see io/outbox.c */
        struct credit *credit;    /* for its other events (continue) */
        struct conv_load load;    /* of its conversation */
        bool has_turn;            /* it waited for its turn, and was let go on */
        uint64_t t_submitted;     /* clock_monotonic_usec() */
        bool told;                /* what it fails with is in the journal already */
        struct store_conv sc;     /* its conversation's row: filled by jobs */
        struct store_reading reading;
        size_t load_size; /* charged for it */
        uint64_t disk_size;
        uint64_t revision;
        struct keep keep; /* fork, rewind, publish, a continue that cuts */
        /* Behind it: request.verb->own_size bytes. */
        alignas(max_align_t) unsigned char own[];
};

static inline struct request *request_of(struct job *j) {
        return container_of(j, struct request, job);
}
/* What the verb keeps. */
static inline void *request_own(struct request *request) {
        return request->own;
}
/* Its peer does not read, and it was not cancelled. */
static inline bool request_is_paused(struct request *request) {
        return atomic_load(&request->paused) && !atomic_load(&request->cancel);
}

/* --- desk.c: what is in flight --- */

/* -ERR_NOMEM. */
int desk_new(struct desk **ret, struct err *e);
struct desk *desk_free(struct desk *d);
/* A copy of @r for the verb, charged. The caller has checked @r. Any thread. */
int request_new(struct request **ret, struct engine *engine, const struct verb *verb,
        const struct engine_request *r, struct err *e);
/* Of a request that was not entered, or was left. Any thread. */
struct request *request_free(struct engine *engine, struct request *request);
/* Quotas, then into the tables and the inbox, and the engine thread is woken. Any thread. */
int desk_enter(struct engine *engine, struct request *request, struct err *e);
/* No longer in flight. */
void desk_leave(struct engine *engine, struct request *request);
/* From now on nothing is entered. Any thread. */
void desk_close(struct engine *engine);
/* What came since, moved into @inbox. */
void desk_take(struct engine *engine, struct list *inbox);
size_t desk_n_requests(struct engine *engine);
/* Cancel those whose verb is long. */
void desk_cancel_long(struct engine *engine);
/* Requests that wait for their turn on a conversation: they hold nothing. */
struct list *desk_turns(struct engine *engine);

/* --- request.c: how a request goes on, and ends --- */

/* Give it a job of its own: of kind JOB_VERB, or another. */
void request_submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
void request_submit_as(struct engine *engine, struct request *request, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
/* On with its conversation (request.sc.id), which is loaded if need be, and then verb.act(): when
 * the engine thread comes round. */
void request_go_on(struct engine *engine, struct request *request);
/* Let go of the conversation; what was not committed is cut off. */
void request_release(struct engine *engine, struct request *request);
/* The request's final event, blank, to be filled. It was made when the request came, so ending a
 * request never fails for want of memory. */
struct engine_event *request_answer(struct request *request, enum engine_event_kind kind);
/* The same as the conversation that the register row in request.sc says. Fails as event_conv(). */
int request_answer_conv(struct request *request, struct engine_event **ret, struct err *e);
/* End it, with an error or with request_answer(); frees it. */
void request_fail(struct engine *engine, struct request *request, const struct err *e);
void request_finish(struct engine *engine, struct request *request);
void request_finish_empty(struct engine *engine, struct request *request);
void request_finish_conv(struct engine *engine, struct request *request);
/* Its answer is a conversation, filled but for its residency: let go of the conversation, fill that
 * in, end. */
void request_finish_held(struct engine *engine, struct request *request);
/* A done() for jobs that leave the answer's row in request.sc. */
void request_row_done(struct engine *engine, struct job *j);
/* For store_read_admitted(): charges the reading to the request @arg, as its load_size. */
int request_admit_reading(void *arg, size_t n, struct err *e);
/* What is in RAM and on disk (@disk bytes) of the conversation of a row. */
void request_fill_residency(
        struct engine *engine, const struct store_conv *sc, uint64_t disk, struct engine_conv *out);
