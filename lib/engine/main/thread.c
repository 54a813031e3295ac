/* SPDX-License-Identifier: MIT */
/*
 * The engine thread.
 *
 * Who owns what:
 * - The loop thread (the caller of engine.h) submits copies of requests and takes events, and
 *   touches nothing else.
 * - The engine thread owns the model, sequences, the pool, loaded conversations, and all requests
 *   after submission.
 * - I/O workers own spill files and register while they run a job (io/workers.c). Another thread
 *   tokenises long texts (verbs/tokenize.c).
 * These threads meet in few places, each with a lock of its own: the desk (new requests), the
 * workers' queues (jobs), the outbox (events), the register's cuts (disk/register.c). A thread that
 * leaves something for the engine thread rings its bell.
 *
 * A step of a large model takes long. What needs nothing that it has is done between two of its layers as well
 * (main_take_early()): all of a request that only looks (verb.looks), and that a worker begins to read the row of the
 * conversation that another one names. Everything else waits for the step's end. No request overtakes another one of its
 * user in this, and a look waits for what a worker had done for its user before.
 *
 * Life of a request: submit → desk → dispatch_request() → (jobs, queue, steps) → final event,
 * freed. The thread ends when it was asked to stop and no request, no job and no unsaved block is
 * left (engine_free() abandons unsaved blocks).
 */
#include "engine/far/far.h"
#include "engine/main/main.h"

/* While stopping: requests that wait or generate end with what they have. */
static void stop_requests(struct engine *engine) {
        sched_stop(engine);
        desk_cancel_long(engine);
}

/* Without requests: write dirty memory. True when everything is written. */
static bool stop_memory(struct engine *engine) {
        struct front *f = engine->front;
        bool abandon;

        if (desk_n_requests(engine) > 0 || io_n_jobs(engine) > 0)
                return false;
        pthread_mutex_lock(&f->lock);
        abandon = f->abandon;
        pthread_mutex_unlock(&f->lock);
        if (abandon)
                return true;
        for (;;) {
                enum room room = memory_make_room(engine);

                if (room == ROOM_NEVER)
                        return true;
                if (room == ROOM_LATER)
                        return false;
        }
}

static bool stop_asked(struct front *f) {
        bool stop;

        pthread_mutex_lock(&f->lock);
        stop = f->stop_asked;
        pthread_mutex_unlock(&f->lock);
        return stop;
}

/* Handle the jobs that are over, then the requests that have arrived. */
static void take_work(struct engine *engine) {
        struct list inbox, done;

        /* Requests are taken first but handled last. So a request that arrived after the end of a
         * job finds the results of the job. */
        desk_take(engine, &inbox);
        io_take_done(engine, &done);
        engine->stopping = stop_asked(engine->front);
        while (!list_empty(&done)) {
                io_done(engine, list_entry(done.next, struct job, link));
                dispatch_ready(engine);
                engine->again = true;
        }
        while (!list_empty(&inbox)) {
                struct request *request = list_entry(inbox.next, struct request, link);

                list_unlink(&request->link);
                dispatch_request(engine, request);
                engine->again = true;
        }
        dispatch_ready(engine);
        dispatch_turns(engine);
}

void main_take_early(struct engine *engine) {
        struct list inbox, done;

        desk_take_early(engine, &inbox);
        io_take_looks(engine, &done);
        while (!list_empty(&done))
                io_done(engine, list_entry(done.next, struct job, link));
        while (!list_empty(&inbox)) {
                struct request *request = list_entry(inbox.next, struct request, link);

                list_unlink(&request->link);
                dispatch_request(engine, request);
        }
}

void *thread_main(void *arg) {
        struct engine *engine = arg;
        uint64_t due = UINT64_MAX, watched;
        bool sleep = false;

        for (;;) {
                bell_wait(engine->bell, sleep, due);
                engine->again = false;
                take_work(engine);
                if (engine->stopping)
                        stop_requests(engine);
                register_take_cuts(engine);
                (void)grow_step(engine);      /* when it can go on, the bell rings */
                watched = watch_step(engine); /* before a step, which takes long */
                if (sched_step(engine))
                        engine->again = true;
                attach_step(engine);
                ration_step(engine);
                due = MIN(watched, writebehind_step(engine));
                due = MIN(due, sweep_step(engine));
                due = MIN(due, user_act_step(engine));
                due = MIN(due, drain_step(engine));
                overrides_step(engine);
                due = MIN(due, check_step(engine));
                due = MIN(due, grow_spare(engine, sched_busy_size(engine)));
                due = MIN(due, lease_step(engine));
                due = MIN(due, register_step(engine));
                due = MIN(due, codec_step(engine));
                due = MIN(due, far_step(engine));
                atomic_fetch_add(&engine->heartbeat, 1);
                if (engine->stopping && stop_memory(engine))
                        break;
                sleep = !engine->again;
        }
        event_send(engine, TAKE_PTR(engine->front->stopped));
        return NULL;
}

void thread_stop(struct engine *engine, bool abandon) {
        struct front *f = engine->front;

        /* First, so that every accepted request is answered while the thread runs. */
        desk_close(engine);
        register_give_up(engine);
        far_stop(engine);
        pthread_mutex_lock(&f->lock);
        f->stop_asked = true;
        f->abandon = f->abandon || abandon;
        pthread_mutex_unlock(&f->lock);
        bell_ring(engine->bell);
}

void engine_stop(struct engine *engine) {
        thread_stop(engine, false);
}

uint64_t engine_heartbeat(struct engine *engine) {
        return atomic_load(&engine->heartbeat);
}
