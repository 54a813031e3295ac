/* SPDX-License-Identifier: MIT */
/*
 * Merging for both SPM and BPE: join the best adjacent pair that may be joined, and repeat. A heap
 * holds the candidate pairs. An entry becomes stale when one of its two symbols is joined to
 * another one. Stale entries stay until they reach the top, so nothing is ever searched for or
 * removed in the middle: O(n log n) for any text.
 *
 * 1. An entry is just the rank of a pair and its left symbol, 8 bytes. When it reaches the top, the
 *    pair is looked up again: the entry counts if the symbol still exists and the pair that it now
 *    begins has this rank. A stale entry that has the rank of the symbol's current pair is equal to
 *    that pair's own entry, so it does no harm.
 * 2. The symbols of a text are adjacent, so a symbol ends where the next one begins. A symbol that
 *    was joined to the left is its own `next`.
 * 3. The text is divided into stretches whose borders no pair can cross (tok_may_join()). Each
 *    stretch is merged by itself and does not depend on any other. So a text needs only the memory
 *    of its longest stretch, in most vocabularies a word: 32 bytes for each symbol.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

#define HEAP_PER_SYMBOL 2 /* one candidate per gap, and each join trades one for two */
#define POPS_PER_LOOK 4096

size_t tok_symbols_memory(size_t n) {
        n = MAX(n, (size_t)TOK_MIN_SYMBOLS);
        return n * (sizeof(struct tok_symbol) + HEAP_PER_SYMBOL * sizeof(uint64_t));
}

int tok_work_reserve_symbols(struct tok_work *w, size_t n, struct err *e) {
        if (n <= w->symbols_capacity)
                return 0;
        n = MAX(n, (size_t)TOK_MIN_SYMBOLS);
        /* Nothing of the old content is wanted: no moment has both. */
        w->symbols_capacity = 0;
        free(w->symbols);
        free(w->heap);
        w->heap = NULL;
        w->symbols = malloc(n * sizeof(*w->symbols));
        if (w->symbols)
                w->heap = malloc(n * HEAP_PER_SYMBOL * sizeof(*w->heap));
        if (!w->heap)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu symbols", n);
        w->symbols_capacity = n;
        return 0;
}

int tok_work_reserve_buffer(struct tok_work *w, size_t n, struct err *e) {
        if (n <= w->buffer_capacity)
                return 0;
        n = MAX(n, (size_t)TOK_MIN_BUFFER);
        w->buffer_capacity = 0;
        free(w->buffer);
        w->buffer = malloc(n);
        if (!w->buffer)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        w->buffer_capacity = n;
        return 0;
}

void tok_work_deinit(struct tok_work *w) {
        free(w->symbols);
        free(w->heap);
        free(w->buffer);
        free(w->best);
        free(w->spans.v);
        free(w->raw.v);
        free(w->raw_next.v);
        free(w->hits.v);
        *w = (struct tok_work){0};
}

static void heap_sink(struct tok_work *w, size_t at) {
        uint64_t key = w->heap[at];

        for (;;) {
                size_t child = at * 2 + 1;

                if (child >= w->n_heap)
                        break;
                if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child])
                        child++;
                if (key <= w->heap[child])
                        break;
                w->heap[at] = w->heap[child];
                at = child;
        }
        w->heap[at] = key;
}

static void heap_push(struct tok_work *w, uint64_t key) {
        size_t at = w->n_heap++;

        while (at > 0 && key < w->heap[(at - 1) / 2]) {
                w->heap[at] = w->heap[(at - 1) / 2];
                at = (at - 1) / 2;
        }
        w->heap[at] = key;
}

static uint64_t heap_pop(struct tok_work *w) {
        uint64_t key = w->heap[0];

        w->heap[0] = w->heap[--w->n_heap];
        if (w->n_heap > 1)
                heap_sink(w, 0);
        return key;
}

/* The pair that symbol @left begins, if there is one: its heap entry, and the joined symbol. */
static bool pair_of(const struct tok *t, const struct tok_work *w, uint32_t left, tok_pair_fn *pair,
        uint64_t *ret_key, uint32_t *ret_id) {
        uint32_t right, rank;

        if (left == TOK_SYMBOL_NONE)
                return false;
        right = w->symbols[left].next;
        if (right == TOK_SYMBOL_NONE || right == left)
                return false;
        if (!pair(t, w, left, right, &rank, ret_id))
                return false;
        *ret_key = (uint64_t)rank << 32 | left;
        return true;
}

static void push_pair(const struct tok *t, struct tok_work *w, uint32_t left, tok_pair_fn *pair) {
        uint64_t key;
        uint32_t id;

        if (pair_of(t, w, left, pair, &key, &id))
                heap_push(w, key);
}

static void join(struct tok_work *w, uint32_t left, uint32_t id) {
        struct tok_symbol *l = &w->symbols[left];
        uint32_t right = l->next;

        l->id = id;
        l->next = w->symbols[right].next;
        if (l->next != TOK_SYMBOL_NONE)
                w->symbols[l->next].prev = left;
        w->symbols[right].next = right;
}

static void fill_heap(const struct tok *t, struct tok_work *w, tok_pair_fn *pair) {
        uint64_t key;
        uint32_t id;

        w->n_heap = 0;
        for (size_t i = 0; i < w->n_symbols; i++) {
                w->symbols[i].prev = i > 0 ? (uint32_t)i - 1 : TOK_SYMBOL_NONE;
                w->symbols[i].next = i + 1 < w->n_symbols ? (uint32_t)i + 1 : TOK_SYMBOL_NONE;
        }
        for (size_t i = 0; i + 1 < w->n_symbols; i++)
                if (pair_of(t, w, (uint32_t)i, pair, &key, &id))
                        w->heap[w->n_heap++] = key;
        for (size_t i = w->n_heap / 2; i-- > 0;)
                heap_sink(w, i);
}

int tok_merge(const struct tok *t, struct tok_work *w, tok_pair_fn *pair, struct err *e) {
        fill_heap(t, w, pair);
        for (size_t n = 0; w->n_heap > 0; n++) {
                uint64_t key = heap_pop(w), now;
                uint32_t left = (uint32_t)key, id;

                if (n % POPS_PER_LOOK == POPS_PER_LOOK - 1 && tok_stopped(w))
                        return tok_stop(e);
                if (!pair_of(t, w, left, pair, &now, &id) || now != key)
                        continue;
                join(w, left, id);
                push_pair(t, w, w->symbols[left].prev, pair);
                push_pair(t, w, left, pair);
        }
        return 0;
}

int tok_merged_new(struct tok *t, struct err *e) {
        t->merged = calloc(t->vocab.n, sizeof(*t->merged));
        return t->merged ? 0 : err_set(e, ERR_NOMEM, "out of memory for %u tokens", t->vocab.n);
}

void tok_note_merged(const struct tok *t, const struct tok_work *w, int32_t token) {
        const struct tok_symbol *s = w->symbols;
        bool whole = s->next == TOK_SYMBOL_NONE && s->id == (uint32_t)token;

        if (token >= 0)
                atomic_store_explicit(&t->merged[token],
                        whole ? TOK_MERGED_WHOLE : TOK_MERGED_OTHERWISE, memory_order_relaxed);
}
