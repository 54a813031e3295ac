/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a user's prompts are computed beside replies of the same user: how many rows, and whether in the
 * step of the replies or apart from it. pace.c says why. Knows nothing of requests. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "engine/run/cost.h"

struct pace_need {
        double share;       /* of the time that prompts may have: 0 < share < 1 */
        uint32_t n_replies; /* rows of a step that generate, 1 or more */
        double reply_depth; /* keys that each of them looks at, on average */
        double prompt_depth;
        double credit_usec; /* pace_credit() of the steps before */
        uint32_t most;      /* rows that a step can have, more than n_replies */
        uint32_t n_layer;   /* of the model */
        bool may_part;      /* prompts can be computed apart */
};

struct pace_plan {
        bool apart;
        uint32_t rows;     /* of prompts, 1 or more */
        double limit_usec; /* together: what the step may take; 0: not known */
        double slice_usec; /* apart: the time for prompts between two steps of the replies */
        double layer_usec; /* apart: what a layer is expected to take */
};

/* What is best by all that is known of steps. */
struct pace_plan pace_plan(const struct cost *c, const struct pace_need *need);

/* The credit behind a step of this plan, together, that took @usec with @credit_usec before it; the first has 0. */
double pace_credit(double credit_usec, const struct pace_plan *plan, double usec);

/* A chunk that is computed apart, a layer at a time. */
struct pace {
        struct pace_plan plan;
        uint64_t since;     /* when the last step of the replies ended */
        uint64_t ready;     /* when the last layer ended */
        uint64_t began;     /* when the present layer began; 0: none has */
        uint64_t away_usec; /* time between layers */
};

/* At @now the next layer could begin. True: first a step of the replies is due. pace_go() follows. */
bool pace_due(struct pace *p, uint64_t now);
/* The next layer begins at @now, behind a step of the replies if @replied. */
void pace_go(struct pace *p, uint64_t now, bool replied);
