/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the parts of seq: pool.c makes blocks, seq.c puts them into tables, index.c finds them
 * by their tokens. */
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
                link; /* by state: in the slab's free list, the pool's spare or unreturned one */
        struct seq_slab *slab;
        void *data;
        uint64_t tag;
        uint32_t n_refs; /* 0: not live */
        enum slot_state state;
        bool used;           /* live, and may still hold bytes of the slot's previous block */
        struct list entries; /* in prefix indexes (struct entry, index.c) */
};

/* Take @n blocks (one reference each) into ret[0..n), or none. 0, SEQ_FULL, -ERR_NOMEM. They may
 * contain another user's data: overwrite each one whole (seq_pool_copy()) or clear it. */
int seq_pool_take(struct seq_pool *p, struct seq_block **ret, size_t n, struct err *e);
/* The number of blocks that the budget could hold if nothing else used it: more can never fit. */
size_t seq_pool_max_blocks(const struct seq_pool *p);
/* Fill a block just taken with zeros. */
void seq_pool_clear(struct seq_block *b);
/* Make a fresh block a copy of @src (content only; the tag stays 0). */
void seq_pool_copy(struct seq_block *dst, const struct seq_block *src);
/* Count a fork, for the statistics. */
void seq_pool_note_fork(struct seq_pool *p);

/* The committed or reserved block @i of the table, NULL for a hole. */
struct seq_block *seq_slot(const struct seq *s, size_t i);
/* Replace the table's block @i, which is not a hole, by @b, which holds the same bytes. */
void seq_replace(struct seq *s, size_t i, struct seq_block *b);

/* Remove every entry of @b, so that it cannot be found any more. */
void seq_index_drop_block(struct seq_block *b);
