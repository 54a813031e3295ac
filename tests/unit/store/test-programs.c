/* SPDX-License-Identifier: MIT */
/*
 * Random programs compared with a model of the register in RAM: after each step store_check() finds
 * nothing, and tokens, links, owners and removed records equal the model's. Tokens are 0 or 1 and
 * blocks are small, so that conversations often have common prefixes. Each program has memory of
 * another shape; is_whole() says of a position what lib/seq/seq.h says, cell by cell.
 */
#include "store-fixture.h"

enum { BT = 4, MAX_CONVS = 10, MAX_TOKENS = 96, MAX_TURNS = 24, MAX_BLOCKS = MAX_TOKENS / BT };
enum { N_PROGRAMS = 60, N_ON_SERVER = 8, N_STEPS = 60, MAX_RECORDS = 8192, PAGE = 4096 };

static const struct fingerprint model = {11, 12};
enum {
        ALL = 1 << STORE_CLASS_ALL,
        WINDOW = 1 << STORE_CLASS_WINDOW,
        STATE = 1 << STORE_CLASS_STATE
};
static const struct store_shape shapes[] = {
        {BT, ALL, 0, 0},
        {BT, ALL | WINDOW, 6, 0},
        {BT, ALL | STATE, 0, 0},
        {BT, ALL | WINDOW, 0, 8},
        {BT, STATE, 0, 0},
        {BT, ALL | WINDOW | STATE, 7, 0},
        {BT, WINDOW, 5, 0},
        {BT, ALL | WINDOW, 0, 10},
        {BT, WINDOW | STATE, 0, 12},
        {BT, ALL | WINDOW, 1, 0},
};

/* One is a tenant of another. */
static const uint64_t owners[] = {1, 2, 1 | 1ull << 32};

struct record {
        bool live, is_private;
        uint32_t block_class, index, n_tokens;
        uint64_t owner, hash;
};
struct link {
        uint64_t record; /* 0: none */
        uint32_t n_valid;
};
struct conv {
        uint64_t id; /* 0: not there */
        uint64_t owner;
        uint32_t n, n_turns, published;
        bool is_private, pinned;
        int32_t tokens[MAX_TOKENS];
        uint32_t ends[MAX_TURNS], roles[MAX_TURNS];
        struct link links[STORE_N_CLASSES][MAX_TOKENS]; /* by class and index */
};
struct world {
        struct fixture *f;
        struct store_shape shape;
        uint32_t seed;
        uint64_t place;
        struct conv convs[MAX_CONVS];
        struct record records[MAX_RECORDS];
};

static uint32_t pick(struct world *w, uint32_t n) {
        w->seed = w->seed * 1664525u + 1013904223u;
        return (uint32_t)((uint64_t)(w->seed >> 8) * n >> 24);
}

static struct conv *free_slot(struct world *w) {
        for (int i = 0; i < MAX_CONVS; i++)
                if (w->convs[i].id == 0)
                        return &w->convs[i];
        return NULL;
}

static struct conv *any_conv(struct world *w) {
        for (int k = 0; k < 8; k++) {
                struct conv *c = &w->convs[pick(w, MAX_CONVS)];

                if (c->id)
                        return c;
        }
        return NULL;
}

static uint32_t cell_tokens(uint32_t block_class) {
        return block_class == STORE_CLASS_STATE ? 1 : BT;
}

static uint32_t n_cells(uint32_t block_class) {
        return MAX_TOKENS / cell_tokens(block_class);
}

/* Records without links go, and are just those in @gone. */
static void expect_gone(struct world *w, struct store_gone *gone) {
        static bool linked[MAX_RECORDS];

        memset(linked, 0, sizeof(linked));
        for (int i = 0; i < MAX_CONVS; i++)
                for (uint32_t x = 0; w->convs[i].id && x < STORE_N_CLASSES; x++)
                        for (uint32_t b = 0; b < n_cells(x); b++)
                                linked[w->convs[i].links[x][b].record] = true;
        for (size_t i = 0; i < gone->n; i++) {
                struct record *r = &w->records[gone->records[i].id];

                assert_true(r->live && !linked[gone->records[i].id]);
                assert_int_equal(gone->records[i].owner, r->owner);
                r->live = false;
        }
        for (uint64_t id = 1; id < MAX_RECORDS; id++)
                assert_false(w->records[id].live && !linked[id]);
        store_gone_deinit(gone);
}

static uint64_t block_hash(const struct conv *c, uint32_t index, uint32_t n) {
        uint64_t hash = 0;

        for (uint32_t i = 0; i < index; i++)
                hash = hash64_chain_tokens(c->tokens + BT * i, BT, hash);
        return hash64_chain_tokens(c->tokens + BT * index, n, hash);
}

/* Of the tokens up to the end of @n in the cell. */
static uint64_t cell_hash(const struct conv *c, uint32_t block_class, uint32_t index, uint32_t n) {
        return block_class == STORE_CLASS_STATE ? block_hash(c, index / BT, index % BT + 1)
                                                : block_hash(c, index, n);
}

/* Keep the first @n tokens' links. */
static void cut_links(struct conv *c, uint32_t n) {
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b < n_cells(x); b++) {
                        struct link *l = &c->links[x][b];

                        if (b * cell_tokens(x) >= n)
                                *l = (struct link){0};
                        else if (l->n_valid > n - b * cell_tokens(x))
                                l->n_valid = n - b * cell_tokens(x);
                }
}

/* Whether @c has these tokens of a class on disk. */
static bool has_tokens(const struct conv *c, uint32_t block_class, uint32_t from, uint32_t to) {
        uint32_t n = cell_tokens(block_class);

        for (uint32_t t = from; t < to; t++)
                if (c->links[block_class][t / n].record == 0 ||
                        c->links[block_class][t / n].n_valid <= t % n)
                        return false;
        return true;
}

/* The first token of the cells of windows that position @p needs. */
static uint32_t window_first(const struct world *w, uint32_t p) {
        uint32_t start = w->shape.chunk            ? p / w->shape.chunk * w->shape.chunk
                         : p + 1 > w->shape.window ? p + 1 - w->shape.window
                                                   : 0;

        return start / BT * BT;
}

static bool is_whole(const struct world *w, const struct conv *c, uint32_t p) {
        const struct store_shape *x = &w->shape;

        return p == 0 ||
               ((!(x->classes & ALL) || has_tokens(c, STORE_CLASS_ALL, 0, p)) &&
                       (!(x->classes & WINDOW) ||
                               has_tokens(c, STORE_CLASS_WINDOW, window_first(w, p), p)) &&
                       (!(x->classes & STATE) || has_tokens(c, STORE_CLASS_STATE, p - 1, p)));
}

static bool needs(const struct world *w, uint32_t p, uint32_t block_class, uint32_t index) {
        uint32_t start = index * cell_tokens(block_class), end = start + cell_tokens(block_class);

        if (block_class == STORE_CLASS_STATE)
                return end == p;
        return start < p && (block_class == STORE_CLASS_ALL || end > window_first(w, p));
}

/* Some whole position needs each cell that it has. */
static void expect_useful(const struct world *w, const struct conv *c) {
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b < n_cells(x); b++) {
                        bool any = c->links[x][b].record == 0;

                        for (uint32_t p = 1; !any && p <= c->n; p++)
                                any = needs(w, p, x, b) && is_whole(w, c, p);
                        assert_true(any);
                }
}

/* Some turns behind the end of @c, in @turns; their number. */
static uint32_t make_turns(struct world *w, struct conv *c, struct store_turn *turns) {
        uint32_t n = pick(w, 3), i;

        for (i = 0; i < n && c->n_turns < MAX_TURNS; i++) {
                uint32_t size = pick(w, 14);

                if (size > MAX_TOKENS - c->n)
                        break;
                turns[i] =
                        (struct store_turn){.role = pick(w, 4), .start = c->n, .end = c->n + size};
                for (uint32_t k = 0; k < size; k++)
                        c->tokens[c->n++] = (int32_t)(pick(w, 8) == 0);
                c->roles[c->n_turns] = turns[i].role;
                c->ends[c->n_turns++] = c->n;
        }
        return i;
}

static void step_create(struct world *w) {
        struct conv *c = free_slot(w);
        struct store_turn turns[3];
        struct store_conv sc = {.model = model, .shape = w->shape};
        uint32_t n;

        if (!c)
                return;
        *c = (struct conv){.owner = owners[pick(w, 3)], .is_private = pick(w, 6) == 0};
        n = make_turns(w, c, turns);
        sc.owner = c->owner;
        sc.private_memory = c->is_private;
        assert_int_equal(store_conv_create(w->f->s, &sc, turns, n, c->tokens, c->n, &w->f->e), 0);
        c->id = sc.id;
}

static void step_append(struct world *w, struct conv *c) {
        struct store_turn turns[3];
        uint32_t from = c->n, n = make_turns(w, c, turns);
        uint64_t revision;

        assert_int_equal(store_append(w->f->s, c->id, turns, n, c->tokens + from, c->n - from,
                                 &revision, &w->f->e),
                0);
}

/* Where to cut @c: the turns kept, and what becomes of the last (NULL: it stays). */
static const struct store_turn *pick_end(
        struct world *w, const struct conv *c, uint32_t *n_turns, struct store_turn *last) {
        uint32_t start;

        *n_turns = pick(w, c->n_turns + 1);
        if (*n_turns == 0 || pick(w, 2))
                return NULL;
        start = *n_turns > 1 ? c->ends[*n_turns - 2] : 0;
        *last = (struct store_turn){.role = c->roles[*n_turns - 1],
                .start = start,
                .end = start + pick(w, c->ends[*n_turns - 1] - start + 1),
                .finish = pick(w, 6)};
        return last;
}

static void cut_conv(struct conv *c, uint32_t n_turns, const struct store_turn *last) {
        c->n_turns = n_turns;
        if (last)
                c->ends[n_turns - 1] = last->end;
        c->n = n_turns ? c->ends[n_turns - 1] : 0;
        c->published = c->published < c->n ? c->published : c->n;
        cut_links(c, c->n);
}

static void step_rewind(struct world *w, struct conv *c) {
        struct store_turn buf;
        struct store_gone gone = {};
        uint64_t revision;
        uint32_t n;
        const struct store_turn *last = pick_end(w, c, &n, &buf);

        assert_int_equal(
                store_rewind(w->f->s, c->id, n, last, NULL, &revision, &gone, &w->f->e), 0);
        cut_conv(c, n, last);
        expect_gone(w, &gone);
}

static void step_replace(struct world *w, struct conv *c) {
        struct store_turn buf, turns[3];
        struct store_gone gone = {};
        uint32_t n_kept, from, n;
        uint64_t revision;
        const struct store_turn *last = pick_end(w, c, &n_kept, &buf);

        cut_conv(c, n_kept, last);
        from = c->n;
        n = make_turns(w, c, turns);
        assert_int_equal(store_replace(w->f->s, c->id, n_kept, last, NULL, turns, n,
                                 c->tokens + from, c->n - from, &revision, &gone, &w->f->e),
                0);
        expect_gone(w, &gone);
}

static void step_fork(struct world *w, struct conv *parent) {
        struct conv *c = free_slot(w);
        struct store_conv child = {};
        struct store_turn buf;
        const struct store_turn *last;
        uint32_t n;

        if (!c)
                return;
        last = pick_end(w, parent, &n, &buf);
        assert_int_equal(store_conv_fork(w->f->s, parent->id, n, last, NULL, &child, &w->f->e), 0);
        *c = *parent;
        c->id = child.id;
        c->published = 0;
        c->pinned = false;
        cut_conv(c, n, last);
}

/* What @c has of a cell, as a search for @want sees it: nothing of what it must not give. */
static struct link offer(const struct world *w, const struct conv *c, uint32_t block_class,
        uint32_t index, const struct conv *want) {
        struct link l = c->links[block_class][index];
        const struct record *r = &w->records[l.record];
        uint32_t n = cell_tokens(block_class);

        if (l.record && l.n_valid == n && r->n_tokens == n && !r->is_private &&
                (index + 1) * n <= want->n && r->hash == cell_hash(want, block_class, index, n))
                return l;
        return (struct link){0};
}

/* What the search should find; see prefix.c. */
static size_t run_of(
        const struct world *w, const struct conv *c, bool is_public, const struct conv *want) {
        static struct conv seen;
        size_t best = 0;

        seen = *want;
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b < n_cells(x); b++)
                        seen.links[x][b] = offer(w, c, x, b, want);
        for (uint32_t n = 1; n * BT <= want->n; n++)
                if (n * BT <= c->n && !(is_public && n * BT > c->published) &&
                        memcmp(c->tokens, want->tokens, n * BT * sizeof(int32_t)) == 0 &&
                        is_whole(w, &seen, n * BT))
                        best = n;
        return best;
}

/* The class that the search follows, and the cell of it that ends with a block. */
static uint32_t by_class(const struct world *w) {
        return w->shape.classes & ALL     ? STORE_CLASS_ALL
               : w->shape.classes & STATE ? STORE_CLASS_STATE
                                          : STORE_CLASS_WINDOW;
}
static uint32_t by_index(const struct world *w, size_t depth) {
        return by_class(w) == STORE_CLASS_STATE ? (uint32_t)depth * BT - 1 : (uint32_t)depth - 1;
}

static bool pays_for(const struct world *w, uint64_t owner, size_t depth, const struct conv *want) {
        uint32_t x = by_class(w), index = by_index(w, depth);

        for (uint64_t id = 1; id < MAX_RECORDS; id++) {
                const struct record *r = &w->records[id];

                if (r->live && !r->is_private && r->owner == owner && r->block_class == x &&
                        r->index == index && r->n_tokens == cell_tokens(x) &&
                        r->hash == cell_hash(want, x, index, cell_tokens(x)))
                        return true;
        }
        return false;
}

static size_t best_own(
        const struct world *w, uint64_t owner, size_t from, size_t best, const struct conv *want) {
        size_t depth = from;

        while (depth < want->n / BT &&
                (!(w->shape.classes & ALL) || pays_for(w, owner, depth + 1, want)))
                depth++;
        for (; depth > from && depth > best; depth--)
                for (int i = 0; i < MAX_CONVS; i++) {
                        const struct conv *c = &w->convs[i];
                        struct link l = offer(w, c, by_class(w), by_index(w, depth), want);

                        if (c->id && c->owner == owner && !c->is_private && l.record &&
                                w->records[l.record].owner == owner) {
                                size_t n = run_of(w, c, false, want);

                                best = n > best ? n : best;
                        }
                }
        return best;
}

static size_t expected_run(const struct world *w, uint64_t owner, const struct conv *want) {
        size_t best = best_own(w, owner, 0, 0, want);
        bool is_public = false;

        for (int i = 0; i < MAX_CONVS; i++) {
                const struct conv *c = &w->convs[i];
                size_t n = c->id && c->published && !c->is_private ? run_of(w, c, true, want) : 0;

                if (n > best) {
                        best = n;
                        is_public = true;
                }
        }
        return is_public ? best_own(w, owner, best, best, want) : best;
}

/* All that the donor has is told, and it makes the end whole. */
static void expect_found(const struct world *w, const struct store_prefix *p, const struct conv *c,
        const struct conv *want) {
        static struct conv seen;

        seen = (struct conv){0};
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++) {
                assert_int_equal(p->records[x] != NULL, w->shape.classes >> x & 1);
                for (uint32_t i = 0; p->records[x] && i < p->n; i++) {
                        uint32_t index = x == STORE_CLASS_STATE ? (i + 1) * BT - 1 : i;

                        seen.links[x][index] = offer(w, c, x, index, want);
                        assert_int_equal(seen.links[x][index].record, p->records[x][i].id);
                }
        }
        assert_true(is_whole(w, &seen, (uint32_t)p->n * BT));
}

static struct store_prefix find(struct world *w, uint64_t owner, const struct conv *want) {
        uint64_t hashes[MAX_BLOCKS];
        struct store_prefix p = {};
        size_t n = want->n / BT, expected = expected_run(w, owner, want);

        for (uint32_t i = 0; i < n; i++)
                hashes[i] = block_hash(want, i, BT);
        assert_int_equal(store_prefix_find(w->f->s, owner, &model, 0, &w->shape, want->tokens,
                                 hashes, n, &p, &w->f->e),
                0);
        assert_true(p.n >= expected);
        /* It may be lucky: an own conversation is looked at whole. But never too lucky. */
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (size_t i = 0; p.records[x] && i < p.n; i++) {
                        const struct record *r = &w->records[p.records[x][i].id];

                        if (p.records[x][i].id == 0)
                                continue;
                        assert_true(r->live && !r->is_private && r->block_class == x);
                        assert_int_equal(r->n_tokens, cell_tokens(x));
                        assert_int_equal((r->index + 1) * cell_tokens(x), (i + 1) * BT);
                        assert_true(r->hash == hashes[i]);
                }
        for (int i = 0; p.n && i < MAX_CONVS; i++) {
                const struct conv *c = &w->convs[i];

                if (c->id != p.donor)
                        continue;
                assert_false(c->is_private);
                assert_true(c->owner == owner || c->published >= p.n * BT);
                assert_int_equal(run_of(w, c, c->owner != owner, want), p.n);
                assert_int_equal(p.is_public, c->owner != owner);
                expect_found(w, &p, c, want);
        }
        return p;
}

static void step_find(struct world *w, struct conv *c) {
        struct conv want = *c;
        struct store_prefix p;

        if (want.n && pick(w, 2))
                want.tokens[pick(w, want.n)] ^= 1;
        p = find(w, 1 + pick(w, 3), &want);
        store_prefix_deinit(&p);
}

/* Whether @c would write this cell now: nobody keeps all of a window, or every state. */
static bool writes(struct world *w, const struct conv *c, uint32_t block_class, uint32_t index) {
        if (!(w->shape.classes >> block_class & 1))
                return false;
        if (block_class == STORE_CLASS_STATE)
                return index + 1 == c->n || pick(w, index % BT == BT - 1 ? 3 : 12) == 0;
        return block_class == STORE_CLASS_ALL || pick(w, 6);
}

/* Write the memory of @c: shared where somebody has it, new where not. */
static void step_link(struct world *w, struct conv *c) {
        struct store_record links[MAX_BLOCKS * 2 + MAX_TOKENS] = {};
        struct store_gone gone = {};
        struct store_prefix p = {};
        size_t n = 0;

        if (!c->is_private && pick(w, 2))
                p = find(w, c->owner, c);
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b * cell_tokens(x) < c->n; b++) {
                        uint32_t ct = cell_tokens(x), left = c->n - b * ct;
                        uint32_t in_cell = left < ct ? left : ct, i = (b + 1) * ct / BT - 1;
                        const struct link *l = &c->links[x][b];

                        if (!writes(w, c, x, b) ||
                                (l->record && l->n_valid == in_cell &&
                                        w->records[l->record].n_tokens == in_cell))
                                continue;
                        if ((b + 1) * ct % BT == 0 && i < p.n && p.records[x][i].id)
                                links[n++] = p.records[x][i];
                        else
                                links[n++] = (struct store_record){.file_key = c->id,
                                        .offset = PAGE * w->place++,
                                        .stored_size = PAGE,
                                        .block_class = x,
                                        .index = b,
                                        .n_tokens = in_cell,
                                        .token_hash = cell_hash(c, x, b, in_cell)};
                }
        assert_int_equal(
                store_link(w->f->s, c->id, &model, &w->shape, links, n, NULL, 0, &gone, &w->f->e),
                0);
        for (size_t i = 0; i < n; i++) {
                const struct store_record *r = &links[i];

                assert_true(r->id > 0 && r->id < MAX_RECORDS);
                c->links[r->block_class][r->index] = (struct link){r->id, r->n_tokens};
                w->records[r->id] = (struct record){.live = true,
                        .is_private = r->is_private,
                        .owner = r->owner,
                        .block_class = r->block_class,
                        .index = r->index,
                        .n_tokens = r->n_tokens,
                        .hash = r->token_hash};
                assert_int_equal(r->is_private, c->is_private);
        }
        store_prefix_deinit(&p);
        expect_gone(w, &gone);
}

static void step_unlink(struct world *w, struct conv *c) {
        struct store_gone gone = {};
        uint32_t from = pick(w, MAX_TOKENS);

        assert_int_equal(store_unlink_from(w->f->s, c->id, from, &gone, &w->f->e), 0);
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = from / cell_tokens(x); b < n_cells(x); b++)
                        c->links[x][b] = (struct link){0};
        expect_gone(w, &gone);
}

/* Checkpoints are given up, and what windows have passed. */
static void step_unlink_cells(struct world *w, struct conv *c) {
        struct store_cell cells[8];
        struct store_gone gone = {};
        size_t n = pick(w, 8);

        for (size_t i = 0; i < n; i++) {
                uint32_t x = STORE_CLASS_WINDOW + pick(w, 2);

                cells[i] = (struct store_cell){x, pick(w, n_cells(x))};
                c->links[x][cells[i].index] = (struct link){0};
        }
        assert_int_equal(store_unlink_cells(w->f->s, c->id, cells, n, &gone, &w->f->e), 0);
        expect_gone(w, &gone);
}

/* Remove from the model what a call says that conversations lost. */
static void take_cuts(struct world *w, const struct store_reclaimed *got, const struct conv *keep) {
        for (size_t i = 0; i < got->n_cuts; i++)
                for (int k = 0; k < MAX_CONVS; k++) {
                        const struct store_cut *cut = &got->cuts[i];
                        struct conv *c = &w->convs[k];

                        if (c->id != cut->conv)
                                continue;
                        assert_true(c != keep && cut->from < cut->to);
                        assert_true(w->shape.classes >> cut->block_class & 1);
                        for (uint32_t b = cut->from; b < n_cells(cut->block_class) && b < cut->to;
                                b++)
                                c->links[cut->block_class][b] = (struct link){0};
                }
}

/* A record is damaged. */
static void step_forget(struct world *w, const struct conv *c) {
        uint32_t x = pick(w, STORE_N_CLASSES), b = pick(w, n_cells(x));
        uint64_t record = c->links[x][b].record;
        struct store_reclaimed got = {};

        assert_int_equal(store_forget_record(w->f->s, record, &got, &w->f->e), 0);
        take_cuts(w, &got, NULL);
        for (int i = 0; record && i < MAX_CONVS; i++) {
                const struct conv *other = &w->convs[i];

                assert_true(other->id == 0 || other->links[x][b].record != record);
        }
        for (size_t i = 0; record && x != STORE_CLASS_ALL && i < got.gone.n; i++)
                assert_int_equal(got.gone.records[i].id, record);
        expect_gone(w, &got.gone);
        store_reclaimed_deinit(&got);
}

static void step_publish(struct world *w, struct conv *c) {
        uint32_t n = pick(w, 3) ? pick(w, c->n + 1) : 0;

        assert_int_equal(store_conv_publish(w->f->s, c->id, n, &w->f->e),
                n && c->is_private ? -ERR_STATE : 0);
        if (!c->is_private)
                c->published = n;
}

static void step_pin(struct world *w, struct conv *c) {
        c->pinned = pick(w, 3) > 0;
        assert_int_equal(store_conv_update(w->f->s, c->id, NULL, NULL, STORE_OVERFLOW_KEEP,
                                 &c->pinned, NULL, &w->f->e),
                0);
}

static void step_delete(struct world *w, struct conv *c) {
        struct store_gone gone = {};

        assert_int_equal(store_conv_delete(w->f->s, c->id, &gone, &w->f->e), 0);
        *c = (struct conv){0};
        expect_gone(w, &gone);
}

static bool keeps(const struct conv *keep, uint64_t record) {
        for (uint32_t x = 0; keep && x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b < n_cells(x); b++)
                        if (keep->links[x][b].record == record)
                                return true;
        return false;
}

static void step_reclaim(struct world *w, struct conv *keep) {
        uint64_t owner = pick(w, 2) ? OWNER_ANY : owners[pick(w, 3)];
        uint64_t wanted = pick(w, 12) * PAGE, bytes = 0;
        struct store_reclaimed got = {};

        keep = pick(w, 2) ? keep : NULL;
        assert_int_equal(
                store_reclaim(w->f->s, owner, wanted, keep ? keep->id : 0, &got, &w->f->e), 0);
        take_cuts(w, &got, keep);
        for (size_t i = 0; i < got.n_cuts && w->shape.classes != ALL; i++)
                for (int k = 0; k < MAX_CONVS; k++)
                        if (w->convs[k].id == got.cuts[i].conv)
                                expect_useful(w, &w->convs[k]);
        for (size_t i = 0; i < got.gone.n; i++)
                if (owner == OWNER_ANY || got.gone.records[i].owner == owner)
                        bytes += got.gone.records[i].stored_size;
        assert_int_equal(bytes, got.bytes);
        expect_gone(w, &got.gone);
        store_reclaimed_deinit(&got);
        /* Too little only if all that counts is to be kept. */
        for (uint64_t id = 1; bytes < wanted && id < MAX_RECORDS; id++)
                if (w->records[id].live && (owner == OWNER_ANY || w->records[id].owner == owner))
                        assert_true(keeps(keep, id));
}

static void expect_conv(struct world *w, const struct conv *c) {
        int32_t tokens[MAX_TOKENS];
        struct store_gone links = {};
        struct store_conv got;
        size_t k = 0;

        assert_int_equal(store_conv_get(w->f->s, c->owner, c->id, NULL, &got, &w->f->e), 0);
        assert_int_equal(got.n_turns, c->n_turns);
        assert_int_equal(got.n_tokens, c->n);
        assert_int_equal(got.n_published, c->published);
        assert_int_equal(got.private_memory, c->is_private);
        assert_int_equal(got.pinned, c->pinned);
        assert_int_equal(store_tokens(w->f->s, c->id, tokens, c->n, &w->f->e), 0);
        assert_memory_equal(tokens, c->tokens, c->n * sizeof(tokens[0]));
        assert_int_equal(store_links(w->f->s, c->id, &links, &w->f->e), 0);
        for (uint32_t x = 0; x < STORE_N_CLASSES; x++)
                for (uint32_t b = 0; b < n_cells(x); b++) {
                        if (c->links[x][b].record == 0)
                                continue;
                        assert_true(k < links.n);
                        assert_int_equal(links.records[k].id, c->links[x][b].record);
                        assert_int_equal(links.records[k].block_class, x);
                        assert_int_equal(links.records[k].index, b);
                        assert_int_equal(links.records[k++].n_valid, c->links[x][b].n_valid);
                }
        assert_int_equal(k, links.n);
        store_gone_deinit(&links);
}

static void step(struct world *w) {
        uint32_t what = pick(w, 23);
        struct conv *c = any_conv(w);

        if (!c || what < 2)
                step_create(w);
        else if (what < 6)
                step_append(w, c);
        else if (what < 8)
                pick(w, 2) ? step_rewind(w, c) : step_replace(w, c);
        else if (what < 10)
                step_fork(w, c);
        else if (what < 14)
                step_link(w, c);
        else if (what < 16)
                step_find(w, c);
        else if (what == 16)
                step_publish(w, c);
        else if (what == 17)
                step_reclaim(w, c);
        else if (what == 18)
                pick(w, 3) ? step_unlink(w, c) : fixture_reopen(w->f);
        else if (what == 19)
                step_unlink_cells(w, c);
        else if (what == 20)
                step_forget(w, c);
        else if (what == 21)
                step_pin(w, c);
        else if (pick(w, 2))
                step_delete(w, c);
}

static void run_program(uint32_t seed) {
        static struct world w;
        void *state = NULL;
        uint32_t number;

        fixture_setup(&state);
        w = (struct world){.f = state,
                .seed = seed,
                .shape = shapes[seed % (sizeof(shapes) / sizeof(shapes[0]))]};
        assert_int_equal(store_tenant(w.f->s, 1, "tenant", 1, &number, &w.f->e), 0);
        assert_true(owner_make(1, number) == owners[2]);
        for (int i = 0; i < N_STEPS; i++) {
                step(&w);
                fixture_expect_sound(w.f);
                for (int k = 0; k < MAX_CONVS; k++)
                        if (w.convs[k].id)
                                expect_conv(&w, &w.convs[k]);
        }
        fixture_teardown(&state);
}

static void test_programs(void **state) {
        const char *s = getenv("CONFAB_STORE_SEED");
        /* A server is asked over a socket: a few of them show whether it does the same. */
        uint32_t n = getenv("CONFAB_TEST_POSTGRESQL") ? N_ON_SERVER : N_PROGRAMS;

        for (uint32_t i = 0; i < n; i++) {
                print_message("CONFAB_STORE_SEED=%u\n", s ? (uint32_t)atol(s) + i : i);
                run_program(s ? (uint32_t)atol(s) + i : i);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_programs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
