/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How often things happened lately: counts in a ring of slots of five seconds, which goes back five minutes.
 *
 * 1. A slot begins at a multiple of RATES_SLOT_USEC of the caller's clock (clock_monotonic_usec()), which never goes back.
 * 2. A rate over a window of W seconds is of the present slot, as far as it has come, and the W seconds before it. So it is
 *    of W to W + 5 seconds, changes smoothly, and is right at any moment. Where counting began later than that, it is of the
 *    time since then, and of one second at least.
 * 3. A count of one slot ends at UINT32_MAX.
 *
 * One owner; not shared between threads.
 */
#include <stddef.h>
#include <stdint.h>

#define RATES_SLOT_USEC 5000000u
#define RATES_N_SLOTS 61 /* the present one, and those of five minutes */

enum rate { RATE_PREFILLED, RATE_DECODED, RATE_REQUESTS, RATE_N };

/* The windows, in seconds, rising. */
#define RATES_N_WINDOWS 3
extern const uint32_t rates_windows[RATES_N_WINDOWS];

struct rate_ring {
        uint64_t began_usec;
        uint64_t slot; /* the number of the present slot: time / RATES_SLOT_USEC */
        uint32_t n[RATES_N_SLOTS][RATE_N]; /* slot k at k % RATES_N_SLOTS */
};

void rates_begin(struct rate_ring *r, uint64_t now_usec);
void rates_add(struct rate_ring *r, enum rate rate, uint32_t n, uint64_t now_usec);
/* What happened per second, over the last @window seconds: a multiple of 5, at most 300. */
double rates_get(struct rate_ring *r, enum rate rate, uint32_t window, uint64_t now_usec);
