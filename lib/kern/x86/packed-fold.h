/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How the 8 accumulators of packed products (contract: acc[b%8]) become one.
 *
 * Where all blocks of rows are at hand, the blocks of one remainder of 8 are added up in registers, and remainders
 * come in an order in which tree8 needs three slots of memory, not eight: they stay in the first cache, and what is
 * left in the first slot at the end is the output. Longer rows keep 8 accumulators between chunks of blocks.
 */
#include "kern/x86/vec.h"

/* What becomes of the sums of a remainder's blocks: they go on from @from (NULL: from zero); then what lies at @top
 * and in the n - 1 slots below it is added, one after the other, and the result is put to @to. */
struct fold {
        const vf *from, *top;
        vf *to;
        size_t n, slot_size; /* in vectors */
};

static const uint8_t fold_rest[8] = {0, 4, 2, 6, 1, 5, 3, 7};

/* The step's remainder is fold_rest[step]. @slots: of the sums that are meant. */
KERN_INLINE struct fold fold_whole(vf *slots, size_t slot_size, size_t step) {
        static const struct {
                uint8_t low, n;
        } steps[8] = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 0}, {1, 1}, {2, 0}, {0, 3}};
        vf *to = slots + steps[step].low * slot_size;
        size_t n = steps[step].n;

        return (struct fold){NULL, n > 0 ? to + (n - 1) * slot_size : to, to, n, slot_size};
}

/* Of rows that go on. @first: they begin. */
KERN_INLINE struct fold fold_part(vf *acc, bool first) {
        return (struct fold){first ? NULL : acc, NULL, acc, 0, 0};
}

/* The sums of n_rows rows by n_vecs vectors, in rows of @row_size, in memory as in @a. */
KERN_INLINE void fold_begin(
        const struct fold *f, unsigned n_rows, unsigned n_vecs, unsigned row_size, vf *a) {
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++)
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) a[r * row_size + v] =
                        f->from ? f->from[r * row_size + v] : vf_zero();
}

KERN_INLINE void fold_end(
        const struct fold *f, unsigned n_rows, unsigned n_vecs, unsigned row_size, vf *a) {
        const vf *p = f->top;

        for (size_t n = f->n; n > 0; n--, p -= f->slot_size)
                KERN_UNROLL for (unsigned r = 0; r < n_rows; r++)
                        KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++) a[r * row_size + v] =
                                vf_add(p[r * row_size + v], a[r * row_size + v]);
        KERN_UNROLL for (unsigned r = 0; r < n_rows; r++)
                KERN_UNROLL for (unsigned v = 0; v < n_vecs; v++)
                        f->to[r * row_size + v] = a[r * row_size + v];
}
