/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to lib/quant: the functions that take a block apart, one per type. */
#include "quant/quant.h"

static inline uint16_t quant_load_u16(const uint8_t *p) {
        return (uint16_t)(p[0] | p[1] << 8);
}

/* block32.c */
void quant_unpack_q4_0(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_q4_1(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_q5_0(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_q5_1(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_q8_0(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_iq4_nl(const uint8_t *src, struct quant_block32 *ret);
void quant_unpack_mxfp4(const uint8_t *src, struct quant_block32 *ret);

/* block256.c */
void quant_unpack_q2_k(const uint8_t *src, struct quant_block256 *ret);
void quant_unpack_q3_k(const uint8_t *src, struct quant_block256 *ret);
void quant_unpack_q4_k(const uint8_t *src, struct quant_block256 *ret);
void quant_unpack_q5_k(const uint8_t *src, struct quant_block256 *ret);
void quant_unpack_q6_k(const uint8_t *src, struct quant_block256 *ret);
void quant_unpack_iq4_xs(const uint8_t *src, struct quant_block256 *ret);
