/* SPDX-License-Identifier: MIT */
#pragma once
/* Gates of tests: a wrapped function of the engine waits before one while it is closed. Each test has
 * its own; waiting until somebody stands before it is the same for all. */
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "util/test.h"

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
