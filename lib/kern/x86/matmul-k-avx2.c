/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times rounded activations. The 32 products of a sub-block become
 * 16 sums of two, which fit int16 (the worst: IQ4_XS, 2 * 127 * 127); widening them to 32 bits
 * multiplies by the sub-block's scale. Blocks leave 8 sums each; those of 8 blocks are added up
 * together, and a lane is then a block.
 */
#include "kern/x86/matmul-k.h"
#include "kern/x86/packed-k.h"
#include "kern/x86/vec.h"

#define N_TOKENS 4

/* Sums of two products. */
KERN_INLINE __m256i dot2(enum quant_type type, __m256i v, const int8_t *q) {
        __m256i x = _mm256_loadu_si256((const __m256i *)q);

        if (type == QUANT_IQ4_XS)
                return _mm256_maddubs_epi16(_mm256_sign_epi8(v, v), _mm256_sign_epi8(x, v));
        return _mm256_maddubs_epi16(v, x);
}

/* Block b (of its eight) of n_tokens tokens; q and sums are those of the first token. */
KERN_INLINE void block(enum quant_type type, unsigned n_tokens, const uint8_t *w, const int8_t *q,
        const int16_t *sums, size_t x_stride, size_t b, struct super_sums *ret) {
        __m256i scales, second, acc[N_TOKENS];

        super_prefetch(type, w + SUPER_PREFETCH);
        super_scales(type, w, &scales, &second);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_setzero_si256();
        KERN_UNROLL for (unsigned s = 0; s < 8; s++) {
                __m256i v = super_values(type, w, s);
                __m256i scale = _mm256_shuffle_epi8(
                        scales, _mm256_set1_epi16((short)(2 * s | (2 * s + 1) << 8)));

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] =
                        vi_add_dot2_16(acc[t], scale, dot2(type, v, q + t * x_stride + 32 * s));
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) super_put_sums(type, acc[t], second,
                (const int16_t *)((const uint8_t *)sums + t * x_stride), &ret[t], b);
}

/* n <= 8 blocks from block b on. @a: the first token. */
KERN_INLINE void group(enum quant_type type, unsigned n_tokens, const uint8_t *w,
        const struct kern_act_super *a, size_t x_stride, size_t b, size_t n, __m256 *acc) {
        size_t size = super_size(type), d_at = super_d_at(type);
        __m256 dw = super_halves(type, w + d_at, n), mw = _mm256_setzero_ps();
        struct super_sums sums[N_TOKENS];

        if (super_has_min(type))
                mw = super_halves(type, w + d_at + 2, n);
        for (size_t i = 0; i < n; i++)
                block(type, n_tokens, w + i * size, a->q + (b + i) * KERN_ACT_SUPER,
                        a->sums + (b + i) * KERN_ACT_SUPER_SUMS, x_stride, i, sums);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = super_add_terms(type, &sums[t],
                n, dw, mw, (const float *)((const uint8_t *)(a->d + b) + t * x_stride), acc[t]);
}

KERN_INLINE void row(enum quant_type type, unsigned n_tokens, const uint8_t *w, size_t n_in,
        const uint8_t *x, size_t x_stride, float *y, size_t ldy) {
        struct kern_act_super a = kern_act_super(x, n_in);
        size_t n_blocks = n_in / KERN_ACT_SUPER, b = 0;
        __m256 acc[N_TOKENS];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_setzero_ps();
        for (; b + 8 <= n_blocks; b += 8, w += 8 * super_size(type))
                group(type, n_tokens, w, &a, x_stride, b, 8, acc);
        if (b < n_blocks)
                group(type, n_tokens, w, &a, x_stride, b, n_blocks - b, acc);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) y[t * ldy] = tree8(acc[t]);
}

/* The tokens of one unit that is not packed, if it has any. */
KERN_INLINE void unit_rows(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy, size_t unit) {
        size_t stride = a->quantised_row_size;
        const uint8_t *unit_x = kern_act_unit(a, unit);

        if (unit * KERN_ACT_UNIT >= a->n_tokens)
                return;
        y += unit * KERN_ACT_UNIT * ldy;
        for (size_t o = row0; o < row1; o++) {
                const uint8_t *p = (const uint8_t *)w->data + o * w->row_size;
                const uint8_t *x = unit_x;
                float *yo = y + o;
                size_t n = a->n_tokens - unit * KERN_ACT_UNIT;

                for (; n >= 4; n -= 4, x += 4 * stride, yo += 4 * ldy)
                        row(type, 4, p, w->n_in, x, stride, yo, ldy);
                for (; n >= 2; n -= 2, x += 2 * stride, yo += 2 * ldy)
                        row(type, 2, p, w->n_in, x, stride, yo, ldy);
                if (n > 0)
                        row(type, 1, p, w->n_in, x, stride, yo, ldy);
        }
}

#define X(name, type)                                                                              \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                size_t n = k_n_packed_units(a);                                                    \
                                                                                                   \
                LEVEL(packed_##name)(w, a, row0, row1, y, ldy, n);                                 \
                unit_rows(type, w, a, row0, row1, y, ldy, n);                                      \
        }
K_TYPES(X)
#undef X

void LEVEL(matmul_k)(struct kern_ops *ops) {
#define X(name, type) ops->matmul[type] = matmul_##name;
        K_TYPES(X)
#undef X
        ops->act_round[KERN_ACT_Q8K] = kern_avx2_act_round_q8k;
}
