/* SPDX-License-Identifier: MIT */
/*
 * Restoring: what a request has to have in RAM before it computes. See residency.c for what is
 * promised, pipeline.c for the reading itself.
 *
 *      PHASE_RESTORE  gather: own blocks in RAM; others' in RAM into holes and behind the end
 *        ↓            (share.c)
 *      PHASE_READING  search: has somebody a longer prefix on disk? (only where it is worth it)
 *        ↓
 *      PHASE_RESTORE  plan: holes, and what was found behind the end; blocks are allocated,
 *        ↓            evicting where needed
 *      PHASE_READING  pipeline.c
 *        ↓
 *      restore_finish: attach, tag; enter into the index; generate_restored()
 *
 * Never slower than recomputing: running sums tell how fast memory came from disk and how fast it
 * was computed lately. Where reading is expected to take twice the time of computing (a slow disk,
 * a fast model) the memory is cut at the first hole instead; its records stay and are taken again
 * once the blocks are computed. The sums must have seen a good deal first, so small models never
 * decide. The bits are the same either way (I2).
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/clock.h"
#include "engine/restore.h"

#define RATES_RESTORES 8
#define RATES_BYTES (64.0 * (1 << 20))
#define RATES_TOKENS 1024.0
#define RATES_FADE 0.9

/* --- damage --- */

struct unlink_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id;
        uint32_t from;
        uint64_t record; /* the damaged one, which all others forget as well; 0: none */
        struct store_reclaimed got;
};

static void unlink_run(struct engine *engine, struct job *j) {
        struct unlink_job *uj = container_of(j, struct unlink_job, job);
        struct store_gone gone = {0};

        if (uj->record)
                j->r = store_forget_record(engine->store, uj->record, &uj->got, &j->err);
        if (j->r < 0)
                return;
        residency_release(engine, &uj->got.gone);
        j->r = store_unlink_from(engine->store, uj->conv_id, uj->from, &gone, &j->err);
        if (j->r < 0)
                return;
        residency_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void unlink_done(struct engine *engine, struct job *j) {
        struct unlink_job *uj = container_of(j, struct unlink_job, job);

        if (j->r < 0 && j->r != -ERR_NOT_FOUND)
                engine_event_log(engine, LOG_WARNING, &j->err);
        residency_cut(engine, uj->got.cuts, uj->got.n_cuts);
        store_reclaimed_deinit(&uj->got);
        residency_io_over(engine, uj->c);
        free(uj);
}

/* The memory is good up to block @index only. @record: the damaged one (0: it is missing, or of
 * other tokens), which forks and sharers have too: they need not read it to find out. */
static void cut_damaged(struct engine *engine, struct conv *c, uint32_t index, uint64_t record) {
        struct unlink_job *uj;

        seq_cut(c->seq, MIN(index * engine->info.block_tokens, seq_n_tokens(c->seq)));
        conv_forget_recs(engine, c, index);
        uj = calloc(1, sizeof(*uj));
        if (!uj)
                return; /* the links stay and fail again next time */
        uj->job.run = unlink_run;
        uj->job.done = unlink_done;
        uj->conv_id = c->id;
        uj->c = c;
        uj->from = index;
        uj->record = record;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(engine, c);
        io_submit(engine, &uj->job);
}

/* --- gather --- */

/* A block that the index does not know (a tail, private memory) in RAM through a fork, or NULL. */
static struct seq_block *find_fork(
        struct engine *engine, const struct conv *self, uint32_t index, const struct rec *rec) {
        struct conv *c;
        size_t it = 0;

        if (rec->n_refs < 2)
                return NULL;
        while ((c = map_next(engine->convs, &it))) {
                struct seq_block *b;

                if (c == self || index >= seq_n_blocks(c->seq))
                        continue;
                b = seq_block_at(c->seq, index);
                if (b && seq_block_tag(b) == rec->r.id)
                        return b;
        }
        return NULL;
}

static void hash_prompt(struct engine *engine, struct request *request) {
        const struct conv *c = request->conv;
        uint32_t bt = engine->info.block_tokens;
        uint64_t hash = 0;

        for (size_t i = 0; i < request->g.n_blocks; i++) {
                uint32_t n = MIN(bt, c->n_all - (uint32_t)i * bt);

                hash = conv_token_hash(c->tokens, bt, (uint32_t)i, n, hash);
                request->g.hashes[i] = hash;
        }
}

/* Fill block @i, a hole, from RAM if it is there: @shared is what the index has of it. False if
 * nothing can fill it, from disk neither. */
static bool gather_hole(
        struct engine *engine, struct request *request, uint32_t i, struct seq_block *shared) {
        struct conv *c = request->conv;
        uint32_t bt = engine->info.block_tokens, n = MIN(bt, seq_n_tokens(c->seq) - i * bt);
        const struct rec *rec = i < c->n_recs ? c->recs[i] : NULL;
        uint64_t prev = i > 0 ? request->g.hashes[i - 1] : 0;

        if (rec && rec->damaged)
                rec = NULL;
        if (rec && !record_fits(&rec->r, i, conv_token_hash(c->tokens, bt, i, n, prev), n))
                rec = NULL;
        if (!shared && rec && (n < bt || !share_allowed(c)))
                shared = find_fork(engine, c, i, rec);
        if (shared) {
                seq_attach(c->seq, i, shared);
                request->g.sources[i] = SOURCE_SHARED;
        }
        return shared || rec;
}

static int gather(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct gen *g = &request->g;
        uint32_t bt = engine->info.block_tokens;
        size_t own = seq_n_blocks(c->seq), n_shared = 0;
        _cleanup_(freep) struct seq_block **shared = NULL;

        free(TAKE_PTR(g->sources));
        g->n_blocks = ((size_t)c->n_all + bt - 1) / bt;
        g->hashes = calloc(g->n_blocks + 1, sizeof(*g->hashes));
        g->sources = calloc(g->n_blocks + 1, sizeof(*g->sources));
        shared = calloc(g->n_blocks + 1, sizeof(struct seq_block *));
        if (!g->hashes || !g->sources || !shared)
                return -ERR_NOMEM;
        hash_prompt(engine, request);
        if (seq_n_resident(c->seq) < own)
                n_shared = share_find(engine, c, seq_n_tokens(c->seq) / bt, shared);
        for (size_t i = 0; i < own; i++) {
                if (seq_block_at(c->seq, i)) {
                        g->sources[i] = SOURCE_RAM;
                } else if (!gather_hole(
                                   engine, request, (uint32_t)i, i < n_shared ? shared[i] : NULL)) {
                        cut_damaged(engine, c, (uint32_t)i, 0);
                        break;
                }
        }
        share_adopt(engine, request);
        return 0;
}

/* --- search --- */

static void search_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv; /* held by this request: its tokens stay */

        j->r = store_prefix_find(engine->store, c->uid, &engine->info.fingerprint,
                engine->vocab_hash, c->tokens, request->g.hashes, share_limit(engine, request),
                engine->info.block_tokens, &request->g.found, &j->err);
}

static void search_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0)
                engine_event_log(engine, LOG_WARNING, &j->err);
        request->phase = PHASE_RESTORE;
        engine->again = true;
}

/* --- plan --- */

/* The bookkeeping of so many reads; without room in the budget they are computed instead. */
static bool restore_charge(struct engine *engine, struct restore *rs) {
        size_t n = sizeof(*rs) + rs->n * (sizeof(*rs->items) + sizeof(*rs->reads)) +
                   spill_load_size(engine->spill, rs->n);

        if (residency_charge(engine, n) != 0)
                return false;
        rs->charged = n;
        return true;
}

static void add_item(struct restore *rs, uint32_t index, uint32_t n_tokens, bool appended,
        const struct store_record *r) {
        rs->items[rs->n++] = (struct restore_item){
                .index = index, .n_tokens = n_tokens, .appended = appended, .record = *r};
}

/* Is reading so many blocks better than computing them? */
static bool worth_reading(const struct engine *engine, size_t n_blocks) {
        const struct rates *r = &engine->rates;
        double tokens = (double)n_blocks * engine->info.block_tokens;
        double bytes = (double)n_blocks * (double)engine->info.block_size;

        if (r->n_restores < RATES_RESTORES || r->restored_bytes < RATES_BYTES ||
                r->computed_tokens < RATES_TOKENS)
                return true;
        return bytes * r->restore_usec / r->restored_bytes <=
               2 * tokens * r->compute_usec / r->computed_tokens;
}

/* A hole; false if its record was taken away since it was looked at. */
static bool add_own(struct engine *engine, struct conv *c, struct restore *rs, uint32_t i) {
        uint32_t bt = engine->info.block_tokens;

        if (i >= c->n_recs || !c->recs[i]) {
                cut_damaged(engine, c, i, 0);
                return false;
        }
        add_item(rs, i, MIN(bt, seq_n_tokens(c->seq) - i * bt), false, &c->recs[i]->r);
        return true;
}

/* List what is to be read: holes, and what was found behind the end. */
static int plan(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct gen *g = &request->g;
        uint32_t bt = engine->info.block_tokens;
        size_t own = seq_n_blocks(c->seq), full;
        struct restore *rs = restore_new(MAX(own, g->found.n));
        bool room;

        if (!rs)
                return -ERR_NOMEM;
        /* A longer prefix of others takes the place of our partial tail. */
        if (g->found.n * bt > seq_n_tokens(c->seq)) {
                seq_cut(c->seq, seq_n_tokens(c->seq) / bt * bt);
                own = seq_n_blocks(c->seq);
        }
        for (size_t i = 0; i < own; i++)
                if (!seq_block_at(c->seq, i) && !add_own(engine, c, rs, (uint32_t)i))
                        break;
        full = seq_n_tokens(c->seq) / bt;
        own = seq_n_blocks(c->seq);
        for (size_t i = full; i < g->found.n && full == own; i++)
                add_item(rs, (uint32_t)i, bt, true, &g->found.records[i]);
        room = rs->n == 0 || restore_charge(engine, rs);
        if (rs->n > 0 && (!room || !worth_reading(engine, rs->n))) {
                if (!rs->items[0].appended)
                        seq_cut(c->seq, rs->items[0].index * bt);
                rs->n = 0;
                engine->count.restores_skipped++;
        }
        rs->request = request;
        g->restore = rs;
        return 0;
}

/* --- the end --- */

/* A good block: part of the sequence, with its record. */
static int take(
        struct engine *engine, struct request *request, struct restore_item *it, bool attached) {
        struct conv *c = request->conv;
        struct rec *rec;

        if (it->appended && !attached && seq_adopt(c->seq, &it->block, 1, NULL) < 0)
                return -ERR_NOMEM;
        if (!it->appended && !attached)
                seq_attach(c->seq, it->index, it->block);
        seq_block_set_tag(seq_block_at(c->seq, it->index), it->record.id);
        if (it->index < request->g.n_blocks)
                request->g.sources[it->index] = SOURCE_DISK;
        engine->count.blocks_restored++;
        if (!it->appended)
                return 0;
        /* Known, but not linked yet: write-behind or the eviction will do that. */
        c->link_from = MIN(c->link_from, (size_t)it->index);
        rec = rec_get(engine, &it->record, NULL);
        if (rec && conv_set_rec(engine, c, it->index, rec, NULL) < 0)
                rec_put(engine, rec);
        return 0;
}

static void note_rate(struct engine *engine, const struct restore *rs) {
        struct rates *r = &engine->rates;

        r->restored_bytes =
                r->restored_bytes * RATES_FADE + (double)rs->n * (double)engine->info.block_size;
        r->restore_usec = r->restore_usec * RATES_FADE + (double)(rs->t_end - rs->t_start);
        r->n_restores++;
}

void restore_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec) {
        struct rates *r = &engine->rates;

        r->computed_tokens = r->computed_tokens * RATES_FADE + (double)n_tokens;
        r->compute_usec = r->compute_usec * RATES_FADE + (double)usec;
}

void restore_finish(struct engine *engine, struct restore *rs) {
        struct request *request = rs->request;
        struct conv *c = request->conv;
        struct rec *rec;
        bool good = true;

        for (size_t i = 0; i < rs->n && good; i++) {
                struct restore_item *it = &rs->items[i];

                good = rs->reads[i].r == 0;
                if (good && take(engine, request, it, rs->attached) < 0)
                        break;
                if (good)
                        continue;
                engine_event_log(engine, LOG_WARNING, &rs->err);
                engine->count.restore_failures++;
                rec = map_get_u64(engine->recs, it->record.id);
                if (rec)
                        rec->damaged = true; /* others that link it need not find out */
                if (it->appended)
                        c->no_disk_share = true;
                cut_damaged(engine, c, it->index, it->record.id);
        }
        request->g.t_read = rs->t_end;
        engine->count.restores++;
        if (good)
                note_rate(engine, rs);
        c->n_known = MAX(c->n_known, seq_n_tokens(c->seq));
        residency_restore_abandon(engine, request); /* the sequence has references of its own */
        share_enter(engine, c, 0);
        generate_restored(engine, request);
}

void residency_restore_abandon(struct engine *engine, struct request *request) {
        struct gen *g = &request->g;

        if (g->restore)
                restore_let_go(engine, TAKE_PTR(g->restore));
        free(TAKE_PTR(g->hashes));
        store_prefix_deinit(&g->found);
        g->found = (struct store_prefix){
                .n_common = g->found.n_common, .donor_tokens = g->found.donor_tokens};
        g->gathered = g->searched = false;
}

static int prepare(struct engine *engine, struct request *request) {
        struct gen *g = &request->g;
        int r;

        if (!g->gathered) {
                r = gather(engine, request);
                if (r < 0)
                        return r;
                g->gathered = true;
        }
        if (!g->searched && share_worth_search(engine, request)) {
                g->searched = true;
                request->phase = PHASE_READING;
                request->job.run = search_run;
                request->job.done = search_done;
                io_submit(engine, &request->job);
                return 0;
        }
        return plan(engine, request);
}

/* 0; 1: later; -ERR_X. */
static int allocate(struct engine *engine, struct restore *rs, struct err *e) {
        while (rs->n_allocated < rs->n) {
                int r = seq_block_new(&rs->items[rs->n_allocated].block, engine->pool, e);
                enum room room;

                if (r == 0) {
                        rs->n_allocated++;
                        continue;
                }
                if (r < 0)
                        return r;
                room = residency_make_room(engine);
                if (room == ROOM_LATER)
                        return 1;
                if (room == ROOM_NEVER)
                        return err_set(e, ERR_LIMIT,
                                "the memory budget has no room to restore the conversation");
        }
        return 0;
}

void residency_restore(struct engine *engine, struct request *request) {
        struct gen *g = &request->g;
        struct err e;
        int r = 0;

        if (!g->restore) {
                if (request->conv->n_io > 0)
                        return; /* it is being evicted, having been in the queue: after that */
                r = prepare(engine, request);
                if (r < 0)
                        err_set(&e, ERR_NOMEM, "no memory to restore a conversation");
                else if (!g->restore)
                        return; /* the search is under way */
        }
        if (r == 0)
                r = allocate(engine, g->restore, &e);
        if (r > 0)
                return;
        if (r < 0) {
                generate_abort(engine, request, &e);
                return;
        }
        if (g->restore->n == 0) {
                residency_restore_abandon(engine, request);
                share_enter(engine, request->conv, 0);
                generate_restored(engine, request);
                return;
        }
        request->phase = PHASE_READING;
        restore_start(engine, request);
}
