/* SPDX-License-Identifier: MIT */
#pragma once
/* Blocks of 32 weights: how a type keeps its values. Shared by the instruction sets. */
#include "kern/kern-isa.h"
#include <string.h>

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
        unsigned shift; /* else adding 1 << shift makes them unsigned */
};
#define BLOCK_Q4_0                                                                                 \
        { 18, FORM_NIBBLES, false, 3 }
#define BLOCK_Q8_0                                                                                 \
        { 34, FORM_BYTES, false, 7 }
/* Name, type, kind. Scales (and offsets) come first in a block, values last. */
#define BLOCK_KINDS(X)                                                                             \
        X(q4_0, QUANT_Q4_0, BLOCK_Q4_0)                                                            \
        X(q4_1, QUANT_Q4_1, {20, FORM_NIBBLES, true, 0})                                           \
        X(q5_0, QUANT_Q5_0, {22, FORM_FIVE, false, 4})                                             \
        X(q5_1, QUANT_Q5_1, {24, FORM_FIVE, true, 0})                                              \
        X(q8_0, QUANT_Q8_0, BLOCK_Q8_0)                                                            \
        X(iq4_nl, QUANT_IQ4_NL, {18, FORM_IQ4, false, 7})                                          \
        X(mxfp4, QUANT_MXFP4, {17, FORM_MXFP4, false, 4})
#define BLOCK_SIZE_MAX 34

/* Where the values of a block begin. */
KERN_INLINE size_t values_at(const struct block_kind kind) {
        return kind.size - (kind.form == FORM_BYTES ? 32 : 16);
}

KERN_INLINE uint32_t fifth_bits(const struct block_kind kind, const uint8_t *w) {
        uint32_t bits;

        memcpy(&bits, w + values_at(kind) - sizeof(bits), sizeof(bits));
        return bits;
}
