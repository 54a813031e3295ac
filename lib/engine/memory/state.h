/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor, and what its files have from each other. */
#include "engine/memory/memory.h"

/* How fast memory comes from disk, and how fast it is computed: sums that fade. */
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
        uint64_t t_write;               /* none begins before (clock_monotonic_usec()) */

        /* recall.c */
        struct rates rates;
        struct restore *trial; /* whose memory arrives during the present model_forward() */

        /* edit.c */
        struct list edits; /* pending */

        /* grow.c */
        bool shrinking;      /* memory has to be let go before the budget is what was asked for */
        uint64_t pool_moves; /* blocks taken and freed, and when that was seen to change */
        uint64_t t_pool;
};

/* --- edit.c, for evict.c --- */

/* Drop the memory of an old end; false if there is none. */
bool edit_make_room(struct engine *engine);
/* What may be written and linked of a conversation with a pending edit: its common beginning. The
 * rest of its memory is dropped. */
void edit_before_evict(struct engine *engine, struct conv *c);

/* --- damage.c --- */

/* The memory is good up to block @index only. @record: the damaged one (0: it is missing, or of
 * other tokens), which forks and sharers have too: they need not read it to find out. */
void cut_damaged(struct engine *engine, struct conv *c, uint32_t index, uint64_t record);
