/* SPDX-License-Identifier: MIT */
/*
 * Cells from elsewhere: from disk (holes, to be filled by seq_attach()), or from other sequences of
 * the same tokens, as the prefix index finds them.
 *
 * A step has the blocks of one full cell. The sequence's own full cells are as good as those of
 * steps, also where they are holes. Its partial tail is not: behind the adopted end the cell would
 * count as full, but its block lacks the tokens after the old end. So the tail gives way to the
 * step's block, or becomes absent, and with it the marks inside it.
 */
#include <assert.h>

#include "base/err.h"
#include "seq/seq-cells.h"

/* --- holes --- */

/* Whether the cells are in order and of the first @n_tokens tokens; counts the states. */
static bool places_are_good(const struct seq *s, uint32_t n_tokens, const struct seq_place *cells,
        size_t n_cells, size_t *ret_n_states) {
        size_t n_states = 0;

        for (size_t i = 0; i < n_cells; i++) {
                const struct seq_place *cell = &cells[i], *last = i > 0 ? cell - 1 : NULL;

                if ((cell->class != SEQ_WINDOW && cell->class != SEQ_STATE) ||
                        !seq_has_class(s, cell->class))
                        return false;
                if ((uint64_t)cell->index * seq_cell_tokens(s->shape, cell->class) >= n_tokens)
                        return false;
                if (last && (last->class > cell->class ||
                                    (last->class == cell->class && last->index >= cell->index)))
                        return false;
                n_states += cell->class == SEQ_STATE;
        }
        *ret_n_states = n_states;
        return true;
}

int seq_set_holes(struct seq *s, uint32_t n_tokens, const struct seq_place *cells, size_t n_cells,
        struct err *e) {
        size_t n = seq_cells_for(s, n_tokens), n_states;
        int r;

        if (s->n_tokens > 0)
                return err_set(e, ERR_STATE, "the sequence is not empty");
        if (!places_are_good(s, n_tokens, cells, n_cells, &n_states))
                return err_set(e, ERR_INVALID, "bad cells for a sequence of %u tokens", n_tokens);
        r = seq_cells_grow(s, n, e);
        if (r == 0 && n_states > 0)
                r = seq_states_grow(s, n_states, e);
        if (r < 0)
                return r;
        seq_unreserve(s);
        for (size_t i = 0; i < n; i++) {
                if (seq_has_class(s, SEQ_ALL))
                        seq_cell_init(s, SEQ_ALL, i, NULL);
                if (seq_has_class(s, SEQ_WINDOW))
                        seq_cell_init(s, SEQ_WINDOW, i, SEQ_ABSENT);
        }
        s->n_blocks = n;
        for (size_t i = 0; i < n_cells; i++) {
                if (cells[i].class == SEQ_WINDOW)
                        seq_cell_change(s, SEQ_WINDOW, cells[i].index, NULL);
                else
                        seq_state_append(s, cells[i].index, NULL);
        }
        s->n_tokens = n_tokens;
        s->window_kept = 0;
        s->states_loose = true;
        seq_shorten(s, seq_whole(s, n_tokens));
        return 0;
}

/* --- steps --- */

/* Whether the sequence has cell @i of attention, full. */
static bool has_full(const struct seq *s, enum seq_class c, size_t i) {
        return s && i < s->n_tokens / s->shape->block_tokens &&
               s->tables[c].blocks[i] != SEQ_ABSENT;
}

static bool has_cell(
        const struct seq *s, const struct seq_step *steps, enum seq_class c, size_t i) {
        return steps[i].block[c] || has_full(s, c, i);
}

static bool has_state(const struct seq_shape *shape, const struct seq *s,
        const struct seq_step *steps, size_t n) {
        uint64_t index = (uint64_t)n * shape->block_tokens - 1;

        return steps[n - 1].block[SEQ_STATE] ||
               (s && index < s->n_tokens && seq_state_at(s, (uint32_t)index));
}

size_t seq_steps_whole(
        const struct seq_pool *p, const struct seq *s, const struct seq_step *steps, size_t n) {
        const struct seq_shape *shape = seq_pool_shape(p);
        size_t whole = 0;

        n = MIN(n, (size_t)(UINT32_MAX / shape->block_tokens));
        if (shape->size[SEQ_ALL] == 0)
                whole = n;
        while (whole < n && has_cell(s, steps, SEQ_ALL, whole))
                whole++;
        while (whole > 0) {
                uint32_t pos = (uint32_t)whole * shape->block_tokens;
                size_t first = seq_window_start(shape, pos) / shape->block_tokens, i = whole;

                if (shape->size[SEQ_STATE] > 0 && !has_state(shape, s, steps, whole)) {
                        whole--;
                        continue;
                }
                if (shape->size[SEQ_WINDOW] == 0)
                        return whole;
                while (i > first && has_cell(s, steps, SEQ_WINDOW, i - 1))
                        i--;
                if (i <= first)
                        return whole;
                /* Every end behind cell i - 1, up to the one looked at, needs that cell. */
                whole = i - 1;
        }
        return 0;
}

static void adopt_attention(
        struct seq *s, enum seq_class c, const struct seq_step *steps, size_t n) {
        struct seq_block *none = c == SEQ_ALL ? NULL : SEQ_ABSENT, **blocks = s->tables[c].blocks;
        size_t n_full = s->n_tokens / s->shape->block_tokens, first = 0;

        if (c == SEQ_WINDOW)
                first = seq_window_first(s, (uint32_t)n * s->shape->block_tokens);
        for (size_t i = 0; i < n; i++) {
                struct seq_block *want = i < n_full ? blocks[i] : none;
                bool needed = i >= first || (i <= n_full && seq_window_marked(s, i));

                if (!needed)
                        want = SEQ_ABSENT;
                else if (!seq_is_block(want) && steps[i].block[c])
                        want = steps[i].block[c];
                /* The step's block may be the partial tail itself, as it was before a cut. */
                if (i < s->n_blocks && blocks[i] == want)
                        continue;
                if (seq_is_block(want))
                        seq_block_ref(want);
                if (i < s->n_blocks)
                        seq_cell_change(s, c, i, want);
                else
                        seq_cell_init(s, c, i, want);
        }
}

int seq_adopt(struct seq *s, const struct seq_step *steps, size_t n, struct err *e) {
        uint32_t bt = s->shape->block_tokens;
        int r;

        if (s->n_reserved > 0)
                return err_set(e, ERR_STATE, "cannot take over blocks while some are reserved");
        if (n > UINT32_MAX / bt || n * bt <= s->n_tokens ||
                seq_steps_whole(s->pool, s, steps, n) != n)
                return err_set(e, ERR_INVALID, "cannot go on from %u tokens with %zu blocks",
                        s->n_tokens, n);
        r = seq_cells_grow(s, n, e);
        if (r == 0 && seq_has_class(s, SEQ_STATE))
                r = seq_states_grow(s, s->n_states + 1, e);
        if (r < 0)
                return r;
        for (size_t c = 0; c < N_TABLES; c++)
                if (seq_has_class(s, (enum seq_class)c))
                        adopt_attention(s, (enum seq_class)c, steps, n);
        if (seq_has_class(s, SEQ_STATE))
                seq_state_append(
                        s, (uint32_t)(n * bt) - 1, seq_block_ref(steps[n - 1].block[SEQ_STATE]));
        s->n_blocks = n;
        s->n_tokens = (uint32_t)(n * bt);
        seq_marks_check(s);
        seq_release(s);
        return 0;
}
