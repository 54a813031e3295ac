/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Gates of tests: a wrapped function calls gate_pass(), and waits there while the gate is closed. So
 * a test has the engine, or one of its workers, where it wants them.
 */
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "util/test.h"

struct gate {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool closed, held; /* held: somebody stands before it */
        unsigned passes;   /* so many pass before it is closed */
        unsigned n_opened; /* times that those before it were let go */
};
#define GATE_INIT                                                                                  \
        { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER }

/* Until *held, which is set under @lock and told by @cond. Fails after a minute. */
static inline void gate_await(pthread_mutex_t *lock, pthread_cond_t *cond, const bool *held) {
        struct timespec ts;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 60;
        pthread_mutex_lock(lock);
        while (!*held && r == 0)
                r = pthread_cond_timedwait(cond, lock, &ts);
        pthread_mutex_unlock(lock);
        assert_int_equal(r, 0);
}

/* --- in the wrapped function --- */

static inline void gate_pass(struct gate *gate) {
        unsigned before;

        pthread_mutex_lock(&gate->lock);
        if (gate->closed && gate->passes > 0) {
                gate->passes--;
        } else if (gate->closed) {
                gate->held = true;
                pthread_cond_broadcast(&gate->cond);
                before = gate->n_opened;
                while (gate->n_opened == before)
                        pthread_cond_wait(&gate->cond, &gate->lock);
        }
        pthread_mutex_unlock(&gate->lock);
}

/* --- in the test --- */

/* After @passes more passes. */
static inline void gate_close(struct gate *gate, unsigned passes) {
        pthread_mutex_lock(&gate->lock);
        gate->closed = true;
        gate->passes = passes;
        pthread_mutex_unlock(&gate->lock);
}

/* Until somebody stands before it. */
static inline void gate_wait(struct gate *gate) {
        gate_await(&gate->lock, &gate->cond, &gate->held);
}

static inline void gate_let_go(struct gate *gate, bool closed) {
        pthread_mutex_lock(&gate->lock);
        gate->closed = closed;
        gate->held = false;
        gate->n_opened++;
        pthread_cond_broadcast(&gate->cond);
        pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate) {
        gate_let_go(gate, false);
}

/* Who stands before it passes; the next one does not. */
static inline void gate_step(struct gate *gate) {
        gate_let_go(gate, true);
}
