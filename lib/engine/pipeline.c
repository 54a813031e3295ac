/* SPDX-License-Identifier: MIT */
/*
 * The reading of a restore: blocks are split into runs over the I/O workers, each of which reads
 * its run in large joined reads straight into pool blocks, checks and decodes.
 *
 * A request that is alone and has more to compute gets its sections in order, the first layers of
 * all blocks first, and computes its next tokens while the later ones arrive:
 *
 * 1. The blocks are attached to the sequence on trial, for the length of one model_forward(): no
 *    other code of the engine thread runs meanwhile, so nobody else can see, fork, enter or write
 *    them (I5).
 * 2. A layer touches them only after its section was read and verified in all blocks
 *    (restore_wait_layer()).
 * 3. If the forward call comes to its end, all layers were waited for, so everything is verified:
 *    the trial becomes final, what was computed is committed.
 * 4. Else (damage, or somebody wants the engine thread while the disk is slow) the blocks are
 *    detached, nothing is committed, and the request goes on as others do: it waits until all is
 *    read, keeps what is good, and computes the rest.
 *
 * With other requests active a restore never makes them wait: it is not tried.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/restore.h"

#define RUN_SIZE ((size_t)1 << 20) /* raw bytes that are worth a worker */
#define PATIENCE_USEC 200000       /* that the engine thread waits while others want it */
#define WAIT_USEC 50000

struct restore *restore_new(size_t n) {
        struct restore *rs = calloc(1, sizeof(*rs));
        pthread_condattr_t attr;

        if (!rs)
                return NULL;
        rs->items = calloc(n + 1, sizeof(*rs->items));
        rs->reads = calloc(n + 1, sizeof(*rs->reads));
        if (!rs->items || !rs->reads) {
                free(rs->items);
                free(rs->reads);
                free(rs);
                return NULL;
        }
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&rs->lock, NULL);
        pthread_cond_init(&rs->cond, &attr);
        pthread_condattr_destroy(&attr);
        return rs;
}

static void restore_free(struct engine *engine, struct restore *rs) {
        ledger_release(&engine->meta_ledger, rs->charged);
        for (size_t i = 0; i < rs->n_allocated; i++)
                seq_block_unref(rs->items[i].block);
        pthread_mutex_destroy(&rs->lock);
        pthread_cond_destroy(&rs->cond);
        free(rs->items);
        free(rs->reads);
        free(rs);
}

void restore_let_go(struct engine *engine, struct restore *rs) {
        rs->request = NULL;
        if (rs->n_jobs == 0) {
                restore_free(engine, rs);
                return;
        }
        pthread_mutex_lock(&rs->lock);
        rs->stop = true;
        pthread_mutex_unlock(&rs->lock);
}

void residency_restore_stop(struct request *request) {
        struct restore *rs = request->g.restore;

        if (!rs)
                return;
        pthread_mutex_lock(&rs->lock);
        rs->stop = true;
        pthread_mutex_unlock(&rs->lock);
}

/* --- workers --- */

static void wake_engine(struct engine *engine) {
        pthread_mutex_lock(&engine->lock);
        engine->signalled = true;
        pthread_cond_signal(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
}

/* Sections [first, first + n) of a run are there, or @r says why not. False: read no more. */
static bool arrive(struct engine *engine, struct restore *rs, size_t first, size_t n, int r,
        const struct err *e) {
        bool go_on, wake = false;

        pthread_mutex_lock(&rs->lock);
        if (r < 0 && !rs->failed) {
                rs->failed = true;
                rs->err = *e;
        }
        for (size_t i = first; r == 0 && i < first + n; i++)
                rs->arrived[i]++;
        if (r == 0 && first + n == engine->n_sections &&
                rs->arrived[engine->n_sections - 1] == rs->n_runs)
                rs->t_end = clock_monotonic_usec();
        wake = rs->by_sections && first == 0 && n > 0 && rs->arrived[0] == rs->n_runs;
        go_on = !rs->stop;
        pthread_cond_broadcast(&rs->cond);
        pthread_mutex_unlock(&rs->lock);
        if (wake)
                wake_engine(engine);
        return go_on;
}

/* Take the memory that sections [first, first + n) go into from the system in one call for each
 * block, where there is none yet: that costs three fifths of the exceptions for each of its pages.
 * A kernel that refuses (before 5.14) leaves it to these. */
static void populate(
        const struct engine *engine, const struct restore_run *run, size_t first, size_t n) {
        size_t start = first > 0 ? engine->section_ends[first - 1] : 0;
        size_t end = engine->section_ends[first + n - 1];

        start -= start % (size_t)sysconf(_SC_PAGESIZE);
        for (size_t i = run->first; i < run->first + run->n; i++)
                if (run->rs->items[i].fresh)
                        (void)madvise((char *)run->rs->reads[i].dst + start, end - start,
                                MADV_POPULATE_WRITE);
}

/* After a failure the items that are not concerned go on: what lies before the damage is kept. */
static void run_run(struct engine *engine, struct job *j) {
        struct restore_run *run = container_of(j, struct restore_run, job);
        struct restore *rs = run->rs;
        struct spill_item *items = rs->reads + run->first;
        size_t n_sections = engine->n_sections, step = rs->by_sections ? 1 : n_sections;
        _cleanup_(spill_load_freep) struct spill_load *load = NULL;
        size_t at = 0;

        j->r = spill_load_new(&load, engine->spill, items, run->n, &j->err);
        if (!load)
                for (size_t i = 0; i < run->n; i++)
                        items[i].r = j->r;
        if (!arrive(engine, rs, 0, 0, j->r, &j->err) || !load)
                goto end;
        while (at < n_sections) {
                size_t n = MIN(step, n_sections - at);
                int r;

                populate(engine, run, at, n);
                r = spill_load_read(load, at, n, &j->err);
                at += n;
                j->r = j->r < 0 ? j->r : r;
                if (!arrive(engine, rs, at - n, n, j->r, &j->err))
                        break;
                /* The first ones are waited for; then calls get larger. */
                step = at > 1 ? step * 2 : step;
        }
end:
        for (size_t i = 0; i < run->n && at < n_sections; i++)
                if (items[i].r == 0)
                        items[i].r = -ERR_CANCELLED;
}

static void run_done(struct engine *engine, struct job *j) {
        struct restore *rs = container_of(j, struct restore_run, job)->rs;
        struct request *request = rs->request;

        if (--rs->n_jobs > 0)
                return;
        if (rs->t_end == 0)
                rs->t_end = clock_monotonic_usec();
        if (!request) {
                restore_free(engine, rs);
                return;
        }
        if (rs->stop) {
                /* Cancelled: nothing was attached, and holes stay holes. */
                residency_restore_abandon(engine, request);
                request->phase = PHASE_RESTORE;
                engine->again = true;
                return;
        }
        restore_finish(engine, rs);
}

/* --- engine thread --- */

/* Tokens that the sequence has when all is restored. */
static uint32_t restored_end(const struct engine *engine, const struct request *request) {
        const struct restore *rs = request->g.restore;
        uint32_t end = seq_n_tokens(request->conv->seq);

        for (size_t i = 0; i < rs->n; i++)
                end = MAX(end,
                        rs->items[i].index * engine->info.block_tokens + rs->items[i].n_tokens);
        return end;
}

void restore_start(struct engine *engine, struct request *request) {
        struct restore *rs = request->g.restore;
        size_t n = rs->n, n_runs = MIN(n, n * engine->info.block_size / RUN_SIZE);

        for (size_t i = 0; i < n; i++) {
                struct restore_item *it = &rs->items[i];

                rs->reads[i] = (struct spill_item){.ref = record_ref(&it->record),
                        .meta = record_meta(&it->record),
                        .dst = seq_block_data(it->block)};
                it->fresh = seq_block_is_fresh(it->block);
        }
        rs->by_sections = engine->n_sections > 1 && engine->n_active == 1 &&
                          list_empty(&engine->queue) && request->g.n_generated == 0 &&
                          restored_end(engine, request) < request->conv->n_all;
        n_runs = MIN(n_runs, engine->n_workers);
        rs->n_runs = rs->n_jobs = MAX(n_runs, (size_t)1);
        rs->t_start = clock_monotonic_usec();
        for (size_t i = 0; i < rs->n_runs; i++) {
                struct restore_run *run = &rs->runs[i];

                *run = (struct restore_run){.rs = rs, .first = n * i / rs->n_runs};
                run->n = n * (i + 1) / rs->n_runs - run->first;
                run->job.kind = JOB_RESTORE;
                run->job.run = run_run;
                run->job.done = run_done;
        }
        /* Only now: the first one may be over before the last one is submitted. */
        for (size_t i = 0, n_all = rs->n_runs; i < n_all; i++)
                io_submit(engine, &rs->runs[i].job);
}

/* The tokens that it would compute in one step, 0 if it should not be tried (now). */
static uint32_t trial_size(struct engine *engine, struct request *request) {
        struct restore *rs = request->g.restore;
        const struct conv *c = request->conv;
        uint32_t end;
        bool ready;

        if (request->phase != PHASE_READING || !rs || !rs->by_sections || rs->tried ||
                rs->n_jobs == 0)
                return 0;
        pthread_mutex_lock(&rs->lock);
        ready = rs->arrived[0] == rs->n_runs && !rs->failed && !rs->stop;
        pthread_mutex_unlock(&rs->lock);
        end = restored_end(engine, request);
        if (!ready || end >= c->n_all)
                return 0;
        return (uint32_t)MIN((size_t)(c->n_all - end), (size_t)engine->o.batch_tokens);
}

/* The sequence takes over the references, so that a partial tail is written in place: the worker
 * brings a layer's section before the model writes into it. */
static int attach(struct restore *rs) {
        struct seq *s = rs->request->conv->seq;

        for (size_t i = 0; i < rs->n; i++) {
                struct restore_item *it = &rs->items[i];

                if (!it->appended)
                        seq_attach(s, it->index, it->block);
                else if (seq_adopt(s, &it->block, 1, NULL) < 0)
                        return -ERR_NOMEM;
        }
        for (size_t i = 0; i < rs->n; i++)
                seq_block_unref(rs->items[i].block);
        rs->attached = true;
        return 0;
}

/* Also after attach() failed half way. */
static void detach(struct restore *rs, uint32_t n_tokens) {
        struct seq *s = rs->request->conv->seq;

        seq_unreserve(s);
        for (size_t i = 0; i < rs->n; i++) {
                struct restore_item *it = &rs->items[i];

                if (rs->attached)
                        seq_block_ref(it->block);
                if (!it->appended && seq_block_at(s, it->index))
                        seq_drop(s, it->index);
        }
        if (seq_n_tokens(s) > n_tokens)
                seq_cut(s, n_tokens);
        rs->attached = false;
        rs->tried = true;
}

static int wait_layer(void *arg, uint32_t layer) {
        struct engine *engine = arg;
        struct restore *rs = engine->trial;
        uint64_t until = clock_monotonic_usec() + PATIENCE_USEC;
        size_t section = engine->layer_section[layer];
        struct timespec ts;
        bool ok;

        pthread_mutex_lock(&rs->lock);
        while (rs->arrived[section] < rs->n_runs && !rs->failed) {
                uint64_t now = clock_monotonic_usec();

                if (now > until) {
                        bool wanted;

                        pthread_mutex_unlock(&rs->lock);
                        pthread_mutex_lock(&engine->lock);
                        wanted = engine->signalled;
                        pthread_mutex_unlock(&engine->lock);
                        atomic_fetch_add(&engine->heartbeat, 1);
                        pthread_mutex_lock(&rs->lock);
                        if (wanted)
                                break;
                }
                now += WAIT_USEC;
                ts = (struct timespec){(time_t)(now / 1000000), (long)(now % 1000000 * 1000)};
                pthread_cond_timedwait(&rs->cond, &rs->lock, &ts);
        }
        ok = rs->arrived[section] == rs->n_runs && !rs->failed;
        pthread_mutex_unlock(&rs->lock);
        return ok ? 0 : 1;
}

bool restore_compute(struct engine *engine, struct request *request, size_t *n_rows) {
        struct restore *rs = request->g.restore;
        struct conv *c = request->conv;
        struct model_wait wait = {.layer = wait_layer, .arg = engine};
        uint32_t n = trial_size(engine, request), before = seq_n_tokens(c->seq), pos;
        int r;

        if (n == 0)
                return false;
        r = attach(rs);
        if (r == 0)
                r = seq_reserve(c->seq, n, NULL);
        if (r != 0) {
                detach(rs, before);
                return false;
        }
        pos = seq_n_tokens(c->seq);
        for (uint32_t i = 0; i < n; i++)
                engine->batch[i] = (struct model_token){.token = c->tokens[pos + i],
                        .pos = pos + i,
                        .seq = c->seq,
                        .want_logits = pos + i + 1 == c->n_all && request->g.max_new > 0};
        engine->trial = rs;
        r = model_forward(engine->work, engine->batch, n, &wait);
        engine->trial = NULL;
        if (r != 0) {
                detach(rs, before);
                return false;
        }
        if (engine->batch[n - 1].want_logits)
                engine->batch_rows[(*n_rows)++] = request;
        engine->count.restores_overlapped++;
        request->g.in_batch = n;
        rs->n_allocated = 0; /* the sequence has them */
        restore_finish(engine, rs);
        return true;
}
