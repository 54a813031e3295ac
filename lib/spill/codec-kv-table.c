/* SPDX-License-Identifier: MIT */
/*
 * Tables of the KV codec: from counts to levels, from levels to probabilities.
 *
 * A table stores one of 15 levels for each symbol that occurs, not its exact probability: steps of
 * half an octave cost 0.007 bit per value and halve the table, and even a small section has eight
 * tables. Levels are nibbles in the order of symbols; a nibble of 0 and the next nibble, r, stand
 * for r + 1 symbols that do not occur.
 *
 * 1. Probabilities follow from the levels in integers alone, the same on every machine.
 * 2. They add up to KV_SLOTS, and every symbol with a level gets at least 1: a symbol whose share
 *    is below two slots gets one or two, and the others divide the rest by cumulative rounding. At
 *    most 512 of 2048 slots go to small symbols, so a share of two shrinks to 1.5 at worst, and
 *    rounding leaves at least 1.
 */
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/codec/freqs.h"

/* 16 * sqrt(weight[i - 1] * weight[i]), from level 2 on: where the next level begins. */
static const uint16_t level_from[14] = {
        23, 45, 78, 111, 157, 222, 314, 443, 627, 887, 1254, 1774, 2508, 3547};

/* The level of each count: that whose weight, 256 for the largest count, is nearest by ratio. By
 * comparing with all limits, which vectors do at once. */
static void levels_of(const int32_t *counts, unsigned n, uint8_t *levels) {
        int32_t max = 0, sum[256] = {0};

        for (unsigned i = 0; i < n; i++)
                max = counts[i] > max ? counts[i] : max;
        for (unsigned l = 0; l < ARRAY_SIZE(level_from); l++) {
                /* The first count of a level: count << 12 >= max * level_from[]. */
                int32_t from = (int32_t)(((uint64_t)max * level_from[l] + 4095) >> 12);

                for (unsigned i = 0; i < n; i++)
                        sum[i] += counts[i] >= from;
        }
        for (unsigned i = 0; i < n; i++)
                levels[i] = (uint8_t)(1 + sum[i]);
}

void kv_table_from_counts(struct kv_table *t, const uint32_t counts[256]) {
        int32_t there[256 + 1]; /* below 2^31: a section has at most 2^30 values */
        unsigned n = 0;

        /* Without a branch: whether a symbol occurs is unpredictable. */
        for (unsigned i = 0; i < 256; i++) {
                t->symbol[n] = (uint8_t)i;
                there[n] = (int32_t)counts[i];
                n += counts[i] > 0;
        }
        t->n = n;
        levels_of(there, n, t->level);
        kv_table_freqs(t);
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

/* A run of levels at a time, up to 14; what is known of all nibbles at once is found out before. */
size_t kv_table_read(struct kv_table *t, const uint8_t *src, size_t n) {
        enum { RUN = 14, ROOM = KV_TABLE_MAX + 8 };
        size_t at = 0, end = 2 * MIN(n, (size_t)KV_TABLE_MAX), run;
        uint8_t nibbles[2 * ROOM + 16], zero[ROOM], count[16];
        unsigned symbol = 0;

        for (size_t i = 0; i < ROOM; i++) {
                uint8_t v = src[i];

                nibbles[2 * i] = v & 15;
                nibbles[2 * i + 1] = v >> 4;
                /* the lowest bit of each nibble that is 0 */
                zero[i] = ~(v | v >> 1 | v >> 2 | v >> 3) & 0x11;
        }
        for (uint8_t i = 0; i < 16; i++)
                count[i] = i;
        t->n = 0;
        while (symbol < 256) {
                uint64_t z;

                memcpy(&z, zero + at / 2, 8);
                /* Of 16 nibbles the last one may be shifted out, and one is for a gap's length. */
                z = z >> at % 2 * 4 | UINT64_C(1) << 4 * RUN;
                run = (unsigned)__builtin_ctzll(z) / 4;
                for (size_t i = 0; i < 16; i++)
                        t->symbol[t->n + i] = (uint8_t)(symbol + count[i]);
                memcpy(t->level + t->n, nibbles + at, 16);
                if (run >= 256 - symbol) {
                        run = 256 - symbol;
                        t->n += (unsigned)run;
                        at += run;
                        break;
                }
                t->n += (unsigned)run;
                symbol += (unsigned)run;
                at += run;
                if (at >= end)
                        return 0;
                if (run == RUN)
                        continue;
                symbol += 1u + nibbles[at + 1];
                at += 2;
        }
        if (symbol > 256 || at > end || t->n == 0)
                return 0;
        return (at + 1) / 2;
}

void kv_table_codes(const struct kv_table *t, uint32_t info[256], uint32_t rcp[256]) {
        uint32_t start = 0;

        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i];
                uint32_t shift = freq > 1 ? 32u - (uint32_t)__builtin_clz(freq - 1) : 0;
                uint64_t one = (uint64_t)1 << (31 + shift);

                rcp[t->symbol[i]] = (uint32_t)((one + freq - 1) / freq);
                info[t->symbol[i]] = start << 16 | shift << 12 | freq;
                start += freq;
        }
}
