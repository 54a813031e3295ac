/* SPDX-License-Identifier: MIT */
/*
 * The codec of key/value memory.
 *
 * A channel of KV memory is some number of a typical size: its sign and exponent are easy to guess
 * and the rest of its mantissa is noise. LZ4 looks for repeated strings and finds none in it. So
 * the top byte of each value (f16: sign, exponent, two bits of mantissa; f32: sign and seven bits
 * of exponent; int8: all of it) is entropy coded under one of up to eight tables per kind of value
 * and section, each channel naming its own, and the other bytes are kept as they are. The table
 * of what else was measured is in docs/spill.md.
 *
 * Format of a section, little endian:
 *
 *      u32 size of the words, u32 size of the kept bytes, u8 n_tables of f16, of f32, of int8, u8 0
 *      tables of f16, f32, int8                 (codec-kv-table.c)
 *      class of each channel of each coded array, in order; ceil(log2(n_tables)) bits, low bits
 *      first, at the end filled up to a byte
 *      kept bytes: in the order of the block, bytes that are in no array, whole arrays of kinds
 *      with n_tables == 0, and of each piece of the others its low bytes (f32: all low pairs, then
 *      all third bytes). A piece is as many whole tiles of an array as have at most 4096 values, at
 *      least one. Plain if their size is what it must be, else LZ4 of that.
 *      words of the coders, 16 bits each
 *      u32 state of each of the 64 coders
 *
 * The coder is rANS (Duda, "Asymmetric numeral systems", arXiv:1311.2540, 2013) in 64 interleaved
 * states that share one stream of words (Giesen, "Interleaved entropy coders", arXiv:1402.3392,
 * 2014). Value i of a piece belongs to state i % 64. A state x is in [2^15, 2^31). Decoding a
 * value: slot = x mod 2^11 names the symbol with frequency f whose share begins at b <= slot; then
 * x = f * (x >> 11) + slot - b, and if that is below 2^15 the stream's next word comes in from
 * below. Encoding is the same backwards, from the last value of the section to the first.
 *
 * 1. Every section comes back bit for bit, whatever its bytes are. The arrays only say where to
 *    look for order.
 * 2. All instruction sets write the same bytes, and accept the same bytes.
 * 3. The input of decode is not trusted: lengths are checked before use, tables are valid by
 *    construction, states cannot leave their range, words behind the end are 0. Whoever damages a
 *    section gets a refusal or wrong values, nothing else. In the end every word must have been
 *    taken and every state be back at 2^15, where the encoder began.
 */
#include <lz4.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/codec.h"
#include "spill/spill.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are taken apart in memory");
_Static_assert(sizeof(struct kv_encoder_tables) <= KV_SCRATCH_FIXED, "scratch");
_Static_assert(
        (KV_TABLES * KV_SLOTS + KV_SLOTS_SLACK) * 4 + sizeof(struct kv_table) <= KV_SCRATCH_FIXED,
        "scratch");

static uint32_t get32(const uint8_t *p) {
        uint32_t v;

        memcpy(&v, p, 4);
        return v;
}

bool kv_view(const struct spill_array *a, struct kv_view *ret) {
        static const uint8_t widths[] = {[KV_F16] = 2, [KV_F32] = 4, [KV_I8] = 1};

        if (a->element != SPILL_F16 && a->element != SPILL_F32 && a->element != SPILL_I8)
                return false;
        ret->kind = a->element == SPILL_F16 ? KV_F16 : a->element == SPILL_F32 ? KV_F32 : KV_I8;
        ret->width = widths[ret->kind];
        ret->offset = a->offset;
        ret->n_tiles = a->n_tiles;
        ret->n_channels = a->n_channels;
        ret->n_tokens = a->n_tokens;
        ret->tile = ret->n_channels * ret->n_tokens;
        ret->size = ret->n_tiles * ret->tile * ret->width;
        ret->channel_major = a->channel_major;
        if (ret->size == 0)
                return false;
        ret->piece = MAX(KV_PIECE / ret->tile, (size_t)1);
        return true;
}

bool spill_codec_check(const struct spill_array *arrays, size_t n_arrays, size_t n) {
        size_t end = 0;

        for (size_t i = 0; i < n_arrays; i++) {
                const struct spill_array *a = &arrays[i];
                size_t width = a->element == SPILL_F32 ? 4 : a->element == SPILL_F16 ? 2 : 1, size;

                if (mul_overflow(a->n_tiles, a->n_channels, &size) ||
                        mul_overflow(size, a->n_tokens, &size) || mul_overflow(size, width, &size))
                        return false;
                if (a->offset < end || a->offset > n || size > n - a->offset)
                        return false;
                end = a->offset + size;
        }
        return true;
}

void kv_spread(const struct kv_view *v, size_t n_tiles, const uint8_t *classes, uint8_t *ret) {
        size_t n = n_tiles * v->n_channels;

        if (!v->channel_major) {
                for (size_t t = 0; t < n_tiles * v->n_tokens; t++, ret += v->n_channels)
                        memcpy(ret, classes + t / v->n_tokens * v->n_channels, v->n_channels);
        } else if (v->n_tokens == 32) {
                for (size_t c = 0; c < n; c++)
                        memset(ret + c * 32, classes[c], 32);
        } else {
                for (size_t c = 0; c < n; c++)
                        memset(ret + c * v->n_tokens, classes[c], v->n_tokens);
        }
}

unsigned kv_class_width(unsigned n_tables) {
        return n_tables > 1 ? 32u - (unsigned)__builtin_clz(n_tables - 1) : 0;
}

struct kv_plan kv_plan(const struct spill_array *arrays, size_t n_arrays, size_t n,
        const unsigned n_tables[KV_N_KINDS]) {
        struct kv_plan p = {.n_kept = n};
        struct kv_view v;

        for (size_t i = 0; i < n_arrays; i++) {
                if (!kv_view(&arrays[i], &v) || n_tables[v.kind] == 0)
                        continue;
                p.n_values += v.n_tiles * v.tile;
                p.n_channels += v.n_tiles * v.n_channels;
                p.class_bits += v.n_tiles * v.n_channels * kv_class_width(n_tables[v.kind]);
        }
        p.n_kept -= p.n_values;
        return p;
}

struct decoder {
        const uint8_t *src;
        size_t n, at;
        unsigned n_tables[KV_N_KINDS], base[KV_N_KINDS];
        uint32_t *slots;
        uint8_t *classes, *plane, *buffer;
        const uint8_t *kept;
        struct kv_kernels kernels;
};

/* All tables; false if one is damaged. */
static bool read_tables(struct decoder *d, struct kv_table *t) {
        unsigned n = 0;

        for (unsigned kind = 0; kind < KV_N_KINDS; kind++) {
                d->n_tables[kind] = d->src[8 + kind];
                if (d->n_tables[kind] > KV_CLASSES)
                        return false;
                d->base[kind] = n;
                for (unsigned i = 0; i < d->n_tables[kind]; i++) {
                        size_t r = kv_table_read(t, d->src + d->at, d->n - d->at);

                        if (r == 0)
                                return false;
                        d->at += r;
                        d->kernels.slots(t, d->slots + (size_t)n++ * KV_SLOTS);
                }
        }
        return d->src[11] == 0;
}

static bool read_classes(struct decoder *d, const struct kv_plan *p,
        const struct spill_array *arrays, size_t n_arrays) {
        const uint8_t *from = d->src + d->at;
        uint8_t *to = d->classes;
        size_t size = (p->class_bits + 7) / 8;
        uint32_t bits = 0;
        unsigned n_bits = 0, bad = 0;
        struct kv_view v;

        if (size > d->n - d->at)
                return false;
        d->at += size;
        for (size_t i = 0; i < n_arrays; i++) {
                unsigned width, n_tables;

                if (!kv_view(&arrays[i], &v) || d->n_tables[v.kind] == 0)
                        continue;
                n_tables = d->n_tables[v.kind];
                width = kv_class_width(n_tables);
                for (size_t c = 0; c < v.n_tiles * v.n_channels; c++) {
                        unsigned class;

                        if (n_bits < width) {
                                bits |= (uint32_t)*from++ << n_bits;
                                n_bits += 8;
                        }
                        class = bits & ((1u << width) - 1);
                        bits >>= width;
                        n_bits -= width;
                        bad |= class >= n_tables;
                        *to++ = (uint8_t)(d->base[v.kind] + class);
                }
        }
        return !bad && bits == 0;
}

/* Find or unpack the kept bytes. */
static bool read_kept(struct decoder *d, const struct kv_plan *p, size_t size) {
        const uint8_t *from = d->src + d->at;

        if (size > d->n - d->at || size > p->n_kept)
                return false;
        d->at += size;
        d->kept = from;
        if (size == p->n_kept)
                return true;
        d->kept = d->buffer;
        return LZ4_decompress_safe((const char *)from, (char *)d->buffer, (int)size,
                       (int)p->n_kept) == (int)p->n_kept;
}

static void decode_values(struct decoder *d, struct kv_reader *r, uint8_t *dst, size_t n,
        const struct spill_array *arrays, size_t n_arrays) {
        const uint8_t *kept = d->kept, *classes = d->classes;
        struct kv_view v;
        size_t at = 0;

        for (size_t i = 0; i < n_arrays; i++) {
                if (!kv_view(&arrays[i], &v) || d->n_tables[v.kind] == 0)
                        continue;
                memcpy(dst + at, kept, v.offset - at);
                kept += v.offset - at;
                at = v.offset;
                for (size_t t = 0; t < v.n_tiles; t += v.piece) {
                        size_t n_tiles = MIN(v.piece, v.n_tiles - t);
                        struct kv_piece p = {.dst = dst + at,
                                .low = kept,
                                .tables = d->plane,
                                .n = n_tiles * v.tile};

                        p.mid = v.kind == KV_F32 ? kept + 2 * p.n : NULL;
                        kv_spread(&v, n_tiles, classes, d->plane);
                        kv_decode_rest(r, &p, v.kind, d->kernels.decode[v.kind](r, &p));
                        kept += p.n * (v.width - 1);
                        at += p.n * v.width;
                        classes += n_tiles * v.n_channels;
                }
        }
        memcpy(dst + at, kept, n - at);
}

int spill_kv_decode(void *dst, size_t dst_size, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        uint8_t *s = (uint8_t *)scratch + KV_SCRATCH_FIXED;
        struct decoder d = {.src = src,
                .n = n,
                .at = KV_HEADER,
                .slots = scratch,
                .classes = s,
                .plane = s + dst_size,
                .buffer = s + 2 * dst_size};
        struct kv_reader r = {.src = src, .limit = n, .slots = scratch};
        uint32_t bad = 0;
        struct kv_plan p;
        size_t size;

        if (n < KV_HEADER + KV_STATES_SIZE || !spill_codec_check(arrays, n_arrays, dst_size))
                return 1;
        kv_kernels_get(&d.kernels);
        /* The states lie at the end, where no other part may reach. */
        d.n = n - KV_STATES_SIZE;
        if (!read_tables(&d, (struct kv_table *)(d.slots + KV_TABLES * KV_SLOTS + KV_SLOTS_SLACK)))
                return 1;
        p = kv_plan(arrays, n_arrays, dst_size, d.n_tables);
        size = get32(d.src);
        if (!read_classes(&d, &p, arrays, n_arrays) || !read_kept(&d, &p, get32(d.src + 4)) ||
                size != d.n - d.at)
                return 1;
        r.pos = d.at;
        memcpy(r.state, d.src + d.n, KV_STATES_SIZE);
        for (size_t i = 0; i < KV_LANES; i++)
                bad |= r.state[i] < KV_LOW || r.state[i] >= (uint32_t)KV_LOW << 16;
        if (bad)
                return 1;
        decode_values(&d, &r, dst, dst_size, arrays, n_arrays);
        for (size_t i = 0; i < KV_LANES; i++)
                bad |= r.state[i] != KV_LOW;
        return bad || r.pos != d.n;
}

size_t spill_codec_scratch_size(size_t max_section_size) {
        return align_up(KV_SCRATCH_FIXED + 5 * max_section_size + 2 * KV_WORDS_SLACK, 64);
}
