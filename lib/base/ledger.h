/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The ledger (I3): one exact account of the memory that clients can cause.
 *
 * 1. used <= budget at every moment; peak is the greatest value `used` ever had.
 * 2. Memory is reserved here before it is allocated, and released after it is freed.
 * 3. A shrunk budget does not take anything back by itself: reserving fails until enough is freed.
 *    (So after ledger_set_budget() used may exceed the budget, but never grow.)
 * Any thread (atomics).
 */
#include <stddef.h>
#include <stdint.h>

struct ledger {
        _Atomic size_t used, budget, peak;
};
#define LEDGER_INIT(b) ((struct ledger){.budget = (b)})

/* 0, or 1 when it does not fit (nothing is reserved). */
int ledger_reserve(struct ledger *l, size_t n);
void ledger_release(struct ledger *l, size_t n);
void ledger_set_budget(struct ledger *l, size_t budget);
size_t ledger_used(struct ledger *l);
size_t ledger_budget(struct ledger *l);
size_t ledger_peak(struct ledger *l);
