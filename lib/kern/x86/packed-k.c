/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times many tokens. One text for all instruction sets (level.h). A lane
 * is a token; a register of weights has the same 4 values of one row in every lane.
 *
 * Where there is VNNI, one instruction adds 4 products to a 32-bit lane, and each group of values that
 * share a scale is multiplied by it at its end. Otherwise sums of two products stay 16 bits wide as
 * long as they fit (steps_of_group), and what widens them multiplies by the scale.
 *
 * A tile is TILE_ROWS rows by K_TILE_VECS vectors. Its integer sums, and those of the running group, stay
 * in registers during a block, the accumulators while the blocks of a remainder go by (packed-fold.h).
 */
#include "kern/x86/packed-k.h"
#include "kern/x86/matmul-k.h"
#include "kern/x86/packed-fold.h"
#include "kern/x86/packed-store.h"

/* What the registers have room for. */
#define TILE_ROWS (LANES == 8 ? 2 : 4)
#define K_TILE_VECS 2
#define VECS_PER_UNIT (KERN_ACT_UNIT / LANES)
#define PASS_VECS (K_PASS_UNITS * VECS_PER_UNIT)

/* Sums of K_ROWS rows by a tile's vectors: the 8 accumulators of the contract, or slots (packed-fold.h). */
struct acc {
        vf v[8][K_ROWS][K_TILE_VECS];
};
#define SLOT_SIZE (K_ROWS * K_TILE_VECS) /* vectors */
_Static_assert(K_ROWS <= STORE_ROWS, "packed_store() stores no more");

/* Values are made unsigned by adding 1 << shift; 0: they are, or keep their signs (IQ4_XS without VNNI). */
KERN_INLINE unsigned shift_of(enum quant_type type) {
        return VEC_DOT4 && type == QUANT_IQ4_XS ? 7 : (unsigned)super_shift(type);
}

/* What is added to values when they are unpacked. */
KERN_INLINE int added(enum quant_type type) {
        return VEC_DOT4 && type == QUANT_IQ4_XS ? 128 : 0; /* shift_of() says why */
}

/* How many steps of 4 values are added up before a scale is applied: those that share it; without VNNI as many as
 * leave the sum of products of two within int16, 2 * 127 * (greatest value) each. */
KERN_INLINE unsigned steps_of_group(enum quant_type type) {
        switch (type) {
        case QUANT_Q4_K: /* 15 */
                return 8;
        case QUANT_Q5_K: /* 31 */
                return VEC_DOT4 ? 8 : 4;
        case QUANT_Q6_K: /* 63; scales change after 4 steps */
                return VEC_DOT4 ? 4 : 2;
        case QUANT_IQ4_XS: /* 127 */
                return VEC_DOT4 ? 8 : 1;
        default: /* Q2_K and Q3_K: scales change after 4 steps */
                return 4;
        }
}

/* A step's products added to those of its group, which it may begin. */
KERN_INLINE vi add_products(enum quant_type type, bool begin, vi sum, vi w, vi x) {
#if VEC_DOT4
        return vi_dot4(begin ? vi_zero() : sum, w, x);
#else
        vi p = type == QUANT_IQ4_XS ? vi_dot2(vi_abs8(w), vi_sign8(x, w)) : vi_dot2(w, x);

        return begin ? p : vi_add16(sum, p);
#endif
}

/* A group's sum by its scale, which without VNNI is in both halves of each lane. */
KERN_INLINE vi scaled(vi sum, vi scale) {
        return VEC_DOT4 ? vi_mul(sum, scale) : vi_dot2_16(sum, scale);
}

/* Sub-block s of block b: TILE_ROWS rows from row r on. @x: the sub-block's registers of each vector. */
KERN_INLINE void sub_block(enum quant_type type, unsigned n_vecs, const struct k_rows *rows,
        size_t r, size_t b, size_t s, const uint8_t *const *x, vi (*isum)[K_TILE_VECS]) {
        const unsigned steps = steps_of_group(type);

        KERN_UNROLL for (unsigned k0 = 0; k0 < 8; k0 += steps) {
                vi c[TILE_ROWS][K_TILE_VECS];

                KERN_UNROLL for (unsigned k = k0; k < k0 + steps; k++) {
                        vi xk[K_TILE_VECS];

                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) xk[v] =
                                vi_load(x[v] + 512 * s + 64 * k);
                        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                                vi w = vi_broadcast4(&rows->q[b][r + i][32 * s + 4 * k]);

                                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) c[i][v] =
                                        add_products(type, k == k0, c[i][v], w, xk[v]);
                        }
                }
                KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++) {
                        vi scale = vi_broadcast4(&rows->scales[b][r + i][2 * s + k0 / 4]);

                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) isum[i][v] =
                                vi_add(isum[i][v], scaled(c[i][v], scale));
                }
        }
}

/* The terms of block b of row r and one vector, whose registers begin at x. */
KERN_INLINE vf terms(enum quant_type type, const struct k_rows *rows, size_t r, size_t b,
        const uint8_t *x, vi isum, vf acc) {
        vf dx = vf_load(x + K_PACKED_SCALES);
        vi second = vi_zero();

        if (super_has_min(type) || shift_of(type))
                KERN_UNROLL for (unsigned s = 0; s < 8; s++) second =
                        vi_add_dot2_16(second, vi_broadcast4(&rows->seconds[b][r][2 * s]),
                                vi_load(x + K_PACKED_SUMS + 64 * s));
        if (shift_of(type))
                isum = vi_sub(isum, vi_slli(second, shift_of(type)));
        acc = vf_fma(vf_of_int(isum), vf_mul(vf_broadcast(&rows->d[b][r]), dx), acc);
        if (super_has_min(type))
                acc = vf_fnma(vf_of_int(second), vf_mul(vf_broadcast(&rows->m[b][r]), dx), acc);
        return acc;
}

/* Block b of TILE_ROWS rows by n_vecs vectors, whose registers begin at x. */
KERN_INLINE void tile(enum quant_type type, unsigned n_vecs, const struct k_rows *rows, size_t r,
        size_t b, const uint8_t *const *x, vf (*acc)[K_TILE_VECS]) {
        vi isum[TILE_ROWS][K_TILE_VECS];

        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++)
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) isum[i][v] = vi_zero();
        for (size_t s = 0; s < 8; s++)
                sub_block(type, n_vecs, rows, r, b, s, x, isum);
        KERN_UNROLL for (unsigned i = 0; i < TILE_ROWS; i++)
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) acc[i][v] =
                        terms(type, rows, r + i, b, x[v], isum[i][v], acc[i][v]);
}

/* Vector @v of all tokens: its activations of block 0. */
static inline const uint8_t *vec(const struct kern_act *a, size_t v) {
        return kern_act_unit(a, v / VECS_PER_UNIT) + v % VECS_PER_UNIT * LANES * 4;
}

/* n_blocks unpacked blocks (from block @first on) by n_vecs vectors from v on. @whole: they are all of the rows, and
 * leave their outputs in the first slot; others go on with 8 accumulators. */
KERN_INLINE void blocks(enum quant_type type, unsigned n_vecs, bool whole,
        const struct k_rows *rows, size_t first, size_t n_blocks, const struct kern_act *a,
        size_t v, struct acc *acc) {
        for (size_t step = 0; step < 8; step++) {
                size_t rest = whole ? fold_rest[step] : step;

                for (size_t r = 0; r < K_ROWS; r += TILE_ROWS) {
                        struct fold f = whole ? fold_whole(acc->v[0][r], SLOT_SIZE, step)
                                              : fold_part(acc->v[rest][r], first == 0);
                        const uint8_t *x[K_TILE_VECS];
                        vf sums[TILE_ROWS][K_TILE_VECS];

                        KERN_UNROLL for (unsigned i = 0; i < n_vecs; i++) x[i] =
                                vec(a, v + i) + (first + rest) * K_PACKED_SIZE;
                        fold_begin(&f, TILE_ROWS, n_vecs, K_TILE_VECS, sums[0]);
                        for (size_t b = rest; b < n_blocks; b += 8) {
                                tile(type, n_vecs, rows, r, b, x, sums);
                                KERN_UNROLL for (unsigned i = 0; i < n_vecs; i++) x[i] +=
                                        8 * K_PACKED_SIZE;
                        }
                        fold_end(&f, TILE_ROWS, n_vecs, K_TILE_VECS, sums[0]);
                }
        }
}

KERN_INLINE void blocks_by_tile(enum quant_type type, bool whole, const struct k_rows *rows,
        size_t first, size_t n_blocks, const struct kern_act *a, size_t v, size_t v1,
        struct acc *acc) {
        if (v + 1 < v1)
                blocks(type, K_TILE_VECS, whole, rows, first, n_blocks, a, v, acc);
        else
                blocks(type, 1, whole, rows, first, n_blocks, a, v, acc);
}

/* What the vectors from v on, a tile of them at most, leave of K_ROWS rows, to the outputs. */
KERN_INLINE void store_tile(bool whole, const struct acc *acc, const struct kern_act *a, size_t v,
        size_t v1, size_t n_rows, float *y, size_t ldy) {
        for (size_t i = 0; i < K_TILE_VECS && v + i < v1; i++) {
                size_t t = (v + i) * LANES, left = a->n_tokens - t;

                if (v + i + 1 < v1)
                        packed_expect(a, v + i + 1, n_rows, y, ldy);
                packed_store(!whole, &acc->v[0][0][i], SLOT_SIZE, K_TILE_VECS,
                        left < LANES ? left : LANES, n_rows, y + t * ldy, ldy);
        }
}

/* K_ROWS rows by the vectors [v0, v1) of one pass; @y: of the first row. */
KERN_INLINE void rows_by_pass(enum quant_type type, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t v0, size_t v1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_SUPER;
        struct k_rows rows;
        struct acc acc;

        k_unpack(type, !VEC_DOT4, added(type), w, row, n_rows, 0, n_blocks, &rows);
        for (size_t v = v0; v < v1; v += K_TILE_VECS) {
                blocks_by_tile(type, true, &rows, 0, n_blocks, a, v, v1, &acc);
                store_tile(true, &acc, a, v, v1, n_rows, y, ldy);
        }
}

/* The same of rows of more blocks than are unpacked at a time. */
KERN_INLINE void long_rows_by_pass(enum quant_type type, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t v0, size_t v1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_SUPER;
        struct acc acc[PASS_VECS / K_TILE_VECS];
        struct k_rows rows;

        for (size_t b = 0; b < n_blocks; b += K_CHUNK) {
                size_t n = n_blocks - b < K_CHUNK ? n_blocks - b : K_CHUNK;

                k_unpack(type, !VEC_DOT4, added(type), w, row, n_rows, b, n, &rows);
                for (size_t v = v0, i = 0; v < v1; v += K_TILE_VECS, i++)
                        blocks_by_tile(type, false, &rows, b, n, a, v, v1, &acc[i]);
        }
        for (size_t v = v0, i = 0; v < v1; v += K_TILE_VECS, i++)
                store_tile(false, &acc[i], a, v, v1, n_rows, y, ldy);
}

KERN_INLINE void packed(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        size_t n_vecs = n_units * VECS_PER_UNIT;

        for (size_t v = 0; v < n_vecs; v += PASS_VECS) {
                size_t end = n_vecs - v < PASS_VECS ? n_vecs : v + PASS_VECS;

                for (size_t o = row0; o < row1; o += K_ROWS) {
                        size_t n_rows = row1 - o < K_ROWS ? row1 - o : K_ROWS;

                        if (w->n_in / KERN_ACT_SUPER <= K_CHUNK)
                                rows_by_pass(type, w, a, o, n_rows, v, end, y + o, ldy);
                        else
                                long_rows_by_pass(type, w, a, o, n_rows, v, end, y + o, ldy);
                }
        }
}

#define X(name, type)                                                                              \
        void LEVEL(packed_##name)(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy, size_t n_units) {                               \
                packed(type, w, a, row0, row1, y, ldy, n_units);                                   \
        }
K_TYPES(X)
#undef X
