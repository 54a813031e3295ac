/* SPDX-License-Identifier: MIT */
/*
 * A Continue that begins at an earlier place (engine_request.cuts), or that must drop old turns from
 * the memory (conv/shift.c), or both: only the transaction that commits the first new turn drops
 * anything.
 *
 *                  edit_begin                 edit_store (register), edit_done (RAM)
 *      OLD ─────────────────────→ PENDING ──────────────────────────────────────────→ NEW
 *       ↑                            │
 *       └────────────────────────────┘
 *         edit_undo: refused, cancelled or failed before anything was stored
 *
 * While the edit is pending the conversation in RAM is already the new one: its turns end at the
 * place, its tokens are those of the new memory, and its blocks and records end where the old and
 * the new memory cease to be of the same tokens (edit.common; here: the cut). The request appends to
 * them as every Continue does. struct edit keeps the old conversation.
 *
 *      old memory     0 ────── cut ──────────────────────────── n_tokens
 *      new memory     0 ────── cut (c->n_tokens) ─ ─ ─ n_all     without shift nothing is between
 *                     same blocks   kept turns, to     input     the cut and the input
 *                                   be computed again
 *
 * 1. The register has the old conversation until store_replace() commits. A crash before the commit
 *    leaves all old turns, a crash after it all new ones.
 * 2. edit_begin() does everything that can fail before it changes the conversation. edit_undo()
 *    cannot fail: it takes back the old arrays.
 * 3. While the edit is pending, conv->n_tokens is the cut. Both histories agree up to the cut, so
 *    work on the durable beginning is right for both. Write-behind links the blocks below the cut
 *    and gives the others back (its invariant 2). An eviction writes and links only the full blocks
 *    below the cut (edit_before_evict()). Damaged and reclaimed records are forgotten on both sides
 *    (conv_forget_recs()).
 * 4. No link transaction of write-behind is under way when an edit begins (main/dispatch.c makes it
 *    wait, like a Rewind; run/prompt.c makes a request wait that finds out only when it has its
 *    input): the transaction may link blocks behind the cut. For the same reason Fork and a pending
 *    edit exclude each other: a fork copies turns and links that the edit may drop meanwhile.
 * 5. The published part ends at the cut while the edit is pending, in RAM only: the new tokens are
 *    never entered into the public scope (I6). The register follows with the commit.
 * 6. The memory of the old tail becomes worthless once the edit commits. It is not counted at
 *    admission; edit_make_room() drops it before any request has to wait for room. After that,
 *    edit_undo() keeps the memory that is on disk or was shared, or what the request has computed up to
 *    the cut if that is more, and the rest is computed again (I1).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/memory/state.h"

/* The old conversation; its records are conv.old_recs. */
struct edit {
        struct list link; /* among the pending ones */
        struct conv *c;
        const struct keep *keep; /* the caller's */
        uint32_t common; /* memory tokens from the beginning that the old and the new one share */
        uint32_t n_tokens, n_turns, n_published, n_known;
        struct conv_turn last; /* turn keep.n_turns - 1 before it was cut */
        struct conv_tokens old;
        struct seq *seq;
        size_t charged; /* bytes in the ledger */
};

/* --- making, freeing --- */

/* Forget everything that was put aside of the conversation. */
static void edit_free(struct engine *engine, struct edit *edit) {
        struct conv *c = edit->c;

        recs_free(engine, &c->old_recs);
        c->edit = NULL;
        list_unlink(&edit->link);
        seq_free(edit->seq);
        conv_free_tokens(engine, &edit->old);
        conv_discharge(engine, edit->charged);
        free(edit);
}

/* The shortened conversation's own sequence and records, made before the old ones are replaced. */
struct shortened {
        struct seq *seq;
        struct recs_all recs;
};

static int allocate(struct engine *engine, const struct conv *c, const struct keep *keep,
        struct edit *edit, struct shortened *ret, struct err *e) {
        struct transcript all = conv_transcript(c);
        /* Two entries of the new sequence's tables (perhaps twice as large as needed), and one in the
         * list of records, for each cell. */
        size_t size = sizeof(*edit) + (seq_n_cells(c->seq) + SEQ_N_CLASSES) * 4 * sizeof(void *) +
                      recs_count(&c->recs) * sizeof(struct conv_rec);
        int r;

        /* Until they are exchanged, edit->old has the new tokens. */
        r = conv_arrange(engine, &edit->old, &all, keep->n_tokens, &keep->gap, e);
        if (r < 0)
                return r;
        if (conv_charge(engine, size) != 0)
                return err_set(e, ERR_LIMIT,
                        "the memory budget has no room to keep what is to be replaced");
        edit->charged = size;
        r = recs_copy(engine, &ret->recs, &c->recs, edit->common, e);
        if (r == 0)
                r = seq_fork(&ret->seq, c->seq, MIN(edit->common, seq_n_tokens(c->seq)), e);
        if (r < 0) {
                recs_free(engine, &ret->recs);
                return err_set(e, ERR_NOMEM, "no memory to keep what is to be replaced");
        }
        return 0;
}

/* Tokens of the new memory that were computed before, if perhaps behind other ones. */
static uint32_t still_known(const struct conv *c, const struct keep *keep) {
        uint32_t n = MIN(gap_to_transcript(&c->gap, c->n_known), keep->n_tokens);

        return c->n_known == 0 ? 0 : gap_to_memory(&keep->gap, n);
}

/* Turn the conversation into the new one. Cannot fail. A block that the cut divides is read again from the
 * record that has all of it: n_valid of the entry tells how much of it is ours. */
static void shorten(struct engine *engine, struct edit *edit, struct shortened *to) {
        const struct keep *keep = edit->keep;
        uint32_t bt = engine->info.block_tokens;
        struct conv *c = edit->c;

        edit->n_tokens = c->n_tokens;
        edit->n_turns = c->n_turns;
        edit->n_published = c->n_published;
        edit->n_known = c->n_known;
        c->n_known = still_known(c, keep);
        edit->seq = c->seq;
        c->old_recs = c->recs;
        if (keep->n_turns > 0)
                edit->last = c->turns[keep->n_turns - 1];
        if (keep->inside)
                c->turns[keep->n_turns - 1] = keep->last;
        c->seq = to->seq;
        c->recs = to->recs;
        c->n_turns = keep->n_turns;
        conv_swap_tokens(engine, c, &edit->old);
        c->n_all = gap_to_memory(&keep->gap, keep->n_tokens);
        c->n_tokens = edit->common;
        c->n_published = MIN(c->n_published, edit->common);
        c->n_entered = MIN(c->n_entered, (size_t)(edit->common / bt));
        conv_note_cut(c, edit->seq, edit->common);
        conv_trim(engine, c);
}

int edit_begin(struct engine *engine, struct conv *c, const struct keep *keep, struct err *e) {
        struct shortened to = {0};
        struct edit *edit;
        int r;

        if (keep->n_turns == c->n_turns && !keep->inside && !c->damage &&
                gap_equal(&keep->gap, &c->gap))
                return 0; /* nothing is dropped: the request only appends */
        edit = calloc(1, sizeof(*edit));
        if (!edit)
                return err_set(e, ERR_NOMEM, "no memory to keep what is to be replaced");
        list_init(&edit->link);
        edit->c = c;
        edit->keep = keep;
        edit->common = gap_common(
                &c->gap, c->n_tokens, &keep->gap, gap_to_memory(&keep->gap, keep->n_tokens));
        r = allocate(engine, c, keep, edit, &to, e);
        if (r < 0) {
                edit_free(engine, edit);
                return r;
        }
        shorten(engine, edit, &to);
        list_append(&engine->memory->edits, &edit->link);
        c->edit = edit;
        return 0;
}

const int32_t *edit_old_tokens(const struct conv *c, uint32_t *ret_n, uint32_t *ret_common) {
        if (!c->edit)
                return NULL;
        *ret_n = c->edit->n_tokens;
        *ret_common = c->edit->common;
        return c->edit->old.tokens;
}

/* --- back --- */

/* The old conversation can use the memory that the request brought into RAM below the cut, and the
 * records that were linked there meanwhile. */
static void take_beginning(struct engine *engine, struct edit *edit) {
        struct conv *c = edit->c;
        uint32_t end = MIN(edit->common, seq_n_tokens(c->seq));

        for (int i = 0; i < SEQ_N_CLASSES; i++) {
                enum seq_class class = (enum seq_class)i;
                uint32_t ct = seq_cell_tokens(&engine->info.shape, class);
                struct recs *recs = &c->recs.of[class];
                struct seq_cell cell, old;
                size_t it = 0;

                while (seq_next_cell(c->seq, class, &it, &cell))
                        if (cell.block && (cell.index + 1) * ct <= end &&
                                seq_cell_at(edit->seq, class, cell.index, &old) && !old.block)
                                seq_attach(edit->seq, class, cell.index, cell.block);
                for (size_t k = 0; k < recs->n; k++) {
                        struct conv_rec *entry = &recs->list[k];

                        if (entry->index * ct + entry->n_valid > end || !entry->linked ||
                                recs_at(&c->old_recs, class, entry->index))
                                continue;
                        entry->rec->n_refs++;
                        if (recs_set(engine, &c->old_recs, class, entry, NULL) < 0)
                                rec_put(engine, entry->rec);
                }
        }
}

/* Of two sequences of the conversation, the one that has more of its memory in RAM or on disk. The other one is
 * freed. */
static struct seq *take_longer(
        struct engine *engine, struct conv *c, struct seq *one, struct seq *other) {
        c->seq = other;
        conv_trim(engine, c);
        c->seq = one;
        conv_trim(engine, c);
        if (seq_n_tokens(one) <= seq_n_tokens(other)) {
                seq_free(one);
                return other;
        }
        seq_free(other);
        return one;
}

void edit_undo(struct engine *engine, struct conv *c) {
        struct edit *edit = c->edit;
        const struct keep *keep;

        if (!edit)
                return;
        keep = edit->keep;
        seq_unreserve(c->seq);
        take_beginning(engine, edit);
        recs_free(engine, &c->recs);
        c->recs = c->old_recs;
        c->old_recs = (struct recs_all){0};
        /* If the old conversation had hardly any memory, or lost it, the request may have computed more. */
        seq_cut(c->seq, MIN(seq_n_tokens(c->seq), edit->common));
        c->seq = take_longer(engine, c, TAKE_PTR(edit->seq), c->seq);
        c->n_known = MAX(edit->n_known, seq_n_tokens(c->seq));
        conv_swap_tokens(engine, c, &edit->old);
        if (keep->n_turns > 0)
                c->turns[keep->n_turns - 1] = edit->last;
        c->n_turns = edit->n_turns;
        c->n_tokens = c->n_all = edit->n_tokens;
        c->n_entered = 0; /* entering blocks again that the index has costs nothing */
        if (c->n_published < edit->n_published) {
                c->n_published = edit->n_published;
                share_publish(engine, c);
        }
        edit_free(engine, edit);
}

/* --- forward --- */

int edit_store(struct engine *engine, const struct conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, uint32_t n_tokens, uint64_t *ret_revision,
        struct err *e) {
        const struct keep *keep = c->edit->keep;
        struct store_gone gone = {0};
        struct store_turn last;
        int r = store_replace(engine->store, c->id, keep->n_turns, keep_last(keep, &last),
                &keep->gap, turns, n_turns, tokens, n_tokens, ret_revision, &gone, e);

        if (r < 0)
                return r;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        return 0;
}

void edit_done(struct engine *engine, struct conv *c) {
        uint32_t n_published;

        if (!c->edit)
                return;
        n_published = c->edit->n_published;
        register_removed(engine);
        conv_forget_damage(engine, c); /* the damage lay behind the cut */
        if (c->n_published < n_published)
                share_unpublish(engine);
        edit_free(engine, c->edit);
}

/* --- room --- */

/* False if there was nothing to drop. */
static bool drop_old_memory(struct edit *edit) {
        if (!edit->seq || seq_n_resident(edit->seq) == 0)
                return false;
        memory_drop_cells(edit->seq, NULL, NULL);
        return true;
}

/* Begin with conversations whose requests wait for a place. */
bool edit_make_room(struct engine *engine) {
        struct list *it;

        for (int active = 0; active < 2; active++)
                list_for_each (it, &engine->memory->edits) {
                        struct edit *edit = list_entry(it, struct edit, link);

                        if (list_empty(&edit->c->waits) == (active == 1) && drop_old_memory(edit))
                                return true;
                }
        return false;
}

void edit_before_evict(struct engine *engine, struct conv *c) {
        uint32_t bt = engine->info.block_tokens, cut;

        if (!c->edit)
                return;
        (void)drop_old_memory(c->edit);
        cut = c->edit->common / bt * bt;
        if (seq_n_tokens(c->seq) > cut)
                seq_cut(c->seq, cut);
}
