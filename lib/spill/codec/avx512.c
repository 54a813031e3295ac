/* SPDX-License-Identifier: MIT */
/* AVX-512: 16 lanes in a register. */
#include <immintrin.h>

#include "spill/codec/kernels.h"

/* One value of 16 lanes. The words go to the lanes that want one, in rising order. Returns the
 * slots' entries. */
static inline __m512i step(
        __m512i *state, const uint32_t *slots, const uint8_t *tables, const uint8_t **words) {
        const __m512i slot_mask = _mm512_set1_epi32(KV_SLOTS - 1), low = _mm512_set1_epi32(KV_LOW);
        const __m512i field = _mm512_set1_epi32(0xfff);
        __m512i x = *state, t, e, w;
        __mmask16 refill;

        t = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)tables));
        t = _mm512_slli_epi32(t, KV_BITS);
        /* t | (x & mask) */
        t = _mm512_ternarylogic_epi32(t, x, slot_mask, 0xf8);
        e = _mm512_i32gather_epi32(t, slots, 4);
        x = _mm512_mullo_epi32(_mm512_srli_epi32(e, 20), _mm512_srli_epi32(x, KV_BITS));
        x = _mm512_add_epi32(x, _mm512_and_si512(_mm512_srli_epi32(e, 8), field));
        refill = _mm512_cmplt_epu32_mask(x, low);
        w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)*words));
        w = _mm512_maskz_expand_epi32(refill, w);
        *state = _mm512_mask_or_epi32(x, refill, _mm512_slli_epi32(x, 16), w);
        *words += 2 * (unsigned)__builtin_popcount(refill);
        return e;
}

static inline void put_f16(const struct kv_piece *p, size_t i, __m512i a, __m512i b) {
        __m512i low = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(p->low + i)));
        __m512i v = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm512_cvtepi32_epi16(a)), _mm512_cvtepi32_epi16(b), 1);

        _mm512_storeu_si512(p->dst + 2 * i, _mm512_or_si512(_mm512_slli_epi16(v, 8), low));
}

static inline __m512i value_f32(const struct kv_piece *p, size_t i, __m512i e) {
        __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p->low + 2 * i)));
        __m512i mid = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p->mid + i)));

        low = _mm512_or_si512(low, _mm512_slli_epi32(mid, 16));
        return _mm512_or_si512(low, _mm512_slli_epi32(e, 24));
}

static inline void put_f32(const struct kv_piece *p, size_t i, __m512i a, __m512i b) {
        _mm512_storeu_si512(p->dst + 4 * i, value_f32(p, i, a));
        _mm512_storeu_si512(p->dst + 4 * i + 64, value_f32(p, i + 16, b));
}

static inline void put_i8(const struct kv_piece *p, size_t i, __m512i a, __m512i b) {
        _mm_storeu_si128((__m128i *)(p->dst + i), _mm512_cvtepi32_epi8(a));
        _mm_storeu_si128((__m128i *)(p->dst + i + 16), _mm512_cvtepi32_epi8(b));
}

static inline __attribute__((always_inline)) void put(
        const struct kv_piece *p, enum kv_kind kind, size_t i, __m512i a, __m512i b) {
        if (kind == KV_F16)
                put_f16(p, i, a, b);
        else if (kind == KV_F32)
                put_f32(p, i, a, b);
        else
                put_i8(p, i, a, b);
}

static inline __attribute__((always_inline)) size_t decode(
        struct kv_reader *r, const struct kv_piece *p, enum kv_kind kind) {
        const uint8_t *words = r->src + r->pos, *tables = p->tables, *end;
        const uint32_t *slots = r->slots;
        __m512i x[4], e[4];
        size_t n = 0;

        if (r->pos > r->limit || r->limit - r->pos < KV_GROUP_WORDS)
                return 0;
        end = r->src + r->limit - KV_GROUP_WORDS;
        for (size_t i = 0; i < 4; i++)
                x[i] = _mm512_loadu_si512(r->state + 16 * i);
        for (; p->n - n >= KV_LANES && words <= end; n += KV_LANES) {
                e[0] = step(&x[0], slots, tables + n, &words);
                e[1] = step(&x[1], slots, tables + n + 16, &words);
                e[2] = step(&x[2], slots, tables + n + 32, &words);
                e[3] = step(&x[3], slots, tables + n + 48, &words);
                put(p, kind, n, e[0], e[1]);
                put(p, kind, n + 32, e[2], e[3]);
        }
        r->pos = (size_t)(words - r->src);
        for (size_t i = 0; i < 4; i++)
                _mm512_storeu_si512(r->state + 16 * i, x[i]);
        return n;
}

static size_t decode_f16(struct kv_reader *r, const struct kv_piece *p) {
        return decode(r, p, KV_F16);
}

static size_t decode_f32(struct kv_reader *r, const struct kv_piece *p) {
        return decode(r, p, KV_F32);
}

static size_t decode_i8(struct kv_reader *r, const struct kv_piece *p) {
        return decode(r, p, KV_I8);
}

/* x * rcp >> (31 + shift), the product in 64 bits. */
static inline __m512i divide(__m512i x, __m512i rcp, __m512i shift) {
        const __m512i half = _mm512_set1_epi64(0xffffffff);
        __m512i even, odd;

        even = _mm512_srlv_epi64(_mm512_mul_epu32(x, rcp), _mm512_and_si512(shift, half));
        odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(rcp, 32));
        odd = _mm512_srlv_epi64(odd, _mm512_srli_epi64(shift, 32));
        return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

static inline __m512i encode_step(
        struct kv_writer *w, __m512i x, const uint8_t *symbols, const uint8_t *tables) {
        const __m512i field = _mm512_set1_epi32(0xfff);
        __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)tables));
        __m512i s = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)symbols));
        __m512i rcp, info, freq, q;
        __mmask16 spill;
        unsigned n;

        at = _mm512_or_si512(_mm512_slli_epi32(at, 8), s);
        rcp = _mm512_i32gather_epi32(at, w->symbols, 8);
        info = _mm512_i32gather_epi32(at, (const uint8_t *)w->symbols + 4, 8);
        freq = _mm512_and_si512(info, field);
        spill = _mm512_cmpge_epu32_mask(x, _mm512_slli_epi32(freq, 31 - KV_BITS));
        n = (unsigned)__builtin_popcount(spill);
        w->pos -= 2 * n;
        _mm256_mask_storeu_epi16(w->words + w->pos, (__mmask16)((1u << n) - 1),
                _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(spill, x)));
        x = _mm512_mask_srli_epi32(x, spill, x, 16);
        q = divide(x, rcp, _mm512_add_epi32(_mm512_srli_epi32(info, 24), _mm512_set1_epi32(31)));
        q = _mm512_mullo_epi32(q, _mm512_sub_epi32(_mm512_set1_epi32(KV_SLOTS), freq));
        x = _mm512_add_epi32(x, _mm512_and_si512(_mm512_srli_epi32(info, 12), field));
        return _mm512_add_epi32(x, q);
}

static void encode(struct kv_writer *w, const uint8_t *symbols, const uint8_t *tables, size_t n) {
        __m512i x[4];

        for (size_t i = 0; i < 4; i++)
                x[i] = _mm512_loadu_si512(w->state + 16 * i);
        for (; n > 0; n -= KV_LANES) {
                x[3] = encode_step(w, x[3], symbols + n - 16, tables + n - 16);
                x[2] = encode_step(w, x[2], symbols + n - 32, tables + n - 32);
                x[1] = encode_step(w, x[1], symbols + n - 48, tables + n - 48);
                x[0] = encode_step(w, x[0], symbols + n - 64, tables + n - 64);
        }
        for (size_t i = 0; i < 4; i++)
                _mm512_storeu_si512(w->state + 16 * i, x[i]);
}

static void slots(const struct kv_table *t, uint32_t *to) {
        const __m512i count =
                _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);

        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i], e = freq << 20 | t->symbol[i];
                __m512i v =
                        _mm512_add_epi32(_mm512_set1_epi32((int)e), _mm512_slli_epi32(count, 8));

                for (uint32_t j = 0; j < freq; j += 16) {
                        _mm512_storeu_si512(to + j, v);
                        v = _mm512_add_epi32(v, _mm512_set1_epi32(16 << 8));
                }
                to += freq;
        }
}

void kv_kernels_avx512(struct kv_kernels *k) {
        k->decode[KV_F16] = decode_f16;
        k->decode[KV_F32] = decode_f32;
        k->decode[KV_I8] = decode_i8;
        k->encode = encode;
        k->slots = slots;
}
