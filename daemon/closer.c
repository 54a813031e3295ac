/* SPDX-License-Identifier: MIT */
#include "daemon/closer.h"
#include "base/err.h"
#include "base/thread.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Enough stack for a call of close(2). The system's minimum may be more (128 KiB on aarch64, or as
 * much as the processor's registers take). */
#define STACK_SIZE (64u << 10)

struct waiting {
        struct waiting *next;
        int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct waiting *first, **last = &first;
static unsigned n_waiting, n_threads, n_idle;

bool closer_is_memory(int fd) {
        return fcntl(fd, F_GET_SEALS) >= 0;
}

/* Under the lock: the next descriptor to close, or NULL if the thread may end. One thread stays. */
static struct waiting *next_waiting(void) {
        struct waiting *w;

        while (!first && n_threads == 1) {
                n_idle++;
                pthread_cond_wait(&more, &lock);
                n_idle--;
        }
        w = first;
        if (w) {
                n_waiting--;
                first = w->next;
                if (!first)
                        last = &first;
        } else {
                n_threads--;
        }
        return w;
}

static void *closer_main(void *arg) {
        struct waiting *w;

        for (;;) {
                pthread_mutex_lock(&lock);
                w = next_waiting();
                pthread_mutex_unlock(&lock);
                if (!w)
                        return NULL;
                close(w->fd);
                free(w);
        }
}

/* Under the lock. 0, or what pthread_create() says. */
static int start_thread(void) {
        long least = sysconf(_SC_THREAD_STACK_MIN);
        pthread_attr_t attr;
        pthread_t thread;
        int r = pthread_attr_init(&attr);

        if (r != 0)
                return r;
        r = pthread_attr_setstacksize(
                &attr, MAX((size_t)STACK_SIZE, least > 0 ? (size_t)least : 0));
        if (r == 0)
                r = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        if (r == 0)
                r = thread_start(&thread, &attr, closer_main, NULL);
        pthread_attr_destroy(&attr);
        if (r == 0)
                n_threads++;
        return r;
}

int closer_start(struct err *e) {
        int r = 0;

        pthread_mutex_lock(&lock);
        if (n_threads == 0)
                r = start_thread();
        pthread_mutex_unlock(&lock);
        if (r == 0)
                return 0;
        errno = r;
        return err_set(e, ERR_SYS, "cannot start a thread that closes descriptors");
}

void closer_close(int fd) {
        struct waiting *w;

        if (closer_is_memory(fd)) {
                close(fd);
                return;
        }
        w = calloc(1, sizeof(*w));
        if (!w) {
                close(fd); /* late is better than never */
                return;
        }
        w->fd = fd;
        pthread_mutex_lock(&lock);
        *last = w;
        last = &w->next;
        n_waiting++;
        /* Without a further thread the descriptor waits for those that are there. */
        if (n_waiting > n_idle && n_threads < CLOSER_THREADS)
                (void)start_thread();
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
}
