/* SPDX-License-Identifier: MIT */
/*
 * The prefix index: a tree of token blocks for each scope.
 *
 * An entry is a node of its scope's tree: the tokens of one block, and the block that holds their
 * memory. The entries of the blocks that followed it form its branch, below it; the scope itself
 * has the branch of first blocks. A look-up walks down from the scope, one branch per block. The
 * entries of a branch form a search tree ordered by their tokens (a treap: a binary tree by tokens
 * that is a heap by random priorities, hence about 2 log2(n) deep whatever is entered in whatever
 * order). So a branch costs only two pointers in each entry, and no table has to grow. If the
 * wanted tokens are not in the branch, the entries that agree with them longest are on the path
 * to the place where they would be.
 *
 * 1. An entry is in its block's list and in its scope's list as long as it lives. It is removed
 *    when its block loses its last reference or is about to be written, or when its scope is
 *    forgotten.
 * 2. A linked entry is in a branch: entry.branch points to that branch's top. The entries of a
 *    branch all have different tokens. A block has at most one entry in a scope, at one depth.
 * 3. When an entry is removed, its children become orphans: branch == NULL. An orphan keeps its own
 *    branch, which still correctly describes what follows the orphan's tokens; all of it can be
 *    found again once the orphan is linked again.
 * 4. A scope lives as long as it has entries.
 * 5. Memory is charged before it is allocated: size == n_entries * entry_size + n_scopes *
 *    SCOPE_SIZE.
 *
 * Why an orphan may be linked again, with everything below it: a block's bytes are the memory of
 * its tokens and of all tokens before it, so the same block always follows the same prefix. (It is
 * also always at the same depth, so no entry can end up below itself.)
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/map.h"
#include "base/util.h"
#include "seq/seq-pool.h"

struct entry {
        struct list of_block; /* in block->entries */
        struct list of_scope; /* in scope->entries */
        struct entry *less, *more;
        uint64_t priority;
        struct entry **branch; /* where it hangs; NULL: an orphan */
        struct entry *children;
        struct scope *scope;
        struct seq_block *block; /* weak */
        size_t depth;            /* the block's index in its sequences */
        int32_t tokens[];        /* [block_tokens] */
};

struct scope {
        struct seq_index *index;
        uint64_t id;
        struct entry *root; /* the branch of first blocks */
        struct list entries;
};

struct seq_index {
        struct ledger *ledger;
        struct map *scopes; /* id → struct scope */
        size_t entry_size;
        uint32_t block_tokens;
        uint64_t random;
        struct seq_index_stats stats;
};

enum {
        MALLOC_OVERHEAD = 16, /* about what the allocator adds to each piece */
        SCOPE_SIZE =
                sizeof(struct scope) + 64 + 2 * MALLOC_OVERHEAD, /* with its place in the map */
};

int seq_index_new(
        struct seq_index **ret, struct seq_pool *p, struct ledger *ledger, struct err *e) {
        uint32_t block_tokens = seq_pool_block_tokens(p);
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
        x->block_tokens = block_tokens;
        x->entry_size = align_up(
                sizeof(struct entry) + block_tokens * sizeof(int32_t) + MALLOC_OVERHEAD, 16);
        /* Without random bytes the priorities are merely known beforehand. */
        if (getrandom(&x->random, sizeof(x->random), GRND_NONBLOCK) != sizeof(x->random))
                x->random = (uintptr_t)x;
        *ret = x;
        return 0;
}

size_t seq_index_entry_size(const struct seq_index *x) {
        return x->entry_size;
}

void seq_index_stats(const struct seq_index *x, struct seq_index_stats *ret) {
        *ret = x->stats;
}

/* SplitMix64. */
static uint64_t draw(struct seq_index *x) {
        uint64_t z = x->random += 0x9e3779b97f4a7c15u;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
}

/* --- branches --- */

/* How many leading tokens are equal. */
static uint32_t agree(const int32_t *a, const int32_t *b, uint32_t n) {
        uint32_t i = 0;

        while (i < n && a[i] == b[i])
                i++;
        return i;
}

/* The entry of @top with exactly @tokens, or NULL. *@longest becomes the greatest number of leading
 * tokens, at most @n <= block_tokens, that any entry shares with @tokens. With n < block_tokens
 * only *@longest is meaningful. */
static struct entry *branch_find(struct entry *top, const int32_t *tokens, uint32_t n,
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

/* Insert an entry. No entry of the branch has the same tokens. */
static void branch_link(struct entry **branch, struct entry *e) {
        uint32_t bt = e->scope->index->block_tokens;
        struct entry **at = branch, **less = &e->less, **more = &e->more, *it;

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
        e->branch = branch;
}

static void branch_unlink(struct entry *e) {
        uint32_t bt = e->scope->index->block_tokens;
        struct entry **at = e->branch, *less = e->less, *more = e->more;

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
        e->less = e->more = NULL;
        e->branch = NULL;
}

/* Make every entry of the branch an orphan. Linear and without a stack: rotate right until the top
 * has no left child, then take the top off. */
static void branch_scatter(struct entry *top) {
        while (top) {
                struct entry *less = top->less;

                if (less) {
                        top->less = less->more;
                        less->more = top;
                        top = less;
                        continue;
                }
                less = top->more;
                top->more = NULL;
                top->branch = NULL;
                top->scope->index->stats.n_orphans++;
                top = less;
        }
}

/* --- entries and scopes --- */

static int scope_get(struct scope **ret, struct seq_index *x, uint64_t id, struct err *e) {
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

static void scope_drop_if_empty(struct scope *sc) {
        struct seq_index *x = sc->index;

        if (!list_empty(&sc->entries))
                return;
        map_remove_u64(x->scopes, sc->id);
        free(sc);
        x->stats.n_scopes--;
        x->stats.size -= SCOPE_SIZE;
        ledger_release(x->ledger, SCOPE_SIZE);
}

static int entry_new(struct entry **ret, struct scope *sc, struct entry **branch,
        struct seq_block *b, size_t depth, const int32_t *tokens, struct err *err) {
        struct seq_index *x = sc->index;
        struct entry *e;

        if (ledger_reserve(x->ledger, x->entry_size))
                return SEQ_FULL;
        e = calloc(1, sizeof(*e) + x->block_tokens * sizeof(e->tokens[0]));
        if (!e) {
                ledger_release(x->ledger, x->entry_size);
                return err_set(err, ERR_NOMEM, "no memory for an entry of the prefix index");
        }
        e->scope = sc;
        e->block = b;
        e->depth = depth;
        e->priority = draw(x);
        memcpy(e->tokens, tokens, x->block_tokens * sizeof(e->tokens[0]));
        list_append(&sc->entries, &e->of_scope);
        list_append(&b->entries, &e->of_block);
        branch_link(branch, e);
        x->stats.n_entries++;
        x->stats.n_entered++;
        x->stats.size += x->entry_size;
        *ret = e;
        return 0;
}

static void entry_free(struct entry *e) {
        struct scope *sc = e->scope;
        struct seq_index *x = sc->index;

        if (e->branch)
                branch_unlink(e);
        else
                x->stats.n_orphans--;
        branch_scatter(e->children);
        list_unlink(&e->of_block);
        list_unlink(&e->of_scope);
        free(e);
        x->stats.n_entries--;
        x->stats.size -= x->entry_size;
        ledger_release(x->ledger, x->entry_size);
        scope_drop_if_empty(sc);
}

static struct entry *entry_of(const struct seq_block *b, const struct scope *sc) {
        struct list *it;

        list_for_each (it, &b->entries) {
                struct entry *e = list_entry(it, struct entry, of_block);

                if (e->scope == sc)
                        return e;
        }
        return NULL;
}

void seq_index_drop_block(struct seq_block *b) {
        while (!list_empty(&b->entries))
                entry_free(list_entry(b->entries.next, struct entry, of_block));
}

/* --- the index --- */

size_t seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens, size_t n_blocks,
        struct seq_block **out) {
        struct scope *sc = map_get_u64(x->scopes, scope);
        uint32_t bt = x->block_tokens;
        struct entry *e = sc ? sc->root : NULL;
        size_t n = 0;

        for (; n < n_blocks; n++) {
                e = branch_find(e, tokens + n * bt, bt, bt, NULL);
                if (!e)
                        break;
                if (out)
                        out[n] = e->block;
                e = e->children;
        }
        x->stats.n_matched += n;
        return n;
}

uint32_t seq_index_common(
        struct seq_index *x, uint64_t scope, const int32_t *tokens, uint32_t n_tokens) {
        struct scope *sc = map_get_u64(x->scopes, scope);
        uint32_t bt = x->block_tokens, n = 0, longest;
        struct entry *e = sc ? sc->root : NULL;

        while (e && n < n_tokens) {
                e = branch_find(e, tokens + n, MIN(bt, n_tokens - n), bt, &longest);
                n += longest;
                e = e ? e->children : NULL;
        }
        return n;
}

/* Move the entries of a block that is about to go to its equal, unless that has an entry in the
 * scope already; an orphan gives way. */
static void entries_move(struct seq_block *from, struct seq_block *to) {
        while (!list_empty(&from->entries)) {
                struct entry *e = list_entry(from->entries.next, struct entry, of_block);
                struct entry *other = entry_of(to, e->scope);

                if (other && (other->branch || !e->branch)) {
                        entry_free(e);
                        continue;
                }
                e->block = to;
                list_unlink(&e->of_block);
                list_append(&to->entries, &e->of_block);
                if (other)
                        entry_free(other);
        }
}

/* @s takes the block of @e for its own block @i. */
static void merge(struct seq *s, size_t i, struct entry *e) {
        struct seq_block *ours = seq_slot(s, i), *theirs = e->block;

        if (theirs->tag == 0)
                theirs->tag = ours->tag;
        if (ours->n_refs == 1)
                entries_move(ours, theirs);
        seq_replace(s, i, theirs);
        e->scope->index->stats.n_merged++;
}

/* Find or make the entry of block @i of @s in @branch. */
static int enter_block(struct entry **ret, struct scope *sc, struct entry **branch, struct seq *s,
        size_t i, const int32_t *tokens, struct err *err) {
        struct seq_block *b = seq_slot(s, i);
        uint32_t bt = sc->index->block_tokens;
        struct entry *e;

        e = branch_find(*branch, tokens, bt, bt, NULL);
        if (e) {
                if (e->block != b)
                        merge(s, i, e);
                *ret = e;
                return 0;
        }
        e = entry_of(b, sc);
        if (!e)
                return entry_new(ret, sc, branch, b, i, tokens, err);
        if (e->depth != i || agree(e->tokens, tokens, bt) != bt)
                return err_set(err, ERR_INVALID, "block %zu is entered with other tokens", i);
        /* An orphan, or one that hangs below an orphan. */
        if (e->branch)
                branch_unlink(e);
        else
                sc->index->stats.n_orphans--;
        branch_link(branch, e);
        *ret = e;
        return 0;
}

int seq_index_enter_range(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, size_t to, struct err *e) {
        size_t end = MIN(to, (size_t)(seq_n_tokens(s) / x->block_tokens)), i = MIN(from, end);
        struct entry *parent = NULL, **branch;
        struct scope *sc;
        int r;

        if (i == end)
                return 0;
        r = scope_get(&sc, x, scope, e);
        if (r) {
                x->stats.n_refused += end - i;
                return r;
        }
        for (; i > 0; i--) {
                struct seq_block *b = seq_slot(s, i - 1);

                if (!b) {
                        r = err_set(e, ERR_STATE, "block %zu is not in memory", i - 1);
                        goto out;
                }
                parent = entry_of(b, sc);
                if (parent && parent->branch && parent->depth == i - 1)
                        break;
        }
        branch = i > 0 ? &parent->children : &sc->root;
        for (; i < end && seq_slot(s, i); i++) {
                r = enter_block(&parent, sc, branch, s, i, tokens + i * x->block_tokens, e);
                if (r) {
                        x->stats.n_refused += end - i;
                        break;
                }
                branch = &parent->children;
        }
out:
        scope_drop_if_empty(sc);
        return r;
}

int seq_index_enter(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, struct err *e) {
        return seq_index_enter_range(x, scope, s, tokens, from, SIZE_MAX, e);
}

void seq_index_forget(struct seq_index *x, uint64_t scope) {
        struct scope *sc = map_get_u64(x->scopes, scope);

        if (!sc)
                return;
        /* With the last entry the scope goes, too. */
        for (size_t n = x->stats.n_scopes; x->stats.n_scopes == n;)
                entry_free(list_entry(sc->entries.next, struct entry, of_scope));
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
