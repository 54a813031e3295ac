/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sequence memory: what the model remembers of token prefixes, in blocks of a budgeted pool.
 *
 * Layers remember in three ways, the classes of memory. A model has any mixture of them:
 *
 *   SEQ_ALL     attention over everything before: a block for each block_tokens tokens
 *   SEQ_WINDOW  attention over a window or a chunk: blocks of the same tokens, of which a position
 *               needs only the latest ones
 *   SEQ_STATE   recurrence and short convolutions: a block is the state after one token, of all such
 *               layers; a position needs the one state before it
 *
 * Only the model knows the content of blocks. A sequence is a table of cells for each class. Cell i
 * covers tokens [i * cell_tokens, (i+1) * cell_tokens): block_tokens of them in the classes of
 * attention, one in SEQ_STATE, where cell i is the state after token i. A cell has a block in RAM, or
 * is a hole (its block is elsewhere, on disk), or is absent (nobody keeps it).
 *
 * A position p is *whole* if no cell is absent that computing token p needs: every cell of SEQ_ALL
 * before p, the cells of SEQ_WINDOW that token p sees, cell p-1 of SEQ_STATE. Position 0 is always
 * whole: a sequence begins with no keys and with zero states. A sequence always ends at a whole
 * position.
 *
 * A *mark* is a whole position of the sequence to which it may come back (a checkpoint): its cells
 * are kept. Cells of SEQ_WINDOW and SEQ_STATE that neither the end nor a mark needs become absent
 * with the next call that moves the end (commit, cut, adopt), and are not passed on to forks.
 *
 * 1. A full block is immutable. So is every committed state, and every block with more than one
 *    reference: computing reads the state before its first token, and writes the state after the last
 *    one into another block.
 * 2. Only the last block of attention may be partial. If it is shared, it is copied before the first
 *    write (copy on write).
 * 3. A fork copies no block: it takes references, and has the marks up to its end.
 * 4. seq_reserve() is all or nothing and may return SEQ_FULL. After it has succeeded, writing the
 *    reserved positions and seq_commit() cannot fail.
 * 5. Every block's bytes are reserved in the ledger before they are taken from the system, and the
 *    ledger never exceeds its budget (I3). A block that loses its last reference is returned at
 *    once, or, within the limit of seq_pool_set_spare(), kept as a spare for the next block of its
 *    class and charged like a block. Spares of other classes go before a block is refused.
 * 6. The model may read a sequence, and seq_reserve() extend it, only if no cell that the end needs
 *    is a hole (seq_n_missing() is 0). Holes that only marks need do no harm.
 * 7. A reserved position of attention that was never written holds zeros, or what the same sequence
 *    or the one it was forked from had there: no byte comes from a freed block. The block for the
 *    next state may hold an earlier state: the model writes all arrays of it and never their padding.
 * 8. A model with SEQ_ALL alone has no marks: every position is whole.
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

/* Also the class of spill records and links: the numbers stay. */
enum seq_class { SEQ_ALL, SEQ_WINDOW, SEQ_STATE, SEQ_N_CLASSES };

/* What the sequences of a model are made of. */
struct seq_shape {
        size_t size[SEQ_N_CLASSES]; /* bytes per block, multiples of 64; 0: no such class */
        uint32_t block_tokens;      /* per block of attention */
        /* Of SEQ_WINDOW, one of them is 0. Token p sees token j if p - j < window, or if
         * j >= p - p % chunk (and j <= p). */
        uint32_t window, chunk;
};
/* Tokens that a cell of the class covers: block_tokens, or 1 for states. */
static inline uint32_t seq_cell_tokens(const struct seq_shape *shape, enum seq_class c) {
        return c == SEQ_STATE ? 1 : shape->block_tokens;
}
/* The first token that token @p sees in SEQ_WINDOW. */
static inline uint32_t seq_window_start(const struct seq_shape *shape, uint32_t p) {
        if (shape->chunk)
                return p - p % shape->chunk;
        return p < shape->window ? 0 : p - shape->window + 1;
}

/* At least one size is not 0. The ledger outlives the pool. */
int seq_pool_new(
        struct seq_pool **ret, struct ledger *ledger, const struct seq_shape *shape, struct err *e);
/* All sequences and block references must be gone. */
struct seq_pool *seq_pool_free(struct seq_pool *p);
DEFINE_CLEANUP(struct seq_pool *, seq_pool_free);
const struct seq_shape *seq_pool_shape(const struct seq_pool *p);
/* What one block costs in the ledger: its size rounded up to whole pages; 0: no such class. */
size_t seq_pool_slot_size(const struct seq_pool *p, enum seq_class c);
struct seq_pool_stats {
        size_t n_blocks[SEQ_N_CLASSES]; /* live */
        size_t live_size;               /* bytes in the ledger of live blocks */
        size_t n_free_slots;    /* mapped, not live, returned to the system and to the ledger */
        size_t charged_size;    /* bytes in the ledger: live blocks, spares, and free slots whose
                                 * pages the system did not take back */
        size_t spare_size;      /* the part of charged_size kept for the next blocks */
        size_t unreturned_size; /* the part of charged_size that the system did not take back */
        size_t mapped_size;     /* bytes of address space; bytes not charged hold no page */
        uint64_t n_allocated, n_copied_on_write, n_forks; /* since start */
        uint64_t n_freed;                                 /* since start: blocks */
};
void seq_pool_stats(const struct seq_pool *p, struct seq_pool_stats *ret);
/* Keep up to @max_size bytes of freed blocks, of all classes together, in memory, charged, as spares
 * for the next blocks taken. The limit starts at 0. Spares beyond the new limit are given back at
 * once, those freed first before others. */
void seq_pool_set_spare(struct seq_pool *p, size_t max_size);
/* Give back all spares but @max_size bytes; the limit stays. */
void seq_pool_trim(struct seq_pool *p, size_t max_size);

/* --- blocks (for the engine: spilling and restoring) --- */

/* Make a block with one reference. It may contain another user's data: overwrite the whole block
 * before anyone reads it or it is put into a sequence. 0, SEQ_FULL, or -ERR_NOMEM. */
int seq_block_new(struct seq_block **ret, struct seq_pool *p, enum seq_class c, struct err *e);
/* Whether a block just made by seq_block_new() has no pages yet: the system provides them when they
 * are first written. */
bool seq_block_is_fresh(const struct seq_block *b);
enum seq_class seq_block_class(const struct seq_block *b);
struct seq_block *seq_block_ref(struct seq_block *b);
/* Returns NULL. NULL is fine. */
struct seq_block *seq_block_unref(struct seq_block *b);
void *seq_block_data(struct seq_block *b); /* 64-byte aligned, the class's size in bytes */
uint32_t seq_block_n_refs(const struct seq_block *b);
/* One word for the owner of the pool (the engine keeps the spill record there); 0 in fresh and
 * copied-on-write blocks, and reset to 0 when the content changes. */
uint64_t seq_block_tag(const struct seq_block *b);
void seq_block_set_tag(struct seq_block *b, uint64_t tag);

/* --- sequences --- */

int seq_new(struct seq **ret, struct seq_pool *p, struct err *e);
struct seq *seq_free(struct seq *s);
DEFINE_CLEANUP(struct seq *, seq_free);
/* Make a sequence of the first tokens of @src, as many as its last whole position up to @pos has
 * (pos <= its length), sharing every block, with the marks up to there. Holes stay holes. 0,
 * -ERR_NOMEM, -ERR_INVALID (pos), or -ERR_STATE if the last block would be one that @src has reserved
 * for writing (commit or unreserve first). */
int seq_fork(struct seq **ret, const struct seq *src, uint32_t pos, struct err *e);
uint32_t seq_n_tokens(const struct seq *s);   /* committed tokens */
uint32_t seq_n_reserved(const struct seq *s); /* reserved positions after these */
/* The last whole position up to @pos, at most the length: what seq_cut() and seq_fork() would keep. */
uint32_t seq_whole(const struct seq *s, uint32_t pos);

/* One cell of a sequence's committed tokens. */
struct seq_cell {
        uint32_t index;
        uint32_t n_tokens;       /* committed ones in the cell, at least 1 */
        uint32_t end;            /* the position behind them */
        bool needed;             /* by the end */
        struct seq_block *block; /* borrowed; NULL: a hole */
};
/* Iterate over the cells of a class that are not absent, by rising index; begin with *it = 0. False
 * at the end. Do not take a reference to the partial tail while a reservation is open: it is going to
 * be written. The present cell may be dropped, attached or forgotten meanwhile (a forgotten cell may
 * shorten the sequence, and so end the loop). */
bool seq_next_cell(const struct seq *s, enum seq_class c, size_t *it, struct seq_cell *ret);
/* One cell. False if it is absent, or not of committed tokens. */
bool seq_cell_at(const struct seq *s, enum seq_class c, uint32_t index, struct seq_cell *ret);
size_t seq_n_cells(const struct seq *s);    /* of all classes, absent ones not counted */
size_t seq_n_missing(const struct seq *s);  /* holes that the end needs */
size_t seq_n_resident(const struct seq *s); /* cells in RAM, of all classes */
size_t seq_resident_size(
        const struct seq *s); /* what their blocks cost in the ledger, shared or not */

/* The same, but of a block that several sequences or others have only its part for each of them. */
size_t seq_resident_part(const struct seq *s);

/* Make room for @n tokens after the end (copying a shared tail), and for the state after them. 0,
 * SEQ_FULL (nothing changed), -ERR_STATE with missing cells, -ERR_NOMEM, -ERR_INVALID (more than 2^32
 * - 1 tokens in all). A second reserve before commit extends or keeps the first. */
int seq_reserve(struct seq *s, uint32_t n, struct err *e);
/* Bytes in the ledger that seq_reserve(s, n) would have to take now. */
size_t seq_reserve_cost(const struct seq *s, uint32_t n);
/* Bytes in the ledger that a sequence of @n tokens without marks needs, while it computes at most
 * @batch tokens at a time: what admission counts. */
size_t seq_need(const struct seq_pool *p, uint32_t n, uint32_t batch);
/* Commit: the reserved positions [n_tokens, n_tokens + n) have been written, and with states exactly
 * these (their last state is in seq_next_state()). n <= reserved. Resets the tag of a tail that was
 * written to; cells that are no longer needed become absent. With states (and n > 0) it gives back
 * the rest of the reservation, which has no block for another state. */
void seq_commit(struct seq *s, uint32_t n);
/* Give back positions that are reserved but not committed. */
void seq_unreserve(struct seq *s);
/* Forget everything behind the last whole position up to @pos, and what neither that position nor a
 * mark before it needs; returns the position kept. Drops a reservation. (A cut at or behind the end
 * only does that.) The kept partial tail counts as changed only when it is written to. */
uint32_t seq_cut(struct seq *s, uint32_t pos);

/* Keep what position @pos needs until seq_unmark(), or until the sequence is cut before it. 0 (also
 * if it is marked already, or there is no need to); 1: the position is not whole, or behind the end;
 * -ERR_NOMEM. */
int seq_mark(struct seq *s, uint32_t pos, struct err *e);
/* The position needs no cells any more (they go with the next commit, or with seq_release()). */
void seq_unmark(struct seq *s, uint32_t pos);
/* Iterate over the marks by rising position; begin with *it = 0. False at the end. The present mark
 * may be removed meanwhile. */
bool seq_next_mark(const struct seq *s, size_t *it, uint32_t *ret);
/* Bytes in the ledger of the cells in RAM or on disk that the mark alone needs: not the end, and no
 * other mark. */
size_t seq_mark_cost(const struct seq *s, uint32_t pos);
/* Make the cells absent that neither the end nor a mark needs. */
void seq_release(struct seq *s);

/* Data pointers by cell for the model (SEQ_ALL or SEQ_WINDOW), covering committed + reserved, valid
 * until the next call that changes this sequence. Cells that the end does not need may be NULL. No
 * missing cells allowed. NULL without such a class. */
void *const *seq_table(const struct seq *s, enum seq_class c);
/* The state before the next token; NULL: the beginning, all zeros (or no such class). */
const void *seq_state(const struct seq *s);
/* Where the state after the tokens that are computed next is to be written; NULL without a
 * reservation, or without such a class. */
void *seq_next_state(const struct seq *s);

/* Turn the cell, which has a block, into a hole: drops its reference, and if the end needs the cell any
 * reservation. */
void seq_drop(struct seq *s, enum seq_class c, uint32_t index);
/* Fill the hole with @b, a block of the same pool and class (takes a new reference). */
void seq_attach(struct seq *s, enum seq_class c, uint32_t index, struct seq_block *b);
/* The cell is nowhere any more. Cuts the sequence to its last whole position, which it returns; marks
 * that are no longer whole go. Drops a reservation if the end needed the cell. */
uint32_t seq_forget(struct seq *s, enum seq_class c, uint32_t index);
/* Turn an empty sequence into one whose memory is elsewhere. It has holes for all cells of SEQ_ALL
 * before @n_tokens and for these @cells of the other classes (by rising class, then index; only
 * `class` and `index` are read), and ends at its last whole position up to @n_tokens. Mark what is to
 * be kept before the next commit, cut or fork. 0, -ERR_STATE (not empty), -ERR_INVALID (cells out of
 * order, of SEQ_ALL, of a class that the pool lacks, or behind @n_tokens), -ERR_NOMEM. */
struct seq_place {
        enum seq_class class;
        uint32_t index;
};
int seq_set_holes(struct seq *s, uint32_t n_tokens, const struct seq_place *cells, size_t n_cells,
        struct err *e);

/* Blocks of a prefix of full cells, for sequences of the same tokens; NULL where there is none. */
struct seq_step {
        /* Cell i of attention, and the state after the last token of that cell. */
        struct seq_block *block[SEQ_N_CLASSES];
};
/* The greatest n <= @n such that position n * block_tokens is whole with these steps and with the
 * cells (also holes) of @s, if it is not NULL. */
size_t seq_steps_whole(
        const struct seq_pool *p, const struct seq *s, const struct seq_step *steps, size_t n);
/* Make @s, which has the same tokens as far as it goes, a sequence of n * block_tokens tokens. It takes
 * new references to those blocks of steps[0..n) that the new end needs and that it lacks (also where
 * it has holes), and in place of its partial tail. It keeps its marks, but for those in the partial
 * tail if that lies behind the new end's window and the step has no block of SEQ_WINDOW. 0,
 * -ERR_STATE (an open reservation), -ERR_INVALID (not longer than @s, or not whole), or -ERR_NOMEM;
 * @s is untouched then. */
int seq_adopt(struct seq *s, const struct seq_step *steps, size_t n, struct err *e);

/* --- the prefix index: which live block is the memory of which token prefix (index.c) --- */

/*
 * An entry states that in @scope these blocks (of attention, and the state behind them) hold, in RAM,
 * the memory of its block_tokens tokens after the tokens of its parent entry. A chain of entries from
 * the root of a scope is found by comparing tokens, block by block; there are no hashes whose
 * collisions could matter (I6).
 *
 * 1. Entries are weak: they hold no reference. A block's last unref takes it out of its entries, and
 *    so does seq_reserve() for a tail that is about to be written to (a cut made the full block
 *    partial).
 * 2. A match is exact: the blocks returned for a prefix were entered under exactly these tokens. They
 *    are full and immutable as long as the caller keeps them (takes a reference before doing anything
 *    else with the pool).
 * 3. An entry lives while it has a block or a continuation. So what lies behind a block that is gone
 *    is still found, and a state is found behind entries that never had one.
 * 4. Scopes are separate (I6): a chain never crosses from one into another. A block may be in one
 *    entry of each of several scopes.
 * 5. Every byte is charged to the index's ledger before it is allocated (I3): seq_index_entry_size()
 *    for each entry. If admission counts in blocks, give the index a ledger of its own, cut from the
 *    budget. Without room an entry is not made; nothing else breaks.
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
        size_t n_bare;      /* entries without any block (invariant 3) */
        size_t size;        /* bytes in the ledger */
        uint64_t n_entered; /* since start: entries made */
        uint64_t n_matched; /* blocks that seq_index_match() has returned */
        uint64_t n_merged;  /* blocks replaced by an equal one that was entered before */
        uint64_t n_refused; /* entries not made, because memory or room was lacking */
};
void seq_index_stats(const struct seq_index *x, struct seq_index_stats *ret);
/* The longest run of entries from position 0 for tokens[0 .. n * block_tokens) in @scope, n <=
 * @n_blocks: returns n, and their blocks (borrowed, NULL where one is gone or never was) in
 * out[0..n). seq_steps_whole() tells how far they can be used. O(n) searches, each among the ordered
 * continuations of a prefix. */
size_t seq_index_match(struct seq_index *x, uint64_t scope, const int32_t *tokens, size_t n_blocks,
        struct seq_step *out);
/* How many of tokens[0..n_tokens), from position 0, agree with the entries of @scope: the matched
 * blocks, plus the part of the next block that agrees with the longest-agreeing continuation. */
uint32_t seq_index_common(
        struct seq_index *x, uint64_t scope, const int32_t *tokens, uint32_t n_tokens);
/*
 * Enter what @s has in RAM of full blocks from @from on, under their @tokens
 * [seq_n_tokens(s) / block_tokens * block_tokens]: blocks of attention, and states at the ends of
 * blocks. Blocks below @from should have been entered since they became resident. O(blocks visited);
 * what is entered already needs no work. Entries without a block are made only on the way to one.
 *
 * If another block is entered for the same prefix, @s takes that block and drops its own: same
 * tokens, same bits, computed twice and from now on stored once. The entered block keeps its tag
 * unless it is 0, in which case it takes the dropped block's tag. If @s held the last reference to
 * the dropped block, that block's entries in other scopes move over too.
 *
 * 0, SEQ_FULL (no room in the ledger) or -ERR_NOMEM; then the remaining blocks are not entered,
 * which is harmless. -ERR_INVALID if a block is entered in @scope with other tokens, which never
 * happens to a correct caller.
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
