/* SPDX-License-Identifier: MIT */
/*
 * Learning what steps cost.
 *
 * The time of a step is no line. Up to some rows it is the time of reading the weights, then that of the
 * arithmetic, with stairs where kernels have tiles of rows. So there is a knot for each of 1 to 8 rows,
 * and four for each doubling of them. Between knots that were seen the time is interpolated; outside it
 * goes on like the nearest two. A step of more rows than any that was seen may take longer than that: so
 * cost_rows_within() goes REACH times as far at most.
 *
 * 1. A knot has means that fade over KNOT_STEPS of its own steps. What was not seen again within some
 *    MEMORY_STEPS steps of any size is forgotten, since the machine may have changed meanwhile; but
 *    the last two knots stay.
 * 2. Attention makes deep rows dearer. Within a knot the time of a row is a line over the depth. Its slope
 *    comes from the steps of the knot; as far as they tell little, from those of all knots. It is the time of
 *    a row because the engine makes chunks smaller as they get deeper: in steps of one knot, too.
 * 3. A step that takes OUTLIER times what was expected counts as no more than that: something else had
 *    the processors.
 * 4. The line a + b rows is fitted to the time per row over 1/rows (t/n = b + a/n), so that small steps
 *    count as much as large ones. Until steps of different sizes were seen, a is 0.
 */
#include "base/util.h"
#include "engine/run/cost.h"

#define KNOT_STEPS 16.0
#define MEMORY_STEPS 4000.0
#define FORGOTTEN 0.4 /* of a step left */
#define OUTLIER 3.0
#define OUTLIER_KNOWN 3.0 /* steps before an outlier can be recognised */
/* Steps that the other knots' slope counts as, spread over a part of the depth and some keys: over fewer, noise is a
 * larger slope than any that is true. */
#define DEPTH_PRIOR 4.0
#define DEPTH_SPREAD 0.5
#define DEPTH_LEAST 1000
#define REACH 2.0 /* times the rows of the largest known step: no farther at once */
#define LINE_FADE 0.98
#define LINE_SPREAD 0.0001 /* the least variance of 1/rows that tells a and b apart */

static unsigned knot_of(uint32_t rows) {
        uint32_t n = MIN(MAX(rows, 1u), 65536u) - 1, e;

        if (n < 8)
                return n;
        e = 31 - (uint32_t)__builtin_clz(n);
        return 8 + (e - 3) * 4 + ((n >> (e - 2)) & 3);
}

/* --- observing --- */

static void line_observe(struct cost *c, uint32_t rows, double usec) {
        double x = 1 / (double)rows, y = usec * x, mean_x, spread;

        c->line.w = c->line.w * LINE_FADE + 1;
        c->line.x = c->line.x * LINE_FADE + x;
        c->line.y = c->line.y * LINE_FADE + y;
        c->line.xx = c->line.xx * LINE_FADE + x * x;
        c->line.xy = c->line.xy * LINE_FADE + x * y;
        mean_x = c->line.x / c->line.w;
        spread = c->line.xx / c->line.w - mean_x * mean_x;
        if (spread < LINE_SPREAD)
                return;
        c->step_usec = MAX((c->line.xy - mean_x * c->line.y) / c->line.w / spread, 0.0);
        c->token_usec = MAX(c->line.y / c->line.w - c->step_usec * mean_x, 0.0);
}

static void forget(struct cost *c, const struct cost_knot *but) {
        unsigned n = 0;

        for (unsigned i = 0; i < COST_N_KNOTS; i++)
                n += c->knots[i].w > 0;
        for (unsigned i = 0; i < COST_N_KNOTS; i++) {
                struct cost_knot *k = &c->knots[i];

                if (k->w == 0 || k == but)
                        continue;
                k->w *= 1 - 1 / (MEMORY_STEPS / 4);
                if (k->w < FORGOTTEN && n > 2) {
                        *k = (struct cost_knot){0};
                        n--;
                }
        }
}

void cost_observe(struct cost *c, uint32_t rows, double depth, uint64_t usec) {
        struct cost_knot *k = &c->knots[knot_of(rows)];
        double expected = cost_predict(c, rows, depth), t = (double)usec, part, dx, dy;

        if (rows == 0)
                return;
        if (k->w > OUTLIER_KNOWN && expected > 0)
                t = MIN(t, OUTLIER * expected);
        k->w = k->w * (1 - 1 / KNOT_STEPS) + 1;
        part = 1 / k->w;
        dx = depth - k->depth;
        dy = t / (double)rows - k->row_usec;
        k->rows += part * ((double)rows - k->rows);
        k->depth += part * dx;
        k->row_usec += part * dy;
        k->depth2 = (1 - part) * (k->depth2 + part * dx * dx);
        k->depth_usec = (1 - part) * (k->depth_usec + part * dx * dy);
        forget(c, k);
        line_observe(c, rows, t);
}

/* --- predicting --- */

/* Microseconds per row for each key more, by all knots. Times are about equally exact in parts of themselves: so
 * those of the larger steps, whose rows take least, tell most. */
static double common_slope(const struct cost *c) {
        double xy = 0, xx = 0;

        for (unsigned i = 0; i < COST_N_KNOTS; i++) {
                const struct cost_knot *k = &c->knots[i];
                double exact =
                        k->w > 0 ? k->w / (MAX(k->row_usec, 1.0) * MAX(k->row_usec, 1.0)) : 0;

                xy += exact * k->depth_usec;
                xx += exact * k->depth2;
        }
        return xx > 0 ? MAX(xy / xx, 0.0) : 0;
}

static double at_knot(const struct cost_knot *k, double common, double depth) {
        double spread = DEPTH_SPREAD * (k->depth + DEPTH_LEAST);
        double prior = DEPTH_PRIOR * spread * spread, weight = k->w * k->depth2 + prior;
        double slope = (k->w * k->depth_usec + prior * common) / weight;
        double row = k->row_usec + MAX(slope, 0.0) * (depth - k->depth);

        return MAX(row, k->row_usec / 16) * k->rows;
}

/* The known knots at one depth. */
struct curve {
        unsigned n;
        double rows[COST_N_KNOTS], usec[COST_N_KNOTS]; /* neither falls */
};

/* More rows take no less time: where knots say so by noise, they have their common mean. */
static void make_curve(const struct cost *c, double depth, struct curve *ret) {
        double common = common_slope(c), usec[COST_N_KNOTS], w[COST_N_KNOTS];
        unsigned size[COST_N_KNOTS], n = 0;

        ret->n = 0;
        for (unsigned i = 0; i < COST_N_KNOTS; i++) {
                const struct cost_knot *k = &c->knots[i];

                if (k->w == 0)
                        continue;
                ret->rows[ret->n++] = k->rows;
                usec[n] = at_knot(k, common, depth);
                w[n] = k->w;
                size[n++] = 1;
                for (; n > 1 && usec[n - 2] > usec[n - 1]; n--) {
                        usec[n - 2] = (usec[n - 2] * w[n - 2] + usec[n - 1] * w[n - 1]) /
                                      (w[n - 2] + w[n - 1]);
                        w[n - 2] += w[n - 1];
                        size[n - 2] += size[n - 1];
                }
        }
        for (unsigned i = 0, at = 0; i < n; i++)
                for (unsigned j = 0; j < size[i]; j++)
                        ret->usec[at++] = usec[i];
}

static double on_curve(const struct curve *c, double rows) {
        double t, least;
        unsigned i = 1;

        if (c->n == 0)
                return 0;
        least = c->usec[0] * rows / c->rows[0];
        if (c->n == 1) /* fewer rows: in proportion; more: as if they were free */
                return MIN(least, c->usec[0]);
        while (i < c->n - 1 && c->rows[i] < rows)
                i++;
        t = c->usec[i - 1] +
            (c->usec[i] - c->usec[i - 1]) * (rows - c->rows[i - 1]) / (c->rows[i] - c->rows[i - 1]);
        return rows < c->rows[0] ? MAX(t, least) : t;
}

double cost_predict(const struct cost *c, uint32_t rows, double depth) {
        struct curve curve;

        make_curve(c, depth, &curve);
        return on_curve(&curve, (double)rows);
}

uint32_t cost_rows_within(
        const struct cost *c, uint32_t least, uint32_t most, double depth, double usec) {
        struct curve curve;
        uint32_t low = least, high = least;

        make_curve(c, depth, &curve);
        if (curve.n > 0)
                high = (uint32_t)MIN((double)most, MAX(REACH * curve.rows[curve.n - 1], 2.0));
        while (low < high) {
                uint32_t middle = high - (high - low) / 2;

                if (on_curve(&curve, (double)middle) <= usec)
                        low = middle;
                else
                        high = middle - 1;
        }
        return low;
}

/* The least that a step may take of @rows, more than the first of the curve: it has the weights to read that one of
 * fewer rows has, and does not use the arithmetic better than one of more. */
static double might_take(const struct curve *c, double rows, double *ret_smaller) {
        unsigned i = 1;

        while (i < c->n && c->rows[i] < rows)
                i++;
        *ret_smaller = c->rows[i - 1];
        return i == c->n ? c->usec[i - 1] : MAX(c->usec[i - 1], c->usec[i] * rows / c->rows[i]);
}

uint32_t cost_rows_to_try(const struct cost *c, uint32_t least, uint32_t most, double depth,
        double usec, double *ret_usec) {
        struct curve curve;
        uint32_t best = 0;

        make_curve(c, depth, &curve);
        for (uint32_t rows = least + 1; curve.n > 0 && rows <= most; rows++) {
                double smaller, t;

                if (c->knots[knot_of(rows)].w > 0 || rows <= curve.rows[0])
                        continue;
                t = might_take(&curve, rows, &smaller);
                if (t > usec)
                        break;
                if (rows > REACH * smaller)
                        continue;
                best = rows;
                *ret_usec = t;
        }
        return best;
}

double cost_ratio(const struct cost *c, double most) {
        return c->step_usec < most * c->token_usec ? c->step_usec / c->token_usec
               : c->step_usec > 0                  ? most
                                                   : 0;
}
