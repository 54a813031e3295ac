/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How the engine thread meets other threads: it sleeps and is woken (bell.c), gives jobs to workers
 * and takes them back (workers.c), and hands events to the loop thread (outbox.c).
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
/* There is something to do for the engine thread. Any thread. */
void bell_ring(struct bell *b);
/* Has anybody rung since the last bell_wait()? Engine thread. */
bool bell_has_rung(struct bell *b);
/* Engine thread: sleep until somebody rings, or until @due (clock_monotonic_usec()); without
 * @sleep only forget that anybody has rung. What was rung for is done by whoever returns. */
void bell_wait(struct bell *b, bool sleep, uint64_t due);

/* --- workers.c --- */

#define IO_MAX_WORKERS 4

/* In the order in which workers.c takes them. Numbers as zeroed jobs want them. */
enum job_kind {
        JOB_VERB,    /* requests and commits */
        JOB_RESTORE, /* before all others */
        JOB_EVICT,
        JOB_WRITE_BEHIND,
        JOB_TEXT, /* tokenising, by a thread of its own */
        N_JOB_KINDS
};

/* Work for an I/O worker: run() there, then done() on the engine thread. Owned by whoever submits
 * it, until done() is called. */
struct job {
        struct list link;
        enum job_kind kind;
        uint32_t uid; /* JOB_TEXT: whose text */
        void (*run)(struct engine *engine, struct job *j);
        void (*done)(struct engine *engine, struct job *j);
        int r;
        struct err err;
};

/* NULL without memory. No thread runs before io_start(). */
struct workers *workers_new(void);
struct workers *workers_free(struct workers *w);
int io_start(struct engine *engine, struct err *e);
/* Joins the threads. Jobs that were queued still run, but are not done(). */
void io_stop(struct engine *engine);
/* How many workers there are going to be. */
size_t io_n_workers(void);
/* Workers that run now, at most: a restore is split between them. */
size_t io_n_running(struct engine *engine);

/* Engine thread: */
void io_submit(struct engine *engine, struct job *j);
/* Moves the jobs that have run into @done, each of which is to be ended by io_done(). */
void io_take_done(struct engine *engine, struct list *done);
void io_done(struct engine *engine, struct job *j);
/* Jobs under way: submitted, and not yet done(). */
size_t io_n_jobs(const struct engine *engine);

/* --- outbox.c: events, see the rules there --- */

/* Events that wait, on their way to engine_next_event(). -ERR_NOMEM, -ERR_SYS. */
int outbox_new(struct outbox **ret, struct engine *engine, struct err *e);
/* Frees the events that wait. Those that the loop thread has stay valid. */
struct outbox *outbox_free(struct outbox *o);

/* An event, with what it owns. engine_event_free() frees it as well. */
struct event_node {
        struct engine_event ev; /* first: engine_event_free() casts back */
        struct list link;
        struct event_home *home;
        struct charge charge;  /* this node, and all that it owns */
        struct credit *credit; /* that it lives on instead, or NULL */
        size_t credit_size;
        size_t size; /* bytes, once sent */
};
/* A blank event of @from's bytes, which it has; or of none (@from NULL): before there is a ledger.
 * NULL without memory. Any thread. */
struct event_node *event_new(struct engine *engine, struct charge *from, uint64_t handle,
        enum engine_event_kind kind, bool final);
/* Zeroed memory for an array of the event, charged to it: engine_event_free() frees both. NULL: @e
 * tells. At least one byte. */
void *event_calloc(struct event_node *n, size_t count, size_t size, struct err *e);
/* @size bytes of memory that @from has paid for are the event's now. */
void event_adopt(struct event_node *n, struct charge *from, size_t size);
/* Begin anew: free what it owns, but not itself. */
void event_reset(struct event_node *n, enum engine_event_kind kind);
/* Hand it to the loop thread. */
void event_send(struct engine *engine, struct event_node *n);
/* A line for the journal, of a syslog level. Lost without memory for it. Any thread. */
void event_log(struct engine *engine, int level, const struct err *e);
/* Copy of a register row as a conversation of the event, without its residency. */
int event_conv(
        struct event_node *n, struct engine_conv *out, const struct store_conv *sc, struct err *e);
/* The token's text, cut to fit. */
void event_fill_piece(struct engine *engine, struct engine_logprob *out, int32_t token);

/* What the events take that one step of a request may send, at most. */
size_t credit_size(const struct engine *engine, const struct engine_request *r);
/* @from, which has them, pays @size bytes for the credit. NULL without memory. */
struct credit *credit_new(struct charge *from, size_t size);
/* The request is over. The credit ends with its last event. NULL is allowed. */
void credit_unref(struct credit *c);
/* The request computes (has a place) or not: only then a step waits for its credit to come back.
 * NULL is allowed. Engine thread. */
void credit_set_active(struct engine *engine, struct credit *c, bool active);
/* An event of @size bytes in all with what is hung on it, for a request that generates: of the
 * share if others leave room in it, else of the request's credit. NULL without memory. */
struct event_node *event_new_stream(struct engine *engine, struct credit *c, uint64_t handle,
        enum engine_event_kind kind, size_t size);
/* More events wait than the loop thread should ever leave lying, or a credit is in use: compute no
 * step. The engine thread is woken when that is over. */
bool event_backlog(struct engine *engine);
