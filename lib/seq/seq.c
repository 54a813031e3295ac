/* SPDX-License-Identifier: MIT */
/*
 * Sequences: making, extending and shortening them. seq-cells.h has the invariants.
 *
 * seq_reserve() does everything that can fail (growing the tables, taking blocks) before it makes
 * any visible change. A block's content changes for others (its tag is reset) only in seq_commit():
 * bytes after n_tokens are undefined for everyone.
 *
 * A reservation has one block for the next state, since a step of computing leaves one state. So a
 * commit ends the reservation of a sequence with states, and gives back what it did not use.
 */
#include <assert.h>

#include "base/err.h"
#include "seq/seq-cells.h"

int seq_new(struct seq **ret, struct seq_pool *p, struct err *e) {
        struct seq *s = calloc(1, sizeof(*s));

        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for a sequence");
        s->pool = p;
        s->shape = seq_pool_shape(p);
        *ret = s;
        return 0;
}

/* Drop the states of the tokens from @pos on. */
static void states_cut(struct seq *s, uint32_t pos) {
        while (s->n_states > 0 && s->states[s->n_states - 1].index >= pos)
                seq_state_remove(s, s->n_states - 1);
}

struct seq *seq_free(struct seq *s) {
        if (!s)
                return NULL;
        seq_cells_cut(s, 0);
        states_cut(s, 0);
        seq_block_unref(s->next_state);
        for (size_t c = 0; c < N_TABLES; c++) {
                free(s->tables[c].blocks);
                free(s->tables[c].data);
        }
        free(s->states);
        free(s->marks);
        free(s);
        return NULL;
}

/* The cell of attention that holds position n_tokens is partly committed. */
static bool has_partial_tail(const struct seq *s) {
        return s->n_tokens % s->shape->block_tokens != 0;
}

static bool has_attention(const struct seq *s) {
        return seq_has_class(s, SEQ_ALL) || seq_has_class(s, SEQ_WINDOW);
}

/* Share the cells of @src that the end of @s and its marks need. There is room. */
static void share_cells(struct seq *s, const struct seq *src) {
        for (size_t i = 0; seq_has_class(s, SEQ_ALL) && i < s->n_blocks; i++) {
                struct seq_block *b = src->tables[SEQ_ALL].blocks[i];

                seq_cell_init(s, SEQ_ALL, i, b ? seq_block_ref(b) : NULL);
        }
        if (seq_has_class(s, SEQ_WINDOW))
                s->window_kept = seq_window_first(s, s->n_tokens);
        for (size_t i = 0; seq_has_class(s, SEQ_WINDOW) && i < s->n_blocks; i++) {
                struct seq_block *b = src->tables[SEQ_WINDOW].blocks[i];

                if (i < s->window_kept && !seq_window_marked(s, i))
                        b = SEQ_ABSENT;
                if (seq_is_block(b))
                        seq_block_ref(b);
                seq_cell_init(s, SEQ_WINDOW, i, b);
        }
        for (size_t i = 0; i < src->n_states && src->states[i].index < s->n_tokens; i++) {
                struct seq_block *b = src->states[i].block;
                uint32_t index = src->states[i].index;

                if (index + 1 == s->n_tokens || seq_state_marked(s, index))
                        seq_state_append(s, index, b ? seq_block_ref(b) : NULL);
        }
}

int seq_fork(struct seq **ret, const struct seq *src, uint32_t pos, struct err *e) {
        _cleanup_(seq_freep) struct seq *s = NULL;
        size_t n_states;
        int r;

        if (pos > src->n_tokens)
                return err_set(e, ERR_INVALID, "cannot fork at %u, the sequence ends at %u", pos,
                        src->n_tokens);
        pos = seq_whole(src, pos);
        /* The block that the source may be writing into cannot be shared. */
        if (src->n_reserved > 0 && has_partial_tail(src) && has_attention(src) &&
                pos > src->n_tokens - src->n_tokens % src->shape->block_tokens)
                return err_set(e, ERR_STATE, "cannot share a block that is reserved for writing");
        r = seq_new(&s, src->pool, e);
        if (r < 0)
                return r;
        r = seq_cells_grow(s, seq_cells_for(s, pos), e);
        if (r < 0)
                return r;
        r = seq_marks_copy(s, src, pos, e);
        if (r < 0)
                return r;
        n_states = MIN(seq_states_below(src, pos), s->n_marks + 1);
        r = n_states > 0 ? seq_states_grow(s, n_states, e) : 0;
        if (r < 0)
                return r;
        s->n_blocks = seq_cells_for(s, pos);
        s->n_tokens = pos;
        share_cells(s, src);
        seq_pool_note_fork(s->pool);
        *ret = TAKE_PTR(s);
        return 0;
}

uint32_t seq_n_tokens(const struct seq *s) {
        return s->n_tokens;
}

uint32_t seq_n_reserved(const struct seq *s) {
        return s->n_reserved;
}

/* --- extending --- */

/* Whether the first write would go into a shared block. */
static bool must_copy_tail(const struct seq *s, enum seq_class c, uint32_t n) {
        const struct seq_block *tail;

        if (n == 0 || !has_partial_tail(s))
                return false;
        tail = seq_slot(s, c, s->n_tokens / s->shape->block_tokens);
        return tail && seq_block_n_refs(tail) > 1;
}

/* The blocks of each class that seq_reserve(s, n) has to take. */
static void count_take(const struct seq *s, uint32_t n, size_t *take) {
        size_t need = seq_cells_for(s, (uint64_t)s->n_tokens + n);

        for (size_t c = 0; c < N_TABLES; c++)
                take[c] = seq_has_class(s, (enum seq_class)c)
                                  ? need - MIN(need, s->n_blocks) +
                                            must_copy_tail(s, (enum seq_class)c, n)
                                  : 0;
        take[SEQ_STATE] = seq_has_class(s, SEQ_STATE) && n > 0 && !s->next_state;
}

size_t seq_reserve_cost(const struct seq *s, uint32_t n) {
        size_t take[SEQ_N_CLASSES], cost = 0;

        count_take(s, n, take);
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                cost += take[c] * seq_pool_slot_size(s->pool, (enum seq_class)c);
        return cost;
}

/* Put the blocks taken for a class of attention, which stand behind the table's end, to their
 * places: new cells, and the tail's copy. */
static void place_taken(struct seq *s, enum seq_class c, uint32_t n, size_t n_taken) {
        struct seq_block **blocks = s->tables[c].blocks;
        size_t tail = s->n_tokens / s->shape->block_tokens;
        bool copy = must_copy_tail(s, c, n);
        size_t n_fresh = n_taken - copy;

        for (size_t i = s->n_blocks; i < s->n_blocks + n_fresh; i++) {
                seq_pool_clear(blocks[i]);
                seq_cell_init(s, c, i, blocks[i]);
        }
        if (copy) {
                struct seq_block *b = blocks[s->n_blocks + n_fresh];

                seq_pool_copy(b, blocks[tail]);
                seq_cell_change(s, c, tail, b);
        } else if (n > 0 && has_partial_tail(s)) {
                /* It may have been full before a cut; no one may find it while it is written. */
                seq_index_drop_block(blocks[tail]);
        }
}

int seq_reserve(struct seq *s, uint32_t n, struct err *e) {
        struct seq_block **to[SEQ_N_CLASSES] = {0}, *state = NULL;
        size_t take[SEQ_N_CLASSES], n_missing = seq_n_missing(s);
        int r;

        if (n_missing > 0)
                return err_set(e, ERR_STATE, "%zu of %zu blocks are not in memory", n_missing,
                        seq_n_cells(s));
        if (n > UINT32_MAX - s->n_tokens)
                return err_set(
                        e, ERR_INVALID, "cannot reserve %u tokens behind %u", n, s->n_tokens);
        count_take(s, n, take);
        /* Not even a table is made for what can never be had. */
        if (!seq_pool_may_fit(s->pool, take))
                return SEQ_FULL;
        r = seq_cells_grow(s, s->n_blocks + MAX(take[SEQ_ALL], take[SEQ_WINDOW]), e);
        if (r == 0 && take[SEQ_STATE] > 0)
                r = seq_states_grow(s, s->n_states + 1, e);
        if (r < 0)
                return r;
        /* Behind the end of the tables nobody sees what a failure may leave. */
        for (size_t c = 0; c < N_TABLES; c++)
                to[c] = take[c] > 0 ? s->tables[c].blocks + s->n_blocks : NULL;
        to[SEQ_STATE] = &state;
        r = seq_pool_take(s->pool, to, take, e);
        if (r)
                return r;

        for (size_t c = 0; c < N_TABLES; c++)
                if (seq_has_class(s, (enum seq_class)c))
                        place_taken(s, (enum seq_class)c, n, take[c]);
        if (state)
                s->next_state = state;
        s->n_blocks = MAX(s->n_blocks, seq_cells_for(s, (uint64_t)s->n_tokens + n));
        s->n_reserved = MAX(s->n_reserved, n);
        return 0;
}

size_t seq_need(const struct seq_pool *p, uint32_t n, uint32_t batch) {
        const struct seq_shape *shape = seq_pool_shape(p);
        uint32_t bt = shape->block_tokens;
        size_t all = ((size_t)n + bt - 1) / bt, window;
        /* The tokens between what the first token of a batch sees and the last token of it. */
        uint64_t span = (uint64_t)MAX(shape->window, shape->chunk) - 1 + batch;

        /* They begin at a block's border, or anywhere. */
        if (shape->chunk > 0 && shape->chunk % bt == 0)
                window = (size_t)((span + bt - 1) / bt);
        else
                window = (size_t)((span + bt - 2) / bt) + 1;
        return all * seq_pool_slot_size(p, SEQ_ALL) +
               MIN(all, window) * seq_pool_slot_size(p, SEQ_WINDOW) +
               MIN(n, 2u) * seq_pool_slot_size(p, SEQ_STATE);
}

void seq_commit(struct seq *s, uint32_t n) {
        size_t tail = s->n_tokens / s->shape->block_tokens;

        assert(n <= s->n_reserved);
        if (n == 0)
                return;
        /* The other blocks written are fresh, their tag is 0 already. */
        for (size_t c = 0; c < N_TABLES; c++)
                if (seq_has_class(s, (enum seq_class)c))
                        seq_block_set_tag(s->tables[c].blocks[tail], 0);
        s->n_tokens += n;
        s->n_reserved -= n;
        if (s->next_state) {
                seq_state_append(s, s->n_tokens - 1, TAKE_PTR(s->next_state));
                seq_unreserve(s);
        }
        seq_release_passed(s);
}

/* --- shortening --- */

void seq_unreserve(struct seq *s) {
        s->n_reserved = 0;
        s->next_state = seq_block_unref(s->next_state);
        seq_cells_cut(s, seq_cells_for(s, s->n_tokens));
}

void seq_shorten(struct seq *s, uint32_t pos) {
        s->n_tokens = pos;
        seq_unreserve(s);
        states_cut(s, pos);
        seq_marks_cut(s, pos);
}

uint32_t seq_cut(struct seq *s, uint32_t pos) {
        uint32_t kept = seq_whole(s, pos);

        if (kept == s->n_tokens) {
                seq_unreserve(s);
                return kept;
        }
        seq_shorten(s, kept);
        seq_release(s);
        return kept;
}

/* --- for the model --- */

void *const *seq_table(const struct seq *s, enum seq_class c) {
        assert(c != SEQ_STATE && seq_n_missing(s) == 0);
        return s->tables[c].data;
}

const void *seq_state(const struct seq *s) {
        if (s->n_states == 0)
                return NULL;
        assert(s->states[s->n_states - 1].index + 1 == s->n_tokens);
        return seq_block_data(s->states[s->n_states - 1].block);
}

void *seq_next_state(const struct seq *s) {
        return s->next_state ? seq_block_data(s->next_state) : NULL;
}

/* --- holes --- */

void seq_drop(struct seq *s, enum seq_class c, uint32_t index) {
        struct state_cell *state;
        struct seq_cell cell;

        assert(index < s->n_tokens);
        if (!seq_cell_at(s, c, index, &cell) || !cell.block)
                return;
        if (cell.needed)
                seq_unreserve(s);
        if (c != SEQ_STATE) {
                seq_cell_change(s, c, index, NULL);
                return;
        }
        state = seq_state_at(s, index);
        state->block = seq_block_unref(state->block);
        s->n_holes[SEQ_STATE]++;
}

void seq_attach(struct seq *s, enum seq_class c, uint32_t index, struct seq_block *b) {
        struct seq_cell cell = {.block = b};
        bool there = seq_cell_at(s, c, index, &cell);

        assert(there && !cell.block && seq_block_class(b) == c);
        (void)there;
        if (c != SEQ_STATE) {
                seq_cell_change(s, c, index, seq_block_ref(b));
                return;
        }
        seq_state_at(s, index)->block = seq_block_ref(b);
        s->n_holes[SEQ_STATE]--;
}

uint32_t seq_forget(struct seq *s, enum seq_class c, uint32_t index) {
        struct seq_cell cell;
        uint32_t start;

        if (!seq_cell_at(s, c, index, &cell))
                return s->n_tokens;
        start = index * seq_cell_tokens(s->shape, c);
        if (cell.needed)
                seq_unreserve(s);
        if (c == SEQ_ALL)
                return seq_cut(s, start);
        if (c == SEQ_WINDOW)
                seq_cell_change(s, c, index, SEQ_ABSENT);
        else
                seq_state_remove(s, seq_states_below(s, index));
        seq_marks_check(s);
        /* If the end needed the cell, the sequence becomes shorter. */
        if (cell.needed)
                return seq_cut(s, s->n_tokens);
        seq_release(s);
        return s->n_tokens;
}
