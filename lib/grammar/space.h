/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The states of the automaton that were met so far (space.c explains them), in tables of fixed
 * size. Engine thread of one grammar: no locks.
 */
#include <stdbool.h>
#include <stdint.h>

#include "grammar/program.h"

struct err;

#define SPACE_MAX_PARSES 1024u /* of one state */
#define SPACE_MAX_DEPTH 1024u  /* calls inside each other */

/* One call that has not returned: a cell of a stack. Equal stacks are one cell. A parent's
 * number is less than the cell's. */
struct cell {
        uint32_t node;       /* CALL or LOOP */
        uint32_t need, left; /* LOOP: rounds that must and that may still follow the present one */
        uint32_t parent;
        uint32_t depth;
        uint32_t link; /* next of the same hash; while compacting: the new number */
};
#define CELL_BASE                                                                                  \
        0u /* below it nothing is known: the stacks of parts of states (mask.c) end here */
#define CELL_ROOT 1u /* below it is the end of the text */
#define N_FIXED_CELLS 2u

/* One parse: the node that reads the next byte, and who called. */
struct parse {
        uint32_t node, cell;
};

#define SET_ACCEPTS 1u /* the text may end here */
#define SET_RETURNS 2u /* a parse returned from CELL_BASE */

/* A state: a set of parses, sorted. */
struct set {
        uint32_t first, n; /* in space.parses */
        uint32_t flags;
        uint32_t depth;      /* of its deepest stack */
        uint32_t hash, link; /* as in cell */
        uint32_t steps;      /* offset of its row in space.steps + 1, or 0 */
        uint32_t mask;       /* mask.c: entry + 1, or 0; such sets stay when others go */
        bool live;           /* while compacting */
};
/* Instead of a number of a set. */
#define STEP_UNKNOWN 0u
#define STEP_DEAD 1u
#define N_FIXED_SETS 2u

struct space {
        const struct program *program;
        struct cell *cells;
        struct set *sets;
        struct parse *parses;
        uint32_t *steps; /* rows of n_classes */
        uint32_t *cell_heads, *set_heads;
        uint32_t n_cells, n_sets, n_parses, n_steps;
        uint32_t max_cells, max_sets, max_parses, max_steps, n_heads; /* n_heads: a power of two */
        uint32_t epoch; /* rises when numbers change */
        uint64_t n_compactions;
        /* The closure that is being computed. */
        struct parse *out; /* [SPACE_MAX_PARSES] */
        uint32_t n_out, out_flags;
        struct todo {
                uint32_t node, cell, pushed, stamp;
        } * todo, *seen; /* [MAX_TODO], [MAX_SEEN] */
        uint32_t n_todo, n_seen, stamp;
        bool full, overflow; /* no room in a table; too many parses at once */
};

/* @size: bytes; the caller has charged space_size(). -ERR_NOMEM. */
int space_init(struct space *s, const struct program *p, size_t size, struct err *e);
void space_deinit(struct space *s);
/* Bytes that a space of this size really takes. */
size_t space_size(size_t size);

/* The first state. All functions that make states return a number, STEP_DEAD, or STEP_UNKNOWN if
 * there is no room or if there are too many parses (space.full, space.overflow). */
uint32_t space_start(struct space *s);
/* The state after a byte of class @class. */
uint32_t space_step(struct space *s, uint32_t set, uint32_t class);
/* The state after the return from @cell, a CALL, is that of what comes behind. */
uint32_t space_return(struct space *s, uint32_t cell);
/* The state with these parses, which are sorted here. */
uint32_t space_intern(struct space *s, struct parse *parses, uint32_t n, uint32_t flags);
/* A cell, or UINT32_MAX as above. */
uint32_t space_cell(struct space *s, uint32_t node, uint32_t need, uint32_t left, uint32_t parent);
/* Forget all states but @ids [n] and those with masks, and give these new numbers. @cells [n_cells]
 * stay as well. */
void space_compact(struct space *s, uint32_t *ids, uint32_t n, uint32_t *cells, uint32_t n_cells);
