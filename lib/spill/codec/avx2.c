/* SPDX-License-Identifier: MIT */
/* AVX2: 8 lanes in a register. What AVX-512 does with an expanding load is a permutation here. And tables
 * are looked up by loads: a gather of 8 takes about as long as 8 loads at best, and on processors with AVX2
 * alone it often is microcode of 40 to 60 steps. */
#include <immintrin.h>
#include <stdbool.h>

#include "spill/codec/avx2-tables.h"
#include "spill/codec/choose.h"
#include "spill/codec/freqs.h"
#include "spill/codec/kernels.h"
#include "spill/codec/plain.h"
#include "spill/codec/spread.h"

static inline __m256i load16(const void *p) {
        return _mm256_loadu_si256((const __m256i *)p);
}

static inline __m256i load_bytes(const uint8_t *p) {
        return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline __m256i cat(const void *low, const void *high) {
        return _mm256_inserti128_si256(
                _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                _mm_loadu_si128((const __m128i *)high), 1);
}

/* table[] of four numbers, those of 16 bits at bits 0 and 32 of @i and @j. */
static inline __attribute__((always_inline)) __m128i look4(
        const uint32_t *table, uint64_t i, uint64_t j) {
        __m128i v = _mm_cvtsi32_si128((int)table[i & 0xffff]);

        v = _mm_insert_epi32(v, (int)table[i >> 32 & 0xffff], 1);
        v = _mm_insert_epi32(v, (int)table[j & 0xffff], 2);
        return _mm_insert_epi32(v, (int)table[j >> 32 & 0xffff], 3);
}

/* Of 16 numbers: of the even ones, then of the odd ones. */
static inline __attribute__((always_inline)) void look16(
        const uint32_t *table, __m256i at, __m256i *even, __m256i *odd) {
        __m128i low = _mm256_castsi256_si128(at), high = _mm256_extracti128_si256(at, 1);
        uint64_t a = (uint64_t)_mm_cvtsi128_si64(low), b = (uint64_t)_mm_extract_epi64(low, 1);
        uint64_t c = (uint64_t)_mm_cvtsi128_si64(high), d = (uint64_t)_mm_extract_epi64(high, 1);

        *even = _mm256_inserti128_si256(
                _mm256_castsi128_si256(look4(table, a, b)), look4(table, c, d), 1);
        *odd = _mm256_inserti128_si256(_mm256_castsi128_si256(look4(table, a >> 16, b >> 16)),
                look4(table, c >> 16, d >> 16), 1);
}

/* A step's view of 16 lanes: halves of the states. */
struct lanes {
        __m256i low, high;
};

/* Look up and take the symbols' share off the states. Returns the slots' upper halves. */
static inline __attribute__((always_inline)) __m256i advance(
        struct lanes *x, const uint32_t *slots, const uint8_t *tables) {
        const __m256i slot_mask = _mm256_set1_epi16(KV_SLOTS - 1);
        const __m256i field = _mm256_set1_epi16(0xfff);
        __m256i at, a, b, info, freq, offset, q, p, carry;

        at = _mm256_or_si256(_mm256_slli_epi16(load_bytes(tables), KV_BITS),
                _mm256_and_si256(x->low, slot_mask));
        look16(slots, at, &a, &b);
        freq = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
        info = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
        offset = _mm256_or_si256(_mm256_slli_epi16(info, 4), _mm256_srli_epi16(freq, 12));
        offset = _mm256_and_si256(offset, field);
        freq = _mm256_and_si256(freq, field);
        q = _mm256_or_si256(
                _mm256_slli_epi16(x->high, 16 - KV_BITS), _mm256_srli_epi16(x->low, KV_BITS));
        p = _mm256_mullo_epi16(freq, q);
        x->low = _mm256_add_epi16(p, offset);
        /* An offset is below 2^15: the top bit falls if and only if the sum carries. */
        carry = _mm256_srli_epi16(_mm256_andnot_si256(x->low, p), 15);
        x->high = _mm256_mullo_epi16(freq, _mm256_srli_epi16(x->high, KV_BITS));
        x->high = _mm256_add_epi16(x->high, _mm256_mulhi_epu16(freq, q));
        x->high = _mm256_add_epi16(x->high, carry);
        return info;
}

/* -1 in lanes whose state is below 2^15 (no upper half): these need a word. */
static inline __m256i wanting(const struct lanes *x) {
        return _mm256_cmpeq_epi16(
                _mm256_or_si256(x->high, _mm256_srai_epi16(x->low, 15)), _mm256_setzero_si256());
}

static inline __attribute__((always_inline)) void refill(struct lanes *x, __m256i want,
        const uint8_t *words, const uint8_t *words8, unsigned set, unsigned set8) {
        __m256i w =
                _mm256_shuffle_epi8(cat(words, words8), cat(expand_words[set], expand_words[set8]));

        x->high = _mm256_or_si256(x->high, _mm256_and_si256(x->low, want));
        x->low = _mm256_or_si256(w, _mm256_andnot_si256(want, x->low));
}

/* One value of 32 lanes; see the version for AVX-512. */
static inline __attribute__((always_inline)) void step(struct lanes x[2], const uint32_t *slots,
        const uint8_t *tables, const uint8_t **words, __m256i info[2]) {
        const uint8_t *w[5];
        unsigned set[4], all;
        __m256i want[2];

        info[0] = advance(&x[0], slots, tables);
        info[1] = advance(&x[1], slots, tables + 16);
        want[0] = wanting(&x[0]);
        want[1] = wanting(&x[1]);
        /* Lanes 0 to 7, 16 to 23, 8 to 15, 24 to 31. */
        all = (unsigned)_mm256_movemask_epi8(_mm256_packs_epi16(want[0], want[1]));
        set[0] = all & 0xff;
        set[1] = all >> 16 & 0xff;
        set[2] = all >> 8 & 0xff;
        set[3] = all >> 24;
        w[0] = *words;
        for (size_t i = 0; i < 4; i++)
                w[i + 1] = w[i] + 2 * (unsigned)__builtin_popcount(set[i]);
        refill(&x[0], want[0], w[0], w[1], set[0], set[1]);
        refill(&x[1], want[1], w[2], w[3], set[2], set[3]);
        *words = w[4];
}

static inline void put_f16(const struct kv_piece *p, size_t i, const __m256i info[2]) {
        const __m256i high = _mm256_set1_epi16((short)0xff00);

        for (size_t j = 0; j < 2; j++) {
                size_t at = i + 16 * j;
                __m256i low = load_bytes(p->low + at);

                low = _mm256_or_si256(_mm256_and_si256(info[j], high), low);
                _mm256_storeu_si256((__m256i *)(p->dst + 2 * at), low);
        }
}

static inline void put_f32(const struct kv_piece *p, size_t i, const __m256i info[2]) {
        const __m256i high = _mm256_set1_epi16((short)0xff00);

        for (size_t j = 0; j < 2; j++) {
                size_t at = i + 16 * j;
                __m256i mid = load_bytes(p->mid + at);
                __m256i low = load16(p->low + 2 * at), a, b;

                mid = _mm256_or_si256(_mm256_and_si256(info[j], high), mid);
                a = _mm256_unpacklo_epi16(low, mid);
                b = _mm256_unpackhi_epi16(low, mid);
                _mm256_storeu_si256(
                        (__m256i *)(p->dst + 4 * at), _mm256_permute2x128_si256(a, b, 0x20));
                _mm256_storeu_si256(
                        (__m256i *)(p->dst + 4 * at + 32), _mm256_permute2x128_si256(a, b, 0x31));
        }
}

static inline void put_i8(const struct kv_piece *p, size_t i, const __m256i info[2]) {
        __m256i v =
                _mm256_packus_epi16(_mm256_srli_epi16(info[0], 8), _mm256_srli_epi16(info[1], 8));

        _mm256_storeu_si256((__m256i *)(p->dst + i), _mm256_permute4x64_epi64(v, 0xd8));
}

static inline __attribute__((always_inline)) void put(
        const struct kv_piece *p, enum kv_kind kind, size_t i, const __m256i info[2]) {
        if (kind == KV_F16)
                put_f16(p, i, info);
        else if (kind == KV_F32)
                put_f32(p, i, info);
        else
                put_i8(p, i, info);
}

/* The loop's state of one stream. */
struct stream {
        struct lanes x[4];
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
        for (size_t i = 0; i < 4; i++) {
                s->x[i].low = load16(r->low + 16 * i);
                s->x[i].high = load16(r->high + 16 * i);
        }
        return true;
}

static inline __attribute__((always_inline)) void stream_close(
        const struct stream *s, struct kv_reader *r) {
        r->pos = (size_t)(s->words - r->src);
        for (size_t i = 0; i < 4; i++) {
                _mm256_storeu_si256((__m256i *)(r->low + 16 * i), s->x[i].low);
                _mm256_storeu_si256((__m256i *)(r->high + 16 * i), s->x[i].high);
        }
}

/* A value of the first or the second 32 lanes: value n of the piece and those behind it. */
static inline __attribute__((always_inline)) void stream_step(
        struct stream *s, const struct kv_piece *p, enum kv_kind kind, size_t n, size_t half) {
        __m256i info[2];

        n += 32 * half;
        step(&s->x[2 * half], s->slots, p->tables + n, &s->words, info);
        put(p, kind, n, info);
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

/* The states of two streams would not fit into the registers, which costs more than it gains. */
#define DECODE(name, kind)                                                                         \
        static size_t name(struct kv_reader *r, const struct kv_piece *p, size_t from) {           \
                return decode(r, p, kind, from);                                                   \
        }
DECODE(decode_f16, KV_F16)
DECODE(decode_f32, KV_F32)
DECODE(decode_i8, KV_I8)

/* See the version for AVX-512. */
static inline __m256i push(__m256i x, __m256i info, __m256i freq) {
        __m256i q, rest, above;

        q = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(x), _mm256_cvtepi32_ps(freq)));
        rest = _mm256_sub_epi32(x, _mm256_mullo_epi32(q, freq));
        above = _mm256_sub_epi32(freq, _mm256_set1_epi32(KV_SLOTS));
        above = _mm256_and_si256(above, _mm256_srai_epi32(rest, 31));
        x = _mm256_add_epi32(_mm256_slli_epi32(q, KV_BITS), _mm256_srli_epi32(info, 16));
        return _mm256_add_epi32(x, _mm256_add_epi32(rest, above));
}

/* The words of the lanes that spill, in order, end at words[pos); what lies before them is
 * overwritten as well. */
static inline void spill_words(struct kv_writer *w, __m128i words, unsigned spill) {
        __m128i order = _mm_load_si128((const __m128i *)pack_words[spill]);

        _mm_storeu_si128((__m128i *)(w->words + w->pos - 16), _mm_shuffle_epi8(words, order));
        w->pos -= 2 * (unsigned)__builtin_popcount(spill);
}

/* table[] of eight numbers. */
static inline __attribute__((always_inline)) __m256i look8(
        const uint32_t *table, const kv_place *at) {
        __m128i a = _mm_cvtsi32_si128((int)table[at[0]]), b = _mm_cvtsi32_si128((int)table[at[4]]);

        a = _mm_insert_epi32(a, (int)table[at[1]], 1);
        b = _mm_insert_epi32(b, (int)table[at[5]], 1);
        a = _mm_insert_epi32(a, (int)table[at[2]], 2);
        b = _mm_insert_epi32(b, (int)table[at[6]], 2);
        a = _mm_insert_epi32(a, (int)table[at[3]], 3);
        b = _mm_insert_epi32(b, (int)table[at[7]], 3);
        return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* One value of 16 lanes. */
static inline __attribute__((always_inline)) void encode_step(
        struct kv_writer *w, __m256i x[2], const kv_place *places) {
        const __m256i field = _mm256_set1_epi32(0xfff), word = _mm256_set1_epi32(0xffff);
        __m256i info[2], freq[2], keep[2], words;
        unsigned set[2];

        for (size_t i = 0; i < 2; i++) {
                info[i] = look8(w->info, places + 8 * i);
                freq[i] = _mm256_and_si256(info[i], field);
                keep[i] = _mm256_cmpgt_epi32(freq[i], _mm256_srli_epi32(x[i], 31 - KV_BITS));
                set[i] = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(keep[i])) & 0xff;
        }
        words = _mm256_packus_epi32(_mm256_and_si256(x[0], word), _mm256_and_si256(x[1], word));
        words = _mm256_permute4x64_epi64(words, 0xd8);
        spill_words(w, _mm256_extracti128_si256(words, 1), set[1]);
        spill_words(w, _mm256_castsi256_si128(words), set[0]);
        for (size_t i = 0; i < 2; i++) {
                x[i] = _mm256_blendv_epi8(_mm256_srli_epi32(x[i], 16), x[i], keep[i]);
                x[i] = push(x[i], info[i], freq[i]);
        }
}

static void encode(struct kv_writer *w, const kv_place *places, size_t n) {
        struct kv_writer to = *w;
        __m256i x[8];

        for (size_t i = 0; i < 8; i++)
                x[i] = _mm256_loadu_si256((const __m256i *)(w->state + 8 * i));
        for (; n > 0; n -= KV_LANES) {
                encode_step(&to, x + 6, places + n - 16);
                encode_step(&to, x + 4, places + n - 32);
                encode_step(&to, x + 2, places + n - 48);
                encode_step(&to, x, places + n - 64);
        }
        for (size_t i = 0; i < 8; i++)
                _mm256_storeu_si256((__m256i *)(w->state + 8 * i), x[i]);
        w->pos = to.pos;
}

/* A symbol's number of slots is unpredictable, and two stores for each symbol cost less than a
 * mispredicted branch. Slots written too far are overwritten by the next symbol. */
static void slots(struct kv_table *t, uint32_t *to) {
        const __m256i count = _mm256_slli_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), 12);
        const __m256i next = _mm256_set1_epi32(8 << 12);

        kv_table_freqs(t);
        for (unsigned i = 0; i < t->n; i++) {
                uint32_t freq = t->freq[i], e = (uint32_t)t->symbol[i] << 24 | freq, j = 0;
                __m256i v = _mm256_add_epi32(_mm256_set1_epi32((int)e), count);

                do
                        for (size_t k = 0; k < 2; k++, j += 8) {
                                _mm256_storeu_si256((__m256i *)(to + j), v);
                                v = _mm256_add_epi32(v, next);
                        }
                while (j < freq);
                to += freq;
        }
}

void kv_kernels_avx2(struct kv_kernels *k) {
        k->decode[KV_F16] = decode_f16;
        k->decode[KV_F32] = decode_f32;
        k->decode[KV_I8] = decode_i8;
        k->symbols = symbols;
        k->keep = keep;
        k->choose = choose;
        k->places = places;
        k->encode = encode;
        k->slots = slots;
        k->spread = spread;
}
