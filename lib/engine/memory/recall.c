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
static struct seq_block *find_fork(
        struct engine *engine, const struct conv *self, uint32_t index, const struct rec *rec) {
        struct conv *c;
        size_t it = 0;

        if (rec->n_refs < 2)
                return NULL;
        while ((c = convs_next(engine, &it))) {
                struct seq_block *b;

                if (c == self || index >= seq_n_blocks(c->seq))
                        continue;
                b = seq_block_at(c->seq, index);
                if (b && seq_block_tag(b) == rec->r.id)
                        return b;
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

/* Fill block @i, a hole, from RAM if possible. @shared: the block from the index, or NULL. False if
 * nothing can fill it, not even the disk. */
static bool gather_hole(
        struct engine *engine, struct recall *recall, uint32_t i, struct seq_block *shared) {
        struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens, n = MIN(bt, seq_n_tokens(c->seq) - i * bt);
        const struct rec *rec = i < c->n_recs ? c->recs[i] : NULL;
        uint64_t prev = i > 0 ? recall->hashes[i - 1] : 0;

        if (rec && rec->damaged)
                rec = NULL;
        if (rec && !record_fits(&rec->r, i, conv_token_hash(c->tokens, bt, i, n, prev), n))
                rec = NULL;
        if (!shared && rec && (n < bt || !share_allowed(c)))
                shared = find_fork(engine, c, i, rec);
        if (shared) {
                seq_attach(c->seq, i, shared);
                recall->sources[i] = SOURCE_SHARED;
        }
        return shared || rec;
}

static int gather(struct engine *engine, struct recall *recall) {
        struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens;
        size_t own = seq_n_blocks(c->seq), n_shared = 0;
        _cleanup_(freep) struct seq_block **shared = NULL;

        free(TAKE_PTR(recall->sources));
        recall->n_blocks = ((size_t)c->n_all + bt - 1) / bt;
        recall->hashes = calloc(recall->n_blocks + 1, sizeof(*recall->hashes));
        recall->sources = calloc(recall->n_blocks + 1, sizeof(*recall->sources));
        shared = calloc(recall->n_blocks + 1, sizeof(struct seq_block *));
        if (!recall->hashes || !recall->sources || !shared)
                return -ERR_NOMEM;
        hash_prompt(engine, recall);
        if (seq_n_resident(c->seq) < own)
                n_shared = share_find(engine, c, seq_n_tokens(c->seq) / bt, shared);
        for (size_t i = 0; i < own; i++) {
                if (seq_block_at(c->seq, i)) {
                        recall->sources[i] = SOURCE_RAM;
                } else if (!gather_hole(
                                   engine, recall, (uint32_t)i, i < n_shared ? shared[i] : NULL)) {
                        cut_damaged(engine, c, (uint32_t)i, 0);
                        break;
                }
        }
        share_adopt(engine, recall);
        return 0;
}

/* --- search --- */

static void search_run(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);
        struct conv *c = recall->conv; /* the request holds it, so its tokens stay */

        j->r = store_prefix_find(engine->store, c->uid, &engine->info.fingerprint,
                engine->vocab_hash, c->tokens, recall->hashes, share_limit(engine, recall),
                engine->info.block_tokens, &recall->found, &j->err);
}

static void search_done(struct engine *engine, struct job *j) {
        struct recall *recall = container_of(j, struct recall, job);

        if (j->r < 0)
                event_log(engine, LOG_WARNING, &j->err);
        recall->reading = false;
        engine->again = true;
}

/* --- plan --- */

/* Charge the bookkeeping of the reads. Without room for it, the blocks are computed instead. */
static bool restore_charge(struct engine *engine, struct restore *restore) {
        size_t n = sizeof(*restore) +
                   restore->n * (sizeof(*restore->items) + sizeof(*restore->reads)) +
                   spill_load_size(engine->spill, restore->n);

        if (conv_charge(engine, n) != 0)
                return false;
        restore->charged = n;
        return true;
}

static void add_item(struct restore *restore, uint32_t index, uint32_t n_tokens, bool appended,
        const struct store_record *r) {
        restore->items[restore->n++] = (struct restore_item){
                .index = index, .n_tokens = n_tokens, .appended = appended, .record = *r};
}

/* Is reading @n_blocks blocks better than computing them? */
static bool worth_reading(const struct engine *engine, size_t n_blocks) {
        const struct rates *r = &engine->memory->rates;
        double tokens = (double)n_blocks * engine->info.block_tokens;
        double bytes = (double)n_blocks * (double)engine->info.block_size;

        if (r->n_restores < RATES_RESTORES || r->restored_bytes < RATES_BYTES ||
                r->computed_tokens < RATES_TOKENS)
                return true;
        return bytes * r->restore_usec / r->restored_bytes <=
               2 * tokens * r->compute_usec / r->computed_tokens;
}

/* Add a hole; false if its record was removed since gather() saw it. */
static bool add_own(struct engine *engine, struct conv *c, struct restore *restore, uint32_t i) {
        uint32_t bt = engine->info.block_tokens;

        if (i >= c->n_recs || !c->recs[i]) {
                cut_damaged(engine, c, i, 0);
                return false;
        }
        add_item(restore, i, MIN(bt, seq_n_tokens(c->seq) - i * bt), false, &c->recs[i]->r);
        return true;
}

/* List the blocks to read: holes, and the blocks found behind the end. */
static int plan(struct engine *engine, struct recall *recall) {
        struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens;
        size_t own = seq_n_blocks(c->seq), full;
        struct restore *restore = restore_new(MAX(own, recall->found.n));
        bool room;

        if (!restore)
                return -ERR_NOMEM;
        /* A longer prefix of another conversation replaces our partial tail. */
        if (recall->found.n * bt > seq_n_tokens(c->seq)) {
                seq_cut(c->seq, seq_n_tokens(c->seq) / bt * bt);
                own = seq_n_blocks(c->seq);
        }
        for (size_t i = 0; i < own; i++)
                if (!seq_block_at(c->seq, i) && !add_own(engine, c, restore, (uint32_t)i))
                        break;
        full = seq_n_tokens(c->seq) / bt;
        own = seq_n_blocks(c->seq);
        for (size_t i = full; i < recall->found.n && full == own; i++)
                add_item(restore, (uint32_t)i, bt, true, &recall->found.records[i]);
        room = restore->n == 0 || restore_charge(engine, restore);
        if (restore->n > 0 && (!room || !worth_reading(engine, restore->n))) {
                if (!restore->items[0].appended)
                        seq_cut(c->seq, restore->items[0].index * bt);
                restore->n = 0;
                engine->count.restores_skipped++;
        }
        restore->recall = recall;
        recall->restore = restore;
        return 0;
}

/* --- the end --- */

/* Put a good block into the sequence, with its record. */
static int take(
        struct engine *engine, struct recall *recall, struct restore_item *it, bool attached) {
        struct conv *c = recall->conv;
        struct rec *rec;

        if (it->appended && !attached && seq_adopt(c->seq, &it->block, 1, NULL) < 0)
                return -ERR_NOMEM;
        if (!it->appended && !attached)
                seq_attach(c->seq, it->index, it->block);
        seq_block_set_tag(seq_block_at(c->seq, it->index), it->record.id);
        if (it->index < recall->n_blocks)
                recall->sources[it->index] = SOURCE_DISK;
        engine->count.blocks_restored++;
        if (!it->appended)
                return 0;
        /* Known, but not linked yet: write-behind or the eviction will link it. */
        c->link_from = MIN(c->link_from, (size_t)it->index);
        c->n_taken++;
        rec = rec_get(engine, &it->record, NULL);
        if (rec && conv_set_rec(engine, c, it->index, rec, NULL) < 0)
                rec_put(engine, rec);
        return 0;
}

static void note_rate(struct engine *engine, const struct restore *restore) {
        struct rates *r = &engine->memory->rates;

        r->restored_bytes = r->restored_bytes * RATES_FADE +
                            (double)restore->n * (double)engine->info.block_size;
        r->restore_usec =
                r->restore_usec * RATES_FADE + (double)(restore->t_end - restore->t_start);
        r->n_restores++;
}

void recall_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec) {
        struct rates *r = &engine->memory->rates;

        r->computed_tokens = r->computed_tokens * RATES_FADE + (double)n_tokens;
        r->compute_usec = r->compute_usec * RATES_FADE + (double)usec;
}

/* Reading is over: take the good blocks. */
static void finish(struct engine *engine, struct restore *restore) {
        struct recall *recall = restore->recall;
        struct conv *c = recall->conv;
        struct rec *rec;
        bool good = true;

        for (size_t i = 0; i < restore->n && good; i++) {
                struct restore_item *it = &restore->items[i];

                good = restore->reads[i].r == 0;
                if (good && take(engine, recall, it, restore->attached) < 0)
                        break;
                if (good)
                        continue;
                event_log(engine, LOG_WARNING, &restore->err);
                engine->count.restore_failures++;
                rec = rec_find(engine, it->record.id);
                if (rec)
                        rec->damaged = true; /* others that link it need not read it */
                if (it->appended)
                        c->no_disk_share = true;
                cut_damaged(engine, c, it->index, it->record.id);
        }
        recall->t_read = restore->t_end;
        engine->count.restores++;
        if (good)
                note_rate(engine, restore);
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
                recall->done = true;
        }
}

void recall_abandon(struct engine *engine, struct recall *recall) {
        if (recall->restore)
                restore_let_go(engine, TAKE_PTR(recall->restore));
        free(TAKE_PTR(recall->hashes));
        store_prefix_deinit(&recall->found);
        recall->found = (struct store_prefix){
                .n_common = recall->found.n_common, .donor_tokens = recall->found.donor_tokens};
        recall->gathered = recall->searched = recall->reading = recall->done = false;
}

void recall_stop(struct recall *recall) {
        if (recall->restore)
                restore_stop(recall->restore);
}

void recall_deinit(struct recall *recall) {
        free(recall->hashes);
        free(recall->sources);
        store_prefix_deinit(&recall->found);
}

static int prepare(struct engine *engine, struct recall *recall) {
        int r;

        if (!recall->gathered) {
                r = gather(engine, recall);
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
        return plan(engine, recall);
}

/* 0; 1: later; -ERR_X. */
static int allocate(struct engine *engine, struct restore *restore, struct err *e) {
        while (restore->n_allocated < restore->n) {
                int r = seq_block_new(&restore->items[restore->n_allocated].block, engine->pool, e);
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
                r = prepare(engine, recall);
                if (r < 0)
                        return err_set(e, ERR_NOMEM, "no memory to restore a conversation");
                if (!recall->restore)
                        return 1; /* the search is under way */
        }
        r = allocate(engine, recall->restore, e);
        if (r != 0)
                return r;
        if (recall->restore->n == 0) {
                recall_abandon(engine, recall);
                share_enter(engine, recall->conv, 0);
                return 0;
        }
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
        uint32_t before = seq_n_tokens(c->seq), end, n;

        if (!recall->reading || !restore || !restore_has_begun(restore))
                return 0;
        end = restore_end(engine, restore);
        if (end >= c->n_all)
                return 0;
        n = MIN(c->n_all - end, most);
        if (restore_attach(restore) < 0 || seq_reserve(c->seq, n, NULL) != 0) {
                restore_detach(restore, before);
                return 0;
        }
        restore->n_tokens_before = before;
        engine->memory->trial = restore;
        *wait = (struct model_wait){.layer = wait_layer, .arg = engine};
        return n;
}

void trial_end(struct engine *engine, struct recall *recall, bool computed) {
        struct restore *restore = TAKE_PTR(engine->memory->trial);

        if (!computed) {
                restore_detach(restore, restore->n_tokens_before);
                return;
        }
        engine->count.restores_overlapped++;
        restore->n_allocated = 0; /* the sequence owns the blocks now */
        recall->reading = false;
        finish(engine, restore);
}
