/* SPDX-License-Identifier: MIT */
/*
 * The budget: how it is divided, what bounds its changes, and what "auto" means. memory/grow.c
 * changes it.
 *
 * Two numbers. The *most* is the largest budget that was ever asked for. It decides what fits: a
 * request whose conversation fits into the most is never refused for lack of room. The *target* is
 * the budget that was asked for last. It decides how much idle memory may stay: memory pressure
 * lowers the target, and idle memory beyond it is evicted. The budget in force is the target, or
 * what the active requests may come to need if that is more.
 *
 * Division. Shares of the ledger are reserved in it and spent from ledgers of their own. There is a
 * share for what requests bring along, for the bookkeeping of loaded conversations, for the prefix
 * index, and for the workers' scratch memory. The pool of blocks has the rest. The size of the
 * shares follows from the most, whatever the target is. Only the spent part of a share is in
 * memory, so keeping the shares costs nothing, and a request that fitted into its share still fits
 * while memory is short.
 *
 * Change (I3):
 * 1. used <= budget holds at each moment. Only the engine thread reserves in the main ledger and
 *    only the engine thread sets its budget, so a reservation and a change of the budget never
 *    meet. The budget is lowered to what is used, never below; then the engine thread makes room
 *    and lowers it again, until it reaches its goal.
 * 2. The budget of a share never shrinks. Other threads reserve in the shares, and nothing here
 *    relies on what a ledger does when its budget is lowered during a reservation.
 * 3. The budget in force is never less than the floor: the shares, the scratch memory, and the
 *    memory that all active requests together may come to need. So an admitted request does not
 *    fail because the budget shrinks afterwards. The floor sinks as requests end, and the budget
 *    with it.
 * 4. The target yields to requests: sched.c admits a request that needs more than the target has,
 *    up to the most, while the system has that much to give (budget_fits()). If the system has not,
 *    the request waits in the queue, others go before it, and the engine thread looks again each
 *    second.
 * 5. Growing takes effect at once: nothing has to happen first.
 *
 * Auto: three quarters of
 *
 *      min(MemAvailable, for each cgroup from ours up: limit - (current - file cache))
 *        + what the pool holds now - the size of the weights
 *
 * and at least 64 MiB, or half of the memory there is if that is less: a group of 48 MiB must not
 * be filled with 64. base/machine.h reads these figures, of cgroups of version 1 and 2. Pages of
 * the page cache count as available in both terms. Weights in the file's map lie in the page cache and
 * should stay there; therefore they are subtracted whole, resident or not. Those that were repacked are the process's
 * own memory, missing from the first term already, and are not subtracted. The pool's memory is
 * added, because it is missing from the first term and at our disposal. So the result does not
 * depend on how much of the budget or of the weights is in memory just now. Rule 4 uses the same
 * figure for what the system has to give.
 */
#include "engine/budget/budget.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/util.h"

#define LEAST_AUTO ((uint64_t)64 << 20)
#define MIN_SHARE ((size_t)256 << 10)
#define MAX_SHARE ((size_t)256 << 20)
#define MIN_INDEX ((size_t)16 << 10)
#define INDEX_PER_BLOCK 512 /* bytes: an entry in the user's scope, and perhaps a public one */
#define INDEX_OF_STATES 128 /* the part of the budget, if the model has no blocks of attention */
#define GIVE_USEC 250000ull /* between two looks at the system's memory */

/* --- auto --- */

/* "Auto" for machine @m, while the pool holds @held bytes. 0: nothing is known. */
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

static struct shares shares_of(struct budget *b, uint64_t budget) {
        size_t n = (size_t)MIN(MAX(budget / 16, (uint64_t)MIN_SHARE), (uint64_t)MAX_SHARE);
        uint64_t index = MIN(budget / b->block_size * INDEX_PER_BLOCK, budget / 16);

        if (b->only_states)
                index = budget / INDEX_OF_STATES;
        /* An export or import has one block in memory in addition to the pool's. */
        return (struct shares){
                MAX(n, MIN_SHARE + b->piece_size), n, (size_t)MAX(index, (uint64_t)MIN_INDEX)};
}

size_t budget_reserved(struct budget *b) {
        return ledger_budget(&b->requests) + ledger_budget(&b->conversations) +
               ledger_budget(&b->index) + b->scratch_size;
}

static size_t capacity(struct budget *b, size_t budget) {
        size_t reserved = budget_reserved(b);

        return budget > reserved ? budget - reserved : 0;
}

/* --- what requests may have --- */

/* A single request always fits into the least capacity. */
static size_t request_room(struct budget *b, size_t budget) {
        return MAX(capacity(b, budget), b->least_size);
}

size_t budget_capacity(struct budget *b) {
        return request_room(b, b->want);
}

size_t budget_capacity_most(struct budget *b) {
        return request_room(b, b->most);
}

/* Bytes of the ledger that are really in memory: of the shares only the spent part. The ledgers are
 * read one after the other, so on another thread the sum is an estimate. */
uint64_t budget_held(struct budget *b) {
        size_t used = ledger_used(&b->ledger), reserved = budget_reserved(b);

        used = used > reserved ? used - reserved : 0;
        return (uint64_t)used + ledger_used(&b->requests) + ledger_used(&b->conversations) +
               ledger_used(&b->index);
}

/* The budget that the system has memory for, at most GIVE_USEC old. */
static size_t system_gives(struct budget *b) {
        uint64_t now = clock_monotonic_usec(), n;
        struct machine_memory m;

        if (b->t_give != 0 && now - b->t_give < GIVE_USEC)
                return b->give;
        machine_memory(b->machine_root, &m);
        n = auto_of(&m, b->weights_size, budget_held(b));
        b->t_give = now;
        b->give = n > 0 ? (size_t)MIN(n, (uint64_t)SIZE_MAX) : SIZE_MAX;
        return b->give;
}

bool budget_fits(struct budget *b, size_t size) {
        return size <= budget_capacity(b) ||
               (size <= budget_capacity_most(b) && size <= request_room(b, system_gives(b)));
}

static uint64_t needed(struct budget *b, struct shares s, size_t size) {
        return (uint64_t)s.req + s.meta + s.index + b->scratch_size + size;
}

uint64_t budget_of_pool(struct budget *b, size_t size) {
        uint64_t budget = 0, more = needed(b, shares_of(b, 0), size);

        /* This ends: the shares grow with the budget, by less than half of it. */
        while (more > budget) {
                budget = more;
                more = needed(b, shares_of(b, budget), size);
        }
        return budget;
}

/* Raise a share to @n bytes of the main ledger, if that is more than it has (invariant 2). */
static void grow_share(struct budget *b, struct ledger *share, size_t n) {
        size_t old = ledger_budget(share);

        if (n > old && ledger_reserve(&b->ledger, n - old) == 0)
                ledger_set_budget(share, n);
}

void budget_grow_shares(struct budget *b, size_t size) {
        struct shares s = shares_of(b, size);

        grow_share(b, &b->requests, s.req);
        grow_share(b, &b->conversations, s.meta);
        grow_share(b, &b->index, s.index);
}

enum err_code budget_code(struct budget *b, struct ledger *share, size_t n) {
        size_t most = share == &b->ledger ? b->most : ledger_budget(share);

        return n > most ? ERR_TOO_LARGE : ERR_LIMIT;
}

static int too_small(struct budget *b, struct err *e) {
        return err_set(e, ERR_LIMIT,
                "a pool of %zu bytes is too small: this model needs at least %llu",
                ledger_budget(&b->ledger), (unsigned long long)budget_of_pool(b, b->least_size));
}

int budget_open(struct budget *b, uint64_t size, uint64_t weights_size, struct err *e) {
        uint64_t budget = size ? size : budget_auto(NULL, weights_size, 0);

        budget = MIN(budget, (uint64_t)SIZE_MAX);
        b->ledger = (struct ledger)LEDGER_INIT((size_t)budget);
        b->requests = b->conversations = b->index = (struct ledger)LEDGER_INIT(0);
        b->scratch_size = 0;
        b->weights_size = weights_size;
        atomic_store(&b->asked, budget);
        b->want = b->most = (size_t)budget;
        budget_grow_shares(b, (size_t)budget);
        return capacity(b, ledger_budget(&b->ledger)) < b->least_size ? too_small(b, e) : 0;
}

int budget_set_scratch(struct budget *b, size_t n, struct err *e) {
        int r = ledger_reserve(&b->ledger, n);

        b->scratch_size = n;
        if (r != 0 || capacity(b, ledger_budget(&b->ledger)) < b->least_size)
                return too_small(b, e);
        return 0;
}

struct budget *budget_new(void) {
        return calloc(1, sizeof(struct budget));
}

/* Invariant 3. */
size_t budget_floor(struct budget *b) {
        return budget_reserved(b) + MAX(b->needed, b->least_size);
}

void budget_need(struct budget *b, size_t size) {
        size_t least;

        b->needed = size;
        least = budget_floor(b);
        if (least > ledger_budget(&b->ledger))
                ledger_set_budget(&b->ledger, least);
}
