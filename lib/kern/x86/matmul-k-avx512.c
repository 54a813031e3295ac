/* SPDX-License-Identifier: MIT */
/*
 * Weights in blocks of 256 values times rounded activations, as the AVX2 family does it, but two
 * sub-blocks of 32 at a time; where there is VNNI, one instruction widens the sums of two products,
 * scales them and adds them up.
 */
#include "kern/x86/avx512.h"
#include "kern/x86/matmul-k.h"
#include "kern/x86/packed-k.h"
#include "kern/x86/vec.h"
#include <stdlib.h>

#define N_TOKENS 4

KERN_INLINE __m512i load32(const uint8_t *p) {
        return _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
}

/* The same 32 bytes in both halves. */
KERN_INLINE __m512i load32_twice(const uint8_t *p) {
        return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}

/* Shifts the lower half left by @low and the upper one by @high; negative: right. */
KERN_INLINE __m512i shift(__m512i v, int low, int high) {
        __m512i n = _mm512_inserti64x4(
                _mm512_set1_epi16((short)abs(low)), _mm256_set1_epi16((short)abs(high)), 1);

        return low > 0 || high > 0 ? _mm512_sllv_epi16(v, n) : _mm512_srlv_epi16(v, n);
}

/* Bit @bit of the byte becomes bit @to in the lower half; in the upper half it is @step further. */
KERN_INLINE __m512i bits_to(const uint8_t *p, int bit, int step, int to, int mask) {
        return _mm512_and_si512(shift(load32_twice(p), to - bit, to - bit - step),
                _mm512_set1_epi8((char)(mask << to)));
}

KERN_INLINE __m512i nibble_pair(const uint8_t *p) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);

        return _mm512_and_si512(
                _mm512_inserti64x4(_mm512_castsi256_si512(v), _mm256_srli_epi16(v, 4), 1),
                _mm512_set1_epi8(15));
}

/* Sub-blocks 2k and 2k + 1: unsigned; of IQ4_XS with signs. */
KERN_INLINE __m512i values(enum quant_type type, const uint8_t *w, unsigned k) {
        unsigned half = k / 2;
        int bit = k % 2 * 4;
        __m512i v;

        switch (type) {
        case QUANT_Q2_K:
                return bits_to(w + 16 + 32 * half, bit, 2, 0, 3);
        case QUANT_Q3_K:
                return _mm512_or_si512(bits_to(w + 32 + 32 * half, bit, 2, 0, 3),
                        bits_to(w, (int)(2 * k), 1, 2, 1));
        case QUANT_Q4_K:
                return nibble_pair(w + 16 + 32 * k);
        case QUANT_Q5_K:
                return _mm512_or_si512(
                        nibble_pair(w + 48 + 32 * k), bits_to(w + 16, (int)(2 * k), 1, 4, 1));
        case QUANT_Q6_K:
                v = _mm512_loadu_si512(w + 64 * half);
                v = _mm512_and_si512(k % 2 ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
                return _mm512_or_si512(v, bits_to(w + 128 + 32 * half, bit, 2, 4, 3));
        default:
                /* 128-bit lanes: the bytes of a sub-block for its low nibbles, for its high ones */
                v = load32(w + 8 + 32 * k);
                v = _mm512_shuffle_i64x2(v, v, 0x50);
                v = _mm512_mask_srli_epi16(v, 0xff00ff00, v, 4);
                v = _mm512_and_si512(v, _mm512_set1_epi8(15));
                return _mm512_shuffle_epi8(
                        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)quant_iq4_values)),
                        v);
        }
}

/* Sums of two products. */
KERN_INLINE __m512i dot2(enum quant_type type, __m512i v, const int8_t *q) {
        __m512i x = _mm512_loadu_si512(q);

        if (type == QUANT_IQ4_XS)
                return _mm512_maddubs_epi16(_mm512_abs_epi8(v),
                        _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(v), _mm512_setzero_si512(), x));
        return _mm512_maddubs_epi16(v, x);
}

/* Block b (of its eight) of n_tokens tokens; q and sums are those of the first token. */
KERN_INLINE void block(enum quant_type type, unsigned n_tokens, const uint8_t *w, const int8_t *q,
        const int16_t *sums, size_t x_stride, size_t b, struct super_sums *ret) {
        __m256i scales, second;
        __m512i acc[N_TOKENS], all;

        super_prefetch(type, w + SUPER_PREFETCH);
        super_scales(type, w, &scales, &second);
        all = _mm512_broadcast_i64x4(scales);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm512_setzero_si512();
        KERN_UNROLL for (unsigned k = 0; k < 4; k++) {
                __m512i v = values(type, w, k);
                __m512i scale = _mm512_shuffle_epi8(all,
                        _mm512_inserti64x4(_mm512_set1_epi16((short)(4 * k | (4 * k + 1) << 8)),
                                _mm256_set1_epi16((short)((4 * k + 2) | (4 * k + 3) << 8)), 1));

                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] =
                        vi_add_dot2_16(acc[t], scale, dot2(type, v, q + t * x_stride + 64 * k));
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) super_put_sums(type,
                _mm256_add_epi32(
                        _mm512_castsi512_si256(acc[t]), _mm512_extracti64x4_epi64(acc[t], 1)),
                second, (const int16_t *)((const uint8_t *)sums + t * x_stride), &ret[t], b);
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
