/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of the engine. See engine.c for who owns what.
 *
 * Files: engine.c (threads, opening, closing), submit.c (what the loop thread calls), event.c
 * (building and freeing events), io.c (workers), text.c (Tokenize), conv.c (loaded conversations),
 * residency.c (evict, room), register.c (room, locks and leftovers of the register), restore.c,
 * verbs.c (the way of a request), verb-conv.c and verb-query.c (verbs that are not generation),
 * prompt.c (Continue: from input to the queue), edit.c (a Continue that replaces turns), generate.c
 * (from the queue to Done), sched.c (places), batch.c (steps), stats.c, budget.c.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/charge.h"
#include "base/ids.h"
#include "base/ledger.h"
#include "base/list.h"
#include "base/map.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/model.h"
#include "sample/sample.h"
#include "seq/seq.h"
#include "spill/spill.h"
#include "store/store.h"
#include "tok/tok.h"

struct edit;
struct request;
struct event_node;
struct restore;
struct transfer;
struct write_job;

#define ENGINE_MAX_WORKERS 4

/* A spill record that loaded conversations refer to. Lives in engine.recs by id. */
struct rec {
        struct store_record r;
        uint32_t n_refs; /* conversations in RAM */
        bool damaged;    /* it could not be read: good for nothing */
};

struct conv_turn {
        enum chat_role role;
        uint32_t start, end;
        enum engine_finish finish;
};

/* A conversation in RAM (with or without its memory). Owned by the engine thread. */
struct conv {
        uint64_t id;
        uint32_t uid;
        uint64_t revision;
        bool foreign_vocab;   /* its tokens belong to another model's vocabulary */
        bool private_memory;  /* imported and not ours: never shared, forks inherit it */
        uint32_t n_published; /* tokens of its beginning that all users may share; 0: none */
        bool stale;           /* no longer what the register says: unload after use */
        /* Its history is damaged in the register, and only the turns before that are here. */
        struct err *damage;                   /* owned; NULL: it is sound */
        uint32_t n_lost_turns, n_lost_tokens; /* that the register has besides */
        struct sampling sampling;
        int32_t *tokens; /* [n_all], the first n_tokens of which are in the register */
        uint32_t n_tokens, n_all, capacity;
        struct conv_turn *turns;
        uint32_t n_turns, turns_capacity;
        struct seq *seq;
        struct rec **recs; /* [n_recs], by block index; NULL: not on disk */
        size_t n_recs;
        uint32_t n_known; /* positions whose memory was computed at some time (for statistics) */
        struct request *busy; /* the request that holds it, or NULL */
        unsigned n_io;        /* jobs under way that change its blocks or links */
        uint32_t n_forks;     /* fork transactions under way */
        uint32_t n_users;     /* requests that hold a pointer to it */
        struct list waiters;  /* requests parked until these are done */
        size_t charged;       /* bytes in the ledger */
        struct list lru;      /* in engine.idle, oldest first, while nobody uses it */

        /* Writing it to disk (writebehind.c, evict.c). */
        struct write_job *writing; /* write-behind of its blocks, or NULL */
        unsigned n_links;          /* of that: its link transaction is under way (0 or 1) */
        size_t link_from;          /* recs from this index on may not be linked in the register */
        struct list dirty;         /* in engine.dirty while idle and perhaps not all on disk */
        uint64_t t_idle;           /* clock_monotonic_usec() when it became idle */

        /* Sharing (share.c). */
        bool no_disk_share; /* what another one has on disk turned out to be damaged */
        size_t n_entered;   /* its first so many blocks are in the prefix index */
};

/* By what is taken first by the workers, see io.c. Numbers as zeroed jobs want them. */
enum job_kind {
        JOB_VERB,    /* requests and commits */
        JOB_RESTORE, /* before all others */
        JOB_EVICT,
        JOB_WRITE_BEHIND,
        JOB_TEXT, /* tokenising, by a thread of its own; of requests only */
        N_JOB_KINDS
};

/* Work for an I/O worker: run() there, then done() on the engine thread. */
struct job {
        struct list link;
        enum job_kind kind;
        void (*run)(struct engine *engine, struct job *j);
        void (*done)(struct engine *engine, struct job *j);
        int r;
        struct err err;
};

enum phase {
        PHASE_NEW,
        PHASE_IO,      /* a job of its own is under way */
        PHASE_PARKED,  /* waits for its conversation's I/O, or for who loads it, or for its turn */
        PHASE_QUEUED,  /* waits for admission */
        PHASE_RESTORE, /* active: needs blocks, then reads them */
        PHASE_READING, /* active: the restore job is under way */
        PHASE_PREFILL,
        PHASE_DECODE,
        PHASE_COMMIT,
};

/* Where the memory of a block came from. */
enum source { SOURCE_NONE, SOURCE_RAM, SOURCE_SHARED, SOURCE_DISK };

/* What a Continue or Warm is doing. */
struct gen {
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
        const char *stop; /* the one that ended it */
        /* restore.c: chained hashes and sources of the prompt's blocks, what others have on disk */
        uint64_t *hashes; /* [n_blocks] */
        uint8_t *sources; /* [n_blocks], enum source */
        size_t n_blocks;
        struct store_prefix found;
        bool gathered, searched;
        struct restore *restore;
        uint64_t t_read;
        uint32_t in_batch; /* tokens in the present step */
        enum gen_mark { GEN_GOES_ON, GEN_FAILED, GEN_COMPLETE } mark; /* after it (batch.c) */
        /* sched.c: it has its place since this step; it is to be parked for another one. */
        bool incoming, outgoing;
        /* sched.c: since it has its place, tokens computed; before that, tokens that were new. */
        uint32_t n_here, n_new_before;
        uint64_t t_admitted, t_restored, t_prefilled, t_last_progress;
};

/* What Rewind, Fork, Publish and a Continue that cuts keep of a conversation. */
struct keep {
        uint32_t n_turns, n_tokens;
        bool inside;           /* the last kept turn is cut: */
        struct conv_turn last; /* its new form */
        struct buf text;       /* of that */
};

/* What Tokenize answers. */
struct text_answer {
        struct tok_ids ids;
        struct buf pieces; /* bytes, one behind the other */
        uint32_t *ends;    /* [n_ends], as many as ids: where each piece ends */
        size_t n_ends, ends_capacity;
};

struct request {
        struct list link; /* inbox, loading, turns, queue, active, a conversation's waiters or
                             followers */
        struct list all;  /* engine.requests */
        struct job job;   /* at most one at a time */
        struct engine_request r; /* strings are owned copies */
        atomic_bool cancel, paused;
        enum phase phase;
        struct conv *conv;
        /* All memory that the request holds but its conversation's, in engine.req_ledger: the
         * engine thread's, or its job's while one runs. */
        struct charge charge;
        struct usage *usage;
        struct event_node *final; /* its final event, made when it came: see event.c */
        struct credit *credit;    /* for its other events (continue) */
        uint64_t loading;         /* the conversation that its job loads */
        struct list followers;    /* requests that wait until this one has loaded a conversation */
        bool has_turn;            /* it waited in engine.turns, and was let go on */
        uint64_t t_submitted;
        uint64_t order;
        bool told; /* what it fails with is in the journal already */
        /* filled by jobs */
        struct store_conv sc;
        struct store_reading reading;
        size_t load_size; /* charged for it */
        uint64_t disk_size;
        struct store_conv *list;  /* [n_list] */
        uint64_t *list_disk_size; /* [n_list], of their records */
        size_t n_list;
        struct text_answer answer; /* of a Tokenize, as it grows */
        uint64_t revision;
        struct keep keep;
        void (*evict_then)(
                struct engine *engine, struct request *request); /* in engine.evict_waiting */
        uint32_t n_not_kept;     /* Evict: tokens whose memory was lost by it, */
        struct err why_not_kept; /* and why */
        struct seq *fork_seq;
        struct rec **fork_recs;
        size_t n_fork_recs, fork_link_from;
        struct tok_ids input;
        struct gen g;
        struct edit *edit;         /* continue: turns are dropped by its commit (edit.c), or NULL */
        struct transfer *transfer; /* export, import */
};

/* A user's requests of one class, interactive or background: what places (sched.c) and steps
 * (batch.c) are shared between. All zeros: a user who has had nothing yet. */
struct flow {
        uint32_t n_requests; /* queued or active */
        int64_t service;     /* tokens computed for it, from engine.floor on */
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

/* What one uid has of the engine. In engine.usage while it has requests, or is kept. */
struct usage {
        uint32_t uid;
        uint32_t n_requests; /* in flight (under engine.lock) */
        bool kept;           /* in engine.users (under engine.lock) */
        struct list link;    /* in engine.users */
        struct flow flow[2]; /* engine thread; [1]: background */
};

struct counters {
        uint64_t steps, parked, tokens_prefilled, tokens_decoded, tokens_recomputed;
        uint64_t reused_ram, reused_disk;
        uint64_t evictions, restores, blocks_spilled, blocks_restored, restore_failures;
        uint64_t spill_failures, unspilled_drops, requests, forks;
        uint64_t reused_shared, writebehind_blocks, evict_blocks_written, blocks_linked;
        uint64_t reclaimed, blocks_lost, restores_skipped, restores_overlapped;
        uint64_t budget_shrunk, exports, imports;
        uint64_t scrubs;
};

/* What a step of n tokens takes (batch.c): sums that fade, over x = 1/n and y = time/n. */
struct costs {
        double w, x, y, xx, xy;
        double step_usec, token_usec; /* a and b */
};

/* How fast memory comes from disk, and how fast it is computed (restore.c): sums that fade. */
struct rates {
        double restored_bytes, restore_usec;
        double computed_tokens, compute_usec;
        uint64_t n_restores;
};

struct engine {
        /* immutable after engine_open() */
        struct engine_options o;
        char *model_path, *state_dir;
        struct gguf *gguf;
        struct kern *kern;
        struct model *model;
        struct model_info info;
        struct tok *tok;
        struct chat *chat;
        struct store *store;
        struct spill *spill;
        uint64_t vocab_hash;
        int32_t *eog; /* end-of-generation tokens */
        size_t n_eog;
        size_t max_piece; /* bytes of the longest token's text */
        char tokenizer_name[96];
        int lock_fd, reserve_fd;
        bool looking;                        /* by engine_look(): nothing may be changed */
        bool remembered;                     /* the hash of the weights came from the register */
        enum engine_register register_state; /* what engine_look() found */
        uint64_t n_looked;                   /* conversations in it */

        /* engine thread */
        pthread_t thread;
        bool thread_started;
        struct model_work *work;
        struct sample_work *sampler;
        /* The ledger (I3), and two shares of it that are reserved in it from the start: what
         * requests bring along, and the bookkeeping of loaded conversations. The pool has the rest.
         */
        struct ledger ledger, req_ledger, meta_ledger;
        struct seq_pool *pool;
        size_t slot_size;    /* what a block costs in the ledger */
        size_t budget_want;  /* the budget that was asked for last: the target (budget.c) */
        size_t budget_most;  /* the largest that was asked for: what fits into it is not refused */
        size_t give;         /* what the system had memory for at t_give */
        uint64_t t_give;     /* clock_monotonic_usec(), 0: never looked */
        bool shrinking;      /* memory has to be let go before the budget is what was asked for */
        uint64_t pool_moves; /* blocks taken and freed, and when that was seen to change */
        uint64_t t_pool;
        struct map *convs;   /* id → conv */
        struct map *recs;    /* record id → rec */
        struct map *damaged; /* ids of conversations whose damage was told */
        struct list idle;    /* conversations nobody uses, least recently used first */
        struct list loading; /* requests whose job loads a conversation */
        struct list turns;   /* requests that wait while others hold their conversations */
        struct list queue;   /* requests waiting for admission, in order of arrival */
        struct list active;
        size_t n_active, active_blocks;
        struct list users; /* struct usage: all that sched.c has to remember */
        int64_t floor[2];  /* least service of the flows at work, by class; it only rises */
        struct costs costs;
        size_t n_jobs;             /* under way, of any kind */
        size_t n_evictions;        /* under way */
        struct list dirty;         /* idle conversations with blocks to write, longest idle first */
        struct list evict_waiting; /* requests to evict blocks that are being written */
        size_t n_writers;          /* jobs under way that write blocks */
        struct write_job *write_behind; /* the one under way, or NULL */
        uint64_t t_write;               /* no write-behind before (clock_monotonic_usec()) */
        struct ledger index_ledger;     /* another share of the ledger: the prefix index */
        struct seq_index *index;
        struct rates rates;
        struct restore *trial; /* whose memory arrives during the present model_forward() */
        /* How blocks are cut into sections (layout.c). */
        struct spill_array *arrays;
        uint64_t *section_ends;
        uint32_t *layer_section; /* [n_layer] */
        size_t n_arrays, n_sections;
        size_t scratch_size; /* reserved in the ledger for the workers */
        struct counters count;
        struct model_token *batch;
        struct request **batch_rows; /* request per output row */
        uint64_t next_order;
        bool stopping;
        bool again;         /* something changed that may let a step go on: don't sleep */
        bool spill_refused; /* the last write failed: that was told */
        /* register.c */
        uint64_t t_scrub;  /* something was removed: scrub then; 0: nothing */
        bool scrubbing;    /* a job is under way */
        bool scrub_failed; /* the last one: that was told */
        bool log_lost_told;
        struct event_node *stopped; /* the last event, made in time */
        struct event_home *event_home;

        /* under lock */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        struct list inbox, io_done;
        struct list requests;
        struct map *by_handle;
        struct map *usage;
        size_t n_requests;
        bool stop_asked, abandon, signalled;
        struct list events;     /* outgoing */
        struct store_cut *cuts; /* records that workers took to make room for the register */
        size_t n_cuts;
        uint64_t reclaimed; /* bytes of these */
        size_t n_events, events_size;
        bool backlogged; /* the engine thread waits until fewer are left */
        int event_fd;

        /* I/O workers */
        pthread_mutex_t io_lock;
        pthread_cond_t io_wake;
        bool io_waking; /* a worker was signalled and has not come by yet; under io_lock */
        struct list io_queues[N_JOB_KINDS];
        size_t n_io_writing; /* workers that run JOB_EVICT or JOB_WRITE_BEHIND */
        pthread_cond_t text_wake;
        pthread_t text_worker;
        bool text_started;
        uint32_t text_uid; /* whose job it ran last */
        bool io_quit;
        pthread_mutex_t create_lock; /* counting a user's conversations, then adding one */
        pthread_t workers[ENGINE_MAX_WORKERS];
        size_t n_workers;

        uint8_t export_key[32]; /* under create_lock */
        bool has_export_key;

        atomic_uint_fast64_t export_bytes; /* on disk, of exports being written */
        atomic_uint_fast64_t budget_asked; /* by engine_set_pool_size() */
        atomic_bool spare_refused;         /* by engine_set_spare() */
        atomic_uint_fast64_t idle_size;    /* bytes of the pool that no request has in use */
        const char *machine_root; /* base/machine.h: before all paths; NULL, but in tests */
        atomic_uint_fast64_t heartbeat;
};

/* --- event.c --- */
struct event_node {
        struct engine_event ev; /* first: engine_event_free() casts back */
        struct list link;
        struct event_home *home;
        struct charge charge;  /* this node, and all that it owns */
        struct credit *credit; /* that it lives on instead, or NULL */
        size_t credit_size;
        size_t size; /* bytes, once sent */
};
/* What events refer to; event_home_leave() is for engine_free(), when nothing makes any more. */
struct event_home *event_home_new(struct engine *engine);
struct event_home *event_home_leave(struct event_home *h);
/* A blank event for a request, charged; NULL without memory, or without room in the share. */
struct event_node *engine_event_new(
        struct engine *engine, uint64_t handle, enum engine_event_kind kind, bool final);
/* The same of @from's bytes, which it has; or of none (@from NULL): before there is a ledger. */
struct event_node *event_new_of(struct engine *engine, struct charge *from, uint64_t handle,
        enum engine_event_kind kind, bool final);
/* Zeroed memory for an array of the event, charged to it: engine_event_free() frees both. NULL: @e
 * tells. At least one byte. */
void *event_calloc(struct event_node *n, size_t count, size_t size, struct err *e);
/* @size bytes of memory that @from has paid for are the event's now. */
void event_adopt(struct event_node *n, struct charge *from, size_t size);
/* Begin anew: free what it owns, but not itself. */
void event_reset(struct event_node *n, enum engine_event_kind kind);
/* Hand it to the loop thread. */
void engine_event_send(struct engine *engine, struct event_node *n);
/* More events wait than the loop thread should ever leave lying: produce no more. */
bool event_backlog(struct engine *engine);
/* What the events take that one step of a request may send, at most. */
size_t credit_size(const struct engine *engine, const struct engine_request *r);
/* @from, which has them, pays @size bytes for the credit. NULL without memory. */
struct credit *credit_new(struct charge *from, size_t size);
/* The request is over. The credit ends with its last event. */
void credit_unref(struct credit *c);
/* An event of @size bytes in all with what is hung on it, for a request that generates: of the
 * share if others leave room in it, else of the request's credit. NULL without memory. */
struct event_node *event_new_stream(
        struct engine *engine, struct request *request, enum engine_event_kind kind, size_t size);
/* The token's text, cut to fit. */
void event_fill_piece(struct engine *engine, struct engine_logprob *out, int32_t token);
void engine_event_log(struct engine *engine, int level, const struct err *e);
/* Copy of a register row as a conversation of the event; residency is added by
 * conv_fill_residency().
 */
int event_conv(
        struct event_node *n, struct engine_conv *out, const struct store_conv *sc, struct err *e);

/* Everything from @from to @to, which need not be initialised. */
static inline void list_move_all(struct list *to, struct list *from) {
        list_init(to);
        while (!list_empty(from)) {
                struct list *l = from->next;

                list_unlink(l);
                list_append(to, l);
        }
}

/* --- engine.c --- */
/* How memory is kept ("f16"). */
const char *engine_kv_name(const struct engine *engine);
/* verb-query.c; the strings are the engine's. */
void engine_describe_model(struct engine *engine, struct engine_model_info *ret);
/* An engine that has opened nothing yet. */
int engine_new(struct engine **ret, const struct engine_options *o, struct err *e);
/* Everything that is in memory: model, tokenizer, pool, buffers. engine->store may be NULL. */
int engine_load(struct engine *engine, struct err *e);
/* -ERR_STATE if there are spill files beside a register that is missing or empty. */
int engine_check_register(const char *path, const char *spill_dir, struct err *e);
struct spill_options engine_spill_options(struct engine *engine);
/* Tell the caller of engine_open(); the negative result ends the opening. */
int engine_tell(struct engine *engine, const struct engine_opening *o, struct err *e);

/* --- identity.c --- */
/* The hash of the weights: as the register remembers it for just this file, or by reading it. */
int identity_open_model(struct engine *engine, const struct model_options *o, struct err *e);
/* Is it the model that the options want? */
int identity_check(struct engine *engine, struct err *e);

/* --- look.c --- */
/* What looks needs the register no more. */
void look_release(struct engine *engine);

/* --- io.c --- */
int io_start(struct engine *engine, struct err *e);
void io_stop(struct engine *engine);
void io_submit(struct engine *engine, struct job *j);
/* How many workers there are going to be. */
size_t io_n_workers(void);

/* --- conv.c --- */
struct rec *rec_get(struct engine *engine, const struct store_record *r, struct err *e);
void rec_put(struct engine *engine, struct rec *rec);
int conv_new(struct conv **ret, struct engine *engine, const struct store_conv *sc,
        const int32_t *tokens, const struct store_turns *turns, struct err *e);
/* The conversation is damaged as @x says: once for each it is told in the journal. */
void conv_tell_damage(struct engine *engine, const struct store_reading *x);
/* What is left of @c is sound. */
void conv_forget_damage(struct engine *engine, struct conv *c);
/* Takes everything back, out of all tables. The conversation must not be in use. */
void conv_unload(struct engine *engine, struct conv *c);
int conv_add_turn(struct engine *engine, struct conv *c, const struct conv_turn *t, struct err *e);
/* Room for @n tokens in all; charged to the ledger (room is made by unloading idle ones). */
int conv_reserve_tokens(struct engine *engine, struct conv *c, uint32_t n, struct err *e);
int conv_set_rec(
        struct engine *engine, struct conv *c, size_t index, struct rec *rec, struct err *e);
void conv_drop_recs(struct engine *engine, struct conv *c, size_t from);
/* Take it out of / put it back into the idle list. */
void conv_use(struct engine *engine, struct conv *c);
void conv_unuse(struct engine *engine, struct conv *c);
enum chat_state conv_chat_state(const struct engine *engine, const struct conv *c);
void conv_fill_residency(struct engine *engine, const struct conv *c, struct engine_conv *out);
/* Hash of the first tokens up to the end of block @index (or of @n_tokens inside it), chained. */
uint64_t conv_token_hash(const int32_t *tokens, uint32_t block_tokens, uint32_t index,
        uint32_t n_in_block, uint64_t prev);

/* Does the record hold the memory of just these tokens? */
static inline bool record_fits(
        const struct store_record *r, uint32_t index, uint64_t hash, uint32_t n) {
        return r->index == index && r->n_tokens == n && r->token_hash == hash;
}
static inline struct spill_ref record_ref(const struct store_record *r) {
        return (struct spill_ref){r->file_key, r->offset, r->stored_size, r->raw_size, r->uid};
}
static inline struct spill_meta record_meta(const struct store_record *r) {
        return (struct spill_meta){r->block_class, r->index, r->n_tokens, r->token_hash};
}

/* --- residency.c --- */
/* Holes that nothing can fill are no memory: shorten it to what is there or on disk. */
void residency_trim(struct engine *engine, struct conv *c);
/* Drop all blocks: what has no record is lost. */
void residency_drop(struct engine *engine, struct conv *c);
/* Requests that were parked for the conversation go on, as far as they may. */
void residency_resume(struct engine *engine, struct conv *c);
/* Start to write and drop the conversation's blocks. @then (may be NULL) is called on the engine
 * thread when it is done. The conversation may be idle or held by @request. -ERR_NOMEM if not started; 1
 * (never with a request) if its blocks are being written now: try again when a job has ended. */
int residency_evict(struct engine *engine, struct conv *c,
        void (*then)(struct engine *engine, struct request *request), struct request *request,
        struct err *e);
/* The pool is full: evict the least recently used conversation. */
enum room {
        ROOM_NOW,   /* something was dropped: try again at once */
        ROOM_LATER, /* an eviction is under way: try again after the next completion */
        ROOM_NEVER  /* nothing can be evicted and nothing is under way */
};
enum room residency_make_room(struct engine *engine);
/* Blocks that the target has for requests (budget.c). */
size_t residency_capacity(struct engine *engine);
/* Blocks that requests may come to need at most: one that needs more is refused. */
size_t residency_capacity_most(struct engine *engine);
/* May active requests come to need so many blocks together, now: in the target, or beyond it
 * because the system has memory to give? */
bool residency_fits(struct engine *engine, size_t n_blocks);
/* Give back the space of records that are gone from the register. Any thread. */
void residency_release(struct engine *engine, const struct store_gone *gone);
/* A job of n_io on the conversation is over: requests that were parked for it go on. */
void residency_io_over(struct engine *engine, struct conv *c);
/* Room for @n bytes of bookkeeping: unloads idle conversations where needed. 0 or 1. */
int residency_charge(struct engine *engine, size_t n);
/* Records were taken from these conversations, which may be loaded. */
void residency_cut(struct engine *engine, const struct store_cut *cuts, size_t n);

/* --- register.c --- */
/* Opens the register and keeps others from writing. @fresh: it may be missing or empty. */
int register_open(struct engine *engine, const char *path, bool fresh, struct err *e);
/* Worker: a call that writes into the register has ended with @r. True if that was for want of
 * space and something was done about it: call it again. @tries: 0 before the first call. */
bool register_retry(struct engine *engine, unsigned *tries, int r, const struct err *e);
/* Engine thread: what register_retry() took. */
void register_take_cuts(struct engine *engine);
/* Something is no longer to be found in the register's files, soon. */
void register_removed(struct engine *engine);
/* Start what is due; returns when to call again at the latest (clock_monotonic_usec()). */
uint64_t register_step(struct engine *engine);

/* --- write.c --- */
/* What was written to disk today, as the register remembers it. */
int write_meters_read(struct engine *engine, uint64_t *written, uint64_t *day, struct err *e);

/* --- evict.c: residency_evict(), residency_make_room() --- */
/* A job that wrote blocks is over: requests to evict that waited for it try again. */
void evict_retry(struct engine *engine);

/* --- writebehind.c --- */
/* Start what is due; returns when to call again at the latest (clock_monotonic_usec()). */
uint64_t writebehind_step(struct engine *engine);

/* --- restore.c --- */
/* PHASE_RESTORE: allocate blocks, then start the read. Moves on to PHASE_PREFILL if there is
 * nothing to read. */
void residency_restore(struct engine *engine, struct request *request);
void residency_restore_abandon(struct engine *engine, struct request *request);
/* It was cancelled: read no more. It comes back to PHASE_RESTORE. */
void residency_restore_stop(struct request *request);
/* So many tokens were computed by prefill. */
void restore_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec);
/* --- pipeline.c --- */
/* A step for a request that is alone and whose memory is still arriving. True if it was computed:
 * the request is in PHASE_PREFILL with g.in_batch set, to be committed. */
bool restore_compute(struct engine *engine, struct request *request, size_t *n_rows);

/* --- layout.c --- */
int layout_make(struct engine *engine, struct err *e);
struct spill_layout layout_of(const struct engine *engine);

/* --- verbs.c --- */
void verb_start(struct engine *engine, struct request *request);
/* Let those requests go on that waited for their turn on a conversation and have it now; end those
 * that were cancelled. Once in each round of the engine thread. */
void verb_turns(struct engine *engine);
/* Go on with a request whose conversation is loaded and free of I/O. */
void verb_act(struct engine *engine, struct request *request);
/* End a request with an error, or with its final event (verb_answer()); frees it. */
void verb_fail(struct engine *engine, struct request *request, const struct err *e);
void verb_finish(struct engine *engine, struct request *request);
/* For store_read_admitted(): charges the reading to the request @arg, as its load_size. */
int verb_admit_reading(void *arg, size_t n, struct err *e);
/* The request's final event, blank, to be filled. It was made when the request came, so ending a
 * request never fails for want of memory. */
struct engine_event *verb_answer(struct request *request, enum engine_event_kind kind);
void verb_finish_empty(struct engine *engine, struct request *request);
struct request *request_free(struct request *request);
static inline struct request *request_of(struct job *j) {
        return container_of(j, struct request, job);
}
/* Give it a job of its own: of kind JOB_VERB, or another. */
void verb_submit_as(struct engine *engine, struct request *request, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
void verb_submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *));
/* A done() for jobs that leave the answer's row in request->sc. */
void verb_row_done(struct engine *engine, struct job *j);
/* Let go of the conversation; what was not committed is cut off. */
void verb_release_conv(struct engine *engine, struct request *request);
/* On with a request whose conversation is known by id (request->sc.id): it is loaded if need be. */
void verb_find_conv(struct engine *engine, struct request *request);
/* The request that is loading the conversation, or NULL. */
struct request *verb_loading(struct engine *engine, uint64_t id);

/* --- position.c --- */
/* What @r keeps of @c. @ret: zeroed; to be freed with keep_deinit(), also on failure. */
int keep_resolve(struct engine *engine, const struct conv *c, const struct engine_request *r,
        struct keep *ret, struct err *e);
/* For the register: the last kept turn if it changes, else NULL. Borrows from @k. */
const struct store_turn *keep_last(const struct keep *k, struct store_turn *out);
void keep_deinit(struct keep *k);

/* --- verb-conv.c --- */
/* Checks for new conversations. A name may be NULL or "": the register chooses one. The quota is
 * checked under create_lock, and then the row is made under the same. */
int verb_copy_name(char *dst, const char *name, struct err *e);
int verb_check_quota(struct engine *engine, uint32_t uid, struct err *e);
int verb_check_sampling(struct engine *engine, const struct sampling *s, struct err *e);
void verb_open(struct engine *engine, struct request *request);
/* Start the work on request->conv, or fail before anything was begun. */
int verb_fork(struct engine *engine, struct request *request, struct err *e);
int verb_rewind(struct engine *engine, struct request *request, struct err *e);
int verb_update(struct engine *engine, struct request *request, struct err *e);
void verb_close(struct engine *engine, struct request *request);

/* --- text.c --- */
/* Tokenising @text by tok_encode() or chat_append_message() takes so many bytes beside the tokens.
 */
size_t text_memory(const struct engine *engine, const void *text, size_t size, bool special);
/* A text so long that it is no work for the engine thread. */
static inline bool text_is_long(size_t size) {
        return size > (size_t)32 << 10;
}
void verb_tokenize(struct engine *engine, struct request *request);
void text_answer_deinit(struct request *request);

/* --- verb-query.c --- */
/* End with the conversation as the register row in request->sc says. */
void verb_finish_conv(struct engine *engine, struct request *request);
void verb_get(struct engine *engine, struct request *request);
void verb_list(struct engine *engine, struct request *request);
void verb_model_info(struct engine *engine, struct request *request);

/* --- verb-publish.c --- */
int verb_publish(struct engine *engine, struct request *request, struct err *e);

/* --- transfer.c, export.c, import.c --- */
struct transfer *transfer_free(struct transfer *x);
int verb_export(struct engine *engine, struct request *request, struct err *e);
void verb_import(struct engine *engine, struct request *request);
/* The conversation is in the register and loaded: its memory follows. */
int verb_import_memory(struct engine *engine, struct request *request, struct err *e);

/* --- share.c --- */
/* May its memory be shared at all? */
bool share_allowed(const struct conv *c);
/* The longest run of blocks that are the memory of its first tokens, of @n at most. Borrowed. */
size_t share_find(struct engine *engine, const struct conv *c, size_t n, struct seq_block **out);
/* Full blocks from @from on are new: enter what there is. */
void share_enter(struct engine *engine, struct conv *c, size_t from);
/* Blocks of the prompt that may come from elsewhere. */
size_t share_limit(const struct engine *engine, const struct request *request);
/* Take blocks behind the end, all that are in RAM. Returns how many tokens it has more or in
 * others' blocks now; they are the last ones of the sequence, and marked in g.sources. */
uint32_t share_adopt(struct engine *engine, struct request *request);
/* May a look at what others have on disk pay? */
bool share_worth_search(const struct engine *engine, const struct request *request);
/* Fills differs_at and differs_why: there was memory for the first @kept tokens. */
void share_explain(struct engine *engine, struct request *request, uint32_t kept);
/* The first c->n_published tokens of @c are everyone's: enter what is in RAM of them into the
 * public scope. Harmless to repeat. */
void share_publish(struct engine *engine, struct conv *c);
/* They no longer are, or (c->n_published > 0) fewer of them: forget the public entries of the rest.
 */
void share_unpublish(struct engine *engine, struct conv *c);

/* --- stats.c --- */
void stats_answer(struct engine *engine, struct request *request);

/* --- prompt.c --- */
/* Settings that are set replace those of @p; seed and biases are the caller's. */
void prompt_params(struct sample_params *p, const struct sampling *s);
/* Input to tokens, parameters, limits; then queued. Ends the request on error. */
void generate_start(struct engine *engine, struct request *request);
static inline bool request_is_warm(const struct request *request) {
        return request->r.verb == ENGINE_WARM;
}

/* --- edit.c --- */
/* Shorten request->conv, which the request holds, to what its cut keeps; the old end is put aside. On
 * failure nothing was changed. 0 also if nothing is dropped. */
int edit_begin(struct engine *engine, struct request *request, struct err *e);
/* The conversation is what it was before edit_begin(). Nothing if no edit is pending. */
void edit_undo(struct engine *engine, struct request *request);
/* Worker: the commit, in place of store_append(). Fills request->revision. */
int edit_store(struct engine *engine, struct request *request, const struct store_turn *turns,
        size_t n_turns, struct err *e);
/* The commit went well: forget the old end. Nothing if no edit is pending. */
void edit_done(struct engine *engine, struct request *request);
/* Drop the memory of an old end; false if there is none. */
bool edit_make_room(struct engine *engine);
/* What may be written and linked of a conversation with a pending edit: its common beginning. The
 * rest of its memory is dropped. */
void edit_before_evict(struct engine *engine, struct conv *c);
/* The register has no records of blocks from @from on any more, neither of the conversation as it
 * is nor of an old end that was put aside. */
void conv_forget_recs(struct engine *engine, struct conv *c, size_t from);

/* --- generate.c --- */
/* PHASE_RESTORE is over: decide what must be computed, tell the client. */
void generate_restored(struct engine *engine, struct request *request);
/* share_adopt() has taken more blocks of others: count what of the prompt is new by that. */
void generate_adopted(struct engine *engine, struct request *request);
/* Its share of a step was computed; @logits belong to its last token or are NULL. */
void generate_advance(struct engine *engine, struct request *request, const float *logits);
/* End generation with what is there. */
void generate_finish(struct engine *engine, struct request *request, enum engine_finish finish);
/* Give up without committing. */
void generate_abort(struct engine *engine, struct request *request, const struct err *e);
/* Cancelled: keep what was generated; without any, give up for reason @e. Not while a job of the
 * request's own is under way. */
void generate_cancel(struct engine *engine, struct request *request, const struct err *e);
/* Free what a gen holds. */
void gen_deinit(struct gen *g);

/* --- budget.c --- */
/* What "auto" gives, in bytes. @root: base/machine.h. @held: of it, what the pool has already. Any
 * thread. */
uint64_t budget_auto(const char *root, uint64_t weights_size, uint64_t held);
/* Set up and divide the ledger. The pool comes after it, but its slot size (engine->slot_size) before.
 */
int budget_open(struct engine *engine, struct err *e);
/* What to refuse @n bytes of @share with: ERR_TOO_LARGE if they would not fit even if nothing else
 * were in it, else ERR_LIMIT. Any thread; of the whole ledger the engine thread. */
enum err_code budget_code(struct engine *engine, struct ledger *share, size_t n);
/* Once, before anything runs: @n bytes of the ledger are the workers' scratch memory for good. */
int budget_set_scratch(struct engine *engine, size_t n, struct err *e);
/* What is not the pool's. */
size_t budget_reserved(struct engine *engine);
/* The least budget that has @n_blocks blocks. */
uint64_t budget_of_blocks(const struct engine *engine, size_t n_blocks);
/* A request was admitted, engine->active_blocks is up to date: the budget is no less than it needs. */
void budget_admitted(struct engine *engine);
/* Go on towards the budget that was asked for. True while memory has to be let go first. */
bool budget_step(struct engine *engine);
/* Let the pool keep what it may of freed blocks, and give back what lies idle; returns when to call
 * again at the latest (clock_monotonic_usec()). */
uint64_t budget_spare(struct engine *engine);

/* --- submit.c --- */
/* Under engine.lock: free it if it has no requests and is not kept. */
void usage_put(struct engine *engine, struct usage *u);

/* --- batch.c --- */
/* Compute what the active requests may have of one step. False if there was nothing. */
bool batch_step(struct engine *engine);

/* --- sched.c --- */
/* Its peer does not read, and it was not cancelled. */
bool sched_is_paused(struct request *request);
void sched_queue(struct engine *engine, struct request *request);
/* Out of the queue or of the active ones. */
void sched_leave(struct engine *engine, struct request *request);
/* End the waiting and active requests that were cancelled. */
void sched_cancelled(struct engine *engine);
/* One step: admit, restore, compute. True if something was computed. */
bool sched_step(struct engine *engine);
