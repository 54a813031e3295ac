/* SPDX-License-Identifier: MIT */
/*
 * I/O workers: threads that own the spill files and the register while a job runs. Jobs come from
 * the engine thread and go back to it; a job touches nothing of the engine but the store, the spill
 * store, the immutable part of struct engine, and what the job itself pins.
 */
#include "engine/internal.h"

static void *worker_main(void *arg) {
        struct engine *en = arg;

        for (;;) {
                struct job *j;

                pthread_mutex_lock(&en->io_lock);
                while (list_empty(&en->io_queue) && !en->io_quit)
                        pthread_cond_wait(&en->io_wake, &en->io_lock);
                if (list_empty(&en->io_queue)) {
                        pthread_mutex_unlock(&en->io_lock);
                        return NULL;
                }
                j = list_entry(en->io_queue.next, struct job, link);
                list_unlink(&j->link);
                pthread_mutex_unlock(&en->io_lock);

                j->run(en, j);

                pthread_mutex_lock(&en->lock);
                list_append(&en->io_done, &j->link);
                en->signalled = true;
                pthread_cond_signal(&en->wake);
                pthread_mutex_unlock(&en->lock);
        }
}

int io_start(struct engine *en, struct err *e) {
        for (size_t i = 0; i < 2; i++) {
                int r = pthread_create(&en->workers[i], NULL, worker_main, en);

                if (r != 0)
                        return err_set(e, ERR_NOMEM, "cannot start an I/O worker");
                en->n_workers++;
        }
        return 0;
}

/* Jobs that were queued still run: what they pin must be given back by their done(). */
void io_stop(struct engine *en) {
        pthread_mutex_lock(&en->io_lock);
        en->io_quit = true;
        pthread_cond_broadcast(&en->io_wake);
        pthread_mutex_unlock(&en->io_lock);
        for (size_t i = 0; i < en->n_workers; i++)
                pthread_join(en->workers[i], NULL);
        en->n_workers = 0;
}

void io_submit(struct engine *en, struct job *j) {
        en->n_jobs++;
        list_init(&j->link);
        j->r = 0;
        pthread_mutex_lock(&en->io_lock);
        list_append(&en->io_queue, &j->link);
        pthread_cond_signal(&en->io_wake);
        pthread_mutex_unlock(&en->io_lock);
}
