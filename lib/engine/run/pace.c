/* SPDX-License-Identifier: MIT */
/*
 * Prompts beside replies of the same user. (Between users, steps are shared by batch.c, rules 2 and 3.)
 *
 * A share of the time is for prompts, if prefill-share is below 100. So the mean interval between two
 * tokens of a reply grows to 1 / (1 - share) of what it is without a prompt, and no more as long as the
 * machine keeps to what was learned of it (cost.c). There are two ways:
 *
 * together  A few rows of the prompt are in each step of the replies. Where a step of the replies waits
 *           for the weights, these rows cost little. But small steps use the arithmetic badly: all
 *           weights are unpacked for few rows.
 * apart     A large chunk is computed a layer at a time, and whenever the replies have waited for a slice of
 *           time they have a step of their own, between two layers. The chunk is computed at nearly the
 *           speed of a prompt alone, for its share of the time.
 *
 * 1. Of both, that one is taken which computes the prompt faster, by the predicted times, unless only the
 *    other one keeps to the share.
 * 2. Apart, a layer of the chunk takes at most a slice. The chunk has at most the share of the rows that a step
 *    can have, so with the steps between it takes about as long as such a step: so long others may have
 *    to wait for the engine (sched.c).
 * 3. Prompts always have a row, even if the replies then wait for longer: where they cannot be computed apart,
 *    or where a layer of one row takes longer than a slice.
 * 4. A row has the same bits either way (I2).
 * 5. A number of rows together that was never tried, but might be faster than all that is known, is tried once
 *    (cost_rows_to_try()): it may keep replies waiting for twice as long as they should, once for each size of step. Else
 *    steps of a few rows would remain what a line between a step of one and a whole prompt says they are.
 * 6. Together it is the mean interval that keeps to the share: what a step leaves of its time, or takes too much, is
 *    the next one's credit (pace_credit()), within bounds. Rows come in stairs (tiles of kernels, knots of the model), and
 *    some steps have none: else a good part of the share would remain unused. It does not choose between the ways.
 */
#include "engine/run/pace.h"

#include "base/util.h"

/* Parts of the limit. */
#define CREDIT_MOST 0.25
#define CREDIT_DEBT 0.1
#define MOST_LAYERS 8u /* of a chunk between two steps of the replies, at the least */

/* The most rows of a step of the replies with at least one of prompts that takes @limit, or one; and how deep they are. */
static uint32_t rows_within(
        const struct cost *c, const struct pace_need *need, double limit, double *ret_depth) {
        double n = need->n_replies;
        uint32_t rows = need->n_replies + 1;

        /* the depth of all rows depends on their number */
        for (int i = 0; i < 2; i++) {
                *ret_depth = (need->reply_depth * n + need->prompt_depth * (rows - n)) / rows;
                rows = cost_rows_within(c, need->n_replies + 1, need->most, *ret_depth, limit);
        }
        return rows;
}

/* Rows of prompts in a step of the replies, and their number in a second: 0 if one is too many already. */
static uint32_t together(
        const struct cost *c, const struct pace_need *need, double limit, double *ret_speed) {
        double depth, n = need->n_replies, usec;
        uint32_t rows = rows_within(c, need, limit, &depth), try;
        bool fits;

        usec = cost_predict(c, rows, depth);
        fits = rows > need->n_replies + 1 || usec <= limit;
        *ret_speed = fits ? (rows - n) / MAX(usec, 1.0) : 0;
        try = cost_rows_to_try(c, fits ? rows : need->n_replies, need->most, depth, limit, &usec);
        if (try > 0 && (try - n) / MAX(usec, 1.0) > *ret_speed) {
                *ret_speed = (try - n) / MAX(usec, 1.0);
                return try - need->n_replies;
        }
        return rows_within(c, need, limit + need->credit_usec, &depth) - need->n_replies;
}

/* Rows of a chunk of which at least @n layers are computed between two steps of the replies. */
static uint32_t chunk_of(const struct cost *c, const struct pace_need *need, double alone,
        unsigned n, double *ret_speed) {
        double slice = alone * need->share / (1 - need->share), layers = need->n_layer;
        uint32_t most = MAX((uint32_t)(need->most * need->share), 1u);
        uint32_t rows = cost_rows_within(c, 1, most, need->prompt_depth, slice / n * layers);
        double own = cost_predict(c, rows, need->prompt_depth);

        *ret_speed = rows / MAX(own + layers / n * alone, 1.0);
        return rows;
}

struct pace_plan pace_plan(const struct cost *c, const struct pace_need *need) {
        double alone = cost_predict(c, need->n_replies, need->reply_depth), best, speed;
        double limit = alone / (1 - need->share);
        struct pace_plan plan = {.limit_usec = limit, .rows = together(c, need, limit, &best)};

        if (alone == 0 || !need->may_part)
                return plan;
        for (unsigned n = 1; n <= MIN(MOST_LAYERS, need->n_layer); n++) {
                uint32_t rows = chunk_of(c, need, alone, n, &speed);

                if (speed <= best)
                        continue;
                best = speed;
                plan = (struct pace_plan){.apart = true,
                        .rows = rows,
                        .slice_usec = alone * need->share / (1 - need->share),
                        .layer_usec = cost_predict(c, rows, need->prompt_depth) / need->n_layer};
        }
        return plan;
}

double pace_credit(double credit, const struct pace_plan *plan, double usec) {
        if (plan->limit_usec == 0)
                return 0;
        credit += plan->limit_usec - usec;
        return MIN(MAX(credit, -CREDIT_DEBT * plan->limit_usec), CREDIT_MOST * plan->limit_usec);
}

bool pace_due(struct pace *p, uint64_t now) {
        if (p->began)
                p->plan.layer_usec = (double)(now - p->began);
        p->ready = now;
        return (double)(now - MIN(p->since, now)) + p->plan.layer_usec > p->plan.slice_usec;
}

void pace_go(struct pace *p, uint64_t now, bool replied) {
        if (replied)
                p->since = now;
        p->away_usec += now - p->ready;
        p->began = now;
}
