/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The end of products by packed tokens: accumulators become outputs.
 *
 * The outputs of one token are rows, a power of two of floats apart in most models: lines that share a set of every
 * cache. So what a line gets of a panel is written at once. A line that is visited again for each few rows has
 * left the first cache by then; that cost a seventh of a prompt's products.
 */
#include "kern/x86/vec.h"

#define STORE_ROWS 16 /* at most; a line of outputs */
#define STORE_VECS (STORE_ROWS / LANES)

/* Asks for the lines of the outputs of vector @v: memory is read before it is written. @y: of its first row. */
static inline void packed_expect(
        const struct kern_act *a, size_t v, size_t n_rows, float *y, size_t ldy) {
        size_t t = v * LANES, end = a->n_tokens - t < LANES ? a->n_tokens : t + LANES;

        for (; t < end; t++)
                for (size_t r = 0; r < n_rows; r += STORE_ROWS)
                        __builtin_prefetch(y + t * ldy + r, 1);
}

/* Row @acc of one vector: tree8 over 8 accumulators that are @step vectors apart. */
KERN_INLINE vf store_tree8(const vf *acc, size_t step) {
        vf c[4];

        KERN_UNROLL for (size_t i = 0; i < 4; i++) c[i] =
                vf_add(acc[i * step], acc[(i + 4) * step]);
        return vf_add(vf_add(c[0], c[2]), vf_add(c[1], c[3]));
}

KERN_INLINE void store_rows(bool tree, const vf *acc, size_t rest_step, size_t row_step,
        size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        vf out[STORE_VECS][LANES];

        KERN_UNROLL for (size_t r = 0; r < STORE_ROWS; r++) {
                vf *to = &out[r / LANES][r % LANES];

                if (r >= n_rows)
                        *to = vf_zero();
                else
                        *to = tree ? store_tree8(acc + r * row_step, rest_step) : acc[r * row_step];
        }
        KERN_UNROLL for (size_t i = 0; i < STORE_VECS; i++) vf_transpose(out[i]);
        for (size_t t = 0; t < n_tokens; t++, y += ldy)
                KERN_UNROLL for (size_t i = 0; i < STORE_VECS; i++) {
                        if (n_rows >= (i + 1) * LANES)
                                vf_storeu(y + i * LANES, out[i][t]);
                        else if (n_rows > i * LANES)
                                vf_store_first(y + i * LANES, out[i][t], n_rows - i * LANES);
                }
}

/* n_rows rows by one vector, of which n_tokens count, into y. Rows are @row_step vectors apart; @tree: of 8
 * accumulators each, @rest_step vectors apart, of which tree8 is stored. */
static inline void packed_store(bool tree, const vf *acc, size_t rest_step, size_t row_step,
        size_t n_tokens, size_t n_rows, float *y, size_t ldy) {
        if (n_rows == STORE_ROWS && n_tokens == LANES)
                store_rows(tree, acc, rest_step, row_step, LANES, STORE_ROWS, y, ldy);
        else
                store_rows(tree, acc, rest_step, row_step, n_tokens, n_rows, y, ldy);
}
