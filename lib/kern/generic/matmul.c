/* SPDX-License-Identifier: MIT */
/*
 * Matrix products: these functions define the results. Activations for block-quantised weights are
 * laid out plainly: per token the scales of all blocks (rounded up to 8), then the int8 values.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

#define Q8_0_SIZE 34
#define Q4_0_SIZE 18

static uint16_t load_u16(const uint8_t *p) {
        uint16_t v;

        memcpy(&v, p, sizeof(v));
        return v;
}

static float load_f32(const uint8_t *p) {
        float v;

        memcpy(&v, p, sizeof(v));
        return v;
}

static float dot_f32(const uint8_t *w, const float *x, size_t n) {
        float acc[16] = {0};

        for (size_t i = 0; i < n; i += 16)
                for (size_t l = 0; l < 16; l++)
                        acc[l] = i + l < n ? fmaf(load_f32(w + 4 * (i + l)), x[i + l], acc[l])
                                           : fmaf(0, 0, acc[l]);
        return kern_tree16(acc);
}

static float dot_f16(const uint8_t *w, const float *x, size_t n) {
        float acc[16] = {0};

        for (size_t i = 0; i < n; i += 16)
                for (size_t l = 0; l < 16; l++)
                        acc[l] = i + l < n ? fmaf(quant_f16_to_f32(load_u16(w + 2 * (i + l))),
                                                     x[i + l], acc[l])
                                           : fmaf(0, 0, acc[l]);
        return kern_tree16(acc);
}

static float dot_bf16(const uint8_t *w, const float *x, size_t n) {
        float acc[16] = {0};

        for (size_t i = 0; i < n; i += 16)
                for (size_t l = 0; l < 16; l++)
                        acc[l] = i + l < n ? fmaf(quant_bf16_to_f32(load_u16(w + 2 * (i + l))),
                                                     x[i + l], acc[l])
                                           : fmaf(0, 0, acc[l]);
        return kern_tree16(acc);
}

static void matmul_float(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy, float (*dot)(const uint8_t *, const float *, size_t)) {
        const uint8_t *data = w->data;

        for (size_t o = row0; o < row1; o++)
                for (size_t t = 0; t < a->n_tokens; t++)
                        y[t * ldy + o] = dot(data + o * w->row_size, a->x + t * a->ldx, w->n_in);
}

static void matmul_f32(const struct kern_mat *w, const struct kern_act *a, size_t row0, size_t row1,
        float *y, size_t ldy) {
        matmul_float(w, a, row0, row1, y, ldy, dot_f32);
}

static void matmul_f16(const struct kern_mat *w, const struct kern_act *a, size_t row0, size_t row1,
        float *y, size_t ldy) {
        matmul_float(w, a, row0, row1, y, ldy, dot_f16);
}

static void matmul_bf16(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy) {
        matmul_float(w, a, row0, row1, y, ldy, dot_bf16);
}

static float round_block(const float *x, int8_t *q) {
        uint32_t amax = 0;
        float d, id;

        /* Without their signs floats are ordered like integers, NaN above infinity. */
        for (int i = 0; i < KERN_ACT_BLOCK; i++) {
                uint32_t u = kern_bits(x[i]) & 0x7fffffff;

                amax = u > amax ? u : amax;
        }
        d = kern_from_bits(amax) / 127;
        id = 1 / d;
        if (!(d > 0 && d < INFINITY && id < INFINITY)) {
                memset(q, 0, KERN_ACT_BLOCK);
                return d;
        }
        for (int i = 0; i < KERN_ACT_BLOCK; i++) {
                /* Adding 1.5 * 2^23 rounds to the nearest even integer. */
                float r = (x[i] * id + KERN_EXP_MAGIC) - KERN_EXP_MAGIC;

                q[i] = (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
        }
        return d;
}

static void act_round(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_BLOCK;
        size_t t0 = unit * KERN_ACT_UNIT, t1 = t0 + KERN_ACT_UNIT;

        for (size_t t = t0; t < t1 && t < a->n_tokens; t++, dst += a->quantised_row_size) {
                float *d = (float *)dst;
                int8_t *q = (int8_t *)(d + kern_act_n_blocks8(a->n_in));

                for (size_t b = 0; b < n_blocks; b++)
                        d[b] = round_block(
                                a->x + t * a->ldx + b * KERN_ACT_BLOCK, q + b * KERN_ACT_BLOCK);
        }
}

static int32_t isum_q8_0(const uint8_t *w, const int8_t *q) {
        int32_t sum = 0;

        for (int j = 0; j < KERN_ACT_BLOCK; j++)
                sum += (int8_t)w[2 + j] * q[j];
        return sum;
}

static int32_t isum_q4_0(const uint8_t *w, const int8_t *q) {
        int32_t sum = 0;

        for (int j = 0; j < KERN_ACT_BLOCK / 2; j++) {
                sum += ((w[2 + j] & 15) - 8) * q[j];
                sum += ((w[2 + j] >> 4) - 8) * q[j + KERN_ACT_BLOCK / 2];
        }
        return sum;
}

static void matmul_block(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy, size_t block_size,
        int32_t (*isum)(const uint8_t *w, const int8_t *q)) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK;

        for (size_t t = 0; t < a->n_tokens; t++) {
                const float *d =
                        (const float *)((const uint8_t *)a->quantised + t * a->quantised_row_size);
                const int8_t *q = (const int8_t *)(d + kern_act_n_blocks8(a->n_in));

                for (size_t o = row0; o < row1; o++) {
                        const uint8_t *wb = (const uint8_t *)w->data + o * w->row_size;
                        float acc[8] = {0};

                        for (size_t b = 0; b < n_blocks; b++, wb += block_size)
                                acc[b % 8] = fmaf((float)isum(wb, q + b * KERN_ACT_BLOCK),
                                        quant_f16_to_f32(load_u16(wb)) * d[b], acc[b % 8]);
                        y[t * ldy + o] = kern_tree8(acc);
                }
        }
}

static void matmul_q8_0(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy) {
        matmul_block(w, a, row0, row1, y, ldy, Q8_0_SIZE, isum_q8_0);
}

static void matmul_q4_0(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy) {
        matmul_block(w, a, row0, row1, y, ldy, Q4_0_SIZE, isum_q4_0);
}

void kern_generic_matmul(struct kern_ops *ops) {
        ops->matmul_f32 = matmul_f32;
        ops->matmul_f16 = matmul_f16;
        ops->matmul_bf16 = matmul_bf16;
        ops->matmul_q8_0 = matmul_q8_0;
        ops->matmul_q4_0 = matmul_q4_0;
        ops->act_round = act_round;
}
