/* SPDX-License-Identifier: MIT */
/*
 * The pool: blocks in fixed slots of slabs, under the ledger.
 *
 * Each class of memory has slabs of its own, since its blocks have a size of their own. One ledger
 * pays for the blocks of all classes, and one limit holds for their spares.
 *
 * A slab is one anonymous mapping, reserved but not backed by memory (MAP_NORESERVE): a slot takes
 * pages from the system only when it is written. The slot size is the block size rounded up to
 * whole pages, because only whole pages can be given back; the ledger is charged the slot size.
 *
 * Each new page costs a page fault and has to be cleared, and a block has hundreds of pages: that
 * took two fifths of the time of restoring. So a slot that becomes free keeps its pages for a
 * while, as a spare for the next block:
 *
 *              take                            free, room among the spares
 *      FREE ──────────→ LIVE ───────────────────────────────────────────────→ SPARE
 *        ↑               │ ↑                        take                      │ │
 *        │ free, no room │ └──────────────────────────────────────────────────┘ │
 *        └───────────────┴──────────────────────────────────────────────────────┘ trim
 *
 * 1. A live block is charged: the ledger granted its slot before any page was touched.
 * 2. A free slot is not charged and holds no page: its pages went back with MADV_DONTNEED before
 *    the ledger was released.
 * 3. A spare slot is charged, because its pages are still ours. A block takes a spare of its class
 *    first, the most recent one first (it is the likeliest to be in the processor's caches), and
 *    then needs no new charge. If the ledger has no room for the block, spares of other classes are
 *    given back until it has, the longest idle first, unless all of them together would not do. So
 *    spares never stand in the way of a block; a caller that needs the ledger for something else
 *    trims them.
 *    There are never more spares than the limit allows: lowering the limit gives back the excess at
 *    once, the longest idle first. A block that becomes free displaces older spares of other
 *    classes, but not of its own, which serve as well. Without that, the states that a decoding
 *    conversation frees with each token would get no place beside what an eviction has left.
 * 4. If the system refuses to take pages back (locked memory), the slot stays charged as well. Such
 *    slots wait in the unreturned list, are taken right after the spares, and are discharged when
 *    their slab is unmapped.
 * 5. A spare or unreturned slot may contain another user's data. So a block taken for computing is
 *    cleared (seq_pool_clear()), as a slot with fresh pages would be: a partial tail goes to disk
 *    and into exports whole, and the bytes after its tokens must neither reveal anything nor differ
 *    between runs. A caller that overwrites the whole block before anyone reads it (a copy, a
 *    restore) skips the clearing. So does a reservation for the block of the next state, which would
 *    have to be cleared for each token: the model writes all of its arrays, and the padding between
 *    them is at the same places in all states, so that it stays as zero as fresh pages are.
 * 6. Huge pages are off for slabs: otherwise one touched slot would back its free neighbors too,
 *    and the ledger would be wrong.
 * 7. A slab without live blocks and spares is unmapped, except one of each class that is kept
 *    against flapping.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/slab.h"

static bool shape_is_good(const struct seq_shape *shape, struct err *e) {
        size_t any = 0;

        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                any |= shape->size[c];
                if (shape->size[c] % 64 != 0 || shape->block_tokens == 0)
                        err_set(e, ERR_INVALID, "bad block of %zu bytes and %u tokens",
                                shape->size[c], shape->block_tokens);
                else if (shape->size[c] > SIZE_MAX / 2)
                        err_set(e, ERR_INVALID, "block of %zu bytes is too large", shape->size[c]);
                else
                        continue;
                return false;
        }
        if (any == 0)
                err_set(e, ERR_INVALID, "bad block of 0 bytes and %u tokens", shape->block_tokens);
        else if (shape->size[SEQ_WINDOW] > 0 && (shape->window > 0) == (shape->chunk > 0))
                err_set(e, ERR_INVALID, "bad window of %u and chunk of %u tokens", shape->window,
                        shape->chunk);
        else
                return true;
        return false;
}

int seq_pool_new(struct seq_pool **ret, struct ledger *ledger, const struct seq_shape *shape,
        struct err *e) {
        long page_size = sysconf(_SC_PAGESIZE);
        struct seq_pool *p;

        if (!shape_is_good(shape, e))
                return -ERR_INVALID;
        if (page_size <= 0)
                return err_set(e, ERR_INVALID, "pages of %ld bytes", page_size);
        p = calloc(1, sizeof(*p));
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for a pool");
        p->ledger = ledger;
        p->shape = *shape;
        list_init(&p->spare);
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                seq_class_init(&p->classes[c], p, shape->size[c], (size_t)page_size);
        *ret = p;
        return 0;
}

struct seq_pool *seq_pool_free(struct seq_pool *p) {
        if (!p)
                return NULL;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                struct pool_class *cl = &p->classes[c];

                assert(cl->n_live == 0);
                while (!list_empty(&cl->open))
                        seq_slab_free(list_entry(cl->open.next, struct seq_slab, link));
                while (!list_empty(&cl->closed))
                        seq_slab_free(list_entry(cl->closed.next, struct seq_slab, link));
        }
        free(p);
        return NULL;
}

const struct seq_shape *seq_pool_shape(const struct seq_pool *p) {
        return &p->shape;
}

size_t seq_pool_slot_size(const struct seq_pool *p, enum seq_class c) {
        return p->classes[c].slot_size;
}

void seq_pool_stats(const struct seq_pool *p, struct seq_pool_stats *ret) {
        *ret = (struct seq_pool_stats){
                .spare_size = p->spare_size,
                .n_allocated = p->n_allocated,
                .n_freed = p->n_freed,
                .n_copied_on_write = p->n_copied_on_write,
                .n_forks = p->n_forks,
        };
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                const struct pool_class *cl = &p->classes[c];

                ret->n_blocks[c] = cl->n_live;
                ret->live_size += cl->n_live * cl->slot_size;
                ret->n_free_slots += cl->n_free;
                ret->unreturned_size += cl->n_unreturned * cl->slot_size;
                ret->mapped_size += cl->n_slabs * cl->slab_slots * cl->slot_size;
        }
        ret->charged_size = ret->live_size + ret->spare_size + ret->unreturned_size;
}

void seq_pool_note_fork(struct seq_pool *p) {
        p->n_forks++;
}

/* --- spares --- */

/* Whether a block of the class may become a spare, after older spares of others have made room. */
static bool spare_has_room(struct pool_class *cl) {
        struct seq_pool *p = cl->pool;
        struct list *it, *before;

        if ((cl->n_spare + 1) * cl->slot_size > p->max_spare)
                return false;
        for (it = p->spare.prev; p->spare_size + cl->slot_size > p->max_spare; it = before) {
                struct seq_block *b = list_entry(it, struct seq_block, age);

                before = it->prev;
                if (b->slab->class != cl)
                        seq_spare_return(b);
        }
        return true;
}

static void block_free(struct seq_block *b) {
        if (spare_has_room(b->slab->class))
                seq_slot_keep(b);
        else
                seq_slot_drop(b);
}

void seq_pool_trim(struct seq_pool *p, size_t max_size) {
        while (p->spare_size > max_size)
                seq_spare_return(list_entry(p->spare.prev, struct seq_block, age));
}

void seq_pool_set_spare(struct seq_pool *p, size_t max_size) {
        p->max_spare = max_size;
        seq_pool_trim(p, max_size);
}

/* --- taking --- */

/* How many of @n new blocks need a slot that is not charged yet. */
static size_t n_uncharged(const struct pool_class *cl, size_t n) {
        return n - MIN(n, cl->n_spare + cl->n_unreturned);
}

/* How many spares stay when @n blocks are taken. */
static size_t n_surplus(const struct pool_class *cl, size_t n) {
        return cl->n_spare - MIN(n, cl->n_spare);
}

/* Reserve @size bytes for @n blocks of each class, if need be in exchange for spares that these
 * blocks will not use. Such spares are of other classes: a class with a surplus needs no charge. */
static bool charge(struct seq_pool *p, size_t size, const size_t *n) {
        size_t used, surplus = 0;
        struct list *it = p->spare.prev, *before;

        /* Nothing to reserve fits always, also under a budget that has shrunk below what is used. */
        if (size == 0 || ledger_reserve(p->ledger, size) == 0)
                return true;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                surplus += n_surplus(&p->classes[c], n[c]) * p->classes[c].slot_size;
        used = ledger_used(p->ledger);
        if (surplus == 0 || size > ledger_budget(p->ledger) ||
                used - MIN(used, surplus) > ledger_budget(p->ledger) - size)
                return false;
        for (; it != &p->spare; it = before) {
                struct seq_block *b = list_entry(it, struct seq_block, age);
                const struct pool_class *cl = b->slab->class;

                before = it->prev;
                if (n_surplus(cl, n[seq_class_of(cl)]) == 0)
                        continue;
                seq_spare_return(b);
                if (ledger_reserve(p->ledger, size) == 0)
                        return true;
        }
        return false;
}

/* The bytes of n[c] blocks of each class; true on overflow. */
static bool size_of(const struct seq_pool *p, const size_t *n, size_t *ret) {
        size_t part;

        *ret = 0;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                if (mul_overflow(n[c], p->classes[c].slot_size, &part) ||
                        add_overflow(*ret, part, ret))
                        return true;
        return false;
}

bool seq_pool_may_fit(const struct seq_pool *p, const size_t *n) {
        size_t size;

        return !size_of(p, n, &size) && size <= ledger_budget(p->ledger);
}

int seq_pool_take(
        struct seq_pool *p, struct seq_block **const *ret, const size_t *n, struct err *e) {
        size_t size, n_new[SEQ_N_CLASSES];
        int r;

        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                n_new[c] = n_uncharged(&p->classes[c], n[c]);
        if (size_of(p, n_new, &size) || !charge(p, size, n))
                return SEQ_FULL;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                while (p->classes[c].n_free < n_new[c]) {
                        r = seq_slab_new(&p->classes[c], e);
                        if (r < 0) {
                                ledger_release(p->ledger, size);
                                return r;
                        }
                }
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                for (size_t i = 0; i < n[c]; i++)
                        ret[c][i] = seq_slot_take(&p->classes[c]);
        return 0;
}

/* --- blocks --- */

static size_t block_size(const struct seq_block *b) {
        return b->slab->class->pool->shape.size[seq_block_class(b)];
}

void seq_pool_clear(struct seq_block *b) {
        if (b->used)
                memset(b->data, 0, block_size(b));
        b->used = false;
}

void seq_pool_copy(struct seq_block *dst, const struct seq_block *src) {
        memcpy(dst->data, src->data, block_size(dst));
        dst->slab->class->pool->n_copied_on_write++;
}

int seq_block_new(struct seq_block **ret, struct seq_pool *p, enum seq_class c, struct err *e) {
        struct seq_block *b, **to[SEQ_N_CLASSES] = {0};
        size_t n[SEQ_N_CLASSES] = {0};
        int r;

        assert(p->shape.size[c] > 0);
        to[c] = &b;
        n[c] = 1;
        r = seq_pool_take(p, to, n, e);
        if (r)
                return r;
        *ret = b;
        return 0;
}

enum seq_class seq_block_class(const struct seq_block *b) {
        return seq_class_of(b->slab->class);
}

bool seq_block_is_fresh(const struct seq_block *b) {
        return !b->used;
}

struct seq_block *seq_block_ref(struct seq_block *b) {
        assert(b->n_refs > 0 && b->n_refs < UINT32_MAX);
        b->n_refs++;
        return b;
}

struct seq_block *seq_block_unref(struct seq_block *b) {
        if (!b)
                return NULL;
        assert(b->n_refs > 0);
        if (--b->n_refs == 0) {
                seq_index_drop_block(b);
                block_free(b);
        }
        return NULL;
}

void *seq_block_data(struct seq_block *b) {
        return b->data;
}

uint32_t seq_block_n_refs(const struct seq_block *b) {
        return b->n_refs;
}

uint64_t seq_block_tag(const struct seq_block *b) {
        return b->tag;
}

void seq_block_set_tag(struct seq_block *b, uint64_t tag) {
        b->tag = tag;
}
