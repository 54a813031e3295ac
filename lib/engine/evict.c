/* SPDX-License-Identifier: MIT */
/*
 * Eviction: what has no record is written, what is not linked is linked, then all blocks are
 * dropped. Where write-behind has been there already nothing is written, and mostly no job is
 * needed. See residency.c.
 */
#include <stdlib.h>
#include <syslog.h>

#include "engine/write.h"

static void evict_run(struct engine *en, struct job *j) {
        struct write_job *wj = container_of(j, struct write_job, job);

        write_blocks(en, wj);
        j->r = write_link(en, wj, &j->err);
}

/* Drop all blocks, and let the request (may be NULL) know how much memory is lost by that. */
static void drop(struct engine *en, struct conv *c, struct ereq *rq, const struct err *why) {
        uint32_t n = seq_n_tokens(c->seq);

        residency_drop(en, c);
        n -= seq_n_tokens(c->seq);
        if (!rq || n == 0)
                return;
        rq->n_not_kept = n;
        if (why)
                rq->why_not_kept = *why;
        else
                err_set(&rq->why_not_kept, ERR_CORRUPT, "what was written before is gone");
}

static void evict_done(struct engine *en, struct job *j) {
        struct write_job *wj = container_of(j, struct write_job, job);
        struct conv *c = wj->c;

        if (j->r < 0)
                engine_event_log(en, LOG_WARNING, &j->err);
        write_finish(en, wj);
        for (size_t i = 0; i < wj->n; i++)
                en->count.evict_blocks_written += wj->items[i].ok && wj->items[i].write;
        drop(en, c, wj->rq, wj->failed ? &wj->write_err : j->r < 0 ? &j->err : NULL);
        en->n_evictions--;
        if (wj->then)
                wj->then(en, wj->rq);
        residency_io_over(en, c);
        write_job_free(en, wj);
        evict_retry(en);
}

/* What is on disk already need not wait for the rest. */
static void drop_clean(struct engine *en, struct conv *c, const struct write_job *wj) {
        size_t k = 0;

        (void)en;
        for (size_t i = 0; i < seq_n_blocks(c->seq); i++) {
                if (k < wj->n && wj->items[k].index == i)
                        k++;
                else if (seq_block_at(c->seq, i))
                        seq_drop(c->seq, i);
        }
        c->n_entered = 0;
}

/* 0: done or under way; 1: later, see write_job_new(). */
static int evict_now(struct engine *en, struct conv *c,
        void (*then)(struct engine *en, struct ereq *rq), struct ereq *rq, struct err *e) {
        struct write_job *wj = NULL;
        int r;

        seq_unreserve(c->seq);
        edit_before_evict(en, c);
        r = write_job_new(&wj, en, c, false, SIZE_MAX, e);
        if (r != 0)
                return r;
        if (!wj) {
                drop(en, c, rq, NULL);
                if (then)
                        then(en, rq);
                return 0;
        }
        wj->job.kind = JOB_EVICT;
        wj->job.run = evict_run;
        wj->job.done = evict_done;
        wj->then = then;
        wj->rq = rq;
        c->n_io++;
        conv_use(en, c);
        en->n_evictions++;
        en->n_writers++;
        drop_clean(en, c, wj);
        io_submit(en, &wj->job);
        return 0;
}

int residency_evict(struct engine *en, struct conv *c,
        void (*then)(struct engine *en, struct ereq *rq), struct ereq *rq, struct err *e) {
        int r = evict_now(en, c, then, rq, e);

        if (r != 1 || !rq)
                return r;
        /* Kept by the request, tried again when a writer has ended. */
        rq->evict_then = then;
        list_append(&en->evict_waiting, &rq->link);
        return 0;
}

void evict_retry(struct engine *en) {
        struct list waiting;

        list_move_all(&waiting, &en->evict_waiting);
        while (!list_empty(&waiting)) {
                struct ereq *rq = list_entry(waiting.next, struct ereq, link);
                struct err e;

                list_unlink(&rq->link);
                if (residency_evict(en, rq->conv, rq->evict_then, rq, &e) < 0)
                        verb_fail(en, rq, &e);
        }
}

/* Of a request that waits for a place, the last to come first: it is not counted among the active
 * (sched.c). */
static struct conv *find_waiting(struct engine *en, bool background) {
        struct list *it;

        for (it = en->queue.prev; it != &en->queue; it = it->prev) {
                const struct ereq *rq = list_entry(it, struct ereq, link);
                struct conv *c = rq->conv;

                if (rq->r.background == background && c->n_users == 1 && c->n_io == 0 &&
                        seq_n_resident(c->seq) > 0)
                        return c;
        }
        return NULL;
}

/* The conversation whose memory is worth least: the least recently used idle one; else that of a
 * request which waits for a place, background ones first. */
static struct conv *find_victim(struct engine *en) {
        struct conv *waiting;
        struct list *it;

        list_for_each (it, &en->idle) {
                struct conv *c = list_entry(it, struct conv, lru);

                if (seq_n_resident(c->seq) > 0)
                        return c;
        }
        waiting = find_waiting(en, true);
        return waiting ? waiting : find_waiting(en, false);
}

enum room residency_make_room(struct engine *en) {
        size_t n_resident;
        struct conv *c;
        int r;

        if (en->n_evictions > 0)
                return ROOM_LATER;
        c = find_victim(en);
        /* Behind the memory of idle conversations, before that of requests (edit.c). */
        if ((!c || c->n_users > 0) && edit_make_room(en))
                return ROOM_NOW;
        if (!c)
                /* What a running job holds (a commit, a fork) becomes idle when it ends. */
                return en->n_jobs > 0 ? ROOM_LATER : ROOM_NEVER;
        n_resident = seq_n_resident(c->seq);
        r = residency_evict(en, c, NULL, NULL, NULL);
        if (r == 1)
                return ROOM_LATER; /* its blocks are being written: in a moment they are clean */
        if (r < 0) {
                /* No memory even for the list of what to write: memory is only a cache. */
                residency_drop(en, c);
                en->count.unspilled_drops++;
        }
        return en->n_evictions > 0 && seq_n_resident(c->seq) == n_resident ? ROOM_LATER : ROOM_NOW;
}
