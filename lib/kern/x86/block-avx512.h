/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of rounded activations for AVX-512. A unit of more than ROWS_MAX tokens is packed: a
 * lane is a token. In other units a lane is a block.
 *
 * rows: per token, per 8 blocks: 4 registers of int8 (low halves of blocks 0-3, high halves of 0-3,
 * low of 4-7, high of 4-7), 16 scales, 16 sums of int8 (both in the order of group_lane()).
 * packed: per block: 8 registers of int8 (register k: values 4k..4k+3 of each token), 16 scales,
 * 16 sums of int8 (of the tokens).
 * Missing blocks (to fill the 8) and tokens (to fill the 16) are zero.
 */
#include "kern/x86/avx512.h"

#define ROWS_MAX 8
#define GROUP_SIZE 384
#define GROUP_SCALES 256
#define GROUP_SUMS 320
#define PACKED_SIZE 640
#define PACKED_SCALES 512
#define PACKED_SUMS 576

/* Lane l of a group product belongs to this block; lanes 2 and 3 of each 4 are of a second row. */
static inline unsigned group_lane(unsigned l) {
        return l / 4 + l % 2 * 4;
}

static inline bool unit_is_packed(const struct kern_act *a, size_t unit) {
        return a->n_tokens - unit * KERN_ACT_UNIT > ROWS_MAX;
}

/* How a block of weights holds its values. */
enum block_form {
        FORM_BYTES,   /* int8 */
        FORM_NIBBLES, /* value j in the low half of byte j, j + 16 in the high half */
        FORM_FIVE,    /* nibbles, and a word of the fifth bits before them */
        FORM_IQ4,     /* nibbles are codes of quant_iq4_values */
        FORM_MXFP4,   /* of quant_mxfp4_values; the scale is a byte */
};
struct block_kind {
        size_t size;
        enum block_form form;
        bool min;       /* a block has an offset, and values are unsigned as they are; */
        unsigned shift; /* else 1 << shift makes them unsigned */
};
/* name, type, kind. Scales (and offsets) come first, values last. */
#define BLOCK_KINDS(X)                                                                             \
        X(q4_0, QUANT_Q4_0, {18, FORM_NIBBLES, false, 3})                                          \
        X(q4_1, QUANT_Q4_1, {20, FORM_NIBBLES, true, 0})                                           \
        X(q5_0, QUANT_Q5_0, {22, FORM_FIVE, false, 4})                                             \
        X(q5_1, QUANT_Q5_1, {24, FORM_FIVE, true, 0})                                              \
        X(q8_0, QUANT_Q8_0, {34, FORM_BYTES, false, 7})                                            \
        X(iq4_nl, QUANT_IQ4_NL, {18, FORM_IQ4, false, 7})                                          \
        X(mxfp4, QUANT_MXFP4, {17, FORM_MXFP4, false, 4})

/* Where the values of a block begin. */
static inline size_t values_at(const struct block_kind kind) {
        return kind.size - (kind.form == FORM_BYTES ? 32 : 16);
}

static inline uint32_t fifth_bits(const struct block_kind kind, const uint8_t *w) {
        uint32_t bits;

        memcpy(&bits, w + values_at(kind) - sizeof(bits), sizeof(bits));
        return bits;
}

/* The 16 values of the codes, made unsigned. */
static inline __m128i block_codes(const struct block_kind kind) {
        const int8_t *values = kind.form == FORM_IQ4 ? quant_iq4_values : quant_mxfp4_values;

        return _mm_add_epi8(
                _mm_loadu_si128((const __m128i *)values), _mm_set1_epi8((char)(1 << kind.shift)));
}

void kern_avx512_act_round(const struct kern_act *a, size_t unit, uint8_t *dst);
/* The first n_units units, which must be packed. */
#define X(name, type, ...)                                                                         \
        void kern_avx512_packed_##name(const struct kern_mat *w, const struct kern_act *a,         \
                size_t row0, size_t row1, float *y, size_t ldy, size_t n_units);
BLOCK_KINDS(X)
#undef X
