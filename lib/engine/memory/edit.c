/* SPDX-License-Identifier: MIT */
/*
 * A Continue that begins at an earlier place (engine_request.cuts), or that must drop old turns from
 * the memory (conv/shift.c), or both: only the transaction that commits the new turns drops anything.
 *
 *                  edit_begin                 edit_store (register), edit_done (RAM)
 *      OLD ─────────────────────→ PENDING ──────────────────────────────────────────→ NEW
 *       ↑                            │
 *       └────────────────────────────┘
 *         edit_undo: refused, cancelled before the first token, failed
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
 *    edit_undo() keeps the memory that is on disk or was shared, and the rest is computed again
 *    (I1).
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
        size_t link_from;
        size_t charged; /* bytes in the ledger */
};

/* --- making, freeing --- */

/* Forget everything that was put aside of the conversation. */
static void edit_free(struct engine *engine, struct edit *edit) {
        struct conv *c = edit->c;

        for (size_t i = 0; i < c->n_old_recs; i++)
                rec_put(engine, c->old_recs[i]);
        free(TAKE_PTR(c->old_recs));
        c->n_old_recs = 0;
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
        struct rec **recs;
        size_t n_recs;
};

static int allocate(struct engine *engine, const struct conv *c, const struct keep *keep,
        struct edit *edit, struct shortened *ret, struct err *e) {
        struct transcript all = conv_transcript(c);
        uint32_t bt = engine->info.block_tokens;
        size_t n_blocks = ((size_t)edit->common + bt - 1) / bt;
        /* Two tables of the new sequence (perhaps twice as large as needed), and one of records. */
        size_t size = sizeof(*edit) + (n_blocks + 1) * (4 * sizeof(void *) + sizeof(struct rec *));
        int r;

        /* Until they are exchanged, edit->old has the new tokens. */
        r = conv_arrange(engine, &edit->old, &all, keep->n_tokens, &keep->gap, e);
        if (r < 0)
                return r;
        if (conv_charge(engine, size) != 0)
                return err_set(e, ERR_LIMIT,
                        "the memory budget has no room to keep what is to be replaced");
        edit->charged = size;
        ret->n_recs = MIN(n_blocks, c->n_recs);
        ret->recs = calloc(ret->n_recs + 1, sizeof(struct rec *));
        r = ret->recs ? seq_fork(&ret->seq, c->seq, MIN(edit->common, seq_n_tokens(c->seq)), e)
                      : -ERR_NOMEM;
        if (r < 0) {
                free(ret->recs);
                return err_set(e, ERR_NOMEM, "no memory to keep what is to be replaced");
        }
        return 0;
}

/* If the cut block lies only on disk, there is no record of so few tokens. Restoring would take it
 * for damaged, and unlink everything that the old conversation has from there on. */
static void drop_cut_hole(const struct engine *engine, struct conv *c) {
        uint32_t bt = engine->info.block_tokens, n = seq_n_tokens(c->seq) % bt;
        size_t last = seq_n_tokens(c->seq) / bt;
        const struct rec *rec = last < c->n_recs ? c->recs[last] : NULL;

        if (n > 0 && !seq_block_at(c->seq, last) && !(rec && rec->r.n_tokens == n))
                seq_cut(c->seq, (uint32_t)last * bt);
}

/* Tokens of the new memory that were computed before, if perhaps behind other ones. */
static uint32_t still_known(const struct conv *c, const struct keep *keep) {
        uint32_t n = MIN(gap_to_transcript(&c->gap, c->n_known), keep->n_tokens);

        return c->n_known == 0 ? 0 : gap_to_memory(&keep->gap, n);
}

/* Turn the conversation into the new one. Cannot fail. */
static void shorten(struct engine *engine, struct edit *edit, const struct shortened *to) {
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
        c->n_old_recs = c->n_recs;
        edit->link_from = c->link_from;
        for (size_t i = 0; i < to->n_recs; i++) {
                to->recs[i] = c->recs[i];
                if (to->recs[i])
                        to->recs[i]->n_refs++;
        }
        if (keep->n_turns > 0)
                edit->last = c->turns[keep->n_turns - 1];
        if (keep->inside)
                c->turns[keep->n_turns - 1] = keep->last;
        c->seq = to->seq;
        c->recs = to->recs;
        c->n_recs = to->n_recs;
        c->n_turns = keep->n_turns;
        conv_swap_tokens(engine, c, &edit->old);
        c->n_all = gap_to_memory(&keep->gap, keep->n_tokens);
        c->n_tokens = edit->common;
        c->n_published = MIN(c->n_published, edit->common);
        c->n_entered = MIN(c->n_entered, (size_t)(edit->common / bt));
        drop_cut_hole(engine, c);
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

/* --- back --- */

/* The old conversation can use the memory that the request brought into RAM below the cut, and the
 * records that were linked there meanwhile. */
static void take_beginning(struct engine *engine, struct edit *edit) {
        struct conv *c = edit->c;
        size_t n_tokens = MIN(edit->common, seq_n_tokens(c->seq));
        size_t n_full = n_tokens / engine->info.block_tokens,
               n_recs = MIN(c->n_recs, c->n_old_recs);

        for (size_t i = 0; i < n_full && i < seq_n_blocks(edit->seq); i++)
                if (seq_block_at(c->seq, i) && !seq_block_at(edit->seq, i))
                        seq_attach(edit->seq, i, seq_block_at(c->seq, i));
        for (size_t i = 0; i < n_full && i < n_recs; i++)
                if (i < c->link_from && !c->old_recs[i])
                        c->old_recs[i] = TAKE_PTR(c->recs[i]);
}

void edit_undo(struct engine *engine, struct conv *c) {
        struct edit *edit = c->edit;
        const struct keep *keep;

        if (!edit)
                return;
        keep = edit->keep;
        seq_unreserve(c->seq);
        take_beginning(engine, edit);
        conv_drop_recs(engine, c, 0);
        free(c->recs);
        c->recs = TAKE_PTR(c->old_recs);
        c->n_recs = c->n_old_recs;
        c->n_old_recs = 0;
        c->link_from = edit->link_from;
        /* If the old conversation had hardly any memory, the request may have computed more. */
        if (seq_n_tokens(edit->seq) > MIN(seq_n_tokens(c->seq), edit->common)) {
                seq_free(c->seq);
                c->seq = TAKE_PTR(edit->seq);
                c->n_known = edit->n_known;
        } else {
                seq_cut(c->seq, MIN(seq_n_tokens(c->seq), edit->common));
                c->n_known = MAX(edit->n_known, seq_n_tokens(c->seq));
        }
        conv_swap_tokens(engine, c, &edit->old);
        if (keep->n_turns > 0)
                c->turns[keep->n_turns - 1] = edit->last;
        c->n_turns = edit->n_turns;
        c->n_tokens = c->n_all = edit->n_tokens;
        c->n_entered = 0; /* entering blocks again that the index has costs nothing */
        conv_trim(engine, c);
        if (c->n_published < edit->n_published) {
                c->n_published = edit->n_published;
                share_publish(engine, c);
        }
        edit_free(engine, edit);
}

/* --- forward --- */

int edit_store(struct engine *engine, const struct conv *c, const struct store_turn *turns,
        size_t n_turns, uint32_t n_new, uint64_t *ret_revision, struct err *e) {
        const struct keep *keep = c->edit->keep;
        struct store_gone gone = {0};
        struct store_turn last;
        int r = store_replace(engine->store, c->id, keep->n_turns, keep_last(keep, &last),
                engine->info.block_tokens, &keep->gap, turns, n_turns,
                c->tokens + (c->n_all - n_new), n_new, ret_revision, &gone, e);

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
        for (size_t i = 0; i < seq_n_blocks(edit->seq); i++)
                seq_drop(edit->seq, i);
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
