/* SPDX-License-Identifier: MIT */
#include "base/thread.h"
#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

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

/* The first thread's own: it is what somebody set from outside (taskset, CPUAffinity=), or may set meanwhile, while those of other
 * threads are what was set here. */
static bool first_thread_cpus(cpu_set_t *ret) {
        return sched_getaffinity(getpid(), sizeof(*ret), ret) == 0;
}

bool thread_keep_to_part(unsigned k, unsigned n) {
        cpu_set_t all, part;
        unsigned at = 0, count;

        assert(k < n && gettid() != getpid());
        if (!first_thread_cpus(&all))
                return false;
        count = (unsigned)CPU_COUNT(&all);
        if (count < 2)
                return false;
        n = count < n ? count : n;
        CPU_ZERO(&part);
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all) && at++ % n == k % n)
                        CPU_SET(cpu, &part);
        return sched_setaffinity(0, sizeof(part), &part) == 0;
}

void thread_keep_to_all(void) {
        cpu_set_t all;

        if (!first_thread_cpus(&all))
                memset(&all, 0xff, sizeof(all)); /* the system takes of them what there is */
        (void)sched_setaffinity(0, sizeof(all), &all);
}
