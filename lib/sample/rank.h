/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The best tokens in order, as many as requested. The order is total (greater logit, then lower id),
 * so the results do not depend on the algorithm: see rank.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate {
        double logit;
        int32_t token;
};

struct rank {
        struct candidate *items; /* [n] borrowed; items[0..n - left) are taken, best first */
        size_t n, left;
        size_t sorted; /* so many at the beginning are in order, taken or not */
};

bool rank_better(const struct candidate *a, const struct candidate *b);
/* No logit is NaN. */
void rank_init(struct rank *r, struct candidate *items, size_t n);
/* Take the next best, valid until the next rank_init(); left must be > 0. */
struct candidate *rank_take(struct rank *r);
/* The i-th best that was taken before. */
static inline struct candidate *rank_taken(const struct rank *r, size_t i) {
        return &r->items[i];
}

/* A number that at least @want of the @n logits reach, and not many more if they differ; -inf if it is
 * not to be had cheaply. NaN counts as -inf. @greatest [n / 64 + 1] becomes the greatest logit of each 64;
 * @heap [n / 64 + 1] is scratch. */
float rank_reached(const float *logits, size_t n, size_t want, float *greatest, float *heap);
