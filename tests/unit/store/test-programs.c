/* SPDX-License-Identifier: MIT */
/*
 * Random programs compared with a model of the register in RAM: after each step store_check() finds
 * nothing, and tokens, links, owners and removed records equal the model's. Tokens are 0 or 1 and
 * blocks are small, so that conversations often have common prefixes.
 */
#include "store-fixture.h"

enum { BT = 4, MAX_CONVS = 10, MAX_TOKENS = 96, MAX_TURNS = 24, MAX_BLOCKS = MAX_TOKENS / BT };
enum { N_PROGRAMS = 60, N_STEPS = 60, MAX_RECORDS = 8192, PAGE = 4096 };

static const struct fingerprint model = {11, 12};

struct record {
        bool live, is_private;
        uint32_t uid, index, n_tokens;
        uint64_t hash;
};
struct link {
        uint64_t record; /* 0: none */
        uint32_t n_valid;
};
struct conv {
        uint64_t id; /* 0: not there */
        uint32_t uid, n, n_turns, published;
        bool is_private;
        int32_t tokens[MAX_TOKENS];
        uint32_t ends[MAX_TURNS], roles[MAX_TURNS];
        struct link links[MAX_BLOCKS];
};
struct world {
        struct fixture *f;
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

static bool is_linked(const struct world *w, uint64_t record) {
        for (int i = 0; i < MAX_CONVS; i++)
                for (int b = 0; w->convs[i].id && b < MAX_BLOCKS; b++)
                        if (w->convs[i].links[b].record == record)
                                return true;
        return false;
}

/* Records without links go, and are just those in @gone. */
static void expect_gone(struct world *w, struct store_gone *gone) {
        size_t n = 0;

        for (size_t i = 0; i < gone->n; i++) {
                struct record *r = &w->records[gone->records[i].id];

                assert_true(r->live && !is_linked(w, gone->records[i].id));
                assert_int_equal(gone->records[i].uid, r->uid);
                r->live = false;
        }
        for (uint64_t id = 1; id < MAX_RECORDS; id++)
                n += w->records[id].live && !is_linked(w, id);
        assert_int_equal(n, 0);
        store_gone_deinit(gone);
}

static uint64_t block_hash(const struct conv *c, uint32_t index, uint32_t n) {
        uint64_t hash = 0;

        for (uint32_t i = 0; i < index; i++)
                hash = hash64_chain_tokens(c->tokens + BT * i, BT, hash);
        return hash64_chain_tokens(c->tokens + BT * index, n, hash);
}

/* Keep the first @n tokens' links. */
static void cut_links(struct conv *c, uint32_t n) {
        for (uint32_t b = 0; b < MAX_BLOCKS; b++) {
                if (b * BT >= n)
                        c->links[b] = (struct link){0};
                else if (c->links[b].n_valid > n - b * BT)
                        c->links[b].n_valid = n - b * BT;
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
        struct store_conv sc = {.model = model};
        uint32_t n;

        if (!c)
                return;
        *c = (struct conv){.uid = 1 + pick(w, 2), .is_private = pick(w, 6) == 0};
        n = make_turns(w, c, turns);
        sc.uid = c->uid;
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
                store_rewind(w->f->s, c->id, n, last, BT, NULL, &revision, &gone, &w->f->e), 0);
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
        assert_int_equal(store_replace(w->f->s, c->id, n_kept, last, BT, NULL, turns, n,
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
        assert_int_equal(
                store_conv_fork(w->f->s, parent->id, n, last, BT, NULL, &child, &w->f->e), 0);
        *c = *parent;
        c->id = child.id;
        c->published = 0;
        cut_conv(c, n, last);
}

/* What the search should find; see prefix.c. */
static size_t run_of(
        const struct world *w, const struct conv *c, bool is_public, const struct conv *want) {
        size_t n = 0;

        while (n < want->n / BT) {
                const struct link *l = &c->links[n];
                const struct record *r = &w->records[l->record];

                if ((n + 1) * BT > c->n || (is_public && (n + 1) * BT > c->published) ||
                        memcmp(c->tokens, want->tokens, (n + 1) * BT * sizeof(int32_t)) != 0)
                        break;
                if (l->record == 0 || l->n_valid != BT || r->n_tokens != BT || r->is_private)
                        break;
                n++;
        }
        return n;
}

static bool pays_for(const struct world *w, uint32_t uid, size_t index, uint64_t hash) {
        for (uint64_t id = 1; id < MAX_RECORDS; id++) {
                const struct record *r = &w->records[id];

                if (r->live && !r->is_private && r->uid == uid && r->index == index &&
                        r->n_tokens == BT && r->hash == hash)
                        return true;
        }
        return false;
}

static size_t best_own(
        const struct world *w, uint32_t uid, size_t from, size_t best, const struct conv *want) {
        size_t depth = from;

        while (depth < want->n / BT &&
                pays_for(w, uid, depth, block_hash(want, (uint32_t)depth, BT)))
                depth++;
        for (; depth > from && depth > best; depth--)
                for (int i = 0; i < MAX_CONVS; i++) {
                        const struct conv *c = &w->convs[i];
                        const struct link *l = &c->links[depth - 1];
                        const struct record *r = &w->records[l->record];

                        if (c->id && c->uid == uid && !c->is_private && l->record &&
                                l->n_valid == BT && r->uid == uid && r->n_tokens == BT &&
                                r->hash == block_hash(want, (uint32_t)depth - 1, BT)) {
                                size_t n = run_of(w, c, false, want);

                                best = n > best ? n : best;
                        }
                }
        return best;
}

static size_t expected_run(const struct world *w, uint32_t uid, const struct conv *want) {
        size_t best = best_own(w, uid, 0, 0, want);
        bool is_public = false;

        for (int i = 0; i < MAX_CONVS; i++) {
                const struct conv *c = &w->convs[i];
                size_t n = c->id && c->published && !c->is_private ? run_of(w, c, true, want) : 0;

                if (n > best) {
                        best = n;
                        is_public = true;
                }
        }
        return is_public ? best_own(w, uid, best, best, want) : best;
}

static struct store_prefix find(struct world *w, uint32_t uid, const struct conv *want) {
        uint64_t hashes[MAX_BLOCKS];
        struct store_prefix p = {};
        size_t n = want->n / BT, expected = expected_run(w, uid, want);

        for (uint32_t i = 0; i < n; i++)
                hashes[i] = block_hash(want, i, BT);
        assert_int_equal(store_prefix_find(w->f->s, uid, &model, 0, want->tokens, hashes, n, BT, &p,
                                 &w->f->e),
                0);
        assert_true(p.n >= expected);
        /* It may be lucky: an own conversation is looked at whole. But never too lucky. */
        for (size_t i = 0; i < p.n; i++) {
                const struct record *r = &w->records[p.records[i].id];

                assert_true(r->live && !r->is_private && r->index == i && r->n_tokens == BT);
                assert_true(r->hash == hashes[i]);
        }
        for (int i = 0; p.n && i < MAX_CONVS; i++) {
                const struct conv *c = &w->convs[i];

                if (c->id != p.donor)
                        continue;
                assert_false(c->is_private);
                assert_true(c->uid == uid || c->published >= p.n * BT);
                assert_int_equal(run_of(w, c, c->uid != uid, want), p.n);
                assert_int_equal(p.is_public, c->uid != uid);
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

/* Write the memory of @c: shared where somebody has it, new where not. */
static void step_link(struct world *w, struct conv *c) {
        struct store_record links[MAX_BLOCKS] = {};
        struct store_gone gone = {};
        struct store_prefix p = {};
        size_t n = 0;

        if (!c->is_private && pick(w, 2))
                p = find(w, c->uid, c);
        for (uint32_t b = 0; b * BT < c->n; b++) {
                uint32_t in_block = c->n - b * BT < BT ? c->n - b * BT : BT;

                if (c->links[b].record && c->links[b].n_valid == in_block &&
                        w->records[c->links[b].record].n_tokens == in_block)
                        continue;
                if (b < p.n)
                        links[n++] = p.records[b];
                else
                        links[n++] = (struct store_record){.file_key = c->id,
                                .offset = PAGE * w->place++,
                                .stored_size = PAGE,
                                .index = b,
                                .n_tokens = in_block,
                                .token_hash = block_hash(c, b, in_block)};
        }
        assert_int_equal(store_link(w->f->s, c->id, &model, links, n, NULL, 0, &gone, &w->f->e), 0);
        for (size_t i = 0; i < n; i++) {
                assert_true(links[i].id > 0 && links[i].id < MAX_RECORDS);
                c->links[links[i].index] = (struct link){links[i].id, links[i].n_tokens};
                w->records[links[i].id] = (struct record){.live = true,
                        .is_private = links[i].is_private,
                        .uid = links[i].uid,
                        .index = links[i].index,
                        .n_tokens = links[i].n_tokens,
                        .hash = links[i].token_hash};
                assert_int_equal(links[i].is_private, c->is_private);
        }
        store_prefix_deinit(&p);
        expect_gone(w, &gone);
}

static void step_unlink(struct world *w, struct conv *c) {
        struct store_gone gone = {};
        uint32_t from = pick(w, MAX_BLOCKS);

        assert_int_equal(store_unlink_from(w->f->s, c->id, from, &gone, &w->f->e), 0);
        for (uint32_t b = from; b < MAX_BLOCKS; b++)
                c->links[b] = (struct link){0};
        expect_gone(w, &gone);
}

static void step_publish(struct world *w, struct conv *c) {
        uint32_t n = pick(w, 3) ? pick(w, c->n + 1) : 0;

        assert_int_equal(store_conv_publish(w->f->s, c->id, n, &w->f->e),
                n && c->is_private ? -ERR_STATE : 0);
        if (!c->is_private)
                c->published = n;
}

static void step_delete(struct world *w, struct conv *c) {
        struct store_gone gone = {};

        assert_int_equal(store_conv_delete(w->f->s, c->id, &gone, &w->f->e), 0);
        *c = (struct conv){0};
        expect_gone(w, &gone);
}

static bool keeps(const struct conv *keep, uint64_t record) {
        for (int b = 0; keep && b < MAX_BLOCKS; b++)
                if (keep->links[b].record == record)
                        return true;
        return false;
}

static void step_reclaim(struct world *w, struct conv *keep) {
        uint32_t uid = pick(w, 2) ? STORE_UID_ANY : 1 + pick(w, 2);
        uint64_t wanted = pick(w, 12) * PAGE, bytes = 0;
        struct store_reclaimed got = {};

        keep = pick(w, 2) ? keep : NULL;
        assert_int_equal(
                store_reclaim(w->f->s, uid, wanted, keep ? keep->id : 0, &got, &w->f->e), 0);
        for (size_t i = 0; i < got.n_cuts; i++)
                for (int k = 0; k < MAX_CONVS; k++) {
                        struct conv *c = &w->convs[k];

                        if (c->id != got.cuts[i].conv)
                                continue;
                        assert_true(c != keep);
                        for (uint32_t b = got.cuts[i].from_index; b < MAX_BLOCKS; b++)
                                c->links[b] = (struct link){0};
                }
        for (size_t i = 0; i < got.gone.n; i++)
                if (uid == STORE_UID_ANY || got.gone.records[i].uid == uid)
                        bytes += got.gone.records[i].stored_size;
        assert_int_equal(bytes, got.bytes);
        expect_gone(w, &got.gone);
        store_reclaimed_deinit(&got);
        /* Too little only if all that counts is to be kept. */
        for (uint64_t id = 1; bytes < wanted && id < MAX_RECORDS; id++)
                if (w->records[id].live && (uid == STORE_UID_ANY || w->records[id].uid == uid))
                        assert_true(keeps(keep, id));
}

static void expect_conv(struct world *w, const struct conv *c) {
        int32_t tokens[MAX_TOKENS];
        struct store_gone links = {};
        struct store_conv got;
        size_t k = 0;

        assert_int_equal(store_conv_get(w->f->s, c->uid, c->id, NULL, &got, &w->f->e), 0);
        assert_int_equal(got.n_turns, c->n_turns);
        assert_int_equal(got.n_tokens, c->n);
        assert_int_equal(got.n_published, c->published);
        assert_int_equal(got.private_memory, c->is_private);
        assert_int_equal(store_tokens(w->f->s, c->id, tokens, c->n, &w->f->e), 0);
        assert_memory_equal(tokens, c->tokens, c->n * sizeof(tokens[0]));
        assert_int_equal(store_links(w->f->s, c->id, &links, &w->f->e), 0);
        for (uint32_t b = 0; b < MAX_BLOCKS; b++) {
                if (c->links[b].record == 0)
                        continue;
                assert_true(k < links.n);
                assert_int_equal(links.records[k].id, c->links[b].record);
                assert_int_equal(links.records[k].index, b);
                assert_int_equal(links.records[k++].n_valid, c->links[b].n_valid);
        }
        assert_int_equal(k, links.n);
        store_gone_deinit(&links);
}

static void step(struct world *w) {
        uint32_t what = pick(w, 20);
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
        else if (pick(w, 2))
                step_delete(w, c);
}

static void run_program(uint32_t seed) {
        static struct world w;
        void *state = NULL;

        fixture_setup(&state);
        w = (struct world){.f = state, .seed = seed};
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

        for (uint32_t i = 0; i < N_PROGRAMS; i++) {
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
