/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Repacked weights, where a lane is a row, and the activations that go with them.
 *
 * A tile is REPACKED_GROUPS groups of as many rows as a register has lanes of 32 bits; rows that the matrix
 * lacks are zero. It holds its blocks one behind the other, those b with equal b % 8 together and in order
 * (repacked_next()), so that the contract's accumulators follow each other and memory is read as one stream.
 *
 * A block is registers of words: register j has in lane l word repacked_word(j) of row l's block, of the first
 * group, then of the second; behind them, for each of the block's halves (f16), those of all rows. Words and halves are
 * those of the file (repacked_form()), so a tile takes as many bytes as there; but int8 are made unsigned (+128)
 * where products want that.
 *
 * Activations come in tiles of at most REPACKED_TOKENS tokens, which all have as many (or one less), and blocks in
 * the order of the weights'.
 * - blocks of 32: 32 int8 of each token, the scale of each, and their sums' share of a zero point, times -8
 *   and times -128.
 * - blocks of 256: for each token 256 int8; the sums of each 16 times -32 (a zero point's share, int32, for products
 * with VNNI); the scale; pairs of int16: sums of the 32s 0 and 2, 1 and 3, 4 and 6, 5 and 7 (for mins); of the 16s 0 and
 * 2, 1 and 3, 4 and 6 and so on (for a zero point without VNNI). Bytes come out of a word as such pairs.
 */
#include "kern/kern-isa.h"
#include <string.h>

#define REPACKED_GROUPS 2
#define REPACKED_TOKENS 8
#define REPACKED_ACT_SIZE 352 /* of a tile's block of 32 */
#define REPACKED_ACT_SCALES 256
#define REPACKED_ACT_ZERO8 288
#define REPACKED_ACT_ZERO128 320
#define REPACKED_SUPER_TOKEN KERN_ACT_REPACKED_SUPER_SIZE
#define REPACKED_SUPER_SIZE (REPACKED_TOKENS * REPACKED_SUPER_TOKEN) /* of a tile's block of 256 */
#define REPACKED_SUPER_ZERO32 256
#define REPACKED_SUPER_SCALE 320
#define REPACKED_SUPER_SUMS32 324
#define REPACKED_SUPER_SUMS16 340

_Static_assert(REPACKED_ACT_SIZE <= REPACKED_TOKENS * KERN_ACT_BLOCK_SIZE, "room of the class");
_Static_assert(REPACKED_SUPER_SUMS16 + 32 <= REPACKED_SUPER_TOKEN, "room of the class");
_Static_assert(KERN_ACT_UNIT % REPACKED_TOKENS == 0, "a unit has whole tiles");

/* Where a block of the file has its words and halves. */
struct repacked_form {
        size_t n_values;
        size_t words_at, n_words;
        size_t halves_at, n_halves;
};
KERN_INLINE struct repacked_form repacked_form(enum quant_type type) {
        switch (type) {
        case QUANT_Q4_0: /* word j: values 4j.. in the low halves of bytes, 4j + 16.. in the high ones */
                return (struct repacked_form){32, 2, 4, 0, 1};
        case QUANT_Q8_0:
                return (struct repacked_form){32, 2, 8, 0, 1};
        case QUANT_Q4_K: /* 3 words of scales (super_scales32()), 8 for each 64 values */
                return (struct repacked_form){256, 4, 35, 0, 2};
        default: /* Q6_K: 32 words of low halves, 16 of upper bits, 4 of scales */
                return (struct repacked_form){256, 0, 52, 208, 1};
        }
}

/* Which word of the file's comes as number j: all as there but in Q6_K, which has scales first, and then what 16 of
 * each 32 values of 128 have together: 2 times 4 words of low halves, 4 of upper bits. */
KERN_INLINE size_t repacked_word(enum quant_type type, size_t j) {
        size_t i, k;

        if (type != QUANT_Q6_K)
                return j;
        if (j < 4)
                return 48 + j;
        i = (j - 4) / 12;
        k = (j - 4) % 12;
        if (k < 8)
                return 16 * (i / 2) + k / 4 * 8 + 4 * (i % 2) + k % 4;
        return 32 + 8 * (i / 2) + 4 * (i % 2) + k % 4;
}

KERN_INLINE size_t repacked_block_size(enum quant_type type) {
        return 4 * repacked_form(type).n_words + 2 * repacked_form(type).n_halves;
}

/* The block behind block b of n: b % 8 first. */
static inline size_t repacked_next(size_t b, size_t n) {
        return b + 8 < n ? b + 8 : b % 8 + 1;
}

static inline size_t repacked_n_tiles(size_t n_tokens) {
        return (n_tokens + REPACKED_TOKENS - 1) / REPACKED_TOKENS;
}

/* The first token of a tile; of the one behind the last, all tokens. */
static inline size_t repacked_first(size_t n_tokens, size_t tile) {
        return tile * n_tokens / repacked_n_tiles(n_tokens);
}

static inline const uint8_t *repacked_act(const struct kern_act *a, size_t tile) {
        return (const uint8_t *)a->quantised + tile * REPACKED_TOKENS * a->quantised_row_size;
}

/* The scale of a token's block and the sum of its int8. */
static inline void repacked_act_put(uint8_t *block, size_t t, float d, int32_t sum) {
        int32_t zero8 = -8 * sum, zero128 = -128 * sum;

        memcpy(block + REPACKED_ACT_SCALES + sizeof(d) * t, &d, sizeof(d));
        memcpy(block + REPACKED_ACT_ZERO8 + sizeof(zero8) * t, &zero8, sizeof(zero8));
        memcpy(block + REPACKED_ACT_ZERO128 + sizeof(zero128) * t, &zero128, sizeof(zero128));
}

/* The tiles of a unit; @round writes token @t of a tile, whose values are @x. */
static inline void repacked_round(const struct kern_act *a, size_t unit, uint8_t *dst,
        void (*round)(const float *x, size_t n_in, size_t t, uint8_t *dst)) {
        const size_t per_unit = KERN_ACT_UNIT / REPACKED_TOKENS;

        for (size_t i = 0; i < per_unit; i++) {
                size_t tile = unit * per_unit + i;

                if (tile >= repacked_n_tiles(a->n_tokens))
                        return;
                for (size_t first = repacked_first(a->n_tokens, tile), t = first;
                        t < repacked_first(a->n_tokens, tile + 1); t++)
                        round(a->x + t * a->ldx, a->n_in, t - first,
                                dst + i * REPACKED_TOKENS * a->quantised_row_size);
        }
}
