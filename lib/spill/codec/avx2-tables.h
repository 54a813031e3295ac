/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Permutations of 8 lanes for each set m of lanes.
 *
 * expand_words: for _mm_shuffle_epi8(), of 8 words to 8 lanes of a word: each lane of the set gets
 * the next word, the others 0. pack_words: the other way, the words of the lanes of the set in order,
 * so that the last of them stands at place 7; what stands before the first does not matter.
 */
#include <stdint.h>

// clang-format off
#define LANE(m, l)                                                                                 \
        (m) >> (l) & 1 ? 2 * __builtin_popcount((m) & ((1 << (l)) - 1)) : 0x80,                    \
        (m) >> (l) & 1 ? 2 * __builtin_popcount((m) & ((1 << (l)) - 1)) + 1 : 0x80
#define LANES4(m, l) LANE(m, l), LANE(m, l + 1), LANE(m, l + 2), LANE(m, l + 3)
#define SET(m) {LANES4(m, 0), LANES4(m, 4)}
#define SETS4(m) SET(m), SET((m) + 1), SET((m) + 2), SET((m) + 3)
#define SETS16(m) SETS4(m), SETS4((m) + 4), SETS4((m) + 8), SETS4((m) + 12)
#define SETS64(m) SETS16(m), SETS16((m) + 16), SETS16((m) + 32), SETS16((m) + 48)
static const uint8_t expand_words[256][16] __attribute__((aligned(16))) = {
        SETS64(0), SETS64(64), SETS64(128), SETS64(192)};
#undef SETS64
#undef SETS16
#undef SETS4
#undef SET
#undef LANES4
#undef LANE

/* The lane that goes to a place, if the set has one for it. */
#define AT(m, p, l)                                                                                \
        ((m) >> (l)&1 && __builtin_popcount((m) >> (l) >> 1) == 7 - (p) ? 2 * (l) : 0)
#define FROM(m, p)                                                                                 \
        (AT(m, p, 0) | AT(m, p, 1) | AT(m, p, 2) | AT(m, p, 3) | AT(m, p, 4) | AT(m, p, 5) |       \
                AT(m, p, 6) | AT(m, p, 7))
#define PLACE(m, p) FROM(m, p), FROM(m, p) + 1
#define SET(m)                                                                                     \
        {PLACE(m, 0), PLACE(m, 1), PLACE(m, 2), PLACE(m, 3), PLACE(m, 4), PLACE(m, 5),             \
                PLACE(m, 6), PLACE(m, 7)}
#define SETS64(m) SETS16(m), SETS16((m) + 16), SETS16((m) + 32), SETS16((m) + 48)
#define SETS16(m) SETS4(m), SETS4((m) + 4), SETS4((m) + 8), SETS4((m) + 12)
#define SETS4(m) SET(m), SET((m) + 1), SET((m) + 2), SET((m) + 3)
static const uint8_t pack_words[256][16] __attribute__((aligned(16))) = {
        SETS64(0), SETS64(64), SETS64(128), SETS64(192)};
#undef SETS4
#undef SETS16
#undef SETS64
#undef SET
#undef PLACE
#undef FROM
#undef AT
// clang-format on
