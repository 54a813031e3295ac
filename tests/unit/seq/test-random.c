/* SPDX-License-Identifier: MIT */
/*
 * Random programs of all operations on several sequences, for every mixture of classes, compared
 * with the model of naive.h. Contents, reference counts, statistics and the ledger are checked after
 * every step.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "unit/seq/naive.h"
#include "util/test.h"

enum { N_PROGRAMS = 40, N_STEPS = 150 };

static const struct seq_shape shapes[] = {
        {.size = {BLOCK}, .block_tokens = TOKENS},
        {.size = {0, BLOCK}, .block_tokens = TOKENS, .window = 6},
        {.size = {0, BLOCK}, .block_tokens = TOKENS, .window = 1},
        {.size = {0, BLOCK}, .block_tokens = TOKENS, .chunk = 8},
        {.size = {0, BLOCK}, .block_tokens = TOKENS, .chunk = 10},
        {.size = {0, 0, MAX_STATE}, .block_tokens = TOKENS},
        {.size = {BLOCK, BLOCK}, .block_tokens = TOKENS, .window = 5},
        {.size = {BLOCK, BLOCK}, .block_tokens = TOKENS, .chunk = 6},
        {.size = {BLOCK, 0, 64}, .block_tokens = TOKENS},
        {.size = {0, BLOCK, MAX_STATE}, .block_tokens = TOKENS, .window = 9},
        {.size = {BLOCK, BLOCK, MAX_STATE}, .block_tokens = TOKENS, .window = 7},
        {.size = {BLOCK, BLOCK, 64}, .block_tokens = TOKENS, .chunk = 12},
};

static uint32_t draw(struct world *w, uint32_t below) {
        w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(w->rng >> 33) % below;
}

/* --- steps --- */

/* Nothing of what a freed block has left behind. */
static void check_empty(const struct world *w, const struct model *m, uint32_t n_before) {
        static const uint8_t zeros[BLOCK];

        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                for (size_t i = naive_n_cells(c, n_before);
                        w->shape->size[c] &&
                        i < naive_n_cells(c, m->n_tokens + seq_n_reserved(m->s));
                        i++)
                        assert_memory_equal(seq_table(m->s, c)[i], zeros, BLOCK);
}

/* Whether it succeeded, as it must or may. */
static bool reserve(struct world *w, struct model *m, uint32_t n) {
        size_t used = ledger_used(&w->ledger), budget = ledger_budget(&w->ledger), cost;
        struct seq_pool_stats before, after;
        int r;

        seq_pool_stats(w->pool, &before);
        cost = naive_reserve_cost(w, m, n);
        assert_int_equal(seq_reserve_cost(m->s, n), cost);
        r = seq_reserve(m->s, n, NULL);
        if (naive_n_missing(w, m) > 0) {
                assert_int_equal(r, -ERR_STATE);
                return false;
        }
        seq_pool_stats(w->pool, &after);
        if (r == SEQ_FULL) {
                /* Not even without any spares would it fit. */
                assert_true(before.live_size + cost > budget);
                assert_int_equal(ledger_used(&w->ledger), used);
                return false;
        }
        assert_int_equal(r, 0);
        assert_true(cost <= budget || cost == 0);
        assert_int_equal(after.live_size, before.live_size + cost);
        if (before.live_size + cost > budget) /* all of it were spares */
                assert_int_equal(ledger_used(&w->ledger), used);
        assert_true(seq_n_reserved(m->s) >= n);
        return true;
}

static void do_say(struct world *w, struct model *m) {
        uint32_t n = draw(w, 14), n_commit, at = m->n_tokens, before = at + seq_n_reserved(m->s);
        uint32_t *next;

        n = MIN(n, MAX_TOKENS - at);
        if (!reserve(w, m, n))
                return;
        check_empty(w, m, before);
        n_commit = draw(w, 4) == 0 ? draw(w, n + 1) : n;
        for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++)
                for (uint32_t i = at; w->shape->size[c] > 0 && i < at + n; i++)
                        naive_fill(naive_place(seq_table(m->s, c)[i / TOKENS], c, i),
                                w->next_token + i - at);
        next = seq_next_state(m->s);
        if (next && n_commit > 0)
                naive_fill(
                        memset(next, 0, w->shape->size[SEQ_STATE]), w->next_token + n_commit - 1);
        for (uint32_t i = at; i < at + n_commit; i++) {
                m->token[i] = w->next_token + i - at;
                m->cells[SEQ_ALL][i / TOKENS] = m->cells[SEQ_WINDOW][i / TOKENS] = HERE;
        }
        if (n_commit > 0)
                m->cells[SEQ_STATE][at + n_commit - 1] = HERE;
        w->next_token += n;
        seq_commit(m->s, n_commit);
        m->n_tokens += n_commit;
        if (n_commit > 0) {
                struct seq_block *tail;

                naive_release(w, m);
                if (next)
                        assert_int_equal(seq_n_reserved(m->s), 0);
                for (enum seq_class c = SEQ_ALL; c <= SEQ_WINDOW; c++) {
                        tail = naive_block_at(m->s, c, at / TOKENS);
                        assert_int_equal(tail ? seq_block_tag(tail) : 0, 0);
                }
        }
        if (draw(w, 2) == 0)
                seq_unreserve(m->s);
        if (draw(w, 3) == 0)
                m->marks[m->n_tokens] |= seq_mark(m->s, m->n_tokens, NULL) == 0;
}

static void do_fork(struct world *w, const struct model *m, struct model *to) {
        uint32_t pos = draw(w, m->n_tokens + 1), kept = naive_whole(w, m, pos);
        bool reserved = seq_n_reserved(m->s) > 0 && m->n_tokens % TOKENS != 0 &&
                        kept > m->n_tokens / TOKENS * TOKENS &&
                        (w->shape->size[SEQ_ALL] || w->shape->size[SEQ_WINDOW]);
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
        naive_shorten(to, kept);
        naive_release(w, to);
}

static void do_cut(struct world *w, struct model *m) {
        uint32_t pos = draw(w, MAX_TOKENS), kept = naive_whole(w, m, pos);

        assert_int_equal(seq_cut(m->s, pos), kept);
        assert_int_equal(seq_n_reserved(m->s), 0);
        if (kept == m->n_tokens)
                return;
        w->n_back += kept > 0;
        naive_shorten(m, kept);
        naive_release(w, m);
}

static void do_mark(struct world *w, struct model *m) {
        uint32_t pos = draw(w, MAX_TOKENS);
        int r;

        if (draw(w, 3) == 0) {
                for (pos = 0; pos <= MAX_TOKENS && !m->marks[pos]; pos++) {
                }
                seq_unmark(m->s, pos);
                if (pos <= MAX_TOKENS)
                        m->marks[pos] = false;
                if (draw(w, 2) == 0)
                        return;
                seq_release(m->s);
                naive_release(w, m);
                return;
        }
        r = seq_mark(m->s, pos, NULL);
        assert_int_equal(r, pos > m->n_tokens || !naive_is_whole(w, m, pos));
        m->marks[pos] |= r == 0;
}

static void restore(struct world *w, struct model *m, enum seq_class c, uint32_t i) {
        struct seq_block *b = NULL;
        int r;

        r = seq_block_new(&b, w->pool, c, NULL);
        if (r == SEQ_FULL)
                return;
        assert_int_equal(r, 0);
        memset(seq_block_data(b), 0, w->shape->size[c]);
        for (uint32_t p = i * naive_cell_tokens(c); p < (i + 1) * naive_cell_tokens(c); p++)
                if (p < m->n_tokens)
                        naive_fill(naive_place(seq_block_data(b), c, p), m->token[p]);
        seq_attach(m->s, c, i, b);
        seq_block_unref(b);
        m->cells[c][i] = HERE;
}

/* One that is not absent. */
static bool draw_cell(
        struct world *w, const struct model *m, enum seq_class *ret_c, uint32_t *ret) {
        for (int tries = 0; tries < 40; tries++) {
                *ret_c = (enum seq_class)draw(w, SEQ_N_CLASSES);
                *ret = m->n_tokens > 0 ? draw(w, naive_n_cells(*ret_c, m->n_tokens)) : 0;
                if (w->shape->size[*ret_c] && m->cells[*ret_c][*ret] != ABSENT)
                        return true;
        }
        return false;
}

/* What stays reserved when the cell goes. */
static uint32_t reserved_without(
        const struct world *w, const struct model *m, enum seq_class c, uint32_t i) {
        return naive_needs(w->shape, c, i, m->n_tokens) ? 0 : seq_n_reserved(m->s);
}

static void do_drop_or_attach(struct world *w, struct model *m) {
        enum seq_class c;
        uint32_t at, reserved;

        if (!draw_cell(w, m, &c, &at))
                return;
        if (m->cells[c][at] == HERE) {
                reserved = reserved_without(w, m, c, at);
                seq_drop(m->s, c, at);
                assert_int_equal(seq_n_reserved(m->s), reserved);
                m->cells[c][at] = HOLE;
                return;
        }
        for (enum seq_class k = SEQ_ALL; k < SEQ_N_CLASSES; k++) {
                if (!w->shape->size[k])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(k, m->n_tokens); i++)
                        if (m->cells[k][i] == HOLE)
                                restore(w, m, k, i);
        }
}

static void do_forget(struct world *w, struct model *m) {
        enum seq_class c;
        uint32_t i, kept, reserved;

        if (draw(w, 3) || !draw_cell(w, m, &c, &i))
                return;
        reserved = reserved_without(w, m, c, i);
        m->cells[c][i] = ABSENT;
        kept = naive_whole(w, m, m->n_tokens);
        for (uint32_t p = 0; p <= m->n_tokens; p++)
                m->marks[p] = m->marks[p] && naive_is_whole(w, m, p);
        assert_int_equal(seq_forget(m->s, c, i), kept);
        assert_int_equal(seq_n_reserved(m->s), reserved);
        naive_shorten(m, kept);
        naive_release(w, m);
        w->n_forgotten += kept > 0;
}

static void do_hold(struct world *w, struct model *m) {
        struct held *h = &w->held[draw(w, N_HELD)];
        enum seq_class c;
        uint32_t i;

        h->b = seq_block_unref(h->b);
        if (!draw_cell(w, m, &c, &i) || m->cells[c][i] == HOLE)
                return;
        if (c != SEQ_STATE && i + 1 == naive_n_cells(c, m->n_tokens) && seq_n_reserved(m->s) > 0)
                return;
        h->b = seq_block_ref(naive_block_at(m->s, c, i));
        h->tag = draw(w, 1000);
        seq_block_set_tag(h->b, h->tag);
        for (size_t j = 0; j < N_HELD; j++)
                if (w->held[j].b == h->b)
                        w->held[j].tag = h->tag;
        memcpy(h->bytes, seq_block_data(h->b), w->shape->size[c]);
}

/* Blocks of a sequence that begins with the same tokens, some left out. */
static size_t draw_steps(
        struct world *w, const struct model *m, const struct model *donor, struct seq_step *ret) {
        uint32_t n = 0, most;

        memset(ret, 0, MAX_CELLS * sizeof(*ret));
        while (n < donor->n_tokens && (n >= m->n_tokens || donor->token[n] == m->token[n]))
                n++;
        most = n / TOKENS;
        if (donor == m || n < m->n_tokens || seq_n_reserved(donor->s) > 0 || most == 0)
                return 0;
        for (uint32_t i = 0; i < most; i++)
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        if (!w->shape->size[c])
                                continue;

                        uint32_t at = c == SEQ_STATE ? (i + 1) * TOKENS - 1 : i;

                        if (draw(w, 30) > 0)
                                ret[i].block[c] = naive_block_at(donor->s, c, at);
                }
        return most;
}

static void do_adopt(struct world *w, struct model *m) {
        struct seq_step steps[MAX_CELLS];
        uint32_t n, want = 0, token[MAX_TOKENS];
        const struct model *donor = &w->m[draw(w, N_SEQS)];
        struct model empty = {0};

        n = (uint32_t)draw_steps(w, m, donor, steps);
        if (n == 0)
                return;
        memcpy(token, donor->token, sizeof(token));
        for (uint32_t k = 0; k <= n; k++)
                if (naive_steps_whole(w, &empty, steps, k))
                        want = k;
        assert_int_equal(seq_steps_whole(w->pool, NULL, steps, n), want);
        want = 0;
        for (uint32_t k = 0; k <= n; k++)
                if (naive_steps_whole(w, m, steps, k))
                        want = k;
        assert_int_equal(seq_steps_whole(w->pool, m->s, steps, n), want);
        n = draw(w, 8) ? want : draw(w, n + 1);
        if (seq_n_reserved(m->s) > 0) {
                assert_int_equal(seq_adopt(m->s, steps, n, NULL), -ERR_STATE);
                return;
        }
        if (n * TOKENS <= m->n_tokens || !naive_steps_whole(w, m, steps, n)) {
                assert_int_equal(seq_adopt(m->s, steps, n, NULL), -ERR_INVALID);
                return;
        }
        assert_int_equal(seq_adopt(m->s, steps, n, NULL), 0);
        naive_adopt(w, m, steps, n, token);
        w->n_adopted++;
}

static void do_renew(struct world *w, struct model *m) {
        uint32_t n = draw(w, MAX_TOKENS), n_cells_given = 0;
        struct seq_place cells[2 * MAX_CELLS];

        seq_free(m->s);
        *m = (struct model){0};
        assert_int_equal(seq_new(&m->s, w->pool, NULL), 0);
        if (draw(w, 2) == 0)
                return;
        /* A spilled conversation. */
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(c, n); i++) {
                        if (c != SEQ_ALL && draw(w, 8) == 0)
                                continue;
                        m->cells[c][i] = HOLE;
                        if (c != SEQ_ALL)
                                cells[n_cells_given++] = (struct seq_place){c, i};
                }
        }
        m->n_tokens = n;
        for (uint32_t i = 0; i < n; i++)
                m->token[i] = w->next_token++;
        assert_int_equal(seq_set_holes(m->s, n, cells, n_cells_given, NULL), 0);
        naive_shorten(m, naive_whole(w, m, n));
}

static void step(struct world *w) {
        struct model *m = &w->m[draw(w, N_SEQS)], *to = m;
        uint32_t n;

        switch (draw(w, 26)) {
        case 0 ... 6:
                do_say(w, m);
                break;
        case 7 ... 9:
                to = &w->m[draw(w, N_SEQS)];
                do_fork(w, m, to);
                break;
        case 10 ... 11:
                do_cut(w, m);
                break;
        case 12 ... 13:
                do_mark(w, m);
                break;
        case 14 ... 15:
                do_drop_or_attach(w, m);
                break;
        case 16:
                do_forget(w, m);
                break;
        case 17 ... 18:
                do_hold(w, m);
                break;
        case 19 ... 21:
                do_adopt(w, m);
                break;
        case 22:
                ledger_set_budget(&w->ledger, draw(w, BUDGET_BLOCKS + 1) * 4096);
                break;
        case 23:
                w->max_spare = draw(w, BUDGET_BLOCKS / 2) * 4096;
                seq_pool_set_spare(w->pool, w->max_spare);
                break;
        case 24: {
                struct seq_pool_stats st;

                n = draw(w, BUDGET_BLOCKS / 4);
                seq_pool_trim(w->pool, n * 4096);
                seq_pool_stats(w->pool, &st);
                assert_true(st.spare_size <= n * 4096);
                break;
        }
        default:
                do_renew(w, m);
                break;
        }
        naive_forget_idle_marks(w, to);
        naive_forget_idle_marks(w, m);
        naive_check_positions(w, to);
        naive_check_positions(w, m);
}

static void run_program(const struct seq_shape *shape, uint64_t seed, struct world *total) {
        struct world w = {.shape = shape,
                .ledger = LEDGER_INIT((size_t)BUDGET_BLOCKS << 12),
                .next_token = 1,
                .rng = seed};

        assert_int_equal(seq_pool_new(&w.pool, &w.ledger, shape, NULL), 0);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                assert_int_equal(seq_pool_slot_size(w.pool, c), naive_slot(&w, c));
        for (size_t i = 0; i < N_SEQS; i++)
                assert_int_equal(seq_new(&w.m[i].s, w.pool, NULL), 0);
        for (size_t i = 0; i < N_STEPS; i++) {
                step(&w);
                naive_check(&w);
        }
        for (size_t i = 0; i < N_SEQS; i++)
                w.m[i].s = seq_free(w.m[i].s);
        naive_check(&w);
        for (size_t i = 0; i < N_HELD; i++)
                w.held[i].b = seq_block_unref(w.held[i].b);
        seq_pool_trim(w.pool, 0);
        assert_int_equal(ledger_used(&w.ledger), 0);
        seq_pool_free(w.pool);
        total->n_adopted += w.n_adopted;
        total->n_forgotten += w.n_forgotten;
        total->n_back += w.n_back;
}

static void test_random_programs(void **state) {
        struct world total = {0};

        for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
                for (uint64_t seed = 0; seed < N_PROGRAMS; seed++)
                        run_program(&shapes[i], seed * 1000 + i, &total);
        print_message("%zu adopted, %zu forgotten, %zu cut back\n", total.n_adopted,
                total.n_forgotten, total.n_back);
        assert_true(total.n_adopted > 200);
        assert_true(total.n_forgotten > 100);
        assert_true(total.n_back > 200);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
