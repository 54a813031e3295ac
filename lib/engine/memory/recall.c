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
 *        ↓            evicting where needed
 *      reading        pipeline.c
 *        ↓
 *      finish()       attach, tag; enter into the index
 *
 * Recalling must not be much slower than recomputing. Running sums tell how fast memory was lately
 * read from disk and how fast it was computed. If reading is expected to take more than twice as
 * long as computing (a slow disk, a fast model), the memory is cut at the first hole instead; its
 * records stay and are used again once the blocks are computed. The sums decide only after they
 * have seen a good deal, so never for small models. The bits are the same either way (I2).
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/clock.h"
#include "engine/memory/restore.h"
#include "engine/memory/state.h"

#define RATES_RESTORES 8
#define RATES_BYTES (64.0 * (1 << 20))
#define RATES_TOKENS 1024.0
#define RATES_FADE 0.9

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

void recall_note_source(const struct engine *engine, struct recall *recall, enum seq_class class,
        uint32_t end, enum source source) {
        size_t i = (end - 1) / engine->info.block_tokens;

        if (class == SEQ_STATE)
                recall->state_source = MAX(recall->state_source, (uint8_t)source);
        else if (i < recall->n_blocks)
                recall->sources[i] = MAX(recall->sources[i], (uint8_t)source);
}

/* Is anything of the block's own memory in the sequence, as its end needs it? */
static bool has_block(const struct engine *engine, const struct conv *c, size_t i) {
        struct seq_cell cell;

        return engine->info.shape.size[SEQ_ALL] > 0 ||
               (seq_cell_at(c->seq, SEQ_WINDOW, (uint32_t)i, &cell) && cell.needed);
}

void recall_count(const struct engine *engine, const struct recall *recall, uint32_t kept,
        uint32_t ret[N_SOURCES]) {
        uint32_t bt = engine->info.block_tokens;
        uint8_t rest = recall->state_source;

        memset(ret, 0, N_SOURCES * sizeof(*ret));
        /* Without states, tokens in front of the window came with it. */
        for (size_t i = 0; rest == SOURCE_NONE && i < recall->n_blocks && i * bt < kept; i++)
                if (has_block(engine, recall->conv, i))
                        rest = recall->sources[i];
        for (uint32_t i = 0; i < recall->n_blocks && i * bt < kept; i++) {
                bool own = recall->sources[i] && has_block(engine, recall->conv, i);

                ret[own ? recall->sources[i] : rest] += MIN(bt, kept - i * bt);
        }
}

/* --- search --- */

static void search_run(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);
        struct conv *c = recall->conv; /* the request holds it, so its tokens stay */

        j->r = register_find_prefix(engine, c->uid, c->tokens, recall->hashes,
                share_limit(engine, recall), &recall->found, &j->err);
}

static void search_done(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);

        if (j->r < 0)
                event_log(engine, LOG_WARNING, &j->err);
        recall->reading = false;
        engine->again = true;
}

/* --- plan --- */

/* At most so many cells are read: all holes, and what was found behind the end. */
static size_t count_reads(const struct engine *engine, const struct recall *recall) {
        const struct conv *c = recall->conv;
        const struct seq_shape *shape = &engine->info.shape;
        uint32_t bt = shape->block_tokens, have = seq_n_tokens(c->seq);
        size_t n = seq_n_cells(c->seq) - seq_n_resident(c->seq), found = recall->found.n;

        if (found * bt <= have)
                return n;
        if (shape->size[SEQ_ALL])
                n += found - have / bt;
        if (shape->size[SEQ_WINDOW])
                n += found - seq_window_start(shape, (uint32_t)found * bt) / bt;
        return n + (shape->size[SEQ_STATE] > 0);
}

/* A restore of so many reads, whose bookkeeping is charged; NULL if there is no room for it. */
static struct restore *new_restore(struct engine *engine, size_t n) {
        struct restore *restore;
        size_t size = sizeof(*restore) +
                      (n + 1) * (sizeof(*restore->items) + sizeof(*restore->reads)) +
                      spill_load_size(engine->spill, n);

        if (conv_charge(engine, size) != 0)
                return NULL;
        restore = restore_new(n);
        if (restore)
                restore->charged = size;
        else
                conv_discharge(engine, size);
        return restore;
}

static void add_item(struct restore *restore, enum seq_class class, uint32_t index, uint32_t end,
        bool appended, const struct store_record *r) {
        restore->items[restore->n++] = (struct restore_item){
                .class = class, .index = index, .end = end, .appended = appended, .record = *r};
}

/* Where computing would begin without reading: about the last position that is whole in RAM. */
static uint32_t computed_from(const struct engine *engine, const struct restore *restore) {
        const struct seq *s = restore->recall->conv->seq;
        uint32_t from = seq_n_tokens(s), state = 0;
        struct seq_cell cell;
        size_t it = 0;
        bool lacks_state = false;

        for (size_t i = 0; i < restore->n; i++) {
                const struct restore_item *item = &restore->items[i];

                if (item->class == SEQ_STATE)
                        lacks_state = true;
                else
                        from = MIN(from, item->index * engine->info.block_tokens);
        }
        if (!lacks_state)
                return from;
        while (seq_next_cell(s, SEQ_STATE, &it, &cell))
                if (cell.block && cell.end <= from)
                        state = cell.end;
        return state;
}

/* Is reading better than computing? */
static bool worth_reading(const struct engine *engine, const struct restore *restore) {
        const struct rates *r = &engine->memory->rates;
        uint32_t end = restore_end(engine, restore);
        double tokens = end - MIN(end, computed_from(engine, restore));
        double bytes = (double)restore_size(engine, restore);

        if (r->n_restores < RATES_RESTORES || r->restored_bytes < RATES_BYTES ||
                r->computed_tokens < RATES_TOKENS)
                return true;
        return bytes * r->restore_usec / r->restored_bytes <=
               2 * tokens * r->compute_usec / r->computed_tokens;
}

/* The own holes that the sequence needs as far as position @most. False if a record was removed since
 * gather() saw it. */
static bool add_own(struct engine *engine, struct conv *c, struct restore *restore,
        enum seq_class class, uint32_t most) {
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, class, &it, &cell)) {
                const struct conv_rec *entry = recs_at(&c->recs, class, cell.index);

                if (cell.block || !cell.needed || cell.end > most)
                        continue;
                if (!entry || !conv_cell_on_disk(c, class, &cell)) {
                        cut_damaged(engine, c, class, cell.index, 0);
                        return false;
                }
                add_item(restore, class, cell.index, cell.end, false, &entry->rec->r);
        }
        return true;
}

static void add_all_own(struct engine *engine, struct conv *c, struct restore *restore) {
        bool whole;

        do {
                restore->n = 0;
                whole = true;
                for (int class = 0; whole && class < SEQ_N_CLASSES; class ++)
                        whole = add_own(engine, c, restore, (enum seq_class) class, UINT32_MAX);
        } while (!whole);
}

/* Another conversation has a longer prefix on disk: what of it the position behind it needs, and the
 * own blocks before. */
static void add_found(struct engine *engine, struct recall *recall, struct restore *restore) {
        const struct seq_shape *shape = &engine->info.shape;
        const struct store_prefix *found = &recall->found;
        uint32_t bt = shape->block_tokens, end = (uint32_t)found->n * bt;
        struct conv *c = recall->conv;
        uint32_t from = shape->size[SEQ_WINDOW] ? seq_window_start(shape, end) : 0;
        uint32_t own = seq_n_tokens(c->seq) / bt * bt;

        if (shape->size[SEQ_ALL] && !add_own(engine, c, restore, SEQ_ALL, own)) {
                restore->n = 0; /* the own beginning is damaged: it was cut */
                return;
        }
        for (uint32_t i = 0; i < found->n; i++) {
                struct seq_cell cell;

                if (shape->size[SEQ_ALL] && i * bt >= own)
                        add_item(restore, SEQ_ALL, i, (i + 1) * bt, true,
                                &found->records[SEQ_ALL][i]);
                if (shape->size[SEQ_WINDOW] && (i + 1) * bt > from &&
                        !(seq_cell_at(c->seq, SEQ_WINDOW, i, &cell) && cell.block &&
                                cell.n_tokens == bt))
                        add_item(restore, SEQ_WINDOW, i, (i + 1) * bt, true,
                                &found->records[SEQ_WINDOW][i]);
        }
        if (shape->size[SEQ_STATE])
                add_item(restore, SEQ_STATE, end - 1, end, true,
                        &found->records[SEQ_STATE][found->n - 1]);
}

/* Shorten the sequence to what is in RAM. The records stay. */
static void cut_to_resident(struct engine *engine, struct conv *c) {
        while (seq_n_missing(c->seq) > 0) {
                uint32_t at = seq_n_tokens(c->seq) - 1;
                struct seq_cell cell;
                size_t it = 0;

                for (int i = SEQ_ALL; i <= SEQ_WINDOW; i++, it = 0)
                        while (seq_next_cell(c->seq, (enum seq_class)i, &it, &cell))
                                if (!cell.block && cell.needed) {
                                        at = MIN(at, cell.index * engine->info.block_tokens);
                                        break;
                                }
                seq_cut(c->seq, at);
        }
}

/* List the cells to read: holes, or what was found behind the end. */
static void list_reads(struct engine *engine, struct recall *recall, struct restore *restore) {
        if (recall->found.n * engine->info.block_tokens > seq_n_tokens(recall->conv->seq))
                add_found(engine, recall, restore);
        if (restore->n == 0)
                add_all_own(engine, recall->conv, restore);
        else
                restore->n_found = recall->found.n;
}

/* What is to be read becomes the recall's restore. None, if there is nothing to read; or if there is no
 * room for the bookkeeping or reading does not pay: then the memory is computed. */
static void plan(struct engine *engine, struct recall *recall) {
        struct restore *restore = NULL;

        if (count_reads(engine, recall) == 0)
                return;
        restore = new_restore(engine, count_reads(engine, recall));
        if (restore) {
                restore->recall = recall;
                list_reads(engine, recall, restore);
        }
        if (restore && restore->n > 0 && worth_reading(engine, restore)) {
                recall->restore = restore;
                return;
        }
        if (!restore || restore->n > 0) {
                cut_to_resident(engine, recall->conv);
                engine->count.restores_skipped++;
        }
        if (restore)
                restore_let_go(engine, restore);
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

static void note_rate(struct engine *engine, const struct restore *restore) {
        struct rates *r = &engine->memory->rates;

        r->restored_bytes = r->restored_bytes * RATES_FADE + (double)restore_size(engine, restore);
        r->restore_usec =
                r->restore_usec * RATES_FADE + (double)(restore->t_end - restore->t_start);
        r->n_restores++;
}

void recall_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec) {
        struct rates *r = &engine->memory->rates;

        r->computed_tokens = r->computed_tokens * RATES_FADE + (double)n_tokens;
        r->compute_usec = r->compute_usec * RATES_FADE + (double)usec;
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

/* Not all could be read. The first fault is told, and all damaged records are forgotten, so that none of them is read
 * again; but what lies behind a block of full attention was forgotten with it. */
static void tell_damaged(struct engine *engine, struct restore *restore, size_t first) {
        struct conv *c = restore->recall->conv;
        bool appended_block = false;

        event_log(engine, LOG_WARNING, &restore->err);
        engine->count.restore_failures++;
        for (size_t i = first; i < restore->n; i++) {
                const struct restore_item *it = &restore->items[i];
                bool known = it->appended ? it->class != SEQ_ALL || !appended_block
                                          : recs_at(&c->recs, it->class, it->index) != NULL;

                if (i > first && (restore->reads[i].r != -ERR_CORRUPT || !known))
                        continue;
                appended_block = appended_block || (it->appended && it->class == SEQ_ALL);
                forget_item(engine, restore, it);
        }
}

/* Reading is over: take the good blocks. */
static void finish(struct engine *engine, struct restore *restore) {
        struct recall *recall = restore->recall;
        struct conv *c = recall->conv;
        bool good = true;

        if (!restore->attached)
                (void)restore_attach(engine, restore, false);
        for (size_t i = 0; i < restore->n; i++) {
                struct restore_item *it = &restore->items[i];

                if (restore->reads[i].r == 0)
                        take(engine, recall, it);
        }
        for (size_t i = 0; i < restore->n && good; i++) {
                good = restore->reads[i].r == 0;
                if (!good)
                        tell_damaged(engine, restore, i);
        }
        recall->t_read = restore->t_end;
        engine->count.restores++;
        if (good)
                note_rate(engine, restore);
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
        free(TAKE_PTR(recall->hashes));
        store_prefix_deinit(&found);
        discharge(engine, recall);
        recall->gathered = recall->searched = recall->reading = recall->done = false;
}

void recall_stop(struct recall *recall) {
        if (recall->restore)
                restore_stop(recall->restore);
}

void recall_deinit(struct engine *engine, struct recall *recall) {
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
        plan(engine, recall);
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

int recall_step(struct engine *engine, struct recall *recall, struct err *e) {
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
