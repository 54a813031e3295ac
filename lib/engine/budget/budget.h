/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The lowest floor: how much memory there is, and how it is divided. budget.c has the rules; how a
 * budget changes while memory is in use is the business of memory/grow.c.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ledger.h"

/* Every floor reserves in these ledgers; only budget.c and memory/grow.c change anything else. */
struct budget {
        /* The ledger (I3), and three shares of it that are reserved in it from the start: what
         * requests bring along, the bookkeeping of loaded conversations, and the prefix index. The
         * pool of blocks has the rest. */
        struct ledger ledger, requests, conversations, index;
        size_t slot_size;    /* what a block costs in the ledger: set before budget_open() */
        size_t scratch_size; /* reserved for the I/O workers */
        size_t want;         /* the target: the budget that was asked for last */
        size_t most;         /* the largest that was asked for: what fits into it is not refused */
        uint64_t weights_size;
        size_t n_needed; /* blocks that the active requests together may come to need */
        /* What the system had memory for at t_give: clock_monotonic_usec(), 0: never looked. */
        size_t give;
        uint64_t t_give;
        atomic_uint_fast64_t asked;     /* by engine_set_pool_size() */
        atomic_bool spare_refused;      /* by engine_set_spare() */
        atomic_uint_fast64_t idle_size; /* bytes of the pool that no request has in use */
        const char *machine_root;       /* base/machine.h: before all paths; NULL, but in tests */
};

/* NULL without memory. */
struct budget *budget_new(void);

/* What "auto" gives, in bytes. @root: base/machine.h. @held: of it, what the pool has already. Any
 * thread. */
uint64_t budget_auto(const char *root, uint64_t weights_size, uint64_t held);
/* Bytes in memory of what the ledger has reserved, for budget_auto(). Any thread; from another
 * thread than the engine's it is an estimate. */
uint64_t budget_held(struct budget *b);
/* Set up and divide the ledger: @size bytes (0: auto), for a model whose weights have
 * @weights_size. The pool comes after it, but its slot size before. -ERR_LIMIT: too small. */
int budget_open(struct budget *b, uint64_t size, uint64_t weights_size, struct err *e);
/* Once, before anything runs: @n bytes of the ledger are the workers' scratch memory for good. */
int budget_set_scratch(struct budget *b, size_t n, struct err *e);
/* What is not the pool's. */
size_t budget_reserved(struct budget *b);
/* The least budget that has @n_blocks blocks. */
uint64_t budget_of_blocks(struct budget *b, size_t n_blocks);
/* The shares are to be those of a budget of @size, where that is more than they have. */
void budget_grow_shares(struct budget *b, size_t size);
/* The least that the budget in force may be: see invariant 3. */
size_t budget_floor(struct budget *b);

/* What to refuse @n bytes of @share with: ERR_TOO_LARGE if they would not fit even if nothing else
 * were in it, else ERR_LIMIT. Any thread; of the whole ledger the engine thread. */
enum err_code budget_code(struct budget *b, struct ledger *share, size_t n);
/* Blocks that the target has for requests. */
size_t budget_capacity(struct budget *b);
/* Blocks that requests may come to need at most: one that needs more is refused. */
size_t budget_capacity_most(struct budget *b);
/* May active requests come to need so many blocks together, now: in the target, or beyond it
 * because the system has memory to give? Engine thread. */
bool budget_fits(struct budget *b, size_t n_blocks);
/* The active requests together may come to need @n_blocks: the budget is no less than that. */
void budget_need(struct budget *b, size_t n_blocks);
