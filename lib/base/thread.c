/* SPDX-License-Identifier: MIT */
#include "base/thread.h"
#include <signal.h>

int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg) {
        sigset_t all, old;
        int r;

        /* What the caller blocks is inherited: there is no moment in which the thread takes any. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(ret, attr, fn, arg);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        return r;
}
