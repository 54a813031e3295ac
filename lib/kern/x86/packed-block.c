/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 32 values times many tokens. Reading a prompt consists mostly of this, so it
 * must be as fast as the processor multiplies. One text for all instruction sets (level.h).
 *
 * A lane is a token; a register of weights has the same 4 values of one row in every lane. Where
 * there is VNNI, one instruction adds 4 products to a 32-bit lane. Otherwise 2 products make one of
 * 16 bits, and these are added up while they fit (block_steps()); two products of 8 bits just fit.
 *
 * 1. Blocks b with equal b % 8 stand together, in order (packed-layout.h): the contract adds them to
 *    one accumulator, which so stays in a register while they go by (packed-fold.h).
 * 2. PANEL rows are unpacked at a time, CHUNK blocks of each, four rows side by side as the tiles
 *    read them, and used for all tokens of a pass. Of a tile, the blocks of one remainder of all rows
 *    of the panel are multiplied before the next: these and their activations stay in the first
 *    cache, the panel and a pass's activations in the second. Few tokens have no use for that
 *    (packed-direct.h).
 * 3. All sums of integers are exact, so only rule 1 fixes results.
 */
#include "kern/x86/block-values.h"
#include "kern/x86/packed-block.h"
#include "kern/x86/packed-direct.h"
#include "kern/x86/packed-fold.h"
#include "kern/x86/packed-store.h"
#include "kern/x86/packed-zero.h"

#define TILE_ROWS 4
#define PANEL 32  /* rows; a multiple of STORE_ROWS */
#define CHUNK 256 /* blocks; a multiple of 8 */
#define N_GROUPS (PANEL / TILE_ROWS)
_Static_assert(PANEL % STORE_ROWS == 0, "panels are stored in whole lines");

/* Values of 8 bits: without VNNI they keep their signs. */
KERN_INLINE bool block_is_signed(const struct block_kind kind) {
        return !VEC_DOT4 && (kind.form == FORM_BYTES || kind.form == FORM_IQ4);
}

/* Bytes of one block of 4 rows in a panel. */
KERN_INLINE size_t block_q_size(const struct block_kind kind) {
        return block_is_signed(kind) ? 256 : 128;
}

/* Block i of its remainder and chunk, of a group of 4 rows, is at panel_at(): remainders are apart, since each is
 * used by itself, and no more than the blocks that there are, since what is a power of two apart shares sets of the
 * first cache. */
struct panel {
        /* Of 8 steps 4 values of each of 4 rows; values with signs are followed by their magnitudes. */
        _Alignas(64) uint8_t q[N_GROUPS * CHUNK * (VEC_DOT4 ? 128 : 256)];
        _Alignas(16) float d[N_GROUPS * CHUNK][TILE_ROWS];
        _Alignas(16) float m[N_GROUPS * CHUNK][TILE_ROWS];
        size_t n8; /* blocks of a remainder, at most */
};

KERN_INLINE size_t panel_at(const struct panel *p, size_t rest, size_t group, size_t i) {
        return (rest * N_GROUPS + group) * p->n8 + i;
}

/* Sums of a panel by a tile's vectors: the 8 accumulators of the contract, or slots (packed-fold.h). */
struct packed_acc {
        vf v[8][PANEL][TILE_VECS];
};

/* 4 rows of 8 steps of 4 bytes, side by side. */
KERN_INLINE void interleave4(const __m256i *v, uint8_t *to) {
        __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
        __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
        const __m256i k[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};

        KERN_UNROLL for (unsigned i = 0; i < 4; i++) {
                _mm_store_si128((__m128i *)(to + 16 * i), _mm256_castsi256_si128(k[i]));
                _mm_store_si128((__m128i *)(to + 64 + 16 * i), _mm256_extracti128_si256(k[i], 1));
        }
}

/* n_blocks <= CHUNK blocks from the multiple b of 8 on, of 4 rows. @next: bytes to the rows that are unpacked
 * after these; they are asked for, as so many streams at a time are not foreseen. */
KERN_INLINE void unpack_group(const struct block_kind kind, const uint8_t *const *w, size_t next,
        size_t b, size_t n_blocks, struct panel *ret, size_t group) {
        for (size_t i = 0; i < n_blocks; i++) {
                size_t at = panel_at(ret, i % 8, group, i / 8);
                uint8_t *q = ret->q + at * block_q_size(kind);
                __m256i v[TILE_ROWS];

                const uint8_t *p[TILE_ROWS];

                KERN_UNROLL for (unsigned r = 0; r < TILE_ROWS; r++) {
                        p[r] = w[r] + (b + i) * kind.size;
                        __builtin_prefetch(p[r] + next);
                        v[r] = block_values_unsigned(kind, p[r]);
                }
                _mm_store_ps(ret->d[at], block_scales4(kind, p));
                if (kind.min)
                        _mm_store_ps(ret->m[at], block_halves4(p, 2));
                if (block_is_signed(kind)) {
                        __m256i abs[TILE_ROWS], sign = _mm256_set1_epi8(-128);

                        KERN_UNROLL for (unsigned r = 0; r < TILE_ROWS; r++) {
                                v[r] = _mm256_xor_si256(v[r], sign);
                                abs[r] = _mm256_abs_epi8(v[r]);
                        }
                        interleave4(abs, q + 128);
                }
                interleave4(v, q);
        }
}

#if VEC_DOT4
/* One block: n_rows rows whose values begin at q[row / 4] + 4 * (row % 4), by n_vecs vectors. */
KERN_INLINE void block_sums(const struct block_kind kind, unsigned n_rows, unsigned n_vecs,
        const uint8_t *const *q, const uint8_t *const *x, vi (*s)[TILE_VECS]) {
        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                vi zero = packed_zero_point(kind, x[v]);

                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) s[r][v] = zero;
        }
        KERN_UNROLL for (unsigned k = 0; k < 8; k++) {
                vi xk[TILE_VECS];

                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) xk[v] = vi_load(x[v] + 64 * k);
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                        vi w = vi_broadcast4(q[r / 4] + 16 * k + 4 * (r % 4));

                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) s[r][v] =
                                vi_dot4(s[r][v], w, xk[v]);
                }
        }
}
#else
/* How many steps of 4 values leave the sum of products of two within int16: 2 * 127 * (greatest
 * value) each. */
KERN_INLINE unsigned block_steps(const struct block_kind kind) {
        return kind.form == FORM_FIVE || kind.form == FORM_MXFP4 ? 4 : 8;
}

/* n_rows rows of a block, values of at most 5 bits. */
KERN_INLINE void rows_sums(const struct block_kind kind, unsigned n_rows, unsigned n_vecs,
        const uint8_t *const *q, const uint8_t *const *x, vi (*s)[TILE_VECS]) {
        const unsigned steps = block_steps(kind);

        KERN_UNROLL for (unsigned k0 = 0; k0 < 8; k0 += steps) {
                vi c[8][TILE_VECS];

                KERN_UNROLL for (unsigned k = k0; k < k0 + steps; k++) {
                        vi xk[TILE_VECS];

                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) xk[v] =
                                vi_load(x[v] + 64 * k);
                        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                                vi w = vi_broadcast4(q[r / 4] + 16 * k + 4 * (r % 4));

                                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                                        vi p = vi_dot2(w, xk[v]);

                                        c[r][v] = k == k0 ? p : vi_add16(c[r][v], p);
                                        vi_keep(c[r][v]);
                                }
                        }
                }
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++)
                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                        vi p = vi_add_pairs(c[r][v]);

                        s[r][v] = k0 == 0 ? p : vi_add(s[r][v], p);
                }
        }
}

/* The same of values of 8 bits: w * x = |w| * (x with w's sign); |-128| is 128, unsigned. */
KERN_INLINE void rows_sums_signed(unsigned n_rows, unsigned n_vecs, const uint8_t *const *q,
        const uint8_t *const *x, vi (*s)[TILE_VECS]) {
        KERN_UNROLL for (unsigned k = 0; k < 8; k++) {
                vi xk[TILE_VECS];

                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) xk[v] = vi_load(x[v] + 64 * k);
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                        const uint8_t *p = q[r / 4] + 16 * k + 4 * (r % 4);
                        vi w = vi_broadcast4(p), abs = vi_broadcast4(p + 128);

                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                                vi sum = vi_add_pairs(vi_dot2(abs, vi_sign8(xk[v], w)));

                                s[r][v] = k == 0 ? sum : vi_add(s[r][v], sum);
                                vi_keep(s[r][v]);
                        }
                }
        }
}

/* One block: n_rows rows whose values begin at q[row / 4] + 4 * (row % 4), by n_vecs vectors. */
KERN_INLINE void block_sums(const struct block_kind kind, unsigned n_rows, unsigned n_vecs,
        const uint8_t *const *q, const uint8_t *const *x, vi (*s)[TILE_VECS]) {
        if (block_is_signed(kind)) {
                rows_sums_signed(n_rows, n_vecs, q, x, s);
                return;
        }
        rows_sums(kind, n_rows, n_vecs, q, x, s);
        if (kind.min)
                return;
        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                vi zero = packed_zero_point(kind, x[v]);

                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) s[r][v] = vi_add(s[r][v], zero);
        }
}
#endif

#define SLOT_SIZE (PANEL * TILE_VECS) /* vectors */

/* n_groups groups of 4 rows from @group on by n_vecs vectors: the n blocks of one remainder, whose
 * activations begin at x0. @f is of the first of the rows. */
KERN_INLINE void tile(const struct block_kind kind, unsigned n_groups, unsigned n_vecs,
        const struct panel *w, size_t group, size_t rest, const uint8_t *const *x0, size_t n,
        struct fold f) {
        const unsigned n_rows = n_groups * TILE_ROWS;
        vf a[8][TILE_VECS];

        fold_begin(&f, n_rows, n_vecs, TILE_VECS, a[0]);
        for (size_t i = 0; i < n; i++) {
                const uint8_t *q[2], *x[TILE_VECS];
                vi s[8][TILE_VECS];
                size_t at[2];

                KERN_UNROLL for (unsigned g = 0; g < n_groups; g++) {
                        at[g] = panel_at(w, rest, group + g, i);
                        q[g] = w->q + at[g] * block_q_size(kind);
                }
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) x[v] = x0[v] + i * PACKED_SIZE;
                block_sums(kind, n_rows, n_vecs, q, x, s);
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) {
                        vf dx = vf_load(x[v] + PACKED_SCALES);

                        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                                vf d = vf_broadcast(&w->d[at[r / 4]][r % 4]);

                                a[r][v] = vf_fma(vf_of_int(s[r][v]), vf_mul(d, dx), a[r][v]);
                        }
                        if (kind.min) {
                                vf sums = vf_of_int(vi_load(x[v] + PACKED_SUMS));

                                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++) {
                                        vf m = vf_broadcast(&w->m[at[r / 4]][r % 4]);

                                        a[r][v] = vf_fma(sums, vf_mul(m, dx), a[r][v]);
                                }
                        }
                }
        }
        fold_end(&f, n_rows, n_vecs, TILE_VECS, a[0]);
}

/* Vector @v of all tokens: its activations of block 0. */
static inline const uint8_t *packed_vec(const struct kern_act *a, size_t v) {
        size_t per_unit = KERN_ACT_UNIT / LANES;

        return kern_act_unit(a, v / per_unit) + v % per_unit * LANES * 4;
}

/* An unpacked chunk (blocks from b on) by n_vecs vectors from @vec on. @whole: it is all of the rows, and leaves their
 * outputs in the first slot; others go on with 8 accumulators. */
KERN_INLINE void panel_by_vecs(const struct block_kind kind, unsigned n_vecs, bool whole,
        const struct panel *w, const struct kern_act *a, size_t vec, size_t b, size_t n_blocks,
        size_t n_groups, struct packed_acc *acc) {
        const size_t all = a->n_in / KERN_ACT_BLOCK;

        for (size_t step = 0; step < 8; step++) {
                size_t rest = whole ? fold_rest[step] : step, g = 0;
                size_t n = (n_blocks + 7 - rest) / 8;
                const uint8_t *x[TILE_VECS];

                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) x[v] =
                        packed_vec(a, vec + v) + packed_place(b + rest, all) * PACKED_SIZE;
                while (g < n_groups) {
                        struct fold f =
                                whole ? fold_whole(&acc->v[0][g * TILE_ROWS][0], SLOT_SIZE, step)
                                      : fold_part(&acc->v[rest][g * TILE_ROWS][0], b == 0);

                        /* A single vector leaves too few sums to hide how long a product takes. */
                        if (n_vecs == 1 && g + 2 <= n_groups) {
                                tile(kind, 2, n_vecs, w, g, rest, x, n, f);
                                g += 2;
                        } else {
                                tile(kind, 1, n_vecs, w, g, rest, x, n, f);
                                g++;
                        }
                }
        }
}

/* How many vectors the next tile has, of n that are left: none is alone if another can go with it. */
static inline unsigned next_tile(size_t n) {
        if (n >= TILE_VECS)
                return n == TILE_VECS + 1 ? (TILE_VECS + 1) / 2 : TILE_VECS;
        return (unsigned)n;
}

KERN_INLINE void panel_by_tile(const struct block_kind kind, bool whole, const struct panel *w,
        const struct kern_act *a, size_t v, unsigned n_vecs, size_t b, size_t n_blocks,
        size_t n_groups, struct packed_acc *acc) {
        switch (n_vecs) {
        case 1:
                panel_by_vecs(kind, 1, whole, w, a, v, b, n_blocks, n_groups, acc);
                break;
#if TILE_VECS > 2
        case 2:
                panel_by_vecs(kind, 2, whole, w, a, v, b, n_blocks, n_groups, acc);
                break;
#endif
        default:
                panel_by_vecs(kind, TILE_VECS, whole, w, a, v, b, n_blocks, n_groups, acc);
        }
}

/* Blocks [b, b + n_blocks) of a panel's rows. */
KERN_INLINE void unpack_panel(const struct block_kind kind, const struct kern_mat *w, size_t row,
        size_t n_rows, size_t b, size_t n_blocks, struct panel *ret) {
        ret->n8 = (n_blocks + 7) / 8;
        for (size_t r = 0, g = 0; r < n_rows; r += TILE_ROWS, g++) {
                const uint8_t *p[TILE_ROWS];

                /* The last row stands in for those that are missing. */
                for (size_t i = 0; i < TILE_ROWS; i++)
                        p[i] = (const uint8_t *)w->data +
                               (row + (r + i < n_rows ? r + i : n_rows - 1)) * w->row_size;
                unpack_group(kind, p, PANEL * w->row_size, b, n_blocks, ret, g);
        }
}

/* What n_vecs vectors from v on leave of a panel's rows, to the outputs. */
KERN_INLINE void store_tile(bool whole, const struct packed_acc *acc, const struct kern_act *a,
        size_t v, unsigned n_vecs, size_t row, size_t n_rows, float *y, size_t ldy) {
        for (size_t i = 0; i < n_vecs; i++) {
                size_t t = (v + i) * LANES, left = a->n_tokens - t;

                if (i + 1 < n_vecs)
                        packed_expect(a, v + i + 1, n_rows, y + row, ldy);
                for (size_t r = 0; r < n_rows; r += STORE_ROWS)
                        packed_store(!whole, &acc->v[0][r][i], SLOT_SIZE, TILE_VECS,
                                left < LANES ? left : LANES,
                                n_rows - r < STORE_ROWS ? n_rows - r : STORE_ROWS,
                                y + t * ldy + row + r, ldy);
        }
}

/* A panel's rows by the vectors [v0, v1) of one pass. Rows of one chunk are done with tile by tile. */
KERN_INLINE void panel_by_pass(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t v0, size_t v1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, n_groups = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
        struct packed_acc acc;
        struct panel panel;

        unpack_panel(kind, w, row, n_rows, 0, n_blocks, &panel);
        for (size_t v = v0, n; v < v1; v += n) {
                n = next_tile(v1 - v);
                packed_expect(a, v, n_rows, y + row, ldy);
                panel_by_tile(kind, true, &panel, a, v, (unsigned)n, 0, n_blocks, n_groups, &acc);
                store_tile(true, &acc, a, v, (unsigned)n, row, n_rows, y, ldy);
        }
}

/* The same of rows of more blocks than a panel has. */
KERN_INLINE void long_panel_by_pass(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row, size_t n_rows, size_t v0, size_t v1, float *y,
        size_t ldy) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, n_groups = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
        struct packed_acc acc[PASS_TILES];
        struct panel panel;

        for (size_t b = 0; b < n_blocks; b += CHUNK) {
                size_t n_chunk = n_blocks - b < CHUNK ? n_blocks - b : CHUNK;

                unpack_panel(kind, w, row, n_rows, b, n_chunk, &panel);
                for (size_t v = v0, n, i = 0; v < v1; v += n, i++) {
                        n = next_tile(v1 - v);
                        panel_by_tile(kind, false, &panel, a, v, (unsigned)n, b, n_chunk, n_groups,
                                &acc[i]);
                }
        }
        for (size_t v = v0, n, i = 0; v < v1; v += n, i++) {
                n = next_tile(v1 - v);
                store_tile(false, &acc[i], a, v, (unsigned)n, row, n_rows, y, ldy);
        }
}

#if PACKED_DIRECT
/* Rows [row0, row1) by the first n_vecs vectors, each by itself. */
KERN_INLINE void rows_by_vecs(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, size_t n_vecs, float *y, size_t ldy) {
        vf acc[8][DIRECT_ROWS];

        for (size_t o = row0; o < row1; o += DIRECT_ROWS)
                for (size_t v = 0; v < n_vecs; v++) {
                        size_t n_rows = row1 - o < DIRECT_ROWS ? row1 - o : DIRECT_ROWS;
                        size_t left = a->n_tokens - v * LANES;

                        direct_rows(kind, (const uint8_t *)w->data + o * w->row_size, w->row_size,
                                n_rows, packed_vec(a, v), w->n_in / KERN_ACT_BLOCK, acc);
                        packed_store(true, acc[0], DIRECT_ROWS, 1, left < LANES ? left : LANES,
                                n_rows, y + v * LANES * ldy + o, ldy);
                }
}
#endif

/* Rows [row0, row1) by the first n_units units. */
KERN_INLINE void packed(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t n_units) {
        size_t n_tokens =
                n_units * KERN_ACT_UNIT < a->n_tokens ? n_units * KERN_ACT_UNIT : a->n_tokens;
        size_t n_vecs = (n_tokens + LANES - 1) / LANES;
        size_t n_passes = (n_vecs + PASS_TILES * TILE_VECS - 1) / (PASS_TILES * TILE_VECS);

#if PACKED_DIRECT
        if (n_vecs <= direct_vecs(kind)) {
                rows_by_vecs(kind, w, a, row0, row1, n_vecs, y, ldy);
                return;
        }
#endif
        for (size_t v = 0, end; v < n_vecs; v = end, n_passes--) {
                end = v + (n_vecs - v + n_passes - 1) / n_passes;
                for (size_t o = row0; o < row1; o += PANEL) {
                        size_t n_rows = row1 - o < PANEL ? row1 - o : PANEL;

                        if (w->n_in / KERN_ACT_BLOCK <= CHUNK)
                                panel_by_pass(kind, w, a, o, n_rows, v, end, y, ldy);
                        else
                                long_panel_by_pass(kind, w, a, o, n_rows, v, end, y, ldy);
                }
        }
}

#define X(name, type, ...)                                                                         \
        void LEVEL(packed_##name)(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy, size_t n_units) {                               \
                packed((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n_units);         \
        }
BLOCK_KINDS(X)
#undef X
