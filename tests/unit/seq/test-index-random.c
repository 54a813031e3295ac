/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the prefix index and the pool, compared with a model of the index that is one
 * flat list. After every step every possible lookup is compared, and the memory of every sequence
 * must be that of its own tokens: each position's memory is a hash of all tokens up to it, so a
 * block shared with the wrong prefix is detected.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

enum {
        N_SEQS = 7,
        N_SCOPES = 3,
        MAX_BLOCKS = 12,
        TOKENS = 4,
        MAX_TOKENS = MAX_BLOCKS * TOKENS,
        WORD = 16, /* memory of one token */
        BLOCK = TOKENS * WORD,
        MAX_ENTRIES = N_SEQS * MAX_BLOCKS * N_SCOPES * 2,
        N_PROGRAMS = 250,
        N_STEPS = 120,
        ORPHAN = -1,
        ROOT = 0,
};

static const uint64_t scopes[N_SCOPES] = {0, 1000, SEQ_SCOPE_PUBLIC};

struct model_seq {
        struct seq *s;
        uint32_t n_tokens;
        int32_t token[MAX_TOKENS];
        struct seq_block *block[MAX_BLOCKS]; /* full or partial, NULL: a hole */
};

struct model_entry {
        uint64_t scope;
        int id, parent;
        const struct seq_block *block;
        int32_t tokens[TOKENS];
};

struct world {
        struct ledger ledger, index_ledger;
        struct seq_pool *pool;
        struct seq_index *x;
        struct model_seq m[N_SEQS];
        struct model_entry entries[MAX_ENTRIES];
        size_t n_entries, scope_size;
        int next_id;
        uint64_t rng, n_merged;
};

static uint32_t draw(struct world *w, uint32_t below) {
        w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(w->rng >> 33) % below;
}

static uint32_t n_blocks(uint32_t n_tokens) {
        return (n_tokens + TOKENS - 1) / TOKENS;
}

/* --- the model --- */

static size_t n_holders(const struct world *w, const struct seq_block *b) {
        size_t n = 0;

        for (size_t i = 0; i < N_SEQS; i++)
                for (uint32_t j = 0; j < n_blocks(w->m[i].n_tokens); j++)
                        n += w->m[i].block[j] == b;
        return n;
}

static void model_remove(struct world *w, size_t i) {
        int id = w->entries[i].id;

        w->entries[i] = w->entries[--w->n_entries];
        for (size_t j = 0; j < w->n_entries; j++)
                if (w->entries[j].parent == id)
                        w->entries[j].parent = ORPHAN;
}

static void model_drop_block(struct world *w, const struct seq_block *b) {
        for (size_t i = w->n_entries; i-- > 0;)
                if (w->entries[i].block == b)
                        model_remove(w, i);
}

/* Entries of blocks that nobody holds any more. */
static void model_sweep(struct world *w) {
        for (size_t i = w->n_entries; i-- > 0;)
                if (i < w->n_entries && n_holders(w, w->entries[i].block) == 0)
                        model_remove(w, i);
}

static struct model_entry *model_find(
        struct world *w, uint64_t scope, int parent, const int32_t *tokens) {
        for (size_t i = 0; i < w->n_entries; i++)
                if (w->entries[i].scope == scope && w->entries[i].parent == parent &&
                        memcmp(w->entries[i].tokens, tokens, sizeof(w->entries[i].tokens)) == 0)
                        return &w->entries[i];
        return NULL;
}

static struct model_entry *model_of(struct world *w, uint64_t scope, const struct seq_block *b) {
        for (size_t i = 0; i < w->n_entries; i++)
                if (w->entries[i].scope == scope && w->entries[i].block == b)
                        return &w->entries[i];
        return NULL;
}

static size_t model_size(const struct world *w) {
        size_t size = w->n_entries * seq_index_entry_size(w->x);

        for (size_t k = 0; k < N_SCOPES; k++)
                for (size_t i = 0; i < w->n_entries; i++)
                        if (w->entries[i].scope == scopes[k]) {
                                size += w->scope_size;
                                break;
                        }
        return size;
}

static void model_merge(struct world *w, struct model_seq *m, uint32_t i, struct seq_block *b) {
        struct seq_block *ours = m->block[i];

        if (seq_block_tag(b) == 0)
                seq_block_set_tag(b, seq_block_tag(ours));
        m->block[i] = b;
        w->n_merged++;
        if (n_holders(w, ours) > 0)
                return;
        for (size_t j = w->n_entries; j-- > 0;) {
                struct model_entry *e = &w->entries[j], *other;

                if (e->block != ours)
                        continue;
                other = model_of(w, e->scope, b);
                if (other && (other->parent != ORPHAN || e->parent == ORPHAN))
                        model_remove(w, j);
                else {
                        e->block = b;
                        if (other)
                                model_remove(w, (size_t)(other - w->entries));
                }
        }
}

/* What seq_index_enter_range() is going to do; the real call comes after it. */
static int model_enter(
        struct world *w, uint64_t scope, struct model_seq *m, uint32_t from, uint32_t to) {
        uint32_t end = MIN(to, m->n_tokens / TOKENS), i = MIN(from, end);
        size_t entry_size = seq_index_entry_size(w->x), scope_size = w->scope_size;
        int parent = ROOT;

        if (i == end)
                return 0;
        for (size_t j = 0; j < w->n_entries; j++)
                if (w->entries[j].scope == scope)
                        scope_size = 0;
        if (scope_size > 0 && model_size(w) + scope_size > ledger_budget(&w->index_ledger))
                return SEQ_FULL;
        for (; i > 0; i--) {
                struct model_entry *e;

                if (!m->block[i - 1])
                        return -ERR_STATE;
                e = model_of(w, scope, m->block[i - 1]);
                if (e && e->parent != ORPHAN) {
                        parent = e->id;
                        break;
                }
        }
        for (; i < end && m->block[i]; i++) {
                const int32_t *tokens = m->token + i * TOKENS;
                struct model_entry *e = model_find(w, scope, parent, tokens);
                int id;

                if (e) {
                        id = e->id;
                        if (e->block != m->block[i])
                                model_merge(w, m, i, (struct seq_block *)(uintptr_t)e->block);
                        parent = id;
                        continue;
                }
                e = model_of(w, scope, m->block[i]);
                if (e) {
                        e->parent = parent;
                        parent = e->id;
                        continue;
                }
                if (model_size(w) + scope_size + entry_size > ledger_budget(&w->index_ledger))
                        return SEQ_FULL;
                scope_size = 0;
                assert_true(w->n_entries < MAX_ENTRIES);
                e = &w->entries[w->n_entries++];
                *e = (struct model_entry){scope, ++w->next_id, parent, m->block[i], {0}};
                memcpy(e->tokens, tokens, sizeof(e->tokens));
                parent = e->id;
        }
        return 0;
}

/* --- comparing --- */

static void memory_of(const int32_t *tokens, uint32_t pos, uint8_t *ret) {
        uint64_t h = hash64(tokens, (pos + 1) * sizeof(*tokens), 5);

        memcpy(ret, &h, 8);
        h = ~h;
        memcpy(ret + 8, &h, 8);
}

static void check_seq(const struct world *w, const struct model_seq *m) {
        assert_int_equal(seq_n_tokens(m->s), m->n_tokens);
        for (uint32_t i = 0; i < n_blocks(m->n_tokens); i++) {
                assert_ptr_equal(seq_block_at(m->s, i), m->block[i]);
                if (!m->block[i])
                        continue;
                assert_int_equal(seq_block_n_refs(m->block[i]), n_holders(w, m->block[i]));
                for (uint32_t p = i * TOKENS; p < MIN((i + 1) * TOKENS, m->n_tokens); p++) {
                        uint8_t want[WORD];

                        memory_of(m->token, p, want);
                        assert_memory_equal(
                                (uint8_t *)seq_block_data(m->block[i]) + p % TOKENS * WORD, want,
                                WORD);
                }
        }
}

static void check_lookup(struct world *w, uint64_t scope, const int32_t *tokens, uint32_t n) {
        struct seq_block *out[MAX_BLOCKS] = {0};
        uint32_t n_match = 0, best = 0, n_common;
        struct model_entry *e;
        int parent = ROOT;

        for (; (n_match + 1) * TOKENS <= n; n_match++) {
                e = model_find(w, scope, parent, tokens + n_match * TOKENS);
                if (!e)
                        break;
                out[n_match] = (struct seq_block *)(uintptr_t)e->block;
                parent = e->id;
        }
        for (size_t i = 0; i < w->n_entries; i++) {
                uint32_t k = 0;

                if (w->entries[i].scope != scope || w->entries[i].parent != parent)
                        continue;
                while (k < MIN(n - n_match * TOKENS, (uint32_t)TOKENS) &&
                        tokens[n_match * TOKENS + k] == w->entries[i].tokens[k])
                        k++;
                best = MAX(best, k);
        }
        n_common = seq_index_common(w->x, scope, tokens, n);
        assert_int_equal(n_common, n_match * TOKENS + best);
        {
                struct seq_block *got[MAX_BLOCKS] = {0};

                assert_int_equal(seq_index_match(w->x, scope, tokens, n / TOKENS, got), n_match);
                assert_memory_equal(got, out, sizeof(out));
        }
        /* Exactness of its own: what is found is the memory of these tokens. */
        for (uint32_t p = 0; p < n_match * TOKENS; p++) {
                uint8_t want[WORD];

                memory_of(tokens, p, want);
                assert_memory_equal(
                        (uint8_t *)seq_block_data(out[p / TOKENS]) + p % TOKENS * WORD, want, WORD);
        }
}

static void check(struct world *w) {
        struct seq_index_stats st;
        size_t n_orphans = 0;

        for (size_t i = 0; i < N_SEQS; i++)
                check_seq(w, &w->m[i]);
        for (size_t i = 0; i < N_SEQS; i++)
                for (size_t k = 0; k < N_SCOPES; k++)
                        check_lookup(w, scopes[k], w->m[i].token, MAX_TOKENS);
        for (size_t i = 0; i < w->n_entries; i++)
                n_orphans += w->entries[i].parent == ORPHAN;
        seq_index_stats(w->x, &st);
        assert_int_equal(st.n_entries, w->n_entries);
        assert_int_equal(st.n_orphans, n_orphans);
        assert_int_equal(st.n_merged, w->n_merged);
        assert_int_equal(st.size, model_size(w));
        assert_int_equal(ledger_used(&w->index_ledger), model_size(w));
}

/* --- steps --- */

static void look_at_blocks(struct model_seq *m) {
        for (uint32_t i = 0; i < n_blocks(m->n_tokens); i++)
                m->block[i] = seq_block_at(m->s, i);
}

static void do_say(struct world *w, struct model_seq *m) {
        const struct model_seq *like = &w->m[draw(w, N_SEQS)];
        uint32_t n = MIN(1 + draw(w, 14), MAX_TOKENS - m->n_tokens), at = m->n_tokens;
        struct seq_block *tail = at % TOKENS ? m->block[at / TOKENS] : NULL;
        bool copies = draw(w, 4) != 0;
        int r;

        r = seq_reserve(m->s, n, NULL);
        if (n_blocks(at) != seq_n_resident(m->s)) {
                assert_int_equal(r, -ERR_STATE);
                return;
        }
        if (r == SEQ_FULL)
                return;
        assert_int_equal(r, 0);
        if (n > 0 && tail && n_holders(w, tail) == 1)
                model_drop_block(w, tail);
        for (uint32_t i = at; i < at + n; i++) {
                m->token[i] = copies ? like->token[i] : (int32_t)draw(w, 3) - 1;
                memory_of(m->token, i, (uint8_t *)seq_table(m->s)[i / TOKENS] + i % TOKENS * WORD);
        }
        seq_commit(m->s, n);
        seq_unreserve(m->s);
        m->n_tokens += n;
        look_at_blocks(m);
}

static void renew(struct world *w, struct model_seq *m) {
        seq_free(m->s);
        memset(m->block, 0, sizeof(m->block));
        m->n_tokens = 0;
        m->s = NULL;
        model_sweep(w);
        assert_int_equal(seq_new(&m->s, w->pool, NULL), 0);
}

static void do_fork(struct world *w, const struct model_seq *m, struct model_seq *to) {
        uint32_t pos = draw(w, m->n_tokens + 1);

        if (to == m)
                return;
        renew(w, to);
        to->s = seq_free(to->s);
        assert_int_equal(seq_fork(&to->s, m->s, pos, NULL), 0);
        memcpy(to->token, m->token, sizeof(to->token));
        to->n_tokens = pos;
        look_at_blocks(to);
}

static void do_adopt(struct world *w, struct model_seq *m) {
        const struct model_seq *like = &w->m[draw(w, N_SEQS)];
        uint64_t scope = scopes[draw(w, N_SCOPES)];
        struct seq_block *out[MAX_BLOCKS];
        size_t n;

        if (like == m)
                return;
        renew(w, m);
        memcpy(m->token, like->token, sizeof(m->token));
        n = seq_index_match(w->x, scope, m->token, draw(w, MAX_BLOCKS + 1), out);
        assert_int_equal(seq_adopt(m->s, out, n, NULL), 0);
        m->n_tokens = (uint32_t)n * TOKENS;
        look_at_blocks(m);
}

static void do_cut(struct world *w, struct model_seq *m) {
        uint32_t pos = draw(w, MAX_TOKENS);

        m->n_tokens = MIN(m->n_tokens, pos);
        assert_int_equal(seq_cut(m->s, pos), m->n_tokens);
        for (uint32_t i = n_blocks(m->n_tokens); i < MAX_BLOCKS; i++)
                m->block[i] = NULL;
        model_sweep(w);
}

static void do_restore(struct world *w, struct model_seq *m) {
        for (uint32_t i = 0; i < n_blocks(m->n_tokens); i++) {
                struct seq_block *b = NULL;

                if (m->block[i])
                        continue;
                if (seq_block_new(&b, w->pool, NULL) == SEQ_FULL)
                        return;
                for (uint32_t p = i * TOKENS; p < (i + 1) * TOKENS && p < m->n_tokens; p++)
                        memory_of(m->token, p, (uint8_t *)seq_block_data(b) + p % TOKENS * WORD);
                seq_attach(m->s, i, b);
                seq_block_unref(b);
                m->block[i] = b;
        }
}

static void do_drop(struct world *w, struct model_seq *m) {
        uint32_t n = n_blocks(m->n_tokens), i;

        if (n == 0)
                return;
        i = draw(w, n);
        seq_drop(m->s, i);
        m->block[i] = NULL;
        model_sweep(w);
}

static void do_enter(struct world *w, struct model_seq *m) {
        uint64_t scope = scopes[draw(w, N_SCOPES)];
        uint32_t from = draw(w, 3) == 0 ? draw(w, MAX_BLOCKS) : 0;
        uint32_t to = draw(w, 4) == 0 ? draw(w, MAX_BLOCKS) : UINT32_MAX;
        int r = model_enter(w, scope, m, from, to);

        if (to == UINT32_MAX && draw(w, 2))
                assert_int_equal(seq_index_enter(w->x, scope, m->s, m->token, from, NULL), r);
        else
                assert_int_equal(
                        seq_index_enter_range(w->x, scope, m->s, m->token, from, to, NULL), r);
}

static void do_forget(struct world *w) {
        uint64_t scope = scopes[draw(w, N_SCOPES)];

        seq_index_forget(w->x, scope);
        for (size_t i = w->n_entries; i-- > 0;)
                if (i < w->n_entries && w->entries[i].scope == scope)
                        model_remove(w, i);
}

static void step(struct world *w) {
        struct model_seq *m = &w->m[draw(w, N_SEQS)];

        switch (draw(w, 32)) {
        case 0 ... 7:
                do_say(w, m);
                break;
        case 8 ... 9:
                do_fork(w, m, &w->m[draw(w, N_SEQS)]);
                break;
        case 10 ... 12:
                do_cut(w, m);
                break;
        case 13 ... 15:
                do_drop(w, m);
                break;
        case 16 ... 18:
                do_restore(w, m);
                break;
        case 19 ... 26:
                do_enter(w, m);
                break;
        case 27 ... 28:
                do_adopt(w, m);
                break;
        case 29:
                renew(w, m);
                break;
        case 30:
                if (draw(w, 4) == 0)
                        do_forget(w);
                break;
        default:
                ledger_set_budget(&w->index_ledger,
                        draw(w, 2) ? SIZE_MAX : draw(w, 60) * seq_index_entry_size(w->x));
                break;
        }
}

static void test_random_programs(void **state) {
        uint64_t n_matched = 0, n_merged = 0, n_orphans = 0;

        for (uint64_t seed = 0; seed < N_PROGRAMS; seed++) {
                struct world w = {.ledger = LEDGER_INIT((size_t)60 << 12),
                        .index_ledger = LEDGER_INIT(SIZE_MAX),
                        .rng = seed};
                struct seq_index_stats st;

                assert_int_equal(seq_pool_new(&w.pool, &w.ledger, BLOCK, TOKENS, NULL), 0);
                assert_int_equal(seq_index_new(&w.x, w.pool, &w.index_ledger, NULL), 0);
                for (size_t i = 0; i < N_SEQS; i++)
                        assert_int_equal(seq_new(&w.m[i].s, w.pool, NULL), 0);
                do {
                        renew(&w, &w.m[0]);
                        do_say(&w, &w.m[0]);
                } while (w.m[0].n_tokens < TOKENS);
                assert_int_equal(
                        seq_index_enter_range(w.x, 0, w.m[0].s, w.m[0].token, 0, 1, NULL), 0);
                w.scope_size = ledger_used(&w.index_ledger) - seq_index_entry_size(w.x);
                seq_index_forget(w.x, 0);
                for (size_t i = 0; i < N_STEPS; i++) {
                        step(&w);
                        seq_index_stats(w.x, &st);
                        n_orphans += st.n_orphans;
                        check(&w);
                }
                n_matched += st.n_matched;
                n_merged += st.n_merged;
                for (size_t i = 0; i < N_SEQS; i++)
                        w.m[i].s = seq_free(w.m[i].s);
                assert_int_equal(ledger_used(&w.ledger), 0);
                assert_int_equal(ledger_used(&w.index_ledger), 0);
                seq_index_free(w.x);
                seq_pool_free(w.pool);
        }
        /* The programs reach what they are for. */
        assert_true(n_matched > 10000);
        assert_true(n_merged > 300);
        assert_true(n_orphans > 1000);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
