/* SPDX-License-Identifier: MIT */
#pragma once
/* From levels to frequencies, as the top of codec-kv-table.c describes it. */
#include <assert.h>

#include "spill/codec/kernels.h"

static const uint16_t kv_level_weight[16] = {
        0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};

/* Without a branch that depends on a symbol: whether a symbol is small is unpredictable. */
static inline void kv_table_freqs(struct kv_table *t) {
        uint32_t total = 0, big_weight = 0, left = KV_SLOTS, sum = 0, done = 0;
        /* by level: of a small symbol its frequency, of a big one its weight */
        uint16_t small[16] = {0}, big[16] = {0};
        unsigned last = 0;
        uint64_t scale;

        for (unsigned i = 0; i < t->n; i++)
                total += kv_level_weight[t->level[i]];
        for (unsigned i = 1; i < 16; i++) {
                /* of half slots, times @total */
                uint32_t share = kv_level_weight[i] * KV_SLOTS * 2;

                if (share >= 4 * total)
                        big[i] = kv_level_weight[i];
                else
                        small[i] = share < 3 * total ? 1 : 2;
        }
        for (unsigned i = 0; i < t->n; i++) {
                big_weight += big[t->level[i]];
                left -= small[t->level[i]];
                last = big[t->level[i]] > 0 ? i : last;
        }
        assert(big_weight > 0);
        scale = ((uint64_t)left << 24) / big_weight;
        for (unsigned i = 0; i < t->n; i++) {
                uint32_t to;

                sum += big[t->level[i]];
                to = (uint32_t)(sum * scale >> 24);
                t->freq[i] = (uint16_t)(small[t->level[i]] + to - done);
                done = to;
        }
        /* What rounding left over. */
        t->freq[last] = (uint16_t)(t->freq[last] + left - done);
}
