/* SPDX-License-Identifier: MIT */
/*
 * Matrix products: these functions define the results. Weights in blocks are taken apart by the
 * type's function of lib/quant, so a type has no code here.
 *
 * Activations rounded in blocks of 32 are laid out plainly: per token the scales of all blocks
 * (rounded up to 8), the sums of their int8, then the int8.
 */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

#define N_TOKENS 16 /* for which a block is taken apart once */

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

/* Rounds a block of @n values; returns its scale. */
static float round_block(const float *x, int n, int8_t *q) {
        uint32_t amax = 0;
        float d, id;

        /* Without their signs floats are ordered like integers, NaN above infinity. */
        for (int i = 0; i < n; i++) {
                uint32_t u = kern_bits(x[i]) & 0x7fffffff;

                amax = u > amax ? u : amax;
        }
        d = kern_from_bits(amax) / 127;
        id = 1 / d;
        if (!(d > 0 && d < INFINITY && id < INFINITY)) {
                memset(q, 0, (size_t)n);
                return d;
        }
        for (int i = 0; i < n; i++) {
                /* Adding 1.5 * 2^23 rounds to the nearest even integer. */
                float r = (x[i] * id + KERN_EXP_MAGIC) - KERN_EXP_MAGIC;

                q[i] = (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
        }
        return d;
}

static int32_t sum_of(const int8_t *q, int n) {
        int32_t sum = 0;

        for (int i = 0; i < n; i++)
                sum += q[i];
        return sum;
}

struct act_blocks {
        float *d;
        int32_t *sums;
        int8_t *q;
};

static struct act_blocks act_blocks(const struct kern_act *a, const uint8_t *token) {
        size_t n8 = kern_act_n_blocks8(a->n_in);
        float *d = (float *)(uintptr_t)token;

        return (struct act_blocks){d, (int32_t *)(d + n8), (int8_t *)(d + 2 * n8)};
}

static void act_round_q8(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_BLOCK;
        size_t t0 = unit * KERN_ACT_UNIT, t1 = t0 + KERN_ACT_UNIT;

        for (size_t t = t0; t < t1 && t < a->n_tokens; t++, dst += a->quantised_row_size) {
                struct act_blocks to = act_blocks(a, dst);

                for (size_t b = 0; b < n_blocks; b++) {
                        int8_t *q = to.q + b * KERN_ACT_BLOCK;

                        to.d[b] = round_block(
                                a->x + t * a->ldx + b * KERN_ACT_BLOCK, KERN_ACT_BLOCK, q);
                        to.sums[b] = sum_of(q, KERN_ACT_BLOCK);
                }
        }
}

static void act_round_q8k(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_SUPER;
        size_t t0 = unit * KERN_ACT_UNIT, t1 = t0 + KERN_ACT_UNIT;

        for (size_t t = t0; t < t1 && t < a->n_tokens; t++, dst += a->quantised_row_size) {
                struct kern_act_super to = kern_act_super(dst, a->n_in);

                for (size_t b = 0; b < n_blocks; b++) {
                        int8_t *q = to.q + b * KERN_ACT_SUPER;

                        to.d[b] = round_block(
                                a->x + t * a->ldx + b * KERN_ACT_SUPER, KERN_ACT_SUPER, q);
                        for (size_t g = 0; g < KERN_ACT_SUPER_SUMS; g++)
                                to.sums[b * KERN_ACT_SUPER_SUMS + kern_act_super_sum(g)] =
                                        (int16_t)sum_of(q + 16 * g, 16);
                }
        }
}

static int32_t dot_int8(const int8_t *w, const int8_t *q, int n) {
        int32_t sum = 0;

        for (int j = 0; j < n; j++)
                sum += w[j] * q[j];
        return sum;
}

/* What a block adds to an output: its sum and, for a type with an offset, the sum of that. */
struct terms {
        float isum, d, msum, m;
};

static struct terms terms32(
        const struct quant_block32 *w, const struct kern_act *a, const uint8_t *token, size_t b) {
        struct act_blocks x = act_blocks(a, token);

        return (struct terms){(float)dot_int8(w->q, x.q + b * KERN_ACT_BLOCK, KERN_ACT_BLOCK),
                w->d * x.d[b], (float)x.sums[b], w->m * x.d[b]};
}

static struct terms terms256(
        const struct quant_block256 *w, const struct kern_act *a, const uint8_t *token, size_t b) {
        struct kern_act_super x = kern_act_super(token, a->n_in);
        const int16_t *sums = x.sums + b * KERN_ACT_SUPER_SUMS;
        const int8_t *q = x.q + b * KERN_ACT_SUPER;
        int32_t isum = 0, msum = 0;

        for (int g = 0; g < KERN_ACT_SUPER_SUMS; g++) {
                isum += w->scales[g] * dot_int8(w->q + 16 * g, q + 16 * g, 16);
                msum += w->mins[g] * sums[kern_act_super_sum((size_t)g)];
        }
        return (struct terms){(float)isum, w->d * x.d[b], (float)msum, -(w->dmin * x.d[b])};
}

/* Row w times the n tokens from @token on (n <= N_TOKENS). */
static void row_by_tokens(const struct quant_info *info, const uint8_t *w, const struct kern_act *a,
        const uint8_t *token, size_t n, float *y, size_t ldy) {
        size_t n_blocks = a->n_in / info->block_values;
        float acc[N_TOKENS][8] = {0};
        struct quant_block32 block32;
        struct quant_block256 block256;

        for (size_t b = 0; b < n_blocks; b++, w += info->block_size) {
                if (info->unpack32)
                        info->unpack32(w, &block32);
                else
                        info->unpack256(w, &block256);
                for (size_t t = 0; t < n; t++) {
                        const uint8_t *x = token + t * a->quantised_row_size;
                        struct terms v = info->unpack32 ? terms32(&block32, a, x, b)
                                                        : terms256(&block256, a, x, b);

                        acc[t][b % 8] = fmaf(v.isum, v.d, acc[t][b % 8]);
                        if (info->has_min)
                                acc[t][b % 8] = fmaf(v.msum, v.m, acc[t][b % 8]);
                }
        }
        for (size_t t = 0; t < n; t++)
                y[t * ldy] = kern_tree8(acc[t]);
}

static void matmul_block(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy) {
        const struct quant_info *info = quant_info(w->type);

        for (size_t t = 0; t < a->n_tokens; t += N_TOKENS)
                for (size_t o = row0; o < row1; o++)
                        row_by_tokens(info, (const uint8_t *)w->data + o * w->row_size, a,
                                (const uint8_t *)a->quantised + t * a->quantised_row_size,
                                a->n_tokens - t < N_TOKENS ? a->n_tokens - t : N_TOKENS,
                                y + t * ldy + o, ldy);
}

void kern_generic_matmul(struct kern_ops *ops) {
        for (uint32_t type = 0; type < QUANT_N_TYPES; type++) {
                const struct quant_info *info = quant_info(type);

                ops->matmul[type] =
                        info && (info->unpack32 || info->unpack256) ? matmul_block : NULL;
        }
        ops->matmul[QUANT_F32] = matmul_f32;
        ops->matmul[QUANT_F16] = matmul_f16;
        ops->matmul[QUANT_BF16] = matmul_bf16;
        ops->act_round[KERN_ACT_Q8] = act_round_q8;
        ops->act_round[KERN_ACT_Q8K] = act_round_q8k;
}
