/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor, and functions that its files share. */
#include "engine/memory/memory.h"

/* How fast memory is read from disk, and how fast it is computed: sums that fade. */
struct rates {
        double restored_bytes, restore_usec;
        double computed_tokens, compute_usec;
        uint64_t n_restores;
        /* The remote store: raw bytes of blocks, and asking for them. */
        double fetched_bytes, fetch_usec;
        double n_asked, ask_usec;
};

struct memory {
        struct seq_index *index;

        /* evict.c */
        size_t n_evictions;  /* under way */
        struct list waiting; /* evictions of blocks that are being written */

        /* writebehind.c */
        struct write_job *write_behind; /* the one under way, or NULL */
        uint64_t t_write;               /* no job begins before (clock_monotonic_usec()) */

        /* recall.c */
        struct rates rates;
        struct restore *trial; /* its memory arrives during the present model_forward() */

        /* edit.c */
        struct list edits; /* pending */

        /* grow.c */
        bool shrinking;      /* the budget is still above the one asked for */
        uint64_t pool_moves; /* blocks taken and freed, and when this last changed */
        uint64_t t_pool;
};

/* --- plan.c --- */

/* How long computing a token's memory took lately; 0: not known. */
double rates_token_usec(const struct engine *engine);

/* --- edit.c, for evict.c --- */

/* Drop the memory of an old end that was put aside; false if there is none. */
bool edit_make_room(struct engine *engine);
/* Before an eviction: leave only the memory below the cut of a pending edit, which may be written
 * and linked. The rest is dropped. */
void edit_before_evict(struct engine *engine, struct conv *c);

/* --- damage.c --- */

/* The cell cannot be had: the memory gets shorter accordingly. @record: the damaged record (0: missing, or
 * of other tokens). Forks and sharers that have the same record forget it without reading it. */
void cut_damaged(struct engine *engine, struct conv *c, enum seq_class class, uint32_t index,
        uint64_t record);
/* A record of other conversations is damaged: they forget it. The memory of @c, which wanted it, stays. */
void forget_damaged(struct engine *engine, struct conv *c, uint64_t record);

/* --- sources.c --- */

/* A cell that ends at @end came from @source. */
void recall_note_source(const struct engine *engine, struct recall *recall, enum seq_class class,
        uint32_t end, enum source source);

/* --- memory.c --- */

/* Make holes of the cells in RAM but for those of which @stays tells so (NULL: of all). */
void memory_drop_cells(struct seq *seq,
        bool (*stays)(void *arg, enum seq_class class, const struct seq_cell *cell), void *arg);

/* --- checkpoint.c --- */

/* Memory that only marks need is dropped from RAM: all that is on disk, or, if nothing is, that of the mark
 * that is worth least, which is lost. False if there was none. */
bool checkpoint_drop(struct engine *engine, struct conv *c);
