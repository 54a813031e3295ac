/* SPDX-License-Identifier: MIT */
#pragma once
/* Blocks, for the other parts of seq: pool.c makes them, cells.c puts them into sequences, index.c
 * finds them by their tokens. */
#include "base/list.h"
#include "seq/seq.h"

struct seq_slab;

/* See pool.c. All but free slots are charged in the ledger. */
enum slot_state {
        SLOT_FREE, /* holds no page */
        SLOT_LIVE,
        SLOT_SPARE,     /* keeps its pages for the next block */
        SLOT_UNRETURNED /* keeps its pages, which the system does not take back */
};

/* One slot of a slab; lives as long as its slab, whether the slot is taken or free. */
struct seq_block {
        struct list
                link; /* by state: in the slab's free list, the class's spare or unreturned one */
        struct list age; /* in the pool's list of spares, else empty */
        struct seq_slab *slab;
        void *data;
        uint64_t tag;
        uint32_t n_refs; /* 0: not live */
        enum slot_state state;
        bool used;           /* live, and may still hold bytes of the slot's previous block */
        struct list entries; /* in prefix indexes (struct place, index.c) */
};

/* Take n[c] blocks of each class (one reference each) into ret[c][0..n[c]), or none. 0, SEQ_FULL,
 * -ERR_NOMEM. They may contain another user's data: overwrite each one whole (seq_pool_copy()) or
 * clear it. */
int seq_pool_take(
        struct seq_pool *p, struct seq_block **const *ret, const size_t *n, struct err *e);
/* Whether so many blocks could be had if nothing else used the budget. */
bool seq_pool_may_fit(const struct seq_pool *p, const size_t *n);
/* Fill a block just taken with zeros. */
void seq_pool_clear(struct seq_block *b);
/* Make a fresh block a copy of @src (content only; the tag stays 0). */
void seq_pool_copy(struct seq_block *dst, const struct seq_block *src);
/* Count a fork, for the statistics. */
void seq_pool_note_fork(struct seq_pool *p);

/* Take @b out of every entry, so that it cannot be found any more. */
void seq_index_drop_block(struct seq_block *b);
