/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of a sequence, for the parts of seq: cells.c has the cells, marks.c what keeps them,
 * seq.c the operations on a sequence, adopt.c those that bring cells from elsewhere.
 *
 *      0 ............ n_tokens ........ n_tokens + n_reserved
 *      [ committed            ][ reserved ]
 *
 * 1. n_blocks == ceil((n_tokens + n_reserved) / block_tokens), for both classes of attention.
 * 2. Cells of attention below ceil(n_tokens / block_tokens) are committed, and may be holes or, in
 *    SEQ_WINDOW, absent. The others have blocks that belong to this sequence alone, since no one else
 *    can have got a reference to them.
 * 3. n_reserved > 0 implies: no cell that the end needs is a hole, the blocks of position n_tokens
 *    belong to this sequence alone, and next_state is a block of this sequence alone. Because of
 *    this, writing and committing cannot fail.
 * 4. data[i] is the address of blocks[i]'s data, or NULL without a block.
 * 5. States are sorted. The last one is the state after the last token, unless there are no tokens.
 * 6. Marks are sorted, and every one is whole. None is behind the end.
 * 7. Of the cells of SEQ_WINDOW below window_kept only those of marks are not absent. Unless
 *    states_loose, the same is true of states but the last one.
 */
#include "seq/seq-pool.h"

/* Cells of a class of attention. Empty without such a class. */
struct table {
        struct seq_block **blocks; /* [capacity]; NULL: a hole; SEQ_ABSENT: absent */
        void **data;               /* [capacity] */
};

struct state_cell {
        uint32_t index;
        struct seq_block *block; /* NULL: a hole */
};

enum { N_TABLES = 2 }; /* SEQ_ALL, SEQ_WINDOW */

struct seq {
        struct seq_pool *pool;
        const struct seq_shape *shape;
        struct table tables[N_TABLES];
        size_t capacity, n_blocks;
        struct state_cell *states; /* [states_capacity], the first n_states in use */
        size_t n_states, states_capacity;
        struct seq_block *next_state;
        uint32_t *marks; /* [marks_capacity], the first n_marks in use */
        size_t n_marks, marks_capacity;
        size_t n_holes[SEQ_N_CLASSES], n_absent; /* n_absent: of SEQ_WINDOW */
        size_t window_kept;
        uint32_t n_tokens, n_reserved;
        bool states_loose;
};

extern struct seq_block seq_absent;
#define SEQ_ABSENT (&seq_absent)
static inline bool seq_is_block(const struct seq_block *b) {
        return b && b != SEQ_ABSENT;
}

static inline bool seq_has_class(const struct seq *s, enum seq_class c) {
        return s->shape->size[c] > 0;
}
/* Cells of attention that hold the first @n_tokens tokens. */
static inline size_t seq_cells_for(const struct seq *s, uint64_t n_tokens) {
        return (size_t)((n_tokens + s->shape->block_tokens - 1) / s->shape->block_tokens);
}
/* The cells of SEQ_WINDOW that position @pos needs: [seq_window_first(), seq_cells_for()). */
static inline size_t seq_window_first(const struct seq *s, uint32_t pos) {
        return seq_window_start(s->shape, pos) / s->shape->block_tokens;
}

/* --- cells.c --- */

/* Room for @n cells of attention, and for @n states. -ERR_NOMEM: nothing visible changed. */
int seq_cells_grow(struct seq *s, size_t n, struct err *e);
int seq_states_grow(struct seq *s, size_t n, struct err *e);
/* Set cell @i of attention, which was not in use before (the caller counts it in n_blocks), to @b
 * (takes over the reference). */
void seq_cell_init(struct seq *s, enum seq_class c, size_t i, struct seq_block *b);
/* Set cell @i, which is in use, to @b (takes over the reference), and drop what it had. */
void seq_cell_change(struct seq *s, enum seq_class c, size_t i, struct seq_block *b);
/* Shorten to @n cells of attention. */
void seq_cells_cut(struct seq *s, size_t n);
/* The number of states with an index below @index: where it is, or would be. */
size_t seq_states_below(const struct seq *s, uint32_t index);
/* The state cell @index, or NULL if it is absent. */
struct state_cell *seq_state_at(const struct seq *s, uint32_t index);
/* Add a state behind the others; there is room. Takes over the reference. */
void seq_state_append(struct seq *s, uint32_t index, struct seq_block *b);
void seq_state_remove(struct seq *s, size_t at);
/* The block that cell @i has in RAM, or NULL. For states @i is the cell's index, too. */
struct seq_block *seq_slot(const struct seq *s, enum seq_class c, size_t i);
/* Replace the cell's block, which it has, by @b, which holds the same bytes. */
void seq_replace(struct seq *s, enum seq_class c, size_t i, struct seq_block *b);
/* Whether @pos, which is not behind the end, is whole. */
bool seq_is_whole(const struct seq *s, uint32_t pos);

/* --- seq.c --- */

/* Drop everything behind @pos, which is whole, and any reservation. */
void seq_shorten(struct seq *s, uint32_t pos);

/* --- marks.c --- */

/* Whether any mark needs cell @i of SEQ_WINDOW, or the state @index. */
bool seq_window_marked(const struct seq *s, size_t i);
bool seq_state_marked(const struct seq *s, uint32_t index);
/* Take over the marks of @src up to @pos. */
int seq_marks_copy(struct seq *s, const struct seq *src, uint32_t pos, struct err *e);
/* Drop the marks behind @pos. */
void seq_marks_cut(struct seq *s, uint32_t pos);
/* Drop the marks that are not whole any more. */
void seq_marks_check(struct seq *s);
/* After a commit: what the steps since the last one made unnecessary becomes absent. */
void seq_release_passed(struct seq *s);
