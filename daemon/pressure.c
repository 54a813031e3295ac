/* SPDX-License-Identifier: MIT */
#include "daemon/pressure.h"
#include "base/util.h"

static void set_ceiling(struct pressure *p, uint64_t ceiling) {
        p->ceiling = ceiling;
        p->floor = MIN(ceiling / PRESSURE_FLOOR_DIVISOR, (uint64_t)PRESSURE_FLOOR_MOST);
}

void pressure_init(struct pressure *p, uint64_t ceiling) {
        *p = (struct pressure){
                .budget = ceiling, .limit = UINT64_MAX, .patience = PRESSURE_PATIENCE_MIN};
        set_ceiling(p, ceiling);
}

bool pressure_event(struct pressure *p, uint64_t now, uint64_t used) {
        uint64_t base = MIN(p->budget, used), budget;

        p->n_events++;
        if (!p->pressed) {
                p->pressed = true;
                p->n_episodes++;
                /* Only the first event of an episode tells which level it was that hurt. */
                if (p->probing && now - p->last_grow <= p->patience)
                        p->patience = MIN(2 * p->patience, PRESSURE_PATIENCE_MAX);
                p->probing = false;
                p->hurt = base;
                p->limit = MAX(base - base / PRESSURE_GROW_DIVISOR, p->floor);
        }
        p->last_event = now;
        if (p->last_shrink && now - p->last_shrink < PRESSURE_SHRINK_USEC)
                return false;
        budget = MAX(base - base / PRESSURE_SHRINK_DIVISOR, p->floor);
        if (budget >= p->budget)
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
        set_ceiling(p, ceiling);
        p->budget = MAX(MIN(p->budget, p->ceiling), p->floor);
        return p->budget != before;
}

/* How long it has to be calm before the next step, and since when that counts. */
static uint64_t grow_at(const struct pressure *p) {
        uint64_t last = MAX(p->last_event, p->last_grow);

        if (p->budget >= p->limit)
                return last + p->patience;
        return MAX(p->last_event + PRESSURE_CALM_USEC, p->last_grow + PRESSURE_GROW_USEC);
}

static void grow(struct pressure *p, uint64_t now) {
        uint64_t step = MAX(p->budget / PRESSURE_GROW_DIVISOR, (uint64_t)1);
        uint64_t to = MIN(p->ceiling, p->budget + step);

        if (p->budget < p->limit) {
                to = MIN(to, p->limit); /* a step of its own goes beyond */
        } else if (p->limit != UINT64_MAX) {
                /* The last one went above what hurt, and nothing came of it. */
                if (p->probing && p->budget > p->hurt)
                        p->patience = MAX(p->patience / 2, PRESSURE_PATIENCE_MIN);
                p->probing = true;
                p->limit = to;
        }
        p->budget = to;
        p->last_grow = now;
}

bool pressure_tick(struct pressure *p, uint64_t now) {
        if (p->pressed && now - p->last_event >= PRESSURE_CALM_USEC)
                p->pressed = false;
        if (p->pressed || p->budget >= p->ceiling || now < grow_at(p))
                return false;
        grow(p, now);
        return true;
}

uint64_t pressure_next(const struct pressure *p) {
        if (p->pressed)
                return p->last_event + PRESSURE_CALM_USEC;
        return p->budget < p->ceiling ? grow_at(p) : UINT64_MAX;
}
