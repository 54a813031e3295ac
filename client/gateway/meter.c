/* SPDX-License-Identifier: MIT */
#include "client/gateway/meter.h"
#include "base/clock.h"

const double meter_bounds[METER_N_BOUNDS] = {
        0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

static void see_first(struct meter *meter, struct meter_watch *watch) {
        uint64_t usec = clock_monotonic_usec() - watch->since_usec;
        unsigned i = 0;

        while (i < METER_N_BOUNDS && (double)usec > meter_bounds[i] * 1e6)
                i++;
        meter->n_first[i]++;
        meter->first_usec += usec;
        watch->has_first = true;
}

static void see_done(struct meter *meter, const struct confab_done *done) {
        /* Somebody only wanted to know how long the prompt is. */
        if (done->finish == CONFAB_FINISH_CANCELLED && done->n_generated == 0)
                return;
        meter->n_replies++;
        meter->n_prompt += done->n_prompt;
        meter->n_cached +=
                done->n_prompt > done->n_computed ? done->n_prompt - done->n_computed : 0;
        meter->n_generated += done->n_generated;
}

void meter_see(struct meter *meter, struct meter_watch *watch, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_DELTA && event->delta->n_tokens > 0 && !watch->has_first)
                see_first(meter, watch);
        else if (event->kind == CONFAB_EVENT_DONE)
                see_done(meter, event->done);
}
