/* SPDX-License-Identifier: MIT */
#pragma once
/* The shape of a tile of repacked weights (repacked-layout.h) by tokens, and what all types of them share. Included by
 * repacked.c, which is compiled for each instruction set. */
#include "kern/x86/repacked-layout.h"
#include "kern/x86/vec.h"

#define GROUPS REPACKED_GROUPS
#define TILE_ROWS (GROUPS * LANES)
/* Weights stay in registers while tokens change; with fewer registers tokens' sums do while weights change. */
#if VEC_DOT4 && LANES == 16
#define WEIGHTS_STAY 1
#define PIECE 8 /* tokens of a piece of a tile */
#else
#define WEIGHTS_STAY 0
#define PIECE 4
#endif
#define WORD_SIZE ((size_t)4 * LANES)
#define CACHE_LINE 64

/* Bytes of a tile's block. */
KERN_INLINE size_t tile_size(enum quant_type type) {
        return repacked_block_size(type) * TILE_ROWS;
}

/* Words @j of group @g, of the tile's block (or those behind some words of it) @w. */
KERN_INLINE const uint8_t *tile_words(const uint8_t *w, size_t j, size_t g) {
        return w + (j * GROUPS + g) * WORD_SIZE;
}

/* Half @i of a block @w, of group @g. */
KERN_INLINE vf tile_half(enum quant_type type, const uint8_t *w, size_t i, size_t g) {
        size_t words = repacked_form(type).n_words * GROUPS * WORD_SIZE;

        return vf_load_half(w + words + (i * GROUPS + g) * WORD_SIZE / 2);
}

KERN_INLINE vi low_halves(vi v) {
        return vi_and(v, vi_set8(15));
}

KERN_INLINE vi high_halves(vi v) {
        return vi_and(vi_srli16(v, 4), vi_set8(15));
}

/* What a tile of activations has of one block for the tokens from one on. */
struct tokens {
        const uint8_t *q;      /* int8 of the first; of blocks of 256, all that it has */
        const uint8_t *scales; /* of blocks of 32: where the first's are counted from */
};

/* Weights that are brought from memory meanwhile: those of the same tile, a little further on, or half of those of
 * the tile of rows behind it. */
enum ahead { NOTHING, THESE, NEXT, N_AHEAD };

/* Bytes ahead of a tile of weights that is read for the first time, into the second cache, and from there into the
 * first: to which alone, of many lines at a time, memory brings no more than half of what it could. Narrow registers
 * have fewer lines to a block, and want them from twice as far. */
#define FAR_AHEAD (LANES == 16 ? 9216 : 18432)
#define NEAR_AHEAD 2304
/* Nine lines, and no other work than to wait for them, come soonest straight to the first cache; five at a time are
 * too few for that. */
#define STRAIGHT_AHEAD 4608
#define STRAIGHT_LINES 9
/* More tokens find the second cache soon enough, and keep the load units busy. */
#define NEAR_TOKENS 4

/* What is brought while one tile is computed. */
struct bring {
        enum ahead ahead;
        bool straight, near;
        size_t n_lines; /* with each 32 values */
        const uint8_t *at;
};

KERN_INLINE size_t lines_of32(enum quant_type type) {
        size_t n_parts = repacked_form(type).n_values / KERN_ACT_BLOCK;

        return (tile_size(type) / n_parts + CACHE_LINE - 1) / CACHE_LINE;
}

/* Half of a tile's lines. */
KERN_INLINE size_t half_lines_of32(enum quant_type type) {
        return (lines_of32(type) + 1) / 2;
}

KERN_INLINE void bring_begin(struct bring *b, enum quant_type type, unsigned n_tokens,
        enum ahead ahead, const uint8_t *next) {
        *b = (struct bring){.ahead = ahead, .at = next};
        b->n_lines = ahead == THESE ? lines_of32(type) : half_lines_of32(type);
        b->near = n_tokens <= NEAR_TOKENS;
        b->straight = n_tokens == 1 && repacked_form(type).n_values == KERN_ACT_BLOCK &&
                      b->n_lines == STRAIGHT_LINES;
}

/* With the block @w of a tile. */
KERN_INLINE void bring_block(struct bring *b, const uint8_t *w) {
        if (b->ahead == THESE)
                b->at = w;
}

/* Behind the work on 32 values of it: asked for before that, these lines would take the places in which the
 * values' own loads wait for memory. */
KERN_INLINE void bring32(struct bring *b) {
        const size_t n = b->ahead == NOTHING ? 0 : b->n_lines;

        KERN_UNROLL for (size_t i = 0; i < n; i++) {
                const uint8_t *at = b->at + i * CACHE_LINE;

                if (b->ahead == NEXT) {
                        __builtin_prefetch(at, 0, 2);
                } else if (b->straight) {
                        __builtin_prefetch(at + STRAIGHT_AHEAD);
                } else {
                        __builtin_prefetch(at + FAR_AHEAD, 0, 2);
                        if (b->near)
                                __builtin_prefetch(at + NEAR_AHEAD);
                }
        }
        b->at += n * CACHE_LINE;
}
