/* SPDX-License-Identifier: MIT */
/*
 * Checks one conversation: its row, what is noted about it, its turns, its links, all of one moment.
 *
 * Cells: a link is of a cell that memory of the conversation's shape has.
 *
 * Hashes: a record of whose tokens a conversation has all (n_valid == n_tokens) must have the
 * chained hash of that conversation's tokens.
 */
#include "base/hash.h"
#include "base/util.h"
#include "store/check.h"
#include "store/places.h"
#include <string.h>

/* One conversation's tokens, and the hashes of its full blocks. */
struct history {
        struct store_shape shape; /* of its memory */
        int32_t *tokens;
        size_t n_tokens, capacity;
        uint64_t *hashes;
        size_t n_hashes;
        bool sound; /* turns join and have their tokens */
};

static void history_deinit(struct history *h) {
        free(h->tokens);
        free(h->hashes);
}
static int push_tokens(struct history *h, const uint8_t *p, size_t n, struct err *e) {
        if (n > h->capacity - h->n_tokens) {
                size_t grown = MAX(h->n_tokens + n, 2 * h->capacity);
                int32_t *t = reallocarray(h->tokens, grown, sizeof(*t));

                if (!t)
                        return err_set(e, ERR_NOMEM, "no memory for %zu tokens", grown);
                h->tokens = t;
                h->capacity = grown;
        }
        for (size_t i = 0; i < n; i++)
                h->tokens[h->n_tokens++] = (int32_t)load_le32(p + 4 * i);
        return 0;
}

/* One row of the conversation's turns. 1: the later turns cannot be checked without this one. */
static int check_turn(
        struct check *x, struct query *q, uint64_t conv, uint32_t n, struct history *h) {
        struct store_turn t;
        const uint8_t *p;
        size_t size;
        int r = turn_read(q, n, (uint32_t)h->n_tokens, &t, &x->err);

        if (r == -ERR_CORRUPT) {
                check_report(x, STORE_FINDING_TURN, conv, 0, "turn %u: %s", n, x->err.msg);
                return 1;
        }
        if (r < 0)
                return r;
        turn_deinit(&t);
        r = turn_read_tokens(q, &t, &p, &x->err);
        if (r < 0 && r != -ERR_CORRUPT)
                return r;
        if (r < 0)
                check_report(x, STORE_FINDING_TURN, conv, 0, "turn %u: %s", n, x->err.msg);
        /* Tokens that were changed, but are as many as they should be, are still a history. */
        q->bad = NULL;
        p = query_bytes(q, 7, &size);
        r = query_check(q, &x->err);
        if (r < 0 && r != -ERR_CORRUPT)
                return r;
        if (r < 0 || size != ((size_t)t.end - t.start) * 4)
                return 1;
        return push_tokens(h, p, size / 4, &x->err);
}

static int check_turns(struct check *x, const struct store_conv *c, struct history *h) {
        _query_ q = {};
        uint32_t n = 0;
        int r = query_begin(&q, x->s, STMT_CHECK_TURNS, &x->err);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        while ((r = query_step(&q, &x->err)) > 0) {
                r = check_turn(x, &q, c->id, n, h);
                if (r != 0)
                        return r < 0 ? r : 0;
                n++;
        }
        if (r < 0)
                return check_absorb(x, r, STORE_FINDING_TURN, c->id, 0);
        x->census.n_turns += n;
        x->census.n_tokens += h->n_tokens;
        if (n != c->n_turns || h->n_tokens != c->n_tokens)
                check_report(x, STORE_FINDING_CONV, c->id, 0,
                        "conversation of %u turns and %u tokens has %u and %zu", c->n_turns,
                        c->n_tokens, n, h->n_tokens);
        else
                h->sound = true;
        return 0;
}

/* Of the history, keep what the memory is of. */
static void leave_out(const struct gap *gap, struct history *h) {
        if (gap_is_none(gap))
                return;
        memmove(h->tokens + gap->from, h->tokens + gap->to,
                (h->n_tokens - gap->to) * sizeof(*h->tokens));
        h->n_tokens -= gap_size(gap);
}

static int hash_blocks(struct check *x, struct history *h) {
        uint64_t prev = 0;

        if (h->shape.block_tokens == 0)
                return 0;
        h->hashes = calloc(h->n_tokens / h->shape.block_tokens + 1, sizeof(*h->hashes));
        if (!h->hashes)
                return err_set(&x->err, ERR_NOMEM, "no memory for hashes");
        for (; h->n_hashes < h->n_tokens / h->shape.block_tokens; h->n_hashes++)
                prev = h->hashes[h->n_hashes] =
                        hash64_chain_tokens(h->tokens + h->n_hashes * h->shape.block_tokens,
                                h->shape.block_tokens, prev);
        return 0;
}

static void check_hash(
        struct check *x, uint64_t conv, const struct store_record *rec, const struct history *h) {
        uint32_t n = store_cell_tokens(&h->shape, rec->block_class);
        uint64_t end = (uint64_t)rec->index * n + rec->n_valid, start, hash;

        /* Nothing is promised of an empty one: a request was to commit its tokens. */
        if (rec->n_valid == 0)
                return;
        if (end > h->n_tokens) {
                check_report(x, STORE_FINDING_LINK, conv, rec->id,
                        "cell %u of class %u has memory of more tokens than the conversation has",
                        rec->index, rec->block_class);
                return;
        }
        /* Of a cut one only the whole could be hashed. */
        if (rec->n_valid != rec->n_tokens)
                return;
        start = (end - 1) / h->shape.block_tokens;
        hash = hash64_chain_tokens(h->tokens + start * h->shape.block_tokens,
                end - start * h->shape.block_tokens, start > 0 ? h->hashes[start - 1] : 0);
        if (hash != rec->token_hash)
                check_report(x, STORE_FINDING_HASH, conv, rec->id,
                        "record of cell %u of class %u is of other tokens than the conversation "
                        "has",
                        rec->index, rec->block_class);
}

static int check_link(
        struct check *x, struct query *q, const struct store_conv *c, const struct history *h) {
        uint32_t block = query_u32(q, 12), block_class = query_u32(q, 13);
        uint64_t record = query_number(q, 14, INT64_MAX);
        struct store_record rec;
        int r;

        x->census.n_links++;
        if (query_is_null(q, 0)) {
                check_report(x, STORE_FINDING_LINK, c->id, record,
                        "cell %u of class %u refers to record %llu, which does not exist", block,
                        block_class, (unsigned long long)record);
                return 0;
        }
        r = record_read(q, &rec, &x->err);
        if (r < 0)
                return check_absorb(x, r, STORE_FINDING_LINK, c->id, record);
        if (rec.index != block || rec.block_class != block_class)
                check_report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "cell %u of class %u refers to a record of cell %u of class %u", block,
                        block_class, rec.index, rec.block_class);
        else if (!store_has_class(&c->shape, rec.block_class) || rec.n_tokens < 1 ||
                 rec.n_tokens > store_cell_tokens(&c->shape, rec.block_class))
                check_report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "the conversation's memory has no cell %u of class %u with %u tokens",
                        rec.index, rec.block_class, rec.n_tokens);
        else if (rec.n_valid > rec.n_tokens)
                check_report(x, STORE_FINDING_LINK, c->id, rec.id,
                        "cell %u of class %u: %u tokens valid in a record of %u", block,
                        block_class, rec.n_valid, rec.n_tokens);
        else if (h->sound)
                check_hash(x, c->id, &rec, h);
        if (rec.is_private && !c->private_memory)
                check_report(x, STORE_FINDING_ACCESS, c->id, rec.id,
                        "private memory of cell %u of class %u in a conversation that may share it",
                        block, block_class);
        return 0;
}

static int check_links(struct check *x, const struct store_conv *c, const struct history *h) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_CHECK_LINKS, &x->err);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        while ((r = query_step(&q, &x->err)) > 0) {
                r = check_link(x, &q, c, h);
                if (r < 0)
                        return r;
                q.bad = NULL;
        }
        return check_absorb(x, r, STORE_FINDING_LINK, c->id, 0);
}

/* What is noted about a conversation can be read. */
static int check_about(struct check *x, uint64_t id) {
        struct about *about = NULL;
        int r = about_read(x->s, id, NULL, NULL, &about, &x->err);

        if (r == 0 && about)
                r = about_check(about, &x->err);
        if (r == -ERR_INVALID) {
                check_report(x, STORE_FINDING_CONV, id, 0, "what is noted: %s", x->err.msg);
                r = 0;
        }
        free(about);
        return check_absorb(x, r, STORE_FINDING_CONV, id, 0);
}

/* The tokens, in an array that grows to twice their size, and the hashes of their blocks. */
static int admit_tokens(struct check *x, uint64_t id) {
        struct store_sizes sizes;
        int r;

        if (!x->admit)
                return 0;
        r = sizes_read(x->s, id, &sizes, &x->err);
        if (r < 0)
                return r;
        return x->admit(x->admit_arg,
                (size_t)MIN(2 * sizes.tokens_size + sizes.tokens_size / 4 * sizeof(uint64_t),
                        (uint64_t)SIZE_MAX),
                &x->err);
}

int check_conv(struct check *x, uint64_t id) {
        _cleanup_(history_deinit) struct history h = {};
        struct store_conv c;
        int r = conv_read(x->s, id, &c, &x->err);

        x->census.n_convs++;
        if (r == -ERR_NOT_FOUND) /* listed, but with an id that cannot be */
                r = -ERR_CORRUPT;
        if (r < 0)
                return check_absorb(x, r, STORE_FINDING_CONV, id, 0);
        if (c.parent >= id)
                check_report(x, STORE_FINDING_CONV, id, 0, "forked from %llu, which came later",
                        (unsigned long long)c.parent);
        r = check_about(x, id);
        if (r == 0)
                r = check_absorb(x, figures_check(x->s, id, &x->err), STORE_FINDING_TURN, id, 0);
        if (r == 0)
                r = check_absorb(x, admit_tokens(x, id), STORE_FINDING_TURN, id, 0);
        if (r == 0)
                r = check_turns(x, &c, &h);
        if (r < 0)
                return r;
        if (c.shape.block_tokens > 0 && !store_shape_is_possible(&c.shape))
                check_report(
                        x, STORE_FINDING_CONV, id, 0, "no model's memory is as its shape says");
        h.shape = c.shape;
        if (h.sound) {
                leave_out(&c.gap, &h);
                r = hash_blocks(x, &h);
                if (r < 0)
                        return r;
        }
        return check_links(x, &c, &h);
}
