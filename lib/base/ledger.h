/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The ledger (I3): one exact account of the memory that clients can cause.
 *
 * 1. Memory is reserved here before it is allocated, and released after it is freed.
 * 2. ledger_reserve() compares and adds in one step: a reservation that succeeds leaves used <=
 *    budget, and once ledger_set_budget() or ledger_shrink() has returned, no reservation is
 *    granted by an older budget.
 * 3. ledger_set_budget() may set a budget below `used`. That takes nothing back: `used` can only
 *    decrease until it is within the budget again.
 * 4. After ledger_shrink(), used <= budget. Use this call to hand the difference to another owner.
 * 5. peak is the greatest value that `used` ever had.
 *
 * Any thread: each call is one step under the ledger's lock, which protects nothing else.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros is a ledger without budget. */
struct ledger {
        pthread_mutex_t lock;
        size_t used, budget, peak; /* bytes */
        size_t most;               /* the greatest budget before the current one */
};
#define LEDGER_INIT(b) ((struct ledger){.lock = PTHREAD_MUTEX_INITIALIZER, .budget = (b)})

/* Reserve @n bytes: 0, or 1 when they do not fit (nothing is reserved then). */
int ledger_reserve(struct ledger *l, size_t n);
/* Give back @n of the bytes that were reserved. */
void ledger_release(struct ledger *l, size_t n);
void ledger_set_budget(struct ledger *l, size_t budget);
/* Lower the budget to @budget bytes, or to `used` if that is more; never raise it. Returns the
 * budget now in force. */
size_t ledger_shrink(struct ledger *l, size_t budget);
size_t ledger_used(struct ledger *l);
size_t ledger_budget(struct ledger *l);
size_t ledger_peak(struct ledger *l);
/* The greatest budget that the ledger ever had: anything larger never fits. */
size_t ledger_most(struct ledger *l);
