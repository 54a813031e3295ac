/* SPDX-License-Identifier: MIT */
/*
 * The cells of a sequence: where they are kept, which of them a position needs, and whether it is
 * whole.
 *
 * Cells of attention stand in dense tables, because kernels look positions up in them. An absent
 * cell of SEQ_WINDOW is a place in the table that points to no block: two pointers for 32 tokens,
 * for however long the window is behind. States are few (one for the end and one for each mark), so
 * they stand in a sorted array.
 *
 * What a position needs of SEQ_WINDOW is one run of cells. Both ends of the run rise with the
 * position. So the positions that need cell i are one range, too: from the first position behind the
 * cell's first token, up to the last one whose run begins at or before i. This makes the two
 * questions below cheap: seq_window_marked() looks at one mark only, and seq_whole() looks at every
 * cell at most once.
 */
#include "seq/seq-cells.h"

#include <assert.h>

#include "base/err.h"

struct seq_block seq_absent;

/* --- tables --- */

static int grow(void *at, size_t n, size_t size, struct err *e) {
        void **array = at, *p;

        p = n > SIZE_MAX / size ? NULL : realloc(*array, n * size);
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for a table of %zu cells", n);
        *array = p;
        return 0;
}

int seq_cells_grow(struct seq *s, size_t n, struct err *e) {
        size_t capacity = MAX(n, MIN(s->capacity * 2, s->capacity + 1024));
        int r = 0;

        if (n <= s->capacity)
                return 0;
        /* If one fails those before are merely larger than they need be. */
        for (size_t c = 0; c < N_TABLES && r == 0; c++) {
                if (!seq_has_class(s, (enum seq_class)c))
                        continue;
                r = grow(&s->tables[c].blocks, capacity, sizeof(struct seq_block *), e);
                if (r == 0)
                        r = grow(&s->tables[c].data, capacity, sizeof(void *), e);
        }
        if (r == 0)
                s->capacity = capacity;
        return r;
}

static void count(struct seq *s, enum seq_class c, const struct seq_block *b, size_t by) {
        if (!b)
                s->n_holes[c] += by;
        else if (b == SEQ_ABSENT)
                s->n_absent += by;
}

void seq_cell_init(struct seq *s, enum seq_class c, size_t i, struct seq_block *b) {
        struct table *t = &s->tables[c];

        t->blocks[i] = b;
        t->data[i] = seq_is_block(b) ? seq_block_data(b) : NULL;
        count(s, c, b, 1);
}

void seq_cell_change(struct seq *s, enum seq_class c, size_t i, struct seq_block *b) {
        struct seq_block *old = s->tables[c].blocks[i];

        count(s, c, old, (size_t)-1);
        seq_cell_init(s, c, i, b);
        if (seq_is_block(old))
                seq_block_unref(old);
}

void seq_cells_cut(struct seq *s, size_t n) {
        for (size_t c = 0; c < N_TABLES; c++) {
                if (!seq_has_class(s, (enum seq_class)c))
                        continue;
                for (size_t i = s->n_blocks; i > n; i--) {
                        struct seq_block *b = s->tables[c].blocks[i - 1];

                        count(s, (enum seq_class)c, b, (size_t)-1);
                        if (seq_is_block(b))
                                seq_block_unref(b);
                }
        }
        s->n_blocks = MIN(s->n_blocks, n);
}

/* --- states --- */

int seq_states_grow(struct seq *s, size_t n, struct err *e) {
        size_t capacity = MAX(n, s->states_capacity * 2 + 4);
        int r;

        if (n <= s->states_capacity)
                return 0;
        r = grow(&s->states, capacity, sizeof(s->states[0]), e);
        if (r == 0)
                s->states_capacity = capacity;
        return r;
}

size_t seq_states_below(const struct seq *s, uint32_t index) {
        size_t low = 0, high = s->n_states;

        /* Mostly the question is about the end. */
        if (high > 0 && s->states[high - 1].index < index)
                return high;
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (s->states[mid].index < index)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

struct state_cell *seq_state_at(const struct seq *s, uint32_t index) {
        size_t at = seq_states_below(s, index);

        return at < s->n_states && s->states[at].index == index ? &s->states[at] : NULL;
}

void seq_state_append(struct seq *s, uint32_t index, struct seq_block *b) {
        s->states[s->n_states++] = (struct state_cell){index, b};
        s->n_holes[SEQ_STATE] += !b;
}

void seq_state_remove(struct seq *s, size_t at) {
        struct seq_block *b = s->states[at].block;

        s->n_holes[SEQ_STATE] -= !b;
        s->n_states--;
        memmove(s->states + at, s->states + at + 1, (s->n_states - at) * sizeof(s->states[0]));
        seq_block_unref(b);
}

/* --- one cell --- */

struct seq_block *seq_slot(const struct seq *s, enum seq_class c, size_t i) {
        struct state_cell *state;
        struct seq_block *b;

        if (!seq_has_class(s, c))
                return NULL;
        if (c == SEQ_STATE) {
                state = i < s->n_tokens ? seq_state_at(s, (uint32_t)i) : NULL;
                return state ? state->block : NULL;
        }
        b = i < s->n_blocks ? s->tables[c].blocks[i] : NULL;
        return seq_is_block(b) ? b : NULL;
}

void seq_replace(struct seq *s, enum seq_class c, size_t i, struct seq_block *b) {
        struct state_cell *state;
        struct seq_block *ours;

        if (c != SEQ_STATE) {
                seq_cell_change(s, c, i, seq_block_ref(b));
                return;
        }
        state = seq_state_at(s, (uint32_t)i);
        ours = state->block;
        state->block = seq_block_ref(b);
        seq_block_unref(ours);
}

static bool window_is_needed(const struct seq *s, size_t i) {
        return i >= seq_window_first(s, s->n_tokens);
}

static void describe(const struct seq *s, enum seq_class c, uint32_t index, struct seq_block *b,
        struct seq_cell *ret) {
        uint32_t tokens = seq_cell_tokens(s->shape, c), start = index * tokens;

        *ret = (struct seq_cell){
                .index = index, .n_tokens = MIN(tokens, s->n_tokens - start), .block = b};
        ret->end = start + ret->n_tokens;
        ret->needed = c == SEQ_ALL || (c == SEQ_WINDOW && window_is_needed(s, index)) ||
                      (c == SEQ_STATE && ret->end == s->n_tokens);
}

bool seq_next_cell(const struct seq *s, enum seq_class c, size_t *it, struct seq_cell *ret) {
        size_t at, n = seq_cells_for(s, s->n_tokens);

        if (!seq_has_class(s, c))
                return false;
        if (c == SEQ_STATE) {
                at = *it > UINT32_MAX ? s->n_states : seq_states_below(s, (uint32_t)*it);
                if (at == s->n_states)
                        return false;
                describe(s, c, s->states[at].index, s->states[at].block, ret);
                *it = (size_t)ret->index + 1;
                return true;
        }
        for (; *it < n; ++*it) {
                struct seq_block *b = s->tables[c].blocks[*it];

                if (b == SEQ_ABSENT)
                        continue;
                describe(s, c, (uint32_t)(*it)++, b, ret);
                return true;
        }
        return false;
}

bool seq_cell_at(const struct seq *s, enum seq_class c, uint32_t index, struct seq_cell *ret) {
        size_t it = index;

        return seq_next_cell(s, c, &it, ret) && ret->index == index;
}

/* --- counting --- */

static size_t n_cells(const struct seq *s, enum seq_class c) {
        if (!seq_has_class(s, c))
                return 0;
        if (c == SEQ_STATE)
                return s->n_states;
        return seq_cells_for(s, s->n_tokens) - (c == SEQ_WINDOW ? s->n_absent : 0);
}

size_t seq_n_cells(const struct seq *s) {
        return n_cells(s, SEQ_ALL) + n_cells(s, SEQ_WINDOW) + n_cells(s, SEQ_STATE);
}

size_t seq_n_resident(const struct seq *s) {
        return seq_n_cells(s) - s->n_holes[SEQ_ALL] - s->n_holes[SEQ_WINDOW] -
               s->n_holes[SEQ_STATE];
}

size_t seq_resident_size(const struct seq *s) {
        size_t size = 0;

        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                size += (n_cells(s, (enum seq_class)c) - s->n_holes[c]) *
                        seq_pool_slot_size(s->pool, (enum seq_class)c);
        return size;
}

size_t seq_resident_part(const struct seq *s) {
        size_t size = 0;

        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                size_t one = seq_pool_slot_size(s->pool, (enum seq_class)c), it = 0;
                struct seq_cell cell;

                while (seq_next_cell(s, (enum seq_class)c, &it, &cell))
                        if (cell.block)
                                size += one / cell.block->n_refs;
        }
        return size;
}

size_t seq_n_missing(const struct seq *s) {
        size_t n = s->n_holes[SEQ_ALL], end = seq_cells_for(s, s->n_tokens);

        if (s->n_holes[SEQ_WINDOW] > 0)
                for (size_t i = seq_window_first(s, s->n_tokens); i < end; i++)
                        n += !s->tables[SEQ_WINDOW].blocks[i];
        if (s->n_holes[SEQ_STATE] > 0)
                n += !s->states[s->n_states - 1].block;
        return n;
}

/* --- whole positions --- */

/* The cell of SEQ_WINDOW nearest to the end that @pos needs and that is absent; SIZE_MAX: none. */
static size_t last_absent(const struct seq *s, uint32_t pos) {
        size_t first = seq_window_first(s, pos);

        if (s->n_absent == 0)
                return SIZE_MAX;
        for (size_t i = seq_cells_for(s, pos); i > first; i--)
                if (s->tables[SEQ_WINDOW].blocks[i - 1] == SEQ_ABSENT)
                        return i - 1;
        return SIZE_MAX;
}

bool seq_is_whole(const struct seq *s, uint32_t pos) {
        if (pos == 0)
                return true;
        if (seq_has_class(s, SEQ_STATE) && !seq_state_at(s, pos - 1))
                return false;
        return !seq_has_class(s, SEQ_WINDOW) || last_absent(s, pos) == SIZE_MAX;
}

uint32_t seq_whole(const struct seq *s, uint32_t pos) {
        pos = MIN(pos, s->n_tokens);
        if (seq_has_class(s, SEQ_STATE)) {
                for (size_t i = seq_states_below(s, pos); i > 0; i--)
                        if (seq_is_whole(s, s->states[i - 1].index + 1))
                                return s->states[i - 1].index + 1;
                return 0;
        }
        if (!seq_has_class(s, SEQ_WINDOW))
                return pos;
        for (;;) {
                size_t i = last_absent(s, pos);

                if (i == SIZE_MAX)
                        return pos;
                /* Every position between cell i's first token and @pos needs the cell, too. */
                pos = (uint32_t)(i * s->shape->block_tokens);
        }
}
