/* SPDX-License-Identifier: MIT */
/*
 * Finds a conversation (the donor) that has the memory of a prefix on disk.
 *
 * If the model has memory of class ALL, a conversation with memory up to block k has a record for each
 * of the blocks 0..k. So the search walks up the chained hashes as long as a shareable record of the
 * owner has them; the first miss, usually the first look-up, ends the walk. Then it walks down again,
 * looking for conversations that link the deepest record found. Without class ALL a conversation need
 * not have anything of the beginning: then the search walks down from the last block, looking for
 * states behind blocks (or, without states, for blocks of windows). Published conversations are few: all
 * that begin with the same block are tried, or without class ALL simply all. From the end of the best
 * of these the first walk is repeated, for the owner's own conversations that continue it. Only records
 * that the owner itself pays for are looked up, so the duration of a search reveals nothing about other
 * users.
 *
 * 1. A hash only proposes a donor. The donor's tokens are read and compared with the wanted ones; no
 *    cell counts that ends behind the place where they differ (I6).
 * 2. A link counts if its record is a full cell, has the wanted hash, is not private, and is valid for
 *    all tokens of its record. (Otherwise a conversation that was rewound into a block and went on
 *    with tokens of the same hash would offer the memory of its former tokens.)
 * 3. A prefix counts up to a position that is whole with such links: those of class ALL have no gap from
 *    block 0, none of the window that the next token sees is missing, nor the state.
 * 4. In conversations that @owner does not own, only cells entirely below n_published count.
 * 5. The work is bounded by MAX_DONORS comparisons and MAX_STEPS steps of SQLite's machine,
 *    whatever is in the register.
 */
#include "base/util.h"
#include "store/pg.h"
#include "store/places.h"
#include <string.h>

#define MAX_DONORS 16
#define MAX_STEPS 4000000 /* some 100 ms */
#define STEPS_PER_CALL 10000
#define MIN_STATEMENTS 4096

struct search {
        struct store *s;
        uint64_t owner;
        const struct fingerprint *model;
        uint64_t vocab;
        const int32_t *tokens;  /* [n_blocks * block_tokens] */
        const uint64_t *hashes; /* [n_blocks] */
        size_t n_blocks;
        struct store_shape shape;
        uint32_t block_tokens; /* the shape's */
        uint32_t by_class;     /* the search follows links of this class */
        struct store_prefix best;
        uint32_t n_common, donor_tokens; /* as in store_prefix */
        uint64_t tried[MAX_DONORS];
        size_t n_tried;
};

void store_prefix_deinit(struct store_prefix *p) {
        if (!p)
                return;
        for (size_t c = 0; c < STORE_N_CLASSES; c++)
                free(p->records[c]);
        *p = (struct store_prefix){};
}

static void search_deinit(struct search *x) {
        store_prefix_deinit(&x->best);
}

/* The greatest number of blocks, up to @max, behind which the position is whole. Of class ALL there are
 * @max blocks without a gap. */
static size_t whole_blocks(const struct search *x, const struct store_prefix *p, size_t max) {
        const struct store_record *window = p->records[STORE_CLASS_WINDOW];
        const struct store_record *state = p->records[STORE_CLASS_STATE];
        size_t best = 0, run = 0; /* of windows there is no gap from block `run` on */

        for (size_t n = 1; n <= max; n++) {
                uint32_t start = store_window_start(&x->shape, (uint32_t)(n * x->block_tokens));

                if (window && window[n - 1].id == 0)
                        run = n;
                if (window && start / x->block_tokens < run)
                        continue;
                if (state && state[n - 1].id == 0)
                        continue;
                best = n;
        }
        return best;
}

/* How many of @n tokens of a turn equal the wanted ones from @pos on. */
static size_t compare_tokens(const struct search *x, size_t pos, const uint8_t *p, size_t n) {
        size_t end = x->n_blocks * x->block_tokens, i;

        for (i = 0; i < n && pos + i < end; i++)
                if (x->tokens[pos + i] != (int32_t)load_le32(p + 4 * i))
                        break;
        return i;
}

/* How many memory tokens from the start @c has in common with the wanted ones. */
static int common_tokens(struct search *x, const struct store_conv *c, size_t *ret, struct err *e) {
        size_t end = x->n_blocks * x->block_tokens, pos = 0;
        uint32_t at = 0; /* in the transcript */
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_TURN_TOKENS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        while (pos < end) {
                uint32_t first, past, before, behind;
                const uint8_t *p;
                size_t size, n;

                r = query_step(&q, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
                first = query_u32(&q, 1);
                past = query_u32(&q, 2);
                p = query_bytes(&q, 3, &size);
                if (first != at || past < first)
                        query_bad(&q, 1);
                else if (size != ((size_t)past - first) * 4)
                        query_bad(&q, 3);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
                /* The turn's tokens before the gap, and those behind it. */
                at = past;
                before = MAX(MIN(past, c->gap.from), first);
                behind = MIN(MAX(first, c->gap.to), past);
                if (gap_is_none(&c->gap))
                        before = behind = past;
                n = compare_tokens(x, pos, p, before - first);
                pos += n;
                if (n < before - first)
                        break;
                n = compare_tokens(x, pos, p + 4 * (size_t)(behind - first), past - behind);
                pos += n;
                if (n < past - behind)
                        break;
        }
        *ret = pos;
        return 0;
}

/* The index of the cell that ends with block @i. */
static uint64_t cell_index(const struct search *x, uint32_t block_class, size_t i) {
        return block_class == STORE_CLASS_STATE ? ((uint64_t)i + 1) * x->block_tokens - 1 : i;
}

static bool record_offers(const struct search *x, const struct store_record *rec, size_t i) {
        uint32_t n = store_cell_tokens(&x->shape, rec->block_class);

        return rec->index == cell_index(x, rec->block_class, i) && rec->n_tokens == n &&
               rec->n_valid == n && rec->token_hash == x->hashes[i] && !rec->is_private;
}

/* The records of @id of one class that end with the blocks below @max. Of class ALL, up to the first gap:
 * *ret_n. */
static int read_class(struct search *x, uint64_t id, uint32_t block_class, size_t max,
        struct store_record *out, size_t *ret_n, struct err *e) {
        bool is_all = block_class == STORE_CLASS_ALL, by_token = block_class == STORE_CLASS_STATE;
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_LINK_RUN, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, block_class);
        query_bind_u64(&q, by_token ? (uint64_t)max * x->block_tokens : max);
        query_bind_i64(&q, by_token ? x->block_tokens : 1);
        for (*ret_n = 0; *ret_n < max;) {
                struct store_record rec;
                size_t i;

                r = query_step(&q, e);
                if (r <= 0)
                        return r;
                r = record_read(&q, &rec, e);
                if (r < 0)
                        return r;
                i = by_token ? rec.index / x->block_tokens : rec.index;
                if (i >= max || rec.block_class != block_class || !record_offers(x, &rec, i)) {
                        if (is_all)
                                return 0;
                        continue;
                }
                if (is_all && i != *ret_n)
                        return 0;
                out[i] = rec;
                *ret_n = i + 1;
        }
        return 0;
}

/* What @id has of the first @max blocks, in *ret; ret->n is where that is whole. */
static int read_run(
        struct search *x, uint64_t id, size_t max, struct store_prefix *ret, struct err *e) {
        for (uint32_t c = 0; c < STORE_N_CLASSES; c++) {
                size_t n;
                int r;

                if (!store_has_class(&x->shape, c) || max == 0)
                        continue;
                ret->records[c] = calloc(max, sizeof(*ret->records[c]));
                if (!ret->records[c])
                        return err_set(e, ERR_NOMEM, "no memory for spill records");
                r = read_class(x, id, c, max, ret->records[c], &n, e);
                if (r < 0)
                        return r;
                max = c == STORE_CLASS_ALL ? n : max;
        }
        ret->n = whole_blocks(x, ret, max);
        return 0;
}

/* Try one conversation; keep its run if it is the longest so far. */
static int try_donor(struct search *x, uint64_t id, bool is_public, struct err *e) {
        _cleanup_(store_prefix_deinit) struct store_prefix run = {};
        struct store_conv c;
        size_t common, seen;
        int r;

        for (size_t i = 0; i < x->n_tried; i++)
                if (x->tried[i] == id)
                        return 0;
        if (x->n_tried == MAX_DONORS)
                return 0;
        x->tried[x->n_tried++] = id;
        r = conv_read(x->s, id, &c, e);
        if (r < 0)
                return r;
        is_public = is_public && c.owner != x->owner;
        seen = is_public ? c.n_published : store_memory_tokens(&c);
        r = common_tokens(x, &c, &common, e);
        if (r < 0)
                return r;
        common = MIN(common, seen);
        if (common > x->n_common) {
                x->n_common = (uint32_t)common;
                x->donor_tokens = (uint32_t)seen;
        }
        if (common / x->block_tokens <= x->best.n)
                return 0;
        r = read_run(x, id, common / x->block_tokens, &run, e);
        if (r < 0)
                return r;
        if (run.n <= x->best.n)
                return 0;
        run.donor = id;
        run.is_public = is_public;
        store_prefix_deinit(&x->best);
        x->best = run;
        run = (struct store_prefix){};
        return 0;
}

/* Uid, hash, index, tokens and class of the cell that ends with block @i. */
static void bind_cell(struct search *x, struct query *q, size_t i) {
        query_bind_i64(q, x->owner);
        query_bind_u64(q, x->hashes[i]);
        query_bind_u64(q, cell_index(x, x->by_class, i));
        query_bind_i64(q, store_cell_tokens(&x->shape, x->by_class));
        query_bind_i64(q, x->by_class);
}

/* 1 if the owner has a shareable record that may be of block @i, else 0. */
static int has_block(struct search *x, size_t i, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_PREFIX_HAS, e);

        if (r < 0)
                return r;
        bind_cell(x, &q, i);
        return query_step(&q, e);
}

static int collect_ids(struct query *q, uint64_t *ids, size_t *n, struct err *e) {
        int r;

        for (*n = 0; *n < MAX_DONORS; ++*n) {
                r = query_step(q, e);
                if (r <= 0)
                        return r;
                ids[*n] = query_number(q, 0, INT64_MAX);
                r = query_check(q, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void bind_model(struct search *x, struct query *q) {
        query_bind_u64(q, x->model->weights);
        query_bind_u64(q, x->model->rules);
        query_bind_u64(q, x->vocab);
        query_bind_i64(q, MAX_DONORS);
}

/* Conversations of the owner that link a record of the cell that ends with block @i. */
static int own_donors(struct search *x, size_t i, uint64_t *ids, size_t *n, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, x->s, STMT_PREFIX_DONORS, e);

        if (r < 0)
                return r;
        bind_cell(x, &q, i);
        bind_model(x, &q);
        return collect_ids(&q, ids, n, e);
}

static int public_donors(struct search *x, uint64_t *ids, size_t *n, struct err *e) {
        bool by_first = x->by_class == STORE_CLASS_ALL;
        _query_ q = {};
        int r = query_begin(&q, x->s, by_first ? STMT_PREFIX_PUBLIC : STMT_PREFIX_PUBLIC_ANY, e);

        if (r < 0)
                return r;
        if (by_first)
                query_bind_u64(&q, x->hashes[0]);
        query_bind_i64(&q, x->block_tokens);
        bind_model(x, &q);
        return collect_ids(&q, ids, n, e);
}

/* Own conversations that have more than the first @from blocks. */
static int search_own(struct search *x, size_t from, struct err *e) {
        uint64_t ids[MAX_DONORS];
        size_t depth, n;
        int r = 0;

        for (depth = from; depth < x->n_blocks && x->by_class == STORE_CLASS_ALL; depth++) {
                r = has_block(x, depth, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        break;
        }
        if (x->by_class != STORE_CLASS_ALL)
                depth = x->n_blocks;
        for (; depth > MAX(from, x->best.n) && x->n_tried < MAX_DONORS; depth--) {
                r = own_donors(x, depth - 1, ids, &n, e);
                if (r < 0)
                        return r;
                for (size_t i = 0; i < n && x->best.n < depth; i++) {
                        r = try_donor(x, ids[i], false, e);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int search_public(struct search *x, struct err *e) {
        uint64_t ids[MAX_DONORS];
        size_t n;
        int r = public_donors(x, ids, &n, e);

        if (r < 0)
                return r;
        /* Useless candidates of the user must not use up the attempts for published ones. */
        x->n_tried = 0;
        for (size_t i = 0; i < n && x->best.n < x->n_blocks; i++) {
                r = try_donor(x, ids[i], true, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The class whose records show best how far a conversation's memory goes. */
static uint32_t search_class(const struct store_shape *shape) {
        if (store_has_class(shape, STORE_CLASS_ALL))
                return STORE_CLASS_ALL;
        return store_has_class(shape, STORE_CLASS_STATE) ? STORE_CLASS_STATE : STORE_CLASS_WINDOW;
}

static int count_steps(void *arg) {
        unsigned *left = arg;

        return *left == 0 || --*left == 0;
}

/* From now on the work has a bound: steps of SQLite's machine, or statements that a server is asked. */
static void bound(struct store *s, unsigned *left, size_t n_blocks) {
        if (!s->pg) {
                sqlite3_progress_handler(s->db, STEPS_PER_CALL, count_steps, left);
                return;
        }
        s->pg->bounded = true;
        s->pg->n_left = MIN_STATEMENTS + 4 * n_blocks;
}

static void unbound(struct store *s) {
        if (s->pg)
                s->pg->bounded = false;
        else
                sqlite3_progress_handler(s->db, 0, NULL, NULL);
}

int store_prefix_find(struct store *s, uint64_t owner, const struct fingerprint *model,
        uint64_t vocab, const struct store_shape *shape, const int32_t *tokens,
        const uint64_t *hashes, size_t n_blocks, struct store_prefix *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        _cleanup_(search_deinit) struct search x = {.owner = owner,
                .model = model,
                .vocab = vocab,
                .tokens = tokens,
                .hashes = hashes,
                .n_blocks = n_blocks,
                .shape = *shape,
                .block_tokens = shape->block_tokens,
                .by_class = search_class(shape)};
        unsigned left = MAX_STEPS / STEPS_PER_CALL;
        int r = 0;

        if (!store_shape_is_possible(shape) || n_blocks > UINT32_MAX / shape->block_tokens ||
                !owner_possible(owner))
                return err_set(e, ERR_INVALID, "impossible prefix");
        if (n_blocks) {
                r = read_begin(&s, &reading, e);
                if (r < 0)
                        return r;
                x.s = s;
                bound(s, &left, n_blocks);
                r = search_own(&x, 0, e);
                if (r == 0 && x.best.n < n_blocks)
                        r = search_public(&x, e);
                /* The user's own conversations may continue the published one. */
                if (r == 0 && x.best.n < n_blocks && x.best.is_public &&
                        x.by_class == STORE_CLASS_ALL)
                        r = search_own(&x, x.best.n, e);
                unbound(s);
        }
        /* The search hit its bound: use what it has found so far. */
        if (r < 0 && r != -ERR_CANCELLED)
                return r;
        *ret = x.best;
        ret->n_common = x.n_common;
        ret->donor_tokens = x.donor_tokens;
        x.best = (struct store_prefix){};
        return 0;
}
