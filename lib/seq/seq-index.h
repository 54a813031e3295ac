/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the prefix index: index-tree.c has the tree, index.c what is done with it. */
#include "seq/seq-pool.h"

struct entry;
struct scope;

/* Where an entry has the block of one class. */
struct place {
        struct list of_block; /* in block->entries, if there is a block */
        struct entry *entry;
        struct seq_block *block; /* weak; NULL: none */
};

/* In memory its places follow, one for each class of the pool: place_of(). */
struct entry {
        struct list of_scope; /* in scope->entries */
        struct entry *less, *more;
        struct entry *parent; /* NULL: it is in the scope's branch */
        struct entry *children;
        struct scope *scope;
        uint32_t priority;
        uint32_t depth;   /* the index of the cell */
        int32_t tokens[]; /* [block_tokens] */
};

struct scope {
        struct seq_index *index;
        uint64_t id;
        struct entry *root; /* the branch of first cells */
        struct list entries;
};

struct seq_index {
        struct ledger *ledger;
        struct map *scopes; /* id → struct scope */
        size_t places_offset, entry_size, n_places;
        size_t place[SEQ_N_CLASSES]; /* number of the class's place; n_places: no such class */
        uint32_t block_tokens;
        uint64_t random;
        struct seq_index_stats stats;
};

/* Find or make a scope. 0, SEQ_FULL, -ERR_NOMEM. A scope without entries: seq_scope_check(). */
int seq_scope_get(struct scope **ret, struct seq_index *x, uint64_t id, struct err *e);
/* Drop the scope if it has no entries. */
void seq_scope_check(struct scope *sc);

/* The entry of a branch with exactly @tokens, or NULL. *@longest becomes the greatest number of leading
 * tokens, at most @n <= block_tokens, that any entry shares with @tokens. With n < block_tokens only
 * *@longest is meaningful. */
struct entry *seq_branch_find(struct entry *top, const int32_t *tokens, uint32_t n,
        uint32_t block_tokens, uint32_t *longest);
/* Make a bare entry behind @parent (NULL: the first). No entry there has the same tokens. 0, SEQ_FULL,
 * -ERR_NOMEM. */
int seq_entry_new(struct entry **ret, struct scope *sc, struct entry *parent, const int32_t *tokens,
        struct err *e);
/* Free the entry, which is in no branch or whose whole scope goes. */
void seq_entry_free(struct entry *e);
/* Remove the entry if nothing needs it, then those before it of which the same is true, then the scope.
 */
void seq_entry_prune(struct entry *e);
/* The entry of @b in the scope, or NULL. */
struct entry *seq_entry_of(const struct seq_block *b, const struct scope *sc);
/* The place of class @c, which the pool has. */
static inline struct place *seq_place_of(const struct entry *e, enum seq_class c) {
        const struct seq_index *x = e->scope->index;

        return (struct place *)((char *)(uintptr_t)e + x->places_offset) + x->place[c];
}
static inline bool seq_index_has_class(const struct seq_index *x, enum seq_class c) {
        return x->place[c] < x->n_places;
}
/* Put a block into a place that has none. */
void seq_place_set(struct place *place, struct seq_block *b);
