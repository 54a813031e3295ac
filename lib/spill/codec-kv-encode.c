/* SPDX-License-Identifier: MIT */
/* Writing the format of codec-kv.c. */
#include <lz4.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/codec.h"
#include "spill/spill.h"

static void put32(uint8_t *p, uint32_t v) {
        memcpy(p, &v, 4);
}

static void collect_symbols(const struct kv_encoder *e, const uint8_t *src) {
        uint8_t *to = e->symbols;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                e->kernels->symbols(v.kind, src + v.offset, v.n_tiles * v.tile, to);
                to += v.n_tiles * v.tile;
        }
}

static void keep(const struct kv_encoder *e, const uint8_t *src, size_t n, uint8_t *dst) {
        size_t at = 0;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                if (!kv_view(&e->arrays[i], &v) || e->n_tables[v.kind] == 0)
                        continue;
                memcpy(dst, src + at, v.offset - at);
                dst += v.offset - at;
                for (size_t t = 0; t < v.n_tiles; t += v.piece) {
                        size_t n_values = MIN(v.piece, v.n_tiles - t) * v.tile;

                        e->kernels->keep(
                                v.kind, src + v.offset + t * v.tile * v.width, n_values, dst);
                        dst += n_values * (v.width - 1);
                }
                at = v.offset + v.size;
        }
        memcpy(dst, src + at, n - at);
}

static size_t write_classes(const struct kv_encoder *e, uint8_t *dst) {
        const uint8_t *classes = e->classes;
        uint64_t bits = 0;
        unsigned n_bits = 0;
        uint8_t *to = dst;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++) {
                unsigned width;

                if (!kv_view(&e->arrays[i], &v))
                        continue;
                width = kv_class_width(e->n_tables[v.kind]);
                for (size_t c = 0; width > 0 && c < v.n_tiles * v.n_channels; c++) {
                        bits |= (uint64_t)e->number[v.kind][classes[c]] << n_bits;
                        n_bits += width;
                        for (; n_bits >= 8; n_bits -= 8, bits >>= 8)
                                *to++ = (uint8_t)bits;
                }
                classes += v.n_tiles * v.n_channels;
        }
        if (n_bits > 0)
                *to++ = (uint8_t)bits;
        return (size_t)(to - dst);
}

static void encode_array(const struct kv_view *v, struct kv_writer *w, const kv_place *places,
        const struct kv_kernels *k) {
        size_t t = v->n_tiles, n_tiles = t % v->piece > 0 ? t % v->piece : v->piece;

        for (; t > 0; n_tiles = v->piece) {
                size_t n = n_tiles * v->tile, whole = n - n % KV_LANES;
                const kv_place *from;

                t -= n_tiles;
                from = places + t * v->tile;
                kv_encode_rest(w, from + whole, n - whole);
                k->encode(w, from, whole);
        }
}

/* The words of all coded values, from the end down. */
static void encode_values(const struct kv_encoder *e, struct kv_writer *w) {
        const kv_place *places = e->places;
        struct kv_view v;

        for (size_t i = 0; i < e->n_arrays; i++)
                if (kv_view(&e->arrays[i], &v))
                        places += v.n_tiles * v.tile;
        for (size_t i = e->n_arrays; i-- > 0;) {
                if (!kv_view(&e->arrays[i], &v))
                        continue;
                places -= v.n_tiles * v.tile;
                if (e->n_tables[v.kind] > 0)
                        encode_array(&v, w, places, e->kernels);
        }
}

/* Header, tables and classes into dst[0..max). Returns their size, 0 if they do not fit. */
static size_t write_head(
        const struct kv_encoder *e, const struct kv_plan *p, uint8_t *dst, size_t max) {
        size_t n = KV_HEADER, n_tables = 0;

        for (unsigned kind = 0; kind < KV_N_KINDS; kind++)
                n_tables += e->n_tables[kind];
        if (max < KV_HEADER + n_tables * KV_TABLE_MAX + p->class_bits / 8 + 1)
                return 0;
        for (unsigned kind = 0; kind < KV_N_KINDS; kind++) {
                dst[8 + kind] = (uint8_t)e->n_tables[kind];
                for (unsigned i = 0; e->n_tables[kind] > 0 && i < KV_CLASSES; i++)
                        if (e->used[kind][i])
                                n += kv_table_write(
                                        &e->tables->table[kind * KV_CLASSES + i], dst + n);
        }
        dst[11] = 0;
        return n + write_classes(e, dst + n);
}

/* The kept bytes into dst[0..max). Returns their size, SIZE_MAX if they do not fit. LZ4 gives up on
 * noise fast, and finds noise that occurs twice: the values of the first layer, which depend on the
 * token alone; and the zeros of a block that is not full. */
static size_t write_kept(const struct kv_encoder *e, const struct kv_plan *p, const uint8_t *src,
        size_t n, uint8_t *dst, size_t max, uint8_t *buffer) {
        size_t lz4_max = MIN(max, p->n_kept - p->n_kept / 64);
        int r = 0;

        keep(e, src, n, buffer);
        if (lz4_max > 0 && lz4_max < p->n_kept)
                r = LZ4_compress_default(
                        (const char *)buffer, (char *)dst, (int)p->n_kept, (int)lz4_max);
        if (r > 0)
                return (size_t)r;
        if (p->n_kept > max)
                return SIZE_MAX;
        memcpy(dst, buffer, p->n_kept);
        return p->n_kept;
}

static size_t encode_coded(const struct kv_encoder *e, const struct kv_plan *p, uint8_t *out,
        size_t max, const uint8_t *src, size_t n, uint8_t *words) {
        struct kv_writer w = {.words = words,
                .pos = KV_WORDS_SLACK + 2 * n,
                .info = &e->tables->info[0][0],
                .rcp = &e->tables->rcp[0][0]};
        size_t end = w.pos, at = write_head(e, p, out, max), kept, n_words;

        if (at == 0)
                return 0;
        /* The words are not there yet: their buffer serves for the kept bytes. */
        kept = write_kept(e, p, src, n, out + at, max - at, words);
        if (kept == SIZE_MAX)
                return 0;
        for (size_t i = 0; i < KV_LANES; i++)
                w.state[i] = KV_LOW;
        encode_values(e, &w);
        n_words = end - w.pos;
        if (max - at - kept < n_words + KV_STATES_SIZE)
                return 0;
        put32(out, (uint32_t)n_words);
        put32(out + 4, (uint32_t)kept);
        memcpy(out + at + kept, words + w.pos, n_words);
        memcpy(out + at + kept + n_words, w.state, KV_STATES_SIZE);
        return at + kept + n_words + KV_STATES_SIZE;
}

/* All bytes kept, by LZ4, if that is smaller than the @coded bytes in @out. */
static size_t encode_repeats(
        uint8_t *out, size_t max, size_t coded, const uint8_t *src, size_t n, uint8_t *buffer) {
        size_t frame = KV_HEADER + KV_STATES_SIZE, limit = coded > 0 ? coded : max;
        int r;

        if (limit <= frame)
                return coded;
        limit = MIN(limit - frame, n) - 1;
        r = LZ4_compress_default((const char *)src, (char *)buffer, (int)n, (int)limit);
        if (r <= 0)
                return coded;
        memset(out, 0, KV_HEADER);
        put32(out + 4, (uint32_t)r);
        memcpy(out + KV_HEADER, buffer, (size_t)r);
        for (size_t i = 0; i < KV_LANES; i++)
                put32(out + KV_HEADER + (size_t)r + 4 * i, KV_LOW);
        return (size_t)r + frame;
}

size_t spill_kv_encode(void *dst, size_t max, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        uint8_t *s = (uint8_t *)scratch + KV_SCRATCH_FIXED, *words = s + 4 * n;
        struct kv_kernels kernels;
        struct kv_encoder e = {.arrays = arrays,
                .n_arrays = n_arrays,
                .kernels = &kernels,
                .tables = scratch,
                .places = (kv_place *)s,
                .symbols = s + 2 * n,
                .classes = s + 3 * n};
        struct kv_plan p;
        size_t r;

        if (!spill_codec_check(arrays, n_arrays, n))
                return 0;
        kv_kernels_get(&kernels);
        collect_symbols(&e, src);
        for (unsigned kind = 0; kind < KV_N_KINDS; kind++)
                kv_classify(&e, kind);
        p = kv_plan(arrays, n_arrays, n, e.n_tables);
        r = encode_coded(&e, &p, dst, max, src, n, words);
        /* Where whole vectors of bytes repeat, which coding each for itself does not see. */
        if (r == 0 || e.n_tables[KV_I8] > 0)
                r = encode_repeats(dst, max, r, src, n, words);
        return r;
}
