/* SPDX-License-Identifier: MIT */
#pragma once
/* Sections for the tests of the codecs: layouts of all sorts, and data like and unlike KV memory.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec.h"
#include "spill/spill.h"

enum { MAX_ARRAYS = 24 };

struct section {
        const char *name;
        size_t n; /* bytes */
        struct spill_array arrays[MAX_ARRAYS];
        size_t n_arrays;
};

static inline uint64_t next_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static inline size_t element_size(enum spill_element e) {
        return e == SPILL_F32 ? 4 : e == SPILL_F16 ? 2 : 1;
}

/* Append an array behind @gap plain bytes. */
static inline void section_add(struct section *s, enum spill_element element, size_t gap,
        uint32_t n_tiles, uint32_t n_channels, uint32_t n_tokens, bool channel_major) {
        struct spill_array *a = &s->arrays[s->n_arrays++];

        *a = (struct spill_array){.element = element,
                .offset = s->n + gap,
                .n_tiles = n_tiles,
                .n_channels = n_channels,
                .n_tokens = n_tokens,
                .channel_major = channel_major};
        s->n += gap + element_size(element) * n_tiles * n_channels * n_tokens;
}

/* The layers of a model with f16 or f32 memory, keys and values. */
static inline struct section section_model(const char *name, enum spill_element e,
        uint32_t n_layers, uint32_t n_heads, uint32_t head_dim, uint32_t n_tokens) {
        struct section s = {.name = name};

        for (uint32_t i = 0; i < n_layers; i++) {
                section_add(&s, e, (64 - s.n % 64) % 64, n_heads, head_dim, n_tokens, true);
                section_add(&s, e, (64 - s.n % 64) % 64, n_heads, head_dim, n_tokens, false);
        }
        s.n += 7;
        return s;
}

/* With q8_0 memory. */
static inline struct section section_q8(
        const char *name, uint32_t n_layers, uint32_t n_heads, uint32_t head_dim) {
        struct section s = {.name = name};

        for (uint32_t i = 0; i < n_layers; i++) {
                section_add(&s, SPILL_I8, 0, n_heads, head_dim, 32, true);
                section_add(&s, SPILL_F16, 0, n_heads, head_dim / 32, 32, true);
                section_add(&s, SPILL_I8, 0, n_heads, head_dim, 32, false);
                section_add(&s, SPILL_F16, 0, n_heads, head_dim / 32, 32, false);
        }
        return s;
}

/* Odd numbers, gaps, all kinds beside each other. */
static inline struct section section_odd(const char *name, uint64_t seed) {
        struct section s = {.name = name};
        size_t n = 1 + next_random(&seed) % 9;

        for (size_t i = 0; i < n; i++) {
                uint64_t r = next_random(&seed);

                section_add(&s, (enum spill_element)(r & 3), (r >> 2) % 3 * ((r >> 8) % 99),
                        (r >> 16) % 4, (r >> 24) % 70, (r >> 32) % 50, r >> 63);
        }
        s.n += next_random(&seed) % 90;
        return s;
}

enum data { DATA_LIKE, DATA_TAIL, DATA_RANDOM, DATA_ZERO, DATA_CONSTANT, DATA_ODD, N_DATA };
static const char *const data_names[N_DATA] = {
        "like KV", "a tail", "random", "zeros", "constant", "NaN, infinite, denormal"};

/* A value like a channel's: exponent below that of the channel by how many coins fall. */
static inline uint32_t value_like(enum spill_element e, size_t channel, uint64_t r) {
        uint32_t coins = (uint32_t)__builtin_ctzll(r | 1 << 12),
                 sign = channel % 5 == 0 ? 0 : r >> 63;
        uint32_t exponent = 10 + (uint32_t)(channel * 7 % 6) - MIN(coins, 8u);

        if (e == SPILL_F16)
                return sign << 15 | exponent << 10 | (r >> 20 & 0x3ff);
        if (e == SPILL_F32)
                return sign << 31 | (exponent + 112) << 23 | (r >> 20 & 0x7fffff);
        return (uint32_t)((int)(r >> 20 & 31) - (int)(r >> 30 & 31) + (int)(r >> 40 & 15));
}

static inline void fill_array(
        const struct spill_array *a, enum data data, uint64_t *seed, uint8_t *block) {
        static const uint32_t odd16[] = {0x7c00, 0xfc00, 0x7e01, 0xffff, 0x8000, 0, 1, 0x83ff};
        size_t size = element_size(a->element), n_channels = a->n_channels, n_tokens = a->n_tokens;

        for (size_t i = 0; i < a->n_tiles * n_channels * n_tokens; i++) {
                size_t c = a->channel_major ? i / n_tokens % n_channels : i % n_channels;
                size_t t = a->channel_major ? i % n_tokens : i / n_channels % n_tokens;
                uint64_t r = next_random(seed);
                uint32_t v = value_like(a->element, c, r);

                if (data == DATA_TAIL && t > n_tokens / 3)
                        v = 0;
                if (data == DATA_ODD && a->element == SPILL_F16)
                        v = odd16[r >> 40 & 7];
                if (data == DATA_ODD && a->element == SPILL_F32)
                        v = odd16[r >> 40 & 7] << 16 | (r >> 50 & 1);
                memcpy(block + a->offset + i * size, &v, size);
        }
}

/* block[0 .. s->n) */
static inline void section_fill(
        const struct section *s, enum data data, uint64_t seed, uint8_t *block) {
        seed = seed * 2 + 1;
        for (size_t i = 0; i < s->n; i++)
                block[i] = data == DATA_ZERO       ? 0
                           : data == DATA_CONSTANT ? 0x3c
                                                   : (uint8_t)(next_random(&seed) >> 32);
        for (size_t i = 0; data != DATA_ZERO && data != DATA_CONSTANT && data != DATA_RANDOM &&
                           i < s->n_arrays;
                i++)
                fill_array(&s->arrays[i], data, &seed, block);
}

static inline void *scratch_new(size_t n) {
        return aligned_alloc(64, spill_codec_scratch_size(n));
}
