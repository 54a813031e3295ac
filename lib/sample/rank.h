/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The best tokens in order, as many as requested: a heap whose first elements move, best first, to
 * the end of the array. Finding k of n costs n + k log n, and k is usually small. The order is
 * total (greater logit, then lower id), so the results do not depend on the algorithm.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate {
        double logit;
        int32_t token;
};

struct rank {
        struct candidate *items; /* [n] borrowed; items[0..left) heap, the rest taken, best last */
        size_t n, left;
};

bool rank_better(const struct candidate *a, const struct candidate *b);
void rank_init(struct rank *r, struct candidate *items, size_t n);
/* Take the next best, valid until the next rank_init(); left must be > 0. */
struct candidate *rank_take(struct rank *r);
/* The i-th best that was taken before. */
static inline struct candidate *rank_taken(const struct rank *r, size_t i) {
        return &r->items[r->n - 1 - i];
}
