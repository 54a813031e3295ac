/* SPDX-License-Identifier: MIT */
/*
 * The codec of key/value memory.
 *
 * A channel of KV memory holds numbers of a typical size: their signs and exponents are easy to
 * predict, and the rest of their mantissas is noise. LZ4 looks for repeated strings and finds none
 * there. So the top byte of each value (f16: sign, exponent, two bits of mantissa; f32: sign and
 * seven bits of exponent; int8: the whole value) is entropy coded with one of up to eight tables
 * per kind of value and section. Each channel names its table; the other bytes are kept unchanged.
 * The other methods that were measured are in docs/spill.md.
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
 * 1. Decoding restores every section bit for bit, whatever its bytes are. The arrays only say where
 *    to look for order.
 * 2. All instruction sets write the same bytes, and accept the same bytes.
 * 3. The input of decode is not trusted: lengths are checked before use, tables are valid by
 *    construction, states cannot leave their range, words after the end are 0. A damaged section is
 *    refused or gives wrong values; nothing worse can happen. At the end every word must have been
 *    taken, and every state must be back at 2^15, where the encoder began.
 */
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/codec.h"
#include "spill/spill.h"

_Static_assert(sizeof(struct kv_encoder_tables) <= KV_SCRATCH_FIXED, "scratch");
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

size_t kv_decode_scratch(size_t section_size) {
        return align_up(KV_SCRATCH_FIXED + 3 * section_size + 192, 64);
}

size_t spill_codec_scratch_size(size_t max_section_size) {
        size_t encode = KV_SCRATCH_FIXED + 6 * max_section_size + 2 * KV_WORDS_SLACK;

        return align_up(MAX(encode, 2 * kv_decode_scratch(max_section_size)), 64);
}
