/* SPDX-License-Identifier: MIT */
/*
 * Writing blocks: collect those without a record, write, link, take over the records.
 * memory/memory.h has the rules that are named by number here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/share.h"
#include "base/util.h"
#include "engine/disk/state.h"

/* The tag of a block that a job is writing now: it must not be written a second time. The tag is
 * ignored while no job writes. */
#define TAG_WRITING UINT64_MAX
#define METER_WRITTEN "spill_written_today"
#define METER_DAY "spill_day"
#define RECLAIM_BLOCKS 8 /* blocks to make room for at once */
#define RECLAIM_MORE 64  /* and so many more to get below a limit that was lowered */

int day_meters_read(struct engine *engine, const char *written_name, const char *day_name,
        uint64_t *written, uint64_t *day, struct err *e) {
        int64_t w, d;
        int r = store_meter_get(engine->store, written_name, &w, e);

        if (r == 0)
                r = store_meter_get(engine->store, day_name, &d, e);
        if (r < 0)
                return r;
        *written = w > 0 ? (uint64_t)w : 0;
        *day = d > 0 ? (uint64_t)d : 0;
        return 0;
}

int write_meters_read(struct engine *engine, uint64_t *written, uint64_t *day, struct err *e) {
        return day_meters_read(engine, METER_WRITTEN, METER_DAY, written, day, e);
}

/* --- collecting (engine thread) --- */

/* The record that holds exactly the tokens of the cell, or more of which these are the first, or NULL
 * (rule 2). Only a record of exactly its bytes becomes a block's tag: another conversation may share the
 * block, and have other tokens behind these than the record. */
static struct rec *cell_rec(struct engine *engine, struct write_job *writing, enum seq_class class,
        const struct seq_cell *cell, uint64_t hash) {
        const struct conv_rec *own = recs_at(&writing->c->recs, class, cell->index);
        uint64_t tag = seq_block_tag(cell->block);
        struct rec *rec = tag && tag != TAG_WRITING ? rec_find(engine, tag) : NULL;

        if (rec && rec->r.n_tokens == cell->n_tokens && rec->r.token_hash == hash && !rec->damaged)
                return rec;
        /* A block that was computed again may have a record already: the bits are the same. */
        if (own && own->rec->damaged)
                writing->find = false; /* others may link the same damaged record */
        if (!own || !conv_cell_on_disk(writing->c, class, cell))
                return NULL;
        rec = own->rec;
        if (rec->r.n_tokens == cell->n_tokens && rec->r.token_hash != hash)
                return NULL;
        if (rec->r.n_tokens == cell->n_tokens && tag != TAG_WRITING)
                seq_block_set_tag(cell->block, rec->r.id);
        return rec;
}

static void add_item(struct write_job *writing, enum seq_class class, const struct seq_cell *cell,
        struct rec *rec, uint64_t hash) {
        const struct conv_rec *own = recs_at(&writing->c->recs, class, cell->index);
        struct write_item *it = &writing->items[writing->n++];

        *it = (struct write_item){.class = class,
                .index = cell->index,
                .end = cell->end,
                .n_tokens = cell->n_tokens,
                .n_valid = cell->n_tokens,
                .write = !rec,
                .block = seq_block_ref(cell->block)};
        if (rec) {
                rec->n_refs++;
                it->pinned = rec;
                it->record = rec->r;
                if (own && own->rec == rec)
                        it->n_valid = MAX(it->n_valid, own->n_valid);
                return;
        }
        it->record.block_class = class;
        it->record.index = cell->index;
        it->record.n_tokens = cell->n_tokens;
        it->record.token_hash = hash;
        seq_block_set_tag(cell->block, TAG_WRITING);
}

/* Takes back the marks, in case the job could not be made. */
struct write_job *write_job_free(struct engine *engine, struct write_job *writing) {
        if (!writing)
                return NULL;
        for (size_t i = 0; i < writing->n; i++) {
                struct write_item *it = &writing->items[i];

                if (seq_block_tag(it->block) == TAG_WRITING)
                        seq_block_set_tag(it->block, 0);
                rec_put(engine, it->pinned);
                seq_block_unref(it->block);
        }
        free(writing->tokens);
        free(writing->hashes);
        free(writing->drops);
        free(writing->cuts);
        free(writing);
        return NULL;
}

/* Does write-behind leave the cell alone? A tail is still to change. But a state is of no use without the
 * blocks before it, and costs more than a tail: with states tails are written, too. */
static bool waits_for_eviction(
        const struct engine *engine, enum seq_class class, const struct seq_cell *cell) {
        return class != SEQ_STATE && cell->n_tokens < engine->info.block_tokens &&
               !engine->info.shape.size[SEQ_STATE];
}

/* The items of one class. 0; 1: another job is writing one of the blocks; 2: no more room. */
static int collect_class(struct engine *engine, struct conv *c, enum seq_class class,
        bool lasting_only, size_t max, struct write_job *writing) {
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, class, &it, &cell)) {
                const struct conv_rec *own = recs_at(&c->recs, class, cell.index);
                struct rec *rec;
                uint64_t hash;

                if (!cell.block || (lasting_only && waits_for_eviction(engine, class, &cell)))
                        continue;
                hash = conv_hash_at(engine, c->tokens, writing->hashes, cell.end);
                rec = cell_rec(engine, writing, class, &cell, hash);
                if (rec && own && own->rec == rec && own->linked)
                        continue;
                if (!rec && seq_block_tag(cell.block) == TAG_WRITING && engine->disk->n_writers > 0)
                        return 1;
                if (writing->n == max)
                        return 2;
                add_item(writing, class, &cell, rec, hash);
        }
        return 0;
}

/* Cells that are in the register and that the sequence has given up: checkpoints that were thinned out,
 * and what lies behind windows. Not while an edit may be undone. */
static int collect_drops(struct engine *engine, struct conv *c, struct write_job *writing) {
        uint32_t n_tokens = MIN(seq_n_tokens(c->seq), c->n_tokens);
        size_t max = c->recs.of[SEQ_WINDOW].n + c->recs.of[SEQ_STATE].n;

        if (max == 0 || c->edit || c->damage)
                return 0;
        writing->drops = calloc(max, sizeof(*writing->drops));
        if (!writing->drops)
                return -ERR_NOMEM;
        for (int class = SEQ_WINDOW; class < SEQ_N_CLASSES; class ++)
                for (size_t i = 0; i < c->recs.of[class].n; i++) {
                        const struct conv_rec *own = &c->recs.of[class].list[i];
                        struct seq_cell cell;

                        if (own->linked && record_end(engine, &own->rec->r) <= n_tokens &&
                                !seq_cell_at(c->seq, (enum seq_class) class, own->index, &cell))
                                writing->drops[writing->n_drops++] = (struct store_cell){
                                        .block_class = (uint32_t) class, .index = own->index};
                }
        return 0;
}

/* Fills the items of @writing. 0; 1: another job is writing one of the blocks; -ERR_NOMEM. */
static int collect(struct engine *engine, struct conv *c, bool lasting_only, size_t max,
        struct write_job *writing) {
        uint32_t bt = engine->info.block_tokens;
        uint64_t hash = 0;
        int r = 0;

        writing->n_blocks = seq_n_tokens(c->seq) / bt;
        for (size_t i = 0; i < writing->n_blocks; i++) {
                hash = conv_token_hash(c->tokens, bt, (uint32_t)i, bt, hash);
                writing->hashes[i] = hash;
        }
        for (int class = 0; r == 0 && class < SEQ_N_CLASSES; class ++)
                r = collect_class(engine, c, (enum seq_class) class, lasting_only, max, writing);
        if (r == 1)
                return 1;
        return collect_drops(engine, c, writing);
}

int write_job_new(struct write_job **ret, struct engine *engine, struct conv *c, bool lasting_only,
        size_t max, struct err *e) {
        size_t n = seq_n_tokens(c->seq) / engine->info.block_tokens, size;
        struct write_job *writing;
        int r;

        max = MIN(max, seq_n_resident(c->seq));
        writing = calloc(1, sizeof(*writing) + max * sizeof(writing->items[0]));
        if (!writing)
                return err_set(e, ERR_NOMEM, "no memory to write a conversation's blocks");
        writing->c = c;
        writing->conv_id = c->id;
        writing->owner = c->owner;
        writing->disk_limit = c->disk_limit;
        writing->n_committed = c->n_tokens;
        writing->find = !c->private_memory && !c->no_disk_share;
        writing->hashes = calloc(n + 1, sizeof(*writing->hashes));
        r = writing->hashes ? collect(engine, c, lasting_only, max, writing) : -ERR_NOMEM;
        if (r == 0 && writing->n > 0) {
                size = (size_t)seq_n_tokens(c->seq) * sizeof(*writing->tokens);
                writing->tokens = malloc(size + 1);
                if (!writing->tokens)
                        r = -ERR_NOMEM;
                else
                        memcpy(writing->tokens, c->tokens, size);
        }
        if (r != 0 || (writing->n == 0 && writing->n_drops == 0))
                writing = write_job_free(engine, writing);
        if (r < 0)
                return err_set(e, ERR_NOMEM, "no memory to write a conversation's blocks");
        if (r == 0)
                *ret = writing;
        return r;
}

/* --- writing (worker) --- */

/* If another conversation of the user, or a published one, has the same prefix on disk, link it
 * instead of writing it (rule 5). */
static void find_records(struct engine *engine, struct write_job *writing) {
        struct store_prefix found = {0};

        if (!writing->find || writing->n_blocks == 0 ||
                register_find_prefix(engine, writing->owner, writing->tokens, writing->hashes,
                        writing->n_blocks, &found, NULL) < 0)
                return;
        for (size_t i = 0; i < writing->n; i++) {
                struct write_item *it = &writing->items[i];
                const struct store_record *r;

                /* What ends where a block ends. */
                if (!it->write || it->end % engine->info.block_tokens != 0 ||
                        it->end / engine->info.block_tokens > found.n)
                        continue;
                r = found.records[it->class];
                r = r ? &r[it->end / engine->info.block_tokens - 1] : NULL;
                if (!r || r->id == 0)
                        continue;
                it->record = *r;
                it->write = false;
        }
        store_prefix_deinit(&found);
}

/*
 * The user whose records make room. A user who holds more than an equal share of the disk makes
 * room from its own records: so a user who writes much does not push out the memory of those who
 * write little. Otherwise the oldest records of all users make room. The same holds for root, who
 * is exempt from shares.
 */
static uint64_t who_makes_room(
        struct engine *engine, const struct write_job *writing, enum spill_refusal why) {
        struct spill_stats s;

        if (why == SPILL_REFUSED_OWNER)
                return writing->owner;
        spill_stats(engine->spill, &s);
        if (share_exempt(writing->owner) || s.n_owners < 2 ||
                spill_owner_size(engine->spill, writing->owner) <= s.disk_size / s.n_owners)
                return OWNER_ANY;
        return writing->owner;
}

/* Bytes to make room for, when blocks of @one byte size at most are to be written: some of them; and some of what
 * the owner has too much, if its limit was lowered. */
static uint64_t room_size(struct engine *engine, const struct write_job *writing,
        enum spill_refusal why, uint64_t one, size_t n_left) {
        uint64_t size = one * MIN(n_left, (size_t)RECLAIM_BLOCKS), has;

        if (why != SPILL_REFUSED_OWNER)
                return size;
        has = spill_owner_size(engine->spill, writing->owner);
        if (has > writing->disk_limit)
                size += MIN(has - writing->disk_limit, one * RECLAIM_MORE);
        return size;
}

/* Make room for some of the remaining blocks at the expense of others. False if there is none. */
static bool reclaim(struct engine *engine, struct write_job *writing, enum seq_class class,
        enum spill_refusal why, size_t n_left) {
        uint64_t one = spill_stored_max(engine->spill, engine->info.shape.size[class]);
        uint64_t owner = who_makes_room(engine, writing, why);
        struct store_reclaimed got = {0};
        struct store_cut *cuts;

        if (why == SPILL_REFUSED_NOT || why == SPILL_REFUSED_DAY)
                return false;
        if (store_reclaim(engine->store, owner, room_size(engine, writing, why, one, n_left),
                    writing->conv_id, &got, NULL) < 0)
                return false;
        records_release(engine, &got.gone);
        writing->reclaimed += got.bytes;
        /* Without memory for the list, the conversations find out when they read. */
        cuts = got.n_cuts ? realloc(writing->cuts, (writing->n_cuts + got.n_cuts) * sizeof(*cuts))
                          : NULL;
        if (cuts) {
                memcpy(cuts + writing->n_cuts, got.cuts, got.n_cuts * sizeof(*cuts));
                writing->cuts = cuts;
                writing->n_cuts += got.n_cuts;
        }
        one = got.bytes;
        store_reclaimed_deinit(&got);
        return one > 0;
}

static int link_ok(struct engine *engine, struct write_job *writing, struct err *e);

static void write_one(
        struct engine *engine, struct write_job *writing, struct write_item *it, size_t n_left) {
        struct spill_block b = {.file_key = writing->conv_id,
                .owner = writing->owner,
                .meta = record_meta(&it->record),
                .raw = seq_block_data(it->block),
                .raw_size = engine->info.shape.size[it->class],
                .has_max_owner_size = true,
                .max_owner_size = writing->disk_limit};
        enum spill_refusal why = SPILL_REFUSED_NOT;
        struct spill_ref ref;
        struct err e;
        int r = spill_write(engine->spill, &b, &ref, &why, &e);

        /* Link what is ready, so that making room does not take it. Write-behind may not yet. */
        if (r == -ERR_LIMIT && writing->job.kind == JOB_EVICT)
                (void)link_ok(engine, writing, NULL);
        if (r == -ERR_LIMIT && reclaim(engine, writing, it->class, why, n_left))
                r = spill_write(engine->spill, &b, &ref, &why, &e);
        if (r < 0) {
                if (!writing->failed) {
                        writing->write_err = e;
                        writing->why = why;
                }
                writing->failed = true;
                return;
        }
        it->record.id = 0;
        it->record.file_key = ref.file_key;
        it->record.offset = ref.offset;
        it->record.stored_size = ref.stored_size;
        it->record.raw_size = ref.raw_size;
        it->record.owner = ref.owner;
        it->written = it->ok = true;
}

void write_blocks(struct engine *engine, struct write_job *writing) {
        bool any = false;

        for (size_t i = 0; i < writing->n; i++)
                any = any || writing->items[i].write;
        if (any)
                find_records(engine, writing);
        /* Blocks behind a hole are useless: the first failure ends the loop. */
        for (size_t i = 0; i < writing->n && !writing->failed; i++) {
                if (writing->items[i].write)
                        write_one(engine, writing, &writing->items[i], writing->n - i);
                else
                        writing->items[i].ok = true;
        }
}

/* --- settling: written data leaves the page cache when the workers have nothing else to do --- */

struct settle_job {
        struct job job;
        uint64_t file_key;
};

static void settle_run(struct engine *engine, struct job *j) {
        spill_settle(engine->spill, container_of(j, struct settle_job, job)->file_key);
}

static void settle_done(struct engine *engine, struct job *j) {
        (void)engine;
        free(container_of(j, struct settle_job, job));
}

static void settle(struct engine *engine, const struct write_job *writing) {
        struct settle_job *settling;
        bool any = false;

        for (size_t i = 0; i < writing->n; i++)
                any = any || (writing->items[i].ok && writing->items[i].write);
        settling = any ? calloc(1, sizeof(*settling)) : NULL;
        if (!settling)
                return; /* the next call on this file settles it */
        settling->job.kind = JOB_WRITE_BEHIND;
        settling->job.run = settle_run;
        settling->job.done = settle_done;
        settling->file_key = writing->conv_id;
        io_submit(engine, &settling->job);
}

void write_meters(struct engine *engine, struct store_meter out[WRITE_N_METERS]) {
        struct spill_stats stats;

        spill_stats(engine->spill, &stats);
        out[0] = (struct store_meter){METER_WRITTEN, (int64_t)stats.written_today};
        out[1] = (struct store_meter){METER_DAY, (int64_t)stats.day};
        codec_meters(engine, out + 2);
}

/* Of a record's tokens, those behind the committed ones. */
static uint32_t n_ahead(const struct engine *engine, const struct write_job *writing,
        const struct store_record *r) {
        uint32_t end = record_end(engine, r);

        return end > writing->n_committed ? MIN(end - writing->n_committed, r->n_tokens) : 0;
}

/* Give up the cells that the sequence has given up. */
static int drop_cells(struct engine *engine, struct write_job *writing, struct err *e) {
        struct store_gone gone = {0};
        int r;

        if (writing->n_drops == 0 || writing->dropped)
                return 0;
        r = store_unlink_cells(
                engine->store, writing->conv_id, writing->drops, writing->n_drops, &gone, e);
        if (r < 0)
                return r;
        writing->dropped = true;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        return 0;
}

static int link_ok(struct engine *engine, struct write_job *writing, struct err *e) {
        _cleanup_(freep) struct store_record *links = NULL;
        struct store_meter meters[WRITE_N_METERS];
        struct store_gone gone = {0};
        size_t n = 0;
        int r;

        r = drop_cells(engine, writing, e);
        if (r < 0)
                return r;
        links = calloc(writing->n + 1, sizeof(*links));
        if (!links)
                return err_set(e, ERR_NOMEM, "no memory for %zu links", writing->n);
        for (size_t i = 0; i < writing->n; i++)
                if (writing->items[i].ok) {
                        links[n] = writing->items[i].record;
                        /* After a cut inside the cell the record has tokens of another history, however
                         * many the conversation has by now. */
                        links[n].n_ahead = MAX(n_ahead(engine, writing, &links[n]),
                                links[n].n_tokens - writing->items[i].n_valid);
                        n++;
                }
        if (n == 0)
                return 0;
        write_meters(engine, meters);
        r = store_link(engine->store, writing->conv_id, &engine->info.fingerprint,
                &engine->store_shape, links, n, meters, ARRAY_SIZE(meters), &gone, e);
        if (r < 0)
                return r;
        n = 0;
        for (size_t i = 0; i < writing->n; i++)
                if (writing->items[i].ok) {
                        writing->items[i].record = links[n++];
                        writing->items[i].written = false; /* the register knows it now */
                }
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        return 0;
}

int write_link(struct engine *engine, struct write_job *writing, struct err *e) {
        int r = link_ok(engine, writing, e);

        if (r == -ERR_NOT_FOUND || r == -ERR_INVALID) {
                /* A record that was to be shared went with its last conversation: write such
                 * blocks. If one cannot be written, nothing behind it is linked. */
                for (size_t i = 0; i < writing->n; i++) {
                        bool again = writing->items[i].ok && !writing->items[i].written;

                        if (again || writing->failed)
                                writing->items[i].ok = false;
                        if (again && !writing->failed) {
                                writing->items[i].write = true;
                                write_one(engine, writing, &writing->items[i], writing->n - i);
                        }
                }
                r = link_ok(engine, writing, e);
        }
        for (size_t i = 0; i < writing->n; i++) {
                struct write_item *it = &writing->items[i];
                struct spill_ref ref = record_ref(&it->record);

                if (r < 0)
                        it->ok = false;
                /* When a server has gone away the register may know the record or not: the bytes stay until the
                 * next start. */
                if (it->written && !it->ok && r != -ERR_UNAVAILABLE)
                        (void)spill_release(engine->spill, &ref, NULL);
                it->written = false;
        }
        return r;
}

/* --- taking over (engine thread) --- */

/* A failure is told once, until something was written in between: disks stay full for long. One user's own limit says
 * nothing about the disk. */
static void tell_failure(struct engine *engine, const struct write_job *writing) {
        const struct conv *c = writing->c;
        uint64_t owner = c ? c->owner : OWNER_ANY, id = c ? c->id : 0;

        if (!writing->failed)
                return;
        engine->count.spill_failures++;
        if (writing->why == SPILL_REFUSED_OWNER) {
                event_log(engine, ENGINE_LOG_USER_DISK, owner, id, &writing->write_err);
        } else if (engine->disk->spill_fails != writing->write_err.code) {
                engine->disk->spill_fails = writing->write_err.code;
                event_log(engine, ENGINE_LOG_SPILL_FAILS, owner, id, &writing->write_err);
        }
}

/* Links to what was written before prove nothing. */
static void tell_success(struct engine *engine, const struct write_job *writing) {
        struct err e;

        if (writing->failed || engine->disk->spill_fails == ERR_NONE)
                return;
        for (size_t i = 0; i < writing->n; i++) {
                if (!writing->items[i].ok || !writing->items[i].write)
                        continue;
                engine->disk->spill_fails = ERR_NONE;
                err_set(&e, ERR_NONE, "memory can be written to disk again");
                event_log(engine, ENGINE_LOG_SPILL_WORKS, OWNER_ANY, 0, &e);
                return;
        }
}

static void take_item(struct engine *engine, struct write_job *writing, struct write_item *it) {
        struct conv *c = writing->c;
        struct rec *rec = it->ok && c ? rec_get(engine, &it->record, NULL) : NULL;
        bool marked = seq_block_tag(it->block) == TAG_WRITING;
        struct conv_rec entry = {rec, it->index, it->n_valid, true};
        const struct conv_rec *own = c ? recs_at(&c->recs, it->class, it->index) : NULL;
        struct seq_cell now;

        /* Of what the record has behind the cell's tokens a cut may have taken some meanwhile. After an
         * earlier cut the cell may have more than the entry. */
        if (own && own->rec == rec)
                entry.n_valid = MAX(own->n_valid, it->n_tokens);
        if (rec && recs_set(engine, &c->recs, it->class, &entry, NULL) < 0) {
                rec_put(engine, rec);
                rec = NULL;
        }
        if (rec) {
                if (rec->r.n_tokens == it->n_tokens)
                        seq_block_set_tag(it->block, rec->r.id);
                if (engine->remote)
                        conv_set_unsent(engine, c);
                engine->count.blocks_spilled += it->write;
                engine->count.blocks_linked += !it->write;
        } else if (marked) {
                seq_block_set_tag(it->block, 0);
        }
        /* The index may have put an equal block in its place and copied our mark to it. */
        if (c && seq_cell_at(c->seq, it->class, it->index, &now) && now.block &&
                now.block != it->block && seq_block_tag(now.block) == TAG_WRITING)
                seq_block_set_tag(now.block, rec ? rec->r.id : 0);
}

/* The register has given up these cells; unless the sequence came to have them again meanwhile. */
static void take_drops(struct engine *engine, const struct write_job *writing) {
        for (size_t i = 0; writing->c && writing->dropped && i < writing->n_drops; i++) {
                const struct store_cell *p = &writing->drops[i];

                recs_drop(engine, &writing->c->recs, (enum seq_class)p->block_class, p->index,
                        p->index + 1);
        }
}

void write_start(struct engine *engine, struct write_job *writing) {
        engine->disk->n_writers++;
        io_submit(engine, &writing->job);
}

void write_finish(struct engine *engine, struct write_job *writing) {
        tell_failure(engine, writing);
        tell_success(engine, writing);
        engine->count.reclaimed += writing->reclaimed;
        records_cut(engine, writing->cuts, writing->n_cuts);
        take_drops(engine, writing);
        for (size_t i = 0; i < writing->n; i++)
                take_item(engine, writing, &writing->items[i]);
        engine->disk->n_writers--;
        settle(engine, writing);
}
