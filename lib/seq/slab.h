/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the pool: slab.c has slabs and the states of slots, pool.c the limits. */
#include "seq/seq-pool.h"

struct pool_class;

struct seq_slab {
        struct list link;        /* in class->open (has free slots) or class->closed */
        struct list free_blocks; /* SLOT_FREE */
        struct pool_class *class;
        void *data; /* the mapping, [n_slots][slot_size] */
        size_t n_free, n_live, n_spare;
        struct seq_block blocks[]; /* [n_slots] */
};

/* The slabs of one class. All zeros without such a class. */
struct pool_class {
        struct seq_pool *pool;
        size_t slot_size, slab_slots;
        struct list open, closed; /* slabs with and without SLOT_FREE slots */
        struct list spare;        /* SLOT_SPARE of any slab, the last one freed first */
        struct list unreturned;   /* SLOT_UNRETURNED of any slab */
        size_t n_live, n_free, n_spare, n_unreturned; /* slots */
        size_t n_slabs, n_idle_slabs;                 /* idle: without live and spare slots */
};

struct seq_pool {
        struct ledger *ledger;
        struct seq_shape shape;
        struct pool_class classes[SEQ_N_CLASSES];
        struct list spare; /* by age: SLOT_SPARE of all classes, the last one freed first */
        size_t spare_size, max_spare; /* bytes in the ledger */
        uint64_t n_allocated, n_freed, n_copied_on_write, n_forks;
};

static inline enum seq_class seq_class_of(const struct pool_class *cl) {
        return (enum seq_class)(cl - cl->pool->classes);
}
/* @size bytes per block; 0: no such class. */
void seq_class_init(struct pool_class *cl, struct seq_pool *p, size_t size, size_t page_size);
/* Map one more slab of free slots. 0 or -ERR_NOMEM. */
int seq_slab_new(struct pool_class *cl, struct err *e);
/* Unmap a slab without live slots. */
void seq_slab_free(struct seq_slab *slab);
/* Make a slot live, with one reference: a spare or unreturned one if there is any, else a free one.
 * Cannot fail: what it may need has been charged and mapped. */
struct seq_block *seq_slot_take(struct pool_class *cl);
/* A live slot has lost its last reference: make it a spare, or return it (see seq_spare_return()). */
void seq_slot_keep(struct seq_block *b);
void seq_slot_drop(struct seq_block *b);
/* Return a spare's pages to the system and its charge to the ledger. Its slab may be gone afterwards.
 */
void seq_spare_return(struct seq_block *b);
