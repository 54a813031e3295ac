/* SPDX-License-Identifier: MIT */
/*
 * What is done with the prefix index: finding the blocks of a prefix, and entering those of a
 * sequence. index-tree.c explains the tree.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/map.h"
#include "base/util.h"
#include "seq/seq-cells.h"
#include "seq/seq-index.h"

size_t seq_index_entry_size(const struct seq_index *x) {
        return x->entry_size;
}

void seq_index_stats(const struct seq_index *x, struct seq_index_stats *ret) {
        *ret = x->stats;
}

/* --- finding --- */

/* The blocks of an entry. Returns how many there are. */
static size_t step_of(const struct entry *e, struct seq_step *ret) {
        const struct seq_index *x = e->scope->index;
        size_t n = 0;

        *ret = (struct seq_step){0};
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                if (!seq_index_has_class(x, (enum seq_class)c))
                        continue;
                ret->block[c] = seq_place_of(e, (enum seq_class)c)->block;
                n += !!ret->block[c];
        }
        return n;
}

size_t seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens, size_t n_blocks,
        struct seq_step *out) {
        struct scope *sc = map_get_u64(x->scopes, scope);
        uint32_t bt = x->block_tokens;
        struct entry *e = sc ? sc->root : NULL;
        size_t n = 0;

        for (; n < n_blocks; n++) {
                e = seq_branch_find(e, tokens + n * bt, bt, bt, NULL);
                if (!e)
                        break;
                x->stats.n_matched += step_of(e, &out[n]);
                e = e->children;
        }
        return n;
}

uint32_t seq_index_common(
        struct seq_index *x, uint64_t scope, const int32_t *tokens, uint32_t n_tokens) {
        struct scope *sc = map_get_u64(x->scopes, scope);
        uint32_t bt = x->block_tokens, n = 0, longest;
        struct entry *e = sc ? sc->root : NULL;

        while (e && n < n_tokens) {
                e = seq_branch_find(e, tokens + n, MIN(bt, n_tokens - n), bt, &longest);
                n += longest;
                e = e ? e->children : NULL;
        }
        return n;
}

/* --- entering --- */

/* Move the places of a block that is about to go to its equal. */
static void places_move(struct seq_block *from, struct seq_block *to) {
        struct list *it, *next;

        list_for_each_safe (it, next, &from->entries) {
                struct place *place = list_entry(it, struct place, of_block);

                /* If the equal were in the scope, then in this place. */
                if (seq_entry_of(to, place->entry->scope))
                        continue;
                place->block = to;
                list_unlink(&place->of_block);
                list_append(&to->entries, &place->of_block);
        }
}

/* The cell of class @c that step @i is about. */
static size_t cell_of(const struct seq_index *x, enum seq_class c, size_t i) {
        return c == SEQ_STATE ? (i + 1) * x->block_tokens - 1 : i;
}

/* Enter what @s has in RAM at step @i. */
static int enter_blocks(struct entry *e, struct seq *s, size_t i, struct err *err) {
        struct seq_index *x = e->scope->index;

        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                size_t cell = cell_of(x, (enum seq_class)c, i);
                struct seq_block *ours = seq_slot(s, (enum seq_class)c, cell), *theirs;
                struct place *place;

                if (!ours)
                        continue;
                place = seq_place_of(e, (enum seq_class)c);
                theirs = place->block;
                if (ours == theirs)
                        continue;
                if (seq_entry_of(ours, e->scope))
                        return err_set(
                                err, ERR_INVALID, "block %zu is entered with other tokens", i);
                if (!theirs) {
                        seq_place_set(place, ours);
                        continue;
                }
                if (theirs->tag == 0)
                        theirs->tag = ours->tag;
                if (ours->n_refs == 1)
                        places_move(ours, theirs);
                seq_replace(s, (enum seq_class)c, cell, theirs);
                x->stats.n_merged++;
        }
        return 0;
}

static bool has_block(const struct seq_index *x, const struct seq *s, size_t i) {
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                if (seq_slot(s, (enum seq_class)c, cell_of(x, (enum seq_class)c, i)))
                        return true;
        return false;
}

/* The entry of a block that @s has at step @i, or NULL. */
static struct entry *entry_at(const struct scope *sc, const struct seq *s, size_t i) {
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                struct seq_block *b =
                        seq_slot(s, (enum seq_class)c, cell_of(sc->index, (enum seq_class)c, i));
                struct entry *e = b ? seq_entry_of(b, sc) : NULL;

                if (e && e->depth == i)
                        return e;
        }
        return NULL;
}

/* Find or make the entries of steps [i, end), which follow @parent. */
static int enter_steps(struct scope *sc, struct entry *parent, struct seq *s, const int32_t *tokens,
        size_t i, size_t end, struct err *err) {
        uint32_t bt = sc->index->block_tokens;
        int r = 0;

        for (; r == 0 && i < end; i++) {
                struct entry *top = parent ? parent->children : sc->root;
                struct entry *e = seq_branch_find(top, tokens + i * bt, bt, bt, NULL);

                if (!e)
                        r = seq_entry_new(&e, sc, parent, tokens + i * bt, err);
                if (r == 0) {
                        parent = e;
                        r = enter_blocks(e, s, i, err);
                }
                if (r)
                        sc->index->stats.n_refused += end - i;
        }
        if (parent)
                seq_entry_prune(parent);
        else
                seq_scope_check(sc);
        return r;
}

int seq_index_enter_range(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, size_t to, struct err *e) {
        size_t end = MIN(to, (size_t)(seq_n_tokens(s) / x->block_tokens)), i = MIN(from, end);
        struct entry *parent = NULL;
        struct scope *sc;
        int r;

        /* Nothing is entered behind the last block. */
        while (end > i && !has_block(x, s, end - 1))
                end--;
        if (i == end)
                return 0;
        r = seq_scope_get(&sc, x, scope, e);
        if (r) {
                x->stats.n_refused += end - i;
                return r;
        }
        for (; i > 0 && !parent; i -= !parent)
                parent = entry_at(sc, s, i - 1);
        return enter_steps(sc, parent, s, tokens, i, end, e);
}

int seq_index_enter(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, struct err *e) {
        return seq_index_enter_range(x, scope, s, tokens, from, SIZE_MAX, e);
}

void seq_index_forget(struct seq_index *x, uint64_t scope) {
        struct scope *sc = map_get_u64(x->scopes, scope);

        if (!sc)
                return;
        while (!list_empty(&sc->entries))
                seq_entry_free(list_entry(sc->entries.next, struct entry, of_scope));
        seq_scope_check(sc);
}

struct seq_index *seq_index_free(struct seq_index *x) {
        if (!x)
                return NULL;
        for (;;) {
                size_t it = 0;
                struct scope *sc = map_next(x->scopes, &it);

                if (!sc)
                        break;
                seq_index_forget(x, sc->id);
        }
        map_free(x->scopes);
        free(x);
        return NULL;
}
