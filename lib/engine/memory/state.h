/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor, and functions that its files share. */
#include "engine/memory/memory.h"

/* How fast memory is read from disk, and how fast it is computed: sums that fade. */
struct rates {
        double restored_bytes, restore_usec;
        double computed_tokens, compute_usec;
        uint64_t n_restores;
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

/* --- edit.c, for evict.c --- */

/* Drop the memory of an old end that was put aside; false if there is none. */
bool edit_make_room(struct engine *engine);
/* Before an eviction: leave only the memory below the cut of a pending edit, which may be written
 * and linked. The rest is dropped. */
void edit_before_evict(struct engine *engine, struct conv *c);

/* --- damage.c --- */

/* The memory is good only up to block @index. @record: the damaged record (0: missing, or of other
 * tokens). Forks and sharers that have the same record forget it without reading it. */
void cut_damaged(struct engine *engine, struct conv *c, uint32_t index, uint64_t record);
