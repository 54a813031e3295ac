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
#include "kern/kern-block.h"
#include "kern/x86/level.h"
#include "kern/x86/repacked-layout.h"
#include "kern/x86/vec.h"

#define GROUPS REPACKED_GROUPS
#define TILE_ROWS (GROUPS * LANES)
/* Weights stay in registers while tokens change; with fewer registers tokens' sums do while weights change. */
#define WEIGHTS_STAY (VEC_DOT4 && LANES == 16)
/* Tokens of a piece of a tile. */
#define PIECE (WEIGHTS_STAY ? 8 : 4)
#define CACHE_LINE 64
/* Bytes ahead of a tile of weights that is read for the first time. */
#define PREFETCH 4608
/* Bytes of weights that stay in the second cache while all tokens come by, tile after tile, each of which stays in the first
 * meanwhile. */
#define ROWS_SIZE (296 * 1024)

/* Bytes of values of a group's block. */
KERN_INLINE size_t group_size(const struct block_kind kind) {
        return (kind.form == FORM_BYTES ? 32 : 16) * LANES;
}

/* 16 bits are enough for nibbles: 8 * 2 * 15 * 127. */
KERN_INLINE bool signed_bytes(const struct block_kind kind) {
        return !VEC_DOT4 && kind.form == FORM_BYTES;
}

/* Bytes of a block of a tile, and of half of its cache lines. */
KERN_INLINE size_t block_size(const struct block_kind kind) {
        return kind.size * TILE_ROWS;
}

KERN_INLINE size_t half_block(const struct block_kind kind) {
        return (block_size(kind) / 2 + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

KERN_INLINE vi low_halves(vi v) {
        return vi_and(v, vi_set8(15));
}

KERN_INLINE vi high_halves(vi v) {
        return vi_and(vi_srli16(v, 4), vi_set8(15));
}

/* Values 4k..4k+3 of a group, k < 8. */
KERN_INLINE vi values4(const struct block_kind kind, const uint8_t *group, unsigned k) {
        if (kind.form == FORM_BYTES)
                return vi_loadu(group + 4 * LANES * k);
        return k < 4 ? low_halves(vi_loadu(group + 4 * LANES * k))
                     : high_halves(vi_loadu(group + 4 * LANES * (k - 4)));
}

/* What a tile of activations has for the tokens from one on: of a block, in the order of the weights. */
struct tokens {
        const uint8_t *q;      /* int8 of the first, 32 bytes further on of the next */
        const uint8_t *scales; /* of the first */
};

KERN_INLINE vf token_scale(struct tokens x, unsigned t) {
        return vf_broadcast((const float *)(x.scales + REPACKED_ACT_SCALES) + t);
}

KERN_INLINE vi token_zero(const struct block_kind kind, struct tokens x, unsigned t) {
        size_t at = kind.form == FORM_BYTES ? REPACKED_ACT_ZERO128 : REPACKED_ACT_ZERO8;

        return vi_broadcast4(x.scales + at + 4 * t);
}

/* Adds the products of one block: @w is the tile's. */
#if WEIGHTS_STAY
KERN_INLINE void add_block(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        struct tokens x, vf (*acc)[GROUPS]) {
        vi v[GROUPS][8];
        vf dw[GROUPS];

        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                KERN_UNROLL for (unsigned k = 0; k < 8; k++) v[g][k] =
                        values4(kind, w + g * group_size(kind), k);
                dw[g] = vf_load_half(w + GROUPS * group_size(kind) + 2 * LANES * g);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                vf dx = token_scale(x, t);
                vi s[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) s[g] = token_zero(kind, x, t);
                KERN_UNROLL for (unsigned k = 0; k < 8; k++) {
                        vi xk = vi_broadcast4(x.q + 32 * t + 4 * k);

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                s[g] = vi_dot4(s[g], v[g][k], xk);
                                vi_keep(s[g]);
                        }
                }
                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) acc[t][g] =
                        vf_fma(vf_of_int(s[g]), vf_mul(dw[g], dx), acc[t][g]);
        }
}
#else
/* One step of 4 values of a group and a token. */
KERN_INLINE vi add_step(const struct block_kind kind, bool first, vi sum, vi v, vi x) {
#if VEC_DOT4
        return vi_dot4(first ? vi_zero() : sum, v, x);
#else
        vi p;

        /* w * x = |w| * (x with w's sign); |-128| is 128, unsigned */
        if (signed_bytes(kind)) {
                p = vi_add_pairs(vi_dot2(vi_abs8(v), vi_sign8(x, v)));
                return first ? p : vi_add(sum, p);
        }
        p = vi_dot2(v, x);
        return first ? p : vi_add16(sum, p);
#endif
}

KERN_INLINE void add_block(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        struct tokens x, vf (*acc)[GROUPS]) {
        vi s[PIECE][GROUPS];

        /* Low halves and high halves of the same bytes one behind the other: they are loaded once. */
        KERN_UNROLL for (unsigned i = 0; i < 8; i++) {
                const unsigned k = i / 2 + i % 2 * 4;
                vi v[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) v[g] =
                        values4(kind, w + g * group_size(kind), k);
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        vi xk = vi_broadcast4(x.q + 32 * t + 4 * k);

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                s[t][g] = add_step(kind, i == 0, s[t][g], v[g], xk);
                                vi_keep(s[t][g]);
                        }
                }
        }
        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                vf dw = vf_load_half(w + GROUPS * group_size(kind) + 2 * LANES * g);

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        vi sum = s[t][g];

                        if (!signed_bytes(kind))
                                sum = vi_add(
                                        VEC_DOT4 ? sum : vi_add_pairs(sum), token_zero(kind, x, t));
                        acc[t][g] =
                                vf_fma(vf_of_int(sum), vf_mul(dw, token_scale(x, t)), acc[t][g]);
                }
        }
}
#endif

/* tree8 of the accumulators of each output. */
KERN_INLINE vf fold(vf (*part)[PIECE][GROUPS], unsigned t, unsigned g) {
        vf c[4];

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) c[i] =
                vf_add(part[i][t][g], part[i + 4][t][g]);
        return vf_add(vf_add(c[0], c[2]), vf_add(c[1], c[3]));
}

/* Weights that are brought from memory meanwhile: those of the same tile, a little further on, or half of those of
 * the tile of rows behind it. */
enum ahead { NOTHING, THESE, NEXT };

/* n_rows rows of a tile by n_tokens tokens; y is of the first of both. */
KERN_INLINE void tile(const struct block_kind kind, unsigned n_tokens, enum ahead ahead,
        const uint8_t *next, const uint8_t *w, size_t n_blocks, struct tokens x, size_t n_rows,
        float *y, size_t ldy) {
        vf part[8][PIECE][GROUPS];

        for (size_t rest = 0; rest < 8; rest++) {
                vf acc[PIECE][GROUPS];

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) acc[t][g] = vf_zero();
                for (size_t b = rest; b < n_blocks; b += 8) {
                        if (ahead == THESE)
                                KERN_UNROLL for (size_t i = 0; i < block_size(kind);
                                                 i += CACHE_LINE)
                                        __builtin_prefetch(w + PREFETCH + i);
                        if (ahead == NEXT) {
                                KERN_UNROLL for (size_t i = 0; i < half_block(kind);
                                                 i += CACHE_LINE)
                                        __builtin_prefetch(next + i, 0, 2);
                                next += half_block(kind);
                        }
                        add_block(kind, n_tokens, w, x, acc);
                        w += block_size(kind);
                        x.q += REPACKED_ACT_SIZE;
                        x.scales += REPACKED_ACT_SIZE;
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

KERN_INLINE void tile_by(const struct block_kind kind, size_t n_tokens, enum ahead ahead,
        const uint8_t *next, const uint8_t *w, size_t n_blocks, struct tokens x, size_t n_rows,
        float *y, size_t ldy) {
        switch (n_tokens) {
#define TOKENS(n)                                                                                  \
        case n:                                                                                    \
                tile(kind, n, ahead, next, w, n_blocks, x, n_rows, y, ldy);                        \
                break;
                TOKENS(1)
                TOKENS(2)
                TOKENS(3)
                TOKENS(4)
#if PIECE > 4
                TOKENS(5)
                TOKENS(6)
                TOKENS(7)
                TOKENS(8)
#endif
#undef TOKENS
        }
}

/* n_rows rows from @row on by a tile of tokens. */
KERN_INLINE void rows_by_tile(const struct block_kind kind, enum ahead ahead, const uint8_t *next,
        const struct kern_mat *w, const struct kern_act *a, size_t row, size_t n_rows,
        size_t tile_of_x, float *y, size_t ldy) {
        size_t t = repacked_first(a->n_tokens, tile_of_x), first = t;
        size_t end = repacked_first(a->n_tokens, tile_of_x + 1);
        size_t n_pieces = (end - t + PIECE - 1) / PIECE;

        for (; t < end; n_pieces--) {
                size_t n = (end - t + n_pieces - 1) / n_pieces;
                const uint8_t *act = repacked_act(a, tile_of_x);
                struct tokens x = {act + 32 * (t - first), act + 4 * (t - first)};

                tile_by(kind, n, ahead, next, (const uint8_t *)w->data + row * w->row_size,
                        w->n_in / KERN_ACT_BLOCK, x, n_rows, y + t * ldy + row, ldy);
                t += n;
        }
}

/* All tokens come by a slice of rows, whose weights stay in the second cache meanwhile. Memory has little to do but
 * while the first tile of tokens comes. */
KERN_INLINE void by_slices(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy) {
        size_t n_tiles = repacked_n_tiles(a->n_tokens);
        size_t n = ROWS_SIZE / (TILE_ROWS * w->row_size), step = (n > 0 ? n : 1) * TILE_ROWS;

        for (size_t o = row0; o < row1; o += step)
                for (size_t i = 0; i < n_tiles; i++)
                        for (size_t r = o; r < o + step && r < row1; r += TILE_ROWS) {
                                size_t n_rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;

                                /* The first tokens wait for the rows. */
                                if (i == 0)
                                        rows_by_tile(kind, THESE, NULL, w, a, r, n_rows, i, y, ldy);
                                else
                                        rows_by_tile(
                                                kind, NOTHING, NULL, w, a, r, n_rows, i, y, ldy);
                        }
}

/* Two tiles of tokens, tile of rows by tile of rows: during both the next one is brought, so that memory works all the
 * time. More tiles of tokens need less of it than they would lose by changing places in the first cache. */
KERN_INLINE void by_pairs(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy) {
        size_t half = w->n_in / KERN_ACT_BLOCK * half_block(kind);

        for (size_t r = row0; r < row1; r += TILE_ROWS)
                for (size_t i = 0; i < 2; i++) {
                        size_t n_rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;
                        const uint8_t *next =
                                (const uint8_t *)w->data + (r + TILE_ROWS) * w->row_size + i * half;

                        if (r == row0 && i == 0)
                                rows_by_tile(kind, THESE, NULL, w, a, r, n_rows, i, y, ldy);
                        else if (r + TILE_ROWS < row1)
                                rows_by_tile(kind, NEXT, next, w, a, r, n_rows, i, y, ldy);
                        else
                                rows_by_tile(kind, NOTHING, NULL, w, a, r, n_rows, i, y, ldy);
                }
}

KERN_INLINE void matmul(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy) {
        if (repacked_n_tiles(a->n_tokens) == 2)
                by_pairs(kind, w, a, row0, row1, y, ldy);
        else
                by_slices(kind, w, a, row0, row1, y, ldy);
}

/* One block of a row, into lane @lane of its group. */
KERN_INLINE void repack_block(const struct block_kind kind, const uint8_t *from, uint8_t *group,
        uint8_t *scale, size_t lane) {
        const uint8_t *values = from + values_at(kind);

        for (size_t j = 0; j < group_size(kind) / (4 * LANES); j++) {
                uint32_t v;

                memcpy(&v, values + 4 * j, sizeof(v));
                if (kind.form == FORM_BYTES && !signed_bytes(kind))
                        v ^= 0x80808080;
                memcpy(group + (j * LANES + lane) * sizeof(v), &v, sizeof(v));
        }
        memcpy(scale + 2 * lane, from, 2);
}

KERN_INLINE void repack(
        const struct block_kind kind, const struct kern_mat *w, size_t index, uint8_t *dst) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, block_size = kind.size * TILE_ROWS;

        if ((index + 1) * TILE_ROWS > w->n_out)
                memset(dst, 0, n_blocks * block_size);
        for (size_t row = 0; row < TILE_ROWS && index * TILE_ROWS + row < w->n_out; row++) {
                const uint8_t *from =
                        (const uint8_t *)w->data + (index * TILE_ROWS + row) * w->row_size;
                size_t g = row / LANES;

                for (size_t i = 0, b = 0; i < n_blocks; i++, b = repacked_next(b, n_blocks)) {
                        uint8_t *to = dst + i * block_size;

                        repack_block(kind, from + b * kind.size, to + g * group_size(kind),
                                to + GROUPS * group_size(kind) + 2 * LANES * g, row % LANES);
                }
        }
}

#define REPACKED_KINDS(X)                                                                          \
        X(q4_0, QUANT_Q4_0, BLOCK_Q4_0)                                                            \
        X(q8_0, QUANT_Q8_0, BLOCK_Q8_0)

#define X(name, type, ...)                                                                         \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                matmul((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy);                  \
        }                                                                                          \
        static void repack_##name(const struct kern_mat *w, size_t index, uint8_t *dst) {          \
                repack((struct block_kind)__VA_ARGS__, w, index, dst);                             \
        }
REPACKED_KINDS(X)
#undef X

void LEVEL(repacked)(struct kern_ops *ops) {
        ops->repacked_rows = TILE_ROWS;
#define X(name, type, ...)                                                                         \
        ops->matmul_repacked[type] = matmul_##name;                                                \
        ops->repack[type] = repack_##name;
        REPACKED_KINDS(X)
#undef X
}
