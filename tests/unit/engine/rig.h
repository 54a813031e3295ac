/* SPDX-License-Identifier: MIT */
#pragma once
/* Drives an engine the way the daemon does, for tests: one request after another, or many. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "util/sanitize.h"

struct store;

/* Rounds of a test: fewer where everything takes ten times as long. */
#if TEST_TSAN
#define ERIG_ROUNDS(many, few) (few)
#else
#define ERIG_ROUNDS(many, few) (many)
#endif

/* What one request led to. Large: not on the stack. */
struct answer {
        bool final;                  /* it has ended */
        bool refused;                /* by engine_submit(); err tells why */
        enum engine_event_kind kind; /* of the final event */
        struct err err;
        struct engine_conv conv; /* CONV, FOUND; without name, turns and tokens */
        struct engine_found found;
        char name[ENGINE_NAME_MAX + 1];
        uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed, n_generated;
        uint32_t n_drafted, n_accepted;
        uint32_t done_ram, done_disk, done_shared, done_computed; /* as they turned out */
        uint32_t differs_at;
        enum engine_differs differs_why;
        uint32_t n_dropped;
        bool accepted;
        enum engine_finish finish;
        uint64_t revision, seed;
        char text[16384];
        size_t n_tokens;
        int32_t tokens[2048];
        float logprobs[2048];
        char pieces[16384]; /* the texts of tokens, those with log-probabilities */
        size_t pieces_size;
        size_t piece_ends[2048];  /* of `pieces`, after each token */
        size_t ends[2048];        /* of the text, after each token */
        uint32_t positions[2048]; /* of the delta with the token */
        char stop[64];            /* Done: the stop string, or empty */
        char parts[16384];        /* deltas with parts: see erig_put_parts() */
        uint32_t n_calls;         /* Done */
        size_t n_deltas, n_progress;
        int32_t *history; /* GET with want_tokens: [n_history], owned, see answer_reset() */
        uint32_t n_history;
        bool damaged; /* GET: from this turn on */
        uint32_t damaged_turn;
        bool told;                 /* ERROR: the journal knows */
        struct engine_turn *turns; /* GET with want_turns: [n_turns], owned too */
        uint32_t n_turns;
        char *tools;                    /* likewise, or NULL */
        struct engine_writing *writing; /* GET: owned too, or NULL */
        struct about *about;            /* CONV: owned, or NULL */
        int fd;                         /* EXPORTED: owned, 0 if none */
        uint64_t size;                  /* likewise; BYTES: of them, which are in `text` */
        uint32_t n_memory;
        uint64_t owner;                   /* OWNER */
        uint64_t used[QUOTA_N];           /* USED */
        char tenant[ENGINE_NAME_MAX + 1]; /* CONV: its label, or empty */
        struct engine_meters meters;      /* STATS_RESULT, with want_meters */
        struct engine_user users[8];      /* USERS_RESULT, STATS_RESULT: [n_users] */
        size_t n_users;
        bool more;
        uint64_t after_value;
        struct engine_checked checked;                        /* CHECKED: the problems are owned */
        uint64_t n_convs, n_tokens_acted, n_requests, n_busy; /* USER_ACTED; DRAINED: n_requests */
};
void answer_reset(struct answer *a);

struct erig {
        struct engine *en;
        struct engine_options o;
        char dir[64]; /* its state folder, removed by erig_close() */
        uint64_t next;
        int silence_msec; /* how long the engine may say nothing before a wait fails */
        bool stopped;     /* ENGINE_STOPPED came */
        unsigned n_logs, n_logged[ENGINE_N_LOGS];
        char log[512];   /* the last one */
        char logs[4096]; /* all, cut to fit */
        struct erig_open {
                uint64_t handle;
                enum engine_verb verb;
                struct answer *a;
        } open[128]; /* requests in flight */
        size_t n_open;
        /* Called for each notice of a watch. */
        void (*on_notice)(void *arg, const struct engine_event *ev);
        void *on_notice_arg;
};

/* The bundled model's path, or NULL (skip aloud). */
const char *erig_model(void);
/* Skips the test if there is no model. */
void erig_need_model(void);
/* One thread, no floor, codec KV. */
struct engine_options erig_options(uint64_t pool_size);
/* A pool size that has just @n blocks of the bundled model, or of another one (of attention, if it has
 * attention). */
uint64_t erig_pool(uint32_t n);
uint64_t erig_pool_of(const char *model, uint32_t n);
/* With a state folder of its own, and the bundled model unless @o names one: skips the test if that
 * is not there. */
void erig_open(struct erig *r, const struct engine_options *o);
/* Stop as a clean shutdown does (@clean), or as kill -9. Events that come meanwhile are taken. */
void erig_stop(struct erig *r, bool clean);
void erig_start(struct erig *r);
/* Stop and start on the same folder. */
void erig_restart(struct erig *r, bool clean);
void erig_close(struct erig *r);

/* Send; the answer fills while events are taken and must stay where it is until it is final. */
void erig_send(struct erig *r, struct engine_request *q, struct answer *a);
/* Take one event, waiting for it. */
void erig_step(struct erig *r);
/* Those that are there, without waiting. */
void erig_take_all(struct erig *r);
void erig_wait(struct erig *r, struct answer *a);
/* Until it is accepted. Its revision is that of the input then. */
void erig_wait_accepted(struct erig *r, struct answer *a);
/* Send and collect until the final event. @a may be NULL. Returns the final event's kind. */
enum engine_event_kind erig_do(struct erig *r, struct engine_request *q, struct answer *a);
/* Several at the same time. */
void erig_do_all(struct erig *r, struct engine_request *q, struct answer *a, size_t n);
uint64_t erig_stat(struct erig *r, const char *name);
/* Until the figure is @least or more. Returns it. For what the engine does in the background; to ask
 * waits for the engine thread's turn, or a layer of its step, so nothing is lost by asking again at once. */
uint64_t erig_wait_stat(struct erig *r, const char *name, uint64_t least);
/* Several, of one moment. */
void erig_stats(struct erig *r, const char *const *names, uint64_t *values, size_t n);
/* The ledger is within its budget, and always was. */
void erig_check_budget(struct erig *r);
/* Nothing is left of the memory of conversations: to be called after the last was closed. */
void erig_check_empty(struct erig *r);
/* The register of @r, opened as another program would: to be freed. While the engine runs it is open for writing, since
 * who only reads wants the register alone (store_open_readonly()). */
struct store *erig_register(const struct erig *r);
/* The register keeps its invariants (store_check()): as it is while the engine runs, or after a
 * clean stop, with a start behind it. */
void erig_look_at_register(struct erig *r);
void erig_check_register(struct erig *r);
/* Wait until the engine does nothing but beat, without taking an event. */
void erig_settle(struct engine *engine);

/* A request of that verb and nothing else: neither a turn nor a position is named. */
struct engine_request erig_request(enum engine_verb verb, uint64_t conv);
enum engine_event_kind erig_simple(
        struct erig *r, enum engine_verb verb, uint64_t conv, struct answer *a);
uint64_t erig_new(struct erig *r, const char *name, const char *system);
/* Of all of it. */
uint64_t erig_fork(struct erig *r, uint64_t conv);
/* With turns and tokens. */
void erig_get(struct erig *r, uint64_t conv, struct answer *a);
/* Greedy, with log-probabilities. */
struct engine_request erig_say_request(uint64_t conv, const char *text, uint32_t max_tokens);
/* The same, and the reply has just so many tokens. */
struct engine_request erig_long_request(uint64_t conv, const char *text, uint32_t max_tokens);
/* Stop, lose all spill files, start: the conversations stay. */
void erig_forget_memory(struct erig *r);
void erig_say(
        struct erig *r, uint64_t conv, const char *text, uint32_t max_tokens, struct answer *a);
/* What is answered in a conversation of its own, in an engine of its own. */
void erig_alone(struct engine_request q, struct answer *a);
/* A raw turn of the @n tokens from @first on, one above the other; of a text; without a reply. */
void erig_append_tokens(struct erig *r, uint64_t conv, int32_t first, size_t n);
void erig_append_raw(struct erig *r, uint64_t conv, const char *text);
/* Another user says these tokens: how many of them it does not have to compute. */
uint32_t erig_others_get(struct erig *r, uint64_t owner, const int32_t *tokens, size_t n);
/* @n words, others for another @salt. Good until 32 more were made. */
const char *erig_words(unsigned n, unsigned salt);

/* Append parts, or news of them, to a text of @size bytes: "text:Hi.", "call f 123456789:{}.", where the
 * dot tells that a part has ended, and "!sentence" that it is broken. */
void erig_put_parts(char *text, size_t size, const struct engine_part *parts, size_t n);

/* Same tokens, log-probabilities and text. */
void answer_same(const struct answer *a, const struct answer *b);
/* Of erig_get(): same tokens and turns, byte for byte. */
void answer_same_history(const struct answer *a, const struct answer *b);
