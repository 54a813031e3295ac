/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The lowest floor: how much memory there is, and how it is divided. budget.c has the rules;
 * memory/grow.c changes a budget while memory is in use.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ledger.h"

/* Every floor reserves in these ledgers; only budget.c and memory/grow.c change anything else. */
struct budget {
        /* The main ledger (I3), and three shares of it, reserved in it from the start: for what
         * requests bring along, for the bookkeeping of loaded conversations, and for the prefix
         * index. The pool of blocks has the rest. */
        struct ledger ledger, requests, conversations, index;
        /* Set before budget_open(): the cost in the ledger of the blocks for a block's tokens (of a state,
         * if the model has no other memory), of the largest block, and of the least memory that a
         * request may need. */
        size_t block_size, piece_size, least_size;
        bool only_states;    /* the model has no blocks of attention */
        size_t scratch_size; /* reserved for the I/O workers */
        size_t want;         /* the target: the budget that was asked for last */
        size_t most;         /* the largest ever asked for: whatever fits into it is not refused */
        uint64_t weights_size; /* in the page cache */
        size_t needed;         /* bytes that all active requests together may come to need */
        /* The budget that the system had memory for at t_give (clock_monotonic_usec(); or 0). */
        size_t give;
        uint64_t t_give;
        atomic_uint_fast64_t asked;     /* by engine_set_pool_size() */
        atomic_bool spare_refused;      /* bytes of the pool that no request has in use */
        atomic_uint_fast64_t idle_size; /* precedes all paths (base/machine.h); tests only */
        const char *machine_root;       /* prepended to all paths (base/machine.h); for tests */
};

/* NULL without memory. */
struct budget *budget_new(void);

/* The budget that "auto" gives, in bytes. @root: see base/machine.h. @held: bytes that the pool
 * holds already. Any thread. */
uint64_t budget_auto(const char *root, uint64_t weights_size, uint64_t held);
/* Bytes of the ledger that are really in memory, for budget_auto(). Any thread; an estimate if not
 * called on the engine thread. */
uint64_t budget_held(struct budget *b);
/* Set up and divide the ledger: @size bytes (0: auto), for a model with @weights_size bytes of
 * weights in the page cache. The sizes of blocks are set before. -ERR_LIMIT: too small. */
int budget_open(struct budget *b, uint64_t size, uint64_t weights_size, struct err *e);
/* Once, before any thread runs: set @n bytes of the ledger aside as the workers' scratch memory.
 * -ERR_LIMIT: too small. */
int budget_set_scratch(struct budget *b, size_t n, struct err *e);
/* Bytes of the ledger that do not belong to the pool. */
size_t budget_reserved(struct budget *b);
/* The least budget whose pool has @size bytes. */
uint64_t budget_of_pool(struct budget *b, size_t size);
/* Grow the shares to those of a budget of @size bytes. Shares that are larger already stay. */
void budget_grow_shares(struct budget *b, size_t size);
/* The least that the budget in force may be, in bytes: see invariant 3. */
size_t budget_floor(struct budget *b);

/* The error code for refusing @n bytes of @share: ERR_TOO_LARGE if they would not fit even into an
 * empty share, else ERR_LIMIT. Any thread; for the main ledger only the engine thread. */
enum err_code budget_code(struct budget *b, struct ledger *share, size_t n);
/* Bytes for requests within the target. */
size_t budget_capacity(struct budget *b);
/* Bytes that requests may ever come to need: a request that needs more is refused. */
size_t budget_capacity_most(struct budget *b);
/* May active requests come to need @size bytes together now: within the target, or beyond it because
 * the system has memory to give? Engine thread. */
bool budget_fits(struct budget *b, size_t size);
/* The active requests together may come to need @size bytes: raise the budget to that if need be. */
void budget_need(struct budget *b, size_t size);
