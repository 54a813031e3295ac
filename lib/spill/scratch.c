/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/load.h"
#include "spill/shared.h"

enum { LARGE_PAGE = 2 << 20 };

static size_t head_size(void) {
        return align_up(sizeof(struct spill_scratch), 64);
}

static size_t windows_size(void) {
        return align_up(SPILL_QUEUE_MAX * sizeof(struct spill_window), 64);
}

size_t spill_scratch_size(struct spill *s) {
        return head_size() + windows_size() + s->codec_size + s->buffer_size;
}

/* One that is left over, or 0. */
static aio_context_t context_take(struct spill *s) {
        aio_context_t context = 0;

        pthread_mutex_lock(&s->lock);
        if (s->n_contexts > 0)
                context = s->contexts[--s->n_contexts];
        pthread_mutex_unlock(&s->lock);
        return context;
}

static void context_put(struct spill *s, aio_context_t context) {
        if (!context)
                return;
        pthread_mutex_lock(&s->lock);
        if (s->n_contexts < SPILL_MAX_CONTEXTS) {
                s->contexts[s->n_contexts++] = context;
                context = 0;
        }
        pthread_mutex_unlock(&s->lock);
        spill_context_destroy(context);
}

/*
 * Mapped anew, for large pages: memory that malloc() had before is in small ones and stays so. A disk of 2.9 GB/s reads
 * 1.7 past the page cache into those, as each page is a part of its own of the request.
 */
static uint8_t *buffer_new(size_t size) {
        size_t slack = size % LARGE_PAGE == 0 ? LARGE_PAGE : 0;
        uint8_t *map, *p;

        map = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
                return NULL;
        if (slack == 0)
                return map;
        p = map + (LARGE_PAGE - (uintptr_t)map % LARGE_PAGE) % LARGE_PAGE;
        if (p > map)
                munmap(map, (size_t)(p - map));
        if (p < map + slack)
                munmap(p + size, (size_t)(map + slack - p));
        (void)madvise(p, size, MADV_HUGEPAGE);
        return p;
}

static int scratch_new(struct spill *s, struct spill_scratch **ret, struct err *e) {
        struct spill_scratch *p;
        uint8_t *head;

        head = aligned_alloc(64, head_size() + windows_size() + s->codec_size);
        p = (struct spill_scratch *)head;
        if (p)
                p->buffer = buffer_new(s->buffer_size);
        if (!p || !p->buffer) {
                free(p);
                return err_set(e, ERR_NOMEM, "no memory for %zu bytes of spill buffer",
                        spill_scratch_size(s));
        }
        p->disk_is_late = false;
        p->windows = (struct spill_window *)(head + head_size());
        p->codec = head + head_size() + windows_size();
        spill_queue_init(&p->queue, p->buffer, s->ring_size, context_take(s));
        *ret = p;
        return 0;
}

int spill_scratch_get(struct spill *s, struct spill_scratch **ret, struct err *e) {
        struct spill_scratch *p;

        pthread_mutex_lock(&s->lock);
        p = s->scratch;
        if (p)
                s->scratch = p->next;
        pthread_mutex_unlock(&s->lock);
        if (!p)
                return scratch_new(s, ret, e);
        *ret = p;
        return 0;
}

void spill_scratch_put(struct spill *s, struct spill_scratch *p) {
        if (!p)
                return;
        pthread_mutex_lock(&s->lock);
        p->next = s->scratch;
        s->scratch = p;
        pthread_mutex_unlock(&s->lock);
}

void spill_trim(struct spill *s) {
        struct spill_scratch *p, *next;

        pthread_mutex_lock(&s->lock);
        p = s->scratch;
        s->scratch = NULL;
        pthread_mutex_unlock(&s->lock);
        for (; p; p = next) {
                next = p->next;
                context_put(s, spill_queue_deinit(&p->queue));
                munmap(p->buffer, s->buffer_size);
                free(p);
        }
}

void spill_scratch_deinit(struct spill *s) {
        spill_trim(s);
        while (s->n_contexts > 0)
                spill_context_destroy(s->contexts[--s->n_contexts]);
}
