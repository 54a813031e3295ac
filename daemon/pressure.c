/* SPDX-License-Identifier: MIT */
#include "daemon/pressure.h"
#include "base/util.h"

void pressure_init(struct pressure *p, uint64_t ceiling) {
        *p = (struct pressure){
                .ceiling = ceiling, .budget = ceiling, .patience = PRESSURE_CALM_USEC};
}

bool pressure_may_step(const struct pressure *p, uint64_t now) {
        return p->last_shrink == 0 || now - p->last_shrink >= PRESSURE_STEP_USEC;
}

bool pressure_event(struct pressure *p, uint64_t now, uint64_t used, uint64_t idle) {
        uint64_t step, budget;

        p->n_events++;
        if (!p->pressed) {
                bool regret = p->last_grow && now - p->last_grow <= PRESSURE_REGRET_USEC;

                p->patience =
                        regret ? MIN(2 * p->patience, PRESSURE_PATIENCE_MOST) : PRESSURE_CALM_USEC;
                p->pressed = true;
                p->n_episodes++;
        }
        p->last_event = now;
        if (!pressure_may_step(p, now))
                return false;
        idle = MIN(idle, used);
        step = MIN(idle, MAX(idle / PRESSURE_STEP_DIVISOR, (uint64_t)PRESSURE_STEP_LEAST));
        budget = used - step;
        if (step == 0 || budget >= p->budget)
                return false;
        p->last_shrink = now;
        p->budget = budget;
        return true;
}

bool pressure_set_ceiling(struct pressure *p, uint64_t ceiling) {
        uint64_t band = p->ceiling / PRESSURE_CEILING_DIVISOR;
        uint64_t before = p->budget;

        if (ceiling >= p->ceiling - band && ceiling <= p->ceiling + band)
                return false;
        p->ceiling = ceiling;
        p->budget = MIN(p->budget, p->ceiling);
        return p->budget != before;
}

static uint64_t grow_at(const struct pressure *p) {
        uint64_t calm = p->last_event ? p->last_event + p->patience : 0;

        return MAX(calm, p->last_try ? p->last_try + PRESSURE_GROW_USEC : 0);
}

bool pressure_tick(struct pressure *p, uint64_t now, bool scarce) {
        uint64_t step = MAX(p->ceiling / PRESSURE_GROW_DIVISOR, (uint64_t)1);

        if (p->pressed && now - p->last_event >= p->patience)
                p->pressed = false;
        if (p->pressed || p->budget >= p->ceiling || now < grow_at(p))
                return false;
        p->last_try = now;
        if (scarce)
                return false;
        p->last_grow = now;
        p->budget += MIN(step, p->ceiling - p->budget);
        return true;
}

uint64_t pressure_next(const struct pressure *p) {
        if (p->pressed)
                return p->last_event + p->patience;
        return p->budget < p->ceiling ? MAX(grow_at(p), (uint64_t)1) : UINT64_MAX;
}
