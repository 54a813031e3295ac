/* SPDX-License-Identifier: MIT */
/*
 * Threads for very short parallel regions: a token takes around a hundred regions, many only a few
 * microseconds long.
 *
 * A region is one word, `left`: the number of tasks that no thread has taken. A thread that
 * decrements it owns a task; 0 means that there is nothing to do. The caller works as well, so a
 * worker that the kernel has not scheduled delays nobody.
 *
 * 1. fn, arg and n_tasks are written only while left and pending are 0, and read only by owners of
 *    a task. A thread that decrements `left` late, in the next region, simply owns a task of that
 *    region.
 * 2. `pending` is the number of unfinished tasks; the region ends when it is 0.
 * 3. Both words are futexes. Waiters spin for SPIN_USEC first, because the next region of a token
 *    usually starts within that time, and the last task of a batch's region ends; then they sleep,
 *    so an idle pool uses no CPU. Before sleeping a thread raises its flag and has the kernel compare
 *    the word; the other side changes the word before it reads the flag (all sequentially
 *    consistent), so no wake-up is lost.
 */
#include "kern/kern-isa.h"
#include "kern/cpu.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "base/util.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define SPIN_USEC 200
#define STOP UINT32_MAX
#define CACHE_LINE 64

struct kern_worker {
        struct kern_pool *pool;
        pthread_t thread;
        unsigned index;
};

struct kern_pool {
        alignas(CACHE_LINE) _Atomic uint32_t left;
        alignas(CACHE_LINE) _Atomic uint32_t pending;
        alignas(CACHE_LINE) _Atomic uint32_t n_sleeping;
        _Atomic uint32_t caller_sleeps;
        alignas(CACHE_LINE) void (*fn)(void *arg, size_t task, unsigned thread);
        void *arg;
        uint32_t n_tasks;
        unsigned n_workers; /* that were started */
        struct kern_worker *workers;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Wait a short while for *word to become zero (or not zero); true if it did. */
static bool spin_until_zero(_Atomic uint32_t *word, bool zero) {
        uint64_t end = 0;

        for (;;) {
                for (int i = 0; i < 16; i++) {
                        if ((atomic_load_explicit(word, memory_order_acquire) == 0) == zero)
                                return true;
                        kern_cpu_relax();
                }
                if (end == 0)
                        end = clock_monotonic_usec() + SPIN_USEC;
                else if (clock_monotonic_usec() >= end)
                        return false;
        }
}

/* Run tasks until none is left. Returns false when the pool stops. */
static bool work(struct kern_pool *p, unsigned thread) {
        uint32_t left = atomic_load_explicit(&p->left, memory_order_acquire);

        while (left > 0) {
                if (left == STOP)
                        return false;
                if (!atomic_compare_exchange_weak(&p->left, &left, left - 1))
                        continue;
                p->fn(p->arg, p->n_tasks - left, thread);
                if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->caller_sleeps))
                        futex_wake(&p->pending, 1);
                left = atomic_load_explicit(&p->left, memory_order_acquire);
        }
        return true;
}

static void *worker_main(void *arg) {
        struct kern_worker *w = arg;
        struct kern_pool *p = w->pool;

        while (work(p, w->index)) {
                if (spin_until_zero(&p->left, false))
                        continue;
                atomic_fetch_add(&p->n_sleeping, 1);
                while (atomic_load(&p->left) == 0)
                        futex_wait(&p->left, 0);
                atomic_fetch_sub(&p->n_sleeping, 1);
        }
        return NULL;
}

static void publish(struct kern_pool *p, uint32_t left) {
        atomic_store(&p->left, left);
        /* The caller takes a task itself: more than the others need not come. */
        if (atomic_load(&p->n_sleeping) > 0)
                futex_wake(&p->left, left == STOP ? INT32_MAX : (int)MIN(left - 1, 1u << 30));
}

void kern_pool_run(struct kern_pool *p, uint32_t n_tasks,
        void (*fn)(void *arg, size_t task, unsigned thread), void *arg) {
        if (p->n_workers == 0 || n_tasks < 2 || n_tasks == STOP) {
                for (uint32_t i = 0; i < n_tasks; i++)
                        fn(arg, i, 0);
                return;
        }
        p->fn = fn;
        p->arg = arg;
        p->n_tasks = n_tasks;
        atomic_store_explicit(&p->pending, n_tasks, memory_order_relaxed);
        publish(p, n_tasks);
        work(p, 0);
        if (!spin_until_zero(&p->pending, true)) {
                uint32_t pending;

                atomic_store(&p->caller_sleeps, 1);
                while ((pending = atomic_load(&p->pending)) > 0)
                        futex_wait(&p->pending, pending);
                atomic_store(&p->caller_sleeps, 0);
        }
}

unsigned kern_pool_n_threads(const struct kern_pool *p) {
        return p->n_workers + 1;
}

struct kern_pool *kern_pool_free(struct kern_pool *p) {
        if (!p)
                return NULL;
        if (p->n_workers > 0)
                publish(p, STOP);
        for (unsigned i = 0; i < p->n_workers; i++)
                pthread_join(p->workers[i].thread, NULL);
        free(p->workers);
        free(p);
        return NULL;
}

int kern_pool_new(struct kern_pool **ret, unsigned n_threads, struct err *e) {
        struct kern_pool *p = aligned_alloc(CACHE_LINE, sizeof(*p));
        int r = 0;

        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for threads");
        *p = (struct kern_pool){0};
        p->workers = calloc(n_threads, sizeof(*p->workers));
        if (!p->workers) {
                kern_pool_free(p);
                return err_set(e, ERR_NOMEM, "no memory for %u threads", n_threads);
        }
        for (unsigned i = 0; i + 1 < n_threads && r == 0; i++) {
                struct kern_worker *w = &p->workers[i];

                w->pool = p;
                w->index = i + 1;
                r = thread_start(&w->thread, NULL, worker_main, w);
                if (r == 0) {
                        pthread_setname_np(w->thread, "confab-kern");
                        p->n_workers++;
                }
        }
        if (r != 0) {
                kern_pool_free(p);
                errno = r;
                return err_set(e, ERR_SYS, "cannot start %u threads", n_threads - 1);
        }
        *ret = p;
        return 0;
}
