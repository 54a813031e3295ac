/* SPDX-License-Identifier: MIT */
#pragma once
#include "base/list.h"
#include "grammar/grammar.h"
#include "grammar/space.h"
#include "grammar/vocab.h"

#define MAX_RETURNS 16384u /* of one part of a mask; more: it is computed for its whole state */
#define MAX_MASKS 512u
#define MAX_PATH (VOCAB_MAX_TEXT + 1)
#define MAX_STATE_CELLS 2048u

/* A part of a mask (mask.c). */
struct part {
        struct list lru; /* in grammar.masks or grammar.free_parts */
        uint32_t set;    /* the state that it belongs to */
        uint64_t *bits;  /* owned: the tokens, then the nodes where a parse returned */
        uint32_t *returns;
        uint32_t n_returns;
        uint32_t depth; /* of the deepest stack on the way */
        bool wide;      /* there are too many returns: no bits */
};

struct grammar {
        struct charge charge;
        const struct grammar_vocab *vocab;
        struct program program;
        struct space space;

        struct part *parts;            /* [MAX_MASKS] */
        struct list masks, free_parts; /* least recently used first */
        size_t masks_size, max_masks_size;
        uint64_t masks_made, masks_found;

        /* The walk that is under way: the states on the way to the present node of the trie, from
         * path[0] on; path_end of them are in use. The state of the whole mask is `whole`. */
        uint32_t path[MAX_PATH + 2], path_end;
        uint32_t bases[SPACE_MAX_PARSES], n_bases; /* cells */
        uint32_t whole;
        uint32_t *returns; /* [MAX_RETURNS] */
        uint32_t n_returns;
        struct parse *group; /* [SPACE_MAX_PARSES] */
        uint8_t *marks;      /* [space.max_cells] */
        uint32_t *cells;     /* [MAX_STATE_CELLS] */
        uint64_t *scratch;   /* [grammar_mask_words()] */
};

/* --- state.c --- */

/* The number of the state, made if need be; STEP_DEAD on failure, with @e. */
uint32_t state_import(struct grammar *g, struct grammar_state *s, struct err *e);
/* After the space was full or there were too many parses: make room, so that the caller can try
 * once more (0), or fail. Numbers change: of path[0..path_end), bases and whole as well. */
int grammar_make_room(struct grammar *g, unsigned *tries, struct err *e);
/* The step from the state path[@at]; STEP_UNKNOWN on failure. */
uint32_t grammar_step(struct grammar *g, uint32_t at, uint8_t byte, struct err *e);

/* --- mask.c --- */

void masks_init(struct grammar *g);
void masks_clear(struct grammar *g);
/* The states were renumbered: find those of the parts again. */
void masks_renumber(struct grammar *g);
