/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What replies cost, for /metrics: counted on the lines to a daemon, where all Continues pass, whatever dialect asked for them.
 * Pure.
 *
 * The time to the first token begins when a line is taken for a request, so finding and forking count, and ends with
 * the first token that the daemon tells. Of several replies to one request only the first one is timed.
 */
#include "client/confab.h"

#define METER_N_BOUNDS 14

/* Of one daemon, since the gateway began. */
struct meter {
        uint64_t n_replies;
        uint64_t n_prompt, n_cached, n_generated; /* tokens; n_cached: of n_prompt, not computed */
        uint64_t
                n_first[METER_N_BOUNDS + 1]; /* times up to each bound, and not to the one before */
        uint64_t first_usec;                 /* all of them together */
};
/* Seconds, rising. */
extern const double meter_bounds[METER_N_BOUNDS];

/* Of a line: all 0 but @since_usec when it is taken. */
struct meter_watch {
        uint64_t since_usec; /* monotonic */
        bool has_first;
};

/* An event of a Continue. */
void meter_see(struct meter *meter, struct meter_watch *watch, const struct confab_event *event);
