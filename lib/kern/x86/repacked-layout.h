/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Repacked weights, where a lane is a row, and the activations that go with them.
 *
 * A tile is REPACKED_GROUPS groups of as many rows as a register has lanes of 32 bits; rows that the matrix
 * lacks are zero. It holds its blocks of 32 values one behind the other, those b with equal b % 8 together and in
 * order (repacked_next()), so that the contract's accumulators follow each other and memory is read as one stream. A block is, for
 * each group, registers of bytes, then for each group the scales as f16: as many bytes as in the file.
 * - nibbles: register j < 4 has in lane l the bytes 4j..4j+3 of row l's block: values 4j.. and 4j + 16..
 * - bytes: register j < 8 has the values 4j..4j+3, made unsigned (+128) where products want that.
 *
 * Activations come in tiles of at most REPACKED_TOKENS tokens, which all have as many (or one less). Per block,
 * in the order of the weights': 32 int8 of each token, the scale of each, and their sums' share of a zero point,
 * times -8 and times -128.
 */
#include "kern/kern-isa.h"
#include <string.h>

#define REPACKED_GROUPS 2
#define REPACKED_TOKENS 8
#define REPACKED_ACT_SIZE 352 /* of a tile's block */
#define REPACKED_ACT_SCALES 256
#define REPACKED_ACT_ZERO8 288
#define REPACKED_ACT_ZERO128 320

_Static_assert(REPACKED_ACT_SIZE <= REPACKED_TOKENS * KERN_ACT_BLOCK_SIZE, "room of the class");
_Static_assert(KERN_ACT_UNIT % REPACKED_TOKENS == 0, "a unit has whole tiles");

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

/* The tiles of a unit; @round writes token @t of a tile. */
static inline void repacked_round(const struct kern_act *a, size_t unit, uint8_t *dst,
        void (*round)(const float *x, size_t n_blocks, size_t t, uint8_t *dst)) {
        const size_t per_unit = KERN_ACT_UNIT / REPACKED_TOKENS;

        for (size_t i = 0; i < per_unit; i++) {
                size_t tile = unit * per_unit + i;

                if (tile >= repacked_n_tiles(a->n_tokens))
                        return;
                for (size_t first = repacked_first(a->n_tokens, tile), t = first;
                        t < repacked_first(a->n_tokens, tile + 1); t++)
                        round(a->x + t * a->ldx, a->n_in / KERN_ACT_BLOCK, t - first,
                                dst + i * REPACKED_TOKENS * a->quantised_row_size);
        }
}
