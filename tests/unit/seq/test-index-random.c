/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the prefix index and the pool, for several mixtures of classes, compared with a
 * model of the index that is one flat list. After every step every possible lookup is compared, and
 * the memory of every sequence must be that of its own tokens: each position's memory is a hash of
 * all tokens up to it, so a block shared with the wrong prefix is detected.
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
        MAX_ENTRIES = N_SEQS * MAX_BLOCKS * N_SCOPES * 3,
        N_PROGRAMS = 120,
        N_STEPS = 120,
        ROOT = 0,
};

static const struct seq_shape shapes[] = {
        {.size = {BLOCK}, .block_tokens = TOKENS},
        {.size = {0, BLOCK}, .block_tokens = TOKENS, .window = 10},
        {.size = {0, 0, 64}, .block_tokens = TOKENS},
        {.size = {BLOCK, 0, 64}, .block_tokens = TOKENS},
        {.size = {BLOCK, BLOCK, 64}, .block_tokens = TOKENS, .window = 6},
        {.size = {BLOCK, BLOCK}, .block_tokens = TOKENS, .chunk = 8},
};

static const uint64_t scopes[N_SCOPES] = {0, 1000, SEQ_SCOPE_PUBLIC};

struct model_seq {
        struct seq *s;
        uint32_t n_tokens;
        int32_t token[MAX_TOKENS];
};

struct model_entry {
        uint64_t scope;
        int id, parent;
        struct seq_step step; /* never looked into: the blocks may be gone */
        int32_t tokens[TOKENS];
};

struct world {
        const struct seq_shape *shape;
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

/* The cell of class @c that step @i is about. */
static uint32_t cell_of(enum seq_class c, uint32_t i) {
        return c == SEQ_STATE ? (i + 1) * TOKENS - 1 : i;
}

static struct seq_block *block_at(const struct seq *s, enum seq_class c, uint32_t cell) {
        struct seq_cell got;

        return seq_cell_at(s, c, cell, &got) ? got.block : NULL;
}

static struct seq_step step_at(const struct seq *s, uint32_t i) {
        struct seq_step step;

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                step.block[c] = block_at(s, c, cell_of(c, i));
        return step;
}

static bool is_bare(const struct seq_step *step) {
        return !step->block[SEQ_ALL] && !step->block[SEQ_WINDOW] && !step->block[SEQ_STATE];
}

/* --- the model --- */

static size_t n_holders(const struct world *w, const struct seq_block *b) {
        size_t n = 0;

        for (size_t i = 0; i < N_SEQS; i++)
                for (enum seq_class c = SEQ_ALL; w->m[i].s && c < SEQ_N_CLASSES; c++) {
                        struct seq_cell cell;
                        size_t it = 0;

                        while (seq_next_cell(w->m[i].s, c, &it, &cell))
                                n += cell.block == b;
                }
        return n;
}

static bool has_children(const struct world *w, int id) {
        for (size_t i = 0; i < w->n_entries; i++)
                if (w->entries[i].parent == id)
                        return true;
        return false;
}

static void model_prune(struct world *w) {
        for (bool again = true; again;) {
                again = false;
                for (size_t i = w->n_entries; i-- > 0;)
                        if (is_bare(&w->entries[i].step) && !has_children(w, w->entries[i].id)) {
                                w->entries[i] = w->entries[--w->n_entries];
                                again = true;
                        }
        }
}

/* Take a block out of its entries; NULL: all those that nobody holds any more. */
static void model_drop(struct world *w, const struct seq_block *b) {
        for (size_t i = 0; i < w->n_entries; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        struct seq_block **at = &w->entries[i].step.block[c];

                        if (*at && (b ? *at == b : n_holders(w, *at) == 0))
                                *at = NULL;
                }
        model_prune(w);
}

static struct model_entry *model_find(
        struct world *w, uint64_t scope, int parent, const int32_t *tokens) {
        for (size_t i = 0; i < w->n_entries; i++)
                if (w->entries[i].scope == scope && w->entries[i].parent == parent &&
                        memcmp(w->entries[i].tokens, tokens, sizeof(w->entries[i].tokens)) == 0)
                        return &w->entries[i];
        return NULL;
}

static bool has_scope(const struct world *w, uint64_t scope) {
        for (size_t i = 0; i < w->n_entries; i++)
                if (w->entries[i].scope == scope)
                        return true;
        return false;
}

static size_t model_size(const struct world *w) {
        size_t size = w->n_entries * seq_index_entry_size(w->x);

        for (size_t k = 0; k < N_SCOPES; k++)
                size += has_scope(w, scopes[k]) ? w->scope_size : 0;
        return size;
}

/* The sequence is going to have @theirs in place of @ours. */
static void model_merge(struct world *w, struct seq_block *ours, struct seq_block *theirs) {
        if (seq_block_tag(theirs) == 0)
                seq_block_set_tag(theirs, seq_block_tag(ours));
        w->n_merged++;
        if (n_holders(w, ours) > 1)
                return;
        for (size_t i = 0; i < w->n_entries; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                        if (w->entries[i].step.block[c] == ours)
                                w->entries[i].step.block[c] = theirs;
}

/* Enter step @i into an entry. What @s is going to have there goes to @ret. */
static void model_enter_step(struct world *w, struct model_entry *e, const struct seq *s,
        uint32_t i, struct seq_step *ret) {
        *ret = step_at(s, i);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                struct seq_block *ours = ret->block[c], *theirs = e->step.block[c];

                if (!ours || ours == theirs)
                        continue;
                if (theirs) {
                        model_merge(w, ours, theirs);
                        ret->block[c] = theirs;
                } else {
                        e->step.block[c] = ours;
                }
        }
}

/* The entry that a block of step @i has in the scope: its id, or ROOT. */
static int entry_at(const struct world *w, uint64_t scope, const struct seq *s, uint32_t i) {
        struct seq_step step = step_at(s, i);

        for (size_t j = 0; j < w->n_entries; j++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                        if (step.block[c] && w->entries[j].scope == scope &&
                                w->entries[j].step.block[c] == step.block[c])
                                return w->entries[j].id;
        return ROOT;
}

/* What seq_index_enter_range() is going to do; the real call comes after it. */
static int model_enter(struct world *w, uint64_t scope, const struct model_seq *m, uint32_t from,
        uint32_t to, struct seq_step *ret) {
        uint32_t end = MIN(to, m->n_tokens / TOKENS), i = MIN(from, end);
        size_t entry_size = seq_index_entry_size(w->x);
        int parent = ROOT;

        for (uint32_t j = 0; j < m->n_tokens / TOKENS; j++)
                ret[j] = step_at(m->s, j);
        while (end > i && is_bare(&ret[end - 1]))
                end--;
        if (i == end)
                return 0;
        if (!has_scope(w, scope) && model_size(w) + w->scope_size > ledger_budget(&w->index_ledger))
                return SEQ_FULL;
        for (; i > 0 && parent == ROOT; i -= parent == ROOT)
                parent = entry_at(w, scope, m->s, i - 1);
        for (; i < end; i++) {
                struct model_entry *e = model_find(w, scope, parent, m->token + i * TOKENS);

                if (!e) {
                        size_t size = has_scope(w, scope) ? 0 : w->scope_size;

                        if (model_size(w) + size + entry_size > ledger_budget(&w->index_ledger)) {
                                model_prune(w);
                                return SEQ_FULL;
                        }
                        assert_true(w->n_entries < MAX_ENTRIES);
                        e = &w->entries[w->n_entries++];
                        *e = (struct model_entry){
                                .scope = scope, .id = ++w->next_id, .parent = parent};
                        memcpy(e->tokens, m->token + i * TOKENS, sizeof(e->tokens));
                }
                model_enter_step(w, e, m->s, i, &ret[i]);
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

static void check_memory(
        const struct seq_block *b, enum seq_class c, const int32_t *tokens, uint32_t pos) {
        const uint8_t *data = seq_block_data((struct seq_block *)(uintptr_t)b);
        uint8_t want[WORD];

        memory_of(tokens, pos, want);
        assert_memory_equal(data + (c == SEQ_STATE ? 0 : pos % TOKENS * WORD), want, WORD);
}

static void check_seq(const struct world *w, const struct model_seq *m) {
        assert_int_equal(seq_n_tokens(m->s), m->n_tokens);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(m->s, c, &it, &cell)) {
                        if (!cell.block)
                                continue;
                        assert_int_equal(seq_block_n_refs(cell.block), n_holders(w, cell.block));
                        for (uint32_t p = cell.end - cell.n_tokens; p < cell.end; p++)
                                check_memory(cell.block, c, m->token, p);
                }
        }
}

static void check_lookup(struct world *w, uint64_t scope, const int32_t *tokens, uint32_t n) {
        struct seq_step out[MAX_BLOCKS] = {0}, got[MAX_BLOCKS] = {0};
        uint32_t n_match = 0, best = 0, n_common;
        struct model_entry *e;
        int parent = ROOT;

        for (; (n_match + 1) * TOKENS <= n; n_match++) {
                e = model_find(w, scope, parent, tokens + n_match * TOKENS);
                if (!e)
                        break;
                out[n_match] = e->step;
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
        assert_int_equal(seq_index_match(w->x, scope, tokens, n / TOKENS, got), n_match);
        assert_memory_equal(got, out, sizeof(out));
        /* Exactness of its own: what is found is the memory of these tokens. */
        for (uint32_t i = 0; i < n_match; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                        for (uint32_t p = i * TOKENS; out[i].block[c] && p < (i + 1) * TOKENS; p++)
                                if (c != SEQ_STATE || p % TOKENS == TOKENS - 1)
                                        check_memory(out[i].block[c], c, tokens, p);
}

static void check(struct world *w) {
        struct seq_index_stats st;
        size_t n_bare = 0;

        for (size_t i = 0; i < N_SEQS; i++)
                check_seq(w, &w->m[i]);
        for (size_t i = 0; i < N_SEQS; i++)
                for (size_t k = 0; k < N_SCOPES; k++)
                        check_lookup(w, scopes[k], w->m[i].token, MAX_TOKENS);
        for (size_t i = 0; i < w->n_entries; i++)
                n_bare += is_bare(&w->entries[i].step);
        seq_index_stats(w->x, &st);
        assert_int_equal(st.n_entries, w->n_entries);
        assert_int_equal(st.n_bare, n_bare);
        assert_int_equal(st.n_merged, w->n_merged);
        assert_int_equal(st.size, model_size(w));
        assert_int_equal(ledger_used(&w->index_ledger), model_size(w));
}

/* --- steps --- */

static void write_memory(const struct model_seq *m, uint32_t from, uint32_t n) {
        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                for (uint32_t i = from; seq_table(m->s, c) && i < from + n; i++)
                        memory_of(m->token, i,
                                (uint8_t *)seq_table(m->s, c)[i / TOKENS] + i % TOKENS * WORD);
        if (seq_next_state(m->s))
                memory_of(m->token, from + n - 1, seq_next_state(m->s));
}

static void do_say(struct world *w, struct model_seq *m) {
        const struct model_seq *like = &w->m[draw(w, N_SEQS)];
        uint32_t n = MIN(1 + draw(w, 14), MAX_TOKENS - m->n_tokens), at = m->n_tokens;
        bool copies = draw(w, 4) != 0, marks = draw(w, 2) == 0;
        size_t missing = seq_n_missing(m->s);
        struct seq_step tail = step_at(m->s, at / TOKENS);
        int r;

        /* States are found at the ends of blocks only. */
        if (marks && (at + n) % TOKENS != 0 && at + n > TOKENS && (at + n) / TOKENS * TOKENS > at)
                n = (at + n) / TOKENS * TOKENS - at;
        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                if (at % TOKENS == 0 || (tail.block[c] && n_holders(w, tail.block[c]) > 1))
                        tail.block[c] = NULL;
        r = seq_reserve(m->s, n, NULL);
        if (missing > 0) {
                assert_int_equal(r, -ERR_STATE);
                return;
        }
        if (r == SEQ_FULL)
                return;
        assert_int_equal(r, 0);
        for (enum seq_class c = SEQ_ALL; n > 0 && c <= SEQ_WINDOW; c++)
                if (tail.block[c])
                        model_drop(w, tail.block[c]);
        for (uint32_t i = at; i < at + n; i++)
                m->token[i] = copies ? like->token[i] : (int32_t)draw(w, 3) - 1;
        if (n > 0)
                write_memory(m, at, n);
        seq_commit(m->s, n);
        seq_unreserve(m->s);
        m->n_tokens += n;
        if (marks)
                assert_int_equal(seq_mark(m->s, m->n_tokens, NULL), 0);
        model_drop(w, NULL);
}

static void renew(struct world *w, struct model_seq *m) {
        m->s = seq_free(m->s);
        m->n_tokens = 0;
        model_drop(w, NULL);
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
        to->n_tokens = seq_n_tokens(to->s);
        assert_int_equal(to->n_tokens, seq_whole(m->s, pos));
}

static void do_adopt(struct world *w, struct model_seq *m) {
        const struct model_seq *like = &w->m[draw(w, N_SEQS)];
        uint64_t scope = scopes[draw(w, N_SCOPES)];
        struct seq_step out[MAX_BLOCKS];
        size_t n;

        if (like == m)
                return;
        /* Often it goes on from what it has. */
        if (draw(w, 2) || memcmp(m->token, like->token, m->n_tokens * sizeof(m->token[0])) != 0)
                renew(w, m);
        memcpy(m->token, like->token, sizeof(m->token));
        n = seq_index_match(w->x, scope, m->token, draw(w, MAX_BLOCKS + 1), out);
        n = seq_steps_whole(w->pool, m->s, out, n);
        if (n * TOKENS <= m->n_tokens) {
                assert_int_equal(seq_adopt(m->s, out, n, NULL), -ERR_INVALID);
                return;
        }
        assert_int_equal(seq_adopt(m->s, out, n, NULL), 0);
        m->n_tokens = (uint32_t)n * TOKENS;
        model_drop(w, NULL);
}

static void do_cut(struct world *w, struct model_seq *m) {
        uint32_t pos = draw(w, MAX_TOKENS), kept = seq_whole(m->s, pos);

        assert_int_equal(seq_cut(m->s, pos), kept);
        m->n_tokens = kept;
        model_drop(w, NULL);
}

static void do_restore(struct world *w, struct model_seq *m) {
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(m->s, c, &it, &cell)) {
                        struct seq_block *b = NULL;

                        if (cell.block)
                                continue;
                        if (seq_block_new(&b, w->pool, c, NULL) == SEQ_FULL)
                                return;
                        for (uint32_t p = cell.end - cell.n_tokens; p < cell.end; p++)
                                memory_of(m->token, p,
                                        (uint8_t *)seq_block_data(b) +
                                                (c == SEQ_STATE ? 0 : p % TOKENS * WORD));
                        seq_attach(m->s, c, cell.index, b);
                        seq_block_unref(b);
                }
        }
}

static void do_drop(struct world *w, struct model_seq *m) {
        enum seq_class c = (enum seq_class)draw(w, SEQ_N_CLASSES);
        uint32_t i, n = c == SEQ_STATE ? m->n_tokens : (m->n_tokens + TOKENS - 1) / TOKENS;

        for (i = n > 0 ? draw(w, n) : 0; i < n && !block_at(m->s, c, i); i++) {
        }
        if (i >= n)
                return;
        seq_drop(m->s, c, i);
        model_drop(w, NULL);
}

static void do_enter(struct world *w, struct model_seq *m) {
        uint64_t scope = scopes[draw(w, N_SCOPES)];
        uint32_t from = draw(w, 3) == 0 ? draw(w, MAX_BLOCKS) : 0;
        uint32_t to = draw(w, 4) == 0 ? draw(w, MAX_BLOCKS) : UINT32_MAX;
        struct seq_step want[MAX_BLOCKS], got;
        int r = model_enter(w, scope, m, from, to, want);

        if (to == UINT32_MAX && draw(w, 2))
                assert_int_equal(seq_index_enter(w->x, scope, m->s, m->token, from, NULL), r);
        else
                assert_int_equal(
                        seq_index_enter_range(w->x, scope, m->s, m->token, from, to, NULL), r);
        for (uint32_t i = 0; i < m->n_tokens / TOKENS; i++) {
                got = step_at(m->s, i);
                assert_memory_equal(&got, &want[i], sizeof(got));
        }
        model_drop(w, NULL);
}

static void do_forget(struct world *w) {
        uint64_t scope = scopes[draw(w, N_SCOPES)];

        seq_index_forget(w->x, scope);
        for (size_t i = w->n_entries; i-- > 0;)
                if (w->entries[i].scope == scope)
                        w->entries[i] = w->entries[--w->n_entries];
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

/* What a scope costs, by making one. */
static size_t measure_scope(struct world *w) {
        size_t size;

        do {
                renew(w, &w->m[0]);
                do_say(w, &w->m[0]);
        } while (w->m[0].n_tokens != TOKENS);
        assert_int_equal(seq_index_enter(w->x, 0, w->m[0].s, w->m[0].token, 0, NULL), 0);
        size = ledger_used(&w->index_ledger) - seq_index_entry_size(w->x);
        seq_index_forget(w->x, 0);
        return size;
}

static void run_program(const struct seq_shape *shape, uint64_t seed, struct seq_index_stats *sum) {
        struct world w = {.shape = shape,
                .ledger = LEDGER_INIT((size_t)90 << 12),
                .index_ledger = LEDGER_INIT(SIZE_MAX),
                .rng = seed};
        struct seq_index_stats st;

        assert_int_equal(seq_pool_new(&w.pool, &w.ledger, shape, NULL), 0);
        assert_int_equal(seq_index_new(&w.x, w.pool, &w.index_ledger, NULL), 0);
        for (size_t i = 0; i < N_SEQS; i++)
                assert_int_equal(seq_new(&w.m[i].s, w.pool, NULL), 0);
        w.scope_size = measure_scope(&w);
        for (size_t i = 0; i < N_STEPS; i++) {
                step(&w);
                check(&w);
                seq_index_stats(w.x, &st);
                sum->n_bare += st.n_bare;
        }
        sum->n_matched += st.n_matched;
        sum->n_merged += st.n_merged;
        for (size_t i = 0; i < N_SEQS; i++)
                w.m[i].s = seq_free(w.m[i].s);
        assert_int_equal(ledger_used(&w.ledger), 0);
        assert_int_equal(ledger_used(&w.index_ledger), 0);
        seq_index_free(w.x);
        seq_pool_free(w.pool);
}

static void test_random_programs(void **state) {
        for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
                struct seq_index_stats sum = {0};

                for (uint64_t seed = 0; seed < N_PROGRAMS; seed++)
                        run_program(&shapes[i], seed * 1000 + i, &sum);
                print_message("shape %zu: %zu bare, %llu matched, %llu merged\n", i, sum.n_bare,
                        (unsigned long long)sum.n_matched, (unsigned long long)sum.n_merged);
                /* The programs reach what they are for. */
                assert_true(sum.n_matched > 10000);
                assert_true(sum.n_merged > 20);
                assert_true(sum.n_bare > 200);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
