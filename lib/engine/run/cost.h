/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a step costs: its time as a function of its rows (tokens) and of how deep they are, learned
 * from the steps themselves. Knows nothing of requests or models. cost.c says how. All times are
 * microseconds; one thread.
 */
#include <stdint.h>

#define COST_N_KNOTS 60

/* Steps of about the same number of rows: means that fade. */
struct cost_knot {
        double w;                     /* steps seen, fading; 0: none */
        double rows, depth, row_usec; /* means over steps; row_usec: the time of a row */
        double depth2, depth_usec;    /* second moments about the means, of depth and row_usec */
};

/* All zeros: nothing seen yet. */
struct cost {
        struct cost_knot knots[COST_N_KNOTS];
        /* Sums that fade, over x = 1/rows and y = usec/rows. */
        struct {
                double w, x, y, xx, xy;
        } line;
        double step_usec, token_usec; /* a and b of the best line, a + b rows */
};

/* A step of @rows (1..65536) tokens took @usec. @depth: keys that a row looked at, the mean over
 * the rows. */
void cost_observe(struct cost *c, uint32_t rows, double depth, uint64_t usec);

/* The time that such a step will take; 0: no step was seen yet. It does not fall as @rows grow. Beyond the
 * largest steps that were seen it is a guess, and rather too low. */
double cost_predict(const struct cost *c, uint32_t rows, double depth);

/* The most rows, @least to @most, of a step that will take at most @usec at this depth. @least if even
 * that many take longer, or nothing is known. */
uint32_t cost_rows_within(
        const struct cost *c, uint32_t least, uint32_t most, double depth, double usec);

/* The most rows above @least, @most at the most, of a step that nobody has seen and that might take no longer than
 * @usec at this depth: less than a row of a larger step takes no row will, and no step less than a smaller one. At
 * most twice the rows of a smaller step that was seen. 0: there is none. *ret_usec: what it might take. */
uint32_t cost_rows_to_try(const struct cost *c, uint32_t least, uint32_t most, double depth,
        double usec, double *ret_usec);

/* a/b of the line a + b rows: the rows that cost as much as a step without any. At most @most; 0 until
 * steps of different sizes were seen. */
double cost_ratio(const struct cost *c, double most);
