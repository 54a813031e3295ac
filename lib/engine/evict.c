/* SPDX-License-Identifier: MIT */
/*
 * Eviction: what has no record is written, what is not linked is linked, then all blocks are
 * dropped. Where write-behind has been there already nothing is written, and mostly no job is
 * needed. See residency.c.
 */
#include <stdlib.h>
#include <syslog.h>

#include "engine/write.h"

static void evict_run(struct engine *engine, struct job *j) {
        struct write_job *wj = container_of(j, struct write_job, job);

        write_blocks(engine, wj);
        j->r = write_link(engine, wj, &j->err);
}

/* Drop all blocks, and let the request (may be NULL) know how much memory is lost by that. */
static void drop(
        struct engine *engine, struct conv *c, struct request *request, const struct err *why) {
        uint32_t n = seq_n_tokens(c->seq);

        residency_drop(engine, c);
        n -= seq_n_tokens(c->seq);
        if (!request || n == 0)
                return;
        request->n_not_kept = n;
        if (why)
                request->why_not_kept = *why;
        else
                err_set(&request->why_not_kept, ERR_CORRUPT, "what was written before is gone");
}

static void evict_done(struct engine *engine, struct job *j) {
        struct write_job *wj = container_of(j, struct write_job, job);
        struct conv *c = wj->c;

        if (j->r < 0)
                engine_event_log(engine, LOG_WARNING, &j->err);
        write_finish(engine, wj);
        for (size_t i = 0; i < wj->n; i++)
                engine->count.evict_blocks_written += wj->items[i].ok && wj->items[i].write;
        drop(engine, c, wj->request, wj->failed ? &wj->write_err : j->r < 0 ? &j->err : NULL);
        engine->n_evictions--;
        if (wj->then)
                wj->then(engine, wj->request);
        residency_io_over(engine, c);
        write_job_free(engine, wj);
        evict_retry(engine);
}

/* What is on disk already need not wait for the rest. */
static void drop_clean(struct engine *engine, struct conv *c, const struct write_job *wj) {
        size_t k = 0;

        (void)engine;
        for (size_t i = 0; i < seq_n_blocks(c->seq); i++) {
                if (k < wj->n && wj->items[k].index == i)
                        k++;
                else if (seq_block_at(c->seq, i))
                        seq_drop(c->seq, i);
        }
        c->n_entered = 0;
}

/* 0: done or under way; 1: later, see write_job_new(). */
static int evict_now(struct engine *engine, struct conv *c,
        void (*then)(struct engine *engine, struct request *request), struct request *request,
        struct err *e) {
        struct write_job *wj = NULL;
        int r;

        seq_unreserve(c->seq);
        edit_before_evict(engine, c);
        r = write_job_new(&wj, engine, c, false, SIZE_MAX, e);
        if (r != 0)
                return r;
        if (!wj) {
                drop(engine, c, request, NULL);
                if (then)
                        then(engine, request);
                return 0;
        }
        wj->job.kind = JOB_EVICT;
        wj->job.run = evict_run;
        wj->job.done = evict_done;
        wj->then = then;
        wj->request = request;
        c->n_io++;
        conv_use(engine, c);
        engine->n_evictions++;
        engine->n_writers++;
        drop_clean(engine, c, wj);
        io_submit(engine, &wj->job);
        return 0;
}

int residency_evict(struct engine *engine, struct conv *c,
        void (*then)(struct engine *engine, struct request *request), struct request *request,
        struct err *e) {
        int r = evict_now(engine, c, then, request, e);

        if (r != 1 || !request)
                return r;
        /* Kept by the request, tried again when a writer has ended. */
        request->evict_then = then;
        list_append(&engine->evict_waiting, &request->link);
        return 0;
}

void evict_retry(struct engine *engine) {
        struct list waiting;

        list_move_all(&waiting, &engine->evict_waiting);
        while (!list_empty(&waiting)) {
                struct request *request = list_entry(waiting.next, struct request, link);
                struct err e;

                list_unlink(&request->link);
                if (residency_evict(engine, request->conv, request->evict_then, request, &e) < 0)
                        verb_fail(engine, request, &e);
        }
}

/* Of a request that waits for a place, the last to come first: it is not counted among the active
 * (sched.c). */
static struct conv *find_waiting(struct engine *engine, bool background) {
        struct list *it;

        for (it = engine->queue.prev; it != &engine->queue; it = it->prev) {
                const struct request *request = list_entry(it, struct request, link);
                struct conv *c = request->conv;

                if (request->r.background == background && c->n_users == 1 && c->n_io == 0 &&
                        seq_n_resident(c->seq) > 0)
                        return c;
        }
        return NULL;
}

/* The conversation whose memory is worth least: the least recently used idle one; else that of a
 * request which waits for a place, background ones first. */
static struct conv *find_victim(struct engine *engine) {
        struct conv *waiting;
        struct list *it;

        list_for_each (it, &engine->idle) {
                struct conv *c = list_entry(it, struct conv, lru);

                if (seq_n_resident(c->seq) > 0)
                        return c;
        }
        waiting = find_waiting(engine, true);
        return waiting ? waiting : find_waiting(engine, false);
}

enum room residency_make_room(struct engine *engine) {
        size_t n_resident;
        struct conv *c;
        int r;

        if (engine->n_evictions > 0)
                return ROOM_LATER;
        c = find_victim(engine);
        /* Behind the memory of idle conversations, before that of requests (edit.c). */
        if ((!c || c->n_users > 0) && edit_make_room(engine))
                return ROOM_NOW;
        if (!c)
                /* What a running job holds (a commit, a fork) becomes idle when it ends. */
                return engine->n_jobs > 0 ? ROOM_LATER : ROOM_NEVER;
        n_resident = seq_n_resident(c->seq);
        r = residency_evict(engine, c, NULL, NULL, NULL);
        if (r == 1)
                return ROOM_LATER; /* its blocks are being written: in a moment they are clean */
        if (r < 0) {
                /* No memory even for the list of what to write: memory is only a cache. */
                residency_drop(engine, c);
                engine->count.unspilled_drops++;
        }
        return engine->n_evictions > 0 && seq_n_resident(c->seq) == n_resident ? ROOM_LATER
                                                                               : ROOM_NOW;
}
