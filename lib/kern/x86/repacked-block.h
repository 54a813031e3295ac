/* SPDX-License-Identifier: MIT */
#pragma once
/* Repacked weights (repacked-layout.h) in blocks of 32 values: one block of a tile by some tokens. */
#include "kern/x86/repacked-layout.h"
#include "kern/x86/repacked-tile.h"

/* Whether values are used with their signs: without VNNI, bytes, two products of which would not fit 16 bits made
 * unsigned. (Those of nibbles fit even added up: 8 * 2 * 15 * 127.) */
KERN_INLINE bool signed_bytes(enum quant_type type) {
        return !VEC_DOT4 && type == QUANT_Q8_0;
}

/* Values 4k..4k+3 of a group, k < 8. */
KERN_INLINE vi values4(enum quant_type type, const uint8_t *w, size_t g, unsigned k) {
        if (type == QUANT_Q8_0)
                return vi_loadu(tile_words(w, k, g));
        return k < 4 ? low_halves(vi_loadu(tile_words(w, k, g)))
                     : high_halves(vi_loadu(tile_words(w, k - 4, g)));
}

KERN_INLINE vf token_scale(struct tokens x, unsigned t) {
        return vf_broadcast((const float *)(x.scales + REPACKED_ACT_SCALES) + t);
}

KERN_INLINE vi token_zero(enum quant_type type, struct tokens x, unsigned t) {
        size_t at = type == QUANT_Q8_0 ? REPACKED_ACT_ZERO128 : REPACKED_ACT_ZERO8;

        return vi_broadcast4(x.scales + at + 4 * t);
}

/* Adds the products of one block: @w is the tile's. */
#if WEIGHTS_STAY
KERN_INLINE void add_block(enum quant_type type, unsigned n_tokens, const uint8_t *w,
        struct tokens x, vf (*acc)[GROUPS]) {
        vi v[GROUPS][8];
        vf dw[GROUPS];

        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                KERN_UNROLL for (unsigned k = 0; k < 8; k++) v[g][k] = values4(type, w, g, k);
                dw[g] = tile_half(type, w, 0, g);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                vf dx = token_scale(x, t);
                vi s[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) s[g] = token_zero(type, x, t);
                KERN_UNROLL for (unsigned k = 0; k < 8; k++) {
                        vi xk = vi_broadcast4(x.q + 32 * t + 4 * k);

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                s[g] = vi_dot4(s[g], v[g][k], xk);
                                vi_keep(s[g]);
                        }
                }
                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) acc[t][g] =
                        vf_fma(vf_of_int(s[g]), vf_mul(dw[g], dx), acc[t][g]);
        }
}
#else
/* One step of 4 values of a group and a token. */
KERN_INLINE vi add_step(enum quant_type type, bool first, vi sum, vi v, vi x) {
#if VEC_DOT4
        return vi_dot4(first ? vi_zero() : sum, v, x);
#else
        vi p;

        /* w * x = |w| * (x with w's sign); |-128| is 128, unsigned */
        if (signed_bytes(type)) {
                p = vi_add_pairs(vi_dot2(vi_abs8(v), vi_sign8(x, v)));
                return first ? p : vi_add(sum, p);
        }
        p = vi_dot2(v, x);
        return first ? p : vi_add16(sum, p);
#endif
}

KERN_INLINE void add_block(enum quant_type type, unsigned n_tokens, const uint8_t *w,
        struct tokens x, vf (*acc)[GROUPS]) {
        vi s[PIECE][GROUPS];

        /* Low halves and high halves of the same bytes one behind the other: they are loaded once. */
        KERN_UNROLL for (unsigned i = 0; i < 8; i++) {
                const unsigned k = i / 2 + i % 2 * 4;
                vi v[GROUPS];

                KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) v[g] = values4(type, w, g, k);
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        vi xk = vi_broadcast4(x.q + 32 * t + 4 * k);

                        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                                s[t][g] = add_step(type, i == 0, s[t][g], v[g], xk);
                                vi_keep(s[t][g]);
                        }
                }
        }
        KERN_UNROLL for (unsigned g = 0; g < GROUPS; g++) {
                vf dw = tile_half(type, w, 0, g);

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                        vi sum = s[t][g];

                        if (!signed_bytes(type))
                                sum = vi_add(
                                        VEC_DOT4 ? sum : vi_add_pairs(sum), token_zero(type, x, t));
                        acc[t][g] =
                                vf_fma(vf_of_int(sum), vf_mul(dw, token_scale(x, t)), acc[t][g]);
                }
        }
}
#endif
