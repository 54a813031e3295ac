/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How the engine thread meets other threads: it sleeps and is woken (bell.c), gives jobs to workers
 * and takes them back (workers.c), and hands events to the loop thread (outbox.c). Notices of what
 * happens to conversations wait for their watchers here, too (notices.c).
 */
#include "base/charge.h"
#include "base/list.h"
#include "engine/budget/budget.h"
#include "engine/parts.h"
#include "store/store.h"

/* --- bell.c --- */

/* NULL without memory. */
struct bell *bell_new(void);
struct bell *bell_free(struct bell *b);
/* Tell the engine thread that there is something to do. Any thread. */
void bell_ring(struct bell *b);
/* Was the bell rung since the last bell_wait()? Engine thread. */
bool bell_has_rung(struct bell *b);
/* Engine thread: sleep until the bell rings, or until @due (clock_monotonic_usec()). Without @sleep
 * return at once. Either way forget the ring: the caller then looks for work everywhere. */
void bell_wait(struct bell *b, bool sleep, uint64_t due);

/* --- workers.c --- */

#define IO_MAX_WORKERS 4

/* Kinds of jobs; a zeroed job is a JOB_VERB. workers.c has the order in which they are taken. */
enum job_kind {
        JOB_VERB,    /* requests and commits */
        JOB_RESTORE, /* before all others */
        JOB_EVICT,
        JOB_WRITE_BEHIND,
        JOB_TEXT,  /* tokenising, compiling constraints: on a thread of their own */
        JOB_CHECK, /* reading what nobody waits for: likewise, on another one */
        JOB_FETCH, /* reading from the remote store: on two of their own */
        JOB_PUSH,  /* writing to it: on another one */
        N_JOB_KINDS
};

enum { IO_FETCH_LANES = 2 };

/* Whose part a job is; a zeroed one is the engine's. Decides whether done() may be called during a step. */
enum job_of {
        JOB_OF_ENGINE,
        JOB_OF_REQUEST, /* of `owner` */
        JOB_OF_LOOK     /* likewise, which changes nothing: see verb.looks */
};

/* Work for an I/O worker: run() is called there, then done() on the engine thread. Owned by the
 * submitter, who must keep it until done() is called. */
struct job {
        struct list link;
        enum job_kind kind;
        enum job_of of;
        uint64_t owner; /* of the request, and of its text (JOB_TEXT) */
        bool is_part;   /* of one thing, which several jobs do together: workers.c, rule 5 */
        void (*run)(struct engine *engine, struct job *j);
        void (*done)(struct engine *engine, struct job *j);
        int r;
        struct err err;
};

/* NULL without memory. No thread runs before io_start(). */
struct workers *workers_new(void);
struct workers *workers_free(struct workers *w);
/* Starts the threads. After a failure (-ERR_NOMEM) io_stop() ends those that run. */
int io_start(struct engine *engine, struct err *e);
/* Joins the threads. Jobs that were queued still run, but are not done(). */
void io_stop(struct engine *engine);
/* The number of workers that io_start() will start. */
size_t io_n_workers(void);
/* Threads that may read or write spill records at the same time. */
size_t io_n_scratch(const struct engine *engine);
/* Workers that can run at the same time now: a restore is split between them. */
size_t io_n_running(struct engine *engine);

/* Engine thread: */
void io_submit(struct engine *engine, struct job *j);
/* Moves the jobs that have run into @done; the caller ends each of them by io_done(). */
void io_take_done(struct engine *engine, struct list *done);
/* The same for jobs of looks (JOB_OF_LOOK), but for those that are behind another job of their owner's requests: who
 * looks sees what had become of it. */
void io_take_looks(struct engine *engine, struct list *done);
void io_done(struct engine *engine, struct job *j);
/* Jobs under way: submitted, done() not yet called. */
size_t io_n_jobs(const struct engine *engine);

/* --- outbox.c: events; outbox.c has the rules --- */

/* The queue of events for engine_next_event(). -ERR_NOMEM, -ERR_SYS. */
int outbox_new(struct outbox **ret, struct engine *engine, struct err *e);
/* Frees the events in the queue. Events that the loop thread has taken stay valid. */
struct outbox *outbox_free(struct outbox *o);

/* An event with everything that it owns. engine_event_free() frees this struct as well. */
struct event_node {
        struct engine_event ev; /* first: engine_event_free() casts back */
        struct list link;
        struct event_home *home;
        struct charge charge;  /* for this node and everything it owns */
        struct credit *credit; /* pays instead of the charge, or NULL */
        size_t credit_size;
        size_t size; /* bytes, set when sent */
};
/* A blank event, paid by moving its size from @from's charge. @from NULL: not charged (there is no
 * ledger yet, or a credit pays). NULL without memory. Any thread. */
struct event_node *event_new(struct engine *engine, struct charge *from, uint64_t handle,
        enum engine_event_kind kind, bool final);
/* Zeroed memory for an array of the event, charged to the event; engine_event_free() frees the
 * array and the charge. At least one byte. NULL: @e tells why. */
void *event_calloc(struct event_node *n, size_t count, size_t size, struct err *e);
/* The event takes over @size bytes of memory from @from, which has paid for them. */
void event_adopt(struct event_node *n, struct charge *from, size_t size);
/* Make the event blank again: free everything that it owns, but not the event. */
void event_reset(struct event_node *n, enum engine_event_kind kind);
/* Hand the event to the loop thread. */
void event_send(struct engine *engine, struct event_node *n);
/* Something for the journal, about @owner (or OWNER_ANY) and the conversation @conv (or 0). Lost if there is no memory for
 * it. Any thread. */
void event_log(struct engine *engine, enum engine_log what, uint64_t owner, uint64_t conv,
        const struct err *e);
/* Copy a register row into the event, without a residency. Fails as event_calloc() does. */
int event_conv(
        struct event_node *n, struct engine_conv *out, const struct store_conv *sc, struct err *e);
/* Fill in what a token prints, cut to fit. */
void event_fill_piece(struct engine *engine, struct engine_piece *out, int32_t token);

/* The most bytes of events that one step of the request may send. */
size_t credit_size(const struct engine *engine, const struct engine_request *r);
/* A credit paid with @size bytes of @from's charge, which must have them. NULL without memory. */
struct credit *credit_new(struct charge *from, size_t size);
/* The request is over. The credit ends with the request's last event. NULL is allowed. */
void credit_unref(struct credit *c);
/* Tell whether the request computes (has a place): only then do steps wait for its credit to be
 * paid back. NULL is allowed. Engine thread. */
void credit_set_active(struct engine *engine, struct credit *c, bool active);
/* An event for a request that generates; @size: bytes of everything that will hang on it. The
 * shared budget pays while few events wait, else the request's credit. NULL without memory. */
struct event_node *event_new_stream(struct engine *engine, struct credit *c, uint64_t handle,
        enum engine_event_kind kind, size_t size);
/* An event that the credit alone pays for, so that the request never has more events on their way than
 * its credit has room for. NULL: there is no room now, and the bell rings when half of it is free again
 * (*ret_full true), or there is no memory. Engine thread. */
struct event_node *event_new_lent(struct engine *engine, struct credit *c, uint64_t handle,
        enum engine_event_kind kind, bool *ret_full);
/* True if no step may be computed: too many events wait for the loop thread, or a credit is in use.
 * The bell rings when this is over. */
bool event_backlog(struct engine *engine);

/* --- notices.c: what has happened to conversations --- */

struct notice {
        enum engine_notice_kind kind;
        enum engine_finish finish; /* turn ended */
        bool pressed;              /* pressure */
        uint64_t owner;
        uint64_t conv, revision;
        uint64_t parent; /* forked */
        uint64_t budget; /* pressure, in bytes */
};
/* Whose notices somebody may see: one owner's, or all owners'; and those of no owner, or not. */
struct notice_scope {
        uint64_t owner;
        bool all, general;
};

/* -ERR_NOMEM, -ERR_SYS. The bell outlives it. */
int notices_new(struct notices **ret, struct bell *bell, struct err *e);
struct notices *notices_free(struct notices *n);
/* Tell of a change that is durable. Never fails. Engine thread. */
void notice_push(struct engine *engine, const struct notice *notice);
/* Tell of a change to conversation @conv of @owner, which is at @revision now. Engine thread. */
static inline void notice_conv(struct engine *engine, enum engine_notice_kind kind, uint64_t owner,
        uint64_t conv, uint64_t revision) {
        notice_push(engine,
                &(struct notice){.kind = kind, .owner = owner, .conv = conv, .revision = revision});
}

/* The next notice of @scope from *place on. *place moves behind it, or to the end. */
enum notices_next {
        NOTICES_NONE,
        NOTICES_ONE, /* *ret is filled */
        NOTICES_LOST /* notices of this scope behind *place were overwritten */
};
enum notices_next notices_next(struct engine *engine, const struct notice_scope *scope,
        uint64_t *place, struct notice *ret);
/* The place behind the newest notice. */
uint64_t notices_end(struct engine *engine);
/* A place as a cursor, and back. False: @text is no cursor that this engine has made. */
void notices_write_cursor(struct engine *engine, uint64_t place, char ret[ENGINE_CURSOR_MAX + 1]);
bool notices_read_cursor(struct engine *engine, const char *text, uint64_t *ret);
