/* SPDX-License-Identifier: MIT */
/*
 * Decides which table codes which channel. The section tells the decoder, so this is the encoder's
 * choice alone and can improve without a new format.
 *
 * The classes are learned from a sample of 64 to 128 channels by Lloyd's clustering: begin with
 * classes by sign and size, make a table from each class, assign each channel the table that codes
 * it in the fewest bits, repeat. Then every channel of the section is assigned once, and the final
 * tables count all values.
 */
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/spill.h"

enum { ROUNDS = 2, TURN = 8 /* channels that are counted in turn */ };

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
 * logarithm that a float's bits are when read as a number, in 1/32 bit. Below 2^11. Classes that are not
 * used cost most. */
static inline uint32_t log_total(uint32_t total) {
        return log_bits(total > 0 ? total : UINT32_C(1) << 30);
}

static void make_costs(struct kv_encoder_tables *t) {
        uint32_t total[KV_CLASSES] = {0};

        for (unsigned s = 0; s < 256; s++)
                for (unsigned k = 0; k < KV_CLASSES; k++)
                        total[k] += t->sample_counts[s][k];
        for (unsigned k = 0; k < KV_CLASSES; k++)
                total[k] = log_total(total[k]);
        for (unsigned s = 0; s < 256; s++)
                for (unsigned k = 0; k < KV_CLASSES; k++)
                        t->cost[s][k] =
                                (uint16_t)((total[k] - log_bits(t->sample_counts[s][k])) >> 18);
}

/* Values of one channel after another would be counted in the same few places, each addition
 * waiting for the last one; so the channels take turns. */
static void count_sample(struct kv_encoder_tables *t, size_t n) {
        memset(t->sample_counts, 0, sizeof(t->sample_counts));
        for (size_t i = 0; i < KV_SAMPLE_TOKENS; i++)
                for (size_t c = 0; c < n; c++)
                        if (i < t->sample_tokens[c])
                                t->sample_counts[t->sample[c][i]][t->sample_class[c]]++;
}

/* The sample as tiles of one channel each. */
static void learn(struct kv_encoder *e, size_t n) {
        struct kv_encoder_tables *t = e->tables;

        for (unsigned round = 0; round < ROUNDS; round++) {
                count_sample(t, n);
                make_costs(t);
                if (round == ROUNDS - 1)
                        break;
                for (size_t c = 0; c < n; c++) {
                        const struct kv_tile tile = {t->sample[c], 1, t->sample_tokens[c], true};

                        e->kernels->choose(t->cost, &tile, &t->sample_class[c]);
                }
        }
}

/* As with the sample: in channel-major tiles some channels take turns. And neighbours are counted in
 * two halves. */
static void count_tile(
        struct kv_encoder_tables *t, const struct kv_tile *tile, const kv_place *places) {
        size_t n = tile->n_channels * tile->n_tokens, tokens = tile->n_tokens, from = 0;
        uint32_t *restrict even = &t->counts[0][0], *restrict odd = &t->more_counts[0][0];

        for (; tile->channel_major && n - from >= TURN * tokens; from += TURN * tokens)
                for (size_t i = from; i < from + tokens; i++)
                        for (size_t c = 0; c < TURN; c += 2) {
                                even[places[i + c * tokens]]++;
                                odd[places[i + (c + 1) * tokens]]++;
                        }
        for (; n - from >= 4; from += 4) {
                even[places[from]]++;
                odd[places[from + 1]]++;
                even[places[from + 2]]++;
                odd[places[from + 3]]++;
        }
        for (; from < n; from++)
                even[places[from]]++;
}

static void choose(struct kv_encoder *e, enum kv_kind kind) {
        const uint8_t *symbols = e->symbols;
        uint8_t *classes = e->classes;
        kv_place *places = e->places;
        unsigned first = kind * KV_CLASSES;
        struct kv_view v;

        memset(e->tables->counts[first], 0, KV_CLASSES * sizeof(*e->tables->counts));
        memset(e->tables->more_counts[first], 0, KV_CLASSES * sizeof(*e->tables->more_counts));
        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                for (size_t t = 0; t < v.n_tiles; t++) {
                        const struct kv_tile tile = {
                                symbols, v.n_channels, v.n_tokens, v.channel_major};

                        if (v.kind == kind) {
                                e->kernels->choose(e->tables->cost, &tile, classes);
                                e->kernels->places(&tile, classes, first << 8, places);
                                count_tile(e->tables, &tile, places);
                        }
                        symbols += v.tile;
                        places += v.tile;
                        classes += v.n_channels;
                }
        }
        for (unsigned k = first; k < first + KV_CLASSES; k++)
                for (unsigned s = 0; s < 256; s++)
                        e->tables->counts[k][s] += e->tables->more_counts[k][s];
}

/* Which classes have values, how many of each, and their numbers without gaps. */
static void number(struct kv_encoder *e, enum kv_kind kind, uint32_t total[KV_CLASSES]) {
        unsigned n = 0;

        for (unsigned k = 0; k < KV_CLASSES; k++) {
                const uint32_t *counts = e->tables->counts[kind * KV_CLASSES + k];

                total[k] = 0;
                for (unsigned s = 0; s < 256; s++)
                        total[k] += counts[s];
                e->used[kind][k] = total[k] > 0;
                e->number[kind][k] = (uint8_t)n;
                n += total[k] > 0;
        }
        e->n_tables[kind] = n;
}

/* Whether coding costs fewer bits than the symbols have, by an amount that is worth the time. */
static bool gains(const struct kv_encoder *e, enum kv_kind kind, size_t n_values,
        const uint32_t total[KV_CLASSES]) {
        uint64_t cost = 0;

        for (unsigned k = 0; k < KV_CLASSES; k++) {
                const uint32_t *counts = e->tables->counts[kind * KV_CLASSES + k];
                uint32_t log = log_total(total[k]);

                for (unsigned s = 0; s < 256; s++)
                        cost += (uint64_t)counts[s] * ((log - log_bits(counts[s])) >> 18);
        }
        return cost / 32 < (uint64_t)n_values * 8 - n_values / (kind == KV_I8 ? 4 : 8);
}

void kv_classify(struct kv_encoder *e, enum kv_kind kind) {
        size_t n_values, n_channels = count_channels(e, kind, &n_values), n;
        struct kv_encoder_tables *t = e->tables;
        uint32_t total[KV_CLASSES];
        unsigned k;

        e->n_tables[kind] = 0;
        if (n_values == 0)
                return;
        n = MAX(MIN(n_channels / 8, (size_t)KV_SAMPLE_CHANNELS), (size_t)64);
        n = take_sample(e, kind, (n_channels + n - 1) / n);
        k = count_classes(kind, n_channels, n_values);
        guess_classes(t, kind, n, k);
        learn(e, n);
        choose(e, kind);
        number(e, kind, total);
        if (!gains(e, kind, n_values, total)) {
                e->n_tables[kind] = 0;
                return;
        }
        for (unsigned i = kind * KV_CLASSES; i < (kind + 1) * KV_CLASSES; i++) {
                if (!e->used[kind][i % KV_CLASSES])
                        continue;
                kv_table_from_counts(&t->table[i], t->counts[i]);
                kv_table_codes(&t->table[i], t->info[i], t->rcp[i]);
        }
}
