/* SPDX-License-Identifier: MIT */
#include "base/ledger.h"
#include <assert.h>
#include <stdatomic.h>

int ledger_reserve(struct ledger *l, size_t n) {
        size_t used = atomic_load(&l->used), peak;

        do {
                size_t budget = atomic_load(&l->budget);

                if (n > budget || used > budget - n)
                        return 1;
        } while (!atomic_compare_exchange_weak(&l->used, &used, used + n));

        peak = atomic_load(&l->peak);
        while (peak < used + n && !atomic_compare_exchange_weak(&l->peak, &peak, used + n))
                ;
        return 0;
}

void ledger_release(struct ledger *l, size_t n) {
        size_t before = atomic_fetch_sub(&l->used, n);

        assert(before >= n);
        (void)before;
}

void ledger_set_budget(struct ledger *l, size_t budget) {
        atomic_store(&l->budget, budget);
}

size_t ledger_used(struct ledger *l) {
        return atomic_load(&l->used);
}

size_t ledger_budget(struct ledger *l) {
        return atomic_load(&l->budget);
}

size_t ledger_peak(struct ledger *l) {
        return atomic_load(&l->peak);
}
