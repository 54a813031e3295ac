/* SPDX-License-Identifier: MIT */
/*
 * A ring under a mutex. The eventfd's counter is 1 while the ring holds something and 0 otherwise;
 * it changes under the mutex, together with the ring, so that "readable iff not empty" holds for
 * whoever holds no lock.
 */
#include "base/queue.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>

struct queue {
        pthread_mutex_t lock;
        pthread_cond_t filled;
        bool has_lock, has_cond, closed;
        size_t capacity, head, count;
        void **items; /* [capacity], ring from head */
        int fd;
};

DEFINE_CLEANUP(struct queue *, queue_free);

/* Waits are on the monotonic clock: a clock that is set must not stretch them. */
static int init_cond(pthread_cond_t *cond) {
        pthread_condattr_t attr;
        int r;

        r = pthread_condattr_init(&attr);
        if (r)
                return r;
        r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (!r)
                r = pthread_cond_init(cond, &attr);
        pthread_condattr_destroy(&attr);
        return r;
}

int queue_new(struct queue **ret, size_t capacity, struct err *e) {
        _cleanup_(queue_freep) struct queue *q = NULL;

        if (capacity == 0)
                return err_set(e, ERR_INVALID, "a queue needs a capacity");
        q = calloc(1, sizeof(*q));
        if (!q)
                return err_set(e, ERR_NOMEM, "no memory for a queue");
        q->fd = -1;
        q->capacity = capacity;
        q->items = calloc(capacity, sizeof(*q->items));
        if (!q->items)
                return err_set(e, ERR_NOMEM, "no memory for a queue of %zu", capacity);
        errno = pthread_mutex_init(&q->lock, NULL);
        if (errno)
                return err_set(e, ERR_SYS, "queue lock");
        q->has_lock = true;
        errno = init_cond(&q->filled);
        if (errno)
                return err_set(e, ERR_SYS, "queue condition");
        q->has_cond = true;
        q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (q->fd < 0)
                return err_set(e, ERR_SYS, "eventfd");
        *ret = TAKE_PTR(q);
        return 0;
}

struct queue *queue_free(struct queue *q) {
        if (!q)
                return NULL;
        if (q->fd >= 0)
                close(q->fd);
        if (q->has_cond)
                pthread_cond_destroy(&q->filled);
        if (q->has_lock)
                pthread_mutex_destroy(&q->lock);
        free(q->items);
        free(q);
        return NULL;
}

/* With the lock held. Neither can fail: the counter goes between 0 and 1 only. */
static void mark_filled(struct queue *q) {
        ssize_t n = write(q->fd, &(uint64_t){1}, sizeof(uint64_t));

        assert(n == sizeof(uint64_t));
        (void)n;
}

static void mark_empty(struct queue *q) {
        uint64_t v;
        ssize_t n = read(q->fd, &v, sizeof(v));

        assert(n == sizeof(v));
        (void)n;
}

static void *take_first(struct queue *q) {
        void *item;

        if (q->count == 0)
                return NULL;
        item = q->items[q->head];
        q->head = (q->head + 1) % q->capacity;
        if (--q->count == 0)
                mark_empty(q);
        return item;
}

int queue_push(struct queue *q, void *item) {
        int r = 1;

        assert(item);
        pthread_mutex_lock(&q->lock);
        if (!q->closed && q->count < q->capacity) {
                q->items[(q->head + q->count) % q->capacity] = item;
                if (q->count++ == 0)
                        mark_filled(q);
                pthread_cond_signal(&q->filled);
                r = 0;
        }
        pthread_mutex_unlock(&q->lock);
        return r;
}

void *queue_pop(struct queue *q) {
        void *item;

        pthread_mutex_lock(&q->lock);
        item = take_first(q);
        pthread_mutex_unlock(&q->lock);
        return item;
}

void *queue_pop_wait(struct queue *q) {
        void *item;

        pthread_mutex_lock(&q->lock);
        while (q->count == 0 && !q->closed)
                pthread_cond_wait(&q->filled, &q->lock);
        item = take_first(q);
        pthread_mutex_unlock(&q->lock);
        return item;
}

void *queue_pop_timed(struct queue *q, unsigned long timeout_usec) {
        struct timespec until;
        void *item;
        int r = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(timeout_usec / 1000000);
        until.tv_nsec += (long)(timeout_usec % 1000000) * 1000;
        if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
        }
        pthread_mutex_lock(&q->lock);
        while (q->count == 0 && !q->closed && r == 0)
                r = pthread_cond_timedwait(&q->filled, &q->lock, &until);
        item = take_first(q);
        pthread_mutex_unlock(&q->lock);
        return item;
}

void queue_close(struct queue *q) {
        pthread_mutex_lock(&q->lock);
        q->closed = true;
        pthread_cond_broadcast(&q->filled);
        pthread_mutex_unlock(&q->lock);
}

size_t queue_count(struct queue *q) {
        size_t n;

        pthread_mutex_lock(&q->lock);
        n = q->count;
        pthread_mutex_unlock(&q->lock);
        return n;
}

int queue_fd(struct queue *q) {
        return q->fd;
}
