/* SPDX-License-Identifier: MIT */
/*
 * Which of a conversation's cells on disk are of use.
 *
 * A position of the conversation is *whole* if all cells that computing its token needs are there, as
 * lib/seq/seq.h has it: every cell of class ALL before it, the cells of class WINDOW that its token
 * sees, the state before it. From a whole position the conversation can go on without computing
 * anything again. So a cell is worth what the whole positions are worth that need it:
 *
 *      STORE_USE_END         the last whole position needs the cell: a return to the conversation
 *      STORE_USE_CHECKPOINT  only earlier ones need it: a fork or a rewind, or a return if the end is lost
 *      STORE_USE_NONE        none needs it
 */
#include "base/util.h"
#include "store/places.h"

struct marking {
        const struct store_shape *shape;
        struct store_place *cells; /* [n] */
        size_t n;
        size_t first[STORE_N_CLASSES + 1]; /* cells of class c: [first[c], first[c + 1]) */
        uint32_t all_end;                  /* class ALL has no gap before this position */
        uint32_t end;                      /* the last whole position so far */
};

bool store_shape_is_possible(const struct store_shape *shape) {
        bool bounded = shape->window || shape->chunk;

        return shape->block_tokens > 0 && shape->classes > 0 &&
               shape->classes < 1u << STORE_N_CLASSES && !(shape->window && shape->chunk) &&
               store_has_class(shape, STORE_CLASS_WINDOW) == bounded;
}

static int compare_places(const void *a, const void *b) {
        const struct store_place *x = a, *y = b;

        if (x->cell.block_class != y->cell.block_class)
                return x->cell.block_class < y->cell.block_class ? -1 : 1;
        return x->cell.index < y->cell.index ? -1 : x->cell.index > y->cell.index;
}

uint64_t store_place_end(const struct store_shape *shape, const struct store_place *p) {
        return (uint64_t)p->cell.index * store_cell_tokens(shape, p->cell.block_class) + p->n_valid;
}

uint32_t store_window_start(const struct store_shape *shape, uint32_t p) {
        if (shape->chunk)
                return p - p % shape->chunk;
        return p < shape->window ? 0 : p - shape->window + 1;
}

/* Up to where the cells of class ALL have no gap. */
static uint32_t find_all_end(const struct marking *m) {
        uint64_t end = 0;

        if (!store_has_class(m->shape, STORE_CLASS_ALL))
                return UINT32_MAX;
        for (size_t i = 0; i < m->first[1]; i++) {
                if (end != (uint64_t)m->cells[i].cell.index * m->shape->block_tokens)
                        break;
                end += MIN(m->cells[i].n_valid, m->shape->block_tokens);
        }
        return (uint32_t)MIN(end, (uint64_t)UINT32_MAX);
}

/* Where the cell of WINDOW @index is or would be. */
static size_t find_window(const struct marking *m, uint64_t index) {
        size_t low = m->first[STORE_CLASS_WINDOW], high = m->first[STORE_CLASS_WINDOW + 1];

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (m->cells[mid].cell.index < index)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

/* The cells of WINDOW that position @p needs, as far as they are there: [*from, *to). Whether none is
 * missing. */
static bool window_cells(const struct marking *m, uint32_t p, size_t *from, size_t *to) {
        uint32_t bt = m->shape->block_tokens;
        uint64_t first = store_window_start(m->shape, p) / bt, past = ((uint64_t)p + bt - 1) / bt;

        *from = *to = 0;
        if (!store_has_class(m->shape, STORE_CLASS_WINDOW) || first >= past)
                return true;
        *from = find_window(m, first);
        *to = find_window(m, past);
        if (*to - *from != past - first)
                return false;
        for (size_t i = *from; i + 1 < *to; i++)
                if (m->cells[i].n_valid < bt)
                        return false;
        return m->cells[*to - 1].n_valid >= p - (past - 1) * bt;
}

static void use(struct marking *m, size_t from, size_t to, enum store_use what) {
        for (size_t i = from; i < to; i++)
                m->cells[i].use = MAX(m->cells[i].use, what);
}

/* Of models with states, the positions behind the states are the only ones. */
static void mark_states(struct marking *m) {
        for (size_t i = m->first[STORE_CLASS_STATE]; i < m->first[STORE_N_CLASSES]; i++) {
                uint32_t p = m->cells[i].cell.index + 1; /* no cell has the last index */
                size_t from, to;

                if (m->cells[i].n_valid == 0 || p > m->all_end || !window_cells(m, p, &from, &to))
                        continue;
                use(m, i, i + 1, STORE_USE_CHECKPOINT);
                use(m, from, to, STORE_USE_CHECKPOINT);
                m->end = MAX(m->end, p);
        }
}

/* Positions that see nothing before them, at the beginning of a cell, need no cells of WINDOW: the last
 * one up to @end. */
static uint32_t last_blind(const struct store_shape *shape, uint32_t end) {
        uint64_t period = shape->chunk ? shape->chunk : shape->window == 1 ? 1 : 0, every;

        if (period == 0)
                return 0;
        for (every = period; every % shape->block_tokens; every += period)
                ;
        return (uint32_t)(end - end % every);
}

/* Of models with windows and without states, the positions in each cell of WINDOW. The first whole one
 * of them needs the most of the cells before. */
static void mark_windows(struct marking *m) {
        uint32_t bt = m->shape->block_tokens;
        size_t run = 0; /* from here on there is no gap */

        for (size_t i = m->first[STORE_CLASS_WINDOW]; i < m->first[STORE_CLASS_STATE]; i++) {
                const struct store_place *c = &m->cells[i];
                uint64_t p = (uint64_t)c->cell.index * bt + 1;
                uint64_t last = MIN(store_place_end(m->shape, c), (uint64_t)m->all_end), have;

                if (i == m->first[STORE_CLASS_WINDOW] || c[-1].cell.index + 1 != c->cell.index ||
                        c[-1].n_valid < bt)
                        run = i;
                have = m->cells[run].cell.index;
                if (last < p || store_window_start(m->shape, (uint32_t)last) / bt < have)
                        continue;
                while (store_window_start(m->shape, (uint32_t)p) / bt < have)
                        p++;
                use(m, find_window(m, store_window_start(m->shape, (uint32_t)p) / bt), i + 1,
                        STORE_USE_CHECKPOINT);
                m->end = MAX(m->end, (uint32_t)last);
        }
        if (store_has_class(m->shape, STORE_CLASS_ALL))
                m->end = MAX(m->end, last_blind(m->shape, m->all_end));
}

/* What the last whole position needs. */
static void mark_end(struct marking *m) {
        size_t from, to;

        for (size_t i = 0; i < m->first[1]; i++)
                if ((uint64_t)m->cells[i].cell.index * m->shape->block_tokens < m->end)
                        m->cells[i].use = STORE_USE_END;
        if (m->end == 0)
                return;
        (void)window_cells(m, m->end, &from, &to);
        use(m, from, to, STORE_USE_END);
        for (size_t i = m->first[STORE_CLASS_STATE]; i < m->first[STORE_N_CLASSES]; i++)
                if (m->cells[i].cell.index + 1 == m->end && m->cells[i].n_valid > 0)
                        m->cells[i].use = STORE_USE_END;
}

void store_places_mark(const struct store_shape *shape, struct store_place *cells, size_t n) {
        struct marking m = {.shape = shape, .cells = cells, .n = n};

        if (n > 1)
                qsort(cells, n, sizeof(*cells), compare_places);
        for (size_t i = 0; i < n; i++) {
                cells[i].use = STORE_USE_NONE;
                cells[i].n_valid =
                        MIN(cells[i].n_valid, store_cell_tokens(shape, cells[i].cell.block_class));
                for (size_t c = cells[i].cell.block_class + 1; c <= STORE_N_CLASSES; c++)
                        m.first[c] = i + 1;
        }
        if (!store_shape_is_possible(shape))
                return;
        m.all_end = find_all_end(&m);
        if (store_has_class(shape, STORE_CLASS_STATE))
                mark_states(&m);
        else if (store_has_class(shape, STORE_CLASS_WINDOW))
                mark_windows(&m);
        else
                m.end = m.all_end;
        mark_end(&m);
}
