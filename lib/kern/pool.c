/* SPDX-License-Identifier: MIT */
/*
 * Threads for very short parallel regions: a token takes around a hundred regions, many only a few
 * microseconds long.
 *
 * A region deals its tasks to the threads as ranges of equal length. A thread takes its own tasks in order, so what
 * lies side by side is read by one thread and what it asked memory for ahead is what it needs next; then it takes the
 * last ones of others, so that all end together, and a thread that does not run delays nobody. So until the end of
 * a region no thread waits for a word that another one writes.
 *
 * 1. A range is one word: the next task and the end. Who moves either, owns the task. An empty range is changed by
 *    the caller alone.
 * 2. fn and arg are written only while all ranges are empty and pending is 0, and read only by owners of a task. A
 *    thread that looks for tasks late, in the next region, simply owns one of that region.
 * 3. `pending` is the number of unfinished tasks. A thread takes off what it has done when it finds no task any
 *    more; until then the region lasts.
 * 4. `round` changes when a region has been dealt: a worker that read it before it looked for tasks in vain misses
 *    none.
 * 5. round and pending are futexes. Waiters spin for SPIN_USEC first, because the next region of a token
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
#include <string.h>
#include <sys/syscall.h>

#define SPIN_USEC 200
#define CACHE_LINE 64

struct kern_worker {
        struct kern_pool *pool;
        pthread_t thread;
        unsigned index;
};

/* Tasks of a thread that nobody has taken: the next one, and above it the end. */
struct range {
        alignas(CACHE_LINE) _Atomic uint64_t tasks;
};

struct kern_pool {
        alignas(CACHE_LINE) _Atomic uint32_t round;
        _Atomic bool stops; /* set before the round changes for the last time */
        alignas(CACHE_LINE) _Atomic uint32_t pending;
        alignas(CACHE_LINE) _Atomic uint32_t n_sleeping;
        _Atomic uint32_t caller_sleeps;
        alignas(CACHE_LINE) void (*fn)(void *arg, size_t task, unsigned thread);
        void *arg;
        struct range *ranges; /* [n_threads]; the first is the caller's */
        unsigned n_threads, n_workers /* that were started */;
        struct kern_worker *workers;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Wait a short while for *word to be (or not to be) a value; true if it came to that. */
static bool spin_until(_Atomic uint32_t *word, uint32_t value, bool equal) {
        uint64_t end = 0;

        for (;;) {
                for (int i = 0; i < 16; i++) {
                        if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal)
                                return true;
                        kern_cpu_relax();
                }
                if (end == 0)
                        end = clock_monotonic_usec() + SPIN_USEC;
                else if (clock_monotonic_usec() >= end)
                        return false;
        }
}

static uint64_t tasks_from(uint32_t next, uint32_t end) {
        return (uint64_t)end << 32 | next;
}

/* A task of a range, the next one or the last one. */
static bool take(struct range *range, bool last, uint32_t *ret) {
        uint64_t tasks = atomic_load_explicit(&range->tasks, memory_order_acquire);

        for (;;) {
                uint32_t next = (uint32_t)tasks, end = tasks >> 32;

                if (next >= end)
                        return false;
                if (!atomic_compare_exchange_weak(&range->tasks, &tasks,
                            last ? tasks_from(next, end - 1) : tasks_from(next + 1, end)))
                        continue;
                *ret = last ? end - 1 : next;
                return true;
        }
}

/* One of the thread's own, or else of another's. */
static bool find_task(struct kern_pool *p, unsigned thread, uint32_t *ret) {
        if (take(&p->ranges[thread], false, ret))
                return true;
        for (unsigned i = 1; i < p->n_threads; i++)
                if (take(&p->ranges[(thread + i) % p->n_threads], true, ret))
                        return true;
        return false;
}

/* Run tasks until none is left. */
static void work(struct kern_pool *p, unsigned thread) {
        uint32_t task, n = 0;

        for (; find_task(p, thread, &task); n++)
                p->fn(p->arg, task, thread);
        if (n > 0 && atomic_fetch_sub(&p->pending, n) == n && atomic_load(&p->caller_sleeps))
                futex_wake(&p->pending, 1);
}

static void *worker_main(void *arg) {
        struct kern_worker *w = arg;
        struct kern_pool *p = w->pool;

        for (;;) {
                uint32_t round = atomic_load(&p->round);

                if (atomic_load(&p->stops))
                        return NULL;
                work(p, w->index);
                if (spin_until(&p->round, round, false))
                        continue;
                atomic_fetch_add(&p->n_sleeping, 1);
                while (atomic_load(&p->round) == round)
                        futex_wait(&p->round, round);
                atomic_fetch_sub(&p->n_sleeping, 1);
        }
}

/* Tells workers that there is something to do; at most so many need come. */
static void call_workers(struct kern_pool *p, int n) {
        atomic_fetch_add(&p->round, 1);
        if (atomic_load(&p->n_sleeping) > 0)
                futex_wake(&p->round, n);
}

void kern_pool_run(struct kern_pool *p, uint32_t n_tasks,
        void (*fn)(void *arg, size_t task, unsigned thread), void *arg) {
        uint64_t n_threads = p->n_threads;

        if (n_threads == 1 || n_tasks < 2) {
                for (uint32_t i = 0; i < n_tasks; i++)
                        fn(arg, i, 0);
                return;
        }
        p->fn = fn;
        p->arg = arg;
        atomic_store_explicit(&p->pending, n_tasks, memory_order_relaxed);
        for (uint64_t i = 0; i < n_threads; i++)
                atomic_store_explicit(&p->ranges[i].tasks,
                        tasks_from((uint32_t)(i * n_tasks / n_threads),
                                (uint32_t)((i + 1) * n_tasks / n_threads)),
                        memory_order_release);
        /* The caller takes a task itself: more than the others need not come. */
        call_workers(p, (int)MIN(n_tasks - 1, 1u << 30));
        work(p, 0);
        if (!spin_until(&p->pending, 0, true)) {
                uint32_t pending;

                atomic_store(&p->caller_sleeps, 1);
                while ((pending = atomic_load(&p->pending)) > 0)
                        futex_wait(&p->pending, pending);
                atomic_store(&p->caller_sleeps, 0);
        }
}

unsigned kern_pool_n_threads(const struct kern_pool *p) {
        return p->n_threads;
}

struct kern_pool *kern_pool_free(struct kern_pool *p) {
        if (!p)
                return NULL;
        atomic_store(&p->stops, true);
        call_workers(p, INT32_MAX);
        for (unsigned i = 0; i < p->n_workers; i++)
                pthread_join(p->workers[i].thread, NULL);
        free(p->workers);
        free(p->ranges);
        free(p);
        return NULL;
}

int kern_pool_new(struct kern_pool **ret, unsigned n_threads, struct err *e) {
        struct kern_pool *p = aligned_alloc(CACHE_LINE, sizeof(*p));
        int r = 0;

        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for threads");
        *p = (struct kern_pool){.n_threads = n_threads};
        p->workers = calloc(n_threads, sizeof(*p->workers));
        p->ranges = aligned_alloc(CACHE_LINE, n_threads * sizeof(*p->ranges));
        if (!p->workers || !p->ranges) {
                kern_pool_free(p);
                return err_set(e, ERR_NOMEM, "no memory for %u threads", n_threads);
        }
        memset(p->ranges, 0, n_threads * sizeof(*p->ranges));
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
