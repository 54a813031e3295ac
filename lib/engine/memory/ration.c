/* SPDX-License-Identifier: MIT */
/*
 * How much RAM an owner's idle memory may have (QUOTA_RAM, a part of the budget in force).
 *
 * 1. It refuses and delays nothing. A request has all memory that it needs, as if there were no such limit.
 * 2. When a conversation becomes idle whose owner is limited, or limits change, idle conversations of the owner are
 *    evicted until the owner has no more than its share: least recently used first, pinned ones last. What requests
 *    are using counts, and stays.
 * 3. A block that several conversations hold counts in parts, so forks are not counted twice.
 * 4. Evicting is what it always is (evict.c): blocks that are not on disk are written first. Until that is over nothing
 *    more is evicted, or too much would go. Each end of a job wakes the engine thread, which then looks again.
 */
#include "engine/memory/state.h"

/* Bytes of the owner's conversations. */
static uint64_t owner_size(struct engine *engine, uint64_t owner) {
        uint64_t size = 0;
        struct conv *c;
        size_t it = 0;

        while ((c = convs_next(engine, &it)))
                if (c->owner == owner)
                        size += seq_resident_part(c->seq);
        return size;
}

uint64_t ration_used(struct engine *engine, uint64_t owner) {
        uint64_t all = budget_capacity(engine->budget), size = owner_size(engine, owner);

        return all > 0 ? (size * 100 + all - 1) / all : 0;
}

/* The owner's least recently used idle conversation that can be evicted now. */
static struct conv *find_idle(struct engine *engine, uint64_t owner, bool pinned) {
        struct conv *c = NULL;

        while ((c = convs_next_idle(engine, c)))
                if (c->owner == owner && c->pinned == pinned && seq_n_resident(c->seq) > 0)
                        return c;
        return NULL;
}

static void done(struct engine *engine, uint64_t owner) {
        struct conv *c;
        size_t it = 0;

        while ((c = convs_next(engine, &it)))
                if (c->owner == owner)
                        c->is_over = false;
}

/* False: to be looked at again. */
static bool hold_owner(struct engine *engine, uint64_t owner, uint32_t share) {
        uint64_t most = budget_capacity(engine->budget) / QUOTA_RAM_ALL * share;

        for (;;) {
                struct conv *c;

                if (engine->memory->n_evictions > 0)
                        return false;
                if (owner_size(engine, owner) <= most)
                        return true;
                c = find_idle(engine, owner, false);
                if (!c)
                        c = find_idle(engine, owner, true);
                if (!c)
                        return true; /* requests have the rest; their end comes here again */
                if (!evict_idle(engine, c))
                        return false;
        }
}

void ration_step(struct engine *engine) {
        struct conv *c;
        size_t it = 0;

        if (!convs_take_over(engine))
                return;
        while ((c = convs_next(engine, &it))) {
                uint64_t owner = c->owner;

                if (!c->is_over)
                        continue;
                if (hold_owner(engine, owner, c->ram_share))
                        done(engine, owner);
                else
                        convs_set_over(engine);
        }
}
