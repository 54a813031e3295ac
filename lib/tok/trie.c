/* SPDX-License-Identifier: MIT */
/*
 * A trie of texts. Nodes are numbered level by level, so the children of a node have numbers in a
 * row: first[node] up to first[node + 1], in order of their bytes. 9 bytes a node.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

/* While the trie is built: the entries below each node, a range of the sorted ones. */
struct range {
        uint32_t from, to;
};

struct builder {
        struct tok_trie *trie;
        const struct tok_trie_entry *entries;
        struct range *range; /* [capacity], beside the trie's arrays */
        size_t capacity;
};

static int compare_entries(const void *a, const void *b) {
        const struct tok_trie_entry *x = a, *y = b;
        int r = memcmp(x->text, y->text, MIN(x->size, y->size));

        if (r == 0)
                r = x->size < y->size ? -1 : x->size > y->size;
        if (r == 0)
                r = x->id < y->id ? -1 : x->id > y->id;
        return r;
}

static int grow(struct builder *b) {
        size_t n = b->capacity * 2 + 1024;
        struct tok_trie *t = b->trie;
        void *p;

        if (n > UINT32_MAX / 2)
                return -ERR_NOMEM;
        p = realloc(t->label, n);
        if (!p)
                return -ERR_NOMEM;
        t->label = p;
        p = realloc(t->first, (n + 1) * sizeof(*t->first));
        if (!p)
                return -ERR_NOMEM;
        t->first = p;
        p = realloc(t->id, n * sizeof(*t->id));
        if (!p)
                return -ERR_NOMEM;
        t->id = p;
        p = realloc(b->range, n * sizeof(*b->range));
        if (!p)
                return -ERR_NOMEM;
        b->range = p;
        b->capacity = n;
        return 0;
}

static int add_node(struct builder *b, uint8_t label, struct range range) {
        struct tok_trie *t = b->trie;

        if (t->n == b->capacity && grow(b) < 0)
                return -ERR_NOMEM;
        t->label[t->n] = label;
        t->id[t->n] = -1;
        b->range[t->n] = range;
        t->n++;
        return 0;
}

/* The entry that ends at @node, if there is one, and its children. */
static int fill_node(struct builder *b, uint32_t node, size_t depth) {
        struct range r = b->range[node];
        uint32_t from;

        b->trie->first[node] = b->trie->n;
        for (from = r.from; from < r.to && b->entries[from].size == depth; from++)
                b->trie->id[node] = b->entries[from].id; /* of equal texts the last id */
        while (from < r.to) {
                uint8_t label = (uint8_t)b->entries[from].text[depth];
                uint32_t to = from + 1;

                while (to < r.to && (uint8_t)b->entries[to].text[depth] == label)
                        to++;
                if (add_node(b, label, (struct range){from, to}) < 0)
                        return -ERR_NOMEM;
                from = to;
        }
        return 0;
}

int tok_trie_build(struct tok_trie *t, struct tok_trie_entry *entries, uint32_t n, struct err *e) {
        struct builder b = {.trie = t, .entries = entries};
        size_t depth = 0;
        int r;

        qsort(entries, n, sizeof(*entries), compare_entries);
        r = add_node(&b, 0, (struct range){0, n});
        for (uint32_t node = 0; r >= 0 && node < t->n; depth++)
                for (uint32_t end = t->n; r >= 0 && node < end; node++)
                        r = fill_node(&b, node, depth);
        free(b.range);
        if (r < 0)
                return err_set(e, ERR_NOMEM, "out of memory for a trie of %u tokens", n);
        t->first[t->n] = t->n;
        return 0;
}

void tok_trie_deinit(struct tok_trie *t) {
        free(t->label);
        free(t->first);
        free(t->id);
        *t = (struct tok_trie){0};
}

uint32_t tok_trie_child(const struct tok_trie *t, uint32_t node, uint8_t byte) {
        uint32_t low = t->first[node], high = t->first[node + 1];

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (t->label[middle] == byte)
                        return middle;
                if (t->label[middle] < byte)
                        low = middle + 1;
                else
                        high = middle;
        }
        return 0;
}
