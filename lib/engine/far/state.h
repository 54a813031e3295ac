/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor. */
#include <pthread.h>

#include "base/charge.h"
#include "engine/far/far.h"

enum { FAR_FORGET_MAX = 8192 };

struct known_secret {
        uint64_t owner;
        bool is;
        uint8_t secret[STORE_SECRET_SIZE];
};

/* Bringing one conversation there, or removing it. */
struct push {
        struct job job;
        uint64_t owner, conv;
        bool is_private;
        bool removes; /* the conversation is closed */
        bool is_late; /* late.c: all that is above is read from the register, but conv, which is 0 in a walk */
        bool is_walk;
        uint64_t before; /* a walk looks for the next one below it */
        int32_t *tokens;
        uint32_t n_tokens;
        struct store_record *records; /* [n] */
        size_t n;
        struct charge charge; /* among the requests: like them it passes */

        /* On its thread. */
        struct far_scope scope;
        struct far_contents old, now;
        bool *there;                /* [now.n] */
        struct store_record **from; /* [now.n]: the record of the cell */
        uint8_t *buffer;
        size_t capacity;
        bool day_is_full;
        bool register_failed; /* and not the remote store */
};

struct late {
        bool walks;
        uint64_t before; /* so far */
};

struct far {
        atomic_bool stop;
        /* Not to be asked before (clock_monotonic_usec()). The engine thread sets it. */
        atomic_uint_fast64_t t_up;
        uint32_t keep_sec, share; /* percent */
        uint64_t writes_per_day;  /* bytes; 0: no limit */

        /* engine thread */
        uint64_t pause_usec; /* the next pause */
        uint64_t n_failures; /* calls */
        bool failed;         /* this was told, and nothing has worked since */
        struct push *push;   /* the one under way */
        uint64_t t_push;     /* none begins before */
        struct late late;
        struct gone {
                uint64_t owner, conv;
                bool is_private;
        } gone[FAR_FORGET_MAX]; /* closed conversations */
        size_t n_gone;

        pthread_mutex_t lock;
        pthread_cond_t cond; /* far_stop(), far_hurry() */
        /* under lock */
        uint64_t hurry; /* the conversation that somebody waits for; 0: none */
        struct known_secret secrets[64];
        uint64_t written_today, day;
        struct far_figures figures;
};

/* Begin the walk of late.c. */
static inline void late_open(struct far *f) {
        f->late = (struct late){.walks = true, .before = INT64_MAX};
}

/* --- room.c --- */

/* A push that is charged for @size bytes; NULL: there is no room. */
struct push *push_new(struct engine *engine, size_t size);
/* Bytes that a push of so many tokens and records allocates at most. */
size_t push_size(const struct engine *engine, size_t n_tokens, size_t n_records);
struct push *push_free(struct push *push);

/* --- late.c --- */

/* Those that are still to be looked at; the rest of the walk counts as one. Engine thread, as the next two. */
size_t late_n_pending(const struct engine *engine);
/* The next one, owned; NULL: there is none, or no room for it. */
struct push *late_next(struct engine *engine);
/* It has ended; or it is to be made @again later. */
void late_done(struct engine *engine, const struct push *push, bool again);
/* On its thread: fill in what is read from the register. 1: there is nothing to bring. Fails as store_read_admitted(), with
 * register_failed, and as remote_get(). */
int late_read(struct engine *engine, struct push *push, struct err *e);
/* Add to now what is right in the old table (rule 4). -ERR_NOMEM. */
int late_merge(struct engine *engine, struct push *push, struct err *e);

/* --- contents.c --- */

/* Whether one of the cells has this name. */
bool far_contents_has(const struct far_contents *c, const struct far_cell *cell);
/* The order of a table. */
int far_compare_cells(const struct far_cell *a, const struct far_cell *b);

/* --- meters.c --- */

/* Bytes that were sent today, as the register remembers them, and for it to remember. */
int far_meters_read(struct engine *engine, struct err *e);
void far_meters_write(struct engine *engine);
/* Under the lock: what was sent on another day than today's (quota_day()) does not count. */
void far_turn_day(struct far *f);
/* Whether @size more bytes may be sent today; and they were. Any thread. */
bool far_day_allows(struct far *f, uint64_t size);
void far_note_sent(struct far *f, uint64_t size);
