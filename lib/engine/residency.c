/* SPDX-License-Identifier: MIT */
/*
 * Residency: moving the memory of conversations between the pool and the spill store. Here: the
 * rules, and room. evict.c and writebehind.c write (with write.c), restore.c reads, share.c finds
 * memory that other conversations have.
 *
 * The life of a block of a conversation's memory; the function that makes each transition:
 *
 *         compute                  write_job_new           write_link
 *      ┌──────────→ DIRTY (RAM) ─────────────→ WRITING ────────────→ CLEAN (RAM and disk)
 *      │              ↑ │  ↑      tag: mark     │      tag: record      │  │  ↑
 *      │              │ │  └─────failed─────────┘     recs: record      │  │  │ restore_finish
 *      │       forgets│ │        take_item                              │  │  │ (verified)
 *      │       (other)│ │residency_drop                   residency_drop│  │  │
 *      │              │ ↓                                               ↓  │  │
 *      └─────────── GONE ←──── damaged, other model (cut_damaged) ── HOLE (disk only)
 *                       ←──── reclaimed for others (store_reclaim) ────┘
 *      Adopted blocks (share.c) begin as DIRTY or CLEAN, whatever they are to their first owner;
 *      CLEAN without a link of this conversation's own is linked, not written.
 *
 * 1. Memory is a cache of tokens (I1): every failure here ends with a shorter memory, never with a
 *    lost conversation. What can't be written is dropped when it must go, what can't be read is cut
 *    off and computed again, and a counter says so.
 * 2. A block's tag is the id of the spill record that holds the same bytes, TAG_WRITING while a job
 *    writes it, or 0. A tag whose record no loaded conversation refers to means nothing: the block
 *    counts as not written. A record is taken for a conversation's memory only if it covers the
 *    same number of tokens of the block and their chained hash is equal.
 * 3. recs[i] of a conversation is the record of its block i; below link_from it is also linked in
 *    the register, so that the record lives as long as the conversation. The register is always
 *    right by itself; recs may lag behind it and is never believed: reading verifies all.
 * 4. Writing: the bytes → commit the links (one transaction, with the meters) → tags and recs →
 *    only then drop. A crash in between leaves bytes that no one claims (swept at the next start).
 *    Links go first when space is given back: commit, then punch.
 * 5. A full block is written once in its life: by the first that comes to write it, who marks it.
 *    Forks and sharers find the tag and link the record; a conversation that computed what somebody
 *    has on disk already links that; a block that was computed again takes the record that it had.
 *    (The exceptions cost a write, nothing else: the record was damaged, reclaimed, or lost with
 *    its last conversation before it was linked.)
 * 6. A partial tail is written at eviction only, and replaced at the next one that finds it longer.
 * 7. While n_io > 0 (an eviction, or the forgetting of damaged links) no request acts on the
 *    conversation that does not hold it already. Write-behind is not among these, see
 *    writebehind.c.
 * 8. Restoring: fresh blocks → read and verify → attach. The first damaged block cuts the memory
 *    there; its links are forgotten in the register, then the space is given back (I5). restore.c
 *    tells how computing may begin before all is read.
 * 9. Admission (sched.c) bounds the blocks that active conversations may come to need by the pool's
 *    capacity, and everything else can be evicted (or dropped: what edits have put aside, edit.c);
 *    so waiting for room always ends. Blocks that a job has pinned come back when it ends.
 * 10. Room on disk: a write that a limit refuses takes the space of the conversations that were
 *    updated longest ago (store_reclaim: from their tails, what several share last), and tries once
 *    more. The daily limit is not met that way: writing rests until tomorrow. What was reclaimed is
 *    not written again in the background, only when it was used and is evicted again; so a full
 *    disk leads to no endless exchange.
 */
#include <stdlib.h>

#include "engine/internal.h"

void residency_release(struct engine *engine, const struct store_gone *gone) {
        for (size_t i = 0; i < gone->n; i++) {
                struct spill_ref ref = record_ref(&gone->records[i]);

                /* Not found: it was never adopted, so the sweep has given it back already. */
                (void)spill_release(engine->spill, &ref, NULL);
        }
}

void residency_cut(struct engine *engine, const struct store_cut *cuts, size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct conv *c = map_get_u64(engine->convs, cuts[i].conv);

                if (!c)
                        continue;
                conv_forget_recs(engine, c, cuts[i].from_index);
                if (c->n_users == 0)
                        residency_trim(engine, c);
        }
}

void residency_trim(struct engine *engine, struct conv *c) {
        uint32_t bt = engine->info.block_tokens, n_tokens = seq_n_tokens(c->seq);

        for (size_t i = 0; i < seq_n_blocks(c->seq); i++) {
                const struct rec *rec = i < c->n_recs ? c->recs[i] : NULL;
                uint32_t n = MIN(bt, n_tokens - (uint32_t)i * bt);

                /* An older record of a tail holds less of it. */
                if (seq_block_at(c->seq, i) || (rec && rec->r.n_tokens == n))
                        continue;
                seq_cut(c->seq, (uint32_t)i * bt + (rec ? MIN(rec->r.n_tokens, n) : 0));
                return;
        }
}

void residency_drop(struct engine *engine, struct conv *c) {
        size_t n = seq_n_blocks(c->seq);

        /* Records without a link of our own go with whoever has them. */
        if (c->link_from < c->n_recs)
                conv_drop_recs(engine, c, c->link_from);
        c->link_from = SIZE_MAX;
        c->n_entered = 0;
        for (size_t i = 0; i < n; i++)
                if (seq_block_at(c->seq, i))
                        seq_drop(c->seq, i);
        residency_trim(engine, c);
        if (seq_n_blocks(c->seq) < n)
                engine->count.blocks_lost += n - seq_n_blocks(c->seq);
        engine->count.evictions++;
}

void residency_resume(struct engine *engine, struct conv *c) {
        struct list parked;

        if (c->n_io > 0)
                return;
        list_move_all(&parked, &c->waiters);
        /* A parked request holds the conversation itself, so it lives as long as there are any. */
        while (!list_empty(&parked)) {
                struct request *request = list_entry(parked.next, struct request, link);

                list_unlink(&request->link);
                verb_act(engine, request);
        }
}

void residency_io_over(struct engine *engine, struct conv *c) {
        c->n_io--;
        residency_resume(engine, c);
        conv_unuse(engine, c);
}

int residency_charge(struct engine *engine, size_t n) {
        for (;;) {
                struct conv *victim = NULL;
                struct list *it;

                if (ledger_reserve(&engine->meta_ledger, n) == 0)
                        return 0;
                list_for_each (it, &engine->idle) {
                        struct conv *c = list_entry(it, struct conv, lru);

                        if (c->n_links > 0)
                                continue; /* a transaction is under way: see writebehind.c */
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
                        engine->count.unspilled_drops++;
                conv_unload(engine, victim);
        }
}
