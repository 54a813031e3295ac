/* SPDX-License-Identifier: MIT */
#pragma once
/* What the parts of seq share: pool.c makes blocks, seq.c puts them into tables, index.c finds them
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
        bool used;           /* live, and still has what the slot's last block has left in it */
        struct list entries; /* in prefix indexes (struct entry, index.c) */
};

/* Take @n blocks (one reference each) into ret[0..n), or none. 0, SEQ_FULL, -ERR_NOMEM. What is in
 * them may be another user's: each is to be filled whole (seq_pool_copy()) or cleared. */
int seq_pool_take(struct seq_pool *p, struct seq_block **ret, size_t n, struct err *e);
/* What the budget could hold if nothing else were in it: asking for more is hopeless. */
size_t seq_pool_max_blocks(const struct seq_pool *p);
/* A block just taken has nothing but zeros in it now. */
void seq_pool_clear(struct seq_block *b);
/* A fresh block becomes a copy of @src (content only; the tag stays 0). */
void seq_pool_copy(struct seq_block *dst, const struct seq_block *src);
/* Count a fork, for the statistics. */
void seq_pool_note_fork(struct seq_pool *p);

/* The committed or reserved block @i of the table, NULL for a hole. */
struct seq_block *seq_slot(const struct seq *s, size_t i);
/* The table's block @i, which is not a hole, is from now on @b, which holds the same bytes. */
void seq_replace(struct seq *s, size_t i, struct seq_block *b);

/* Remove every entry of @b: nobody finds it any more. */
void seq_index_drop_block(struct seq_block *b);
