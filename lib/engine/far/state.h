/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor. */
#include <pthread.h>

#include "engine/far/far.h"

enum { FAR_FORGET_MAX = 8192 };

struct known_secret {
        uint64_t owner;
        bool is;
        uint8_t secret[STORE_SECRET_SIZE];
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

/* --- meters.c --- */

/* Bytes that were sent today, as the register remembers them, and for it to remember. */
int far_meters_read(struct engine *engine, struct err *e);
void far_meters_write(struct engine *engine);
/* Under the lock: what was sent on another day than today's (quota_day()) does not count. */
void far_turn_day(struct far *f);
/* Whether @size more bytes may be sent today; and they were. Any thread. */
bool far_day_allows(struct far *f, uint64_t size);
void far_note_sent(struct far *f, uint64_t size);
