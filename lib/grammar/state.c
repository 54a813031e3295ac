/* SPDX-License-Identifier: MIT */
/*
 * States as values. The words of a state are: how many cells and parses, the flags, then the cells
 * (node, need, left, parent), parents first, then the parses (node, cell). Cells are numbered from
 * N_FIXED_CELLS on, as in a space.
 */
#include "base/err.h"
#include "base/util.h"
#include "grammar/grammar-internal.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define N_HEAD 3u
#define CELL_WORDS 4u
#define PARSE_WORDS 2u

static_assert((N_HEAD + CELL_WORDS * MAX_STATE_CELLS + PARSE_WORDS * SPACE_MAX_PARSES) *
                              sizeof(uint32_t) <=
                      GRAMMAR_STATE_SIZE,
        "the size of a state");

static int too_many(struct err *e) {
        return err_set(e, ERR_TOO_LARGE,
                "the grammar has more than %u parses of the reply at once, too many to follow",
                SPACE_MAX_PARSES);
}

int grammar_make_room(struct grammar *g, unsigned *tries, struct err *e) {
        uint32_t whole = g->path_end;

        if (g->space.overflow || *tries == 2)
                return too_many(e);
        if (++*tries == 2)
                masks_clear(g);
        g->path[whole] = g->whole;
        space_compact(&g->space, g->path, whole + 1, g->bases, g->n_bases);
        g->whole = g->path[whole];
        masks_renumber(g);
        return 0;
}

uint32_t grammar_step(struct grammar *g, uint32_t at, uint8_t byte, struct err *e) {
        unsigned tries = 0;

        for (;;) {
                uint32_t to = space_step(&g->space, g->path[at], g->program.class_of[byte]);

                if (to != STEP_UNKNOWN)
                        return to;
                g->path_end = at + 1;
                if (grammar_make_room(g, &tries, e) < 0)
                        return STEP_UNKNOWN;
        }
}

/* --- values to numbers --- */

/* The state's cells in the space, by their numbers in the value. False: no room. */
static uint32_t try_import(struct grammar *g, const struct grammar_state *s) {
        const uint32_t *w = s->words + N_HEAD;
        uint32_t n_cells = s->words[0], n_parses = s->words[1];

        for (uint32_t i = 0; i < n_cells; i++, w += CELL_WORDS) {
                uint32_t parent = w[3] < N_FIXED_CELLS ? w[3] : g->cells[w[3] - N_FIXED_CELLS];

                g->cells[i] = space_cell(&g->space, w[0], w[1], w[2], parent);
                if (g->cells[i] == UINT32_MAX)
                        return STEP_UNKNOWN;
        }
        for (uint32_t i = 0; i < n_parses; i++, w += PARSE_WORDS)
                g->group[i] = (struct parse){
                        w[0], w[1] < N_FIXED_CELLS ? w[1] : g->cells[w[1] - N_FIXED_CELLS]};
        return space_intern(&g->space, g->group, n_parses, s->words[2]);
}

uint32_t state_import(struct grammar *g, struct grammar_state *s, struct err *e) {
        unsigned tries = 0;
        uint32_t set;

        if (s->epoch == g->space.epoch)
                return s->hint;
        g->path_end = g->n_bases = 0;
        g->whole = STEP_DEAD;
        for (;;) {
                g->space.overflow = false;
                set = try_import(g, s);
                if (set != STEP_UNKNOWN)
                        break;
                if (grammar_make_room(g, &tries, e) < 0)
                        return STEP_DEAD;
        }
        s->hint = set;
        s->epoch = g->space.epoch;
        return set;
}

/* --- numbers to values --- */

static int compare_numbers(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

/* The cells of the set, sorted, in g->cells; -1: too many. */
static int collect_cells(struct grammar *g, const struct set *k, uint32_t *ret_n) {
        uint32_t n = 0;
        int r = 0;

        for (uint32_t i = 0; i < k->n && r == 0; i++)
                for (uint32_t c = g->space.parses[k->first + i].cell;
                        c >= N_FIXED_CELLS && !g->marks[c]; c = g->space.cells[c].parent) {
                        if (n == MAX_STATE_CELLS) {
                                r = -1;
                                break;
                        }
                        g->marks[c] = 1;
                        g->cells[n++] = c;
                }
        for (uint32_t i = 0; i < n; i++)
                g->marks[g->cells[i]] = 0;
        qsort(g->cells, n, sizeof(*g->cells), compare_numbers);
        *ret_n = n;
        return r;
}

static uint32_t index_of(const struct grammar *g, uint32_t n, uint32_t cell) {
        const uint32_t *p;

        if (cell < N_FIXED_CELLS)
                return cell;
        p = bsearch(&cell, g->cells, n, sizeof(*g->cells), compare_numbers);
        return (uint32_t)(p - g->cells) + N_FIXED_CELLS;
}

static int state_export(struct grammar *g, uint32_t set, struct grammar_state *s, struct err *e) {
        const struct set *k = &g->space.sets[set];
        uint32_t n_cells, *w = s->words + N_HEAD;

        if (collect_cells(g, k, &n_cells) < 0)
                return too_many(e);
        for (uint32_t i = 0; i < n_cells; i++, w += CELL_WORDS) {
                const struct cell *c = &g->space.cells[g->cells[i]];

                w[0] = c->node;
                w[1] = c->need;
                w[2] = c->left;
                w[3] = index_of(g, n_cells, c->parent);
        }
        for (uint32_t i = 0; i < k->n; i++, w += PARSE_WORDS) {
                w[0] = g->space.parses[k->first + i].node;
                w[1] = index_of(g, n_cells, g->space.parses[k->first + i].cell);
        }
        s->words[0] = n_cells;
        s->words[1] = k->n;
        s->words[2] = k->flags;
        s->n_words = (uint32_t)(w - s->words);
        s->hint = set;
        s->epoch = g->space.epoch;
        return 0;
}

/* --- the interface --- */

static int state_new(struct grammar_state *s, struct err *e) {
        *s = GRAMMAR_STATE_NULL;
        s->words = malloc(GRAMMAR_STATE_SIZE);
        return s->words ? 0 : err_set(e, ERR_NOMEM, "no memory for a grammar's state");
}

void grammar_state_deinit(struct grammar_state *s) {
        free(s->words);
        *s = GRAMMAR_STATE_NULL;
}

int grammar_start(struct grammar *g, struct grammar_state *ret, struct err *e) {
        struct grammar_state s;
        unsigned tries = 0;
        uint32_t set;
        int r = state_new(&s, e);

        g->path_end = g->n_bases = 0;
        g->whole = STEP_DEAD;
        while (r == 0 && (set = space_start(&g->space)) == STEP_UNKNOWN)
                r = grammar_make_room(g, &tries, e);
        if (r == 0)
                r = state_export(g, set, &s, e);
        if (r < 0)
                grammar_state_deinit(&s);
        else
                *ret = s;
        return r;
}

int grammar_state_copy(struct grammar_state *to, const struct grammar_state *from, struct err *e) {
        struct grammar_state s;
        int r = state_new(&s, e);

        if (r < 0)
                return r;
        memcpy(s.words, from->words, from->n_words * sizeof(*s.words));
        s.n_words = from->n_words;
        s.hint = from->hint;
        s.epoch = from->epoch;
        *to = s;
        return 0;
}

int grammar_advance(struct grammar *g, struct grammar_state *s, const void *bytes, size_t n,
        size_t *ret_taken, struct err *e) {
        struct err none = {.code = ERR_NONE};
        uint32_t set = state_import(g, s, &none);

        if (none.code != ERR_NONE) {
                if (e)
                        *e = none;
                return -(int)none.code;
        }
        g->n_bases = 0;
        g->whole = STEP_DEAD;
        g->path[0] = set;
        for (size_t i = 0; i < n; i++) {
                set = grammar_step(g, 0, ((const uint8_t *)bytes)[i], &none);
                if (set == STEP_UNKNOWN) {
                        if (e)
                                *e = none;
                        return -(int)none.code;
                }
                if (set == STEP_DEAD) {
                        if (ret_taken)
                                *ret_taken = i;
                        return 1;
                }
                g->path[0] = set;
        }
        return state_export(g, g->path[0], s, e);
}

bool grammar_accepts(const struct grammar_state *s) {
        return s->words[2] & SET_ACCEPTS;
}
