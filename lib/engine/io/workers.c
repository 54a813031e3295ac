/* SPDX-License-Identifier: MIT */
/*
 * I/O workers: threads that own the spill files and the register while they run a job. Jobs come
 * from the engine thread and go back to it. Of the engine, a job may touch only the store, the
 * spill store, the immutable part of struct engine, and what the job itself pins.
 *
 * 1. Jobs are taken by kind: first restores (a client's first token waits for them), then verbs and
 *    commits (a client's answer waits for them), then evictions, then write-behind. Within a kind,
 *    first come, first served.
 * 2. At least one worker is never busy with writing blocks, so a read or a commit never waits for a
 *    write to end. (There are at least two workers.)
 * 3. Tokenising and compiling constraints (JOB_TEXT) occupy no I/O worker. They have a thread of
 *    their own, which does nothing else, one text at a time. Two texts of one user never follow
 *    each other while a text of another user waits, so a user with many texts delays each other
 *    user by one text.
 * 4. Workers are woken one at a time (workers.waking): by the submitter, and then, if jobs are
 *    left, by the worker that has just taken one. A worker that runs a job or was signalled looks
 *    into the queue before it sleeps, so no job is left behind. Two workers woken at once would
 *    often be put on one processor, since the submitter still occupies the other, and would stay
 *    there for milliseconds with the other processor idle. When a running worker wakes the next
 *    one, the submitter's processor is free.
 * 5. A worker that runs one of several jobs of one thing (a restore, mostly asleep on the disk)
 *    keeps to processors of its own meanwhile. Rule 4 is not enough for them: one interrupt wakes
 *    all of them, each where it ran last, and a kernel that does not look for an idle processor at
 *    that moment leaves them on one. Other jobs run wherever there is room.
 * 6. A check of what is on disk (JOB_CHECK) has a thread of its own, too, which does nothing else: some of its jobs take
 *    long, nobody waits for any of them, and there is one at a time.
 * 7. So have jobs that ask the remote store: one that does not answer must not keep a commit waiting. Reading (JOB_FETCH) has two, since
 *    checking and decoding takes about as long as the network; writing (JOB_PUSH) has one. They start only where there is a remote
 *    store.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/thread.h"
#include "engine/io/io.h"

struct worker {
        struct engine *engine;
        unsigned index, n; /* of so many that were to start */
        pthread_t thread;
};

/* A thread of its own for one kind of jobs. */
struct lane {
        struct engine *engine;
        struct job *(*take)(struct workers *w); /* under the lock: the job to do next, or NULL */
        pthread_cond_t wake;
        pthread_t thread;
        bool started; /* engine thread */
};

struct workers {
        /* under lock */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        struct list queues[N_JOB_KINDS];
        struct list done;
        bool waking;         /* a worker was signalled and has not looked into the queue yet */
        size_t n_writing;    /* workers that run JOB_EVICT or JOB_WRITE_BEHIND */
        uint64_t text_owner; /* the owner whose text was tokenised last */
        bool quit;

        /* engine thread; n_threads is set before the first worker runs */
        struct worker all[IO_MAX_WORKERS];
        size_t n_threads;
        struct lane text, check, fetch[IO_FETCH_LANES], push;
        size_t n_jobs; /* under way */
};

static const enum job_kind order[] = {JOB_RESTORE, JOB_VERB, JOB_EVICT, JOB_WRITE_BEHIND};

static bool writes_blocks(const struct job *j) {
        return j->kind == JOB_EVICT || j->kind == JOB_WRITE_BEHIND;
}

/* Under the lock: take out the job to do next, or NULL. */
static struct job *take(struct workers *w) {
        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                struct list *q = &w->queues[order[i]];
                struct job *j;

                if (list_empty(q))
                        continue;
                j = list_entry(q->next, struct job, link);
                if (writes_blocks(j) && w->n_writing + 1 >= w->n_threads)
                        continue;
                list_unlink(&j->link);
                w->n_writing += writes_blocks(j);
                return j;
        }
        return NULL;
}

/* Under the lock: the same for the thread that tokenises. */
static struct job *take_text(struct workers *w) {
        struct list *q = &w->queues[JOB_TEXT], *it;
        struct job *j;

        if (list_empty(q))
                return NULL;
        j = list_entry(q->next, struct job, link);
        list_for_each (it, q) {
                struct job *other = list_entry(it, struct job, link);

                if (other->owner != w->text_owner) {
                        j = other;
                        break;
                }
        }
        w->text_owner = j->owner;
        list_unlink(&j->link);
        return j;
}

/* Under the lock: the first one of the kind. */
static struct job *take_first(struct workers *w, enum job_kind kind) {
        struct list *q = &w->queues[kind];
        struct job *j = list_empty(q) ? NULL : list_entry(q->next, struct job, link);

        if (j)
                list_unlink(&j->link);
        return j;
}

static struct job *take_check(struct workers *w) {
        return take_first(w, JOB_CHECK);
}

static struct job *take_fetch(struct workers *w) {
        return take_first(w, JOB_FETCH);
}

static struct job *take_push(struct workers *w) {
        return take_first(w, JOB_PUSH);
}

static bool nothing_queued(const struct workers *w) {
        for (size_t i = 0; i < ARRAY_SIZE(order); i++)
                if (!list_empty(&w->queues[order[i]]))
                        return false;
        return true;
}

/* Under the lock, when there is something to do. */
static void wake_one(struct workers *w) {
        if (w->waking)
                return;
        w->waking = true;
        pthread_cond_signal(&w->wake);
}

/* Under the lock: whichever of them has nothing to do looks. */
static void wake_remote(struct workers *w) {
        pthread_cond_signal(&w->push.wake);
        for (size_t i = 0; i < IO_FETCH_LANES; i++)
                pthread_cond_signal(&w->fetch[i].wake);
}

static void run(struct engine *engine, struct job *j) {
        struct workers *w = engine->workers;

        j->run(engine, j);

        pthread_mutex_lock(&w->lock);
        list_append(&w->done, &j->link);
        pthread_mutex_unlock(&w->lock);
        bell_ring(engine->bell);
}

static void *lane_main(void *arg) {
        struct lane *lane = arg;
        struct workers *w = lane->engine->workers;

        for (;;) {
                struct job *j;

                pthread_mutex_lock(&w->lock);
                while (!(j = lane->take(w)) && !w->quit)
                        pthread_cond_wait(&lane->wake, &w->lock);
                pthread_mutex_unlock(&w->lock);
                if (!j)
                        return NULL;
                run(lane->engine, j);
        }
}

static void *worker_main(void *arg) {
        const struct worker *self = arg;
        struct engine *engine = self->engine;
        struct workers *w = engine->workers;

        for (;;) {
                bool writes, kept;
                struct job *j;

                pthread_mutex_lock(&w->lock);
                w->waking = false;
                while (!(j = take(w)) && !(w->quit && nothing_queued(w))) {
                        pthread_cond_wait(&w->wake, &w->lock);
                        w->waking = false;
                }
                if (j && !nothing_queued(w))
                        wake_one(w);
                pthread_mutex_unlock(&w->lock);
                if (!j)
                        return NULL;
                writes = writes_blocks(j);

                kept = j->is_part && thread_keep_to_part(self->index, self->n);
                run(engine, j);
                if (kept)
                        thread_keep_to_all();
                if (writes) {
                        pthread_mutex_lock(&w->lock);
                        w->n_writing--;
                        pthread_cond_broadcast(&w->wake);
                        pthread_mutex_unlock(&w->lock);
                }
        }
}

size_t io_n_workers(void) {
        cpu_set_t cpus;
        size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

        n = MAX(n, (size_t)2);
        return MIN(n, (size_t)IO_MAX_WORKERS);
}

size_t io_n_scratch(const struct engine *engine) {
        return io_n_workers() + (engine->o.remote.uri ? IO_FETCH_LANES : 0);
}

struct workers *workers_new(void) {
        struct workers *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->wake, NULL);
        pthread_cond_init(&w->text.wake, NULL);
        pthread_cond_init(&w->check.wake, NULL);
        pthread_cond_init(&w->push.wake, NULL);
        for (size_t i = 0; i < IO_FETCH_LANES; i++)
                pthread_cond_init(&w->fetch[i].wake, NULL);
        list_init(&w->done);
        for (size_t i = 0; i < N_JOB_KINDS; i++)
                list_init(&w->queues[i]);
        return w;
}

struct workers *workers_free(struct workers *w) {
        if (!w)
                return NULL;
        pthread_mutex_destroy(&w->lock);
        pthread_cond_destroy(&w->wake);
        pthread_cond_destroy(&w->text.wake);
        pthread_cond_destroy(&w->check.wake);
        pthread_cond_destroy(&w->push.wake);
        for (size_t i = 0; i < IO_FETCH_LANES; i++)
                pthread_cond_destroy(&w->fetch[i].wake);
        free(w);
        return NULL;
}

static int lane_start(struct engine *engine, struct lane *lane,
        struct job *(*take_next)(struct workers *w), const char *what, struct err *e) {
        lane->engine = engine;
        lane->take = take_next;
        if (thread_start(&lane->thread, NULL, lane_main, lane) != 0)
                return err_set(e, ERR_NOMEM, "cannot start a thread that %s", what);
        lane->started = true;
        return 0;
}

static void lane_join(struct lane *lane) {
        if (lane->started)
                pthread_join(lane->thread, NULL);
        lane->started = false;
}

/* Rule 7. */
static int start_remote(struct engine *engine, struct err *e) {
        struct workers *w = engine->workers;
        int r = lane_start(engine, &w->push, take_push, "writes to the remote store", e);

        for (size_t i = 0; r == 0 && i < IO_FETCH_LANES; i++)
                r = lane_start(engine, &w->fetch[i], take_fetch, "reads from the remote store", e);
        return r;
}

int io_start(struct engine *engine, struct err *e) {
        struct workers *w = engine->workers;
        size_t n = io_n_workers();

        /* Set before the first worker runs; on failure below, corrected under the lock. */
        w->n_threads = n;
        for (size_t i = 0; i < n; i++) {
                struct worker *worker = &w->all[i];

                *worker = (struct worker){.engine = engine, .index = (unsigned)i, .n = (unsigned)n};
                if (thread_start(&worker->thread, NULL, worker_main, worker) != 0) {
                        pthread_mutex_lock(&w->lock);
                        w->n_threads = i;
                        pthread_mutex_unlock(&w->lock);
                        return err_set(e, ERR_NOMEM, "cannot start an I/O worker");
                }
        }
        if (lane_start(engine, &w->text, take_text, "tokenises", e) < 0 ||
                lane_start(engine, &w->check, take_check, "checks", e) < 0)
                return -ERR_NOMEM;
        return engine->remote ? start_remote(engine, e) : 0;
}

/* Jobs that were queued still run: nothing that was promised to a client is left undone. */
void io_stop(struct engine *engine) {
        struct workers *w = engine->workers;

        if (!w)
                return;
        pthread_mutex_lock(&w->lock);
        w->quit = true;
        pthread_cond_broadcast(&w->wake);
        pthread_cond_signal(&w->text.wake);
        pthread_cond_signal(&w->check.wake);
        wake_remote(w);
        pthread_mutex_unlock(&w->lock);
        lane_join(&w->text);
        lane_join(&w->check);
        lane_join(&w->push);
        for (size_t i = 0; i < IO_FETCH_LANES; i++)
                lane_join(&w->fetch[i]);
        for (size_t i = 0; i < w->n_threads; i++)
                pthread_join(w->all[i].thread, NULL);
        w->n_threads = 0;
}

size_t io_n_running(struct engine *engine) {
        return engine->workers->n_threads;
}

void io_submit(struct engine *engine, struct job *j) {
        struct workers *w = engine->workers;

        w->n_jobs++;
        list_init(&j->link);
        j->r = 0;
        pthread_mutex_lock(&w->lock);
        list_append(&w->queues[j->kind], &j->link);
        if (j->kind == JOB_TEXT)
                pthread_cond_signal(&w->text.wake);
        else if (j->kind == JOB_CHECK)
                pthread_cond_signal(&w->check.wake);
        else if (j->kind == JOB_FETCH || j->kind == JOB_PUSH)
                wake_remote(w);
        else
                wake_one(w);
        pthread_mutex_unlock(&w->lock);
}

void io_take_done(struct engine *engine, struct list *done) {
        struct workers *w = engine->workers;

        pthread_mutex_lock(&w->lock);
        list_move_all(done, &w->done);
        pthread_mutex_unlock(&w->lock);
}

/* Under the lock: is a job of a request of the same owner, which is no look, in front of it? */
static bool is_behind_own(const struct workers *w, const struct job *look) {
        struct list *it;

        for (it = w->done.next; it != &look->link; it = it->next) {
                const struct job *j = list_entry(it, struct job, link);

                if (j->of == JOB_OF_REQUEST && j->owner == look->owner)
                        return true;
        }
        return false;
}

void io_take_looks(struct engine *engine, struct list *done) {
        struct workers *w = engine->workers;
        struct list *it, *tmp;

        list_init(done);
        pthread_mutex_lock(&w->lock);
        list_for_each_safe (it, tmp, &w->done) {
                struct job *j = list_entry(it, struct job, link);

                if (j->of != JOB_OF_LOOK || is_behind_own(w, j))
                        continue;
                list_unlink(&j->link);
                list_append(done, &j->link);
        }
        pthread_mutex_unlock(&w->lock);
}

void io_done(struct engine *engine, struct job *j) {
        list_unlink(&j->link);
        engine->workers->n_jobs--;
        j->done(engine, j);
}

size_t io_n_jobs(const struct engine *engine) {
        return engine->workers->n_jobs;
}
