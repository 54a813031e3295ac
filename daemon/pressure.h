/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How large the pool may be while memory is short: a state machine over a clock that the caller
 * gives. It knows no files, no engine and no loop (pressure-watch.c and memory.c do).
 *
 *     FULL ──event──▶ PRESSED ──PRESSURE_CALM_USEC without an event──▶ GROWING ──ceiling──▶ FULL
 *                      ▲   ▲                                             │
 *                      │   └──────────────────event──────────────────────┘
 *                    event
 *
 * Down fast: each event takes a quarter of what is in use, at most one in PRESSURE_SHRINK_USEC, so
 * that seconds are enough for a sixteenth. Up slowly: by an eighth, with
 * PRESSURE_GROW_USEC between two steps, and near the level that hurt last only one step in each
 * `patience`, which doubles when such a step is regretted, and halves when one beyond that level is
 * not.
 *
 * 1. floor <= budget <= ceiling, always.
 * 2. An event never makes the budget larger, a tick never smaller.
 * 3. Events less than PRESSURE_SHRINK_USEC after a shrink change nothing: what it freed may not
 *    have been seen yet.
 * 4. No growth within PRESSURE_CALM_USEC of an event, nor within PRESSURE_GROW_USEC of a growth.
 * 5. Above `limit`, an eighth below the use at which pressure began last, each step of growth takes
 *    `patience` of calm. So when there is room for C and no more, the budget exceeds C at most once
 *    in each patience, which soon is PRESSURE_PATIENCE_MAX: it does not oscillate.
 * 6. When pressure is over for good, the ceiling is reached again in a bounded time, as patience
 *    halves with every step.
 * 7. The ceiling (what "auto" gives now) moves only by more than an eighth, so that noise moves
 *    nothing.
 */
#include <stdbool.h>
#include <stdint.h>

/* All numbers of the policy. */
#define PRESSURE_SHRINK_USEC 1000000ull          /* between two shrinks */
#define PRESSURE_SHRINK_DIVISOR 4                /* part of what is in use */
#define PRESSURE_CALM_USEC 30000000ull           /* after the last event, before growth */
#define PRESSURE_GROW_USEC 10000000ull           /* between two growths */
#define PRESSURE_GROW_DIVISOR 8                  /* part of the budget that one adds */
#define PRESSURE_PATIENCE_MIN PRESSURE_CALM_USEC /* calm before a step above the limit */
#define PRESSURE_PATIENCE_MAX 1800000000ull
#define PRESSURE_FLOOR_DIVISOR 16        /* of the ceiling, */
#define PRESSURE_FLOOR_MOST (256u << 20) /* but no more than this */
#define PRESSURE_CEILING_DIVISOR 8       /* changes of the ceiling that are smaller do not count */

struct pressure {
        uint64_t ceiling, floor, budget;
        uint64_t hurt;     /* what was in use when the last episode began */
        uint64_t limit;    /* level up to which growth is not risky; UINT64_MAX: any */
        uint64_t patience; /* usec */
        /* When, usec; 0: never. */
        uint64_t last_event, last_shrink, last_grow;
        bool pressed; /* an episode is on: from its first event to calm */
        bool probing; /* the last growth went above the limit */
        uint64_t n_events, n_episodes;
};

void pressure_init(struct pressure *p, uint64_t ceiling);
/* Memory is short at time @now (monotonic usec, not 0), and what is in use would just fit into a
 * budget of @used; UINT64_MAX: not known. True if the budget changed. */
bool pressure_event(struct pressure *p, uint64_t now, uint64_t used);
/* What the budget could be at most is @ceiling now. True if the budget changed. */
bool pressure_set_ceiling(struct pressure *p, uint64_t ceiling);
/* Time has passed. True if the budget changed; an episode may have ended (!p->pressed). */
bool pressure_tick(struct pressure *p, uint64_t now);
/* When pressure_tick() may have something to do; UINT64_MAX: not before the next event. */
uint64_t pressure_next(const struct pressure *p);
