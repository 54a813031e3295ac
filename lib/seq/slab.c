/* SPDX-License-Identifier: MIT */
/*
 * Slabs and the states of their slots. pool.c explains them, its invariants are meant here.
 */
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/slab.h"

/* gcc says it in one way, clang in another. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum {
        SLAB_TARGET_SIZE = 64 << 20, /* address space of a slab, unless one slot is larger */
        SLAB_MAX_SLOTS = 1024,
};

void seq_class_init(struct pool_class *cl, struct seq_pool *p, size_t size, size_t page_size) {
        cl->pool = p;
        list_init(&cl->open);
        list_init(&cl->closed);
        list_init(&cl->spare);
        list_init(&cl->unreturned);
        if (size == 0)
                return;
        cl->slot_size = align_up(size, page_size);
        cl->slab_slots =
                MIN(MAX(SLAB_TARGET_SIZE / cl->slot_size, (size_t)1), (size_t)SLAB_MAX_SLOTS);
}

int seq_slab_new(struct pool_class *cl, struct err *e) {
        struct seq_slab *slab;
        size_t size = cl->slab_slots * cl->slot_size; /* at most max(64 MiB, one slot) */

        slab = calloc(1, sizeof(*slab) + cl->slab_slots * sizeof(slab->blocks[0]));
        if (!slab)
                return err_set(e, ERR_NOMEM, "no memory for a slab");
        slab->data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab->data == MAP_FAILED) {
                free(slab);
                return err_set(e, ERR_NOMEM, "cannot map %zu bytes for a slab", size);
        }
        /* A kernel without huge pages refuses the advice; then there is nothing to turn off. */
        (void)madvise(slab->data, size, MADV_NOHUGEPAGE);
        ASAN_POISON_MEMORY_REGION(slab->data, size);
        slab->class = cl;
        list_init(&slab->free_blocks);
        for (size_t i = 0; i < cl->slab_slots; i++) {
                struct seq_block *b = &slab->blocks[i];

                list_init(&b->entries);
                list_init(&b->age);
                b->slab = slab;
                b->data = (char *)slab->data + i * cl->slot_size;
                list_append(&slab->free_blocks, &b->link);
        }
        slab->n_free = cl->slab_slots;
        cl->n_free += cl->slab_slots;
        cl->n_slabs++;
        cl->n_idle_slabs++;
        list_append(&cl->open, &slab->link);
        return 0;
}

void seq_slab_free(struct seq_slab *slab) {
        struct pool_class *cl = slab->class;
        size_t size = cl->slab_slots * cl->slot_size, n_charged = 0;

        assert(slab->n_live == 0);
        for (size_t i = 0; i < cl->slab_slots; i++) {
                struct seq_block *b = &slab->blocks[i];

                if (b->state == SLOT_FREE)
                        continue;
                list_unlink(&b->link);
                list_unlink(&b->age);
                if (b->state == SLOT_SPARE) {
                        cl->n_spare--;
                        cl->pool->spare_size -= cl->slot_size;
                } else {
                        cl->n_unreturned--;
                }
                n_charged++;
        }
        list_unlink(&slab->link);
        cl->n_free -= slab->n_free;
        cl->n_slabs--;
        cl->n_idle_slabs -= slab->n_spare == 0;
        /* Poison must not outlive the mapping: the addresses may be given to someone else. */
        ASAN_UNPOISON_MEMORY_REGION(slab->data, size);
        munmap(slab->data, size);
        if (n_charged > 0)
                ledger_release(cl->pool->ledger, n_charged * cl->slot_size);
        free(slab);
}

static bool slab_is_idle(const struct seq_slab *slab) {
        return slab->n_live == 0 && slab->n_spare == 0;
}

/* --- slots --- */

/* A spare is none any more. */
static void slot_leave_spares(struct seq_block *b) {
        struct pool_class *cl = b->slab->class;

        list_unlink(&b->link);
        list_unlink(&b->age);
        b->slab->n_spare--;
        cl->n_spare--;
        cl->pool->spare_size -= cl->slot_size;
}

/* A slot to take: a spare or unreturned one if there is any, else one from the first open slab. */
static struct seq_block *slot_find(const struct pool_class *cl) {
        const struct list *from = &cl->spare;

        if (list_empty(from))
                from = &cl->unreturned;
        if (list_empty(from))
                from = &list_entry(cl->open.next, struct seq_slab, link)->free_blocks;
        return list_entry(from->next, struct seq_block, link);
}

/* Make a slot of the class live. Cannot fail: what it may need has been charged and mapped. */
struct seq_block *seq_slot_take(struct pool_class *cl) {
        struct seq_block *b = slot_find(cl);
        struct seq_slab *slab = b->slab;

        if (slab_is_idle(slab))
                cl->n_idle_slabs--;
        if (b->state == SLOT_SPARE) {
                slot_leave_spares(b);
        } else if (b->state == SLOT_UNRETURNED) {
                list_unlink(&b->link);
                cl->n_unreturned--;
        } else {
                list_unlink(&b->link);
                cl->n_free--;
                if (--slab->n_free == 0) {
                        list_unlink(&slab->link);
                        list_append(&cl->closed, &slab->link);
                }
        }
        slab->n_live++;
        cl->n_live++;
        cl->pool->n_allocated++;
        b->used = b->state != SLOT_FREE;
        b->state = SLOT_LIVE;
        b->n_refs = 1;
        b->tag = 0;
        ASAN_UNPOISON_MEMORY_REGION(b->data, cl->pool->shape.size[seq_class_of(cl)]);
        return b;
}

/* Return the slot's pages to the system and its charge to the ledger. The slot is in no list, and
 * no longer live or spare; its slab may be gone afterwards. */
static void slot_return(struct seq_block *b) {
        struct seq_slab *slab = b->slab;
        struct pool_class *cl = slab->class;

        if (madvise(b->data, cl->slot_size, MADV_DONTNEED) == 0) {
                ledger_release(cl->pool->ledger, cl->slot_size);
                b->state = SLOT_FREE;
                list_prepend(&slab->free_blocks, &b->link);
                cl->n_free++;
                if (slab->n_free++ == 0) {
                        list_unlink(&slab->link);
                        list_prepend(&cl->open, &slab->link);
                }
        } else {
                b->state = SLOT_UNRETURNED;
                list_append(&cl->unreturned, &b->link);
                cl->n_unreturned++;
        }
        if (slab_is_idle(slab) && ++cl->n_idle_slabs > 1)
                seq_slab_free(slab);
}

void seq_spare_return(struct seq_block *b) {
        slot_leave_spares(b);
        slot_return(b);
}

static void slot_leave_live(struct seq_block *b) {
        struct pool_class *cl = b->slab->class;

        ASAN_POISON_MEMORY_REGION(b->data, cl->slot_size);
        b->slab->n_live--;
        cl->n_live--;
        cl->pool->n_freed++;
}

void seq_slot_keep(struct seq_block *b) {
        struct pool_class *cl = b->slab->class;

        slot_leave_live(b);
        b->state = SLOT_SPARE;
        list_prepend(&cl->spare, &b->link);
        list_prepend(&cl->pool->spare, &b->age);
        b->slab->n_spare++;
        cl->n_spare++;
        cl->pool->spare_size += cl->slot_size;
}

void seq_slot_drop(struct seq_block *b) {
        slot_leave_live(b);
        slot_return(b);
}
