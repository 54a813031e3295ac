/* SPDX-License-Identifier: MIT */
/*
 * Merging, as SPM and BPE both do it: of all adjacent pairs that may be joined the best one is
 * joined, again and again. A heap holds the candidates. An entry is stale when one of its two
 * symbols has been joined to something since; that shows in the symbols' sizes and links, so
 * nothing is ever searched for or removed from the middle: O(n log n) for any text.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

#define SYMBOL_NONE UINT32_MAX

int tok_work_reserve_symbols(struct tok_work *w, size_t n, struct err *e) {
        size_t n_heap = n * 2,
               capacity; /* one candidate per gap, and each join trades one for two */

        if (n > w->symbols_capacity) {
                struct tok_symbol *p;

                capacity = MAX(n, (size_t)64);
                p = realloc(w->symbols, capacity * sizeof(*p));
                if (!p)
                        return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu symbols", n);
                w->symbols = p;
                w->symbols_capacity = capacity;
        }
        if (n_heap > w->heap_capacity) {
                struct tok_pair *p;

                capacity = MAX(n_heap, (size_t)128);
                p = realloc(w->heap, capacity * sizeof(*p));
                if (!p)
                        return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu symbols", n);
                w->heap = p;
                w->heap_capacity = capacity;
        }
        return 0;
}

int tok_work_reserve_buffer(struct tok_work *w, size_t n, struct err *e) {
        char *p;

        if (n <= w->buffer_capacity)
                return 0;
        n = MAX(n, (size_t)256);
        p = realloc(w->buffer, n);
        if (!p)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        w->buffer = p;
        w->buffer_capacity = n;
        return 0;
}

void tok_work_deinit(struct tok_work *w) {
        free(w->symbols);
        free(w->heap);
        free(w->buffer);
        free(w->spans.v);
        free(w->raw.v);
        free(w->raw_next.v);
        free(w->hits.v);
        free(w->pieces.v);
        free(w->pieces_next.v);
        tok_pretok_work_free(w->match);
        *w = (struct tok_work){0};
}

static void heap_sink(struct tok_work *w, size_t at) {
        struct tok_pair p = w->heap[at];

        for (;;) {
                size_t child = at * 2 + 1;

                if (child >= w->n_heap)
                        break;
                if (child + 1 < w->n_heap && w->heap[child + 1].key < w->heap[child].key)
                        child++;
                if (p.key <= w->heap[child].key)
                        break;
                w->heap[at] = w->heap[child];
                at = child;
        }
        w->heap[at] = p;
}

static void heap_push(struct tok_work *w, struct tok_pair p) {
        size_t at = w->n_heap++;

        while (at > 0 && p.key < w->heap[(at - 1) / 2].key) {
                w->heap[at] = w->heap[(at - 1) / 2];
                at = (at - 1) / 2;
        }
        w->heap[at] = p;
}

static struct tok_pair heap_pop(struct tok_work *w) {
        struct tok_pair p = w->heap[0];

        w->heap[0] = w->heap[--w->n_heap];
        if (w->n_heap > 1)
                heap_sink(w, 0);
        return p;
}

static bool pair_of(const struct tok *t, const struct tok_work *w, uint32_t left, tok_pair_fn *pair,
        struct tok_pair *ret) {
        uint32_t right, rank, id;

        if (left == SYMBOL_NONE)
                return false;
        right = w->symbols[left].next;
        if (right == SYMBOL_NONE)
                return false;
        if (!pair(t, w, &w->symbols[left], &w->symbols[right], &rank, &id))
                return false;
        *ret = (struct tok_pair){
                .key = (uint64_t)rank << 32 | left,
                .right = right,
                .size = w->symbols[left].size + w->symbols[right].size,
                .result = id,
        };
        return true;
}

void tok_merge(const struct tok *t, struct tok_work *w, tok_pair_fn *pair) {
        struct tok_pair p;

        w->n_heap = 0;
        for (size_t i = 0; i < w->n_symbols; i++) {
                w->symbols[i].prev = i > 0 ? (uint32_t)i - 1 : SYMBOL_NONE;
                w->symbols[i].next = i + 1 < w->n_symbols ? (uint32_t)i + 1 : SYMBOL_NONE;
        }
        for (size_t i = 0; i + 1 < w->n_symbols; i++)
                if (pair_of(t, w, (uint32_t)i, pair, &p))
                        w->heap[w->n_heap++] = p;
        for (size_t i = w->n_heap / 2; i-- > 0;)
                heap_sink(w, i);
        while (w->n_heap > 0) {
                uint32_t left;
                struct tok_symbol *l, *r;

                p = heap_pop(w);
                left = (uint32_t)p.key;
                l = &w->symbols[left];
                r = &w->symbols[p.right];
                if (l->size == 0 || l->next != p.right || l->size + r->size != p.size)
                        continue;
                l->size += r->size;
                l->id = p.result;
                l->next = r->next;
                r->size = 0;
                if (l->next != SYMBOL_NONE)
                        w->symbols[l->next].prev = left;
                if (pair_of(t, w, l->prev, pair, &p))
                        heap_push(w, p);
                if (pair_of(t, w, left, pair, &p))
                        heap_push(w, p);
        }
}
