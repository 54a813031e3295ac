/* SPDX-License-Identifier: MIT */
/*
 * The budget: how it is divided, how it changes while running, and what "auto" means.
 *
 * Division. Shares of the ledger are reserved in it and spent from ledgers of their own: what
 * requests bring along, the bookkeeping of loaded conversations, the prefix index, and the workers'
 * scratch memory. The pool of blocks has the rest.
 *
 * Change (I3):
 * 1. used <= budget holds at each moment. Only the engine thread reserves in the main ledger, so it
 *    may lower the budget to what is used, never below; then it makes room and lowers it again,
 *    until the target is reached. A share is lowered to what is used of it at least.
 * 2. The target is what was asked for, but no less than the floor: the shares as far as they are
 *    used, the scratch memory, and the blocks that all active requests together, or any one that
 *    waits, may come to need. So no request that was admitted, or told that it fits, fails for a
 *    budget that shrank afterwards. The floor sinks as requests end, and the target with it.
 * 3. Growing is at once: nothing has to happen first.
 *
 * Spare memory. The pool keeps freed blocks for the next ones (seq/pool.c), because fresh memory is
 * expensive: an eighth of the budget at most. In a budget of a few GiB that is some conversations
 * of usual length, so what an eviction frees is what the restore that it made room for takes; and
 * half of what the mildest shrink under memory pressure gives back, so the process is hardly larger
 * for it than it would be. Nobody has less:
 * 4. A block takes spares first, so nothing is evicted for a block while there are any. A budget
 *    that shrinks gives them back before it looks for anything else. (A share grows only with the
 *    budget, by less than that does.)
 * 5. While the budget shrinks, and while memory is said to be short (engine_set_spare()), none are
 *    kept.
 * 6. When no block was taken or freed for SPARE_USEC they are given back, a part in each turn of
 *    the engine thread, so that a request that comes meanwhile waits for a part at most.
 *
 * Auto: three quarters of
 *
 *      min(MemAvailable, for each cgroup from ours up: limit - (current - file cache))
 *              + what the pool holds now - the size of the weights
 *
 * and at least 64 MiB; limit is the lesser of memory.max and memory.high, file cache is active_file
 * + inactive_file of memory.stat. Pages of the page cache count as available in both terms; the
 * weights lie there when they are resident, and want to stay, therefore they are subtracted whole,
 * resident or not. What the pool holds is added, because it is missing from the first term and at
 * our disposal. So the result does not depend on how much of the budget or of the weights is in
 * memory just now. Sources: proc(5) meminfo, Linux Documentation/admin-guide/cgroup-v2.rst.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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

/* --- auto --- */

static uint64_t mem_available(const char *path) {
        _cleanup_(fclosep) FILE *f = fopen(path, "re");
        char line[256];
        unsigned long long kib;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
                        return kib < UINT64_MAX >> 10 ? (uint64_t)kib << 10 : UINT64_MAX;
        return 0;
}

static FILE *open_knob(const struct budget_paths *p, const char *dir, const char *name) {
        char path[8192];

        if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", p->cgroups, dir, name) >= sizeof(path))
                return NULL;
        return fopen(path, "re");
}

static bool read_number(
        const struct budget_paths *p, const char *dir, const char *name, uint64_t *ret) {
        _cleanup_(fclosep) FILE *f = open_knob(p, dir, name);
        unsigned long long v;

        if (!f || fscanf(f, "%llu", &v) != 1)
                return false; /* "max" is no number: no limit */
        *ret = v;
        return true;
}

static uint64_t file_cache(const struct budget_paths *p, const char *dir) {
        _cleanup_(fclosep) FILE *f = open_knob(p, dir, "memory.stat");
        char line[256];
        unsigned long long v;
        uint64_t n = 0;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "active_file %llu", &v) == 1 ||
                        sscanf(line, "inactive_file %llu", &v) == 1)
                        n += v;
        return n;
}

/* What one cgroup's limits leave; UINT64_MAX without any. */
static uint64_t level_available(const struct budget_paths *p, const char *dir) {
        uint64_t limit = UINT64_MAX, used, cache, n;

        if (read_number(p, dir, "memory.max", &n))
                limit = MIN(limit, n);
        if (read_number(p, dir, "memory.high", &n))
                limit = MIN(limit, n);
        if (limit == UINT64_MAX || !read_number(p, dir, "memory.current", &used))
                return UINT64_MAX;
        cache = file_cache(p, dir);
        used = used > cache ? used - cache : 0;
        return limit > used ? limit - used : 0;
}

/* Of this process's cgroup and those above. */
static uint64_t cgroup_available(const struct budget_paths *p) {
        _cleanup_(fclosep) FILE *f = fopen(p->self, "re");
        uint64_t least = UINT64_MAX;
        char line[4096];

        while (f && fgets(line, sizeof(line), f)) {
                char *dir = line + 3, *slash;

                if (strncmp(line, "0::", 3) != 0)
                        continue;
                dir[strcspn(dir, "\n")] = '\0';
                while ((slash = strrchr(dir, '/'))) {
                        uint64_t n = level_available(p, dir);

                        least = MIN(least, n);
                        *slash = '\0';
                }
        }
        return least;
}

uint64_t budget_auto(const struct budget_paths *p, uint64_t weights_size, uint64_t held) {
        static const struct budget_paths real = {
                "/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup"};
        uint64_t n;

        p = p ? p : &real;
        n = MIN(mem_available(p->meminfo), cgroup_available(p));
        n = n < UINT64_MAX - held ? n + held : UINT64_MAX;
        n = n > weights_size ? (n - weights_size) / 4 * 3 : 0;
        return MAX(n, LEAST_AUTO);
}

/* --- division --- */

struct shares {
        size_t req, meta, index;
};

static struct shares shares_of(const struct engine *en, uint64_t budget) {
        size_t n = (size_t)MIN(MAX(budget / 16, (uint64_t)MIN_SHARE), (uint64_t)MAX_SHARE);
        uint64_t index = MIN(budget / en->slot_size * INDEX_PER_BLOCK, budget / 16);

        /* An export or import has a block in memory beside the pool's. */
        return (struct shares){
                MAX(n, MIN_SHARE + en->slot_size), n, (size_t)MAX(index, (uint64_t)MIN_INDEX)};
}

/* Not less than what is used of them now. */
static struct shares shares_used(struct engine *en, struct shares s) {
        s.req = MAX(s.req, ledger_used(&en->req_ledger));
        s.meta = MAX(s.meta, ledger_used(&en->meta_ledger));
        s.index = MAX(s.index, ledger_used(&en->index_ledger));
        return s;
}

size_t budget_reserved(struct engine *en) {
        return ledger_budget(&en->req_ledger) + ledger_budget(&en->meta_ledger) +
               ledger_budget(&en->index_ledger) + en->scratch_size;
}

static size_t capacity(struct engine *en, size_t budget) {
        size_t reserved = budget_reserved(en);

        return budget > reserved ? (budget - reserved) / en->slot_size : 0;
}

/* While the budget sinks, nothing is admitted that would hold it up. */
size_t residency_capacity(struct engine *en) {
        size_t budget = MIN(ledger_budget(&en->ledger), en->budget_want);

        return MAX(capacity(en, budget), (size_t)MIN_BLOCKS);
}

static uint64_t needed(const struct engine *en, struct shares s, size_t n_blocks) {
        return (uint64_t)s.req + s.meta + s.index + en->scratch_size + n_blocks * en->slot_size;
}

uint64_t budget_of_blocks(const struct engine *en, size_t n_blocks) {
        uint64_t budget = 0, more = needed(en, shares_of(en, 0), n_blocks);

        /* The shares grow with the budget, by less than a half of it: this ends. */
        while (more > budget) {
                budget = more;
                more = needed(en, shares_of(en, budget), n_blocks);
        }
        return budget;
}

/* Let a share have @n bytes: taken from the main ledger, or given back to it as far as they are not
 * in use. Other threads may be spending from it: after its budget was lowered they can't go above.
 */
static void resize_share(struct engine *en, struct ledger *share, size_t n) {
        size_t old = ledger_budget(share);

        if (n > old) {
                if (ledger_reserve(&en->ledger, n - old) == 0)
                        ledger_set_budget(share, n);
                return;
        }
        ledger_set_budget(share, n);
        if (ledger_used(share) > n) {
                n = MIN(ledger_used(share), old);
                ledger_set_budget(share, n);
        }
        ledger_release(&en->ledger, old - n);
}

static void resize_shares(struct engine *en, struct shares s) {
        resize_share(en, &en->req_ledger, s.req);
        resize_share(en, &en->meta_ledger, s.meta);
        resize_share(en, &en->index_ledger, s.index);
}

enum err_code budget_code(struct engine *en, struct ledger *share, size_t n) {
        bool whole = ledger_budget(&en->ledger) >= en->budget_first;

        return whole && n > ledger_budget(share) ? ERR_TOO_LARGE : ERR_LIMIT;
}

static int too_small(struct engine *en, struct err *e) {
        return err_set(e, ERR_LIMIT,
                "a pool of %zu bytes is too small: this model needs at least %llu",
                ledger_budget(&en->ledger), (unsigned long long)budget_of_blocks(en, MIN_BLOCKS));
}

int budget_open(struct engine *en, struct err *e) {
        uint64_t budget =
                en->o.pool_size ? en->o.pool_size : budget_auto(NULL, en->info.weights_size, 0);

        budget = MIN(budget, (uint64_t)SIZE_MAX);
        en->ledger = (struct ledger)LEDGER_INIT((size_t)budget);
        en->req_ledger = en->meta_ledger = en->index_ledger = (struct ledger)LEDGER_INIT(0);
        en->scratch_size = 0;
        atomic_store(&en->budget_asked, budget);
        en->budget_want = en->budget_first = (size_t)budget;
        resize_shares(en, shares_of(en, budget));
        return capacity(en, ledger_budget(&en->ledger)) < MIN_BLOCKS ? too_small(en, e) : 0;
}

int budget_set_scratch(struct engine *en, size_t n, struct err *e) {
        int r = ledger_reserve(&en->ledger, n);

        en->scratch_size = n;
        if (r != 0 || capacity(en, ledger_budget(&en->ledger)) < MIN_BLOCKS)
                return too_small(en, e);
        return 0;
}

/* --- change --- */

/* Invariant 2. */
static uint64_t target(struct engine *en, struct shares *ret) {
        size_t n_blocks = MAX(en->active_blocks, (size_t)MIN_BLOCKS);
        struct list *it;

        list_for_each (it, &en->queue)
                n_blocks = MAX(n_blocks, list_entry(it, struct ereq, link)->g.need_blocks);
        *ret = shares_used(en, shares_of(en, en->budget_want));
        return MAX((uint64_t)en->budget_want, needed(en, *ret, n_blocks));
}

bool budget_step(struct engine *en) {
        struct shares s;
        size_t to, used;

        en->budget_want = (size_t)MIN(atomic_load(&en->budget_asked), (uint64_t)SIZE_MAX);
        to = (size_t)MIN(target(en, &s), (uint64_t)SIZE_MAX);
        if (to == ledger_budget(&en->ledger))
                return false;
        if (to > ledger_budget(&en->ledger)) {
                ledger_set_budget(&en->ledger, to);
                resize_shares(en, s);
                en->again = true;
                return false;
        }
        seq_pool_set_spare(en->pool, 0);
        resize_shares(en, s);
        for (;;) {
                used = ledger_used(&en->ledger);
                ledger_set_budget(&en->ledger, MAX(used, to));
                if (used <= to)
                        break;
                if (residency_make_room(en) != ROOM_NOW)
                        return true;
        }
        spill_trim(en->spill);
        en->count.budget_shrunk++;
        return false;
}

/* --- spare memory --- */

uint64_t budget_spare(struct engine *en) {
        bool keep = !en->shrinking && !atomic_load(&en->spare_refused);
        struct seq_pool_stats st;
        uint64_t moves, now;

        seq_pool_set_spare(en->pool, keep ? ledger_budget(&en->ledger) / SPARE_DIVISOR : 0);
        seq_pool_stats(en->pool, &st);
        if (st.spare_size == 0)
                return UINT64_MAX;
        now = clock_monotonic_usec();
        moves = 2 * st.n_allocated - st.n_blocks; /* taken and freed */
        if (moves != en->pool_moves) {
                en->pool_moves = moves;
                en->t_pool = now;
        }
        if (now < en->t_pool + SPARE_USEC)
                return en->t_pool + SPARE_USEC;
        seq_pool_trim(en->pool, st.spare_size - MIN(st.spare_size, MAX(SPARE_STEP, en->slot_size)));
        return now;
}

static void wake(struct engine *en) {
        pthread_mutex_lock(&en->lock);
        en->signalled = true;
        pthread_cond_signal(&en->wake);
        pthread_mutex_unlock(&en->lock);
}

void engine_set_spare(struct engine *en, bool keep) {
        atomic_store(&en->spare_refused, !keep);
        wake(en);
}

void engine_set_pool_size(struct engine *en, uint64_t bytes) {
        atomic_store(&en->budget_asked, bytes);
        wake(en);
}

uint64_t engine_pool_size(struct engine *en) {
        return ledger_budget(&en->ledger);
}

uint64_t engine_pool_auto(struct engine *en) {
        size_t used = ledger_used(&en->ledger), reserved = budget_reserved(en);

        /* Of the shares only what is spent is in memory. Read one after the other: an estimate. */
        used = used > reserved ? used - reserved : 0;
        used += ledger_used(&en->req_ledger) + ledger_used(&en->meta_ledger) +
                ledger_used(&en->index_ledger);
        return budget_auto(NULL, en->info.weights_size, used);
}
