/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights times a few tokens. Generating text consists mostly of this, so it must
 * be as fast as memory. Two rows by 8 blocks are one register of 16 sums: VNNI adds products of 4
 * values (weights are made unsigned by a zero point, which the sum of the activations takes off
 * again), then one transposing addition serves all 16. Weights are read once, in order.
 */
#include "kern/x86/block-avx512-vnni.h"
#include "kern/x86/block-values.h"

/* Bytes ahead. Two rows side by side are two short streams, which processors do not foresee: without it one core
 * reads at a third of its speed. */
#define PREFETCH_ONE_ROW 4608
/* Of each row. What lies behind their ends is in the rows that come next, not in the second of them. */
#define PREFETCH_TWO_ROWS 2304

KERN_INLINE __m512i load4x16(const uint8_t *p, size_t stride) {
        __m128i a = _mm_loadu_si128((const __m128i *)p);
        __m128i b = _mm_loadu_si128((const __m128i *)(p + stride));
        __m128i c = _mm_loadu_si128((const __m128i *)(p + 2 * stride));
        __m128i d = _mm_loadu_si128((const __m128i *)(p + 3 * stride));

        return _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_set_m128i(b, a)), _mm256_set_m128i(d, c), 1);
}

/* Adds 16 to the 16 values from @shift on of each of 4 blocks, where their fifth bits are set. */
KERN_INLINE __m512i add_fifth_bits(
        const struct block_kind kind, const uint8_t *w, unsigned shift, __m512i v) {
        uint64_t bits = 0;

        KERN_UNROLL for (unsigned b = 0; b < 4; b++) bits |=
                (uint64_t)(fifth_bits(kind, w + b * kind.size) >> shift & 0xffff) << 16 * b;
        return _mm512_mask_add_epi8(v, bits, v, _mm512_set1_epi8(16));
}

/* 8 blocks as unsigned values: low halves of 0-3, high halves of 0-3, then of 4-7. */
KERN_INLINE void load_group(const struct block_kind kind, const uint8_t *w, __m512i *ret) {
        KERN_UNROLL for (unsigned h = 0; h < 2; h++) {
                const uint8_t *p = w + 4 * h * kind.size, *q = p + values_at(kind);
                __m512i low, high, v = load4x16(q, kind.size);

                if (kind.form == FORM_BYTES) {
                        low = _mm512_xor_si512(v, _mm512_set1_epi8(-128));
                        high = _mm512_xor_si512(
                                load4x16(q + 16, kind.size), _mm512_set1_epi8(-128));
                } else {
                        low = _mm512_and_si512(v, _mm512_set1_epi8(15));
                        high = _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
                }
                if (kind.form == FORM_FIVE) {
                        low = add_fifth_bits(kind, p, 0, low);
                        high = add_fifth_bits(kind, p, 16, high);
                }
                if (kind.form == FORM_IQ4 || kind.form == FORM_MXFP4) {
                        __m512i codes = _mm512_broadcast_i32x4(block_codes(kind, 1 << kind.shift));

                        low = _mm512_shuffle_epi8(codes, low);
                        high = _mm512_shuffle_epi8(codes, high);
                }
                ret[2 * h] = low;
                ret[2 * h + 1] = high;
        }
}

/* Sums of 4 products: 128-bit lane i is block i. */
KERN_INLINE __m512i dot4(__m512i w_low, __m512i w_high, const uint8_t *x) {
        __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w_low, _mm512_load_si512(x));

        return _mm512_dpbusd_epi32(s, w_high, _mm512_load_si512(x + 64));
}

KERN_INLINE __m512i add_pairs32(__m512i a, __m512i b) {
        return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* @first: the first 4 bytes of each block. */
KERN_INLINE __m512 weight_scales(const struct block_kind kind, __m512i first) {
        __m512i one = _mm512_set1_epi32(1), e;

        if (kind.form != FORM_MXFP4)
                return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(first));
        e = _mm512_and_si512(first, _mm512_set1_epi32(255));
        return _mm512_castsi512_ps(
                _mm512_mask_sllv_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                        _mm512_cmple_epu32_mask(e, one), _mm512_set1_epi32(0x200000), e));
}

/* The first 4 bytes of the blocks q and q + 4 of both rows. */
KERN_INLINE __m128i first_of_4(
        const struct block_kind kind, const uint8_t *w0, const uint8_t *w1, unsigned q) {
        int32_t v[4];

        memcpy(&v[0], w0 + q * kind.size, 4);
        memcpy(&v[1], w0 + (q + 4) * kind.size, 4);
        memcpy(&v[2], w1 + q * kind.size, 4);
        memcpy(&v[3], w1 + (q + 4) * kind.size, 4);
        return _mm_setr_epi32(v[0], v[1], v[2], v[3]);
}

/* The first 4 bytes of 8 blocks of two rows, lanes as group_lane() says. Gathering them is slower, where
 * gathering is safe. */
KERN_INLINE __m512i first_of_16(
        const struct block_kind kind, const uint8_t *w0, const uint8_t *w1) {
        __m256i low = _mm256_set_m128i(first_of_4(kind, w0, w1, 1), first_of_4(kind, w0, w1, 0));
        __m256i high = _mm256_set_m128i(first_of_4(kind, w0, w1, 3), first_of_4(kind, w0, w1, 2));

        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* One group of 8 blocks of two rows, lanes as group_lane() says. */
KERN_INLINE void group(const struct block_kind kind, unsigned n_tokens, const uint8_t *w0,
        const uint8_t *w1, const uint8_t *x, size_t x_stride, __mmask16 lanes, __m512 *acc) {
        __m512i r0[4], r1[4], h;
        __m512 dw, mw;

        load_group(kind, w0, r0);
        load_group(kind, w1, r1);
        h = first_of_16(kind, w0, w1);
        dw = weight_scales(kind, h);
        mw = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(h, 16)));
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++, x += x_stride) {
                __m512i s01 = add_pairs32(dot4(r0[0], r0[1], x), dot4(r0[2], r0[3], x + 128));
                __m512i s23 = add_pairs32(dot4(r1[0], r1[1], x), dot4(r1[2], r1[3], x + 128));
                __m512i sum = _mm512_add_epi32(
                        _mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23));
                __m512i sums = _mm512_load_si512(x + GROUP_SUMS);
                __m512 dx = _mm512_load_ps(x + GROUP_SCALES);

                if (!kind.min)
                        sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(sums, kind.shift));
                acc[t] = _mm512_mask3_fmadd_ps(
                        _mm512_cvtepi32_ps(sum), _mm512_mul_ps(dw, dx), acc[t], lanes);
                if (kind.min)
                        acc[t] = _mm512_mask3_fmadd_ps(
                                _mm512_cvtepi32_ps(sums), _mm512_mul_ps(mw, dx), acc[t], lanes);
        }
}

/* One token: 16 blocks of one row, in the lanes of two rows' 8 blocks. Lanes 2 and 3 of each 4 are of no use in
 * @acc. */
KERN_INLINE __m512 group16(
        const struct block_kind kind, const uint8_t *w, const uint8_t *x, __m512 acc) {
        const uint8_t *w1 = w + 8 * kind.size, *x1 = x + GROUP_SIZE;
        __m512i r0[4], r1[4], h = first_of_16(kind, w, w1), s01, s23, sum, sums;
        __m512 dx, d, m, v;

        load_group(kind, w, r0);
        load_group(kind, w1, r1);
        s01 = add_pairs32(dot4(r0[0], r0[1], x), dot4(r0[2], r0[3], x + 128));
        s23 = add_pairs32(dot4(r1[0], r1[1], x1), dot4(r1[2], r1[3], x1 + 128));
        sum = _mm512_add_epi32(_mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23));
        sums = _mm512_mask_blend_epi32(
                0xcccc, _mm512_load_si512(x + GROUP_SUMS), _mm512_load_si512(x1 + GROUP_SUMS));
        dx = _mm512_mask_blend_ps(
                0xcccc, _mm512_load_ps(x + GROUP_SCALES), _mm512_load_ps(x1 + GROUP_SCALES));
        if (!kind.min)
                sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(sums, kind.shift));
        v = _mm512_cvtepi32_ps(sum);
        d = _mm512_mul_ps(weight_scales(kind, h), dx);
        m = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(h, 16))), dx);
        acc = _mm512_fmadd_ps(v, d, acc);
        if (kind.min)
                acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), m, acc);
        /* blocks 8-15 */
        acc = _mm512_fmadd_ps(_mm512_permute_ps(v, 0x4e), _mm512_permute_ps(d, 0x4e), acc);
        if (kind.min)
                acc = _mm512_fmadd_ps(_mm512_permute_ps(_mm512_cvtepi32_ps(sums), 0x4e),
                        _mm512_permute_ps(m, 0x4e), acc);
        return acc;
}

/* tree8 of both rows, in elements 0 and 2. */
KERN_INLINE __m128 tree8x2(__m512 a) {
        __m512 c = _mm512_add_ps(a, _mm512_permute_ps(a, 0xb1));
        __m256 d = _mm256_add_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));

        return _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
}

/* A group of which only @n blocks are of the rows. @end: of the matrix; nothing may be read past it. */
KERN_INLINE void last_group(const struct block_kind kind, unsigned n_tokens, const uint8_t *w0,
        const uint8_t *w1, const uint8_t *end, size_t n, const uint8_t *x, size_t x_stride,
        __m512 *acc) {
        uint8_t tail[2][8 * BLOCK_SIZE_MAX];
        __mmask16 lanes = 0;

        for (unsigned l = 0; l < 16; l++)
                lanes |= (__mmask16)((group_lane(l) < n) << l);
        /* Lanes beyond the row may read the next one; only the last row has none. */
        if ((size_t)(end - w1) < 8 * kind.size) {
                memset(tail, 0, sizeof(tail));
                w0 = memcpy(tail[0], w0, n * kind.size);
                w1 = memcpy(tail[1], w1, n * kind.size);
        }
        group(kind, n_tokens, w0, w1, x, x_stride, lanes, acc);
}

/* Rows w0 and w1 times n_tokens tokens. @end: of the matrix; nothing may be read past it. */
KERN_INLINE void two_rows(const struct block_kind kind, unsigned n_tokens, const uint8_t *w0,
        const uint8_t *w1, const uint8_t *end, size_t n_blocks, const uint8_t *x, size_t x_stride,
        float *y, size_t ldy, bool both) {
        const size_t step = 8 * kind.size;
        size_t n_groups = n_blocks / 8, rest = n_blocks % 8, row_size = n_blocks * kind.size;
        size_t ahead = PREFETCH_TWO_ROWS + PREFETCH_TWO_ROWS / row_size * row_size;
        /* From here on it is of rows that are one pair further. */
        size_t turn = row_size - PREFETCH_TWO_ROWS % row_size;
        __m512 acc[ROWS_MAX];

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm512_setzero_ps();
        for (size_t g = 0; g < n_groups; g++, w0 += step, w1 += step, x += GROUP_SIZE) {
                size_t skip = g * step < turn ? ahead : ahead + row_size;

                KERN_UNROLL for (size_t b = 0; b < step; b += 64) {
                        __builtin_prefetch(w0 + skip + b);
                        __builtin_prefetch(w1 + skip + b);
                }
                group(kind, n_tokens, w0, w1, x, x_stride, 0xffff, acc);
        }
        if (rest > 0)
                last_group(kind, n_tokens, w0, w1, end, rest, x, x_stride, acc);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                __m128 s = tree8x2(acc[t]);

                y[t * ldy] = _mm_cvtss_f32(s);
                if (both)
                        y[t * ldy + 1] = _mm_cvtss_f32(_mm_movehl_ps(s, s));
        }
}

/* One token by one row: memory is read as one stream, which is what this waits for. @end: of the matrix. */
KERN_INLINE void one_row(const struct block_kind kind, const uint8_t *w, const uint8_t *end,
        size_t n_blocks, const uint8_t *x, float *y) {
        const size_t step = 16 * kind.size;
        __m512 acc = _mm512_setzero_ps();
        size_t n = n_blocks / 16;

        for (; n > 0; n--, w += step, x += 2 * GROUP_SIZE) {
                KERN_UNROLL for (size_t b = 0; b < step; b += 64)
                        __builtin_prefetch(w + PREFETCH_ONE_ROW + b);
                acc = group16(kind, w, x, acc);
        }
        if (n_blocks % 16 >= 8) {
                group(kind, 1, w, w, x, 0, 0xffff, &acc);
                w += step / 2;
                x += GROUP_SIZE;
        }
        if (n_blocks % 8 > 0)
                last_group(kind, 1, w, w, end, n_blocks % 8, x, 0, &acc);
        *y = _mm_cvtss_f32(tree8x2(acc));
}

/* The tokens of one unit in row layout, if it has any. */
KERN_INLINE void unit_rows(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t unit) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, stride = a->quantised_row_size;
        const uint8_t *unit_x = kern_act_unit(a, unit);
        const uint8_t *end = (const uint8_t *)w->data + w->n_out * w->row_size;

        if (unit * KERN_ACT_UNIT >= a->n_tokens)
                return;
        y += unit * KERN_ACT_UNIT * ldy;
        if (a->n_tokens - unit * KERN_ACT_UNIT == 1) {
                for (size_t o = row0; o < row1; o++)
                        one_row(kind, (const uint8_t *)w->data + o * w->row_size, end, n_blocks,
                                unit_x, y + o);
                return;
        }
        for (size_t o = row0; o < row1; o += 2) {
                const uint8_t *w0 = (const uint8_t *)w->data + o * w->row_size;
                bool both = o + 1 < row1;
                const uint8_t *w1 = both ? w0 + w->row_size : w0;

                /* Weights are made ready once for all tokens: there are registers for as many as a unit has. */
                _Static_assert(ROWS_MAX == 8, "a case for each number of tokens");
                switch (a->n_tokens - unit * KERN_ACT_UNIT) {
#define TOKENS(n)                                                                                  \
        case n:                                                                                    \
                two_rows(kind, n, w0, w1, end, n_blocks, unit_x, stride, y + o, ldy, both);        \
                break;
                        TOKENS(2)
                        TOKENS(3)
                        TOKENS(4)
                        TOKENS(5)
                        TOKENS(6)
                        TOKENS(7)
                        TOKENS(8)
#undef TOKENS
                }
        }
}

#define X(name, type, ...)                                                                         \
        static void matmul_##name(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy) {                                               \
                size_t n = n_packed_units(a);                                                      \
                                                                                                   \
                LEVEL(packed_##name)(w, a, row0, row1, y, ldy, n);                                 \
                unit_rows((struct block_kind)__VA_ARGS__, w, a, row0, row1, y, ldy, n);            \
        }
BLOCK_KINDS(X)
#undef X

void kern_avx512_vnni_matmul_block(struct kern_ops *ops) {
#define X(name, type, ...) ops->matmul[type] = matmul_##name;
        BLOCK_KINDS(X)
#undef X
        ops->act_round[KERN_ACT_Q8] = kern_avx512_vnni_act_round;
        ops->act_round[KERN_ACT_Q8_REPACKED] = kern_avx512_vnni_act_round_repacked;
}
