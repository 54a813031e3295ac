/* SPDX-License-Identifier: MIT */
/*
 * Tables of the KV codec: from counts to levels, from levels to probabilities.
 *
 * A table is written as one level of 15 per symbol that occurs, not as its exact probability: steps
 * of half an octave cost 0.007 bit per value and save half of the table, of which a small section
 * has eight. Levels are nibbles in the order of symbols; a nibble of 0 and the next, r, stand for
 * r + 1 symbols that do not occur.
 *
 * 1. Probabilities follow from the levels in integers alone, the same on every machine.
 * 2. They sum up to KV_SLOTS, and no symbol that has a level has less than 1: a symbol whose share
 *    is below two slots gets one or two, the others share the rest by cumulative rounding. At most
 *    512 of 2048 slots go to small ones, so a share of two shrinks to 1.5 at worst and rounding
 *    leaves it 1.
 */
#include <assert.h>
#include <string.h>

#include "spill/codec-kv.h"

static const uint16_t level_weight[16] = {
        0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
/* 16 * sqrt(weight[i - 1] * weight[i]), from level 2 on: where the next level begins. */
static const uint16_t level_from[14] = {
        23, 45, 78, 111, 157, 222, 314, 443, 627, 887, 1254, 1774, 2508, 3547};

static void table_freqs(struct kv_table *t) {
        uint32_t total = 0, big_weight = 0, left = KV_SLOTS, sum = 0, done = 0;
        uint64_t scale;
        unsigned last = 0;

        for (unsigned i = 0; i < t->n; i++)
                total += level_weight[t->level[i]];
        for (unsigned i = 0; i < t->n; i++) {
                uint32_t w = level_weight[t->level[i]], share = w * KV_SLOTS * 2;

                /* @share: of half slots, times @total */
                if (share >= 4 * total) {
                        t->freq[i] = 0;
                        big_weight += w;
                        last = i;
                        continue;
                }
                t->freq[i] = share < 3 * total ? 1 : 2;
                left -= t->freq[i];
        }
        assert(big_weight > 0);
        scale = ((uint64_t)left << 24) / big_weight;
        for (unsigned i = 0; i < t->n; i++) {
                uint32_t to;

                if (t->freq[i] > 0)
                        continue;
                sum += level_weight[t->level[i]];
                to = i == last ? left : (uint32_t)(sum * scale >> 24);
                t->freq[i] = (uint16_t)(to - done);
                done = to;
        }
}

/* The level whose weight, 256 for @max, is nearest to @count by ratio. */
static uint8_t level_of(uint64_t count, uint64_t max) {
        unsigned level = 1;

        count <<= 12;
        for (unsigned step = 8; step > 0; step /= 2)
                if (level + step <= 15 && count >= max * level_from[level + step - 2])
                        level += step;
        return (uint8_t)level;
}

void kv_table_from_counts(struct kv_table *t, const uint32_t counts[256][KV_CLASSES], unsigned k) {
        uint32_t max = 0;

        for (unsigned i = 0; i < 256; i++)
                max = counts[i][k] > max ? counts[i][k] : max;
        t->n = 0;
        for (unsigned i = 0; i < 256; i++) {
                if (counts[i][k] == 0)
                        continue;
                t->symbol[t->n] = (uint8_t)i;
                t->level[t->n++] = level_of(counts[i][k], max);
        }
        table_freqs(t);
}

size_t kv_table_write(const struct kv_table *t, uint8_t *dst) {
        unsigned next = 0, gap;
        size_t n = 0;

        memset(dst, 0, KV_TABLE_MAX);
#define PUT(v) (dst[n / 2] |= (uint8_t)((v) << n % 2 * 4), n++)
        for (unsigned i = 0; i <= t->n; i++) {
                unsigned symbol = i < t->n ? t->symbol[i] : 256;

                for (; next < symbol; next += gap) {
                        gap = symbol - next > 16 ? 16 : symbol - next;
                        n++;
                        PUT(gap - 1);
                }
                if (i < t->n)
                        PUT(t->level[i]);
                next = symbol + 1;
        }
#undef PUT
        return (n + 1) / 2;
}

size_t kv_table_read(struct kv_table *t, const uint8_t *src, size_t n) {
        unsigned symbol = 0;
        size_t at = 0, end = n > KV_TABLE_MAX ? 2 * KV_TABLE_MAX : 2 * n;

        t->n = 0;
        while (symbol < 256) {
                uint8_t level;

                if (at >= end)
                        return 0;
                level = src[at / 2] >> at % 2 * 4 & 15;
                at++;
                if (level > 0) {
                        t->symbol[t->n] = (uint8_t)symbol++;
                        t->level[t->n++] = level;
                        continue;
                }
                if (at >= end)
                        return 0;
                symbol += 1u + (src[at / 2] >> at % 2 * 4 & 15);
                at++;
        }
        if (symbol > 256 || t->n == 0)
                return 0;
        table_freqs(t);
        return (at + 1) / 2;
}

void kv_table_symbols(const struct kv_table *t, struct kv_symbol symbols[256]) {
        uint32_t start = 0;

        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i];
                uint32_t shift = freq > 1 ? 32u - (uint32_t)__builtin_clz(freq - 1) : 0;
                uint64_t one = (uint64_t)1 << (31 + shift);

                symbols[t->symbol[i]] = (struct kv_symbol){
                        .rcp = (uint32_t)((one + freq - 1) / freq),
                        .info = shift << 24 | start << 12 | freq,
                };
                start += freq;
        }
}
