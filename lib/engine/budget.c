/* SPDX-License-Identifier: MIT */
/*
 * The budget: how it is divided, how it changes while running, and what "auto" means.
 *
 * Two numbers. The *most* is the largest budget that was ever asked for. It says what fits: a
 * request whose conversation fits into it is never refused for want of room. The *target* is the
 * budget that was asked for last. It says how much idle memory may stay: memory pressure lowers it,
 * and idle memory beyond it is evicted. The budget in force is the target, or what the active
 * requests may come to need if that is more.
 *
 * Division. Shares of the ledger are reserved in it and spent from ledgers of their own: what
 * requests bring along, the bookkeeping of loaded conversations, the prefix index, and the workers'
 * scratch memory. The pool of blocks has the rest. The shares are those of the most, whatever the
 * target is. Only what is spent of them is in memory, so keeping them costs nothing, and a request
 * that fitted into its share still does while memory is short.
 *
 * Change (I3):
 * 1. used <= budget holds at each moment. Only the engine thread reserves in the main ledger and
 *    only the engine thread sets its budget, so a reservation and a change of the budget never
 *    meet. The budget is lowered to what is used, never below; then the engine thread makes room
 *    and lowers it again, until it is where it should be.
 * 2. The budget of a share never shrinks. Other threads reserve in the shares, and nothing here
 *    relies on what a ledger does when its budget is lowered beside a reservation.
 * 3. The budget in force is never less than the floor: the shares, the scratch memory, and the
 *    blocks that all active requests together may come to need. So a request that was admitted does
 *    not fail for a budget that shrinks afterwards. The floor sinks as requests end, and the budget
 *    with it.
 * 4. The target yields to requests: sched.c admits one that needs more than the target has, up to
 *    the most, while the system has that much to give (residency_fits()). Where the system has
 *    not, the request waits in the queue, others go before it, and it is looked at again each
 *    second.
 * 5. Growing is at once: nothing has to happen first.
 *
 * Spare memory. The pool keeps freed blocks for the next ones (seq/pool.c), because fresh memory is
 * expensive: an eighth of the budget at most. In a budget of a few GiB that is some conversations
 * of usual length, so what an eviction frees is what the restore that it made room for takes.
 * Nobody has less:
 * 6. A block takes spares first, so nothing is evicted for a block while there are any. A budget
 *    that shrinks gives them back before it looks for anything else. (A share grows only with the
 *    budget, by less than that does.)
 * 7. While the budget shrinks, and while memory is said to be short (engine_set_spare()), none are
 *    kept.
 * 8. When no block was taken or freed for SPARE_USEC they are given back, a part in each turn of
 *    the engine thread, so that a request that comes meanwhile waits for a part at most.
 *
 * Auto: three quarters of
 *
 *      min(MemAvailable, for each cgroup from ours up: limit - (current - file cache))
 *              + what the pool holds now - the size of the weights
 *
 * and at least 64 MiB, or half of what there is if that is less: a group of 48 MiB must not be
 * filled with 64. base/machine.h reads these figures, of cgroups of version 1 and 2. Pages of the
 * page cache count as available in both terms; the weights lie there when they are resident, and
 * want to stay, therefore they are subtracted whole, resident or not. What the pool holds is added,
 * because it is missing from the first term and at our disposal. So the result does not depend on
 * how much of the budget or of the weights is in memory just now. The same figure is what the
 * system has to give in rule 4.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "engine/internal.h"

#define LEAST_AUTO ((uint64_t)64 << 20)
#define MIN_SHARE ((size_t)256 << 10)
#define MAX_SHARE ((size_t)256 << 20)
#define MIN_INDEX ((size_t)16 << 10)
#define INDEX_PER_BLOCK 512 /* bytes: an entry in the user's scope, and perhaps a public one */
#define MIN_BLOCKS 4
#define SPARE_DIVISOR 8
#define SPARE_USEC (10 * 1000000ull)
#define SPARE_STEP ((size_t)32 << 20)
#define GIVE_USEC 250000ull /* between two looks at what the system has to give */

/* --- auto --- */

/* Of what the machine has for us, with what the pool @held already. 0: nothing is known. */
static uint64_t auto_of(const struct machine_memory *m, uint64_t weights_size, uint64_t held) {
        uint64_t left = machine_memory_left(m), n, least;

        if (m->available == 0 && m->group_available == UINT64_MAX)
                return 0;
        left = left < UINT64_MAX - held ? left + held : UINT64_MAX;
        n = left > weights_size ? (left - weights_size) / 4 * 3 : 0;
        least = MIN(LEAST_AUTO, left / 2);
        return MAX(n, least);
}

uint64_t budget_auto(const char *root, uint64_t weights_size, uint64_t held) {
        struct machine_memory m;

        machine_memory(root, &m);
        return m.available == 0 && m.limit == UINT64_MAX ? LEAST_AUTO
                                                         : auto_of(&m, weights_size, held);
}

/* --- division --- */

struct shares {
        size_t req, meta, index;
};

static struct shares shares_of(const struct engine *engine, uint64_t budget) {
        size_t n = (size_t)MIN(MAX(budget / 16, (uint64_t)MIN_SHARE), (uint64_t)MAX_SHARE);
        uint64_t index = MIN(budget / engine->slot_size * INDEX_PER_BLOCK, budget / 16);

        /* An export or import has a block in memory beside the pool's. */
        return (struct shares){
                MAX(n, MIN_SHARE + engine->slot_size), n, (size_t)MAX(index, (uint64_t)MIN_INDEX)};
}

size_t budget_reserved(struct engine *engine) {
        return ledger_budget(&engine->req_ledger) + ledger_budget(&engine->meta_ledger) +
               ledger_budget(&engine->index_ledger) + engine->scratch_size;
}

static size_t capacity(struct engine *engine, size_t budget) {
        size_t reserved = budget_reserved(engine);

        return budget > reserved ? (budget - reserved) / engine->slot_size : 0;
}

/* --- what requests may have --- */

/* A request alone always fits into the least. */
static size_t request_blocks(struct engine *engine, size_t budget) {
        return MAX(capacity(engine, budget), (size_t)MIN_BLOCKS);
}

size_t residency_capacity(struct engine *engine) {
        return request_blocks(engine, engine->budget_want);
}

size_t residency_capacity_most(struct engine *engine) {
        return request_blocks(engine, engine->budget_most);
}

/* Bytes in memory of what the ledger has reserved: of the shares only what is spent of them. Read
 * one after the other, so from another thread it is an estimate. */
static uint64_t held(struct engine *engine) {
        size_t used = ledger_used(&engine->ledger), reserved = budget_reserved(engine);

        used = used > reserved ? used - reserved : 0;
        return (uint64_t)used + ledger_used(&engine->req_ledger) +
               ledger_used(&engine->meta_ledger) + ledger_used(&engine->index_ledger);
}

/* The budget that the system has memory for, as it was a moment ago at most. */
static size_t system_gives(struct engine *engine) {
        uint64_t now = clock_monotonic_usec(), n;
        struct machine_memory m;

        if (engine->t_give != 0 && now - engine->t_give < GIVE_USEC)
                return engine->give;
        machine_memory(engine->machine_root, &m);
        n = auto_of(&m, engine->info.weights_size, held(engine));
        engine->t_give = now;
        engine->give = n > 0 ? (size_t)MIN(n, (uint64_t)SIZE_MAX) : SIZE_MAX;
        return engine->give;
}

bool residency_fits(struct engine *engine, size_t n_blocks) {
        return n_blocks <= residency_capacity(engine) ||
               (n_blocks <= residency_capacity_most(engine) &&
                       n_blocks <= request_blocks(engine, system_gives(engine)));
}

static uint64_t needed(const struct engine *engine, struct shares s, size_t n_blocks) {
        return (uint64_t)s.req + s.meta + s.index + engine->scratch_size +
               n_blocks * engine->slot_size;
}

uint64_t budget_of_blocks(const struct engine *engine, size_t n_blocks) {
        uint64_t budget = 0, more = needed(engine, shares_of(engine, 0), n_blocks);

        /* The shares grow with the budget, by less than a half of it: this ends. */
        while (more > budget) {
                budget = more;
                more = needed(engine, shares_of(engine, budget), n_blocks);
        }
        return budget;
}

/* Let a share have @n bytes of the main ledger, if that is more than it has (invariant 2). */
static void grow_share(struct engine *engine, struct ledger *share, size_t n) {
        size_t old = ledger_budget(share);

        if (n > old && ledger_reserve(&engine->ledger, n - old) == 0)
                ledger_set_budget(share, n);
}

static void grow_shares(struct engine *engine, struct shares s) {
        grow_share(engine, &engine->req_ledger, s.req);
        grow_share(engine, &engine->meta_ledger, s.meta);
        grow_share(engine, &engine->index_ledger, s.index);
}

enum err_code budget_code(struct engine *engine, struct ledger *share, size_t n) {
        size_t most = share == &engine->ledger ? engine->budget_most : ledger_budget(share);

        return n > most ? ERR_TOO_LARGE : ERR_LIMIT;
}

static int too_small(struct engine *engine, struct err *e) {
        return err_set(e, ERR_LIMIT,
                "a pool of %zu bytes is too small: this model needs at least %llu",
                ledger_budget(&engine->ledger),
                (unsigned long long)budget_of_blocks(engine, MIN_BLOCKS));
}

int budget_open(struct engine *engine, struct err *e) {
        uint64_t budget = engine->o.pool_size ? engine->o.pool_size
                                              : budget_auto(NULL, engine->info.weights_size, 0);

        budget = MIN(budget, (uint64_t)SIZE_MAX);
        engine->ledger = (struct ledger)LEDGER_INIT((size_t)budget);
        engine->req_ledger = engine->meta_ledger = engine->index_ledger =
                (struct ledger)LEDGER_INIT(0);
        engine->scratch_size = 0;
        atomic_store(&engine->budget_asked, budget);
        engine->budget_want = engine->budget_most = (size_t)budget;
        grow_shares(engine, shares_of(engine, budget));
        return capacity(engine, ledger_budget(&engine->ledger)) < MIN_BLOCKS ? too_small(engine, e)
                                                                             : 0;
}

int budget_set_scratch(struct engine *engine, size_t n, struct err *e) {
        int r = ledger_reserve(&engine->ledger, n);

        engine->scratch_size = n;
        if (r != 0 || capacity(engine, ledger_budget(&engine->ledger)) < MIN_BLOCKS)
                return too_small(engine, e);
        return 0;
}

/* --- change --- */

/* Invariant 3. */
static size_t floor_of(struct engine *engine) {
        return budget_reserved(engine) +
               MAX(engine->active_blocks, (size_t)MIN_BLOCKS) * engine->slot_size;
}

void budget_admitted(struct engine *engine) {
        size_t least = floor_of(engine);

        if (least > ledger_budget(&engine->ledger))
                ledger_set_budget(&engine->ledger, least);
}

/* Let memory go until the budget is @to. True if something has to end first. */
static bool shrink(struct engine *engine, size_t to) {
        seq_pool_set_spare(engine->pool, 0);
        while (ledger_shrink(&engine->ledger, to) > to)
                if (residency_make_room(engine) != ROOM_NOW)
                        return true;
        spill_trim(engine->spill);
        engine->count.budget_shrunk++;
        return false;
}

bool budget_step(struct engine *engine) {
        size_t to;

        engine->budget_want = (size_t)MIN(atomic_load(&engine->budget_asked), (uint64_t)SIZE_MAX);
        engine->budget_most = MAX(engine->budget_most, engine->budget_want);
        to = MAX(engine->budget_want, floor_of(engine));
        if (to > ledger_budget(&engine->ledger)) {
                ledger_set_budget(&engine->ledger, to);
                engine->again = true;
        }
        grow_shares(engine, shares_of(engine, engine->budget_most));
        to = MAX(to, floor_of(engine)); /* the shares are a part of it */
        return to < ledger_budget(&engine->ledger) ? shrink(engine, to) : false;
}

/* --- spare memory --- */

/* What no request that is active or waits for admission has in use: it can be evicted. */
static uint64_t idle_size(struct engine *engine, const struct seq_pool_stats *st) {
        struct list *const both[] = {&engine->active, &engine->queue};
        size_t busy = 0;
        struct list *it;

        for (size_t i = 0; i < ARRAY_SIZE(both); i++)
                list_for_each (it, both[i])
                        busy += seq_n_resident(list_entry(it, struct request, link)->conv->seq);
        return (uint64_t)(st->n_blocks - MIN(st->n_blocks, busy)) * engine->slot_size +
               st->spare_size;
}

uint64_t budget_spare(struct engine *engine) {
        bool keep = !engine->shrinking && !atomic_load(&engine->spare_refused);
        struct seq_pool_stats st;
        uint64_t moves, now;

        seq_pool_set_spare(engine->pool, keep ? ledger_budget(&engine->ledger) / SPARE_DIVISOR : 0);
        seq_pool_stats(engine->pool, &st);
        atomic_store(&engine->idle_size, idle_size(engine, &st));
        if (st.spare_size == 0)
                return UINT64_MAX;
        now = clock_monotonic_usec();
        moves = 2 * st.n_allocated - st.n_blocks; /* taken and freed */
        if (moves != engine->pool_moves) {
                engine->pool_moves = moves;
                engine->t_pool = now;
        }
        if (now < engine->t_pool + SPARE_USEC)
                return engine->t_pool + SPARE_USEC;
        seq_pool_trim(engine->pool,
                st.spare_size - MIN(st.spare_size, MAX(SPARE_STEP, engine->slot_size)));
        return now;
}

static void wake(struct engine *engine) {
        pthread_mutex_lock(&engine->lock);
        engine->signalled = true;
        pthread_cond_signal(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
}

void engine_set_spare(struct engine *engine, bool keep) {
        atomic_store(&engine->spare_refused, !keep);
        wake(engine);
}

void engine_set_pool_size(struct engine *engine, uint64_t bytes) {
        atomic_store(&engine->budget_asked, bytes);
        wake(engine);
}

uint64_t engine_pool_size(struct engine *engine) {
        return ledger_budget(&engine->ledger);
}

void engine_pool_use(struct engine *engine, struct engine_pool_use *ret) {
        *ret = (struct engine_pool_use){.budget = ledger_budget(&engine->ledger),
                .used = ledger_used(&engine->ledger),
                .idle = atomic_load(&engine->idle_size),
                .weights = engine->info.weights_size};
}

uint64_t engine_pool_auto(struct engine *engine) {
        return budget_auto(engine->machine_root, engine->info.weights_size, held(engine));
}
