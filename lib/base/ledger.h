/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The ledger (I3): one exact account of the memory that clients can cause.
 *
 * 1. Memory is reserved here before it is allocated, and released after it is freed.
 * 2. ledger_reserve() compares with the budget of the very moment at which it adds: a reservation
 *    that succeeds leaves used <= budget, and once ledger_set_budget() or ledger_shrink() has
 *    returned, no reservation is granted by an older budget.
 * 3. ledger_set_budget() may set a budget below what is used. Nothing is taken back by that:
 *    `used` can only sink until it is within the budget again.
 * 4. After ledger_shrink(), used <= budget. Whoever hands the difference to somebody else uses this
 *    call.
 * 5. peak is the greatest value that `used` ever had.
 *
 * Any thread: each call is one step under the ledger's lock, which nothing else is done under.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros is a ledger without budget. */
struct ledger {
        pthread_mutex_t lock;
        size_t used, budget, peak; /* bytes */
        size_t most;               /* the greatest budget before the present one */
};
#define LEDGER_INIT(b) ((struct ledger){.lock = PTHREAD_MUTEX_INITIALIZER, .budget = (b)})

/* Reserve @n bytes: 0, or 1 when they do not fit (nothing is reserved then). */
int ledger_reserve(struct ledger *l, size_t n);
/* Give back @n of the bytes that were reserved. */
void ledger_release(struct ledger *l, size_t n);
void ledger_set_budget(struct ledger *l, size_t budget);
/* Lower the budget to @budget bytes, or to what is used if that is more. Returns the budget now in
 * force; one that is no higher than @budget already is left as it is. */
size_t ledger_shrink(struct ledger *l, size_t budget);
size_t ledger_used(struct ledger *l);
size_t ledger_budget(struct ledger *l);
size_t ledger_peak(struct ledger *l);
/* The greatest budget that it ever had: what is more than this never fits. */
size_t ledger_most(struct ledger *l);
