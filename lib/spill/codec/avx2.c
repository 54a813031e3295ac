/* SPDX-License-Identifier: MIT */
/* AVX2: 8 lanes in a register. What AVX-512 does with an expanding load is a permutation here. */
#include <immintrin.h>

#include "spill/codec/avx2-tables.h"
#include "spill/codec/kernels.h"

static inline __m256i load8(const uint8_t *p) {
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* Lanes of @x by the nibbles of @order. */
static inline __m256i permute(__m256i x, uint32_t order) {
        const __m256i shifts = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);

        return _mm256_permutevar8x32_epi32(
                x, _mm256_srlv_epi32(_mm256_set1_epi32((int)order), shifts));
}

/* One value of 8 lanes; see the version for AVX-512. */
static inline __m256i step(
        __m256i *state, const uint32_t *slots, const uint8_t *tables, const uint8_t **words) {
        const __m256i slot_mask = _mm256_set1_epi32(KV_SLOTS - 1), low = _mm256_set1_epi32(KV_LOW);
        const __m256i field = _mm256_set1_epi32(0xfff);
        __m256i x = *state, t, e, w, want;
        unsigned refill;

        t = _mm256_slli_epi32(load8(tables), KV_BITS);
        t = _mm256_or_si256(t, _mm256_and_si256(x, slot_mask));
        e = _mm256_i32gather_epi32((const int *)slots, t, 4);
        x = _mm256_mullo_epi32(_mm256_srli_epi32(e, 20), _mm256_srli_epi32(x, KV_BITS));
        x = _mm256_add_epi32(x, _mm256_and_si256(_mm256_srli_epi32(e, 8), field));
        /* A state is below 2^31. */
        want = _mm256_cmpgt_epi32(low, x);
        refill = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(want));
        w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)*words));
        w = permute(w, expand_ranks[refill]);
        *state = _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), w), want);
        *words += 2 * (unsigned)__builtin_popcount(refill);
        return e;
}

/* The symbols of 16 entries, each in its 16 bits. */
static inline __m256i symbols16(__m256i a, __m256i b) {
        const __m256i low = _mm256_set1_epi32(0xff);
        __m256i v = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));

        return _mm256_permute4x64_epi64(v, 0xd8);
}

static inline void put_f16(const struct kv_piece *p, size_t i, const __m256i e[4]) {
        for (size_t j = 0; j < 2; j++) {
                __m256i v = _mm256_slli_epi16(symbols16(e[2 * j], e[2 * j + 1]), 8);
                __m256i low = _mm256_cvtepu8_epi16(
                        _mm_loadu_si128((const __m128i *)(p->low + i + 16 * j)));

                _mm256_storeu_si256((__m256i *)(p->dst + 2 * i + 32 * j), _mm256_or_si256(v, low));
        }
}

static inline void put_f32(const struct kv_piece *p, size_t i, const __m256i e[4]) {
        for (size_t j = 0; j < 4; j++) {
                size_t at = i + 8 * j;
                __m256i v = _mm256_slli_epi32(e[j], 24);

                v = _mm256_or_si256(v, _mm256_slli_epi32(load8(p->mid + at), 16));
                v = _mm256_or_si256(v,
                        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p->low + 2 * at))));
                _mm256_storeu_si256((__m256i *)(p->dst + 4 * at), v);
        }
}

static inline void put_i8(const struct kv_piece *p, size_t i, const __m256i e[4]) {
        __m256i v = _mm256_packus_epi16(symbols16(e[0], e[1]), symbols16(e[2], e[3]));

        _mm256_storeu_si256((__m256i *)(p->dst + i), _mm256_permute4x64_epi64(v, 0xd8));
}

static inline __attribute__((always_inline)) void put(
        const struct kv_piece *p, enum kv_kind kind, size_t i, const __m256i e[4]) {
        if (kind == KV_F16)
                put_f16(p, i, e);
        else if (kind == KV_F32)
                put_f32(p, i, e);
        else
                put_i8(p, i, e);
}

static inline __attribute__((always_inline)) size_t decode(
        struct kv_reader *r, const struct kv_piece *p, enum kv_kind kind) {
        const uint8_t *words = r->src + r->pos, *tables = p->tables, *end;
        const uint32_t *slots = r->slots;
        __m256i x[8], e[8];
        size_t n = 0;

        if (r->pos > r->limit || r->limit - r->pos < KV_GROUP_WORDS)
                return 0;
        end = r->src + r->limit - KV_GROUP_WORDS;
        for (size_t i = 0; i < 8; i++)
                x[i] = _mm256_loadu_si256((const __m256i *)(r->state + 8 * i));
        for (; p->n - n >= KV_LANES && words <= end; n += KV_LANES) {
                for (size_t i = 0; i < 8; i++)
                        e[i] = step(&x[i], slots, tables + n + 8 * i, &words);
                put(p, kind, n, e);
                put(p, kind, n + 32, e + 4);
        }
        r->pos = (size_t)(words - r->src);
        for (size_t i = 0; i < 8; i++)
                _mm256_storeu_si256((__m256i *)(r->state + 8 * i), x[i]);
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
static inline __m256i divide(__m256i x, __m256i rcp, __m256i shift) {
        const __m256i half = _mm256_set1_epi64x(0xffffffff);
        __m256i even, odd;

        even = _mm256_srlv_epi64(_mm256_mul_epu32(x, rcp), _mm256_and_si256(shift, half));
        odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(rcp, 32));
        odd = _mm256_srlv_epi64(odd, _mm256_srli_epi64(shift, 32));
        return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

/* The low words of the lanes that spill, in order, end at words[0); what lies before them is
 * overwritten as well. */
static inline void spill_words(uint8_t *words, __m256i x, unsigned spill) {
        __m256i v = permute(x, pack_lanes[spill]);

        v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
        v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0xd8);
        _mm_storeu_si128((__m128i *)(words - 16), _mm256_castsi256_si128(v));
}

static inline __m256i encode_step(
        struct kv_writer *w, __m256i x, const uint8_t *symbols, const uint8_t *tables) {
        const __m256i field = _mm256_set1_epi32(0xfff);
        const int *base = (const int *)w->symbols;
        __m256i at = _mm256_or_si256(_mm256_slli_epi32(load8(tables), 8), load8(symbols));
        __m256i rcp = _mm256_i32gather_epi32(base, at, 8);
        __m256i info = _mm256_i32gather_epi32(base + 1, at, 8), freq, keep, q;
        unsigned spill;

        freq = _mm256_and_si256(info, field);
        /* Frequency 2048 gives the sign bit alone, which no state reaches; all else is below. */
        keep = _mm256_slli_epi32(freq, 31 - KV_BITS);
        keep = _mm256_or_si256(_mm256_cmpgt_epi32(keep, x), _mm256_srai_epi32(keep, 31));
        spill = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(keep)) & 0xff;
        spill_words(w->words + w->pos, x, spill);
        w->pos -= 2 * (unsigned)__builtin_popcount(spill);
        x = _mm256_blendv_epi8(_mm256_srli_epi32(x, 16), x, keep);
        q = divide(x, rcp, _mm256_add_epi32(_mm256_srli_epi32(info, 24), _mm256_set1_epi32(31)));
        q = _mm256_mullo_epi32(q, _mm256_sub_epi32(_mm256_set1_epi32(KV_SLOTS), freq));
        x = _mm256_add_epi32(x, _mm256_and_si256(_mm256_srli_epi32(info, 12), field));
        return _mm256_add_epi32(x, q);
}

static void encode(struct kv_writer *w, const uint8_t *symbols, const uint8_t *tables, size_t n) {
        __m256i x[8];

        for (size_t i = 0; i < 8; i++)
                x[i] = _mm256_loadu_si256((const __m256i *)(w->state + 8 * i));
        for (; n > 0; n -= KV_LANES)
                for (size_t i = 8; i-- > 0;) {
                        size_t at = n - KV_LANES + 8 * i;

                        x[i] = encode_step(w, x[i], symbols + at, tables + at);
                }
        for (size_t i = 0; i < 8; i++)
                _mm256_storeu_si256((__m256i *)(w->state + 8 * i), x[i]);
}

static void slots(const struct kv_table *t, uint32_t *to) {
        const __m256i count = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);

        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i], e = freq << 20 | t->symbol[i];
                __m256i v =
                        _mm256_add_epi32(_mm256_set1_epi32((int)e), _mm256_slli_epi32(count, 8));

                for (uint32_t j = 0; j < freq; j += 8) {
                        _mm256_storeu_si256((__m256i *)(to + j), v);
                        v = _mm256_add_epi32(v, _mm256_set1_epi32(8 << 8));
                }
                to += freq;
        }
}

void kv_kernels_avx2(struct kv_kernels *k) {
        k->decode[KV_F16] = decode_f16;
        k->decode[KV_F32] = decode_f32;
        k->decode[KV_I8] = decode_i8;
        k->encode = encode;
        k->slots = slots;
}
