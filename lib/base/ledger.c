/* SPDX-License-Identifier: MIT */
#include "base/ledger.h"
#include "base/util.h"
#include <assert.h>

int ledger_reserve(struct ledger *l, size_t n) {
        bool fits;

        pthread_mutex_lock(&l->lock);
        fits = l->used <= l->budget && n <= l->budget - l->used;
        if (fits) {
                l->used += n;
                l->peak = MAX(l->peak, l->used);
        }
        pthread_mutex_unlock(&l->lock);
        return fits ? 0 : 1;
}

void ledger_release(struct ledger *l, size_t n) {
        pthread_mutex_lock(&l->lock);
        assert(n <= l->used);
        l->used -= n;
        pthread_mutex_unlock(&l->lock);
}

void ledger_set_budget(struct ledger *l, size_t budget) {
        pthread_mutex_lock(&l->lock);
        l->most = MAX(l->most, l->budget);
        l->budget = budget;
        pthread_mutex_unlock(&l->lock);
}

size_t ledger_shrink(struct ledger *l, size_t budget) {
        pthread_mutex_lock(&l->lock);
        l->most = MAX(l->most, l->budget);
        budget = l->budget = MIN(l->budget, MAX(budget, l->used));
        pthread_mutex_unlock(&l->lock);
        return budget;
}

static size_t read_field(struct ledger *l, const size_t *field) {
        size_t v;

        pthread_mutex_lock(&l->lock);
        v = *field;
        pthread_mutex_unlock(&l->lock);
        return v;
}

size_t ledger_used(struct ledger *l) {
        return read_field(l, &l->used);
}

size_t ledger_budget(struct ledger *l) {
        return read_field(l, &l->budget);
}

size_t ledger_most(struct ledger *l) {
        size_t v;

        pthread_mutex_lock(&l->lock);
        v = MAX(l->most, l->budget);
        pthread_mutex_unlock(&l->lock);
        return v;
}

size_t ledger_peak(struct ledger *l) {
        return read_field(l, &l->peak);
}
