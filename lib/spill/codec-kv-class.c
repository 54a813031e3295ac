/* SPDX-License-Identifier: MIT */
/*
 * Decides which table codes which channel. The section tells the decoder, so this is the encoder's
 * choice alone and can improve without a new format.
 *
 * The classes are learned from a sample of 64 to 256 channels by Lloyd's clustering: begin with
 * classes by sign and size, make a table from each class, assign each channel the table that codes
 * it in the fewest bits, repeat. Then every channel of the section is assigned once, and the final
 * tables count all values.
 */
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/spill.h"

enum { ROUNDS = 2, MAX_TOKENS = 32 /* that are looked at in choosing */ };

/* One lane per class. */
typedef uint16_t costs __attribute__((vector_size(2 * KV_CLASSES), aligned(2 * KV_CLASSES)));

static inline uint32_t log_bits(uint32_t count) {
        float f = (float)(int32_t)count + 0.125f;
        uint32_t bits;

        memcpy(&bits, &f, 4);
        return bits;
}

static size_t count_channels(const struct kv_encoder *e, enum kv_kind kind, size_t *ret_values) {
        size_t n = 0, n_values = 0;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v) || v.kind != kind)
                        continue;
                n += v.n_tiles * v.n_channels;
                n_values += v.n_tiles * v.tile;
        }
        *ret_values = n_values;
        return n;
}

static unsigned count_classes(enum kv_kind kind, size_t n_channels, size_t n_values) {
        unsigned n = n_values >= 16384 ? 8 : n_values >= 2048 ? 4 : n_values >= 512 ? 2 : 1;

        /* Tables of whole bytes are long. */
        if (kind == KV_I8)
                n = MAX(1u, n / 2);
        return (unsigned)MIN((size_t)n, n_channels);
}

static void sample_tile(struct kv_encoder_tables *t, size_t *n, const struct kv_view *v,
        const uint8_t *symbols, size_t channel) {
        size_t n_tokens = MIN(v->n_tokens, (size_t)KV_SAMPLE_TOKENS);
        size_t step = v->channel_major ? 1 : v->n_channels;
        const uint8_t *from = symbols + channel * (v->channel_major ? v->n_tokens : 1);

        memset(t->sample[*n], 0, KV_SAMPLE_TOKENS);
        for (size_t i = 0; i < n_tokens; i++)
                t->sample[*n][i] = from[i * step];
        t->sample_tokens[(*n)++] = (uint8_t)n_tokens;
}

/* Every @stride-th channel of the kind. */
static size_t take_sample(struct kv_encoder *e, enum kv_kind kind, size_t stride) {
        const uint8_t *symbols = e->symbols;
        size_t n = 0, next = 0;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                for (size_t t = 0; t < v.n_tiles; t++, symbols += v.tile) {
                        if (v.kind != kind)
                                continue;
                        for (; next < v.n_channels && n < KV_SAMPLE_CHANNELS; next += stride)
                                sample_tile(e->tables, &n, &v, symbols, next);
                        next -= MIN(next, v.n_channels);
                }
        }
        return n;
}

/* First classes: all positive, all negative, the others by their size in equal parts. */
static void guess_classes(struct kv_encoder_tables *t, enum kv_kind kind, size_t n, unsigned k) {
        unsigned sizes[128 * KV_SAMPLE_TOKENS / 4 + 1] = {0}, below = 0, mixed = 0;
        unsigned k_mixed = k >= 4 ? k - 2 : k;
        uint16_t size[KV_SAMPLE_CHANNELS];
        uint8_t flip = kind == KV_I8 ? 0xff : 0;

        for (size_t c = 0; c < n; c++) {
                uint16_t sum = 0, negative = 0;
                unsigned n_tokens = t->sample_tokens[c];

                /* What a channel has fewer than 32 tokens is zero. */
                for (size_t i = 0; i < KV_SAMPLE_TOKENS; i++) {
                        uint8_t s = t->sample[c][i], sign = s >> 7 ? 0xff : 0;

                        sum = (uint16_t)(sum + ((s ^ (sign & flip)) & 127));
                        negative = (uint16_t)(negative + (sign & 1));
                }
                size[c] = (uint16_t)(sum / 4);
                t->sample_class[c] = KV_CLASSES;
                if (k_mixed < k && 8 * negative <= n_tokens)
                        t->sample_class[c] = (uint8_t)(k - 2);
                else if (k_mixed < k && 8 * negative >= 7 * n_tokens)
                        t->sample_class[c] = (uint8_t)(k - 1);
                else
                        sizes[size[c]]++, mixed++;
        }
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                unsigned here = sizes[i];

                sizes[i] = below * k_mixed / MAX(mixed, 1u);
                below += here;
        }
        for (size_t c = 0; c < n; c++)
                if (t->sample_class[c] == KV_CLASSES)
                        t->sample_class[c] = (uint8_t)sizes[size[c]];
}

/* What a symbol costs in each class, by the counts: log2((total + 1/8) / (count + 1/8)), with the
 * logarithm that a float's bits are when read as a number, in 1/32 bit. Below 2^11. */
static void make_costs(struct kv_encoder_tables *t) {
        uint32_t total[KV_CLASSES] = {0};

        for (unsigned s = 0; s < 256; s++)
                for (unsigned k = 0; k < KV_CLASSES; k++)
                        total[k] += t->counts[s][k];
        for (unsigned k = 0; k < KV_CLASSES; k++)
                total[k] = log_bits(total[k] > 0 ? total[k] : UINT32_C(1) << 30);
        for (unsigned s = 0; s < 256; s++)
                for (unsigned k = 0; k < KV_CLASSES; k++)
                        t->cost[s][k] = (uint16_t)((total[k] - log_bits(t->counts[s][k])) >> 18);
}

/* Which classes have values, and their numbers without gaps. Returns how many. */
static unsigned number_classes(
        const struct kv_encoder_tables *t, unsigned k, uint8_t map[KV_CLASSES]) {
        uint32_t any[KV_CLASSES] = {0};
        unsigned n = 0;

        for (unsigned s = 0; s < 256; s++)
                for (unsigned i = 0; i < KV_CLASSES; i++)
                        any[i] |= t->counts[s][i];
        for (unsigned i = 0; i < k; i++) {
                map[i] = (uint8_t)n;
                n += any[i] > 0;
        }
        return n;
}

/* Classes that are not used cost most. */
static inline uint8_t cheapest(costs sum) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < KV_CLASSES; i++) {
                uint32_t cost = (uint32_t)sum[i] << 3 | i;

                best = cost < best ? cost : best;
        }
        return best & 7;
}

static inline costs cost_of(const struct kv_encoder_tables *t, uint8_t symbol) {
        return *(const costs *)t->cost[symbol];
}

/* Values of one channel after another would be counted in the same few places, each addition
 * waiting for the last one; so the channels take turns. */
static void count_sample(struct kv_encoder_tables *t, size_t n) {
        memset(t->counts, 0, sizeof(t->counts));
        for (size_t i = 0; i < KV_SAMPLE_TOKENS; i++)
                for (size_t c = 0; c < n; c++)
                        if (i < t->sample_tokens[c])
                                t->counts[t->sample[c][i]][t->sample_class[c]]++;
}

static void learn(struct kv_encoder_tables *t, size_t n) {
        for (unsigned round = 0; round < ROUNDS; round++) {
                count_sample(t, n);
                make_costs(t);
                if (round == ROUNDS - 1)
                        break;
                for (size_t c = 0; c < n; c++) {
                        costs sum = {0};

                        for (size_t i = 0; i < t->sample_tokens[c]; i++)
                                sum += cost_of(t, t->sample[c][i]);
                        t->sample_class[c] = cheapest(sum);
                }
        }
}

static void choose_channel_major(struct kv_encoder_tables *t, const struct kv_view *v,
        const uint8_t *symbols, uint8_t *classes) {
        size_t n_tokens = MIN(v->n_tokens, (size_t)MAX_TOKENS);

        for (size_t c = 0; c < v->n_channels; c++) {
                costs sum = {0};

                for (size_t i = 0; i < n_tokens; i++)
                        sum += cost_of(t, symbols[c * v->n_tokens + i]);
                classes[c] = cheapest(sum);
        }
        for (size_t i = 0; i < v->n_tokens; i++)
                for (size_t c = 0; c < v->n_channels; c++)
                        t->counts[symbols[c * v->n_tokens + i]][classes[c]]++;
}

/* Channels beside each other: some at a time, so that their sums stay in registers' reach. */
static void choose_token_major(struct kv_encoder_tables *t, const struct kv_view *v,
        const uint8_t *symbols, uint8_t *classes) {
        size_t n_tokens = MIN(v->n_tokens, (size_t)MAX_TOKENS);
        costs sum[64];

        for (size_t from = 0; from < v->n_channels; from += ARRAY_SIZE(sum)) {
                size_t n = MIN(v->n_channels - from, ARRAY_SIZE(sum));

                memset(sum, 0, sizeof(sum));
                for (size_t i = 0; i < n_tokens; i++)
                        for (size_t c = 0; c < n; c++)
                                sum[c] += cost_of(t, symbols[i * v->n_channels + from + c]);
                for (size_t c = 0; c < n; c++)
                        classes[from + c] = cheapest(sum[c]);
        }
        for (size_t i = 0; i < v->n_tokens; i++)
                for (size_t c = 0; c < v->n_channels; c++)
                        t->counts[symbols[i * v->n_channels + c]][classes[c]]++;
}

static void choose(struct kv_encoder *e, enum kv_kind kind) {
        const uint8_t *symbols = e->symbols;
        uint8_t *classes = e->classes;
        struct kv_view v;

        memset(e->tables->counts, 0, sizeof(e->tables->counts));
        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                for (size_t t = 0; t < v.n_tiles; t++) {
                        if (v.kind == kind && v.channel_major)
                                choose_channel_major(e->tables, &v, symbols, classes);
                        else if (v.kind == kind)
                                choose_token_major(e->tables, &v, symbols, classes);
                        symbols += v.tile;
                        classes += v.n_channels;
                }
        }
}

/* From classes to the numbers of the final tables. */
static void number(struct kv_encoder *e, enum kv_kind kind, const uint8_t map[KV_CLASSES]) {
        uint8_t *classes = e->classes;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                if (v.kind == kind)
                        for (size_t c = 0; c < v.n_tiles * v.n_channels; c++)
                                classes[c] = (uint8_t)(e->base[kind] + map[classes[c]]);
                classes += v.n_tiles * v.n_channels;
        }
}

/* Whether coding costs fewer bits than the symbols have, by an amount that is worth the time. */
static bool gains(const struct kv_encoder_tables *t, enum kv_kind kind, size_t n_values) {
        uint64_t cost = 0;

        for (unsigned s = 0; s < 256; s++)
                for (unsigned k = 0; k < KV_CLASSES; k++)
                        cost += (uint64_t)t->counts[s][k] * t->cost[s][k];
        return cost / 32 < (uint64_t)n_values * 8 - n_values / (kind == KV_I8 ? 4 : 8);
}

void kv_classify(struct kv_encoder *e, enum kv_kind kind) {
        size_t n_values, n_channels = count_channels(e, kind, &n_values), n;
        unsigned base = kind > 0 ? e->base[kind - 1] + e->n_tables[kind - 1] : 0, k;
        struct kv_encoder_tables *t = e->tables;
        uint8_t map[KV_CLASSES];

        e->base[kind] = base;
        e->n_tables[kind] = 0;
        if (n_values == 0)
                return;
        n = MAX(MIN(n_channels / 8, (size_t)KV_SAMPLE_CHANNELS), (size_t)64);
        n = take_sample(e, kind, (n_channels + n - 1) / n);
        k = count_classes(kind, n_channels, n_values);
        guess_classes(t, kind, n, k);
        learn(t, n);
        choose(e, kind);
        make_costs(t);
        if (!gains(t, kind, n_values))
                return;
        e->n_tables[kind] = number_classes(t, k, map);
        number(e, kind, map);
        for (unsigned i = 0; i < k; i++) {
                unsigned next = i + 1 < k ? map[i + 1] : e->n_tables[kind];

                /* Not of an empty class. */
                if (next == map[i])
                        continue;
                kv_table_from_counts(&t->table[base + map[i]], t->counts, i);
                kv_table_symbols(&t->table[base + map[i]], t->symbols[base + map[i]]);
        }
}
