/* SPDX-License-Identifier: MIT */
/* Rounding of activations to int8, in the layouts of packed.h. */
#include "kern/arm/packed.h"
#include "kern/arm/neon.h"

/* 4 tokens' 16 values each as registers of a quad: register k has values 4k..4k+3 of each. */
static inline void store_quad(const int8x16_t *v, int8_t *q) {
        int32x4x4_t four = {{vreinterpretq_s32_s8(v[0]), vreinterpretq_s32_s8(v[1]),
                vreinterpretq_s32_s8(v[2]), vreinterpretq_s32_s8(v[3])}};

        vst4q_s32((int32_t *)q, four);
}

/* The scales of a block of n_values of n tokens, and their inverses; of missing tokens zeros. */
static void quad_scales(
        const float *x, size_t ldx, size_t n, size_t n_values, float *ret_d, float *ret_id) {
        for (size_t i = 0; i < 4; i++) {
                ret_d[i] = ret_id[i] = 0;
                if (i < n)
                        ret_d[i] = block_scale(x + i * ldx, n_values, &ret_id[i]);
        }
}

/* 16 values of each of n tokens. */
static inline void round_quad(
        const float *x, size_t ldx, size_t n, const float *id, int8x16_t *ret) {
        for (size_t i = 0; i < 4; i++)
                ret[i] = i < n ? round16(x + i * ldx, id[i]) : vdupq_n_s8(0);
}

/* One block of 32 of n tokens, those from @t on in the packed block @dst. */
static void pack_block(const float *x, size_t ldx, size_t n, size_t t, uint8_t *dst) {
        float *d = (float *)(dst + PACKED_SCALES) + t, id[4];
        int32_t *sums = (int32_t *)(dst + PACKED_SUMS) + t;
        int8_t *q = (int8_t *)dst + t / 4 * PACKED_QUAD;
        int8x16_t low[4], high[4];

        quad_scales(x, ldx, n, KERN_ACT_BLOCK, d, id);
        round_quad(x, ldx, n, id, low);
        round_quad(x + 16, ldx, n, id, high);
        store_quad(low, q);
        store_quad(high, q + 64);
        for (size_t i = 0; i < 4; i++)
                sums[i] = vaddlvq_s8(low[i]) + vaddlvq_s8(high[i]);
}

/* The same of 256. */
static void pack_super(const float *x, size_t ldx, size_t n, size_t t, uint8_t *dst) {
        float *d = (float *)(dst + K_PACKED_SCALES) + t, id[4];
        int16_t *sums = (int16_t *)(dst + K_PACKED_SUMS) + t;
        int8_t *q = (int8_t *)dst + t / 4 * K_PACKED_QUAD;
        int8x16_t v[4];

        quad_scales(x, ldx, n, KERN_ACT_SUPER, d, id);
        for (size_t g = 0; g < KERN_ACT_SUPER_SUMS; g++) {
                round_quad(x + 16 * g, ldx, n, id, v);
                store_quad(v, q + 64 * g);
                for (size_t i = 0; i < 4; i++)
                        sums[g * KERN_ACT_UNIT + i] = vaddlvq_s8(v[i]);
        }
}

/* @n of the unit's tokens that are there from token t on. */
static inline size_t tokens_from(size_t n, size_t t) {
        return n < t ? 0 : n - t < 4 ? n - t : 4;
}

void kern_neon_act_round_q8(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_BLOCK, n8 = kern_act_n_blocks8(a->n_in);
        size_t n = unit_tokens(a, unit);
        const float *x = a->x + unit * KERN_ACT_UNIT * a->ldx;

        if (unit_is_packed(a, unit)) {
                for (size_t b = 0; b < n_blocks; b++)
                        for (size_t t = 0; t < KERN_ACT_UNIT; t += 4)
                                pack_block(x + t * a->ldx + b * KERN_ACT_BLOCK, a->ldx,
                                        tokens_from(n, t), t, dst + b * PACKED_SIZE);
                return;
        }
        for (size_t t = 0; t < n; t++, x += a->ldx, dst += a->quantised_row_size) {
                float *d = (float *)dst, id;
                int32_t *sums = (int32_t *)(d + n8);
                int8_t *q = (int8_t *)(sums + n8);

                for (size_t b = 0; b < n_blocks; b++, q += KERN_ACT_BLOCK) {
                        int8x16_t low, high;

                        d[b] = block_scale(x + b * KERN_ACT_BLOCK, KERN_ACT_BLOCK, &id);
                        low = round16(x + b * KERN_ACT_BLOCK, id);
                        high = round16(x + b * KERN_ACT_BLOCK + 16, id);
                        vst1q_s8(q, low);
                        vst1q_s8(q + 16, high);
                        sums[b] = vaddlvq_s8(low) + vaddlvq_s8(high);
                }
        }
}

void kern_neon_act_round_q8k(const struct kern_act *a, size_t unit, uint8_t *dst) {
        size_t n_blocks = a->n_in / KERN_ACT_SUPER, n = unit_tokens(a, unit);
        const float *x = a->x + unit * KERN_ACT_UNIT * a->ldx;

        if (unit_is_packed(a, unit)) {
                for (size_t b = 0; b < n_blocks; b++)
                        for (size_t t = 0; t < KERN_ACT_UNIT; t += 4)
                                pack_super(x + t * a->ldx + b * KERN_ACT_SUPER, a->ldx,
                                        tokens_from(n, t), t, dst + b * K_PACKED_SIZE);
                return;
        }
        for (size_t t = 0; t < n; t++, x += a->ldx, dst += a->quantised_row_size) {
                struct kern_act_super to = kern_act_super(dst, a->n_in);
                float id;

                for (size_t b = 0; b < n_blocks; b++, to.sums += KERN_ACT_SUPER_SUMS) {
                        const float *block = x + b * KERN_ACT_SUPER;

                        to.d[b] = block_scale(block, KERN_ACT_SUPER, &id);
                        for (size_t g = 0; g < KERN_ACT_SUPER_SUMS; g++, to.q += 16) {
                                int8x16_t v = round16(block + 16 * g, id);

                                vst1q_s8(to.q, v);
                                to.sums[kern_act_super_sum(g)] = vaddlvq_s8(v);
                        }
                }
        }
}
