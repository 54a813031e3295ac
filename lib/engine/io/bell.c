/* SPDX-License-Identifier: MIT */
/*
 * The engine thread's bell. Another thread that leaves work for the engine thread first leaves it,
 * under the lock of that place, and then rings. The engine thread first forgets the ring and then
 * looks everywhere. So no work is left lying while the engine thread sleeps.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "engine/io/io.h"

#define IDLE_SEC 1 /* between heartbeats of an engine without work */

struct bell {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool rung;
};

struct bell *bell_new(void) {
        struct bell *b = calloc(1, sizeof(*b));
        pthread_condattr_t attr;

        if (!b)
                return NULL;
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&b->lock, NULL);
        pthread_cond_init(&b->cond, &attr);
        pthread_condattr_destroy(&attr);
        return b;
}

struct bell *bell_free(struct bell *b) {
        if (!b)
                return NULL;
        pthread_mutex_destroy(&b->lock);
        pthread_cond_destroy(&b->cond);
        free(b);
        return NULL;
}

void bell_ring(struct bell *b) {
        pthread_mutex_lock(&b->lock);
        b->rung = true;
        pthread_cond_signal(&b->cond);
        pthread_mutex_unlock(&b->lock);
}

bool bell_has_rung(struct bell *b) {
        bool rung;

        pthread_mutex_lock(&b->lock);
        rung = b->rung;
        pthread_mutex_unlock(&b->lock);
        return rung;
}

void bell_wait(struct bell *b, bool sleep, uint64_t due) {
        struct timespec until;

        pthread_mutex_lock(&b->lock);
        if (sleep && !b->rung) {
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += IDLE_SEC;
                if (due < (uint64_t)until.tv_sec * 1000000 + (uint64_t)until.tv_nsec / 1000)
                        until = (struct timespec){
                                (time_t)(due / 1000000), (long)(due % 1000000 * 1000)};
                pthread_cond_timedwait(&b->cond, &b->lock, &until);
        }
        b->rung = false;
        pthread_mutex_unlock(&b->lock);
}
