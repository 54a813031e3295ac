/* SPDX-License-Identifier: MIT */
/*
 * Write-behind: the full blocks and the states of a conversation that has been idle for a while are
 * written in the background, so that evicting the conversation only has to free them. One job runs at a time. It
 * writes a few MiB, as the kind of work that the I/O workers take last (io/workers.c). A request
 * for the conversation does not wait for the job: what is pinned does not change (a request copies a
 * tail that is), and the job has its own copy of the tokens. The same job forgets the records of cells that the sequence has given
 * up (checkpoint.c, windows).
 *
 *      idle for spill_delay_ms
 *      (dirty list) ──────────→ WRITING ───────→ LINK WAITS ───────→ LINKING ───────→ done
 *                                job 1        Rewind, Close hold it    job 2
 *
 * 1. WRITING touches neither the conversation nor the register: the job appends bytes that nothing
 *    refers to yet. Meanwhile the conversation may be continued, forked, rewound or unloaded.
 * 2. Before LINKING the engine thread checks that the conversation is still loaded, and that its
 *    committed tokens up to the end of each block are the tokens that were written. Blocks that
 *    fail the check are given back. (Comparing the tokens themselves is as good as any generation
 *    counter.)
 * 3. Between this check and the end of the transaction no verb may remove tokens from the
 *    conversation, and the conversation stays loaded. Rewind waits for n_links. Close waits for the
 *    whole job, so that nothing is left of a closed conversation; LINKING waits for both of them. A
 *    Continue that cuts waits for n_links as well. LINKING does not wait for such a Continue:
 *    tokens behind its cut do not belong to the conversation while it runs (edit.c). All other
 *    verbs go on, because they only append or copy.
 * 4. A block is marked (TAG_WRITING) from the beginning of WRITING to the end of LINKING. An
 *    eviction of the block waits until then, so no block is written twice.
 * 5. After a failure the conversation is left alone until it is used again: its eviction tries once
 *    more, and drops what then cannot be written. A refused write stops all write-behind for a
 *    while (for the daily limit: until tomorrow).
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/memory/state.h"

#define JOB_SIZE ((size_t)4 << 20)     /* raw bytes */
#define REFUSED_USEC (30 * 1000000ull) /* pause after a refusal */

static void link_run(struct engine *engine, struct job *j) {
        struct write_job *writing = container_of(j, struct write_job, job);

        j->r = write_link(engine, writing, &j->err);
}

static void pause_after(struct engine *engine, const struct write_job *writing) {
        uint64_t now = clock_monotonic_usec(), today = clock_realtime_usec();

        if (writing->failed && writing->why == SPILL_REFUSED_DAY)
                engine->memory->t_write = now + quota_day_ends(today) - today;
        else if (writing->failed)
                engine->memory->t_write = now + REFUSED_USEC;
}

static void link_done(struct engine *engine, struct job *j) {
        struct write_job *writing = container_of(j, struct write_job, job);
        struct conv *c = writing->c;

        /* Another machine has it now (main/lease.c): what was written is given back, and what is here is old. */
        if (j->r == -ERR_MOVED && c)
                c->stale = true;
        else if (j->r < 0 && j->r != -ERR_MOVED)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, c ? c->owner : OWNER_ANY, c ? c->id : 0,
                        &j->err);
        write_finish(engine, writing);
        for (size_t i = 0; i < writing->n; i++)
                engine->count.writebehind_blocks += writing->items[i].ok && writing->items[i].write;
        pause_after(engine, writing);
        engine->memory->write_behind = NULL;
        if (c) {
                c->writer = NULL;
                c->n_links = 0;
                if (writing->failed || j->r < 0)
                        list_unlink(&c->dirty);
                conv_resume(engine, c);
                /* Unloading had to wait for the link transaction (invariant 3). */
                if (c->stale && c->n_users == 0)
                        conv_unload(engine, c);
        }
        write_job_free(engine, writing);
        evict_retry(engine);
}

/* The check of invariant 2. */
static bool belongs(
        const struct write_job *writing, const struct conv *c, const struct write_item *it) {
        return it->end <= c->n_tokens &&
               memcmp(c->tokens, writing->tokens, (size_t)it->end * sizeof(*c->tokens)) == 0;
}

/* Cells that the sequence has come to have again stay. */
static void recheck_drops(struct write_job *writing, const struct conv *c) {
        size_t n = 0;

        for (size_t i = 0; c && !c->edit && i < writing->n_drops; i++) {
                const struct store_cell *p = &writing->drops[i];
                struct seq_cell cell;

                if (!seq_cell_at(c->seq, (enum seq_class)p->block_class, p->index, &cell))
                        writing->drops[n++] = *p;
        }
        writing->n_drops = n;
}

/* LINK WAITS → LINKING, unless a Rewind or Close is under way. */
static void try_link(struct engine *engine, struct write_job *writing) {
        struct conv *c = writing->c;

        writing->waits = c && c->busy && c->removes;
        if (writing->waits)
                return;
        if (c && c->stale) {
                c->writer = NULL;
                writing->c = c = NULL;
        }
        for (size_t i = 0; i < writing->n; i++)
                writing->items[i].ok =
                        writing->items[i].ok && c && belongs(writing, c, &writing->items[i]);
        recheck_drops(writing, c);
        if (c)
                c->n_links = 1;
        writing->job.kind = JOB_VERB; /* the job is short, and a Rewind may wait for it */
        writing->job.run = link_run;
        writing->job.done = link_done;
        io_submit(engine, &writing->job);
}

static void write_run(struct engine *engine, struct job *j) {
        write_blocks(engine, container_of(j, struct write_job, job));
}

static void write_done(struct engine *engine, struct job *j) {
        try_link(engine, container_of(j, struct write_job, job));
}

/* 0: a job is under way; 1: not now; 2: there is nothing to do, or it cannot be done. */
static int start(struct engine *engine, struct conv *c) {
        size_t max = MAX(JOB_SIZE / engine->budget->block_size, (size_t)1);
        struct write_job *writing = NULL;
        int r = write_job_new(&writing, engine, c, true, max, NULL);

        if (r == 1)
                return 1;
        if (!writing)
                return 2;
        writing->job.kind = JOB_WRITE_BEHIND;
        writing->job.run = write_run;
        writing->job.done = write_done;
        writing->c = c;
        c->writer = &writing->c;
        engine->memory->write_behind = writing;
        write_start(engine, writing);
        return 0;
}

uint64_t writebehind_step(struct engine *engine) {
        uint64_t now, delay = (uint64_t)engine->o.spill_delay_ms * 1000;
        struct memory *m = engine->memory;
        struct conv *c, *before = NULL;

        if (m->write_behind) {
                if (m->write_behind->waits)
                        try_link(engine, m->write_behind);
                return UINT64_MAX;
        }
        if (engine->stopping || engine->o.spill_delay_ms == UINT32_MAX)
                return UINT64_MAX;
        while ((c = convs_next_dirty(engine, before))) {
                now = clock_monotonic_usec();
                if (now < m->t_write)
                        return m->t_write;
                if (c->t_idle + delay > now)
                        return c->t_idle + delay;
                switch (start(engine, c)) {
                case 0:
                        return UINT64_MAX;
                case 1:
                        before = c;
                        break;
                case 2:
                        list_unlink(&c->dirty);
                }
        }
        return UINT64_MAX;
}
