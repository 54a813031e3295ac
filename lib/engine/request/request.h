/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A request from its arrival to its last event: what it owns, where it stands, and how it ends. The
 * verb's own data lie behind the request, in the same allocation (request_own()).
 *
 * Engine thread, unless said otherwise. While a request's job runs, the job belongs to a worker.
 * The job may then use everything of the request except `link`, `phase`, and those parts of `conv`
 * that others change.
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

/* A verb is a row that tells how requests are treated, and the functions that the row names.
 * main/dispatch.c acts by these rows. */
struct verb {
        /* Size of the verb's own data for each request, zeroed; init() (cannot fail) and deinit(),
         * both on any thread. May be 0 and NULL. */
        size_t own_size;
        void (*init)(struct request *request);
        void (*deinit)(struct engine *engine, struct request *request);

        /* Called when the request arrives, unless NULL: begin, and later end the request, or call
         * request_go_on(). NULL: the request names a conversation in RAM. */
        void (*start)(struct engine *engine, struct request *request);
        /* The request's conversation is found and loaded, and nothing is in the way. Begin, or fail
         * before anything was begun. NULL if start() ends every request. */
        int (*act)(struct engine *engine, struct request *request, struct err *e);

        /* Called for a request that holds its conversation and put itself into the conversation's
         * waiters. NULL if the verb does not do that. */
        void (*resume)(struct engine *engine, struct request *request);

        /* How act() holds the conversation. */
        enum verb_hold {
                HOLD, /* exclusively, from act() to the end of the request */
                HOLD_FORKS, /* the same, but forks may run meanwhile: it appends, reads, or changes no token */
                HOLD_NOT /* not at all: reads a snapshot of things that nobody changes */
        } hold;
        bool at_once;   /* acts whatever the conversation is doing, even while the engine stops */
        bool may_wait;  /* obeys engine_request.wait: takes turns with others */
        bool needs_all; /* needs the whole history: refused if it is damaged */
        bool generates; /* generates a reply */
        bool removes;   /* its job removes tokens: write-behind must not link meanwhile */
        enum verb_after {
                AFTER_ANY,     /* at any time, whatever is being written */
                AFTER_LINKS,   /* when no link transaction of write-behind is under way */
                AFTER_WRITING, /* when write-behind no longer works on the conversation */
        } after;
        /* Set if an administrator may use it by id on conversations of all users: what the journal
         * then says, such as "closes". */
        const char *by_admin;
        /* Changes nothing that a step has: no conversation, no memory, no request with a place. So the engine thread does
         * its parts between the layers of a step, too (main/thread.c). start() ends it or gives it to a job. */
        bool looks;
        bool works;         /* makes something, or computes: refused while the engine is drained */
        bool uncounted;     /* quotas of requests do not hold it back: the caller bounds it */
        bool is_long;       /* engine_stop() cancels it: the client can ask again */
        bool in_pieces;     /* its jobs go on for as long as its peer reads or sends */
        bool answers_found; /* its answer has the conversation's row as it was found */
        bool is_made;       /* its conversation was just made: later failures are ignored */
        bool computes;      /* tokens, which limits of the owner count (account.c) */
};

enum phase {
        PHASE_NEW,
        PHASE_IO,      /* a job of the request is under way */
        PHASE_WAITS,   /* for the conversation's I/O, its loading, or a turn */
        PHASE_QUEUED,  /* waits for a place */
        PHASE_RESTORE, /* has a place; its memory is being brought into RAM */
        PHASE_PREFILL,
        PHASE_DECODE,
        PHASE_COMMIT,
};

/* Of an owner, while it has requests in flight: what account.c counts. Engine thread. */
struct account {
        uint64_t stored_tokens, stored_work; /* that Continue has brought into the register */
        uint64_t live_tokens;                /* of transcripts, not stored yet */
        uint64_t live_work, taken_work;      /* not stored yet; of it, in transactions under way */
        uint32_t n_storing, n_stored;        /* transactions under way, and over */
        struct list waiting;                 /* requests, until one is over */
};
/* A request's part in it. */
struct account_part {
        struct store_usage seen;     /* as the register had it */
        uint64_t tokens_at, work_at; /* the account's stored_... before that */
        uint32_t n_stored_at;        /* likewise */
        bool reads;                  /* the register is read for it, */
        uint8_t n_reads;             /* so often once more */
        void (*again)(struct engine *engine, struct request *request); /* to be read once more */
        uint64_t live_tokens, work; /* its own, that are neither stored nor taken along */
        uint32_t spare;             /* tokens that it may add in place of those that it drops */
        uint32_t n_ahead;           /* of its reply's tokens, counted already */
};

/* The requests of one owner. In a table while there are any. */
struct usage {
        uint64_t owner;
        uint32_t n_requests; /* under the desk's lock */
        uint32_t n_jobs;     /* likewise: jobs that keep it without a request */
        struct account account;
};

/* What is noted about the conversation of an answer. The block is charged to the request. */
struct noted {
        struct about *about; /* NULL: nothing */
        size_t size;         /* bytes charged */
        int r;               /* negative: it could not be read, and `err` tells why */
        struct err err;
};

struct request {
        struct list link; /* inbox, turns, queue, active, ready, or a conversation's waiters */
        struct list all;  /* all requests in flight, under the desk's lock */
        struct job job;   /* at most one at a time */
        const struct verb *verb;
        struct engine_request r; /* strings are owned copies */
        atomic_bool cancel, paused;
        atomic_bool was_paused; /* since its last token */
        enum phase phase;
        struct conv *conv;
        /* All memory of the request except its conversation's, in budget.requests. Belongs to the
         * engine thread, or to the job while one runs. */
        struct charge charge;
        struct usage *usage;
        struct account_part account;
        struct event_node *final; /* the final event, made on arrival: see io/outbox.c */
        struct credit *credit;    /* pays for its other events (continue) */
        struct conv_load load;    /* of its conversation */
        bool has_turn;            /* it waited for its turn, and the turn has come */
        uint64_t t_wanted; /* since when it wants what another machine holds; 0: it does not */
        struct engine_holder holder; /* who that was */
        uint64_t lease_fence;        /* of what was taken, to be confirmed */
        uint64_t t_submitted;        /* clock_monotonic_usec() */
        bool told;                   /* the journal has its error already */
        struct store_conv sc;        /* the conversation's row: filled by jobs */
        struct store_reading reading;
        size_t load_size; /* bytes charged for `reading` */
        struct noted noted;
        uint64_t disk_size;
        uint64_t revision;
        struct keep keep; /* fork, rewind, publish, a continue that cuts */
        /* request.verb->own_size bytes. */
        alignas(max_align_t) unsigned char own[];
};

static inline struct request *request_of(struct job *j) {
        return container_of(j, struct request, job);
}
/* The verb's own data. */
static inline void *request_own(struct request *request) {
        return request->own;
}
/* Does its peer not read? False once the request is cancelled. */
static inline bool request_is_paused(struct request *request) {
        return atomic_load(&request->paused) && !atomic_load(&request->cancel);
}

/* --- desk.c: the requests in flight --- */

/* -ERR_NOMEM. */
int desk_new(struct desk **ret, struct err *e);
struct desk *desk_free(struct desk *d);
/* A charged copy of @r for the verb. The caller has checked @r. -ERR_LIMIT, -ERR_TOO_LARGE,
 * -ERR_NOMEM, -ERR_INVALID. Any thread. */
int request_new(struct request **ret, struct engine *engine, const struct verb *verb,
        const struct engine_request *r, struct err *e);
/* Frees a request that is not in flight. Any thread. */
struct request *request_free(struct engine *engine, struct request *request);
/* Check the quotas, enter the request in the tables and the inbox, ring the bell. On failure the
 * caller still owns it: -ERR_LIMIT, -ERR_SHUTDOWN, -ERR_INVALID, -ERR_NOMEM. Any thread. */
int desk_enter(struct engine *engine, struct request *request, struct err *e);
/* The request is no longer in flight. */
void desk_leave(struct engine *engine, struct request *request);
/* A job needs the owner's account for longer than the owner's requests. */
void desk_keep(struct engine *engine, struct usage *usage);
void desk_let_go(struct engine *engine, struct usage *usage);
/* The requests of @owner in flight. Any thread. */
uint32_t desk_n_requests_of(struct engine *engine, uint64_t owner);
/* From now on desk_enter() fails with -ERR_SHUTDOWN. Any thread. */
void desk_close(struct engine *engine);
/* Move the requests that have arrived since into @inbox. */
void desk_take(struct engine *engine, struct list *inbox);
/* The same for those that may begin during a step, of the first in the inbox: those that look (verb.looks), and those that
 * name a conversation, since they begin by reading its row (verb.start is NULL). None overtakes another one of its owner. */
void desk_take_early(struct engine *engine, struct list *inbox);
size_t desk_n_requests(struct engine *engine);
/* Cancel the requests whose verb is long. */
void desk_cancel_long(struct engine *engine);
/* One owner, or (all_tenants) a uid and its tenants. */
struct owners {
        uint64_t owner;
        bool all_tenants;
};
static inline bool owners_have(const struct owners *whose, uint64_t owner) {
        return whose->all_tenants ? owner_uid(owner) == owner_uid(whose->owner)
                                  : owner == whose->owner;
}
/* Ask all requests of these owners to end, but for @except and the engine's own. @dry_run: only count them. Their
 * number. */
size_t desk_cancel_of(struct engine *engine, const struct owners *whose,
        const struct request *except, bool dry_run);
/* Requests in flight that work (verb.works); @cancel: ask them to end. */
size_t desk_n_working(struct engine *engine, bool cancel);
/* Is a job under way for a request of another owner than @owner, whose next part is the engine thread's? Not those that
 * come in pieces, and not those that look: they do not wait for the step's end. */
bool desk_awaits(struct engine *engine, uint64_t owner);
/* The list of requests that wait for their turn on a conversation; they hold nothing. */
struct list *desk_turns(struct engine *engine);
/* Whether one of them waits for this conversation. */
bool desk_turn_waits(struct engine *engine, uint64_t conv);

/* --- account.c: limits on tokens --- */

/* Before the request's job that calls account_read(). */
void account_look(struct request *request);
/* In a job: read what the owner has. Fails as store_usage(). */
int account_read(struct engine *engine, struct request *request, struct err *e);
/* Behind that job. True if something was stored for the owner meanwhile: then @again, which is to look and read, is called
 * once more, now or when the transaction that is under way is over. */
bool account_read_again(struct engine *engine, struct request *request,
        void (*again)(struct engine *engine, struct request *request));
/* What the owner has of QUOTA_TOKENS or QUOTA_TOKENS_PER_DAY, by request.account.seen. */
uint64_t account_used(const struct request *request, enum quota quota, uint64_t now_usec);
/* May the request begin, whose conversation has @n_before tokens in the register, and @n_after with its input and
 * without what it drops? *max_new, tokens of its reply, becomes less where the limit is near. -ERR_LIMIT. */
int account_begin(struct request *request, uint32_t n_before, uint32_t n_after, bool replies,
        uint32_t *max_new, struct err *e);
/* @n more tokens of the reply; or (take back) so many less. */
void account_add(struct request *request, uint32_t n);
void account_take_back(struct request *request, uint32_t n);
/* Nothing is left for another token. */
bool account_is_full(const struct request *request);
/* A transaction of the request that takes no work along is under way; is over, and the register has @n more of the
 * request's tokens (none if it failed). */
void account_storing(struct request *request);
void account_stored(struct engine *engine, struct request *request, uint32_t n);
/* The model has computed @n tokens for the request. */
void account_worked(struct request *request, uint32_t n);
/* A transaction of the request takes the owner's work along; is over, and the register has it and all of the request's
 * tokens, or (@stored false) it failed. */
void account_take(struct request *request, struct store_work *ret);
void account_taken(
        struct engine *engine, struct request *request, const struct store_work *work, bool stored);
/* The request is about to end. */
void account_leave(struct engine *engine, struct request *request);

/* --- meters.c: how long things take, and how often they happen. Engine thread --- */

/* -ERR_NOMEM. The budget outlives it. */
int meters_new(struct meters **ret, struct engine *engine, struct err *e);
struct meters *meters_free(struct meters *m);
/* Something took @usec for the request, @n times. */
void meters_time(struct engine *engine, const struct request *request, enum engine_latency latency,
        uint64_t usec, uint32_t n);
/* @n times something happened for the request now, clock_monotonic_usec(). */
void meters_count(struct engine *engine, const struct request *request, enum rate rate, uint32_t n,
        uint64_t now_usec);
/* The figures of all owners; of one, all 0 if it is not measured. */
void meters_read_all(struct engine *engine, struct engine_meter *ret);
void meters_read(struct engine *engine, uint64_t owner, struct engine_meter *ret);
/* Begin anew for these owners, with their next request. */
void meters_forget(struct engine *engine, const struct owners *whose);

/* --- request.c: how a request goes on, and ends --- */

/* Give the request a job, of kind JOB_VERB or another. */
void request_submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
void request_submit_as(struct engine *engine, struct request *request, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
/* Go on with the conversation request.sc.id, in the next round of the engine thread: load it if
 * need be, then call verb.act(). */
void request_go_on(struct engine *engine, struct request *request);
/* Let go of the conversation; uncommitted tokens are cut off. */
void request_release(struct engine *engine, struct request *request);
/* The request's final event, blank, to be filled. It was made on arrival, so ending a request never
 * fails for lack of memory. */
struct engine_event *request_answer(struct request *request, enum engine_event_kind kind);
/* In a job, once it has done its work: read what is noted about conversation request.sc.id. A failure is
 * kept for request_answer_conv(): the work is done. */
void request_read_noted(struct engine *engine, struct request *request);
/* The same as request_answer(), filled with the conversation of row request.sc and with request.noted.
 * Fails as event_conv() and request_read_noted(). */
int request_answer_conv(struct request *request, struct engine_event **ret, struct err *e);
/* The same for a request that was carried out. NULL: there was no memory for the answer, and the
 * request has ended with an error that says both. */
struct engine_event *request_answer_done(struct engine *engine, struct request *request);
/* End the request, with an error or with request_answer(). Frees it. */
void request_fail(struct engine *engine, struct request *request, const struct err *e);
void request_finish(struct engine *engine, struct request *request);
/* The same as request_fail() where what was asked for is done, and only the answer fails: so it is not to be asked for again. */
void request_fail_done(struct engine *engine, struct request *request, const struct err *e);
void request_finish_empty(struct engine *engine, struct request *request);
void request_finish_conv(struct engine *engine, struct request *request);
/* The answer is a conversation, filled except for its residency: let go of the conversation, fill
 * in the residency, end. */
void request_finish_held(struct engine *engine, struct request *request);
/* A done() for jobs that leave the row of the answer in request.sc. */
void request_row_done(struct engine *engine, struct job *j);
/* Charges the request what the register needs to list the records that its conversation loses: to be called
 * before the job that removes tokens. -ERR_LIMIT, -ERR_TOO_LARGE. Engine thread. */
int request_charge_records(struct request *request, struct err *e);
/* For store_read_admitted(): charges the reading to request @arg, and sets its load_size. */
int request_admit_reading(void *arg, size_t n, struct err *e);
/* Fill in how much of row @sc's conversation is in RAM and on disk (@disk bytes, if not loaded). */
void request_fill_residency(
        struct engine *engine, const struct store_conv *sc, uint64_t disk, struct engine_conv *out);
