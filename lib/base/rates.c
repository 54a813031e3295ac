/* SPDX-License-Identifier: MIT */
#include "base/rates.h"
#include "base/util.h"
#include <string.h>

const uint32_t rates_windows[RATES_N_WINDOWS] = {10, 60, 300};

void rates_begin(struct rate_ring *r, uint64_t now_usec) {
        *r = (struct rate_ring){.began_usec = now_usec, .slot = now_usec / RATES_SLOT_USEC};
}

/* Clear the slots between the last one and now. */
static void go_on(struct rate_ring *r, uint64_t now_usec) {
        uint64_t slot = now_usec / RATES_SLOT_USEC;

        if (slot <= r->slot)
                return;
        for (uint64_t k = MAX(r->slot + 1, slot - MIN(slot, (uint64_t)RATES_N_SLOTS - 1));
                k <= slot; k++)
                memset(r->n[k % RATES_N_SLOTS], 0, sizeof(r->n[0]));
        r->slot = slot;
}

void rates_add(struct rate_ring *r, enum rate rate, uint32_t n, uint64_t now_usec) {
        uint32_t *count;

        go_on(r, now_usec);
        count = &r->n[r->slot % RATES_N_SLOTS][rate];
        *count = n < UINT32_MAX - *count ? *count + n : UINT32_MAX;
}

double rates_get(struct rate_ring *r, enum rate rate, uint32_t window, uint64_t now_usec) {
        uint64_t back, from, sum = 0;

        go_on(r, now_usec);
        back = MIN((uint64_t)window * 1000000 / RATES_SLOT_USEC, (uint64_t)RATES_N_SLOTS - 1);
        back = MIN(back, r->slot);
        for (uint64_t k = r->slot - back; k <= r->slot; k++)
                sum += r->n[k % RATES_N_SLOTS][rate];
        from = MAX((r->slot - back) * RATES_SLOT_USEC, r->began_usec);
        return (double)sum * 1e6 / (double)MAX(now_usec - MIN(from, now_usec), (uint64_t)1000000);
}
