/* SPDX-License-Identifier: MIT */
/*
 * The prefix index: a tree of token blocks for each scope.
 *
 * An entry is a node of its scope's tree: the tokens of one cell of attention, and the blocks that
 * hold their memory, one place for each class. The entries of the cells that followed it form its
 * branch, below it; the scope itself has the branch of first cells. A look-up walks down from the
 * scope, one branch per cell. The entries of a branch form a search tree ordered by their tokens (a
 * treap: a binary tree by tokens that is a heap by random priorities, hence about 2 log2(n) deep
 * whatever is entered in whatever order). So a branch costs only two pointers in each entry, and no
 * table has to grow. If the wanted tokens are not in the branch, the entries that agree with them
 * longest are on the path to the place where they would be.
 *
 * 1. A place that has a block is in the block's list. It loses the block when the block loses its
 *    last reference or is about to be written.
 * 2. An entry lives as long as it has a block or a branch. So every entry can be found, and no leaf
 *    is without a block. (Only while seq_index_enter() makes a path is its last entry bare.)
 * 3. The entries of a branch all have different tokens. A block is in at most one entry of a scope.
 * 4. A scope lives as long as it has entries.
 * 5. Memory is charged before it is allocated: size == n_entries * entry_size + n_scopes *
 *    SCOPE_SIZE.
 *
 * A bare entry stays for the sake of its branch. A window's blocks go long before those of full
 * attention, and states are kept at few places. Yet what lies behind a bare entry is as good as ever,
 * because a block's bytes are the memory of its tokens and of all tokens before it. Whether it is
 * enough to go on from is for seq_steps_whole() to say.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/map.h"
#include "base/util.h"
#include "seq/seq-index.h"

enum {
        MALLOC_OVERHEAD = 16, /* about what the allocator adds to each piece */
        SCOPE_SIZE =
                sizeof(struct scope) + 64 + 2 * MALLOC_OVERHEAD, /* with its place in the map */
};

int seq_index_new(
        struct seq_index **ret, struct seq_pool *p, struct ledger *ledger, struct err *e) {
        const struct seq_shape *shape = seq_pool_shape(p);
        struct seq_index *x;
        int r;

        x = calloc(1, sizeof(*x));
        if (!x)
                return err_set(e, ERR_NOMEM, "no memory for a prefix index");
        r = map_new(&x->scopes, e);
        if (r < 0) {
                free(x);
                return r;
        }
        x->ledger = ledger;
        x->block_tokens = shape->block_tokens;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                x->n_places += shape->size[c] > 0;
        for (size_t c = 0, n = 0; c < SEQ_N_CLASSES; c++)
                x->place[c] = shape->size[c] > 0 ? n++ : x->n_places;
        x->places_offset = sizeof(struct entry) +
                           align_up(x->block_tokens * sizeof(int32_t), _Alignof(struct place));
        x->entry_size = align_up(
                x->places_offset + x->n_places * sizeof(struct place) + MALLOC_OVERHEAD, 16);
        /* Without random bytes the priorities are merely known beforehand. */
        if (getrandom(&x->random, sizeof(x->random), GRND_NONBLOCK) != sizeof(x->random))
                x->random = (uintptr_t)x;
        *ret = x;
        return 0;
}

/* SplitMix64. */
static uint32_t draw(struct seq_index *x) {
        uint64_t z = x->random += 0x9e3779b97f4a7c15u;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* --- branches --- */

/* How many leading tokens are equal. */
static uint32_t agree(const int32_t *a, const int32_t *b, uint32_t n) {
        uint32_t i = 0;

        while (i < n && a[i] == b[i])
                i++;
        return i;
}

struct entry *seq_branch_find(struct entry *top, const int32_t *tokens, uint32_t n,
        uint32_t block_tokens, uint32_t *longest) {
        uint32_t best = 0;
        struct entry *it = top;

        while (it) {
                uint32_t k = agree(tokens, it->tokens, n);

                best = MAX(best, k);
                if (k == n)
                        break;
                it = tokens[k] < it->tokens[k] ? it->less : it->more;
        }
        if (longest)
                *longest = best;
        return n == block_tokens ? it : NULL;
}

static bool is_before(const struct entry *a, const struct entry *b, uint32_t block_tokens) {
        uint32_t k = agree(a->tokens, b->tokens, block_tokens);

        return k < block_tokens && a->tokens[k] < b->tokens[k];
}

static struct entry **branch_of(const struct entry *e) {
        return e->parent ? &e->parent->children : &e->scope->root;
}

/* Insert an entry into its parent's branch. No entry there has the same tokens. */
static void branch_link(struct entry *e) {
        uint32_t bt = e->scope->index->block_tokens;
        struct entry **at = branch_of(e), **less = &e->less, **more = &e->more, *it;

        while (*at && (*at)->priority >= e->priority)
                at = is_before(e, *at, bt) ? &(*at)->less : &(*at)->more;
        /* What was here is split into what comes before and after it. */
        for (it = *at; it;) {
                if (is_before(it, e, bt)) {
                        *less = it;
                        less = &it->more;
                        it = it->more;
                } else {
                        *more = it;
                        more = &it->less;
                        it = it->less;
                }
        }
        *less = *more = NULL;
        *at = e;
}

static void branch_unlink(struct entry *e) {
        uint32_t bt = e->scope->index->block_tokens;
        struct entry **at = branch_of(e), *less = e->less, *more = e->more;

        while (*at != e)
                at = is_before(e, *at, bt) ? &(*at)->less : &(*at)->more;
        while (less && more) {
                if (less->priority >= more->priority) {
                        *at = less;
                        at = &less->more;
                        less = less->more;
                } else {
                        *at = more;
                        at = &more->less;
                        more = more->less;
                }
        }
        *at = less ? less : more;
}

/* --- entries and scopes --- */

int seq_scope_get(struct scope **ret, struct seq_index *x, uint64_t id, struct err *e) {
        struct scope *sc = map_get_u64(x->scopes, id);
        int r;

        if (sc) {
                *ret = sc;
                return 0;
        }
        if (ledger_reserve(x->ledger, SCOPE_SIZE))
                return SEQ_FULL;
        sc = calloc(1, sizeof(*sc));
        r = sc ? map_add_u64(x->scopes, id, sc, e) : err_set(e, ERR_NOMEM, "no memory for a scope");
        if (r < 0) {
                free(sc);
                ledger_release(x->ledger, SCOPE_SIZE);
                return r;
        }
        sc->index = x;
        sc->id = id;
        list_init(&sc->entries);
        x->stats.n_scopes++;
        x->stats.size += SCOPE_SIZE;
        *ret = sc;
        return 0;
}

void seq_scope_check(struct scope *sc) {
        struct seq_index *x = sc->index;

        if (!list_empty(&sc->entries))
                return;
        map_remove_u64(x->scopes, sc->id);
        free(sc);
        x->stats.n_scopes--;
        x->stats.size -= SCOPE_SIZE;
        ledger_release(x->ledger, SCOPE_SIZE);
}

static struct place *places(const struct entry *e) {
        return (struct place *)((char *)(uintptr_t)e + e->scope->index->places_offset);
}

static bool is_bare(const struct entry *e) {
        for (size_t i = 0; i < e->scope->index->n_places; i++)
                if (places(e)[i].block)
                        return false;
        return true;
}

int seq_entry_new(struct entry **ret, struct scope *sc, struct entry *parent, const int32_t *tokens,
        struct err *err) {
        struct seq_index *x = sc->index;
        struct entry *e;

        if (ledger_reserve(x->ledger, x->entry_size))
                return SEQ_FULL;
        e = calloc(1, x->places_offset + x->n_places * sizeof(struct place));
        if (!e) {
                ledger_release(x->ledger, x->entry_size);
                return err_set(err, ERR_NOMEM, "no memory for an entry of the prefix index");
        }
        e->scope = sc;
        e->parent = parent;
        e->depth = parent ? parent->depth + 1 : 0;
        e->priority = draw(x);
        memcpy(e->tokens, tokens, x->block_tokens * sizeof(e->tokens[0]));
        for (size_t i = 0; i < x->n_places; i++)
                places(e)[i].entry = e;
        list_append(&sc->entries, &e->of_scope);
        branch_link(e);
        x->stats.n_entries++;
        x->stats.n_bare++;
        x->stats.n_entered++;
        x->stats.size += x->entry_size;
        *ret = e;
        return 0;
}

void seq_place_set(struct place *place, struct seq_block *b) {
        struct seq_index *x = place->entry->scope->index;

        x->stats.n_bare -= is_bare(place->entry);
        place->block = b;
        list_append(&b->entries, &place->of_block);
}

static void place_clear(struct place *place) {
        place->block = NULL;
        list_unlink(&place->of_block);
        place->entry->scope->index->stats.n_bare += is_bare(place->entry);
}

/* The entry is in no branch, or its whole scope goes. */
void seq_entry_free(struct entry *e) {
        struct seq_index *x = e->scope->index;

        for (size_t i = 0; i < x->n_places; i++)
                if (places(e)[i].block)
                        place_clear(&places(e)[i]);
        list_unlink(&e->of_scope);
        free(e);
        x->stats.n_entries--;
        x->stats.n_bare--;
        x->stats.size -= x->entry_size;
        ledger_release(x->ledger, x->entry_size);
}

/* Remove the entry if nothing needs it, and then those before it of which the same is true. */
void seq_entry_prune(struct entry *e) {
        struct scope *sc = e->scope;

        while (e && !e->children && is_bare(e)) {
                struct entry *parent = e->parent;

                branch_unlink(e);
                seq_entry_free(e);
                e = parent;
        }
        seq_scope_check(sc);
}

struct entry *seq_entry_of(const struct seq_block *b, const struct scope *sc) {
        struct list *it;

        list_for_each (it, &b->entries) {
                struct entry *e = list_entry(it, struct place, of_block)->entry;

                if (e->scope == sc)
                        return e;
        }
        return NULL;
}

void seq_index_drop_block(struct seq_block *b) {
        while (!list_empty(&b->entries)) {
                struct place *place = list_entry(b->entries.next, struct place, of_block);

                place_clear(place);
                seq_entry_prune(place->entry);
        }
}
