/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sequence memory: what the model remembers of token prefixes, in blocks of a budgeted pool.
 *
 * A block holds the memory of block_tokens consecutive tokens (all layers of the class); only the
 * model knows its content. A sequence is a table of references to blocks.
 *
 * 1. A full block is immutable. A block with more than one reference is immutable.
 * 2. Only the last block of a sequence may be partial. If it is shared, it is copied before the
 *    first write (copy on write).
 * 3. A fork copies no block: it takes references.
 * 4. seq_reserve() is all or nothing and may return SEQ_FULL. After it has succeeded, writing the
 *    reserved positions and seq_commit() cannot fail.
 * 5. Every block's bytes are reserved in the ledger before they are taken from the system, and the
 *    ledger never exceeds its budget (I3). A block that loses its last reference is returned at
 *    once, or, within the limit of seq_pool_set_spare(), kept as a spare for the next block and
 *    charged like a block.
 * 6. A hole (a block that is not in RAM) is a NULL in the table; seq_n_resident() counts the other
 *    blocks. The model may read a sequence, and seq_reserve() extend it, only if it has no holes.
 * 7. A reserved position that was never written holds zeros, or what the same sequence or the one
 *    it was forked from had there: no byte comes from a freed block.
 *
 * All calls on one pool and its sequences come from one thread (the engine's). Exception: another
 * thread may read a block's data while the caller holds a reference and no one writes the block.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct ledger;
struct seq_pool;
struct seq_block;
struct seq;

enum { SEQ_FULL = 1 };

/* @block_size bytes per block (multiple of 64), @block_tokens per block. The ledger outlives the
 * pool. */
int seq_pool_new(struct seq_pool **ret, struct ledger *ledger, size_t block_size,
        uint32_t block_tokens, struct err *e);
/* All sequences and block references must be gone. */
struct seq_pool *seq_pool_free(struct seq_pool *p);
DEFINE_CLEANUP(struct seq_pool *, seq_pool_free);
/* What one block costs in the ledger: block_size rounded up to whole pages. */
size_t seq_pool_slot_size(const struct seq_pool *p);
uint32_t seq_pool_block_tokens(const struct seq_pool *p);
struct seq_pool_stats {
        size_t n_blocks;        /* live */
        size_t n_free_slots;    /* mapped, not live, returned to the system and to the ledger */
        size_t charged_size;    /* bytes in the ledger: live blocks, spares, and free slots whose
                                 * pages the system did not take back */
        size_t spare_size;      /* the part of charged_size kept for the next blocks */
        size_t unreturned_size; /* the part of charged_size that the system did not take back */
        size_t mapped_size;     /* bytes of address space; bytes not charged hold no page */
        uint64_t n_allocated, n_copied_on_write, n_forks; /* since start */
};
void seq_pool_stats(const struct seq_pool *p, struct seq_pool_stats *ret);
/* Keep up to @max_size bytes of freed blocks in memory, charged, as spares for the next blocks
 * taken. The limit starts at 0. Spares beyond the new limit are given back at once. */
void seq_pool_set_spare(struct seq_pool *p, size_t max_size);
/* Give back all spares but @max_size bytes; the limit stays. */
void seq_pool_trim(struct seq_pool *p, size_t max_size);

/* --- blocks (for the engine: spilling and restoring) --- */

/* Make a block with one reference. It may contain another user's data: overwrite the whole block
 * before anyone reads it or it is put into a sequence. 0, SEQ_FULL, or -ERR_NOMEM. */
int seq_block_new(struct seq_block **ret, struct seq_pool *p, struct err *e);
/* Whether a block just made by seq_block_new() has no pages yet: the system provides them when they
 * are first written. */
bool seq_block_is_fresh(const struct seq_block *b);
struct seq_block *seq_block_ref(struct seq_block *b);
/* Returns NULL. NULL is fine. */
struct seq_block *seq_block_unref(struct seq_block *b);
void *seq_block_data(struct seq_block *b); /* 64-byte aligned, block_size bytes */
uint32_t seq_block_n_refs(const struct seq_block *b);
/* One word for the owner of the pool (the engine keeps the spill record there); 0 in fresh and
 * copied-on-write blocks, and reset to 0 when the content changes. */
uint64_t seq_block_tag(const struct seq_block *b);
void seq_block_set_tag(struct seq_block *b, uint64_t tag);

/* --- sequences --- */

int seq_new(struct seq **ret, struct seq_pool *p, struct err *e);
struct seq *seq_free(struct seq *s);
DEFINE_CLEANUP(struct seq *, seq_free);
/* Make a sequence of the first @pos tokens of @src (pos <= its length), sharing every block. Holes
 * stay holes. 0, -ERR_NOMEM, -ERR_INVALID (pos), or -ERR_STATE if the last block would be one that
 * @src has reserved for writing (commit or unreserve first). */
int seq_fork(struct seq **ret, const struct seq *src, uint32_t pos, struct err *e);
uint32_t seq_n_tokens(const struct seq *s);   /* committed tokens */
uint32_t seq_n_reserved(const struct seq *s); /* reserved positions after these */
size_t seq_n_blocks(const struct seq *s);     /* blocks of committed tokens, holes included */
size_t seq_n_resident(const struct seq *s);   /* those of seq_n_blocks() in RAM */
/* The i-th block (i < seq_n_blocks), borrowed, or NULL for a hole. Do not take a reference to the
 * tail while a reservation is open: the tail is going to be written. */
struct seq_block *seq_block_at(const struct seq *s, size_t i);
/* Make room for @n tokens after the end (copying a shared tail). 0, SEQ_FULL (nothing changed),
 * -ERR_STATE with holes, -ERR_NOMEM, -ERR_INVALID (more than 2^32 - 1 tokens in all). A second
 * reserve before commit extends or keeps the first. */
int seq_reserve(struct seq *s, uint32_t n, struct err *e);
/* Blocks that seq_reserve(s, n) would have to allocate now. */
size_t seq_reserve_cost(const struct seq *s, uint32_t n);
/* Commit: the reserved positions [n_tokens, n_tokens + n) have been written. n <= reserved. Resets
 * the tag of a tail that was written to. */
void seq_commit(struct seq *s, uint32_t n);
/* Give back positions that are reserved but not committed. */
void seq_unreserve(struct seq *s);
/* Forget everything from @pos on; returns the position kept (<= pos; == pos for full layers). Drops
 * a reservation. The kept partial tail counts as changed only when it is written to. */
uint32_t seq_cut(struct seq *s, uint32_t pos);
/* Data pointers per block for the model, [blocks covering committed + reserved], valid until the
 * next reserve, cut, drop, attach, adopt or seq_index_enter() on this sequence. No holes allowed.
 */
void *const *seq_table(const struct seq *s);
/* Turn the i-th block into a hole (drops its reference, and any reservation). */
void seq_drop(struct seq *s, size_t i);
/* Fill the hole @i with @b, a block of the same pool (takes a new reference). */
void seq_attach(struct seq *s, size_t i, struct seq_block *b);
/* Turn an empty sequence into one of @n_tokens tokens, all holes: a spilled conversation before its
 * restore. */
int seq_set_holes(struct seq *s, uint32_t n_tokens, struct err *e);
/* Append @n full blocks of the same pool (new references) to a sequence that ends at a block
 * boundary: n_tokens grows by n * block_tokens. Holes stay holes. 0, -ERR_STATE (a partial tail
 * or an open reservation), -ERR_INVALID (more than 2^32 - 1 tokens), or -ERR_NOMEM. */
int seq_adopt(struct seq *s, struct seq_block *const *blocks, size_t n, struct err *e);

/* --- the prefix index: which live block is the memory of which token prefix (index.c) --- */

/*
 * An entry states that in @scope this block holds, in RAM, the memory of its tokens after the
 * tokens of its parent entry. A chain of entries from the root of a scope is found by comparing
 * tokens, block by block; there are no hashes whose collisions could matter (I6).
 *
 * 1. Entries are weak: they hold no reference. The block's last unref removes them, and so does
 *    seq_reserve() for a tail that is about to be written to (a cut made the full block partial).
 * 2. A match is exact: the block returned for a prefix was entered under exactly these tokens. It
 *    is full and immutable as long as the caller keeps it (takes a reference before doing anything
 *    else with the pool).
 * 3. An entry whose parent is gone cannot be found. It stays with its block, stays charged, and is
 *    linked again when its sequence is entered again from the hole on.
 * 4. Scopes are separate (I6): a chain never crosses from one into another. A block may have one
 *    entry in each of several scopes.
 * 5. Every byte is charged to the index's ledger before it is allocated (I3): at most
 *    seq_index_entry_size() for each block and scope. If admission counts in blocks, give the index
 *    a ledger of its own, cut from the budget. Without room an entry is not made; nothing else
 *    breaks.
 *
 * Token arrays begin at position 0. Same thread as the pool. The pool may be freed before the index
 * (all blocks, and with them all entries, are gone then).
 */
struct seq_index;

#define SEQ_SCOPE_PUBLIC UINT64_MAX

int seq_index_new(struct seq_index **ret, struct seq_pool *p, struct ledger *ledger, struct err *e);
struct seq_index *seq_index_free(struct seq_index *x);
DEFINE_CLEANUP(struct seq_index *, seq_index_free);
/* What one entry costs in the ledger. A scope's first entry costs a little more. */
size_t seq_index_entry_size(const struct seq_index *x);
struct seq_index_stats {
        size_t n_entries, n_scopes;
        size_t n_orphans;   /* entries that cannot be found now (invariant 3) */
        size_t size;        /* bytes in the ledger */
        uint64_t n_entered; /* since start: entries made */
        uint64_t n_matched; /* blocks that seq_index_match() has returned */
        uint64_t n_merged;  /* blocks replaced by an equal one that was entered before */
        uint64_t n_refused; /* entries not made, because memory or room was lacking */
};
void seq_index_stats(const struct seq_index *x, struct seq_index_stats *ret);
/* The longest run of live blocks from position 0 whose tokens are tokens[0 .. n * block_tokens) in
 * @scope, n <= @n_blocks: returns n, out[0..n) borrowed (@out may be NULL). O(n) searches, each
 * among the ordered continuations of a prefix. */
size_t seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens, size_t n_blocks,
        struct seq_block **out);
/* How many of tokens[0..n_tokens), from position 0, agree with the entries of @scope: the matched
 * blocks, plus the part of the next block that agrees with the longest-agreeing continuation. */
uint32_t seq_index_common(
        struct seq_index *x, uint64_t scope, const int32_t *tokens, uint32_t n_tokens);
/*
 * Enter the full resident blocks of @s from @from up to its first hole, under their @tokens
 * [seq_n_tokens(s) / block_tokens * block_tokens]. Blocks below @from should have been entered
 * since they became resident; those without any entry are entered too. O(blocks visited); blocks
 * that are entered already need no work.
 *
 * If another block is entered for the same prefix, @s takes that block and drops its own: same
 * tokens, same bits, computed twice and from now on stored once. The entered block keeps its tag
 * unless it is 0, in which case it takes the dropped block's tag. If @s held the last reference to
 * the dropped block, that block's entries in other scopes move over too.
 *
 * 0, SEQ_FULL (no room in the ledger) or -ERR_NOMEM; then the remaining blocks are not entered,
 * which is harmless. -ERR_STATE if the first block to enter is behind a hole; -ERR_INVALID if a
 * block is entered in @scope with other tokens, which never happens to a correct caller.
 */
int seq_index_enter(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, struct err *e);
/* The same for blocks [from, to), to publish a prefix of the sequence. @to beyond the end means the
 * end. */
int seq_index_enter_range(struct seq_index *x, uint64_t scope, struct seq *s, const int32_t *tokens,
        size_t from, size_t to, struct err *e);
/* Drop every entry of @scope. To withdraw one of several published prefixes, forget the scope and
 * enter the others again, since a prefix's entries cannot be told apart from those of another
 * prefix that shares or continues it. Blocks and sequences are untouched. */
void seq_index_forget(struct seq_index *x, uint64_t scope);
