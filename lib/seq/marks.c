/* SPDX-License-Identifier: MIT */
/*
 * Marks, and the cells that nothing needs any more.
 *
 * A mark keeps cells by being asked about: a cell has no count of the marks that need it. Cells are
 * released in two ways:
 *
 * 1. seq_commit() calls seq_release_passed(). It looks at the cells of SEQ_WINDOW between the window
 *    of the old end and the window of the new one, and at the old end's state. So a token costs
 *    the same at the end of a long sequence as at its beginning.
 * 2. seq_release() looks at all cells.
 *
 * seq_unmark() moves window_kept back and sets states_loose, so that the next commit also looks at
 * the cells that the mark has kept.
 */
#include "seq/seq-cells.h"

#include <assert.h>

#include "base/err.h"

/* The first mark at @pos or behind it, as an index. */
static size_t marks_below(const struct seq *s, uint64_t pos) {
        size_t low = 0, high = s->n_marks;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (s->marks[mid] < pos)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

/* Of the marks behind the cell's first token the first one sees farthest back. */
static bool window_marked(const struct seq *s, size_t i, size_t mark) {
        return mark < s->n_marks && seq_window_first(s, s->marks[mark]) <= i;
}

bool seq_window_marked(const struct seq *s, size_t i) {
        return window_marked(s, i, marks_below(s, (uint64_t)i * s->shape->block_tokens + 1));
}

bool seq_state_marked(const struct seq *s, uint32_t index) {
        size_t at = marks_below(s, (uint64_t)index + 1);

        return at < s->n_marks && s->marks[at] == index + 1;
}

/* Whether there are cells that could be released if the position is not marked. */
static bool needs_mark(const struct seq *s, uint32_t pos) {
        if (pos == 0)
                return false;
        return seq_has_class(s, SEQ_STATE) ||
               (seq_has_class(s, SEQ_WINDOW) && seq_window_first(s, pos) < seq_cells_for(s, pos));
}

static int marks_grow(struct seq *s, size_t n, struct err *e) {
        size_t capacity = MAX(n, s->marks_capacity * 2 + 4);
        uint32_t *marks;

        if (n <= s->marks_capacity)
                return 0;
        marks = realloc(s->marks, capacity * sizeof(*marks));
        if (!marks)
                return err_set(e, ERR_NOMEM, "no memory for %zu marks", n);
        s->marks = marks;
        s->marks_capacity = capacity;
        return 0;
}

int seq_mark(struct seq *s, uint32_t pos, struct err *e) {
        size_t at = marks_below(s, pos);
        int r;

        if (pos > s->n_tokens || !seq_is_whole(s, pos))
                return 1;
        if (!needs_mark(s, pos) || (at < s->n_marks && s->marks[at] == pos))
                return 0;
        r = marks_grow(s, s->n_marks + 1, e);
        if (r < 0)
                return r;
        memmove(s->marks + at + 1, s->marks + at, (s->n_marks - at) * sizeof(s->marks[0]));
        s->marks[at] = pos;
        s->n_marks++;
        return 0;
}

static void mark_remove(struct seq *s, size_t at) {
        if (seq_has_class(s, SEQ_WINDOW))
                s->window_kept = MIN(s->window_kept, seq_window_first(s, s->marks[at]));
        s->states_loose = true;
        s->n_marks--;
        memmove(s->marks + at, s->marks + at + 1, (s->n_marks - at) * sizeof(s->marks[0]));
}

void seq_unmark(struct seq *s, uint32_t pos) {
        size_t at = marks_below(s, pos);

        if (at < s->n_marks && s->marks[at] == pos)
                mark_remove(s, at);
}

bool seq_next_mark(const struct seq *s, size_t *it, uint32_t *ret) {
        /* By position, so that the mark just seen may be removed. */
        size_t at = marks_below(s, *it);

        if (at == s->n_marks)
                return false;
        *ret = s->marks[at];
        *it = (size_t)*ret + 1;
        return true;
}

int seq_marks_copy(struct seq *s, const struct seq *src, uint32_t pos, struct err *e) {
        size_t n = marks_below(src, (uint64_t)pos + 1);
        int r = n > 0 ? marks_grow(s, n, e) : 0;

        if (r < 0)
                return r;
        if (n > 0)
                memcpy(s->marks, src->marks, n * sizeof(s->marks[0]));
        s->n_marks = n;
        return 0;
}

void seq_marks_cut(struct seq *s, uint32_t pos) {
        while (s->n_marks > 0 && s->marks[s->n_marks - 1] > pos)
                mark_remove(s, s->n_marks - 1);
}

void seq_marks_check(struct seq *s) {
        for (size_t i = s->n_marks; i > 0; i--)
                if (!seq_is_whole(s, s->marks[i - 1]))
                        mark_remove(s, i - 1);
}

size_t seq_mark_cost(const struct seq *s, uint32_t pos) {
        size_t at = marks_below(s, pos), end = seq_cells_for(s, pos), n = 0, cost = 0;
        size_t next = at + (at < s->n_marks && s->marks[at] == pos); /* the mark behind it */

        if (pos > s->n_tokens)
                return 0;
        if (seq_has_class(s, SEQ_STATE) && pos > 0 && pos < s->n_tokens && seq_state_at(s, pos - 1))
                cost += seq_pool_slot_size(s->pool, SEQ_STATE);
        if (!seq_has_class(s, SEQ_WINDOW))
                return cost;
        /* Marks before it, and the end, each need one run of cells, too. */
        if (next < s->n_marks)
                end = MIN(end, seq_window_first(s, s->marks[next]));
        end = MIN(end, pos == s->n_tokens ? 0 : seq_window_first(s, s->n_tokens));
        for (size_t i = seq_window_first(s, pos); i < end; i++)
                n += s->tables[SEQ_WINDOW].blocks[i] != SEQ_ABSENT &&
                     (at == 0 || seq_cells_for(s, s->marks[at - 1]) <= i);
        return cost + n * seq_pool_slot_size(s->pool, SEQ_WINDOW);
}

/* --- releasing --- */

static void release_window(struct seq *s) {
        size_t end = seq_window_first(s, s->n_tokens), i = s->window_kept;
        size_t mark = marks_below(s, (uint64_t)i * s->shape->block_tokens + 1);

        for (; i < end; i++) {
                uint64_t start = (uint64_t)i * s->shape->block_tokens;

                while (mark < s->n_marks && s->marks[mark] <= start)
                        mark++;
                if (s->tables[SEQ_WINDOW].blocks[i] != SEQ_ABSENT && !window_marked(s, i, mark))
                        seq_cell_change(s, SEQ_WINDOW, i, SEQ_ABSENT);
        }
        s->window_kept = end;
}

static void release_states(struct seq *s) {
        size_t n = 0, mark = 0, n_states = s->n_states;

        for (size_t i = 0; i < n_states; i++) {
                struct state_cell *cell = &s->states[i];

                while (mark < s->n_marks && s->marks[mark] <= cell->index)
                        mark++;
                if (i + 1 == n_states || (mark < s->n_marks && s->marks[mark] == cell->index + 1)) {
                        s->states[n++] = *cell;
                        continue;
                }
                s->n_holes[SEQ_STATE] -= !cell->block;
                seq_block_unref(cell->block);
        }
        s->n_states = n;
        s->states_loose = false;
}

void seq_release_passed(struct seq *s) {
        if (seq_has_class(s, SEQ_WINDOW))
                release_window(s);
        if (s->states_loose)
                release_states(s);
        else if (s->n_states > 1 && !seq_state_marked(s, s->states[s->n_states - 2].index))
                seq_state_remove(s, s->n_states - 2);
}

void seq_release(struct seq *s) {
        s->window_kept = 0;
        s->states_loose = true;
        seq_release_passed(s);
}
