/* SPDX-License-Identifier: MIT */
#include "daemon/closer.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Enough for a call of close(2). */
#define STACK_SIZE (64u << 10)

struct waiting {
        struct waiting *next;
        int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *first, **last = &first;
static unsigned n_threads;

bool closer_is_memory(int fd) {
        return fcntl(fd, F_GET_SEALS) >= 0;
}

static void *closer_main(void *arg) {
        struct waiting *w;

        for (;;) {
                pthread_mutex_lock(&lock);
                w = first;
                if (w) {
                        first = w->next;
                        if (!first)
                                last = &first;
                } else {
                        n_threads--;
                }
                pthread_mutex_unlock(&lock);
                if (!w)
                        return NULL;
                close(w->fd);
                free(w);
        }
}

static bool start_thread(void) {
        pthread_attr_t attr;
        pthread_t thread;
        bool ok;

        if (pthread_attr_init(&attr) != 0)
                return false;
        ok = pthread_attr_setstacksize(&attr, STACK_SIZE) == 0 &&
             pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
             pthread_create(&thread, &attr, closer_main, NULL) == 0;
        pthread_attr_destroy(&attr);
        return ok;
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
        if (n_threads < CLOSER_THREADS && start_thread())
                n_threads++;
        pthread_mutex_unlock(&lock);
}
