/* SPDX-License-Identifier: MIT */
/*
 * Residency: moving the memory of conversations between the pool and the spill store.
 *
 * 1. Memory is a cache of tokens (I1): every failure here ends with a shorter memory, never with a
 * lost conversation. What can't be written is dropped, what can't be read is cut off and computed
 * again.
 * 2. A block's tag is the id of the spill record that holds the same bytes, or 0. A tag whose
 * record no loaded conversation refers to means nothing: the block counts as not written. A record
 * is taken for a conversation's memory only if it covers the same number of tokens of the block and
 * their chained hash is equal.
 * 3. Evicting: write the blocks without a record → commit the links → only then drop them. A crash
 * in between leaves bytes that no one claims (swept at the next start).
 * 4. Restoring (restore.c): fresh blocks → read and verify all of them → attach. The first damaged
 * block cuts the memory there; its links are forgotten in the register, then the space is given
 * back (I5).
 * 5. Admission (sched.c) bounds the blocks that active conversations may come to need by the pool's
 *    capacity, and everything else can be evicted; so waiting for room always ends.
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "engine/internal.h"

struct evict_item {
        uint32_t index;
        bool write;              /* else it is only linked */
        struct seq_block *block; /* pinned */
        struct rec *pinned;      /* of a link */
        struct store_record record;
        bool ok;
};

struct evict_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id;
        void (*then)(struct engine *en, struct ereq *rq);
        struct ereq *rq;
        size_t n;
        struct err write_err; /* the first failure */
        bool write_failed;
        struct evict_item items[];
};

void residency_release(struct engine *en, const struct store_gone *gone) {
        for (size_t i = 0; i < gone->n; i++) {
                const struct store_record *r = &gone->records[i];
                struct spill_ref ref = {r->file_key, r->offset, r->stored_size, r->raw_size};

                /* Not found: it was never adopted, so the sweep has given it back already. */
                (void)spill_release(en->spill, &ref, NULL);
        }
}

static void evict_write(struct engine *en, struct evict_job *ej, struct evict_item *it) {
        struct spill_meta meta = {.class_id = it->record.block_class,
                .position = it->record.index,
                .n_tokens = it->record.n_tokens,
                .token_hash = it->record.token_hash};
        struct spill_ref ref;
        struct err e;

        if (spill_write(en->spill, ej->conv_id, &meta, seq_block_data(it->block),
                    en->info.block_size, &ref, &e) < 0) {
                if (!ej->write_failed)
                        ej->write_err = e;
                ej->write_failed = true;
                return;
        }
        it->record.id = 0;
        it->record.file_key = ref.file_key;
        it->record.offset = ref.offset;
        it->record.stored_size = ref.stored_size;
        it->record.raw_size = ref.raw_size;
        it->ok = true;
}

static int evict_link(struct engine *en, struct evict_job *ej, struct err *e) {
        _cleanup_(freep) struct store_record *links = NULL;
        struct store_gone gone = {0};
        size_t n = 0;
        int r;

        links = calloc(ej->n ? ej->n : 1, sizeof(*links));
        if (!links)
                return err_set(e, ERR_NOMEM, "no memory for %zu links", ej->n);
        for (size_t i = 0; i < ej->n; i++)
                if (ej->items[i].ok)
                        links[n++] = ej->items[i].record;
        r = store_link(en->store, ej->conv_id, &en->info.fingerprint, links, n, &gone, e);
        if (r < 0)
                return r;
        n = 0;
        for (size_t i = 0; i < ej->n; i++)
                if (ej->items[i].ok)
                        ej->items[i].record = links[n++];
        residency_release(en, &gone);
        store_gone_deinit(&gone);
        return 0;
}

static void evict_unwrite(struct engine *en, struct evict_job *ej) {
        for (size_t i = 0; i < ej->n; i++) {
                struct evict_item *it = &ej->items[i];
                struct spill_ref ref = {it->record.file_key, it->record.offset,
                        it->record.stored_size, it->record.raw_size};

                if (it->ok && it->write)
                        (void)spill_release(en->spill, &ref, NULL);
                it->ok = false;
        }
}

static void evict_run(struct engine *en, struct job *j) {
        struct evict_job *ej = container_of(j, struct evict_job, job);

        for (size_t i = 0; i < ej->n && !ej->write_failed; i++) {
                /* What lies behind a hole is of no use: the first failure ends it. */
                if (ej->items[i].write)
                        evict_write(en, ej, &ej->items[i]);
                else
                        ej->items[i].ok = true;
        }
        j->r = evict_link(en, ej, &j->err);
        if (j->r == -ERR_NOT_FOUND) {
                /* A record that was to be shared went with its last conversation meanwhile. */
                for (size_t i = 0; i < ej->n; i++)
                        if (ej->items[i].ok && !ej->items[i].write) {
                                ej->items[i].write = true;
                                ej->items[i].ok = false;
                                evict_write(en, ej, &ej->items[i]);
                        }
                j->r = evict_link(en, ej, &j->err);
        }
        if (j->r < 0)
                evict_unwrite(en, ej);
}

static void drop_all(struct engine *en, struct conv *c) {
        uint32_t bt = en->info.block_tokens, n_tokens = seq_n_tokens(c->seq);

        for (size_t i = 0; i < seq_n_blocks(c->seq); i++)
                if (seq_block_at(c->seq, i))
                        seq_drop(c->seq, i);
        /* Holes that nothing can fill are no memory. An older record of a tail holds less of it. */
        for (size_t i = 0; i < seq_n_blocks(c->seq); i++) {
                const struct rec *rec = i < c->n_recs ? c->recs[i] : NULL;
                uint32_t n = MIN(bt, n_tokens - (uint32_t)i * bt);

                if (rec && rec->r.n_tokens == n)
                        continue;
                seq_cut(c->seq, (uint32_t)i * bt + (rec ? MIN(rec->r.n_tokens, n) : 0));
                break;
        }
        en->count.evictions++;
}

/* Told once, and again after it went well in between: a full disk stays full for long. */
static void log_write_failure(struct engine *en, const struct evict_job *ej) {
        if (ej->write_failed) {
                if (!en->spill_refused || ej->write_err.code != ERR_LIMIT)
                        engine_event_log(en, LOG_WARNING, &ej->write_err);
                en->count.spill_failures++;
        }
        en->spill_refused = ej->write_failed && ej->write_err.code == ERR_LIMIT;
}

void residency_io_over(struct engine *en, struct conv *c) {
        struct list parked;

        list_init(&parked);
        if (--c->n_io == 0)
                while (!list_empty(&c->waiters)) {
                        struct list *l = c->waiters.next;

                        list_unlink(l);
                        list_append(&parked, l);
                }
        /* A parked request holds the conversation itself, so it lives as long as there are any. */
        while (!list_empty(&parked)) {
                struct ereq *rq = list_entry(parked.next, struct ereq, link);

                list_unlink(&rq->link);
                verb_act(en, rq);
        }
        conv_unuse(en, c);
}

static void evict_done(struct engine *en, struct job *j) {
        struct evict_job *ej = container_of(j, struct evict_job, job);
        struct conv *c = ej->c;

        if (j->r < 0)
                engine_event_log(en, LOG_WARNING, &j->err);
        log_write_failure(en, ej);
        for (size_t i = 0; i < ej->n; i++) {
                struct evict_item *it = &ej->items[i];
                struct rec *rec = it->ok ? rec_get(en, &it->record, NULL) : NULL;

                if (rec && conv_set_rec(en, c, it->index, rec, NULL) < 0) {
                        rec_put(en, rec);
                        rec = NULL;
                }
                if (rec) {
                        seq_block_set_tag(it->block, rec->r.id);
                        en->count.blocks_spilled += it->write;
                }
                rec_put(en, it->pinned);
                seq_block_unref(it->block);
        }
        drop_all(en, c);
        en->n_evictions--;
        if (ej->then)
                ej->then(en, ej->rq);
        residency_io_over(en, c);
        free(ej);
}

/* What must be written or linked before the blocks may be dropped. */
static void evict_collect(struct engine *en, struct conv *c, struct evict_job *ej) {
        uint32_t bt = en->info.block_tokens, n_tokens = seq_n_tokens(c->seq);
        uint64_t hash = 0;

        for (size_t i = 0; i < seq_n_blocks(c->seq); i++) {
                struct seq_block *b = seq_block_at(c->seq, i);
                uint32_t n = MIN(bt, n_tokens - (uint32_t)i * bt);
                struct evict_item *it = &ej->items[ej->n];
                struct rec *rec;

                hash = conv_token_hash(c->tokens, bt, (uint32_t)i, n, hash);
                if (!b)
                        continue;
                rec = seq_block_tag(b) ? map_get_u64(en->recs, seq_block_tag(b)) : NULL;
                if (rec && rec->r.n_tokens != n)
                        rec = NULL; /* the record holds more than is left after a cut */
                if (rec && i < c->n_recs && c->recs[i] == rec)
                        continue;
                *it = (struct evict_item){
                        .index = (uint32_t)i, .write = !rec, .block = seq_block_ref(b)};
                if (rec) {
                        rec->n_refs++;
                        it->pinned = rec;
                        it->record = rec->r;
                } else {
                        it->record.index = (uint32_t)i;
                        it->record.n_tokens = n;
                        it->record.token_hash = hash;
                }
                ej->n++;
        }
}

int residency_evict(struct engine *en, struct conv *c,
        void (*then)(struct engine *en, struct ereq *rq), struct ereq *rq, struct err *e) {
        struct evict_job *ej;

        seq_unreserve(c->seq);
        ej = calloc(1, sizeof(*ej) + seq_n_blocks(c->seq) * sizeof(ej->items[0]));
        if (!ej)
                return err_set(e, ERR_NOMEM, "no memory to evict a conversation");
        evict_collect(en, c, ej);
        if (ej->n == 0) {
                free(ej);
                drop_all(en, c);
                if (then)
                        then(en, rq);
                return 0;
        }
        ej->job.run = evict_run;
        ej->job.done = evict_done;
        ej->c = c;
        ej->conv_id = c->id;
        ej->then = then;
        ej->rq = rq;
        c->n_io++;
        conv_use(en, c);
        en->n_evictions++;
        io_submit(en, &ej->job);
        return 0;
}

/* The conversation whose memory is worth least: the least recently used idle one; else that of a
 * request which waits for admission (the last to come first), for it is not yet counted among the
 * active. */
static struct conv *find_victim(struct engine *en) {
        struct list *it;

        list_for_each (it, &en->idle) {
                struct conv *c = list_entry(it, struct conv, lru);

                if (seq_n_resident(c->seq) > 0)
                        return c;
        }
        for (it = en->queue.prev; it != &en->queue; it = it->prev) {
                struct conv *c = list_entry(it, struct ereq, link)->conv;

                if (c->n_users == 1 && c->n_io == 0 && seq_n_resident(c->seq) > 0)
                        return c;
        }
        return NULL;
}

enum room residency_make_room(struct engine *en) {
        struct conv *c;

        if (en->n_evictions > 0)
                return ROOM_LATER;
        c = find_victim(en);
        if (!c)
                /* What a running job holds (a commit, a fork) becomes idle when it ends. */
                return en->n_jobs > 0 ? ROOM_LATER : ROOM_NEVER;
        if (residency_evict(en, c, NULL, NULL, NULL) < 0) {
                /* No memory even for the list of what to write: memory is only a cache. */
                drop_all(en, c);
                en->count.unspilled_drops++;
        }
        return en->n_evictions > 0 ? ROOM_LATER : ROOM_NOW;
}

int residency_charge(struct engine *en, size_t n) {
        for (;;) {
                struct conv *victim = NULL;
                struct list *it;

                if (ledger_reserve(&en->meta_ledger, n) == 0)
                        return 0;
                list_for_each (it, &en->idle) {
                        struct conv *c = list_entry(it, struct conv, lru);

                        if (!victim)
                                victim = c;
                        if (seq_n_resident(c->seq) == 0) {
                                victim = c;
                                break;
                        }
                }
                if (!victim)
                        return 1;
                if (seq_n_resident(victim->seq) > 0)
                        en->count.unspilled_drops++;
                conv_unload(en, victim);
        }
}

size_t residency_capacity(struct engine *en) {
        size_t reserved = ledger_budget(&en->req_ledger) + ledger_budget(&en->meta_ledger);
        size_t budget = ledger_budget(&en->ledger);

        return budget > reserved ? (budget - reserved) / en->slot_size : 0;
}
