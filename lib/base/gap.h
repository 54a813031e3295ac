/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Two lists of tokens of one conversation, and how places in them correspond.
 *
 *      transcript   0 ──────── from ≡≡≡≡≡≡≡≡≡≡ to ──────────── end      everything that was said
 *      memory       0 ──────── from ──────────── end - (to - from)      what the model computes from
 *
 * The memory leaves out at most one stretch of the transcript, the gap [from, to). Turns, and all
 * places that clients name, count in transcript tokens. Blocks, chained hashes, spill records and
 * everything else that deals with the model count in memory tokens, which are a list without a gap.
 * Without a gap both lists are the same, and a place is the same number in both.
 *
 * Pure functions; any thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"

struct gap {
        uint32_t from, to; /* transcript tokens [from, to); none: from == to */
};

static inline uint32_t gap_size(const struct gap *g) {
        return g->to - g->from;
}
static inline bool gap_is_none(const struct gap *g) {
        return g->from == g->to;
}
static inline bool gap_equal(const struct gap *a, const struct gap *b) {
        return (a->from == b->from && a->to == b->to) || (gap_is_none(a) && gap_is_none(b));
}
/* Is [from, to) possible in a transcript of @n tokens? */
static inline bool gap_is_possible(const struct gap *g, uint32_t n) {
        return g->from <= g->to && g->to <= n;
}

/* How many memory tokens stand before transcript place @pos. */
static inline uint32_t gap_to_memory(const struct gap *g, uint32_t pos) {
        return pos <= g->from ? pos : pos <= g->to ? g->from : pos - gap_size(g);
}
/* The transcript place of memory token @pos. */
static inline uint32_t gap_to_transcript(const struct gap *g, uint32_t pos) {
        return pos < g->from ? pos : pos + gap_size(g);
}
/* The gap that is left of @g if the transcript ends at @n and nothing is computed again. */
static inline struct gap gap_cut(const struct gap *g, uint32_t n) {
        return n <= g->from ? (struct gap){0, 0} : (struct gap){g->from, MIN(g->to, n)};
}
/* Two memories of one transcript, of @n_a tokens with gap @a, and of @n_b with gap @b: this many
 * tokens from the beginning are the same tokens of the transcript in both. */
static inline uint32_t gap_common(
        const struct gap *a, uint32_t n_a, const struct gap *b, uint32_t n_b) {
        uint32_t n = MIN(n_a, n_b);

        if (gap_equal(a, b))
                return n;
        if (!gap_is_none(a))
                n = MIN(n, a->from);
        return gap_is_none(b) ? n : MIN(n, b->from);
}

/* The tokens of a conversation; borrowed. */
struct transcript {
        const int32_t *memory;  /* in memory order */
        const int32_t *dropped; /* [gap_size()]: those of the gap */
        struct gap gap;
};

static inline int32_t transcript_token(const struct transcript *t, uint32_t pos) {
        if (pos < t->gap.from)
                return t->memory[pos];
        return pos < t->gap.to ? t->dropped[pos - t->gap.from] : t->memory[pos - gap_size(&t->gap)];
}
/* Copy tokens [@from, @to) of the transcript. */
static inline void transcript_copy(
        const struct transcript *t, uint32_t from, uint32_t to, int32_t *out) {
        for (uint32_t pos = from; pos < to; pos++)
                *out++ = transcript_token(t, pos);
}
/* Copy the memory of the first @n transcript tokens under gap @g. Returns the number of tokens. */
static inline uint32_t transcript_memory(
        const struct transcript *t, uint32_t n, const struct gap *g, int32_t *out) {
        if (gap_is_none(g)) {
                transcript_copy(t, 0, n, out);
                return n;
        }
        transcript_copy(t, 0, MIN(g->from, n), out);
        if (n > g->to)
                transcript_copy(t, g->to, n, out + g->from);
        return gap_to_memory(g, n);
}
