/* SPDX-License-Identifier: MIT */
#pragma once
/* Choosing classes with SSE 4.1, for each instruction set above it. */
#include <immintrin.h>

#include "spill/codec/kernels.h"

/* One lane per class. Channel by channel, so that the sums stay in a register; two of them, since an
 * addition waits for the one before. */
static void choose(
        const uint16_t cost[256][KV_CLASSES], const struct kv_tile *t, uint8_t *classes) {
        size_t n = t->n_tokens < KV_SUM_TOKENS ? t->n_tokens : KV_SUM_TOKENS;
        size_t step = t->channel_major ? 1 : t->n_channels;
        size_t next = t->channel_major ? t->n_tokens : 1;
        const uint8_t *channel = t->symbols;

        for (size_t c = 0; c < t->n_channels; c++, channel += next) {
                const uint8_t *s = channel;
                __m128i a = _mm_setzero_si128(), b = a;
                size_t i = 0;

                for (; n - i >= 2; i += 2, s += 2 * step) {
                        a = _mm_add_epi16(a, _mm_load_si128((const __m128i *)cost[s[0]]));
                        b = _mm_add_epi16(b, _mm_load_si128((const __m128i *)cost[s[step]]));
                }
                if (i < n)
                        a = _mm_add_epi16(a, _mm_load_si128((const __m128i *)cost[s[0]]));
                /* The least sum, and behind it the first class that has it. */
                a = _mm_minpos_epu16(_mm_add_epi16(a, b));
                classes[c] = (uint8_t)_mm_extract_epi16(a, 1);
        }
}
