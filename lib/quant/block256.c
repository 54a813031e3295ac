/* SPDX-License-Identifier: MIT */
/*
 * Types with blocks of 256 values. Below, i is the index of a value and g = i/16 its group.
 * Sub-blocks of 32 values have two groups with the same scale.
 */
#include "quant/blocks.h"
#include <string.h>

#define BLOCK 256
#define N_GROUPS 16

static void no_mins(struct quant_block256 *ret) {
        ret->dmin = 0;
        memset(ret->mins, 0, sizeof(ret->mins));
}

/* Two bits of each value: byte half*32 + i%32 has those of four values, 32 apart. */
static int two_bits(const uint8_t *src, int i) {
        return src[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* Nibbles of sub-blocks of 32 in pairs: the low halves of 32 bytes, then their high halves. */
static int nibble(const uint8_t *src, int i) {
        return src[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void quant_unpack_q2_k(const uint8_t *src, struct quant_block256 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src + 80));
        ret->dmin = quant_f16_to_f32(quant_load_u16(src + 82));
        for (int g = 0; g < N_GROUPS; g++) {
                ret->scales[g] = src[g] & 15;
                ret->mins[g] = src[g] >> 4;
        }
        for (int i = 0; i < BLOCK; i++)
                ret->q[i] = (int8_t)two_bits(src + 16, i);
}

void quant_unpack_q3_k(const uint8_t *src, struct quant_block256 *ret) {
        const uint8_t *high = src, *scales = src + 96;

        ret->d = quant_f16_to_f32(quant_load_u16(src + 108));
        no_mins(ret);
        for (int g = 0; g < N_GROUPS; g++) {
                int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;

                ret->scales[g] =
                        (int16_t)((low | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32);
        }
        for (int i = 0; i < BLOCK; i++)
                ret->q[i] = (int8_t)(two_bits(src + 32, i) - (high[i % 32] >> i / 32 & 1 ? 0 : 4));
}

/* The six-bit scales and mins of Q4_K and Q5_K, one of each for 32 values, in 12 bytes. */
static void scales_and_mins(const uint8_t *p, struct quant_block256 *ret) {
        for (int g = 0; g < N_GROUPS; g++) {
                int s = g / 2;

                if (s < 4) {
                        ret->scales[g] = p[s] & 63;
                        ret->mins[g] = p[s + 4] & 63;
                } else {
                        ret->scales[g] = (int16_t)((p[s + 4] & 15) | p[s - 4] >> 6 << 4);
                        ret->mins[g] = (int16_t)(p[s + 4] >> 4 | p[s] >> 6 << 4);
                }
        }
}

void quant_unpack_q4_k(const uint8_t *src, struct quant_block256 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->dmin = quant_f16_to_f32(quant_load_u16(src + 2));
        scales_and_mins(src + 4, ret);
        for (int i = 0; i < BLOCK; i++)
                ret->q[i] = (int8_t)nibble(src + 16, i);
}

void quant_unpack_q5_k(const uint8_t *src, struct quant_block256 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src));
        ret->dmin = quant_f16_to_f32(quant_load_u16(src + 2));
        scales_and_mins(src + 4, ret);
        for (int i = 0; i < BLOCK; i++)
                ret->q[i] = (int8_t)(nibble(src + 48, i) | (src[16 + i % 32] >> i / 32 & 1) << 4);
}

void quant_unpack_q6_k(const uint8_t *src, struct quant_block256 *ret) {
        ret->d = quant_f16_to_f32(quant_load_u16(src + 208));
        no_mins(ret);
        for (int g = 0; g < N_GROUPS; g++)
                ret->scales[g] = (int8_t)src[192 + g];
        for (int i = 0; i < BLOCK; i++) {
                /* of each half: 32 values, 32 more, the high nibbles of both */
                int part = i % 128 / 32;
                int low = src[i / 128 * 64 + part % 2 * 32 + i % 32] >> part / 2 * 4 & 15;

                ret->q[i] = (int8_t)((low | two_bits(src + 128, i) << 4) - 32);
        }
}

void quant_unpack_iq4_xs(const uint8_t *src, struct quant_block256 *ret) {
        unsigned high = quant_load_u16(src + 2);

        ret->d = quant_f16_to_f32(quant_load_u16(src));
        no_mins(ret);
        for (int g = 0; g < N_GROUPS; g++) {
                int s = g / 2, low = src[4 + s / 2] >> s % 2 * 4 & 15;

                ret->scales[g] = (int16_t)((low | (int)(high >> 2 * s & 3) << 4) - 32);
        }
        for (int i = 0; i < BLOCK; i++)
                ret->q[i] = quant_iq4_values[src[8 + i / 32 * 16 + i % 16] >> i % 32 / 16 * 4 & 15];
}
