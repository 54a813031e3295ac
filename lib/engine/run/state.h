/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor, and functions that its files share. */
#include <stdatomic.h>

#include "draft/draft.h"
#include "engine/run/cost.h"
#include "engine/run/pace.h"
#include "engine/run/run.h"
#include "grammar/grammar.h"
#include "kern/kern.h"
#include "sample/sample.h"
#include "tok/tok.h"

/* The parts of a reply that is generated (parts.c). */
struct reply_parts {
        struct chat_reply *reader; /* NULL: not wanted */
        struct parts parts;        /* read, and not sent */
        struct buf waiting;        /* tokens whose text may not be sent yet */
        size_t released;           /* bytes that may be, of tokens that wait */
        size_t taken;
        bool ended;
};

/* What a client reads of a reply (text.c). */
struct reply_text {
        const char *const *stops; /* [n_stops], borrowed */
        size_t n_stops;
        struct tok_stream stream;
        struct buf held; /* text that may be the beginning of a stop string */
        struct buf text; /* all text that may be sent */
        struct reply_parts parts;
        const char *stop; /* the stop string that ended it, of `stops` */
};

/* A turn of the input. */
struct input_turn {
        struct conv_turn turn;
        /* [n], what it is made of: one message, or several of tools; NULL: raw text or tokens. */
        const struct engine_message *messages;
        size_t n;
        struct engine_result *results; /* [n_results], of tools, with names; borrows strings */
        size_t n_results;
        struct buf said,
                extra; /* text and extra in the register, if not the message's text, none */
};

/* Drafts for a reply (speculate.c). */
#define SPECULATE_MOST 15 /* drafted tokens of a request in one step */
#define SPECULATE_LEVELS 5

struct speculation {
        struct draft *index; /* NULL: the request does not speculate */
        size_t charged;      /* bytes in the request's charge, for the index */
        uint32_t n_indexed;  /* tokens of the memory that the index has */
        /* Of the present step: the draft, and how many tokens before it were found to match. */
        int32_t tokens[SPECULATE_MOST];
        uint32_t n;
        size_t match;
        /* What came of drafted tokens, by how many tokens before them matched: counts that fade. */
        struct {
                double tried, taken;
        } levels[SPECULATE_LEVELS];
        uint32_t n_drafted, n_accepted; /* tokens, of the whole reply */
};

/* What watchers know of the turn (tell.c). */
struct turn_told {
        bool begun;
        uint64_t owner;
        uint64_t conv, revision; /* as it was told to begin */
};

/* The state of a Continue or Warm. */
struct generation {
        struct tok_ids input;
        size_t n_invites; /* tokens at its end that invite the reply */
        /* tools.c */
        char *tools; /* definitions that hold for the reply, or NULL */
        size_t tools_size;
        const char *told; /* those that the input's first turn tells anew, or NULL: borrowed */
        struct engine_part *calls; /* of the last reply */
        /* input.c */
        struct input_turn *input_turns; /* [n_input_turns] */
        size_t n_input_turns;
        struct store_turn *rows; /* [n_input_turns + 1] */
        struct engine_message
                single; /* the input, if it is one message; borrows from the request */
        struct sample_params params;
        struct sample_bias *biases;
        uint64_t seed;
        uint32_t n_before;  /* tokens of the transcript when it came */
        uint32_t n_history; /* tokens of the memory before the input */
        uint32_t n_prompt;  /* memory + input + reply start */
        uint32_t wanted;    /* max_tokens */
        uint32_t max_new;
        /* The memory that the request needs: see conv/shift.c. */
        struct shift_need need;
        struct gap gap;
        uint32_t n_dropped; /* tokens that it drops from the memory */
        bool was_told;      /* the journal knows that it waits for system memory */
        bool context_bound; /* the context or the pool reduced max_new */
        struct conv_turn reply_turn;
        bool has_reply_turn;
        /* commit.c: the input's way into the register. */
        enum { NOT_STORED, STORING, STORED } storing;
        struct store_work work; /* that goes with the reply */
        struct job input_job;
        struct request *request; /* of input_job */
        struct list early;       /* events that wait for it */
        uint32_t n_generated;
        struct recall recall;
        uint32_t n_ram, n_disk, n_shared; /* tokens of the prompt by where they came from */
        uint32_t n_kept;                  /* the sum of these when it was accepted */
        uint32_t n_reached; /* tokens of the prompt that were found or computed at some time */
        uint32_t differs_at;
        enum engine_differs differs_why;
        size_t need_size; /* bytes of memory that it may come to need */
        struct checkpoint_plan plan;
        struct reply_text reply;
        bool begun;            /* the input is in the conversation's tokens */
        bool accepted;         /* the client was told */
        bool goes_on;          /* the reply goes on with an open one */
        struct list followers; /* of attach.c */
        enum engine_finish finish;
        uint32_t in_batch;             /* tokens in the present step */
        struct constraint *constraint; /* or NULL: a reference */
        struct grammar_state state;    /* of the constraint, behind all tokens so far */
        struct speculation speculation;
        uint64_t t_admitted, t_restored, t_prefilled, t_last_progress;
        uint64_t t_token; /* of the last token of the reply; 0: there is none */
        uint64_t t_storing,
                t_stored; /* when the present, or last, commit began; its job was over */
        struct turn_told told_turn;

        /* What sched.c does with the request after the step. */
        enum generation_end {
                GOES_ON,
                ENDED, /* commit; the reason is in `finish` */
                FAILED /* fail; the error is in `why` */
        } end;
        struct err why;

        /* sched.c */
        struct user *user;
        uint64_t order;          /* of arrival */
        bool incoming, outgoing; /* got its place in this step; is to be parked for another */
        /* Tokens computed since it has its place; n_new() when it got the place. */
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

/* A compiled constraint (constraint.c). */
struct constraint {
        struct list link; /* in run.constraints */
        struct charge charge;
        enum engine_constraint kind;
        char *text;
        size_t size;
        struct grammar *grammar;
        unsigned n_refs; /* requests */
};

/* A user's requests of one class, interactive or background. Places (sched.c) and steps (batch.c)
 * are shared between flows. All zeros: a user who has had nothing yet. */
struct flow {
        uint32_t n_requests; /* queued or active */
        int64_t service;     /* tokens computed for it (rule 5 of sched.c) */
        double debt;         /* tokens beyond its share of steps */
        bool works;          /* had requests at the last look */
        bool fresh;          /* came to work anew, and had no token since (rule 5) */
        bool prompts_turn;   /* steps of one token: the last one was a prompt's */
        /* Filled by look() of sched.c: places held, and the next request in the queue. */
        uint32_t n_places;
        struct request *next;
        /* Of the step that is being built: requests by phase, tokens wanted, tokens put in. */
        uint32_t n_decode, n_prefill, wanted, used;
};

struct user {
        uint64_t owner;
        struct list link;    /* in run.users */
        struct flow flow[2]; /* [1]: background */
};

struct run {
        void (*between)(struct engine *engine); /* see run_set_between() */
        struct model_work *work;
        struct sample_work *sampler;
        struct model_token *batch;   /* [max(batch_tokens, max_active)] */
        struct request **batch_rows; /* [max_rows], request per output row */
        uint32_t max_rows;           /* rows with logits in one step */
        /* The same for steps of replies between layers of prompts, all [max_active]; NULL if prefill_share is
         * 100: then there are none. */
        struct model_work *reply_work;
        struct model_token *reply_batch;
        struct request **reply_rows;
        uint64_t replied;  /* when replies last had a step */
        struct list queue; /* requests waiting for a place, in order of arrival */
        struct list active;
        size_t n_active, active_size;
        struct list users;     /* the users that sched.c remembers */
        struct list followers; /* of attach.c */
        int64_t floor[2];      /* least service of the working flows, by class */
        uint64_t next_order;
        struct cost cost;     /* of steps */
        uint32_t n_together;  /* steps in which prompts went along with replies */
        double credit_usec;   /* of such steps (pace.h) */
        unsigned n_brief;     /* steps that are still to be brief (batch.c, rule 7) */
        uint64_t brief_owner; /* if they are this one's */
        /* speculate.c */
        atomic_bool speculates; /* the setting */
        struct cost row_cost;   /* of steps in which every row has logits */
        unsigned n_declined;    /* drafts that were too dear, since the last trial */
        /* constraint.c */
        struct list constraints;     /* least recently used first */
        struct grammar_vocab *vocab; /* made by the thread that tokenises, when first needed */
        uint64_t *mask;              /* a bit for each token */
};

static inline struct flow *flow_of(const struct request *request) {
        return &generation_in(request)->user->flow[request->r.background];
}

/* --- sched.c --- */

/* Put the request into the queue for a place. -ERR_NOMEM. */
int sched_queue(struct engine *engine, struct request *request, struct err *e);

/* --- step.c --- */

/* Compute one step for the active requests and process the results. Requests that end are marked
 * (generation.end). False if there was nothing to compute. */
bool step_run(struct engine *engine);

/* --- speculate.c --- */

/* The step so far, for all requests that may get drafts. */
struct speculate_step {
        uint32_t n_rows;     /* all with logits, drafts among them */
        uint32_t n_requests; /* that have rows */
        double depth;        /* the keys that a row looks at, on average */
};

/* The request has found its memory: make an index, if it may speculate. Never fails: without memory
 * there are no drafts. */
void speculate_begin(struct engine *engine, struct request *request);
void speculate_deinit(struct request *request);
/* Whether drafts are wanted at all. */
bool speculate_is_on(const struct engine *engine);
/* Draft up to @most tokens for a generating request that has one row in the step, as many as pay, and
 * reserve their positions. They are in generation.speculation; returns how many, which may be 0. */
uint32_t speculate_draft(struct engine *engine, struct request *request,
        const struct speculate_step *step, uint32_t most);
/* Whether the token that was chosen last is number @i of the draft, and the next one may be chosen now. */
bool speculate_holds(struct engine *engine, struct request *request, uint32_t i);
/* The first @n_taken tokens of the draft hold: count, learn, and give the other positions back. */
void speculate_end(struct engine *engine, struct request *request, uint32_t n_taken);
/* A step of @n_rows rows, all with logits, took @usec. */
void speculate_note(struct engine *engine, uint32_t n_rows, double depth, uint64_t usec);

/* --- constraint.c --- */

/* The request's constraint among those that are compiled; takes a reference. False: it must be
 * compiled. */
bool constraint_find(struct engine *engine, struct request *request);
/* Compile it. On the thread that tokenises. -ERR_INVALID and others: see engine_request. */
int constraint_compile(struct engine *engine, struct request *request, struct err *e);
/* It was compiled: others may use it. */
void constraint_enter(struct engine *engine, struct request *request);
void constraint_put(struct engine *engine, struct constraint *k);
void constraints_free(struct run *run);
/* The state at the beginning of the reply, or behind what an open reply already has. */
int constraint_start(struct engine *engine, struct request *request, struct err *e);
/* The next token of a reply with a constraint, from @logits; the state takes its text. 0; 1: the
 * text is complete, and no token that ends the reply may be chosen; or an error. */
int constraint_sample(struct engine *engine, struct request *request, const float *logits,
        int32_t *ret, struct err *e);

/* Choose a token, of those in @mask if that is not NULL. */
int32_t constraint_choose(
        struct engine *engine, struct request *request, const float *logits, const uint64_t *mask);

/* --- input.c --- */

/* The role of the input's first turn; ENGINE_RAW: without messages. */
enum engine_role input_first_role(const struct engine_request *r);
/* Whether definitions of tools can be told with the input. */
bool input_tells(const struct engine_request *r);
/* Whether the input is too long to be tokenised on the engine thread. */
bool input_is_long(const struct engine_request *r);
/* Find out which turns the input becomes. Any thread. -ERR_LIMIT, -ERR_TOO_LARGE, -ERR_NOMEM. */
int input_begin(struct request *request, struct err *e);
/* Fill generation.input, n_invites, where the turns begin and end, and the role and start of the
 * reply's turn. @tail: of the memory before the input. May be called again. Any thread, while the
 * conversation is held. -ERR_INVALID, -ERR_CONTEXT, and as chat_append(). */
int input_make(struct engine *engine, struct request *request, const struct chat_tail *tail,
        struct err *e);
/* Where checkpoints go that turns before the input's last one end with; @plan has the others. */
void input_plan(const struct request *request, struct checkpoint_plan *plan);
/* Fill generation.rows with the input's turns, for the register: the first n_input_turns of them. Any
 * thread. */
void input_fill_rows(struct request *request, uint64_t now_usec);
/* The turns are in the register: add them to the conversation. Fails as conv_add_turn(). */
int input_add_turns(struct engine *engine, struct request *request, struct err *e);
/* "message 3: " in front of the error, if the input has several; returns @r. */
int input_wrap(const struct request *request, const struct engine_message *m, int r, struct err *e);
void input_deinit(struct generation *g);

/* --- tools.c --- */

/* Whether tools_prepare() must read the register, or definitions: then it runs in a job. */
bool tools_need_job(const struct request *request);
/* Find the definitions that hold, and the calls that the results answer; make the text and the extra of
 * the input's turns. After input_begin(), before the input is rendered. Any thread. -ERR_INVALID and
 * others: see engine_request. */
int tools_prepare(struct engine *engine, struct request *request, struct err *e);

/* --- text.c --- */

/* @t is zeroed; borrows @stops. */
void reply_text_init(
        struct reply_text *t, struct charge *charge, const char *const *stops, size_t n_stops);
void reply_text_deinit(struct reply_text *t);
/* The next token. @is_end: it ends the generation, and has no text. *ret_n: so many bytes of the held text
 * may be sent. At a stop string t->stop is set. -ERR_NOMEM, -ERR_LIMIT, -ERR_TOO_LARGE. */
int reply_text_push(const struct engine *engine, struct reply_text *t, int32_t token, bool is_end,
        size_t *ret_n);
/* The first @n bytes of the held text become the last ones of t->text, and their parts are read. */
int reply_text_release(struct reply_text *t, size_t n);
/* No token follows, and the text did not end at a stop string: the rest may be sent. */
int reply_text_finish(struct reply_text *t, size_t *ret_n);
/* What is held is never sent. */
void reply_text_drop(const struct engine *engine, struct reply_text *t);

/* --- tell.c --- */

/* The input is accepted, or a reply without input begins: tell watchers, once. Nothing for Warm. */
void tell_turn_begun(struct engine *engine, struct request *request);
/* The turn that has begun is over, and durable; @finish NONE: it failed. Nothing if none has begun, or
 * after the first call. The revision is request.revision, or if that is less, the one at the begin. */
void tell_turn_ended(struct engine *engine, struct request *request, enum engine_finish finish);

/* --- parts.c --- */

void reply_parts_init(struct reply_parts *p, struct charge *charge);
void reply_parts_deinit(struct reply_parts *p);
/* Where a reply stands. */
struct reply_from {
        const struct conv *conv;
        const char *tools; /* definitions that hold for it, or NULL */
        size_t tools_size;
        struct charge *charge;
        uint32_t n_turns; /* turns before it */
        uint32_t begin;   /* in the transcript: its first token behind those that invite it */
        const int32_t *header;
        size_t n_header; /* the tokens that invite it; 0: there are none */
        bool goes_on;    /* it goes on with the open reply before it */
};
/* Read parts of it. Fails as chat_reply_new(). Any thread, while the conversation is held. */
int reply_parts_open(
        struct engine *engine, struct reply_parts *p, const struct reply_from *from, struct err *e);
/* The input is made: begin to read the reply, if the client wants parts. Any thread. Fails as
 * chat_reply_new(). */
int reply_parts_begin(struct engine *engine, struct request *request, struct err *e);
/* A token of the reply, which adds @n_text bytes to the text. -ERR_NOMEM, -ERR_LIMIT. */
int reply_parts_wait(struct reply_parts *p, int32_t token, size_t n_text, bool joined);
/* @n_text more bytes of the text may be sent: read the tokens that they are of. */
int reply_parts_release(struct reply_parts *p, size_t n_text, struct err *e);
/* The reply is over. @stopped: by a stop string; @text: all text that was sent. */
int reply_parts_end(struct reply_parts *p, const struct buf *text, bool stopped, struct err *e);
/* What was read and not sent is not sent, nor anything after it. */
void reply_parts_drop(struct reply_parts *p);
/* What was read since, as one block of *ret_size bytes that are charged to the request; NULL: nothing
 * was. */
int reply_parts_take(struct reply_parts *p, struct engine_part **ret, size_t *ret_n,
        size_t *ret_size, struct err *e);

/* --- generate.c --- */

/* The recall is over: decide what must be computed, tell the client. May mark the request. */
void generate_restored(struct engine *engine, struct request *request);
/* share_adopt() has taken more blocks of others: count the tokens of the prompt gained by that. */
void generate_adopted(struct engine *engine, struct request *request);
/* The request's tokens of a step were computed; @logits: of the last one, or NULL. May mark it. */
void generate_advance(struct engine *engine, struct request *request, const float *logits);
/* A step has brought @n tokens of the reply, at least one. */
void generate_measure(struct engine *engine, struct request *request, uint32_t n);
/* The figures of Accepted (figures.c). */
void generate_fill_accepted(const struct request *request, struct engine_event *ret);
/* The rest of the held text was no beginning of a stop string: send it. -ERR_NOMEM, -ERR_LIMIT. */
int generate_flush(struct engine *engine, struct request *request);
/* Mark the request: it ends after the step (mark.c). */
void generate_end(struct request *request, enum engine_finish finish);
/* How the reply was made until now, for its turn (figures.c). The model's name is the engine's. */
struct figures generate_figures(const struct engine *engine, struct request *request);
void generate_fail(struct request *request, const struct err *e);
/* The request is cancelled: it ends with what was generated, or fails with @e if it was not accepted. */
void generate_cancel(struct request *request, const struct err *e);

/* --- commit.c --- */

/* Begin to store the input, if there is any. */
void commit_input(struct engine *engine, struct request *request);
/* The request was accepted: tell others than its client. */
void commit_accepted(struct engine *engine, struct request *request);
/* Send an event of the request, once its input is stored. */
void commit_tell(struct engine *engine, struct request *request, struct event_node *n);
void commit_deinit(struct generation *g);
/* In a job: fill in the chains of the turns, append them and their tokens @from to @to of the memory. The first commit of a request
 * also drops what it replaces. Fails as store_append(). */
int commit_store(struct engine *engine, struct request *request, struct store_turn *turns, size_t n,
        uint32_t from, uint32_t to, struct err *e);
/* Behind the job: the register has the first @n tokens of the memory; or it failed with @r, and RAM may
 * differ from a register that was written into a file that was replaced. */
void commit_stored(struct engine *engine, struct request *request, uint32_t n);
void commit_failed(struct conv *c, int r);
/* The commit between generation.t_storing and t_stored is done. */
void commit_measure(struct engine *engine, const struct request *request);

/* --- close.c --- */

/* Carry out the end of a request that is in no list any more: commit, or fail. */
void generate_close(struct engine *engine, struct request *request);

/* --- attach.c: followers of a reply --- */

/* The request was accepted, has chosen a token, is done (@done: its figures), or ends otherwise. */
void attach_accepted(struct engine *engine, struct request *request);
void attach_token(struct request *request, int32_t token);
void attach_done(struct engine *engine, struct request *request, const struct engine_event *done);
void attach_lost(struct engine *engine, struct request *request);
