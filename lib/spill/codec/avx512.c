/* SPDX-License-Identifier: MIT */
/* AVX-512 with VBMI2 (all AVX-512 processors but the first ones): 32 lanes in a register. */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "spill/codec/choose.h"
#include "spill/codec/freqs.h"
#include "spill/codec/kernels.h"
#include "spill/codec/plain.h"
#include "spill/codec/spread.h"

static inline __m512i load_bytes(const uint8_t *p) {
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

/* One value of 32 lanes. The words go to the lanes that need one, in rising order. Returns the
 * slots' upper halves: the symbol above the offset's upper bits.
 *
 * States are kept in halves of 16 bits, so that most instructions work on 32 lanes, products take 5
 * cycles instead of 10, one expansion puts all words in place, and symbols end up where the values
 * need them. Slots have 32 bits: first those of the even lanes are gathered, then the odd ones. */
static inline __m512i step(__m512i *low, __m512i *high, const uint32_t *slots,
        const uint8_t *tables, const uint8_t **words) {
        const __m512i slot_mask = _mm512_set1_epi16(KV_SLOTS - 1), one = _mm512_set1_epi16(1);
        const __m512i field = _mm512_set1_epi16(0xfff), even = _mm512_set1_epi32(0xffff);
        __m512i lo = *low, hi = *high, at, a, b, info, freq, offset, q, p;
        __mmask32 carry, refill;

        /* table | (low & mask): of the even lanes, then of the odd ones */
        at = _mm512_ternarylogic_epi32(
                _mm512_slli_epi16(load_bytes(tables), KV_BITS), lo, slot_mask, 0xf8);
        a = _mm512_i32gather_epi32(_mm512_and_si512(at, even), slots, 4);
        b = _mm512_i32gather_epi32(_mm512_srli_epi32(at, 16), slots, 4);
        /* even ? a : b << 16, even ? a >> 16 : b */
        freq = _mm512_ternarylogic_epi32(even, a, _mm512_slli_epi32(b, 16), 0xca);
        info = _mm512_ternarylogic_epi32(even, _mm512_srli_epi32(a, 16), b, 0xca);
        offset = _mm512_and_si512(_mm512_shldi_epi16(info, freq, 4), field);
        freq = _mm512_and_si512(freq, field);
        /* freq * (state >> KV_BITS) + offset */
        q = _mm512_shldi_epi16(hi, lo, 16 - KV_BITS);
        p = _mm512_mullo_epi16(freq, q);
        lo = _mm512_add_epi16(p, offset);
        hi = _mm512_mullo_epi16(freq, _mm512_srli_epi16(hi, KV_BITS));
        hi = _mm512_add_epi16(hi, _mm512_mulhi_epu16(freq, q));
        carry = _mm512_cmplt_epu16_mask(lo, offset);
        hi = _mm512_mask_add_epi16(hi, carry, hi, one);
        /* Below 2^15: the upper 17 bits are none. */
        p = _mm512_shldi_epi16(hi, lo, 1);
        refill = _mm512_testn_epi16_mask(p, p);
        *high = _mm512_mask_mov_epi16(hi, refill, lo);
        *low = _mm512_mask_expand_epi16(lo, refill, _mm512_loadu_si512(*words));
        *words += 2 * (unsigned)__builtin_popcount(refill);
        return info;
}

static inline void put_f16(const struct kv_piece *p, size_t i, __m512i info) {
        const __m512i high = _mm512_set1_epi16((short)0xff00);
        __m512i low = load_bytes(p->low + i);

        /* (info & high) | low */
        _mm512_storeu_si512(p->dst + 2 * i, _mm512_ternarylogic_epi32(info, high, low, 0xea));
}

static inline void put_f32(const struct kv_piece *p, size_t i, __m512i info) {
        const __m512i high = _mm512_set1_epi16((short)0xff00);
        const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
        const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
        __m512i mid = load_bytes(p->mid + i);
        __m512i low = _mm512_loadu_si512(p->low + 2 * i), a, b;

        mid = _mm512_ternarylogic_epi32(info, high, mid, 0xea);
        /* Quarters 0, 2, 4, 6 of the 32 values, and 1, 3, 5, 7. */
        a = _mm512_unpacklo_epi16(low, mid);
        b = _mm512_unpackhi_epi16(low, mid);
        _mm512_storeu_si512(p->dst + 4 * i, _mm512_permutex2var_epi64(a, first, b));
        _mm512_storeu_si512(p->dst + 4 * i + 64, _mm512_permutex2var_epi64(a, second, b));
}

static inline void put_i8(const struct kv_piece *p, size_t i, __m512i info) {
        _mm256_storeu_si256(
                (__m256i *)(p->dst + i), _mm512_cvtepi16_epi8(_mm512_srli_epi16(info, 8)));
}

static inline __attribute__((always_inline)) void put(
        const struct kv_piece *p, enum kv_kind kind, size_t i, __m512i info) {
        if (kind == KV_F16)
                put_f16(p, i, info);
        else if (kind == KV_F32)
                put_f32(p, i, info);
        else
                put_i8(p, i, info);
}

/* The loop's state of one stream. */
struct stream {
        __m512i low[2], high[2];
        const uint8_t *words, *end;
        const uint32_t *slots;
};

static inline __attribute__((always_inline)) bool stream_open(
        struct stream *s, const struct kv_reader *r) {
        if (r->pos > r->limit || r->limit - r->pos < KV_GROUP_WORDS)
                return false;
        s->words = r->src + r->pos;
        s->end = r->src + r->limit - KV_GROUP_WORDS;
        s->slots = r->slots;
        for (size_t i = 0; i < 2; i++) {
                s->low[i] = _mm512_loadu_si512(r->low + 32 * i);
                s->high[i] = _mm512_loadu_si512(r->high + 32 * i);
        }
        return true;
}

static inline __attribute__((always_inline)) void stream_close(
        const struct stream *s, struct kv_reader *r) {
        r->pos = (size_t)(s->words - r->src);
        for (size_t i = 0; i < 2; i++) {
                _mm512_storeu_si512(r->low + 32 * i, s->low[i]);
                _mm512_storeu_si512(r->high + 32 * i, s->high[i]);
        }
}

/* A value of the first or the second 32 lanes: value n of the piece and those behind it. */
static inline __attribute__((always_inline)) void stream_step(
        struct stream *s, const struct kv_piece *p, enum kv_kind kind, size_t n, size_t half) {
        n += 32 * half;
        put(p, kind, n, step(&s->low[half], &s->high[half], s->slots, p->tables + n, &s->words));
}

static inline __attribute__((always_inline)) size_t decode(
        struct kv_reader *r, const struct kv_piece *piece, enum kv_kind kind, size_t n) {
        const struct kv_piece p = *piece;
        struct stream s;

        if (!stream_open(&s, r))
                return n;
        for (; p.n - n >= KV_LANES && s.words <= s.end; n += KV_LANES) {
                stream_step(&s, &p, kind, n, 0);
                stream_step(&s, &p, kind, n, 1);
        }
        stream_close(&s, r);
        return n;
}

static inline __attribute__((always_inline)) size_t decode_two(
        struct kv_reader *const r[2], const struct kv_piece *const p[2], enum kv_kind kind) {
        const struct kv_piece p0 = *p[0], p1 = *p[1];
        size_t n = 0, max = p0.n < p1.n ? p0.n : p1.n;
        struct stream s0, s1;

        if (!stream_open(&s0, r[0]) || !stream_open(&s1, r[1]))
                return 0;
        for (; max - n >= KV_LANES && s0.words <= s0.end && s1.words <= s1.end; n += KV_LANES) {
                stream_step(&s0, &p0, kind, n, 0);
                stream_step(&s1, &p1, kind, n, 0);
                stream_step(&s0, &p0, kind, n, 1);
                stream_step(&s1, &p1, kind, n, 1);
        }
        stream_close(&s0, r[0]);
        stream_close(&s1, r[1]);
        return n;
}

#define DECODE(name, kind)                                                                         \
        static size_t name(struct kv_reader *r, const struct kv_piece *p, size_t from) {           \
                return decode(r, p, kind, from);                                                   \
        }                                                                                          \
        static size_t name##_two(                                                                  \
                struct kv_reader *const r[2], const struct kv_piece *const p[2]) {                 \
                return decode_two(r, p, kind);                                                     \
        }
DECODE(decode_f16, KV_F16)
DECODE(decode_f32, KV_F32)
DECODE(decode_i8, KV_I8)

/* x -> x / freq * KV_SLOTS + x % freq + start. The quotient, below 2^20, by floats: rounding the state
 * and dividing lose 1/8 of it at most, so the nearest number is the quotient or one above, and then the
 * rest is negative. */
static inline __m512i push(__m512i x, __m512i info, __m512i freq) {
        __m512i q, rest;
        __mmask16 above;

        q = _mm512_cvtps_epi32(_mm512_div_ps(_mm512_cvtepi32_ps(x), _mm512_cvtepi32_ps(freq)));
        rest = _mm512_sub_epi32(x, _mm512_mullo_epi32(q, freq));
        above = _mm512_movepi32_mask(rest);
        rest = _mm512_mask_add_epi32(
                rest, above, rest, _mm512_sub_epi32(freq, _mm512_set1_epi32(KV_SLOTS)));
        x = _mm512_add_epi32(_mm512_slli_epi32(q, KV_BITS), _mm512_srli_epi32(info, 16));
        return _mm512_add_epi32(x, rest);
}

static inline __m512i encode_step(struct kv_writer *w, __m512i x, const kv_place *places) {
        __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)places));
        __m512i info = _mm512_i32gather_epi32(at, w->info, 4);
        __m512i freq = _mm512_and_si512(info, _mm512_set1_epi32(0xfff));
        __mmask16 spill;
        unsigned n;

        spill = _mm512_cmpge_epi32_mask(_mm512_srli_epi32(x, 31 - KV_BITS), freq);
        n = (unsigned)__builtin_popcount(spill);
        w->pos -= 2 * n;
        _mm256_mask_storeu_epi16(w->words + w->pos, (__mmask16)((1u << n) - 1),
                _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(spill, x)));
        return push(_mm512_mask_srli_epi32(x, spill, x, 16), info, freq);
}

static void encode(struct kv_writer *w, const kv_place *places, size_t n) {
        __m512i x[4];

        for (size_t i = 0; i < 4; i++)
                x[i] = _mm512_loadu_si512(w->state + 16 * i);
        for (; n > 0; n -= KV_LANES) {
                x[3] = encode_step(w, x[3], places + n - 16);
                x[2] = encode_step(w, x[2], places + n - 32);
                x[1] = encode_step(w, x[1], places + n - 48);
                x[0] = encode_step(w, x[0], places + n - 64);
        }
        for (size_t i = 0; i < 4; i++)
                _mm512_storeu_si512(w->state + 16 * i, x[i]);
}

static inline __m512i levels16(const struct kv_table *t, unsigned i) {
        __mmask16 valid = t->n - i >= 16 ? 0xffff : (__mmask16)((1u << (t->n - i)) - 1);

        return _mm512_maskz_cvtepu8_epi32(valid, _mm_loadu_si128((const __m128i *)(t->level + i)));
}

/* Lane i: the sum of lanes 0 to i. */
static inline __m512i prefix_sums(__m512i v) {
        const __m512i zero = _mm512_setzero_si512();

        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
        v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
        return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

enum { SMALL_SHIFT = 20 };

/* By level: of a big symbol its weight, of a small one its frequency << SMALL_SHIFT. */
static inline __m512i level_parts(const struct kv_table *t) {
        const __m512i weight =
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)kv_level_weight));
        __m512i sum = _mm512_setzero_si512(), small;
        uint32_t total;

        for (unsigned i = 0; i < t->n; i += 16)
                sum = _mm512_add_epi32(sum, _mm512_permutexvar_epi32(levels16(t, i), weight));
        total = (uint32_t)_mm512_reduce_add_epi32(sum);
        small = _mm512_mask_mov_epi32(_mm512_set1_epi32(1 << SMALL_SHIFT),
                _mm512_cmpge_epu32_mask(_mm512_slli_epi32(weight, KV_BITS + 1),
                        _mm512_set1_epi32((int)(3 * total))),
                _mm512_set1_epi32(2 << SMALL_SHIFT));
        small = _mm512_maskz_mov_epi32(0xfffe, small);
        return _mm512_mask_mov_epi32(small,
                _mm512_cmpge_epu32_mask(
                        _mm512_slli_epi32(weight, KV_BITS - 1), _mm512_set1_epi32((int)total)),
                weight);
}

/* What kv_table_freqs() does, 16 symbols at a time. Gives the symbols' starts, and what makes the
 * slots' entries: entry = part + (slot << 12). Both have room for 15 more. */
static inline void place_symbols(const struct kv_table *t, uint32_t *starts, uint32_t *parts) {
        const __m512i big_mask = _mm512_set1_epi32((1 << SMALL_SHIFT) - 1);
        const __m512i part = level_parts(t);
        __m512i sum = _mm512_setzero_si512(), before = sum, last = _mm512_set1_epi32(15), low, high;
        uint32_t sums, left, weight;
        uint64_t scale;

        for (unsigned i = 0; i < t->n; i += 16)
                sum = _mm512_add_epi32(sum, _mm512_permutexvar_epi32(levels16(t, i), part));
        sums = (uint32_t)_mm512_reduce_add_epi32(sum);
        left = KV_SLOTS - (sums >> SMALL_SHIFT);
        weight = sums & ((1 << SMALL_SHIFT) - 1);
        scale = ((uint64_t)left << 24) / weight;
        low = _mm512_set1_epi64((long long)(scale & 0xffffff));
        high = _mm512_set1_epi32((int)(scale >> 24));
        sum = _mm512_setzero_si512();
        for (unsigned i = 0; i < t->n; i += 16) {
                __m512i big, end, odd, start, v;

                v = prefix_sums(_mm512_permutexvar_epi32(levels16(t, i), part));
                sum = _mm512_add_epi32(v, _mm512_permutexvar_epi32(last, sum));
                /* big * scale >> 24 */
                big = _mm512_and_si512(sum, big_mask);
                end = _mm512_srli_epi64(_mm512_mul_epu32(big, low), 24);
                odd = _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(big, 32), low), 24);
                end = _mm512_mask_mov_epi32(end, 0xaaaa, _mm512_slli_epi64(odd, 32));
                end = _mm512_add_epi32(end, _mm512_mullo_epi32(big, high));
                end = _mm512_mask_mov_epi32(end,
                        _mm512_cmpeq_epi32_mask(big, _mm512_set1_epi32((int)weight)),
                        _mm512_set1_epi32((int)left));
                end = _mm512_add_epi32(end, _mm512_srli_epi32(sum, SMALL_SHIFT));
                start = _mm512_alignr_epi32(end, before, 15);
                before = end;
                _mm512_storeu_si512(starts + i, start);
                v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(t->symbol + i)));
                v = _mm512_or_si512(_mm512_slli_epi32(v, 24), _mm512_sub_epi32(end, start));
                _mm512_storeu_si512(parts + i, _mm512_sub_epi32(v, _mm512_slli_epi32(start, 12)));
        }
}

/* A symbol's number of slots is unpredictable, so there is no loop over them: for each 16 slots, a
 * lane finds its symbol by counting the starts up to it. */
static void slots(struct kv_table *t, uint32_t *to) {
        const __m512i up_to = _mm512_set_epi32(0xfffe, 0x7ffe, 0x3ffe, 0x1ffe, 0xffe, 0x7fe, 0x3fe,
                0x1fe, 0xfe, 0x7e, 0x3e, 0x1e, 0xe, 6, 2, 0);
        __m512i at = _mm512_slli_epi32(
                _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), 12);
        uint8_t marks[KV_SLOTS] __attribute__((aligned(64)));
        uint32_t starts[256 + 16], parts[1 + 256 + 16];
        const uint32_t *from = parts; /* before the first start there is none: parts[0] */

        place_symbols(t, starts, parts + 1);
        memset(marks, 0, sizeof(marks));
        for (unsigned i = 0; i < t->n; i++)
                marks[starts[i]] = 1;
        for (size_t i = 0; i < KV_SLOTS; i += 64) {
                __m512i v = _mm512_load_si512(marks + i);
                uint64_t begin = _mm512_test_epi8_mask(v, v);

                for (size_t j = 0; j < 64; j += 16, begin >>= 16) {
                        unsigned set = begin & 0xffff;

                        /* Starts behind the first lane, up to each. */
                        v = _mm512_popcnt_epi32(
                                _mm512_and_si512(_mm512_set1_epi32((int)set), up_to));
                        v = _mm512_permutexvar_epi32(v, _mm512_loadu_si512(from + (set & 1)));
                        _mm512_store_si512(to + i + j, _mm512_add_epi32(v, at));
                        at = _mm512_add_epi32(at, _mm512_set1_epi32(16 << 12));
                        from += __builtin_popcount(set);
                }
        }
}

void kv_kernels_avx512(struct kv_kernels *k) {
        k->decode[KV_F16] = decode_f16;
        k->decode[KV_F32] = decode_f32;
        k->decode[KV_I8] = decode_i8;
        k->decode_two[KV_F16] = decode_f16_two;
        k->decode_two[KV_F32] = decode_f32_two;
        k->decode_two[KV_I8] = decode_i8_two;
        k->symbols = symbols;
        k->keep = keep;
        k->choose = choose;
        k->places = places;
        k->encode = encode;
        k->slots = slots;
        k->spread = spread;
}
