/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights that were repacked (repacked-layout.h), times any number of tokens: a lane is a row.
 * Weights of a block are taken apart once and stay in registers, or in the first cache, for the tokens of a tile;
 * four values of a token go to all lanes. Nothing is added across lanes, and outputs of a token come out
 * side by side. A product of 8 tokens runs as fast as one of 512.
 *
 * One thing bounds a tile: accumulators of GROUPS by tokens must fit registers, with the weights of a block
 * (VNNI, 32 registers) or the sums of 16 bits (without).
 */
#include "kern/x86/level.h"
#include "kern/x86/matmul-k.h"
#include "kern/x86/repacked-block.h"
#include "kern/x86/repacked-k.h"

/* Bytes of weights that stay in the second cache while all tokens come by, tile after tile, each of which stays in the first
 * meanwhile. */
#define ROWS_SIZE (296 * 1024)

/* tree8 of the accumulators of each output. */
KERN_INLINE vf fold(vf (*part)[PIECE][GROUPS], unsigned t, unsigned g) {
        vf c[4];

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) c[i] =
                vf_add(part[i][t][g], part[i + 4][t][g]);
        return vf_add(vf_add(c[0], c[2]), vf_add(c[1], c[3]));
}

KERN_INLINE size_t act_size(enum quant_type type) {
        return repacked_form(type).n_values == KERN_ACT_SUPER ? REPACKED_SUPER_SIZE
                                                              : REPACKED_ACT_SIZE;
}

/* Where a tile's activations have token @t. */
KERN_INLINE struct tokens tokens_from(enum quant_type type, const uint8_t *act, size_t t) {
        if (repacked_form(type).n_values == KERN_ACT_SUPER)
                return (struct tokens){act + t * REPACKED_SUPER_TOKEN, NULL};
        return (struct tokens){act + KERN_ACT_BLOCK * t, act + 4 * t};
}

/* n_rows rows of a tile by n_tokens tokens; y is of the first of both. */
KERN_INLINE void tile(enum quant_type type, unsigned n_tokens, enum ahead ahead,
        const uint8_t *next, const uint8_t *w, size_t n_blocks, struct tokens x, size_t n_rows,
        float *y, size_t ldy) {
        vf part[8][PIECE][GROUPS];
        struct bring bring;

        bring_begin(&bring, type, n_tokens, ahead, next);
        for (size_t rest = 0; rest < 8; rest++) {
                vf acc[PIECE][GROUPS];

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) acc[t][g] = vf_zero();
                for (size_t b = rest; b < n_blocks; b += 8) {
                        bring_block(&bring, w);
                        if (repacked_form(type).n_values == KERN_ACT_SUPER) {
                                add_super(type, n_tokens, &bring, w, x.q, acc);
                        } else {
                                add_block(type, n_tokens, w, x, acc);
                                bring32(&bring);
                                x.scales += REPACKED_ACT_SIZE;
                        }
                        w += tile_size(type);
                        x.q += act_size(type);
                }
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) part[rest][t][g] =
                                acc[t][g];
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                vf sum = fold(part, t, g);
                float *to = y + t * ldy + g * LANES;

                if (n_rows >= (g + 1) * LANES)
                        vf_storeu(to, sum);
                else if (n_rows > g * LANES)
                        vf_store_first(to, sum, n_rows - g * LANES);
        }
}

/* tile() of each type, number of tokens and kind of bringing is a function of its own: one of all of them takes
 * compilers minutes. */
typedef void tile_fn(const uint8_t *next, const uint8_t *w, size_t n_blocks, struct tokens x,
        size_t n_rows, float *y, size_t ldy);

#define TILE(name, type, ahead, n)                                                                 \
        static void tile_##name##_##ahead##_##n(const uint8_t *next, const uint8_t *w,             \
                size_t n_blocks, struct tokens x, size_t n_rows, float *y, size_t ldy) {           \
                tile(type, n, ahead, next, w, n_blocks, x, n_rows, y, ldy);                        \
        }
#if PIECE > 4
#define FOR_TOKENS(X, ...)                                                                         \
        X(__VA_ARGS__, 1)                                                                          \
        X(__VA_ARGS__, 2)                                                                          \
        X(__VA_ARGS__, 3)                                                                          \
        X(__VA_ARGS__, 4)                                                                          \
        X(__VA_ARGS__, 5)                                                                          \
        X(__VA_ARGS__, 6)                                                                          \
        X(__VA_ARGS__, 7)                                                                          \
        X(__VA_ARGS__, 8)
#else
#define FOR_TOKENS(X, ...)                                                                         \
        X(__VA_ARGS__, 1)                                                                          \
        X(__VA_ARGS__, 2)                                                                          \
        X(__VA_ARGS__, 3)                                                                          \
        X(__VA_ARGS__, 4)
#endif
#define REPACKED_TYPES(X)                                                                          \
        X(q4_0, QUANT_Q4_0)                                                                        \
        X(q8_0, QUANT_Q8_0)                                                                        \
        X(q4_k, QUANT_Q4_K)                                                                        \
        X(q6_k, QUANT_Q6_K)
#define TILES(name, type)                                                                          \
        FOR_TOKENS(TILE, name, type, NOTHING)                                                      \
        FOR_TOKENS(TILE, name, type, THESE)                                                        \
        FOR_TOKENS(TILE, name, type, NEXT)
REPACKED_TYPES(TILES)

#define IN_TABLE(name, type, ahead, n) [type][ahead][n] = tile_##name##_##ahead##_##n,
#define IN_TABLES(name, type)                                                                      \
        FOR_TOKENS(IN_TABLE, name, type, NOTHING)                                                  \
        FOR_TOKENS(IN_TABLE, name, type, THESE)                                                    \
        FOR_TOKENS(IN_TABLE, name, type, NEXT)
static tile_fn *const tiles[QUANT_N_TYPES][N_AHEAD][PIECE + 1] = {REPACKED_TYPES(IN_TABLES)};

/* n_rows rows from @row on by a tile of tokens. */
KERN_INLINE void rows_by_tile(enum quant_type type, enum ahead ahead, const uint8_t *next,
        const struct kern_mat *w, const struct kern_act *a, size_t row, size_t n_rows,
        size_t tile_of_x, float *y, size_t ldy) {
        size_t t = repacked_first(a->n_tokens, tile_of_x), first = t;
        size_t end = repacked_first(a->n_tokens, tile_of_x + 1);
        size_t n_pieces = (end - t + PIECE - 1) / PIECE;

        for (; t < end; n_pieces--) {
                size_t n = (end - t + n_pieces - 1) / n_pieces;
                const uint8_t *act = repacked_act(a, tile_of_x);
                struct tokens x = tokens_from(type, act, t - first);

                tiles[type][ahead][n](next, (const uint8_t *)w->data + row * w->row_size,
                        w->n_in / repacked_form(type).n_values, x, n_rows, y + t * ldy + row, ldy);
                t += n;
        }
}

/* All tokens come by a slice of rows, whose weights stay in the second cache meanwhile. Memory has little to do but
 * while the first tile of tokens comes. */
KERN_INLINE void by_slices(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        size_t n_tiles = repacked_n_tiles(a->n_tokens);
        size_t n = ROWS_SIZE / (TILE_ROWS * w->row_size), step = (n > 0 ? n : 1) * TILE_ROWS;

        for (size_t o = row0; o < row1; o += step)
                for (size_t i = 0; i < n_tiles; i++)
                        for (size_t r = o; r < o + step && r < row1; r += TILE_ROWS) {
                                size_t n_rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;

                                /* The first tokens wait for the rows. */
                                if (i == 0)
                                        rows_by_tile(type, THESE, NULL, w, a, r, n_rows, i, y, ldy);
                                else
                                        rows_by_tile(
                                                type, NOTHING, NULL, w, a, r, n_rows, i, y, ldy);
                        }
}

/* Two tiles of tokens, tile of rows by tile of rows: during both the next one is brought, so that memory works all the
 * time. More tiles of tokens need less of it than they would lose by changing places in the first cache. */
KERN_INLINE void by_pairs(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        size_t half = w->n_in / KERN_ACT_BLOCK * half_lines_of32(type) * CACHE_LINE;

        for (size_t r = row0; r < row1; r += TILE_ROWS)
                for (size_t i = 0; i < 2; i++) {
                        size_t n_rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;
                        const uint8_t *next =
                                (const uint8_t *)w->data + (r + TILE_ROWS) * w->row_size + i * half;

                        if (r == row0 && i == 0)
                                rows_by_tile(type, THESE, NULL, w, a, r, n_rows, i, y, ldy);
                        else if (r + TILE_ROWS < row1)
                                rows_by_tile(type, NEXT, next, w, a, r, n_rows, i, y, ldy);
                        else
                                rows_by_tile(type, NOTHING, NULL, w, a, r, n_rows, i, y, ldy);
                }
}

KERN_INLINE void matmul(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        if (repacked_n_tiles(a->n_tokens) == 2)
                by_pairs(type, w, a, row0, row1, y, ldy);
        else
                by_slices(type, w, a, row0, row1, y, ldy);
}

/* One block of a row, into lane @lane of group @g of a tile's block. */
KERN_INLINE void repack_block(
        enum quant_type type, const uint8_t *from, uint8_t *to, size_t g, size_t lane) {
        const struct repacked_form f = repacked_form(type);

        for (size_t j = 0; j < f.n_words; j++) {
                uint32_t v;

                memcpy(&v, from + f.words_at + sizeof(v) * repacked_word(type, j), sizeof(v));
                if (type == QUANT_Q8_0 && !signed_bytes(type))
                        v ^= 0x80808080;
                memcpy(to + ((j * GROUPS + g) * LANES + lane) * sizeof(v), &v, sizeof(v));
        }
        to += f.n_words * GROUPS * WORD_SIZE;
        for (size_t i = 0; i < f.n_halves; i++)
                memcpy(to + ((i * GROUPS + g) * LANES + lane) * 2, from + f.halves_at + 2 * i, 2);
}

KERN_INLINE void repack(
        enum quant_type type, const struct kern_mat *w, size_t index, uint8_t *dst) {
        size_t n_blocks = w->n_in / repacked_form(type).n_values;

        if ((index + 1) * TILE_ROWS > w->n_out)
                memset(dst, 0, n_blocks * tile_size(type));
        for (size_t row = 0; row < TILE_ROWS && index * TILE_ROWS + row < w->n_out; row++) {
                const uint8_t *from =
                        (const uint8_t *)w->data + (index * TILE_ROWS + row) * w->row_size;

                for (size_t i = 0, b = 0; i < n_blocks; i++, b = repacked_next(b, n_blocks))
                        repack_block(type, from + b * repacked_block_size(type),
                                dst + i * tile_size(type), row / LANES, row % LANES);
        }
}

#define X(name, type)                                                                              \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                matmul(type, w, a, row0, row1, y, ldy);                                            \
        }                                                                                          \
        static void repack_##name(const struct kern_mat *w, size_t index, uint8_t *dst) {          \
                repack(type, w, index, dst);                                                       \
        }
REPACKED_TYPES(X)
#undef X

void LEVEL(repacked)(struct kern_ops *ops) {
        ops->repacked_rows = TILE_ROWS;
        ops->act_round[KERN_ACT_Q8K_REPACKED] = kern_avx2_act_round_q8k_repacked;
#define X(name, type)                                                                              \
        ops->matmul_repacked[type] = matmul_##name;                                                \
        ops->repack[type] = repack_##name;
        REPACKED_TYPES(X)
#undef X
}
