/* SPDX-License-Identifier: MIT */
/*
 * Random programs of all operations on several sequences, compared with a model that consists of
 * arrays of bytes. Contents, reference counts, statistics and the ledger are checked after every
 * step.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/test.h"

enum {
        N_SEQS = 6,
        N_HELD = 4,
        MAX_TOKENS = 64,
        TOKENS = 4,
        TOKEN_SIZE = 16,
        BLOCK = TOKENS * TOKEN_SIZE,
        MAX_BLOCKS = (MAX_TOKENS + TOKENS - 1) / TOKENS,
        BUDGET_BLOCKS = 40,
        N_PROGRAMS = 300,
        N_STEPS = 150,
};

struct model {
        struct seq *s;
        uint32_t n_tokens;
        uint32_t token[MAX_TOKENS]; /* what the memory of each position says */
        bool hole[MAX_BLOCKS];
};

/* What a spill worker would hold: a reference, and the bytes as they were then. */
struct held {
        struct seq_block *b;
        uint8_t bytes[BLOCK];
        uint64_t tag;
};

struct world {
        struct ledger ledger;
        struct seq_pool *pool;
        struct model m[N_SEQS];
        struct held held[N_HELD];
        size_t slot, max_spare;
        uint64_t rng;
        uint32_t next_token;
};

static uint32_t draw(struct world *w, uint32_t below) {
        w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(w->rng >> 33) % below;
}

static void fill(void *p, uint32_t token) {
        for (size_t i = 0; i < TOKEN_SIZE / sizeof(token); i++)
                memcpy((char *)p + i * sizeof(token), &token, sizeof(token));
}

static void *place(void *block, uint32_t pos) {
        return (char *)block + pos % TOKENS * TOKEN_SIZE;
}

static uint32_t n_blocks(uint32_t n_tokens) {
        return (n_tokens + TOKENS - 1) / TOKENS;
}

static bool has_holes(const struct model *m) {
        for (uint32_t i = 0; i < n_blocks(m->n_tokens); i++)
                if (m->hole[i])
                        return true;
        return false;
}

static uint32_t count_refs(const struct world *w, const struct seq_block *b) {
        uint32_t n = 0;

        for (size_t i = 0; i < N_SEQS; i++)
                for (size_t j = 0; w->m[i].s && j < seq_n_blocks(w->m[i].s); j++)
                        n += seq_block_at(w->m[i].s, j) == b;
        for (size_t i = 0; i < N_HELD; i++)
                n += w->held[i].b == b;
        return n;
}

static void check_seq(const struct world *w, const struct model *m) {
        uint32_t n = n_blocks(m->n_tokens), n_resident = 0;

        assert_int_equal(seq_n_tokens(m->s), m->n_tokens);
        assert_int_equal(seq_n_blocks(m->s), n);
        for (uint32_t i = 0; i < n; i++) {
                struct seq_block *b = seq_block_at(m->s, i);

                assert_int_equal(!b, m->hole[i]);
                if (!b)
                        continue;
                n_resident++;
                assert_int_equal(seq_block_n_refs(b), count_refs(w, b));
                for (uint32_t p = i * TOKENS; p < MIN((i + 1) * TOKENS, m->n_tokens); p++) {
                        uint8_t want[TOKEN_SIZE];

                        fill(want, m->token[p]);
                        assert_memory_equal(place(seq_block_data(b), p), want, TOKEN_SIZE);
                }
        }
        assert_int_equal(seq_n_resident(m->s), n_resident);
        if (n_resident == n)
                for (uint32_t i = 0; i < n; i++)
                        assert_ptr_equal(seq_table(m->s)[i], seq_block_data(seq_block_at(m->s, i)));
}

static void check(const struct world *w) {
        const struct seq_block *live[N_SEQS * MAX_BLOCKS + N_HELD];
        struct seq_pool_stats st;
        size_t n_live = 0, n_reserved = 0;

        for (size_t i = 0; i < N_SEQS; i++) {
                const struct model *m = &w->m[i];

                if (!m->s)
                        continue;
                check_seq(w, m);
                n_reserved += n_blocks(m->n_tokens + seq_n_reserved(m->s)) - n_blocks(m->n_tokens);
                for (size_t j = 0; j < seq_n_blocks(m->s); j++)
                        live[n_live++] = seq_block_at(m->s, j);
        }
        for (size_t i = 0; i < N_HELD; i++) {
                if (!w->held[i].b)
                        continue;
                /* Whoever holds a block sees it unchanged. */
                assert_memory_equal(
                        seq_block_data(w->held[i].b), w->held[i].bytes, sizeof(w->held[i].bytes));
                assert_int_equal(seq_block_tag(w->held[i].b), w->held[i].tag);
                live[n_live++] = w->held[i].b;
        }
        for (size_t i = 0; i < n_live; i++)
                for (size_t j = i + 1; live[i] && j < n_live; j++)
                        if (live[j] == live[i])
                                live[j] = NULL;
        for (size_t i = 0; i < n_live; i++)
                n_reserved += !!live[i];
        seq_pool_stats(w->pool, &st);
        assert_int_equal(st.n_blocks, n_reserved);
        assert_true(st.spare_size <= w->max_spare);
        assert_int_equal(st.charged_size, n_reserved * w->slot + st.spare_size);
        assert_int_equal(ledger_used((struct ledger *)(uintptr_t)&w->ledger), st.charged_size);
}

static size_t n_spare(const struct world *w) {
        struct seq_pool_stats st;

        seq_pool_stats(w->pool, &st);
        return st.spare_size / w->slot;
}

/* Nothing of what a freed block has left behind. */
static void check_empty(const struct model *m, size_t from) {
        static const uint8_t zeros[BLOCK];

        for (size_t i = from; i < n_blocks(m->n_tokens + seq_n_reserved(m->s)); i++)
                assert_memory_equal(seq_table(m->s)[i], zeros, BLOCK);
}

static void do_say(struct world *w, struct model *m) {
        uint32_t n = draw(w, 14), n_commit, at = m->n_tokens;
        size_t old = n_blocks(at + seq_n_reserved(m->s)), used = ledger_used(&w->ledger);
        size_t cost, n_charged;
        int r;

        n = MIN(n, MAX_TOKENS - at);
        cost = seq_reserve_cost(m->s, n);
        n_charged = cost - MIN(cost, n_spare(w));
        r = seq_reserve(m->s, n, NULL);
        if (has_holes(m)) {
                assert_int_equal(r, -ERR_STATE);
                return;
        }
        /* More than the budget has at all is refused also where spares would do. */
        if (cost * w->slot > ledger_budget(&w->ledger) ||
                (n_charged > 0 && used + n_charged * w->slot > ledger_budget(&w->ledger))) {
                assert_int_equal(r, SEQ_FULL);
                return;
        }
        assert_int_equal(r, 0);
        assert_true(seq_n_reserved(m->s) >= n);
        assert_int_equal(ledger_used(&w->ledger), used + n_charged * w->slot);
        check_empty(m, old);
        n_commit = draw(w, 4) == 0 ? draw(w, n + 1) : n;
        for (uint32_t i = at; i < at + n; i++)
                fill(place(seq_table(m->s)[i / TOKENS], i), w->next_token + i - at);
        for (uint32_t i = at; i < at + n_commit; i++) {
                m->token[i] = w->next_token + i - at;
                m->hole[i / TOKENS] = false;
        }
        w->next_token += n;
        seq_commit(m->s, n_commit);
        m->n_tokens += n_commit;
        if (n_commit > 0)
                assert_int_equal(seq_block_tag(seq_block_at(m->s, at / TOKENS)), 0);
        if (draw(w, 2) == 0)
                seq_unreserve(m->s);
}

static void do_fork(struct world *w, const struct model *m, struct model *to) {
        uint32_t pos = draw(w, m->n_tokens + 1);
        bool reserved = seq_n_reserved(m->s) > 0 && m->n_tokens % TOKENS != 0 &&
                        pos > m->n_tokens / TOKENS * TOKENS;
        struct seq *s = NULL;
        int r;

        if (to == m)
                return;
        r = seq_fork(&s, m->s, pos, NULL);
        if (reserved) {
                assert_int_equal(r, -ERR_STATE);
                return;
        }
        assert_int_equal(r, 0);
        seq_free(to->s);
        *to = *m;
        to->s = s;
        to->n_tokens = pos;
}

static void do_restore(struct world *w, struct model *m, uint32_t i) {
        struct seq_block *b = NULL;
        int r;

        r = seq_block_new(&b, w->pool, NULL);
        if (r == SEQ_FULL)
                return;
        assert_int_equal(r, 0);
        for (uint32_t p = i * TOKENS; p < (i + 1) * TOKENS; p++)
                fill(place(seq_block_data(b), p), p < m->n_tokens ? m->token[p] : 0);
        seq_attach(m->s, i, b);
        seq_block_unref(b);
        m->hole[i] = false;
}

static void do_drop_or_attach(struct world *w, struct model *m) {
        uint32_t n = n_blocks(m->n_tokens), i;

        if (n == 0)
                return;
        i = draw(w, n);
        if (m->hole[i]) {
                for (i = 0; i < n; i++)
                        if (m->hole[i])
                                do_restore(w, m, i);
                return;
        }
        seq_drop(m->s, i);
        m->hole[i] = true;
}

static void do_hold(struct world *w, struct model *m) {
        struct held *h = &w->held[draw(w, N_HELD)];
        uint32_t n = n_blocks(m->n_tokens), i;

        h->b = seq_block_unref(h->b);
        if (n == 0)
                return;
        i = draw(w, n);
        if (m->hole[i] || (i == n - 1 && seq_n_reserved(m->s) > 0))
                return;
        h->b = seq_block_ref(seq_block_at(m->s, i));
        h->tag = draw(w, 1000);
        seq_block_set_tag(h->b, h->tag);
        for (size_t j = 0; j < N_HELD; j++)
                if (w->held[j].b == h->b)
                        w->held[j].tag = h->tag;
        memcpy(h->bytes, seq_block_data(h->b), BLOCK);
}

static void do_renew(struct world *w, struct model *m) {
        uint32_t n = draw(w, MAX_TOKENS);

        seq_free(m->s);
        *m = (struct model){0};
        assert_int_equal(seq_new(&m->s, w->pool, NULL), 0);
        if (draw(w, 2) == 0)
                return;
        /* A spilled conversation. */
        assert_int_equal(seq_set_holes(m->s, n, NULL), 0);
        m->n_tokens = n;
        for (uint32_t i = 0; i < n; i++) {
                m->token[i] = w->next_token++;
                m->hole[i / TOKENS] = true;
        }
}

static void step(struct world *w) {
        struct model *m = &w->m[draw(w, N_SEQS)];
        uint32_t pos;

        switch (draw(w, 18)) {
        case 0 ... 5:
                do_say(w, m);
                break;
        case 6 ... 7:
                do_fork(w, m, &w->m[draw(w, N_SEQS)]);
                break;
        case 8:
                pos = draw(w, MAX_TOKENS);
                m->n_tokens = MIN(m->n_tokens, pos);
                assert_int_equal(seq_cut(m->s, pos), m->n_tokens);
                break;
        case 9 ... 11:
                do_drop_or_attach(w, m);
                break;
        case 12 ... 13:
                do_hold(w, m);
                break;
        case 14:
                ledger_set_budget(&w->ledger, draw(w, BUDGET_BLOCKS + 1) * w->slot);
                break;
        case 15:
                w->max_spare = draw(w, BUDGET_BLOCKS / 2) * w->slot;
                seq_pool_set_spare(w->pool, w->max_spare);
                break;
        case 16:
                pos = draw(w, BUDGET_BLOCKS / 4);
                seq_pool_trim(w->pool, pos * w->slot);
                assert_true(n_spare(w) <= pos);
                break;
        default:
                do_renew(w, m);
                break;
        }
}

static void test_random_programs(void **state) {
        for (uint64_t seed = 0; seed < N_PROGRAMS; seed++) {
                struct world w = {.ledger = LEDGER_INIT((size_t)BUDGET_BLOCKS << 12), .rng = seed};

                assert_int_equal(seq_pool_new(&w.pool, &w.ledger, BLOCK, TOKENS, NULL), 0);
                w.slot = seq_pool_slot_size(w.pool);
                for (size_t i = 0; i < N_SEQS; i++)
                        assert_int_equal(seq_new(&w.m[i].s, w.pool, NULL), 0);
                for (size_t i = 0; i < N_STEPS; i++) {
                        step(&w);
                        check(&w);
                }
                for (size_t i = 0; i < N_SEQS; i++)
                        w.m[i].s = seq_free(w.m[i].s);
                check(&w);
                for (size_t i = 0; i < N_HELD; i++)
                        w.held[i].b = seq_block_unref(w.held[i].b);
                seq_pool_trim(w.pool, 0);
                assert_int_equal(ledger_used(&w.ledger), 0);
                seq_pool_free(w.pool);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
