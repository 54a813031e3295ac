/* SPDX-License-Identifier: MIT */
/* Marking requests that end: sched.c closes them after the step. */
#include "engine/run/state.h"

void generate_end(struct request *request, enum engine_finish finish) {
        struct generation *g = generation_of(request);

        g->end = ENDED;
        g->finish = finish;
}

void generate_fail(struct request *request, const struct err *e) {
        struct generation *g = generation_of(request);

        g->end = FAILED;
        g->why = *e;
}

void generate_cancel(struct request *request, const struct err *e) {
        const struct generation *g = generation_of(request);

        if (g->n_generated > 0 || g->storing == STORING || g->storing == STORED)
                generate_end(request, ENGINE_FINISH_CANCELLED);
        else
                generate_fail(request, e);
}
