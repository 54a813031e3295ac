/* SPDX-License-Identifier: MIT */
#include "unit/seq/naive.h"

#include <string.h>

#include "base/util.h"
#include "util/test.h"

/* --- the rules --- */

uint32_t naive_cell_tokens(enum seq_class c) {
        return c == SEQ_STATE ? 1 : TOKENS;
}

uint32_t naive_n_cells(enum seq_class c, uint32_t n_tokens) {
        return (n_tokens + naive_cell_tokens(c) - 1) / naive_cell_tokens(c);
}

static bool sees(const struct seq_shape *shape, uint32_t p, uint32_t j) {
        return j <= p &&
               (shape->chunk ? j / shape->chunk == p / shape->chunk : p - j < shape->window);
}

/* Whether computing token @p needs the cell. */
bool naive_needs(const struct seq_shape *shape, enum seq_class c, uint32_t cell, uint32_t p) {
        if (cell * naive_cell_tokens(c) >= p)
                return false;
        if (c == SEQ_ALL)
                return true;
        if (c == SEQ_STATE)
                return cell + 1 == p;
        for (uint32_t j = cell * TOKENS; j < (cell + 1) * TOKENS; j++)
                if (sees(shape, p, j))
                        return true;
        return false;
}

bool naive_is_whole(const struct world *w, const struct model *m, uint32_t p) {
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(c, p); i++)
                        if (m->cells[c][i] == ABSENT && naive_needs(w->shape, c, i, p))
                                return false;
        }
        return true;
}

uint32_t naive_whole(const struct world *w, const struct model *m, uint32_t p) {
        p = MIN(p, m->n_tokens);
        while (!naive_is_whole(w, m, p))
                p--;
        return p;
}

bool naive_is_kept(const struct world *w, const struct model *m, enum seq_class c, uint32_t cell,
        uint32_t but_for) {
        for (uint32_t p = 0; p <= m->n_tokens; p++)
                if ((m->marks[p] || p == m->n_tokens) && p != but_for &&
                        naive_needs(w->shape, c, cell, p))
                        return true;
        return false;
}

/* What release, cut, commit, fork and adopt leave. */
void naive_release(const struct world *w, struct model *m) {
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < MAX_CELLS; i++)
                        if (i >= naive_n_cells(c, m->n_tokens) ||
                                !naive_is_kept(w, m, c, i, UINT32_MAX))
                                m->cells[c][i] = ABSENT;
        }
}

void naive_shorten(struct model *m, uint32_t p) {
        m->n_tokens = p;
        for (uint32_t q = p + 1; q <= MAX_TOKENS; q++)
                m->marks[q] = false;
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++)
                for (uint32_t i = naive_n_cells(c, p); i < MAX_CELLS; i++)
                        m->cells[c][i] = ABSENT;
}

uint32_t naive_n_missing(const struct world *w, const struct model *m) {
        uint32_t n = 0;

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(c, m->n_tokens); i++)
                        n += m->cells[c][i] == HOLE && naive_needs(w->shape, c, i, m->n_tokens);
        }
        return n;
}

size_t naive_slot(const struct world *w, enum seq_class c) {
        return (w->shape->size[c] + 4095) / 4096 * 4096;
}

/* Whether the sequence has the cell, full, or the step has. */
static bool step_has(
        const struct model *m, const struct seq_step *steps, enum seq_class c, uint32_t cell) {
        uint32_t i = c == SEQ_STATE ? cell / TOKENS : cell;

        if (c != SEQ_STATE || cell % TOKENS == TOKENS - 1)
                if (steps[i].block[c])
                        return true;
        return (cell + 1) * naive_cell_tokens(c) <= m->n_tokens && m->cells[c][cell] != ABSENT;
}

bool naive_steps_whole(
        const struct world *w, const struct model *m, const struct seq_step *steps, uint32_t n) {
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(c, n * TOKENS); i++)
                        if (naive_needs(w->shape, c, i, n * TOKENS) && !step_has(m, steps, c, i))
                                return false;
        }
        return true;
}

void naive_adopt(const struct world *w, struct model *m, const struct seq_step *steps, uint32_t n,
        const uint32_t *token) {
        uint32_t had = m->n_tokens, end = n * TOKENS;

        memcpy(m->token, token, end * sizeof(*token));
        m->n_tokens = end;
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                for (uint32_t i = 0; i < naive_n_cells(c, end); i++) {
                        bool full = (i + 1) * naive_cell_tokens(c) <= had;
                        struct seq_block *b = c == SEQ_STATE ? NULL : steps[i].block[c];

                        if (c == SEQ_STATE && i + 1 == end)
                                b = steps[n - 1].block[c];
                        if (!full)
                                m->cells[c][i] = b ? HERE : ABSENT;
                        else if (m->cells[c][i] == HOLE && b &&
                                 naive_is_kept(w, m, c, i, UINT32_MAX))
                                m->cells[c][i] = HERE;
                }
        }
        for (uint32_t p = 0; p <= end; p++)
                m->marks[p] = m->marks[p] && naive_is_whole(w, m, p);
        naive_release(w, m);
}

/* Marks that mean nothing are not remembered. */
void naive_forget_idle_marks(const struct world *w, struct model *m) {
        for (uint32_t p = 0; p <= MAX_TOKENS; p++) {
                bool any = false;

                for (uint32_t i = 0; i < MAX_CELLS; i++)
                        any = any ||
                              (w->shape->size[SEQ_WINDOW] &&
                                      naive_needs(w->shape, SEQ_WINDOW, i, p)) ||
                              (w->shape->size[SEQ_STATE] && naive_needs(w->shape, SEQ_STATE, i, p));
                m->marks[p] = m->marks[p] && any;
        }
}

/* --- comparing --- */

void naive_fill(void *p, uint32_t token) {
        for (size_t i = 0; i < TOKEN_SIZE / sizeof(token); i++)
                memcpy((char *)p + i * sizeof(token), &token, sizeof(token));
}

/* Where a token's memory is in its cell's block. */
void *naive_place(void *block, enum seq_class c, uint32_t pos) {
        return (char *)block + (c == SEQ_STATE ? 0 : pos % TOKENS * TOKEN_SIZE);
}

struct seq_block *naive_block_at(const struct seq *s, enum seq_class c, uint32_t i) {
        struct seq_cell cell;

        return seq_cell_at(s, c, i, &cell) ? cell.block : NULL;
}

uint32_t naive_count_refs(const struct world *w, const struct seq_block *b) {
        uint32_t n = 0;

        for (size_t i = 0; i < N_SEQS; i++) {
                struct seq_cell cell;
                size_t it = 0;

                while (w->m[i].s && seq_next_cell(w->m[i].s, seq_block_class(b), &it, &cell))
                        n += cell.block == b;
        }
        for (size_t i = 0; i < N_HELD; i++)
                n += w->held[i].b == b;
        return n;
}

static void check_block(const struct world *w, const struct model *m, enum seq_class c, uint32_t i,
        struct seq_block *b) {
        assert_int_equal(seq_block_class(b), c);
        assert_int_equal(seq_block_n_refs(b), naive_count_refs(w, b));
        for (uint32_t p = i * naive_cell_tokens(c);
                p < MIN((i + 1) * naive_cell_tokens(c), m->n_tokens); p++) {
                uint8_t want[TOKEN_SIZE];

                naive_fill(want, m->token[p]);
                assert_memory_equal(naive_place(seq_block_data(b), c, p), want, TOKEN_SIZE);
        }
}

static void check_class(const struct world *w, const struct model *m, enum seq_class c) {
        struct seq_cell cell;
        size_t it = 0;
        bool is_whole_here = seq_n_missing(m->s) == 0 && c != SEQ_STATE;

        for (uint32_t i = 0; i < naive_n_cells(c, m->n_tokens); i++) {
                if (m->cells[c][i] == ABSENT) {
                        assert_false(seq_cell_at(m->s, c, i, &cell));
                        continue;
                }
                assert_true(seq_next_cell(m->s, c, &it, &cell));
                assert_int_equal(cell.index, i);
                assert_int_equal(cell.end, MIN((i + 1) * naive_cell_tokens(c), m->n_tokens));
                assert_int_equal(cell.n_tokens, cell.end - i * naive_cell_tokens(c));
                assert_int_equal(cell.needed, naive_needs(w->shape, c, i, m->n_tokens));
                assert_int_equal(!cell.block, m->cells[c][i] == HOLE);
                if (cell.block)
                        check_block(w, m, c, i, cell.block);
                if (is_whole_here)
                        assert_ptr_equal(seq_table(m->s, c)[i],
                                cell.block ? seq_block_data(cell.block) : NULL);
        }
        assert_false(seq_next_cell(m->s, c, &it, &cell));
        if (c == SEQ_STATE && m->n_tokens > 0 && m->cells[c][m->n_tokens - 1] == HERE)
                assert_ptr_equal(
                        seq_state(m->s), seq_block_data(naive_block_at(m->s, c, m->n_tokens - 1)));
}

static void check_seq(const struct world *w, const struct model *m) {
        size_t n = 0, n_here = 0, size = 0;

        assert_int_equal(seq_n_tokens(m->s), m->n_tokens);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                check_class(w, m, c);
                for (uint32_t i = 0; i < MAX_CELLS; i++) {
                        n += m->cells[c][i] != ABSENT;
                        n_here += m->cells[c][i] == HERE;
                        size += m->cells[c][i] == HERE ? naive_slot(w, c) : 0;
                }
        }
        assert_int_equal(seq_n_cells(m->s), n);
        assert_int_equal(seq_n_resident(m->s), n_here);
        assert_int_equal(seq_resident_size(m->s), size);
        assert_int_equal(seq_n_missing(m->s), naive_n_missing(w, m));
        assert_int_equal(
                !seq_next_state(m->s), seq_n_reserved(m->s) == 0 || w->shape->size[SEQ_STATE] == 0);
        if (m->n_tokens == 0)
                assert_null(seq_state(m->s));
}

/* The rules that depend on a position. */
void naive_check_positions(const struct world *w, const struct model *m) {
        uint32_t mark;
        size_t it = 0;

        assert_true(naive_is_whole(w, m, m->n_tokens));
        for (uint32_t p = 0; p <= MAX_TOKENS; p++) {
                size_t cost = 0;

                assert_int_equal(seq_whole(m->s, p), naive_whole(w, m, p));
                if (!m->marks[p])
                        continue;
                assert_true(naive_is_whole(w, m, p));
                assert_true(seq_next_mark(m->s, &it, &mark));
                assert_int_equal(mark, p);
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        if (!w->shape->size[c])
                                continue;

                        for (uint32_t i = 0; i < naive_n_cells(c, p); i++)
                                if (naive_needs(w->shape, c, i, p) &&
                                        !naive_is_kept(w, m, c, i, p) && p != m->n_tokens)
                                        cost += naive_slot(w, c);
                }
                assert_int_equal(seq_mark_cost(m->s, p), cost);
        }
        assert_false(seq_next_mark(m->s, &it, &mark));
}

static void check_pool(const struct world *w) {
        const struct seq_block *live[N_SEQS * 3 * MAX_CELLS + N_HELD];
        size_t n_live = 0, n_class[SEQ_N_CLASSES] = {0}, size = 0;
        struct seq_pool_stats st;

        for (size_t i = 0; i < N_SEQS; i++) {
                const struct model *m = &w->m[i];
                struct seq_cell cell;

                if (!m->s)
                        continue;
                for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                        if (!w->shape->size[c])
                                continue;

                        for (size_t it = 0; seq_next_cell(m->s, c, &it, &cell);)
                                if (cell.block)
                                        live[n_live++] = cell.block;
                        n_class[c] += c == SEQ_STATE ? !!seq_next_state(m->s)
                                                     : naive_n_cells(c,
                                                               m->n_tokens + seq_n_reserved(m->s)) -
                                                               naive_n_cells(c, m->n_tokens);
                }
        }
        for (size_t i = 0; i < N_HELD; i++) {
                if (!w->held[i].b)
                        continue;
                /* Whoever holds a block sees it unchanged. */
                assert_memory_equal(seq_block_data(w->held[i].b), w->held[i].bytes,
                        w->shape->size[seq_block_class(w->held[i].b)]);
                assert_int_equal(seq_block_tag(w->held[i].b), w->held[i].tag);
                live[n_live++] = w->held[i].b;
        }
        for (size_t i = 0; i < n_live; i++)
                for (size_t j = i + 1; live[i] && j < n_live; j++)
                        if (live[j] == live[i])
                                live[j] = NULL;
        for (size_t i = 0; i < n_live; i++)
                if (live[i])
                        n_class[seq_block_class(live[i])]++;
        seq_pool_stats(w->pool, &st);
        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                assert_int_equal(st.n_blocks[c], n_class[c]);
                size += n_class[c] * naive_slot(w, c);
        }
        assert_int_equal(st.live_size, size);
        assert_int_equal(st.n_allocated - st.n_freed, n_class[0] + n_class[1] + n_class[2]);
        assert_true(st.spare_size <= w->max_spare);
        assert_int_equal(st.charged_size, size + st.spare_size);
        assert_int_equal(ledger_used((struct ledger *)(uintptr_t)&w->ledger), st.charged_size);
}

void naive_check(const struct world *w) {
        for (size_t i = 0; i < N_SEQS; i++)
                if (w->m[i].s)
                        check_seq(w, &w->m[i]);
        check_pool(w);
}

/* What seq_reserve() has to take. */
size_t naive_reserve_cost(const struct world *w, const struct model *m, uint32_t n) {
        uint32_t have = m->n_tokens + seq_n_reserved(m->s);
        size_t cost = 0;

        for (enum seq_class c = SEQ_ALL; c < SEQ_N_CLASSES; c++) {
                if (!w->shape->size[c])
                        continue;

                struct seq_block *tail = naive_block_at(m->s, c, m->n_tokens / TOKENS);

                if (c == SEQ_STATE) {
                        cost += n > 0 && !seq_next_state(m->s) ? naive_slot(w, c) : 0;
                        continue;
                }
                if (m->n_tokens + n > have)
                        cost += (naive_n_cells(c, m->n_tokens + n) - naive_n_cells(c, have)) *
                                naive_slot(w, c);
                if (n > 0 && m->n_tokens % TOKENS && tail && naive_count_refs(w, tail) > 1)
                        cost += naive_slot(w, c);
        }
        return cost;
}
