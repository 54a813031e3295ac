/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How long something takes, many times: counts of durations by powers of two, from 100 microseconds to 14 minutes.
 *
 * 1. Bound i is 100 << i microseconds. A duration is counted at the first bound that is not less; n[HISTOGRAM_N_BOUNDS] has
 *    those beyond all bounds. The bounds never change while a program runs, so histograms can be added and subtracted.
 * 2. Adding is a shift and two additions; the size is fixed.
 *
 * One owner; not shared between threads.
 */
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_N_BOUNDS 24
#define HISTOGRAM_FIRST_USEC 100u

/* All zeros: nothing was counted. */
struct histogram {
        uint64_t n[HISTOGRAM_N_BOUNDS + 1]; /* not cumulative */
        uint64_t sum_usec;
};

/* Bound @i, in microseconds; @i < HISTOGRAM_N_BOUNDS. */
static inline uint64_t histogram_bound(size_t i) {
        return (uint64_t)HISTOGRAM_FIRST_USEC << i;
}
/* Count @n durations of @usec each. */
void histogram_add(struct histogram *h, uint64_t usec, uint64_t n);
uint64_t histogram_count(const struct histogram *h);

/* The duration, in microseconds, that a part @q (0 to 1) of the counted ones did not exceed: of histograms with any rising
 * bounds, @n[n_bounds + 1] as above. Durations of one bucket are taken as evenly spread; of those beyond the last bound
 * nothing but that bound is known, so it is the result. 0 if nothing was counted. */
double histogram_quantile(
        const uint64_t *bounds_usec, const uint64_t *n, size_t n_bounds, double q);
