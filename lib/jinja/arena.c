/* SPDX-License-Identifier: MIT */
#include "jinja/arena.h"
#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The first chunk is small, because most templates and renderings are. */
#define FIRST_CHUNK 8192
#define MAX_CHUNK (256 << 10)
#define ALIGN 16

/*
 * AddressSanitizer does not know what lies inside a chunk. So all of a chunk is poisoned, each block
 * is laid bare when it is given out, and a gap stays behind it.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GAP ALIGN
#else
#define GAP 0
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

struct arena_chunk {
        struct arena_chunk *next;
        size_t used, size; /* of data */
        _Alignas(ALIGN) uint8_t data[];
};

static void *fail(struct arena *a, int r) {
        if (a->error == 0)
                a->error = r;
        return NULL;
}

/* A chunk with room for @n bytes. Blocks that are larger than a chunk have one of their own, behind
 * the first, whose room stays in use. */
static struct arena_chunk *add_chunk(struct arena *a, size_t n) {
        size_t size = MIN((size_t)MAX_CHUNK, MAX((size_t)FIRST_CHUNK, a->size));
        struct arena_chunk *c;
        bool own = n > size / 4;

        size = (own ? n : size) + sizeof(*c);
        if (size < n || size > a->max - a->size)
                return fail(a, err_set(a->e, ERR_TOO_LARGE,
                                       "%s takes more than %zu bytes of memory", a->what, a->max));
        if (a->charge) {
                int r = charge_take(a->charge, size, a->what, a->e);

                if (r < 0)
                        return fail(a, r);
        }
        c = malloc(size);
        if (!c) {
                if (a->charge)
                        charge_give(a->charge, size);
                return fail(a, err_set(a->e, ERR_NOMEM, "no memory for %s", a->what));
        }
        a->size += size;
        ASAN_POISON_MEMORY_REGION(c->data, size - sizeof(*c));
        *c = (struct arena_chunk){.size = size - sizeof(*c)};
        if (own && a->chunks) {
                c->next = a->chunks->next;
                a->chunks->next = c;
        } else {
                c->next = a->chunks;
                a->chunks = c;
        }
        return c;
}

static void *take(struct arena *a, size_t n) {
        struct arena_chunk *c = a->chunks;
        size_t wanted = n;
        void *p;

        if (a->error < 0)
                return NULL;
        if (n > SIZE_MAX - 4 * ALIGN)
                return fail(a, err_set(a->e, ERR_TOO_LARGE, "%s takes too much memory", a->what));
        n = align_up(n ? n : 1, ALIGN) + GAP;
        if (!c || n > c->size - c->used) {
                c = add_chunk(a, n);
                if (!c)
                        return NULL;
        }
        p = c->data + c->used;
        c->used += n;
        ASAN_UNPOISON_MEMORY_REGION(p, wanted);
        return p;
}

void *arena_alloc(struct arena *a, size_t n) {
        void *p = take(a, n);

        return p ? memset(p, 0, n) : NULL;
}

void *arena_array(struct arena *a, size_t n_items, size_t size) {
        size_t n;

        if (mul_overflow(n_items, size, &n))
                n = SIZE_MAX;
        return arena_alloc(a, n);
}

void *arena_grow(struct arena *a, void *p, size_t old, size_t n) {
        void *q = take(a, n);

        if (q && old > 0)
                memcpy(q, p, old);
        return q;
}

void arena_deinit(struct arena *a) {
        while (a->chunks) {
                struct arena_chunk *next = a->chunks->next;

                if (a->charge)
                        charge_give(a->charge, a->chunks->size + sizeof(*a->chunks));
                ASAN_UNPOISON_MEMORY_REGION(a->chunks->data, a->chunks->size);
                free(a->chunks);
                a->chunks = next;
        }
        *a = ARENA_NULL;
}
