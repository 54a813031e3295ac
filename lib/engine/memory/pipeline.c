/* SPDX-License-Identifier: MIT */
/*
 * The reading of a restore: blocks are split into runs over the I/O workers. Each worker reads its
 * run in large joined reads straight into pool blocks, checks and decodes.
 *
 * If a request computes alone and has more to compute, sections are read in stages, the first
 * layers of all blocks first. The request computes its next tokens while the later layers arrive:
 *
 * 1. The blocks are attached to the sequence on trial, for the length of one model_forward(). No
 *    other code of the engine thread runs meanwhile, so nothing else can see, fork, enter or write
 *    them (I5).
 * 2. A layer touches the blocks only after its sections were read and verified in all of them
 *    (restore_wait_layer()).
 * 3. If the forward call completes, it has waited for all layers, so everything is verified: the
 *    trial becomes final, and the computed tokens are committed.
 * 4. Else (damage, or other work waits for the engine thread while the disk is slow) the blocks are
 *    detached and nothing is committed. The request goes on as others do: it waits until everything
 *    is read, keeps the good blocks, and computes the rest.
 *
 * While other requests are active this is not tried, so a restore never makes them wait.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/memory/restore.h"

#define RUN_SIZE ((size_t)1 << 20) /* raw bytes that are worth a worker */
#define PATIENCE_USEC 200000       /* the engine thread's wait before it looks for other work */
#define WAIT_USEC 50000

struct restore *restore_new(size_t n) {
        struct restore *restore = calloc(1, sizeof(*restore));
        pthread_condattr_t attr;

        if (!restore)
                return NULL;
        restore->items = calloc(n + 1, sizeof(*restore->items));
        restore->reads = calloc(n + 1, sizeof(*restore->reads));
        if (!restore->items || !restore->reads) {
                free(restore->items);
                free(restore->reads);
                free(restore);
                return NULL;
        }
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&restore->lock, NULL);
        pthread_cond_init(&restore->cond, &attr);
        pthread_condattr_destroy(&attr);
        return restore;
}

static void restore_free(struct engine *engine, struct restore *restore) {
        conv_discharge(engine, restore->charged);
        for (size_t i = 0; i < restore->n_allocated; i++)
                if (!restore->items[i].given)
                        seq_block_unref(restore->items[i].block);
        seq_free(restore->before);
        pthread_mutex_destroy(&restore->lock);
        pthread_cond_destroy(&restore->cond);
        free(restore->items);
        free(restore->reads);
        free(restore);
}

void restore_stop(struct restore *restore) {
        pthread_mutex_lock(&restore->lock);
        restore->stop = true;
        pthread_mutex_unlock(&restore->lock);
}

void restore_let_go(struct engine *engine, struct restore *restore) {
        restore->recall = NULL;
        if (restore->n_jobs == 0)
                restore_free(engine, restore);
        else
                restore_stop(restore);
}

/* --- workers --- */

/* Stages [first, first + n) of a run have arrived, or @r tells why not. False: stop reading. */
static bool arrive(struct engine *engine, struct restore *restore, size_t first, size_t n, int r,
        const struct err *e) {
        size_t n_all = layout_n_stages(engine);
        bool go_on, wake = false;

        pthread_mutex_lock(&restore->lock);
        if (r < 0 && !restore->failed) {
                restore->failed = true;
                restore->err = *e;
        }
        for (size_t i = first; r == 0 && i < first + n; i++)
                restore->arrived[i]++;
        if (r == 0 && first + n == n_all && restore->arrived[n_all - 1] == restore->n_runs)
                restore->t_end = clock_monotonic_usec();
        wake = restore->by_stages && first == 0 && n > 0 && restore->arrived[0] == restore->n_runs;
        go_on = !restore->stop;
        pthread_cond_broadcast(&restore->cond);
        pthread_mutex_unlock(&restore->lock);
        if (wake)
                bell_ring(engine->bell);
        return go_on;
}

static int read_stages(struct engine *engine, struct restore_run *run, struct spill_load *load,
        size_t at, size_t n, struct err *e) {
        struct spill_range ranges[SPILL_MAX_CLASSES] = {0};

        for (int c = 0; c < SEQ_N_CLASSES; c++) {
                ranges[c].first = layout_stage_sections(engine, (enum seq_class)c, at);
                ranges[c].n =
                        layout_stage_sections(engine, (enum seq_class)c, at + n) - ranges[c].first;
        }
        return spill_load_read(load, ranges, e);
}

/* After a failure the reading of other items goes on: blocks before the damage are kept. */
static void run_run(struct engine *engine, struct job *j) {
        struct restore_run *run = container_of(j, struct restore_run, job);
        struct restore *restore = run->restore;
        struct spill_item *items = restore->reads + run->first;
        size_t n_all = layout_n_stages(engine), step = restore->by_stages ? 1 : n_all;
        _cleanup_(spill_load_freep) struct spill_load *load = NULL;
        size_t at = 0;

        j->r = spill_load_new(&load, engine->spill, items, run->n, &j->err);
        if (!load)
                for (size_t i = 0; i < run->n; i++)
                        items[i].r = j->r;
        if (!arrive(engine, restore, 0, 0, j->r, &j->err) || !load)
                goto end;
        while (at < n_all) {
                size_t n = MIN(step, n_all - at);
                int r = read_stages(engine, run, load, at, n, &j->err);

                at += n;
                j->r = j->r < 0 ? j->r : r;
                if (!arrive(engine, restore, at - n, n, j->r, &j->err))
                        break;
                /* The first stages are waited for; then calls get larger. */
                step = at > 1 ? step * 2 : step;
        }
end:
        for (size_t i = 0; i < run->n && at < n_all; i++)
                if (items[i].r == 0)
                        items[i].r = -ERR_CANCELLED;
}

static void run_done(struct engine *engine, struct job *j) {
        struct restore *restore = container_of(j, struct restore_run, job)->restore;

        if (--restore->n_jobs > 0)
                return;
        if (restore->t_end == 0)
                restore->t_end = clock_monotonic_usec();
        if (restore->recall)
                restore->ended(engine, restore);
        else
                restore_free(engine, restore);
}

/* --- engine thread --- */

uint32_t restore_end(const struct engine *engine, const struct restore *restore) {
        return MAX(seq_n_tokens(restore->recall->conv->seq),
                (uint32_t)restore->n_found * engine->info.block_tokens);
}

size_t restore_size(const struct engine *engine, const struct restore *restore) {
        size_t n = 0;

        for (size_t i = 0; i < restore->n; i++)
                n += engine->info.shape.size[restore->items[i].class];
        return n;
}

void restore_start(struct engine *engine, struct restore *restore) {
        size_t n = restore->n, n_runs = MIN(n, restore_size(engine, restore) / RUN_SIZE);

        for (size_t i = 0; i < n; i++) {
                struct restore_item *it = &restore->items[i];

                restore->reads[i] = (struct spill_item){.ref = record_ref(&it->record),
                        .meta = record_meta(&it->record),
                        .dst = seq_block_data(it->block),
                        .is_fresh = seq_block_is_fresh(it->block)};
        }
        restore->by_stages = layout_n_stages(engine) > 1 && restore->recall->alone &&
                             restore_end(engine, restore) < restore->recall->conv->n_all;
        n_runs = MIN(n_runs, io_n_running(engine));
        restore->n_runs = restore->n_jobs = MAX(n_runs, (size_t)1);
        restore->t_start = clock_monotonic_usec();
        for (size_t i = 0; i < restore->n_runs; i++) {
                struct restore_run *run = &restore->runs[i];

                *run = (struct restore_run){.restore = restore, .first = n * i / restore->n_runs};
                run->n = n * (i + 1) / restore->n_runs - run->first;
                run->job.kind = JOB_RESTORE;
                run->job.is_part = restore->n_runs > 1;
                run->job.run = run_run;
                run->job.done = run_done;
        }
        /* Only now, because the first job may end before the last one is submitted. */
        for (size_t i = 0, n_all = restore->n_runs; i < n_all; i++)
                io_submit(engine, &restore->runs[i].job);
}

bool restore_has_begun(struct restore *restore) {
        bool begun;

        if (!restore->by_stages || restore->tried || restore->n_jobs == 0)
                return false;
        pthread_mutex_lock(&restore->lock);
        begun = restore->arrived[0] == restore->n_runs && !restore->failed && !restore->stop;
        pthread_mutex_unlock(&restore->lock);
        return begun;
}

/* What was read of another conversation's prefix continues the sequence, as far as it is whole. */
static int append(struct engine *engine, struct restore *restore, bool trial) {
        struct seq *s = restore->recall->conv->seq;
        uint32_t bt = engine->info.block_tokens;
        _cleanup_(freep) struct seq_step *steps = NULL;
        size_t n;

        if (restore->n_found == 0)
                return 0;
        steps = calloc(restore->n_found, sizeof(*steps));
        if (!steps)
                return -ERR_NOMEM;
        for (size_t i = 0; i < restore->n; i++) {
                struct restore_item *it = &restore->items[i];

                if (it->appended && (trial || restore->reads[i].r == 0))
                        steps[it->end / bt - 1].block[it->class] = it->block;
        }
        n = seq_steps_whole(engine->pool, s, steps, restore->n_found);
        return n * bt > seq_n_tokens(s) ? seq_adopt(s, steps, n, NULL) : 0;
}

/* The sequence takes over the reference to a block of its own, so that a partial tail is written in
 * place: the workers bring a layer's section before the model writes into this layer. Blocks that are
 * appended are full, and full blocks and states are never written in place. */
int restore_attach(struct engine *engine, struct restore *restore, bool trial) {
        struct seq *s = restore->recall->conv->seq;
        int r = 0;

        if (trial && restore->n_found > 0)
                r = seq_fork(&restore->before, s, seq_n_tokens(s), NULL);
        for (size_t i = 0; r == 0 && i < restore->n; i++) {
                struct restore_item *it = &restore->items[i];
                struct seq_cell cell;

                if (it->appended || (!trial && restore->reads[i].r < 0) ||
                        !seq_cell_at(s, it->class, it->index, &cell) || cell.block)
                        continue;
                seq_attach(s, it->class, it->index, it->block);
                seq_block_unref(it->block);
                it->given = true;
        }
        restore->attached = true;
        return r < 0 ? r : append(engine, restore, trial);
}

void restore_detach(struct restore *restore) {
        struct conv *c = restore->recall->conv;

        seq_unreserve(c->seq);
        for (size_t i = 0; i < restore->n; i++)
                if (restore->items[i].given)
                        seq_block_ref(restore->items[i].block);
        if (restore->before) {
                seq_free(c->seq);
                c->seq = TAKE_PTR(restore->before);
        }
        for (size_t i = 0; i < restore->n; i++) {
                struct restore_item *it = &restore->items[i];
                struct seq_cell cell;

                if (it->given && seq_cell_at(c->seq, it->class, it->index, &cell) &&
                        cell.block == it->block)
                        seq_drop(c->seq, it->class, it->index);
                it->given = false;
        }
        restore->attached = false;
        restore->tried = true;
}

int restore_wait_layer(struct engine *engine, struct restore *restore, uint32_t layer) {
        uint64_t until = clock_monotonic_usec() + PATIENCE_USEC;
        size_t stage = layout_stages_of(engine, layer) - 1;
        struct timespec ts;
        bool ok;

        pthread_mutex_lock(&restore->lock);
        while (restore->arrived[stage] < restore->n_runs && !restore->failed) {
                uint64_t now = clock_monotonic_usec();

                if (now > until) {
                        bool wanted;

                        pthread_mutex_unlock(&restore->lock);
                        wanted = bell_has_rung(engine->bell);
                        atomic_fetch_add(&engine->heartbeat, 1);
                        pthread_mutex_lock(&restore->lock);
                        if (wanted)
                                break;
                }
                now += WAIT_USEC;
                ts = (struct timespec){(time_t)(now / 1000000), (long)(now % 1000000 * 1000)};
                pthread_cond_timedwait(&restore->cond, &restore->lock, &ts);
        }
        ok = restore->arrived[stage] == restore->n_runs && !restore->failed;
        pthread_mutex_unlock(&restore->lock);
        return ok ? 0 : 1;
}
