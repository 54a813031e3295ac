/* SPDX-License-Identifier: MIT */
/*
 * Block-quantised weights times a few tokens. Generating text consists mostly of this, so it must be
 * as fast as memory: weights are read once, in order. A lane is a block: the products of 8 blocks are
 * added to one register of 8 sums. Nothing saturates: maddubs adds 2 products of at most 128 * 127.
 * AVX-512 without VNNI uses this text, too; one with wider registers was not tried.
 */
#include "kern/x86/block-avx2.h"
#include "kern/x86/block-values.h"

#define N_TOKENS 4
/* Bytes ahead: what processors foresee by themselves does not keep one core busy. */
#define PREFETCH 4608

/* Values are unsigned, after adding 1 << shift if they have no offset; others keep their signs. */
KERN_INLINE bool is_signed(const struct block_kind kind) {
        return kind.form == FORM_BYTES || kind.form == FORM_IQ4;
}

/* Bits 0-15 and 16-31 of two blocks' fifth bits, as 16s. */
KERN_INLINE __m256i spread_half(__m256i bits, unsigned half) {
        const __m256i byte = _mm256_broadcastsi128_si256(
                _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
        const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
        __m256i v = _mm256_shuffle_epi8(
                bits, _mm256_add_epi8(byte, _mm256_set1_epi8((char)(2 * half))));

        return _mm256_and_si256(
                _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), _mm256_set1_epi8(16));
}

KERN_INLINE __m256i load_two(const uint8_t *a, const uint8_t *b) {
        return _mm256_set_m128i(
                _mm_loadu_si128((const __m128i *)b), _mm_loadu_si128((const __m128i *)a));
}

/* Values 0-15 (ret[0]) and 16-31 of two blocks. */
KERN_INLINE void values(
        const struct block_kind kind, const uint8_t *a, const uint8_t *b, __m256i *ret) {
        size_t at = values_at(kind);
        __m256i v = load_two(a + at, b + at), mask = _mm256_set1_epi8(15), codes, bits;

        if (kind.form == FORM_BYTES) {
                ret[0] = v;
                ret[1] = load_two(a + at + 16, b + at + 16);
                return;
        }
        ret[0] = _mm256_and_si256(v, mask);
        ret[1] = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
        if (kind.form == FORM_FIVE) {
                bits = _mm256_set_m128i(_mm_set1_epi32((int)fifth_bits(kind, b)),
                        _mm_set1_epi32((int)fifth_bits(kind, a)));
                ret[0] = _mm256_or_si256(ret[0], spread_half(bits, 0));
                ret[1] = _mm256_or_si256(ret[1], spread_half(bits, 1));
        }
        if (kind.form == FORM_IQ4 || kind.form == FORM_MXFP4) {
                codes = _mm256_broadcastsi128_si256(
                        block_codes(kind, is_signed(kind) ? 0 : 1 << kind.shift));
                ret[0] = _mm256_shuffle_epi8(codes, ret[0]);
                ret[1] = _mm256_shuffle_epi8(codes, ret[1]);
        }
}

/* 4 sums of 8 products of each of two blocks. */
KERN_INLINE __m256i dot8(const struct block_kind kind, const __m256i *w, const int8_t *q) {
        __m256i x0 = _mm256_loadu_si256((const __m256i *)q);
        __m256i x1 = _mm256_loadu_si256((const __m256i *)(q + 32)), p[2];

        /* Signed: w*x = |w| * (x with w's sign); |-128| is 128, unsigned. */
#ifdef __AVXVNNI__
        if (!is_signed(kind))
                return _mm256_dpbusd_avx_epi32(
                        _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), w[0], x0), w[1], x1);
        p[0] = _mm256_dpbusd_avx_epi32(
                _mm256_setzero_si256(), _mm256_sign_epi8(w[0], w[0]), _mm256_sign_epi8(x0, w[0]));
        return _mm256_dpbusd_avx_epi32(
                p[0], _mm256_sign_epi8(w[1], w[1]), _mm256_sign_epi8(x1, w[1]));
#else
        const __m256i ones = _mm256_set1_epi16(1);

        if (!is_signed(kind))
                return _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(w[0], x0),
                                                 _mm256_maddubs_epi16(w[1], x1)),
                        ones);
        p[0] = _mm256_maddubs_epi16(_mm256_sign_epi8(w[0], w[0]), _mm256_sign_epi8(x0, w[0]));
        p[1] = _mm256_maddubs_epi16(_mm256_sign_epi8(w[1], w[1]), _mm256_sign_epi8(x1, w[1]));
        return _mm256_add_epi32(_mm256_madd_epi16(p[0], ones), _mm256_madd_epi16(p[1], ones));
#endif
}

/* The integer sums of 8 blocks by each token. */
KERN_INLINE void isum8(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        const int8_t *q, size_t x_stride, __m256i *ret) {
        __m256i part[N_TOKENS][4];

        KERN_UNROLL for (unsigned p = 0; p < 4; p++) {
                __m256i v[2];

                values(kind, w + p * kind.size, w + (p + 4) * kind.size, v);
                KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) part[t][p] =
                        dot8(kind, v, q + t * x_stride + 64 * p);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) ret[t] =
                _mm256_hadd_epi32(_mm256_hadd_epi32(part[t][0], part[t][1]),
                        _mm256_hadd_epi32(part[t][2], part[t][3]));
}

/* The f16 at the beginning of 8 blocks. */
KERN_INLINE __m256 halves(const struct block_kind kind, const uint8_t *w) {
        uint16_t h[8];

        KERN_UNROLL for (unsigned b = 0; b < 8; b++) memcpy(&h[b], w + b * kind.size, sizeof(h[b]));
        return _mm256_cvtph_ps(_mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3],
                (short)h[4], (short)h[5], (short)h[6], (short)h[7]));
}

KERN_INLINE __m256 weight_scales(const struct block_kind kind, const uint8_t *w) {
        __m256i one = _mm256_set1_epi32(1), e, normal, subnormal;

        if (kind.form != FORM_MXFP4)
                return halves(kind, w);
        e = _mm256_setr_epi32(w[0], w[kind.size], w[2 * kind.size], w[3 * kind.size],
                w[4 * kind.size], w[5 * kind.size], w[6 * kind.size], w[7 * kind.size]);
        normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
        subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
        return _mm256_castsi256_ps(
                _mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(e, one)));
}

/* 8 blocks from block b of the tokens on; lanes without a block keep their value. */
KERN_INLINE void group(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        const uint8_t *x, size_t x_stride, size_t n8, size_t b, __m256 lanes, __m256 *acc) {
        __m256 dw = weight_scales(kind, w), mw = _mm256_setzero_ps();
        __m256i isum[N_TOKENS];

        if (kind.min)
                mw = halves(kind, w + 2);
        isum8(kind, n_tokens, w, (const int8_t *)((const float *)x + 2 * n8) + b * KERN_ACT_BLOCK,
                x_stride, isum);
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) {
                const float *d = (const float *)(x + t * x_stride);
                __m256i sum = isum[t];
                __m256i x_sum = _mm256_loadu_si256((const __m256i *)(d + n8 + b));
                __m256 dx = _mm256_loadu_ps(d + b), v;

                if (!is_signed(kind) && !kind.min)
                        sum = _mm256_sub_epi32(sum, _mm256_slli_epi32(x_sum, (int)kind.shift));
                v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(dw, dx), acc[t]);
                if (kind.min)
                        v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(x_sum), _mm256_mul_ps(mw, dx), v);
                acc[t] = _mm256_blendv_ps(acc[t], v, lanes);
        }
}

/* @end: of the matrix; nothing may be read past it. */
KERN_INLINE void row(const struct block_kind kind, unsigned n_tokens, const uint8_t *w,
        const uint8_t *end, size_t n_blocks, const uint8_t *x, size_t x_stride, float *y,
        size_t ldy) {
        size_t n8 = (n_blocks + 7) & ~(size_t)7, b = 0;
        __m256 acc[N_TOKENS], all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));

        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) acc[t] = _mm256_setzero_ps();
        for (; b + 8 <= n_blocks; b += 8, w += 8 * kind.size) {
                KERN_UNROLL for (size_t i = 0; i < 8 * kind.size; i += 64)
                        __builtin_prefetch(w + PREFETCH + i);
                group(kind, n_tokens, w, x, x_stride, n8, b, all, acc);
        }
        if (b < n_blocks) {
                __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                __m256i some = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n_blocks - b)), index);
                uint8_t tail[8 * BLOCK_SIZE_MAX];

                /* Lanes beyond the row may read the next one; only the last row has none. */
                if ((size_t)(end - w) < 8 * kind.size) {
                        memset(tail, 0, sizeof(tail));
                        w = memcpy(tail, w, (n_blocks - b) * kind.size);
                }
                group(kind, n_tokens, w, x, x_stride, n8, b, _mm256_castsi256_ps(some), acc);
        }
        KERN_UNROLL for (unsigned t = 0; t < n_tokens; t++) y[t * ldy] = tree8(acc[t]);
}

/* The tokens behind the packed units. */
KERN_INLINE void unit_rows(const struct block_kind kind, const struct kern_mat *w,
        const struct kern_act *a, size_t row0, size_t row1, float *y, size_t ldy, size_t unit) {
        size_t n_blocks = w->n_in / KERN_ACT_BLOCK, stride = a->quantised_row_size;
        const uint8_t *end = (const uint8_t *)w->data + w->n_out * w->row_size;
        const uint8_t *unit_x = kern_act_unit(a, unit);

        if (unit * KERN_ACT_UNIT >= a->n_tokens)
                return;
        y += unit * KERN_ACT_UNIT * ldy;
        for (size_t o = row0; o < row1; o++) {
                const uint8_t *p = (const uint8_t *)w->data + o * w->row_size, *x = unit_x;
                size_t n = a->n_tokens - unit * KERN_ACT_UNIT;
                float *yo = y + o;

                for (; n >= 4; n -= 4, x += 4 * stride, yo += 4 * ldy)
                        row(kind, 4, p, end, n_blocks, x, stride, yo, ldy);
                if (n == 3)
                        row(kind, 3, p, end, n_blocks, x, stride, yo, ldy);
                else if (n == 2)
                        row(kind, 2, p, end, n_blocks, x, stride, yo, ldy);
                else if (n == 1)
                        row(kind, 1, p, end, n_blocks, x, stride, yo, ldy);
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

void LEVEL(matmul_block)(struct kern_ops *ops) {
#define X(name, type, ...) ops->matmul[type] = matmul_##name;
        BLOCK_KINDS(X)
#undef X
        ops->act_round[KERN_ACT_Q8] = kern_avx2_act_round;
        ops->act_round[KERN_ACT_Q8_REPACKED] = kern_avx2_act_round_repacked;
}
