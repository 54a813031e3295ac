/* SPDX-License-Identifier: MIT */
/*
 * Sequences: tables of references to blocks.
 *
 * Three counters describe a table of n_blocks entries (bt = block_tokens):
 *
 *      0 ............ n_tokens ........ n_tokens + n_reserved
 *      [ committed            ][ reserved ]
 *
 * 1. n_blocks == ceil((n_tokens + n_reserved) / bt).
 * 2. Entries below ceil(n_tokens / bt) are committed, and may be holes. The others are never holes
 *    and belong to this sequence alone, since no one else can have got a reference to them.
 * 3. n_reserved > 0 implies: no holes, and the block of position n_tokens belongs to this sequence
 *    alone. Because of this, writing and committing cannot fail.
 * 4. data[i] is the address of blocks[i]'s data, or NULL for a hole.
 *
 * seq_reserve() therefore does everything that can fail (growing the table, taking blocks) before
 * it makes any visible change. A block's content changes for others (its tag is reset) only in
 * seq_commit(): bytes after n_tokens are undefined for everyone.
 */
#include "seq/seq-pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

struct seq {
        struct seq_pool *pool;
        struct seq_block **blocks; /* [capacity], the first n_blocks in use */
        void **data;               /* [capacity] */
        size_t capacity, n_blocks, n_holes;
        uint32_t n_tokens, n_reserved, block_tokens;
};

static size_t blocks_for(const struct seq *s, uint64_t n_tokens) {
        return (size_t)((n_tokens + s->block_tokens - 1) / s->block_tokens);
}

static int table_grow(struct seq *s, size_t n, struct err *e) {
        size_t capacity = MAX(n, MIN(s->capacity * 2, s->capacity + 1024));
        struct seq_block **blocks;
        void **data;

        if (n <= s->capacity)
                return 0;
        if (capacity > SIZE_MAX / sizeof(void *))
                return err_set(e, ERR_NOMEM, "no memory for a table of %zu blocks", n);
        /* If the second fails the first is merely larger than it need be. */
        blocks = realloc(s->blocks, capacity * sizeof(*blocks));
        if (!blocks)
                return err_set(e, ERR_NOMEM, "no memory for a table of %zu blocks", n);
        s->blocks = blocks;
        data = realloc(s->data, capacity * sizeof(*data));
        if (!data)
                return err_set(e, ERR_NOMEM, "no memory for a table of %zu blocks", n);
        s->data = data;
        s->capacity = capacity;
        return 0;
}

/* Shorten the table to @n entries. */
static void table_cut(struct seq *s, size_t n) {
        while (s->n_blocks > n) {
                struct seq_block *b = s->blocks[--s->n_blocks];

                if (!b)
                        s->n_holes--;
                seq_block_unref(b);
        }
}

static void table_set(struct seq *s, size_t i, struct seq_block *b) {
        s->blocks[i] = b;
        s->data[i] = b ? seq_block_data(b) : NULL;
}

int seq_new(struct seq **ret, struct seq_pool *p, struct err *e) {
        struct seq *s = calloc(1, sizeof(*s));

        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for a sequence");
        s->pool = p;
        s->block_tokens = seq_pool_block_tokens(p);
        *ret = s;
        return 0;
}

struct seq *seq_free(struct seq *s) {
        if (!s)
                return NULL;
        table_cut(s, 0);
        free(s->blocks);
        free(s->data);
        free(s);
        return NULL;
}

/* The block that holds position n_tokens is partly committed. */
static bool has_partial_tail(const struct seq *s) {
        return s->n_tokens % s->block_tokens != 0;
}

int seq_fork(struct seq **ret, const struct seq *src, uint32_t pos, struct err *e) {
        _cleanup_(seq_freep) struct seq *s = NULL;
        size_t n;
        int r;

        if (pos > src->n_tokens)
                return err_set(e, ERR_INVALID, "cannot fork at %u, the sequence ends at %u", pos,
                        src->n_tokens);
        /* Invariant 3: the block that the source may be writing into cannot be shared. */
        if (src->n_reserved > 0 && has_partial_tail(src) &&
                pos > src->n_tokens - src->n_tokens % src->block_tokens)
                return err_set(e, ERR_STATE, "cannot share a block that is reserved for writing");
        r = seq_new(&s, src->pool, e);
        if (r < 0)
                return r;
        n = blocks_for(s, pos);
        r = table_grow(s, n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                struct seq_block *b = src->blocks[i];

                if (b)
                        seq_block_ref(b);
                else
                        s->n_holes++;
                table_set(s, i, b);
        }
        s->n_blocks = n;
        s->n_tokens = pos;
        seq_pool_note_fork(s->pool);
        *ret = TAKE_PTR(s);
        return 0;
}

uint32_t seq_n_tokens(const struct seq *s) {
        return s->n_tokens;
}

uint32_t seq_n_reserved(const struct seq *s) {
        return s->n_reserved;
}

size_t seq_n_blocks(const struct seq *s) {
        return blocks_for(s, s->n_tokens);
}

size_t seq_n_resident(const struct seq *s) {
        return seq_n_blocks(s) - s->n_holes;
}

struct seq_block *seq_block_at(const struct seq *s, size_t i) {
        assert(i < seq_n_blocks(s));
        return s->blocks[i];
}

struct seq_block *seq_slot(const struct seq *s, size_t i) {
        assert(i < s->n_blocks);
        return s->blocks[i];
}

void seq_replace(struct seq *s, size_t i, struct seq_block *b) {
        struct seq_block *ours = seq_slot(s, i);

        table_set(s, i, seq_block_ref(b));
        seq_block_unref(ours);
}

/* Whether the first write would go into a shared block. */
static bool must_copy_tail(const struct seq *s, uint32_t n) {
        const struct seq_block *tail;

        if (n == 0 || !has_partial_tail(s))
                return false;
        tail = s->blocks[s->n_tokens / s->block_tokens];
        return tail && seq_block_n_refs(tail) > 1;
}

size_t seq_reserve_cost(const struct seq *s, uint32_t n) {
        size_t n_need = blocks_for(s, (uint64_t)s->n_tokens + n);

        return (n_need > s->n_blocks ? n_need - s->n_blocks : 0) + must_copy_tail(s, n);
}

int seq_reserve(struct seq *s, uint32_t n, struct err *e) {
        size_t n_fresh, n_take = seq_reserve_cost(s, n), tail = s->n_tokens / s->block_tokens;
        bool copy = must_copy_tail(s, n);
        int r;

        if (s->n_holes > 0)
                return err_set(e, ERR_STATE, "%zu of %zu blocks are not in memory", s->n_holes,
                        seq_n_blocks(s));
        if (n > UINT32_MAX - s->n_tokens)
                return err_set(
                        e, ERR_INVALID, "cannot reserve %u tokens behind %u", n, s->n_tokens);
        /* Not even a table is made for what can never be had. */
        if (n_take > seq_pool_max_blocks(s->pool))
                return SEQ_FULL;
        r = table_grow(s, s->n_blocks + n_take, e);
        if (r < 0)
                return r;
        /* Behind the end of the table nobody sees what a failure may leave. */
        r = seq_pool_take(s->pool, n_take ? s->blocks + s->n_blocks : NULL, n_take, e);
        if (r)
                return r;

        n_fresh = n_take - copy;
        for (size_t i = 0; i < n_fresh; i++) {
                struct seq_block *b = s->blocks[s->n_blocks + i];

                seq_pool_clear(b);
                table_set(s, s->n_blocks + i, b);
        }
        if (copy) {
                struct seq_block *b = s->blocks[s->n_blocks + n_fresh];

                seq_pool_copy(b, s->blocks[tail]);
                seq_block_unref(s->blocks[tail]);
                table_set(s, tail, b);
        } else if (n > 0 && has_partial_tail(s)) {
                /* It may have been full before a cut; no one may find it while it is written. */
                seq_index_drop_block(s->blocks[tail]);
        }
        s->n_blocks += n_fresh;
        s->n_reserved = MAX(s->n_reserved, n);
        return 0;
}

void seq_commit(struct seq *s, uint32_t n) {
        size_t tail = s->n_tokens / s->block_tokens;

        assert(n <= s->n_reserved);
        if (n == 0)
                return;
        /* The other blocks written are fresh, their tag is 0 already. */
        seq_block_set_tag(s->blocks[tail], 0);
        s->n_tokens += n;
        s->n_reserved -= n;
}

void seq_unreserve(struct seq *s) {
        s->n_reserved = 0;
        table_cut(s, seq_n_blocks(s));
}

uint32_t seq_cut(struct seq *s, uint32_t pos) {
        s->n_tokens = MIN(s->n_tokens, pos);
        seq_unreserve(s);
        return s->n_tokens;
}

void *const *seq_table(const struct seq *s) {
        assert(s->n_holes == 0);
        return s->data;
}

void seq_drop(struct seq *s, size_t i) {
        assert(i < seq_n_blocks(s));
        seq_unreserve(s);
        if (!s->blocks[i])
                return;
        seq_block_unref(s->blocks[i]);
        table_set(s, i, NULL);
        s->n_holes++;
}

void seq_attach(struct seq *s, size_t i, struct seq_block *b) {
        assert(i < seq_n_blocks(s) && !s->blocks[i]);
        table_set(s, i, seq_block_ref(b));
        s->n_holes--;
}

int seq_set_holes(struct seq *s, uint32_t n_tokens, struct err *e) {
        size_t n = blocks_for(s, n_tokens);
        int r;

        if (s->n_tokens > 0)
                return err_set(e, ERR_STATE, "the sequence is not empty");
        r = table_grow(s, n, e);
        if (r < 0)
                return r;
        seq_unreserve(s);
        for (size_t i = 0; i < n; i++)
                table_set(s, i, NULL);
        s->n_blocks = s->n_holes = n;
        s->n_tokens = n_tokens;
        return 0;
}

int seq_adopt(struct seq *s, struct seq_block *const *blocks, size_t n, struct err *e) {
        int r;

        if (has_partial_tail(s) || s->n_reserved > 0)
                return err_set(e, ERR_STATE, "the sequence does not end at a block's border");
        if (n > (UINT32_MAX - s->n_tokens) / s->block_tokens)
                return err_set(e, ERR_INVALID, "cannot append %zu blocks behind %u tokens", n,
                        s->n_tokens);
        r = table_grow(s, s->n_blocks + n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                table_set(s, s->n_blocks + i, seq_block_ref(blocks[i]));
        s->n_blocks += n;
        s->n_tokens += (uint32_t)n * s->block_tokens;
        return 0;
}
