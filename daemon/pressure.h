/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Decides how much idle memory may stay while memory is short: a state machine driven by the
 * caller's clock. It knows no files, no engine and no loop (pressure-watch.c and memory.c do).
 *
 *            pressure, and idle memory to let go               `patience` of calm
 *     FULL ─────────────────────────────────────▶ PRESSED ─────────────────────────▶ GROWING
 *      ▲                                           │    ▲                             │   │
 *      │                     still pressure after  │    │          pressure           │   │
 *      │                     a step: another step  └────┘◀────────────────────────────┘   │
 *      └────────────────────────────── the ceiling is reached ────────────────────────────┘
 *
 * The budget here is the engine's target: idle memory beyond it is freed. It refuses no request:
 * the engine lets requests exceed it while the system has memory left (lib/engine/budget/budget.c).
 *
 * 1. budget <= ceiling, always.
 * 2. A step down takes an eighth of the idle memory, or PRESSURE_STEP_LEAST if that is more. The
 *    budget never sinks below the memory in use that is not idle. If nothing is idle, the budget
 *    does not change.
 * 3. There is at least PRESSURE_STEP_USEC between two steps, so that the next step is taken only if
 *    pressure continues after the last one. When pressure stops, so do the steps.
 * 4. The budget grows after `patience` without pressure: by an eighth of the ceiling, once in each
 *    PRESSURE_GROW_USEC, while memory is not short. So it is back at the ceiling
 *    PRESSURE_CALM_USEC + 8 * PRESSURE_GROW_USEC after pressure ended, wherever it was.
 * 5. `patience` is PRESSURE_CALM_USEC at first. It doubles, to PRESSURE_PATIENCE_MOST at most, each
 *    time that pressure begins within PRESSURE_REGRET_USEC of a growth, and is PRESSURE_CALM_USEC
 *    again when pressure begins later than that. So a budget that is too large for the system is
 *    tried once in each PRESSURE_PATIENCE_MOST, and costs an eighth of the idle memory each time.
 * 6. The ceiling (the current value of "auto") moves only by more than an eighth, so that noise
 *    does not move it.
 */
#include <stdbool.h>
#include <stdint.h>

/* All numbers of the policy. */
#define PRESSURE_STEP_USEC 1000000ull  /* between two steps down */
#define PRESSURE_STEP_DIVISOR 8        /* part of the idle memory that a step takes, */
#define PRESSURE_STEP_LEAST (1u << 20) /* at least this many bytes */
#define PRESSURE_CALM_USEC 3000000ull  /* without pressure, before the first growth */
#define PRESSURE_GROW_USEC 1000000ull  /* between two growths */
#define PRESSURE_GROW_DIVISOR 8        /* part of the ceiling that a growth adds */
#define PRESSURE_REGRET_USEC 10000000ull
#define PRESSURE_PATIENCE_MOST 60000000ull
#define PRESSURE_CEILING_DIVISOR 8 /* smaller changes of the ceiling do not count */

struct pressure {
        uint64_t ceiling, budget; /* bytes */
        uint64_t patience;        /* usec */
        /* When, usec; 0: never. */
        uint64_t last_event, last_shrink, last_grow;
        uint64_t last_try; /* to grow, whether memory was scarce then or not */
        bool pressed;      /* in an episode: from its first event to `patience` of calm */
        uint64_t n_events, n_episodes;
};

void pressure_init(struct pressure *p, uint64_t ceiling);
/* There is pressure at time @now (monotonic usec, not 0). @used bytes of the budget in force are
 * used, @idle of these for idle memory. True if the budget changed. */
bool pressure_event(struct pressure *p, uint64_t now, uint64_t used, uint64_t idle);
/* Whether pressure at time @now could cause a step. */
bool pressure_may_step(const struct pressure *p, uint64_t now);
/* The budget may be at most @ceiling from now on. True if the budget changed. */
bool pressure_set_ceiling(struct pressure *p, uint64_t ceiling);
/* Time has passed. @scarce: memory is short, so the budget must not grow. True if the budget
 * changed; an episode may have ended (!p->pressed). */
bool pressure_tick(struct pressure *p, uint64_t now, bool scarce);
/* When pressure_tick() may have something to do; UINT64_MAX: not before the next event. */
uint64_t pressure_next(const struct pressure *p);
