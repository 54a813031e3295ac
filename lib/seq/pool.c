/* SPDX-License-Identifier: MIT */
/*
 * The pool: blocks in fixed slots of slabs, under the ledger.
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
 * 3. A spare slot is charged, because its pages are still ours. Spares are taken first, the most
 *    recent one first (it is the likeliest to be in the processor's caches), and need no new
 *    charge. So spares never stand in the way of a block; a caller that needs the ledger for
 *    something else trims them. There are never more spares than the limit allows: lowering the
 *    limit gives back the excess at once, longest idle first.
 * 4. If the system refuses to take pages back (locked memory), the slot stays charged as well. Such
 *    slots wait in the unreturned list, are taken right after the spares, and are discharged when
 *    their slab is unmapped.
 * 5. A spare or unreturned slot may contain another user's data. So a block taken for computing is
 *    cleared (seq_pool_clear()), as a slot with fresh pages would be: a partial tail goes to disk
 *    and into exports whole, and the bytes after its tokens must neither reveal anything nor differ
 *    between runs. A caller that overwrites the whole block before anyone reads it (a copy, a
 *    restore) skips the clearing.
 * 6. Huge pages are off for slabs: otherwise one touched slot would back its free neighbors too,
 *    and the ledger would be wrong.
 * 7. A slab without live blocks and spares is unmapped, except one that is kept against flapping.
 */
#include "seq/seq-pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"

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

struct seq_slab {
        struct list link;        /* in pool->open (has free slots) or pool->closed */
        struct list free_blocks; /* SLOT_FREE */
        struct seq_pool *pool;
        void *data; /* the mapping, [n_slots][slot_size] */
        size_t n_free, n_live, n_spare;
        struct seq_block blocks[]; /* [n_slots] */
};

struct seq_pool {
        struct ledger *ledger;
        size_t block_size, slot_size, slab_slots;
        uint32_t block_tokens;
        struct list open, closed; /* slabs with and without SLOT_FREE slots */
        struct list spare;        /* SLOT_SPARE of any slab, the last one freed first */
        struct list unreturned;   /* SLOT_UNRETURNED of any slab */
        size_t n_live, n_free, n_spare, n_unreturned;
        size_t max_spare;             /* slots */
        size_t n_slabs, n_idle_slabs; /* idle: without live and spare slots */
        uint64_t n_allocated, n_copied_on_write, n_forks;
};

int seq_pool_new(struct seq_pool **ret, struct ledger *ledger, size_t block_size,
        uint32_t block_tokens, struct err *e) {
        long page_size = sysconf(_SC_PAGESIZE);
        size_t slot_size;
        struct seq_pool *p;

        if (block_size == 0 || block_size % 64 != 0 || block_tokens == 0)
                return err_set(e, ERR_INVALID, "bad block of %zu bytes and %u tokens", block_size,
                        block_tokens);
        if (page_size <= 0 || block_size > SIZE_MAX / 2)
                return err_set(e, ERR_INVALID, "block of %zu bytes is too large", block_size);
        slot_size = align_up(block_size, (size_t)page_size);
        p = calloc(1, sizeof(*p));
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for a pool");
        p->ledger = ledger;
        p->block_size = block_size;
        p->block_tokens = block_tokens;
        p->slot_size = slot_size;
        p->slab_slots = MIN(MAX(SLAB_TARGET_SIZE / slot_size, (size_t)1), (size_t)SLAB_MAX_SLOTS);
        list_init(&p->open);
        list_init(&p->closed);
        list_init(&p->spare);
        list_init(&p->unreturned);
        *ret = p;
        return 0;
}

static int slab_new(struct seq_pool *p, struct err *e) {
        struct seq_slab *slab;
        size_t size = p->slab_slots * p->slot_size; /* at most max(64 MiB, one slot) */

        slab = calloc(1, sizeof(*slab) + p->slab_slots * sizeof(slab->blocks[0]));
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
        slab->pool = p;
        list_init(&slab->free_blocks);
        for (size_t i = 0; i < p->slab_slots; i++) {
                struct seq_block *b = &slab->blocks[i];

                list_init(&b->entries);
                b->slab = slab;
                b->data = (char *)slab->data + i * p->slot_size;
                list_append(&slab->free_blocks, &b->link);
        }
        slab->n_free = p->slab_slots;
        p->n_free += p->slab_slots;
        p->n_slabs++;
        p->n_idle_slabs++;
        list_append(&p->open, &slab->link);
        return 0;
}

static void slab_free(struct seq_slab *slab) {
        struct seq_pool *p = slab->pool;
        size_t size = p->slab_slots * p->slot_size, n_charged = 0;

        assert(slab->n_live == 0);
        for (size_t i = 0; i < p->slab_slots; i++) {
                struct seq_block *b = &slab->blocks[i];

                if (b->state == SLOT_FREE)
                        continue;
                list_unlink(&b->link);
                p->n_spare -= b->state == SLOT_SPARE;
                p->n_unreturned -= b->state == SLOT_UNRETURNED;
                n_charged++;
        }
        list_unlink(&slab->link);
        p->n_free -= slab->n_free;
        p->n_slabs--;
        p->n_idle_slabs -= slab->n_spare == 0;
        /* Poison must not outlive the mapping: the addresses may be given to someone else. */
        ASAN_UNPOISON_MEMORY_REGION(slab->data, size);
        munmap(slab->data, size);
        if (n_charged > 0)
                ledger_release(p->ledger, n_charged * p->slot_size);
        free(slab);
}

struct seq_pool *seq_pool_free(struct seq_pool *p) {
        if (!p)
                return NULL;
        assert(p->n_live == 0);
        while (!list_empty(&p->open))
                slab_free(list_entry(p->open.next, struct seq_slab, link));
        while (!list_empty(&p->closed))
                slab_free(list_entry(p->closed.next, struct seq_slab, link));
        free(p);
        return NULL;
}

size_t seq_pool_slot_size(const struct seq_pool *p) {
        return p->slot_size;
}

uint32_t seq_pool_block_tokens(const struct seq_pool *p) {
        return p->block_tokens;
}

void seq_pool_stats(const struct seq_pool *p, struct seq_pool_stats *ret) {
        *ret = (struct seq_pool_stats){
                .n_blocks = p->n_live,
                .n_free_slots = p->n_free,
                .charged_size = (p->n_live + p->n_spare + p->n_unreturned) * p->slot_size,
                .spare_size = p->n_spare * p->slot_size,
                .unreturned_size = p->n_unreturned * p->slot_size,
                .mapped_size = p->n_slabs * p->slab_slots * p->slot_size,
                .n_allocated = p->n_allocated,
                .n_copied_on_write = p->n_copied_on_write,
                .n_forks = p->n_forks,
        };
}

void seq_pool_note_fork(struct seq_pool *p) {
        p->n_forks++;
}

static bool slab_is_idle(const struct seq_slab *slab) {
        return slab->n_live == 0 && slab->n_spare == 0;
}

/* The slot has left its list. */
static void slot_make_live(struct seq_block *b) {
        struct seq_slab *slab = b->slab;
        struct seq_pool *p = slab->pool;

        if (slab_is_idle(slab))
                p->n_idle_slabs--;
        if (b->state == SLOT_SPARE) {
                slab->n_spare--;
                p->n_spare--;
        } else if (b->state == SLOT_UNRETURNED) {
                p->n_unreturned--;
        } else {
                slab->n_free--;
                p->n_free--;
        }
        slab->n_live++;
        b->used = b->state != SLOT_FREE;
        b->state = SLOT_LIVE;
}

/* A spare or unreturned slot if there is any, else one from the first open slab. Cannot fail. */
static struct seq_block *slot_take(struct seq_pool *p) {
        struct list *from = &p->spare;
        struct seq_block *b;

        if (list_empty(from))
                from = &p->unreturned;
        if (list_empty(from))
                from = &list_entry(p->open.next, struct seq_slab, link)->free_blocks;
        b = list_entry(from->next, struct seq_block, link);
        list_unlink(&b->link);
        slot_make_live(b);
        if (b->slab->n_free == 0) {
                list_unlink(&b->slab->link);
                list_append(&p->closed, &b->slab->link);
        }
        ASAN_UNPOISON_MEMORY_REGION(b->data, p->block_size);
        b->n_refs = 1;
        b->tag = 0;
        p->n_live++;
        p->n_allocated++;
        return b;
}

/* Return the slot's pages to the system and its charge to the ledger. The slot is in no list, and
 * no longer live or spare; its slab may be gone afterwards. */
static void slot_return(struct seq_block *b) {
        struct seq_slab *slab = b->slab;
        struct seq_pool *p = slab->pool;

        if (madvise(b->data, p->slot_size, MADV_DONTNEED) == 0) {
                ledger_release(p->ledger, p->slot_size);
                b->state = SLOT_FREE;
                list_prepend(&slab->free_blocks, &b->link);
                p->n_free++;
                if (slab->n_free++ == 0) {
                        list_unlink(&slab->link);
                        list_prepend(&p->open, &slab->link);
                }
        } else {
                b->state = SLOT_UNRETURNED;
                list_append(&p->unreturned, &b->link);
                p->n_unreturned++;
        }
        if (slab_is_idle(slab) && ++p->n_idle_slabs > 1)
                slab_free(slab);
}

static void slot_give_back(struct seq_block *b) {
        struct seq_slab *slab = b->slab;
        struct seq_pool *p = slab->pool;

        p->n_live--;
        slab->n_live--;
        ASAN_POISON_MEMORY_REGION(b->data, p->slot_size);
        if (p->n_spare >= p->max_spare) {
                slot_return(b);
                return;
        }
        b->state = SLOT_SPARE;
        list_prepend(&p->spare, &b->link);
        slab->n_spare++;
        p->n_spare++;
}

void seq_pool_trim(struct seq_pool *p, size_t max_size) {
        while (p->n_spare > max_size / p->slot_size) {
                struct seq_block *b = list_entry(p->spare.prev, struct seq_block, link);

                list_unlink(&b->link);
                b->slab->n_spare--;
                p->n_spare--;
                slot_return(b);
        }
}

void seq_pool_set_spare(struct seq_pool *p, size_t max_size) {
        p->max_spare = max_size / p->slot_size;
        seq_pool_trim(p, max_size);
}

size_t seq_pool_max_blocks(const struct seq_pool *p) {
        return ledger_budget(p->ledger) / p->slot_size;
}

int seq_pool_take(struct seq_pool *p, struct seq_block **ret, size_t n, struct err *e) {
        size_t n_new = n - MIN(n, p->n_spare + p->n_unreturned), size;
        int r;

        if (mul_overflow(n_new, p->slot_size, &size))
                return SEQ_FULL;
        /* Nothing to reserve fits always, also under a budget that has shrunk below what is used.
         */
        if (size > 0 && ledger_reserve(p->ledger, size))
                return SEQ_FULL;
        while (p->n_free < n_new) {
                r = slab_new(p, e);
                if (r < 0) {
                        ledger_release(p->ledger, size);
                        return r;
                }
        }
        for (size_t i = 0; i < n; i++)
                ret[i] = slot_take(p);
        return 0;
}

void seq_pool_clear(struct seq_block *b) {
        if (b->used)
                memset(b->data, 0, b->slab->pool->block_size);
        b->used = false;
}

void seq_pool_copy(struct seq_block *dst, const struct seq_block *src) {
        struct seq_pool *p = dst->slab->pool;

        memcpy(dst->data, src->data, p->block_size);
        p->n_copied_on_write++;
}

int seq_block_new(struct seq_block **ret, struct seq_pool *p, struct err *e) {
        struct seq_block *b;
        int r;

        r = seq_pool_take(p, &b, 1, e);
        if (r)
                return r;
        *ret = b;
        return 0;
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
                slot_give_back(b);
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
