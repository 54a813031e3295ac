/* SPDX-License-Identifier: MIT */
/*
 * I/O workers: threads that own the spill files and the register while a job runs. Jobs come from
 * the engine thread and go back to it; a job touches nothing of the engine but the store, the spill
 * store, the immutable part of struct engine, and what the job itself pins.
 *
 * 1. The order is by kind: what a client's first token waits for (restores), what a client's answer
 *    waits for (verbs and commits), evictions, write-behind. Within a kind first come, first
 *    served.
 * 2. One worker at least is never busy with writing blocks, so a read or a commit waits for no
 *    write to end. (There are two workers at least.)
 *
 * 3. Tokenising (JOB_TEXT) takes none of them: it has a thread of its own, which does nothing else,
 *    one text at a time. No two texts of one user in a row while another user's waits, so a user
 *    with many of them holds up each other user by one.
 *
 * 4. One worker is woken at a time (io_waking): by who submits, and then, if jobs are left, by the
 *    worker that has just taken one. Whoever holds a job, or was signalled, comes by the queue
 *    before it sleeps, so no job is left behind. Woken both at once, two workers would often be put
 *    on one processor, since the other one still runs the submitter, and stay there for
 *    milliseconds with the other idle. A worker that runs finds the submitter's free.
 */
#include <sched.h>

#include "engine/internal.h"

static const enum job_kind order[] = {JOB_RESTORE, JOB_VERB, JOB_EVICT, JOB_WRITE_BEHIND};

static bool writes_blocks(const struct job *j) {
        return j->kind == JOB_EVICT || j->kind == JOB_WRITE_BEHIND;
}

/* Under io_lock: the job to be done next, taken out, or NULL. */
static struct job *take(struct engine *engine) {
        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                struct list *q = &engine->io_queues[order[i]];
                struct job *j;

                if (list_empty(q))
                        continue;
                j = list_entry(q->next, struct job, link);
                if (writes_blocks(j) && engine->n_io_writing + 1 >= engine->n_workers)
                        continue;
                list_unlink(&j->link);
                engine->n_io_writing += writes_blocks(j);
                return j;
        }
        return NULL;
}

/* The same for the thread that tokenises. */
static struct job *take_text(struct engine *engine) {
        struct list *q = &engine->io_queues[JOB_TEXT], *it;
        struct job *j;

        if (list_empty(q))
                return NULL;
        j = list_entry(q->next, struct job, link);
        list_for_each (it, q) {
                struct job *other = list_entry(it, struct job, link);

                if (request_of(other)->r.uid != engine->text_uid) {
                        j = other;
                        break;
                }
        }
        engine->text_uid = request_of(j)->r.uid;
        list_unlink(&j->link);
        return j;
}

static bool nothing_queued(const struct engine *engine) {
        for (size_t i = 0; i < ARRAY_SIZE(order); i++)
                if (!list_empty(&engine->io_queues[order[i]]))
                        return false;
        return true;
}

/* Under io_lock, there is something to do. */
static void wake_one(struct engine *engine) {
        if (engine->io_waking)
                return;
        engine->io_waking = true;
        pthread_cond_signal(&engine->io_wake);
}

static void run(struct engine *engine, struct job *j) {
        j->run(engine, j);

        pthread_mutex_lock(&engine->lock);
        list_append(&engine->io_done, &j->link);
        engine->signalled = true;
        pthread_cond_signal(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
}

static void *text_main(void *arg) {
        struct engine *engine = arg;

        for (;;) {
                struct job *j;

                pthread_mutex_lock(&engine->io_lock);
                while (!(j = take_text(engine)) && !engine->io_quit)
                        pthread_cond_wait(&engine->text_wake, &engine->io_lock);
                pthread_mutex_unlock(&engine->io_lock);
                if (!j)
                        return NULL;
                run(engine, j);
        }
}

static void *worker_main(void *arg) {
        struct engine *engine = arg;

        for (;;) {
                bool writes;
                struct job *j;

                pthread_mutex_lock(&engine->io_lock);
                engine->io_waking = false;
                while (!(j = take(engine)) && !(engine->io_quit && nothing_queued(engine))) {
                        pthread_cond_wait(&engine->io_wake, &engine->io_lock);
                        engine->io_waking = false;
                }
                if (j && !nothing_queued(engine))
                        wake_one(engine);
                pthread_mutex_unlock(&engine->io_lock);
                if (!j)
                        return NULL;
                writes = writes_blocks(j);

                run(engine, j);
                if (writes) {
                        pthread_mutex_lock(&engine->io_lock);
                        engine->n_io_writing--;
                        pthread_cond_broadcast(&engine->io_wake);
                        pthread_mutex_unlock(&engine->io_lock);
                }
        }
}

size_t io_n_workers(void) {
        cpu_set_t cpus;
        size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

        n = MAX(n, (size_t)2);
        return MIN(n, (size_t)ENGINE_MAX_WORKERS);
}

int io_start(struct engine *engine, struct err *e) {
        size_t n = io_n_workers();

        /* Known to the first worker before the last one runs. */
        engine->n_workers = n;
        for (size_t i = 0; i < n; i++) {
                int r = pthread_create(&engine->workers[i], NULL, worker_main, engine);

                if (r != 0) {
                        pthread_mutex_lock(&engine->io_lock);
                        engine->n_workers = i;
                        pthread_mutex_unlock(&engine->io_lock);
                        return err_set(e, ERR_NOMEM, "cannot start an I/O worker");
                }
        }
        if (pthread_create(&engine->text_worker, NULL, text_main, engine) != 0)
                return err_set(e, ERR_NOMEM, "cannot start a thread that tokenises");
        engine->text_started = true;
        return 0;
}

/* Jobs that were queued still run: what they pin must be given back by their done(). */
void io_stop(struct engine *engine) {
        pthread_mutex_lock(&engine->io_lock);
        engine->io_quit = true;
        pthread_cond_broadcast(&engine->io_wake);
        pthread_cond_signal(&engine->text_wake);
        pthread_mutex_unlock(&engine->io_lock);
        if (engine->text_started)
                pthread_join(engine->text_worker, NULL);
        engine->text_started = false;
        for (size_t i = 0; i < engine->n_workers; i++)
                pthread_join(engine->workers[i], NULL);
        engine->n_workers = 0;
}

void io_submit(struct engine *engine, struct job *j) {
        engine->n_jobs++;
        list_init(&j->link);
        j->r = 0;
        pthread_mutex_lock(&engine->io_lock);
        list_append(&engine->io_queues[j->kind], &j->link);
        if (j->kind == JOB_TEXT)
                pthread_cond_signal(&engine->text_wake);
        else
                wake_one(engine);
        pthread_mutex_unlock(&engine->io_lock);
}
