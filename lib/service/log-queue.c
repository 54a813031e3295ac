/* SPDX-License-Identifier: MIT */
#include "service/log-queue.h"
#include "base/err.h"
#include "base/thread.h"
#include "service/log.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct node {
        struct node *next;
        int level;
        size_t n, size;
        char text[];
};

static struct {
        pthread_mutex_t lock;
        pthread_cond_t more, over; /* `over` is made once, and stays (has_over) */
        bool has_over;
        pthread_t thread;
        const char *program;
        bool on, left_behind; /* loop thread only */
        /* under the lock */
        struct node *first, **end;
        size_t size; /* of all nodes, the one that is being written too */
        uint64_t n_dropped;
        bool stopping, ended;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* Under the lock. NULL: there is nothing more to come. */
static struct node *take(uint64_t *ret_dropped) {
        struct node *node;

        while (!queue.first && !queue.stopping)
                pthread_cond_wait(&queue.more, &queue.lock);
        node = queue.first;
        if (!node)
                return NULL;
        queue.first = node->next;
        if (!queue.first)
                queue.end = &queue.first;
        *ret_dropped = queue.n_dropped;
        queue.n_dropped = 0;
        return node;
}

static void tell_dropped(uint64_t n) {
        const struct logged_info *info = &logged_table[LOGGED_JOURNAL_SLOW];
        struct log_record record;
        char message[128];

        snprintf(message, sizeof(message),
                "%llu lines were left out, because the journal was too slow for them",
                (unsigned long long)n);
        log_record_begin(&record, queue.program, info->level, message, info->id);
        log_record_add(&record, "CONFAB_COUNT=%llu", (unsigned long long)n);
        log_record_write(true, queue.program, record.level, record.text, record.n);
}

static void *run(void *arg) {
        struct node *node;
        uint64_t n_dropped = 0;

        (void)arg;
        pthread_mutex_lock(&queue.lock);
        while ((node = take(&n_dropped))) {
                pthread_mutex_unlock(&queue.lock);
                log_record_write(true, queue.program, node->level, node->text, node->n);
                if (n_dropped > 0)
                        tell_dropped(n_dropped);
                pthread_mutex_lock(&queue.lock);
                queue.size -= node->size;
                free(node);
        }
        queue.ended = true;
        pthread_cond_signal(&queue.over);
        pthread_mutex_unlock(&queue.lock);
        return NULL;
}

/* A condition whose time limits do not jump with the clock of the day. */
static int make_over(void) {
        pthread_condattr_t attr;
        int r = pthread_condattr_init(&attr);

        if (r != 0)
                return r;
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        r = pthread_cond_init(&queue.over, &attr);
        pthread_condattr_destroy(&attr);
        return r;
}

int log_queue_start(const char *program, struct err *e) {
        if (queue.on)
                return 0;
        queue.program = program;
        queue.first = NULL;
        queue.end = &queue.first;
        queue.size = 0;
        queue.n_dropped = 0;
        queue.stopping = queue.ended = false;
        if (!queue.has_over && make_over() != 0)
                return err_set(e, ERR_NOMEM, "no memory to write to the journal");
        queue.has_over = true;
        if (thread_start(&queue.thread, NULL, run, NULL) != 0)
                return err_set(e, ERR_NOMEM, "no thread to write to the journal");
        queue.on = true;
        return 0;
}

bool log_queue_is_on(void) {
        return queue.on;
}

void log_queue_put(const struct log_record *record) {
        size_t size = sizeof(struct node) + record->size;
        struct node *node = malloc(size);

        if (node) {
                *node = (struct node){.level = record->level, .n = record->n, .size = size};
                memcpy(node->text, record->text, record->size);
        }
        pthread_mutex_lock(&queue.lock);
        if (!node || queue.stopping || queue.size + size > LOG_QUEUE_SIZE) {
                queue.n_dropped++;
                free(node);
        } else {
                *queue.end = node;
                queue.end = &node->next;
                queue.size += size;
                pthread_cond_signal(&queue.more);
        }
        pthread_mutex_unlock(&queue.lock);
}

void log_queue_stop(uint64_t usec) {
        struct timespec until;
        bool ended;
        int r = 0;

        if (!queue.on)
                return;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(usec / 1000000);
        until.tv_nsec += (long)(usec % 1000000) * 1000;
        if (until.tv_nsec >= 1000000000) {
                until.tv_sec++;
                until.tv_nsec -= 1000000000;
        }
        pthread_mutex_lock(&queue.lock);
        queue.stopping = true;
        pthread_cond_signal(&queue.more);
        while (!queue.ended && r == 0)
                r = pthread_cond_timedwait(&queue.over, &queue.lock, &until);
        ended = queue.ended;
        pthread_mutex_unlock(&queue.lock);
        if (!ended) {
                if (!queue.left_behind)
                        pthread_detach(queue.thread);
                queue.left_behind = true;
                return;
        }
        if (!queue.left_behind)
                pthread_join(queue.thread, NULL);
        queue.on = queue.left_behind = false;
}
