/* SPDX-License-Identifier: MIT */
/*
 * Eviction: blocks without a record are written, records without a link are linked, then all blocks
 * are dropped. If write-behind has been there already, nothing has to be written, and mostly no job
 * is needed. See memory.h.
 *
 * What goes when room is needed (memory_make_room(), for whoever needs it: a request, a budget that shrinks,
 * the end). Each class goes only when there is nothing in those before it:
 *
 *      memory of ...                                            in which order
 *   1. idle conversations                                       least recently used first
 *   2. edits: the old ends that they have put aside             (edit.c)
 *   3. conversations in use: what only their checkpoints need   (checkpoint.c)
 *   4. conversations whose request waits for a place            background first, then latest arrival first
 *   5. conversations that are pinned: 1, 3 and 4 once more, of these
 *
 * A pin is such a preference among what can go, and nothing else:
 *
 * - The memory of pinned conversations counts as memory that can go, so nothing is admitted, refused or delayed
 *   for it. Waiting for room ends however many are pinned.
 * - An Evict by name, and all that ends or cuts a conversation, take no notice of it. Write-behind writes pinned
 *   memory like other memory, so that when it must go after all, that is mostly only a free.
 * - The register has it. A start loads no memory: the first request after it brings it back.
 * - What conversations cost besides their memory is not pinned: conv_charge() may have to unload idle ones, by the
 *   same preference.
 */
#include <stdlib.h>

#include "engine/memory/state.h"

static void evict_run(struct engine *engine, struct job *j) {
        struct write_job *writing = container_of(j, struct write_job, job);

        write_blocks(engine, writing);
        j->r = write_link(engine, writing, &j->err);
}

/* Every cell in RAM becomes a hole; cells without a record are lost. */
static void drop_memory(struct engine *engine, struct conv *c) {
        size_t n = seq_n_cells(c->seq);

        if (seq_n_resident(c->seq) > 0)
                notice_conv(engine, ENGINE_NOTICE_EVICTED, c->owner, c->id, c->revision);
        /* A record without a link of our own lives only as long as its other owners. */
        recs_drop_unlinked(engine, &c->recs);
        c->n_entered = 0;
        memory_drop_cells(c->seq, NULL, NULL);
        conv_trim(engine, c);
        engine->count.blocks_lost += n - seq_n_cells(c->seq);
        engine->count.evictions++;
}

/* Drop all memory, and report to @ev (NULL: nobody waits) how much is lost by that. */
static void drop(
        struct engine *engine, struct conv *c, struct eviction *ev, const struct err *why) {
        uint32_t n = seq_n_tokens(c->seq);

        drop_memory(engine, c);
        n -= seq_n_tokens(c->seq);
        if (!ev || n == 0)
                return;
        ev->n_not_kept = n;
        if (why)
                ev->why_not_kept = *why;
        else
                err_set(&ev->why_not_kept, ERR_CORRUPT, "what was written before is gone");
}

static void evict_done(struct engine *engine, struct job *j) {
        struct write_job *writing = container_of(j, struct write_job, job);
        struct eviction *ev = writing->maker;
        struct conv *c = writing->c;

        if (j->r < 0 && j->r != -ERR_MOVED) /* another machine has it now: nothing is lost */
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, c ? c->owner : OWNER_ANY, c ? c->id : 0,
                        &j->err);
        write_finish(engine, writing);
        for (size_t i = 0; i < writing->n; i++)
                engine->count.evict_blocks_written +=
                        writing->items[i].ok && writing->items[i].write;
        drop(engine, c, writing->maker,
                writing->failed ? &writing->write_err
                : j->r < 0      ? &j->err
                                : NULL);
        engine->memory->n_evictions--;
        if (ev)
                ev->done(engine, ev, 0, NULL);
        conv_io_over(engine, c);
        write_job_free(engine, writing);
        evict_retry(engine);
}

/* A job's items, in the order of cells. */
struct cursor_of_items {
        const struct write_job *writing;
        size_t at;
};

/* Whether the job is to write or link the cell. */
static bool is_written(void *arg, enum seq_class class, const struct seq_cell *cell) {
        struct cursor_of_items *next = arg;
        const struct write_item *it = &next->writing->items[next->at];

        if (next->at == next->writing->n || it->class != class || it->index != cell->index)
                return false;
        next->at++;
        return true;
}

/* Blocks that are on disk already need not wait for the others. */
static void drop_clean(struct conv *c, const struct write_job *writing) {
        struct cursor_of_items next = {.writing = writing};

        memory_drop_cells(c->seq, is_written, &next);
        c->n_entered = 0;
}

/* @ev: waits for the end, or NULL. 0: done or under way; 1: later, see write_job_new(). */
static int evict_now(struct engine *engine, struct conv *c, struct eviction *ev, struct err *e) {
        struct write_job *writing = NULL;
        int r;

        seq_unreserve(c->seq);
        edit_before_evict(engine, c);
        r = write_job_new(&writing, engine, c, false, SIZE_MAX, e);
        if (r != 0)
                return r;
        if (!writing) {
                drop(engine, c, ev, NULL);
                if (ev)
                        ev->done(engine, ev, 0, NULL);
                return 0;
        }
        writing->job.kind = JOB_EVICT;
        writing->job.run = evict_run;
        writing->job.done = evict_done;
        writing->maker = ev;
        c->n_io++;
        conv_use(engine, c);
        engine->memory->n_evictions++;
        drop_clean(c, writing);
        write_start(engine, writing);
        return 0;
}

void evict_begin(struct engine *engine, struct conv *c, struct eviction *ev) {
        struct err e;
        int r;

        ev->c = c;
        r = evict_now(engine, c, ev, &e);
        if (r == 1) /* evict_retry() tries again when a writer has ended */
                list_append(&engine->memory->waiting, &ev->link);
        else if (r < 0)
                ev->done(engine, ev, r, &e);
}

void evict_retry(struct engine *engine) {
        struct list waiting;

        list_move_all(&waiting, &engine->memory->waiting);
        while (!list_empty(&waiting)) {
                struct eviction *ev = list_entry(waiting.next, struct eviction, link);

                list_unlink(&ev->link);
                evict_begin(engine, ev->c, ev);
        }
}

/* --- room --- */

/* The least recently used one. */
static struct conv *find_idle(struct engine *engine, bool pinned) {
        struct conv *c = NULL;

        while ((c = convs_next_idle(engine, c)))
                if (c->pinned == pinned && seq_n_resident(c->seq) > 0)
                        return c;
        return NULL;
}

/* The conversation of the latest request that waits for a place: such requests are not counted
 * among the active ones (run/sched.c). */
static struct conv *find_waiting(struct engine *engine, bool pinned, bool background) {
        struct conv *c = NULL;

        while ((c = convs_next_waiting(engine, background, c)))
                if (c->pinned == pinned && c->n_users == 1 && c->n_io == 0 &&
                        seq_n_resident(c->seq) > 0)
                        return c;
        return NULL;
}

/* Memory that a sequence has only for its marks, of a conversation in use: drop some. So a request never waits
 * for room that checkpoints have. */
static bool drop_checkpoints(struct engine *engine, bool pinned) {
        struct conv *c;
        size_t it = 0;

        while ((c = convs_next(engine, &it)))
                if (c->pinned == pinned && c->n_users > 0 && checkpoint_drop(engine, c))
                        return true;
        return false;
}

/* The conversation whose memory is worth least, or NULL. True: memory that is worth less than any was dropped. */
static bool find_victim(struct engine *engine, struct conv **ret) {
        struct conv *c = NULL;

        for (int pinned = 0; !c && pinned < 2; pinned++) {
                c = find_idle(engine, pinned);
                if (!c && (edit_make_room(engine) || drop_checkpoints(engine, pinned)))
                        return true;
                if (!c)
                        c = find_waiting(engine, pinned, true);
                if (!c)
                        c = find_waiting(engine, pinned, false);
        }
        *ret = c;
        return false;
}

bool evict_idle(struct engine *engine, struct conv *c) {
        int r = evict_now(engine, c, NULL, NULL);

        if (r < 0) {
                /* No memory even for the list of blocks to write: memory is only a cache. */
                drop_memory(engine, c);
                engine->count.unspilled_drops++;
        }
        return r != 1;
}

enum room memory_make_room(struct engine *engine) {
        struct memory *m = engine->memory;
        size_t n_resident;
        struct conv *c;

        if (m->n_evictions > 0)
                return ROOM_LATER;
        if (find_victim(engine, &c))
                return ROOM_NOW;
        if (!c)
                /* Memory that a running job holds (a commit, a fork) becomes idle afterwards. So does
                 * what write-behind has pinned, also where it has no job because it waits to link. */
                return io_n_jobs(engine) > 0 || m->write_behind ? ROOM_LATER : ROOM_NEVER;
        n_resident = seq_n_resident(c->seq);
        if (!evict_idle(engine, c))
                return ROOM_LATER; /* its blocks are being written, and soon clean */
        return m->n_evictions > 0 && seq_n_resident(c->seq) == n_resident ? ROOM_LATER : ROOM_NOW;
}
