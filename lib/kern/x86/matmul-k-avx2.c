/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times rounded activations. The 32 products of a sub-block become
 * 16 sums of two, which fit int16 (the worst: IQ4_XS, 2 * 127 * 127); widening them to 32 bits
 * multiplies by the sub-block's scale. Blocks leave 8 sums each; those of 8 blocks are added up
 * together, and a lane is then a block.
 */
#include "kern/x86/super.h"

#define N_TOKENS 4

/* Bits @bit and (if @n is 2) the next of each byte, moved to bit @to. */
KERN_INLINE __m256i bits_to(const uint8_t *p, int bit, int n, int to) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i mask = _mm256_set1_epi8((char)((n == 2 ? 3 : 1) << to));

        v = bit > to ? _mm256_srli_epi16(v, bit - to) : _mm256_slli_epi16(v, to - bit);
        return _mm256_and_si256(v, mask);
}

KERN_INLINE __m256i nibbles(const uint8_t *p, bool high) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);

        return _mm256_and_si256(high ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Sub-block s: unsigned; of IQ4_XS with signs. */
KERN_INLINE __m256i values(enum quant_type type, const uint8_t *w, unsigned s) {
        unsigned half = s / 4, part = s % 4;
        __m128i n;
        __m256i v;

        switch (type) {
        case QUANT_Q2_K:
                return bits_to(w + 16 + 32 * half, (int)(2 * part), 2, 0);
        case QUANT_Q3_K:
                return _mm256_or_si256(bits_to(w + 32 + 32 * half, (int)(2 * part), 2, 0),
                        bits_to(w, (int)s, 1, 2));
        case QUANT_Q4_K:
                return nibbles(w + 16 + s / 2 * 32, s % 2);
        case QUANT_Q5_K:
                return _mm256_or_si256(
                        nibbles(w + 48 + s / 2 * 32, s % 2), bits_to(w + 16, (int)s, 1, 4));
        case QUANT_Q6_K:
                return _mm256_or_si256(nibbles(w + 64 * half + 32 * (part % 2), part >= 2),
                        bits_to(w + 128 + 32 * half, (int)(2 * part), 2, 4));
        default:
                n = _mm_loadu_si128((const __m128i *)(w + 8 + 16 * s));
                v = _mm256_and_si256(
                        _mm256_set_m128i(_mm_srli_epi16(n, 4), n), _mm256_set1_epi8(15));
                return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
                                                   (const __m128i *)quant_iq4_values)),
                        v);
        }
}

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

        super_scales(type, w, &scales, &second);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_setzero_si256();
        KERN_UNROLL for (unsigned s = 0; s < 8; s++) {
                __m256i v = values(type, w, s);
                __m256i scale = _mm256_shuffle_epi8(
                        scales, _mm256_set1_epi16((short)(2 * s | (2 * s + 1) << 8)));

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_add_epi32(
                        acc[t], _mm256_madd_epi16(scale, dot2(type, v, q + t * x_stride + 32 * s)));
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) super_put_sums(type, acc[t], second,
                (const int16_t *)((const uint8_t *)sums + t * x_stride), &ret[t], b);
}

KERN_INLINE void row(enum quant_type type, unsigned n_tokens, const uint8_t *w, size_t n_in,
        const uint8_t *x, size_t x_stride, float *y, size_t ldy) {
        struct kern_act_super a = kern_act_super(x, n_in);
        size_t n_blocks = n_in / KERN_ACT_SUPER, size = super_size(type);
        struct super_sums sums[N_TOKENS];
        __m256 acc[N_TOKENS];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_setzero_ps();
        for (size_t b = 0; b < n_blocks; b += 8, w += 8 * size) {
                size_t n = n_blocks - b < 8 ? n_blocks - b : 8, d_at = super_d_at(type);
                __m256 dw = super_halves(type, w, d_at, n), mw = _mm256_setzero_ps();

                if (super_has_min(type))
                        mw = super_halves(type, w, d_at + 2, n);
                for (size_t i = 0; i < n; i++)
                        block(type, n_tokens, w + i * size, a.q + (b + i) * KERN_ACT_SUPER,
                                a.sums + (b + i) * KERN_ACT_SUPER_SUMS, x_stride, i, sums);
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] =
                        super_add_terms(type, &sums[t], n, dw, mw,
                                (const float *)((const uint8_t *)(a.d + b) + t * x_stride), acc[t]);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) y[t * ldy] = tree8(acc[t]);
}

KERN_INLINE void matmul(enum quant_type type, const struct kern_mat *w, const struct kern_act *a,
        size_t row0, size_t row1, float *y, size_t ldy) {
        size_t stride = a->quantised_row_size;

        for (size_t o = row0; o < row1; o++) {
                const uint8_t *p = (const uint8_t *)w->data + o * w->row_size;
                const uint8_t *x = a->quantised;
                float *yo = y + o;
                size_t n = a->n_tokens;

                for (; n >= 4; n -= 4, x += 4 * stride, yo += 4 * ldy)
                        row(type, 4, p, w->n_in, x, stride, yo, ldy);
                for (; n >= 2; n -= 2, x += 2 * stride, yo += 2 * ldy)
                        row(type, 2, p, w->n_in, x, stride, yo, ldy);
                if (n > 0)
                        row(type, 1, p, w->n_in, x, stride, yo, ldy);
        }
}

#define TYPES(X)                                                                                   \
        X(q2_k, QUANT_Q2_K)                                                                        \
        X(q3_k, QUANT_Q3_K)                                                                        \
        X(q4_k, QUANT_Q4_K)                                                                        \
        X(q5_k, QUANT_Q5_K)                                                                        \
        X(q6_k, QUANT_Q6_K)                                                                        \
        X(iq4_xs, QUANT_IQ4_XS)
#define X(name, type)                                                                              \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                matmul(type, w, a, row0, row1, y, ldy);                                            \
        }
TYPES(X)
#undef X

void kern_avx2_matmul_k(struct kern_ops *ops) {
#define X(name, type) ops->matmul[type] = matmul_##name;
        TYPES(X)
#undef X
        ops->act_round[KERN_ACT_Q8K] = kern_avx2_act_round_q8k;
}
