/* SPDX-License-Identifier: MIT */
/*
 * Carrying out a change of the budget while memory is in use, by the rules of budget/budget.c
 * (invariants 1 to 5); and the spare memory.
 *
 * The pool keeps freed blocks for reuse (seq/pool.c), because fresh memory is expensive: at most an
 * eighth of the budget. In a budget of a few GiB that is a few conversations of usual length, so a
 * restore takes the blocks that the eviction before it has freed. Nothing else gets less memory
 * because of the spares:
 *
 * 1. A new block takes a spare first, so nothing is evicted while there are spares. A budget that
 *    shrinks gives the spares back before anything else. (A share grows only with the budget, by
 *    less than the budget does.)
 * 2. No spares are kept while the budget shrinks, nor while the caller says that memory is short
 *    (engine_set_spare()).
 * 3. When no block was taken or freed for SPARE_USEC, the spares are given back in parts, one in
 *    each turn of the engine thread. So a request that comes meanwhile waits for at most one part.
 */
#include "base/clock.h"
#include "engine/memory/state.h"

#define SPARE_DIVISOR 8
#define SPARE_USEC (10 * 1000000ull)
#define SPARE_STEP ((size_t)32 << 20)

/* Free memory until the budget is @to. True if something else has to end first. */
static bool shrink(struct engine *engine, size_t to) {
        struct budget *b = engine->budget;

        seq_pool_set_spare(engine->pool, 0);
        while (ledger_shrink(&b->ledger, to) > to)
                if (memory_make_room(engine) != ROOM_NOW)
                        return true;
        spill_trim(engine->spill);
        engine->count.budget_shrunk++;
        return false;
}

bool grow_step(struct engine *engine) {
        struct budget *b = engine->budget;
        size_t to;

        b->want = (size_t)MIN(atomic_load(&b->asked), (uint64_t)SIZE_MAX);
        b->most = MAX(b->most, b->want);
        to = MAX(b->want, budget_floor(b));
        if (to > ledger_budget(&b->ledger)) {
                ledger_set_budget(&b->ledger, to);
                engine->again = true;
        }
        budget_grow_shares(b, b->most);
        to = MAX(to, budget_floor(b)); /* the floor includes the shares */
        engine->memory->shrinking = to < ledger_budget(&b->ledger) && shrink(engine, to);
        return engine->memory->shrinking;
}

/* --- spare memory --- */

uint64_t grow_spare(struct engine *engine, size_t busy_size) {
        struct memory *m = engine->memory;
        struct budget *b = engine->budget;
        bool keep = !m->shrinking && !atomic_load(&b->spare_refused);
        struct seq_pool_stats st;
        uint64_t moves, now;

        seq_pool_set_spare(engine->pool, keep ? ledger_budget(&b->ledger) / SPARE_DIVISOR : 0);
        seq_pool_stats(engine->pool, &st);
        atomic_store(&b->idle_size,
                (uint64_t)(st.live_size - MIN(st.live_size, busy_size)) + st.spare_size);
        if (st.spare_size == 0)
                return UINT64_MAX;
        now = clock_monotonic_usec();
        moves = st.n_allocated + st.n_freed;
        if (moves != m->pool_moves) {
                m->pool_moves = moves;
                m->t_pool = now;
        }
        if (now < m->t_pool + SPARE_USEC)
                return m->t_pool + SPARE_USEC;
        seq_pool_trim(
                engine->pool, st.spare_size - MIN(st.spare_size, MAX(SPARE_STEP, b->block_size)));
        return now;
}

/* --- called by other threads --- */

void engine_set_spare(struct engine *engine, bool keep) {
        atomic_store(&engine->budget->spare_refused, !keep);
        bell_ring(engine->bell);
}

void engine_set_pool_size(struct engine *engine, uint64_t bytes) {
        atomic_store(&engine->budget->asked, bytes);
        bell_ring(engine->bell);
}

uint64_t engine_pool_size(struct engine *engine) {
        return ledger_budget(&engine->budget->ledger);
}

void engine_pool_use(struct engine *engine, struct engine_pool_use *ret) {
        struct budget *b = engine->budget;

        *ret = (struct engine_pool_use){.budget = ledger_budget(&b->ledger),
                .used = ledger_used(&b->ledger),
                .idle = atomic_load(&b->idle_size),
                .weights = b->weights_size};
}

uint64_t engine_pool_auto(struct engine *engine) {
        struct budget *b = engine->budget;

        return budget_auto(b->machine_root, b->weights_size, budget_held(b));
}
