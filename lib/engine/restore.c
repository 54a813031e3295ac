/* SPDX-License-Identifier: MIT */
/*
 * Restoring the memory of a conversation before its request computes: see residency.c for what is
 * promised.
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "engine/internal.h"

struct unlink_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id;
        uint32_t from;
};

static void unlink_run(struct engine *en, struct job *j) {
        struct unlink_job *uj = container_of(j, struct unlink_job, job);
        struct store_gone gone = {0};

        j->r = store_unlink_from(en->store, uj->conv_id, uj->from, &gone, &j->err);
        if (j->r < 0)
                return;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
}

static void unlink_done(struct engine *en, struct job *j) {
        struct unlink_job *uj = container_of(j, struct unlink_job, job);

        if (j->r < 0 && j->r != -ERR_NOT_FOUND)
                engine_event_log(en, LOG_WARNING, &j->err);
        residency_io_over(en, uj->c);
        free(uj);
}

/* The memory is good up to block @index only. */
static void cut_damaged(struct engine *en, struct conv *c, uint32_t index) {
        struct unlink_job *uj;

        seq_cut(c->seq, index * en->info.block_tokens);
        conv_drop_recs(en, c, index);
        uj = calloc(1, sizeof(*uj));
        if (!uj)
                return; /* the links stay and fail again next time */
        uj->job.run = unlink_run;
        uj->job.done = unlink_done;
        uj->conv_id = c->id;
        uj->c = c;
        uj->from = index;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(en, c);
        io_submit(en, &uj->job);
}

/* The same block in RAM through another conversation (a fork), or NULL. */
static struct seq_block *find_shared(
        struct engine *en, const struct conv *self, uint32_t index, const struct rec *rec) {
        struct conv *c;
        size_t it = 0;

        if (rec->n_refs < 2)
                return NULL;
        while ((c = map_next(en->convs, &it))) {
                struct seq_block *b;

                if (c == self || index >= seq_n_blocks(c->seq))
                        continue;
                b = seq_block_at(c->seq, index);
                if (b && seq_block_tag(b) == rec->r.id)
                        return b;
        }
        return NULL;
}

/* Does the record hold the memory of just these tokens? */
static bool record_fits(const struct store_record *r, uint32_t index, uint64_t hash, uint32_t n) {
        return r->index == index && r->n_tokens == n && r->token_hash == hash;
}

/* List the holes and what fills them. */
static int restore_plan(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        uint32_t bt = en->info.block_tokens;
        size_t n = seq_n_blocks(c->seq);
        uint64_t hash = 0;

        g->restore = calloc(n ? n : 1, sizeof(*g->restore));
        if (!g->restore)
                return -ERR_NOMEM;
        for (size_t i = 0; i < n; i++) {
                uint32_t in_block = MIN(bt, seq_n_tokens(c->seq) - (uint32_t)i * bt);
                struct rec *rec = i < c->n_recs ? c->recs[i] : NULL;
                struct seq_block *shared;

                hash = conv_token_hash(c->tokens, bt, (uint32_t)i, in_block, hash);
                if (seq_block_at(c->seq, i))
                        continue;
                if (!rec || !record_fits(&rec->r, (uint32_t)i, hash, in_block)) {
                        cut_damaged(en, c, (uint32_t)i);
                        break;
                }
                shared = find_shared(en, c, (uint32_t)i, rec);
                if (shared) {
                        seq_attach(c->seq, i, shared);
                        continue;
                }
                g->restore[g->n_restore++] =
                        (struct restore_item){.index = (uint32_t)i, .record = rec->r};
        }
        return 0;
}

void residency_restore_abandon(struct engine *en, struct ereq *rq) {
        struct gen *g = &rq->g;

        (void)en;
        for (size_t i = 0; i < g->n_allocated; i++)
                seq_block_unref(g->restore[i].block);
        free(g->restore);
        g->restore = NULL;
        g->n_restore = g->n_allocated = 0;
}

static void restore_run(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);
        struct gen *g = &rq->g;

        for (size_t i = 0; i < g->n_restore; i++) {
                struct restore_item *it = &g->restore[i];
                struct spill_ref ref = {it->record.file_key, it->record.offset,
                        it->record.stored_size, it->record.raw_size};
                struct spill_meta meta = {it->record.block_class, it->record.index,
                        it->record.n_tokens, it->record.token_hash};

                it->r = spill_read(en->spill, &ref, &meta, seq_block_data(it->block),
                        en->info.block_size, &j->err);
                if (it->r < 0) {
                        /* What lies behind a damaged block is of no use. */
                        for (size_t k = i + 1; k < g->n_restore; k++)
                                g->restore[k].r = it->r;
                        j->r = it->r;
                        return;
                }
        }
}

static void restore_done(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        uint32_t bt = en->info.block_tokens;

        for (size_t i = 0; i < g->n_restore; i++) {
                struct restore_item *it = &g->restore[i];

                if (it->r == 0) {
                        uint32_t end = MIN((it->index + 1) * bt, seq_n_tokens(c->seq));

                        seq_block_set_tag(it->block, it->record.id);
                        seq_attach(c->seq, it->index, it->block);
                        if (g->t_restored == 0)
                                g->n_disk += end - it->index * bt;
                        en->count.blocks_restored++;
                        continue;
                }
                engine_event_log(en, LOG_WARNING, &j->err);
                en->count.restore_failures++;
                cut_damaged(en, c, it->index);
                break;
        }
        en->count.restores++;
        residency_restore_abandon(en, rq); /* the sequence has references of its own */
        generate_restored(en, rq);
}

void residency_restore(struct engine *en, struct ereq *rq) {
        struct gen *g = &rq->g;
        struct err e;

        if (!g->restore && rq->conv->n_io > 0)
                return; /* it is being evicted, having been in the queue: after that */
        if (!g->restore && restore_plan(en, rq) < 0) {
                err_set(&e, ERR_NOMEM, "no memory to restore a conversation");
                generate_abort(en, rq, &e);
                return;
        }
        while (g->n_allocated < g->n_restore) {
                struct restore_item *it = &g->restore[g->n_allocated];
                int r = seq_block_new(&it->block, en->pool, &e);

                if (r == 0) {
                        g->n_allocated++;
                        continue;
                }
                if (r == SEQ_FULL) {
                        enum room room = residency_make_room(en);

                        if (room == ROOM_NOW)
                                continue;
                        if (room == ROOM_LATER)
                                return;
                        err_set(&e, ERR_LIMIT,
                                "the memory budget has no room to restore the conversation");
                }
                generate_abort(en, rq, &e);
                return;
        }
        if (g->n_restore == 0) {
                residency_restore_abandon(en, rq);
                generate_restored(en, rq);
                return;
        }
        rq->phase = PHASE_READING;
        rq->job.run = restore_run;
        rq->job.done = restore_done;
        io_submit(en, &rq->job);
}
