/* SPDX-License-Identifier: MIT */
/* The 16-bit float formats: IEEE half (5 exponent bits) and bfloat16 (the upper half of a float32).
 * Integer arithmetic only, so that rounding mode and instruction set have no influence. */
#include "quant/quant.h"
#include <string.h>

static uint32_t bits_of(float f) {
        uint32_t u;

        memcpy(&u, &f, sizeof(u));
        return u;
}

static float from_bits(uint32_t u) {
        float f;

        memcpy(&f, &u, sizeof(f));
        return f;
}

float quant_f16_to_f32(uint16_t h) {
        uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1F, m = h & 0x3FF;

        if (exponent == 0x1F) /* inf; NaN becomes quiet */
                return from_bits(sign | 0x7F800000 | m << 13 | (m ? 0x400000 : 0));
        if (exponent == 0) { /* zero or subnormal: m * 2^-24, exact in float32 */
                float v = (float)m * 0x1p-24f;

                return sign ? -v : v;
        }
        return from_bits(sign | (exponent + 112) << 23 | m << 13);
}

/* @v >> @shift, rounded to nearest, ties to even; 1 <= shift <= 31 */
static uint32_t shift_round(uint32_t v, unsigned shift) {
        uint32_t half = 1u << (shift - 1), rest = v & ((1u << shift) - 1), q = v >> shift;

        return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t quant_f32_to_f16(float f) {
        uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7FFFFFFF, h;

        if (a > 0x7F800000) /* NaN: quiet, upper payload kept */
                h = 0x7E00 | (a >> 13 & 0x3FF);
        else if (a >= 0x47800000) /* 2^16 and above, inf */
                h = 0x7C00;
        else if (a >= 0x38800000) /* 2^-14: normal half; a carry into the exponent is right */
                h = shift_round(a - 0x38000000, 13);
        else if (a >= 0x33000000) /* 2^-25: subnormal half, in units of 2^-24 */
                h = shift_round((a & 0x7FFFFF) | 0x800000, 126 - (a >> 23));
        else
                h = 0;
        return (uint16_t)(sign | h);
}

float quant_bf16_to_f32(uint16_t h) {
        return from_bits((uint32_t)h << 16);
}

uint16_t quant_f32_to_bf16(float f) {
        uint32_t u = bits_of(f);

        if ((u & 0x7FFFFFFF) > 0x7F800000)
                return (uint16_t)(u >> 16 | 0x40);
        return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
