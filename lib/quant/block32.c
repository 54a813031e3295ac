/* SPDX-License-Identifier: MIT */
/* Types with blocks of 32 values. Nibbles: byte j holds value j in its low half and value j + 16 in
 * its high half. Where values have a fifth bit, bit j of a 32-bit word belongs to value j. */
#include "quant/blocks.h"
#include <string.h>

#define BLOCK 32

const int8_t quant_iq4_values[16] = {
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t quant_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float quant_mxfp4_scale(uint8_t e) {
        uint32_t bits = e < 2 ? UINT32_C(0x200000) << e : (uint32_t)(e - 1) << 23;
        float d;

        memcpy(&d, &bits, sizeof(d));
        return d;
}

static void nibbles(const uint8_t *src, int zero, int8_t *q) {
        for (int j = 0; j < BLOCK / 2; j++) {
                q[j] = (int8_t)((src[j] & 15) - zero);
                q[j + BLOCK / 2] = (int8_t)((src[j] >> 4) - zero);
        }
}

/* Nibbles @low with the fifth bits @high. */
static void five_bits(const uint8_t *low, const uint8_t *high, int zero, int8_t *q) {
        nibbles(low, zero, q);
        for (int j = 0; j < BLOCK; j++)
                if (high[j / 8] >> j % 8 & 1)
                        q[j] = (int8_t)(q[j] + 16);
}

static void codes(const uint8_t *src, const int8_t *values, int8_t *q) {
        for (int j = 0; j < BLOCK / 2; j++) {
                q[j] = values[src[j] & 15];
                q[j + BLOCK / 2] = values[src[j] >> 4];
        }
}

void quant_unpack_q4_0(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = 0;
        nibbles(src + 2, 8, ret->q);
}

void quant_unpack_q4_1(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = quant_f16_to_f32(quant_load_u16(src + 2));
        nibbles(src + 4, 0, ret->q);
}

void quant_unpack_q5_0(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = 0;
        five_bits(src + 6, src + 2, 16, ret->q);
}

void quant_unpack_q5_1(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = quant_f16_to_f32(quant_load_u16(src + 2));
        five_bits(src + 8, src + 4, 0, ret->q);
}

void quant_unpack_q8_0(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = 0;
        memcpy(ret->q, src + 2, BLOCK);
}

void quant_unpack_iq4_nl(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->m = 0;
        codes(src + 2, quant_iq4_values, ret->q);
}

void quant_unpack_mxfp4(const uint8_t *src, struct quant_block32 *ret) {
        ret->d = quant_mxfp4_scale(src[0]);
        ret->m = 0;
        codes(src + 1, quant_mxfp4_values, ret->q);
}
