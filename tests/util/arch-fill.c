/* SPDX-License-Identifier: MIT */
#include "util/arch-fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "quant/quant.h"
#include "util/noise.h"

/* Where a block has its scale and the factor of its minimums, both f16 (-1: none), and which factor
 * puts the mean at 0 when the scale is 1. MXFP4 has an exponent in its first byte. */
static const struct layout {
        uint32_t type; /* the file format's number */
        int scale, min;
        float factor;
} layouts[] = {
        {2, 0, -1, 0.0f},     /* Q4_0 */
        {3, 0, 2, -7.5f},     /* Q4_1 */
        {6, 0, -1, 0.0f},     /* Q5_0 */
        {7, 0, 2, -15.5f},    /* Q5_1 */
        {8, 0, -1, 0.0f},     /* Q8_0 */
        {10, 80, 82, 1.5f},   /* Q2_K */
        {11, 108, -1, 0.0f},  /* Q3_K */
        {12, 0, 2, 7.5f},     /* Q4_K */
        {13, 0, 2, 15.5f},    /* Q5_K */
        {14, 208, -1, 0.0f},  /* Q6_K */
        {20, 0, -1, 0.0f},    /* IQ4_NL */
        {23, 0, -1, 0.0f},    /* IQ4_XS */
        {39, -1, -1, 127.0f}, /* MXFP4 */
};

static void set_scale(const struct layout *l, uint8_t *block, float scale) {
        uint16_t half = quant_f32_to_f16(scale);

        if (l->scale < 0) {
                block[0] = (uint8_t)(l->factor + roundf(log2f(scale)));
                return;
        }
        memcpy(block + l->scale, &half, sizeof(half));
        half = quant_f32_to_f16(scale * l->factor);
        if (l->min >= 0)
                memcpy(block + l->min, &half, sizeof(half));
}

void arch_fill_blocks(
        uint64_t *state, uint32_t type, uint8_t *data, size_t n_blocks, float deviation) {
        const struct quant_info *info = quant_info(type);
        const struct layout *l = layouts;
        float x[256], sum = 0.0f;
        size_t n = 0;

        while (l->type != type)
                if (++l == layouts + ARRAY_SIZE(layouts))
                        abort(); /* a type that is new to the table */
        for (size_t i = 0; i < n_blocks * info->block_size; i++)
                data[i] = (uint8_t)(noise_bits(state) >> 32);
        for (size_t b = 0; b < n_blocks && n < 4096; b++) {
                set_scale(l, data + b * info->block_size, 1.0f);
                quant_dequantize(type, data + b * info->block_size, x, info->block_values);
                for (uint32_t i = 0; i < info->block_values; i++, n++)
                        sum += x[i] * x[i];
        }
        for (size_t b = 0; b < n_blocks; b++)
                set_scale(l, data + b * info->block_size, deviation / sqrtf(sum / (float)n));
}
