/* SPDX-License-Identifier: MIT */
/*
 * Recalling: bringing the memory that a request needs into RAM before it computes. memory.h has the
 * contract, pipeline.c does the reading.
 *
 *      recall_step()  gather: own blocks in RAM; others' in RAM into holes and behind the end
 *        ↓            (share.c)
 *      reading        search: does another conversation have a longer prefix on disk? (only where
 *        ↓            it is worth it)
 *      recall_step()  plan: holes, and the blocks found behind the end; blocks are allocated,
 *        ↓            (plan.c), evicting where needed
 *      reading        pipeline.c
 *        ↓
 *      finish()       attach, tag; enter into the index
 *        ↓
 *      fetch.c        what the remote store has beyond that
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/memory/restore.h"
#include "engine/memory/state.h"

/* --- gather --- */

/* A block that the index does not know (a tail, private memory), but a fork has in RAM; or NULL. */
static struct seq_block *find_fork(struct engine *engine, const struct conv *self,
        enum seq_class class, uint32_t index, const struct rec *rec) {
        struct conv *c;
        size_t it = 0;

        if (rec->n_refs < 2)
                return NULL;
        while ((c = convs_next(engine, &it))) {
                struct seq_cell cell;

                if (c != self && seq_cell_at(c->seq, class, index, &cell) && cell.block &&
                        seq_block_tag(cell.block) == rec->r.id)
                        return cell.block;
        }
        return NULL;
}

static void hash_prompt(struct engine *engine, struct recall *recall) {
        const struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens;
        uint64_t hash = 0;

        for (size_t i = 0; i < recall->n_blocks; i++) {
                uint32_t n = MIN(bt, c->n_all - (uint32_t)i * bt);

                hash = conv_token_hash(c->tokens, bt, (uint32_t)i, n, hash);
                recall->hashes[i] = hash;
        }
}

/* The record from which the hole can be read, or NULL. */
static const struct rec *hole_rec(struct engine *engine, const struct recall *recall,
        enum seq_class class, const struct seq_cell *cell) {
        const struct conv *c = recall->conv;
        const struct conv_rec *entry = recs_at(&c->recs, class, cell->index);

        if (!entry || !conv_cell_on_disk(c, class, cell))
                return NULL;
        /* The entries of a conversation are of its tokens (recs.c); look all the same, where possible. */
        if (entry->rec->r.n_tokens == cell->n_tokens &&
                entry->rec->r.token_hash !=
                        conv_hash_at(engine, c->tokens, recall->hashes, cell->end))
                return NULL;
        return entry->rec;
}

/* The block of the prefix index for a cell that ends where a block ends, or NULL. */
static struct seq_block *shared_block(const struct engine *engine, const struct seq_step *steps,
        size_t n, enum seq_class class, const struct seq_cell *cell) {
        uint32_t bt = engine->info.block_tokens;

        return cell->end % bt == 0 && cell->end / bt <= n ? steps[cell->end / bt - 1].block[class]
                                                          : NULL;
}

/* Fill the hole from RAM if possible. False if nothing can fill it, not even the disk. */
static bool gather_hole(struct engine *engine, struct recall *recall, enum seq_class class,
        const struct seq_cell *cell, struct seq_block *shared) {
        const struct rec *rec = hole_rec(engine, recall, class, cell);
        struct conv *c = recall->conv;

        /* The index knows full blocks, and states where blocks end. */
        if (!shared && rec && (cell->end % engine->info.block_tokens != 0 || !share_allowed(c)))
                shared = find_fork(engine, c, class, cell->index, rec);
        if (shared) {
                seq_attach(c->seq, class, cell->index, shared);
                recall_note_source(engine, recall, class, cell->end, SOURCE_SHARED);
        }
        return shared || rec;
}

/* Look for everything that the end of the sequence needs, from RAM. False if a cell was lost, and the
 * sequence is shorter now: its new end needs other cells. */
static bool gather_class(struct engine *engine, struct recall *recall, enum seq_class class,
        const struct seq_step *steps, size_t n_steps) {
        struct conv *c = recall->conv;
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, class, &it, &cell)) {
                if (!cell.needed)
                        continue;
                if (cell.block) {
                        recall_note_source(engine, recall, class, cell.end, SOURCE_RAM);
                } else if (!gather_hole(engine, recall, class, &cell,
                                   shared_block(engine, steps, n_steps, class, &cell))) {
                        cut_damaged(engine, c, class, cell.index, 0);
                        return false;
                }
        }
        return true;
}

static void gather_own(struct engine *engine, struct recall *recall, const struct seq_step *steps,
        size_t n_steps) {
        bool whole;

        do {
                whole = true;
                memset(recall->sources, SOURCE_NONE, recall->n_blocks);
                recall->state_source = SOURCE_NONE;
                for (int class = 0; whole && class < SEQ_N_CLASSES; class ++)
                        whole = gather_class(
                                engine, recall, (enum seq_class) class, steps, n_steps);
        } while (!whole);
}

/* What an earlier round has brought is in RAM now, and keeps its source. */
static void keep_sources(struct recall *recall, const uint8_t *before, size_t n) {
        for (size_t i = 0; i < MIN(n, recall->n_blocks); i++)
                if (recall->sources[i] == SOURCE_RAM)
                        recall->sources[i] = MAX(before[i], (uint8_t)SOURCE_RAM);
}

static void discharge(struct engine *engine, struct recall *recall) {
        conv_discharge(engine, recall->charged);
        recall->charged = 0;
}

/* Charge what recalling so many blocks takes beside them: hashes and sources, two looks at the prefix
 * index, and two runs of records, those that a search of the register has found and compares with. */
static int charge_recall(
        struct engine *engine, struct recall *recall, size_t n_blocks, struct err *e) {
        size_t n = n_blocks + 1, each, n_classes = 0;

        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                n_classes += engine->info.shape.size[class] > 0;
        each = sizeof(*recall->hashes) + 2 * sizeof(*recall->sources) +
               2 * sizeof(struct seq_step) + 2 * n_classes * sizeof(struct store_record);
        discharge(engine, recall);
        if (conv_charge(engine, n * each) != 0)
                return err_set(e,
                        budget_code(engine->budget, &engine->budget->conversations, n * each),
                        "the memory budget has no room to look for %zu blocks", n);
        recall->charged = n * each;
        return 0;
}

static int gather(struct engine *engine, struct recall *recall, struct err *e) {
        struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens;
        _cleanup_(freep) struct seq_step *steps = NULL;
        _cleanup_(freep) uint8_t *before = TAKE_PTR(recall->sources);
        size_t n_steps = 0, n_before = before && recall->again_from_start ? recall->n_blocks : 0;
        int r;

        recall->told = recall->told && recall->again_from_start;
        /* The last token is computed again even if its memory is there: its logits are needed. */
        if (recall->wants_logits && c->n_all > 0)
                conv_cut(c, c->n_all - 1);
        recall->n_blocks = ((size_t)c->n_all + bt - 1) / bt;
        r = charge_recall(engine, recall, recall->n_blocks, e);
        if (r < 0)
                return r;
        recall->hashes = calloc(recall->n_blocks + 1, sizeof(*recall->hashes));
        recall->sources = calloc(recall->n_blocks + 1, sizeof(*recall->sources));
        steps = calloc(recall->n_blocks + 1, sizeof(*steps));
        if (!recall->hashes || !recall->sources || !steps)
                return err_set(e, ERR_NOMEM, "no memory to restore a conversation");
        hash_prompt(engine, recall);
        if (seq_n_missing(c->seq) > 0)
                n_steps = share_find(engine, c, seq_n_tokens(c->seq) / bt, steps);
        gather_own(engine, recall, steps, n_steps);
        keep_sources(recall, before, n_before);
        share_adopt(engine, recall);
        return 0;
}

/* --- search --- */

static void search_run(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);
        struct conv *c = recall->conv; /* the request holds it, so its tokens stay */

        j->r = register_find_prefix(engine, c->owner, c->tokens, recall->hashes,
                share_limit(engine, recall), &recall->found, &j->err);
}

static void search_done(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);

        if (j->r < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, recall->conv->owner, recall->conv->id,
                        &j->err);
        recall->reading = false;
        engine->again = true;
}

/* --- the end --- */

/* A good block is in the sequence: its record, and where it came from. */
static void take(struct engine *engine, struct recall *recall, const struct restore_item *it) {
        struct conv *c = recall->conv;
        struct conv_rec entry = {NULL, it->index, it->record.n_tokens, false};
        struct seq_cell cell;

        if (!seq_cell_at(c->seq, it->class, it->index, &cell) || cell.block != it->block)
                return;
        seq_block_set_tag(it->block, it->record.id);
        recall_note_source(engine, recall, it->class, it->end, SOURCE_DISK);
        engine->count.blocks_restored++;
        if (!it->appended)
                return;
        /* Known, but not linked yet: write-behind or the eviction will link it. */
        entry.rec = rec_get(engine, &it->record, NULL);
        if (entry.rec && recs_set(engine, &c->recs, it->class, &entry, NULL) < 0)
                rec_put(engine, entry.rec);
}

/* A cell could not be read. Of what others have, nothing was taken: the own memory stays as it is. */
static void forget_item(
        struct engine *engine, struct restore *restore, const struct restore_item *it) {
        struct conv *c = restore->recall->conv;
        struct rec *rec = rec_find(engine, it->record.id);

        if (rec)
                rec->damaged = true; /* others that link it need not read it */
        if (it->appended) {
                c->no_disk_share = true;
                forget_damaged(engine, c, it->record.id);
        } else {
                cut_damaged(engine, c, it->class, it->index, it->record.id);
        }
}

/* Not all could be read. The fault is told, and all damaged records are forgotten, so that none of them is read
 * again; but what lies behind a block of full attention was forgotten with it. */
static void forget_items(struct engine *engine, struct restore *restore) {
        struct conv *c = restore->recall->conv;
        bool first = true, appended_block = false;

        for (size_t i = 0; i < restore->n; i++) {
                const struct restore_item *it = &restore->items[i];
                bool known = it->appended ? it->class != SEQ_ALL || !appended_block
                                          : recs_at(&c->recs, it->class, it->index) != NULL;
                int r = restore->reads[i].r;

                /* Whatever the first fault is: where nothing is forgotten it would be met again. */
                if (r == 0 || r == -ERR_NOMEM || (!first && (r != -ERR_CORRUPT || !known)))
                        continue;
                first = false;
                appended_block = appended_block || (it->appended && it->class == SEQ_ALL);
                forget_item(engine, restore, it);
        }
}

/* What could not be read for want of memory is not damaged: it stays on disk, and is computed this time. */
static void give_up_unread(struct engine *engine, struct restore *restore) {
        for (size_t i = 0; i < restore->n; i++)
                if (restore->reads[i].r == -ERR_NOMEM) {
                        restore_give_up(engine, restore->recall->conv);
                        return;
                }
}

/* Reading is over: take the good blocks. */
static void finish(struct engine *engine, struct restore *restore) {
        struct recall *recall = restore->recall;
        struct conv *c = recall->conv;
        size_t n_good = 0;

        if (!restore->attached)
                (void)restore_attach(engine, restore, false);
        for (size_t i = 0; i < restore->n; i++) {
                if (restore->reads[i].r != 0)
                        continue;
                take(engine, recall, &restore->items[i]);
                n_good++;
        }
        if (n_good < restore->n) {
                event_log(engine, ENGINE_LOG_RECORD_DAMAGED, c->owner, c->id, &restore->err);
                engine->count.restore_failures++;
                forget_items(engine, restore);
                give_up_unread(engine, restore);
        }
        recall->t_read = restore->t_end;
        engine->count.restores++;
        if (n_good > 0 && !recall->told) {
                recall->told = true;
                notice_conv(engine, ENGINE_NOTICE_RESTORED, c->owner, c->id, c->revision);
        }
        if (n_good == restore->n)
                restore_note(engine, restore);
        /* The end may have come to need cells that were not read: it is looked at once more. */
        recall->again_from_start = seq_n_missing(c->seq) > 0;
        recall->no_search =
                recall->no_search || seq_n_tokens(c->seq) < restore_end(engine, restore);
        c->n_known = MAX(c->n_known, seq_n_tokens(c->seq));
        recall_abandon(engine, recall); /* the sequence has references of its own */
        share_enter(engine, c, 0);
}

/* Engine thread: the last worker is done. */
static void reading_ended(struct engine *engine, struct restore *restore) {
        struct recall *recall = restore->recall;

        recall->reading = false;
        engine->again = true;
        if (restore->stop) {
                /* Nothing was attached, and holes stay holes. */
                recall_abandon(engine, recall);
        } else {
                finish(engine, restore);
                recall->done = !recall->again_from_start;
        }
}

void recall_abandon(struct engine *engine, struct recall *recall) {
        struct store_prefix found = recall->found;

        /* How far the tokens agree is still asked for: share_explain(). */
        recall->found = (struct store_prefix){
                .n_common = found.n_common, .donor_tokens = found.donor_tokens};
        if (recall->restore)
                restore_let_go(engine, TAKE_PTR(recall->restore));
        fetch_let_go(engine, recall);
        free(TAKE_PTR(recall->hashes));
        store_prefix_deinit(&found);
        discharge(engine, recall);
        recall->gathered = recall->searched = recall->reading = recall->done = false;
}

void recall_stop(struct engine *engine, struct recall *recall) {
        if (recall->restore)
                restore_stop(recall->restore);
        if (recall->fetch) {
                fetch_let_go(engine, recall);
                recall->reading = false;
        }
}

void recall_deinit(struct engine *engine, struct recall *recall) {
        fetch_let_go(engine, recall);
        discharge(engine, recall);
        free(recall->hashes);
        free(recall->sources);
        store_prefix_deinit(&recall->found);
}

static int prepare(struct engine *engine, struct recall *recall, struct err *e) {
        int r;

        if (!recall->gathered) {
                r = gather(engine, recall, e);
                if (r < 0)
                        return r;
                recall->gathered = true;
        }
        if (!recall->searched && share_worth_search(engine, recall)) {
                recall->searched = true;
                recall->reading = true;
                recall->job.run = search_run;
                recall->job.done = search_done;
                io_submit(engine, &recall->job);
                return 0;
        }
        restore_plan(engine, recall);
        return 0;
}

/* 0; 1: later; -ERR_X. */
static int allocate(struct engine *engine, struct restore *restore, struct err *e) {
        while (restore->n_allocated < restore->n) {
                struct restore_item *it = &restore->items[restore->n_allocated];
                int r = seq_block_new(&it->block, engine->pool, it->class, e);
                enum room room;

                if (r == 0) {
                        restore->n_allocated++;
                        continue;
                }
                if (r < 0)
                        return r;
                room = memory_make_room(engine);
                if (room == ROOM_LATER)
                        return 1;
                if (room == ROOM_NEVER)
                        return err_set(e, ERR_LIMIT,
                                "the memory budget has no room to restore the conversation");
        }
        return 0;
}

/* What is in RAM and on disk. */
static int step_here(struct engine *engine, struct recall *recall, struct err *e) {
        int r = 0;

        if (recall->done) {
                recall->done = false;
                return 0;
        }
        if (recall->reading)
                return 1;
        if (!recall->restore) {
                if (recall->conv->n_io > 0)
                        return 1; /* evicted while it was in the queue: wait for the end */
                r = prepare(engine, recall, e);
                if (r < 0)
                        return r;
                if (recall->reading)
                        return 1; /* the search is under way */
                if (!recall->restore) {
                        recall_abandon(engine, recall);
                        share_enter(engine, recall->conv, 0);
                        return 0;
                }
        }
        r = allocate(engine, recall->restore, e);
        if (r != 0)
                return r;
        recall->reading = true;
        recall->restore->ended = reading_ended;
        restore_start(engine, recall->restore);
        return 1;
}

int recall_step(struct engine *engine, struct recall *recall, struct err *e) {
        int r;

        if (recall->fetch)
                return fetch_step(engine, recall);
        r = step_here(engine, recall, e);
        if (r != 0 || !fetch_is_wanted(engine, recall))
                return r;
        fetch_begin(engine, recall);
        return recall->fetch ? 1 : 0;
}

/* --- on trial --- */

static int wait_layer(void *arg, uint32_t layer) {
        struct engine *engine = arg;

        return restore_wait_layer(engine, engine->memory->trial, layer);
}

uint32_t trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait) {
        struct restore *restore = recall->restore;
        struct conv *c = recall->conv;
        uint32_t end, n;

        if (!recall->reading || !restore || !restore_has_begun(restore))
                return 0;
        end = restore_end(engine, restore);
        if (end >= c->n_all)
                return 0;
        if (restore_attach(engine, restore, true) < 0 || seq_n_tokens(c->seq) != end) {
                restore_detach(restore);
                return 0;
        }
        n = MIN(c->n_all - end, most);
        n = checkpoint_limit(engine, c, recall->plan, n, end + n < c->n_all);
        if (seq_reserve(c->seq, n, NULL) != 0) {
                restore_detach(restore);
                return 0;
        }
        engine->memory->trial = restore;
        *wait = (struct model_wait){.layer = wait_layer, .arg = engine};
        return n;
}

void trial_end(struct engine *engine, struct recall *recall, bool computed) {
        struct restore *restore = TAKE_PTR(engine->memory->trial);

        if (!computed) {
                restore_detach(restore);
                return;
        }
        engine->count.restores_overlapped++;
        recall->reading = false;
        finish(engine, restore);
}
