/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Repacked weights (repacked-layout.h) in blocks of 256 values: one block of a tile by some tokens.
 *
 * A run of values that share a scale is added up and multiplied by it as integers, which are exact in any order;
 * floats are what a whole block leaves. With VNNI one instruction adds four products to 32 bits. Without, sums of two
 * stay 16 bits wide as long as they fit (steps_of_sum()), and what widens them multiplies by the scale.
 */
#include "kern/x86/repacked-layout.h"
#include "kern/x86/repacked-tile.h"

/* Values of a scale, by 4: half of a block of 32 in Q6_K, all in Q4_K. */
KERN_INLINE unsigned steps_of_run(enum quant_type type) {
        return type == QUANT_Q6_K ? 4 : 8;
}

/* Steps whose sums fit 16 bits, which each step of Q4_K makes 2 * 127 * 15 greater, of Q6_K 2 * 127 * 63. */
KERN_INLINE unsigned steps_of_sum(enum quant_type type) {
        return VEC_DOT4 ? steps_of_run(type) : type == QUANT_Q6_K ? 2 : 8;
}

/* A run: the first of its words, and with Q6_K of those of the upper bits, which are the bits @bit and the next. */
struct run {
        const uint8_t *low;
        bool high; /* halves of the bytes */
        const uint8_t *upper;
        unsigned bit;
};

/* Values 4k..4k+3 of a run. */
KERN_INLINE vi run_values(enum quant_type type, struct run r, size_t g, unsigned k) {
        vi v = vi_loadu(tile_words(r.low, k, g)), u;

        v = r.high ? high_halves(v) : low_halves(v);
        if (type != QUANT_Q6_K)
                return v;
        u = vi_loadu(tile_words(r.upper, k, g));
        u = r.bit < 4 ? vi_slli16(u, 4 - r.bit) : vi_srli16(u, r.bit - 4);
        return vi_or(v, vi_and(u, vi_set8(0x30)));
}

/* A scale of each row as its products want it: with VNNI 32 bits, without in both halves of them. */
KERN_INLINE vi run_scale(vi scale) {
        return VEC_DOT4 ? scale : vi_or(vi_and(scale, vi_set32(0xffff)), vi_slli(scale, 16));
}

KERN_INLINE vi add_scaled(vi to, vi sum, vi scale) {
        return VEC_DOT4 ? vi_add(to, vi_mul(sum, scale)) : vi_add_dot2_16(to, sum, scale);
}

/* What a sum of products begins with. @zero: of the run and token; without VNNI a block's end has it (q6_less_zero()). */
KERN_INLINE vi run_begin(enum quant_type type, const uint8_t *zero) {
        return type == QUANT_Q6_K && VEC_DOT4 ? vi_broadcast4(zero) : vi_zero();
}

KERN_INLINE vi add_values(bool first, vi sum, vi v, vi x) {
#if VEC_DOT4
        (void)first;
        return vi_dot4(sum, v, x);
#else
        return first ? vi_dot2(v, x) : vi_add16(sum, vi_dot2(v, x));
#endif
}

/* Adds a run's products. @x, @zero: of the first token. */
#if WEIGHTS_STAY
KERN_INLINE void add_run(enum quant_type type, unsigned n_tokens, struct run r, const vi *scale,
        const uint8_t *x, const uint8_t *zero, vi (*isum)[GROUPS]) {
        const unsigned steps = steps_of_run(type);
        vi v[GROUPS][8];

        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++)
                KERN_UNROLL for (unsigned k = 0; k < steps; k++) v[g][k] =
                        run_values(type, r, g, k);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                vi s[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) s[g] =
                        run_begin(type, zero + t * REPACKED_SUPER_TOKEN);
                KERN_UNROLL for (unsigned k = 0; k < steps; k++) {
                        vi xk = vi_broadcast4(x + t * REPACKED_SUPER_TOKEN + 4 * k);

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                s[g] = vi_dot4(s[g], v[g][k], xk);
                                vi_keep(s[g]);
                        }
                }
                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) isum[t][g] =
                        add_scaled(isum[t][g], s[g], scale[g]);
        }
}
#else
KERN_INLINE void add_run(enum quant_type type, unsigned n_tokens, struct run r, const vi *scale,
        const uint8_t *x, const uint8_t *zero, vi (*isum)[GROUPS]) {
        const unsigned steps = steps_of_sum(type);

        KERN_UNROLL for (unsigned k0 = 0; k0 < steps_of_run(type); k0 += steps) {
                vi s[PIECE][GROUPS];

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) s[t][g] =
                                run_begin(type, zero + t * REPACKED_SUPER_TOKEN);
                KERN_UNROLL for (unsigned k = k0; k < k0 + steps; k++) {
                        vi v[GROUPS];

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) v[g] =
                                run_values(type, r, g, k);
                        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                                vi xk = vi_broadcast4(x + t * REPACKED_SUPER_TOKEN + 4 * k);

                                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                        s[t][g] = add_values(k == k0, s[t][g], v[g], xk);
                                        vi_keep(s[t][g]);
                                }
                        }
                }
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) isum[t][g] =
                                add_scaled(isum[t][g], s[t][g], scale[g]);
        }
}
#endif

/* Bytes 0 and 2 of each word, and 1 and 3, as pairs of 16 bits. */
KERN_INLINE vi even_bytes(vi v) {
        return vi_and(v, vi_set32(0x00ff00ff));
}

KERN_INLINE vi odd_bytes(vi v) {
        return vi_srli16(v, 8);
}

/* Four scales of six bits: @low has them with the top two bits of others above; of those, @rest has the lower four. */
KERN_INLINE vi six_bits(bool upper, vi low, vi rest) {
        if (!upper)
                return vi_and(low, vi_set8(0x3f));
        return vi_or(vi_and(rest, vi_set8(15)), vi_and(vi_srli16(low, 2), vi_set8(0x30)));
}

/* Scales of the 32s 4h..4h+3 of group @g, a byte each. */
KERN_INLINE vi q4_scales(const uint8_t *w, size_t g, bool upper) {
        return six_bits(upper, vi_loadu(tile_words(w, 0, g)), vi_loadu(tile_words(w, 2, g)));
}

/* Their mins. */
KERN_INLINE vi q4_mins(const uint8_t *w, size_t g, bool upper) {
        return six_bits(
                upper, vi_loadu(tile_words(w, 1, g)), vi_srli16(vi_loadu(tile_words(w, 2, g)), 4));
}

/* All runs of a block: 64 values at a time, the low halves of their bytes and then the high ones. */
KERN_INLINE void q4_runs(unsigned n_tokens, struct bring *b, const uint8_t *w, const uint8_t *x,
        vi (*isum)[GROUPS]) {
        const uint8_t *values = tile_words(w, 3, 0);

        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                vi bytes[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) bytes[g] =
                        q4_scales(w, g, h == 1);
                for (unsigned i = 0; i < 2; i++) {
                        KERN_UNROLL for (unsigned high = 0; high < 2; high++) {
                                vi scale[GROUPS];

                                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                        scale[g] = run_scale(vi_and(bytes[g], vi_set32(0xff)));
                                        bytes[g] = vi_srl(bytes[g], 8);
                                }
                                add_run(QUANT_Q4_K, n_tokens,
                                        (struct run){.low = values, .high = high == 1}, scale, x, x,
                                        isum);
                                bring32(b);
                                x += KERN_ACT_BLOCK;
                        }
                        values = tile_words(values, 8, 0);
                }
        }
}

/* Of 128 values, 16 of each 32: upper bits of four runs are in the same bytes. */
KERN_INLINE void q6_runs(unsigned n_tokens, struct bring *b, const uint8_t *w, const uint8_t *x,
        vi (*isum)[GROUPS]) {
        for (unsigned i = 0; i < 4; i++) {
                const unsigned half = i / 2, j = i % 2;
                const uint8_t *low = tile_words(w, 4 + 12 * i, 0), *upper = tile_words(low, 8, 0);

                KERN_UNROLL for (unsigned part = 0; part < 4; part++) {
                        const uint8_t *zero =
                                x + REPACKED_SUPER_ZERO32 + 4 * (8 * half + 2 * part + j);
                        vi scale[GROUPS];

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                vi s = vi_loadu(tile_words(w, 2 * half + part / 2, g));

                                scale[g] = run_scale(
                                        vi_srai(vi_slli(vi_srl(s, 8 * j), part % 2 ? 8 : 24), 24));
                        }
                        add_run(QUANT_Q6_K, n_tokens,
                                (struct run){tile_words(low, part % 2 * 4, 0), part >= 2, upper,
                                        2 * part},
                                scale, x + 128 * half + 32 * part + 16 * j, zero, isum);
                        if (part % 2 == 1)
                                bring32(b);
                }
        }
}

/* The mins' part of a block: @x is the first token's. */
KERN_INLINE void q4_less_mins(
        unsigned n_tokens, const uint8_t *w, const uint8_t *x, vf (*acc)[GROUPS]) {
        vi pairs[GROUPS][4];

        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++)
                KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                vi mins = q4_mins(w, g, h == 1);

                pairs[g][2 * h] = even_bytes(mins);
                pairs[g][2 * h + 1] = odd_bytes(mins);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                const uint8_t *xt = x + t * REPACKED_SUPER_TOKEN;
                vf dx = vf_broadcast((const float *)(xt + REPACKED_SUPER_SCALE));

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                        vi sum = vi_zero();

                        KERN_UNROLL for (unsigned i = 0; i < 4; i++) sum = vi_add_dot2_16(sum,
                                pairs[g][i], vi_broadcast4(xt + REPACKED_SUPER_SUMS32 + 4 * i));
                        acc[t][g] = vf_fnma(vf_of_int(sum),
                                vf_mul(tile_half(QUANT_Q4_K, w, 1, g), dx), acc[t][g]);
                }
        }
}

/* What 32 added to each value has added to a block's sums. */
KERN_INLINE void q6_less_zero(
        unsigned n_tokens, const uint8_t *w, const uint8_t *x, vi (*isum)[GROUPS]) {
        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                vi sum[PIECE];

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) sum[t] = vi_zero();
                KERN_UNROLL for (unsigned i = 0; i < 4; i++) {
                        vi s = vi_loadu(tile_words(w, i, g));
                        vi even = vi_srai16(vi_slli16(s, 8), 8), odd = vi_srai16(s, 8);

                        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                                const uint8_t *sums = x + t * REPACKED_SUPER_TOKEN +
                                                      REPACKED_SUPER_SUMS16 + 8 * i;

                                sum[t] = vi_add_dot2_16(sum[t], even, vi_broadcast4(sums));
                                sum[t] = vi_add_dot2_16(sum[t], odd, vi_broadcast4(sums + 4));
                        }
                }
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) isum[t][g] =
                        vi_sub(isum[t][g], vi_slli(sum[t], 5));
        }
}

/* Adds the products of one block: @w is the tile's, @x the first token's. @b: what is brought meanwhile. */
KERN_INLINE void add_super(enum quant_type type, unsigned n_tokens, struct bring *b,
        const uint8_t *w, const uint8_t *x, vf (*acc)[GROUPS]) {
        vi isum[PIECE][GROUPS];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++)
                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) isum[t][g] = vi_zero();
        if (type == QUANT_Q6_K)
                q6_runs(n_tokens, b, w, x, isum);
        else
                q4_runs(n_tokens, b, w, x, isum);
        if (type == QUANT_Q6_K && !VEC_DOT4)
                q6_less_zero(n_tokens, w, x, isum);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                vf dx = vf_broadcast(
                        (const float *)(x + t * REPACKED_SUPER_TOKEN + REPACKED_SUPER_SCALE));

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) acc[t][g] = vf_fma(
                        vf_of_int(isum[t][g]), vf_mul(tile_half(type, w, 0, g), dx), acc[t][g]);
        }
        if (type == QUANT_Q4_K)
                q4_less_mins(n_tokens, w, x, acc);
}
