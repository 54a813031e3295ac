/* SPDX-License-Identifier: MIT */
/*
 * Reading the format of codec-kv.c.
 *
 * Decoding a section has two parts. Opening it reads everything but the words (tables, classes and
 * kept bytes) and makes the decoding tables. Then its values are decoded piece by piece, which
 * takes most of the time.
 *
 * Each value of a lane waits for the one before it: for a gather, products and their carry, and
 * then for the next word, whose place in the stream of words depends on all lanes before. One value
 * in all 64 lanes takes 80 cycles that way (all figures here were measured on a Xeon with AVX-512).
 * So two sections are decoded in one loop: their chains of dependencies are independent, and a
 * value takes 64 cycles. That is just what four gathers take from tables of that size. The eight
 * tables of 8 KiB of one section exceed the first-level cache, and two sections have twice as many;
 * a gather of 16 slots takes 9 cycles from the first level, 12 from 64 KiB and 16 from 128. With
 * AVX2, two sections in a loop were not faster than one (110 to 124 cycles against 108 to 118),
 * because two sets of states do not fit into 16 registers; so AVX2 decodes one section at a time.
 *
 * Making the tables and reading the classes took as long as some 16,000 values when done symbol by
 * symbol, because of unpredictable branches; hence the care taken with them.
 */
#include <lz4.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/codec.h"
#include "spill/spill.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are taken apart in memory");
_Static_assert(KV_TABLES *KV_SLOTS <= 65536, "a slot's place is computed in 16 bits");
_Static_assert((KV_TABLES * KV_SLOTS + KV_SLOTS_SLACK) * 4 <= KV_SCRATCH_FIXED, "scratch");

struct decoder {
        const uint8_t *src;
        size_t n, at;
        uint8_t *dst;
        size_t dst_size;
        const struct spill_array *arrays;
        size_t n_arrays;
        unsigned n_tables[KV_N_KINDS], base[KV_N_KINDS];
        uint32_t *slots;
        uint8_t *classes, *buffer;
        uint8_t *plane;
        const struct kv_kernels *kernels;
        struct kv_reader reader;
        /* where in the values it is */
        struct kv_view view;           /* of arrays[next_array - 1] */
        size_t next_array, tile, done; /* done: bytes of dst */
        const uint8_t *kept, *class;
        enum kv_kind kind; /* of the piece */
        struct kv_piece piece;
};

static uint32_t get32(const uint8_t *p) {
        uint32_t v;

        memcpy(&v, p, 4);
        return v;
}

/* All tables; false if one is damaged. */
static bool read_tables(struct decoder *d) {
        struct kv_table t;
        unsigned n = 0;

        for (unsigned kind = 0; kind < KV_N_KINDS; kind++) {
                d->n_tables[kind] = d->src[8 + kind];
                if (d->n_tables[kind] > KV_CLASSES)
                        return false;
                d->base[kind] = n;
                for (unsigned i = 0; i < d->n_tables[kind]; i++) {
                        size_t r = kv_table_read(&t, d->src + d->at, d->n - d->at);

                        if (r == 0)
                                return false;
                        d->at += r;
                        d->kernels->slots(&t, d->slots + (size_t)n++ * KV_SLOTS);
                }
        }
        return d->src[11] == 0;
}

/* Eight numbers of @width bits, 0 to 3, from the lowest bits of @v, to a byte each. */
static inline uint64_t spread_bits(uint64_t v, unsigned width) {
        uint64_t m4 = ((uint64_t)1 << 4 * width) - 1, m2 = ((uint64_t)1 << 2 * width) - 1;
        uint64_t m1 = ((uint64_t)1 << width) - 1;

        v = (v | v << (32 - 4 * width)) & (m4 | m4 << 32);
        v = (v | v << (16 - 2 * width)) & m2 * UINT64_C(0x0001000100010001);
        return (v | v << (8 - width)) & m1 * UINT64_C(0x0101010101010101);
}

/* Needs 8 bytes behind the classes, which it overwrites, and of the source, which do not matter. */
static bool read_classes(struct decoder *d, const struct kv_plan *p) {
        const uint64_t ones = UINT64_C(0x0101010101010101);
        const uint8_t *from = d->src + d->at;
        size_t size = (p->class_bits + 7) / 8, bit = 0;
        uint8_t *to = d->classes;
        uint64_t bad = 0;
        struct kv_view v;

        if (size > d->n - d->at)
                return false;
        d->at += size;
        for (size_t i = 0; i < d->n_arrays; i++) {
                unsigned n_tables, width;
                size_t n;

                if (!kv_view(&d->arrays[i], &v) || d->n_tables[v.kind] == 0)
                        continue;
                n = v.n_tiles * v.n_channels;
                n_tables = d->n_tables[v.kind];
                width = kv_class_width(n_tables);
                for (size_t c = 0; c < n; c += 8) {
                        size_t k = MIN(n - c, (size_t)8);
                        uint64_t classes = get32(from + bit / 8) >> bit % 8;

                        classes = spread_bits(classes & ((UINT64_C(1) << k * width) - 1), width);
                        bit += k * width;
                        /* The sign of a byte: whether it is n_tables or more. */
                        bad |= classes + (0x80 - n_tables) * ones;
                        classes += d->base[v.kind] * ones;
                        memcpy(to, &classes, 8);
                        to += k;
                }
        }
        if (bit % 8 > 0 && from[bit / 8] >> bit % 8 != 0)
                return false;
        return (bad & 0x80 * ones) == 0;
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

/* Everything up to the first word. */
static bool decoder_open(struct decoder *d, const struct spill_codec_job *j,
        const struct kv_kernels *k, uint8_t *scratch) {
        size_t n_words;
        struct kv_plan p;
        uint32_t bad = 0;
        uint8_t *s = scratch + KV_SCRATCH_FIXED;

        *d = (struct decoder){.src = j->src,
                .n = j->n - KV_STATES_SIZE,
                .at = KV_HEADER,
                .dst = j->dst,
                .dst_size = j->dst_size,
                .arrays = j->arrays,
                .n_arrays = j->n_arrays,
                .slots = (uint32_t *)scratch,
                .classes = s,
                .buffer = s + j->dst_size + 64,
                .plane = s + align_up(2 * j->dst_size + 64, 64),
                .kernels = k};
        if (j->n < KV_HEADER + KV_STATES_SIZE ||
                !spill_codec_check(j->arrays, j->n_arrays, j->dst_size))
                return false;
        /* The states lie at the end, where no other part may reach. */
        if (!read_tables(d))
                return false;
        p = kv_plan(j->arrays, j->n_arrays, j->dst_size, d->n_tables);
        n_words = get32(d->src);
        if (!read_classes(d, &p) || !read_kept(d, &p, get32(d->src + 4)) || n_words != d->n - d->at)
                return false;
        d->reader =
                (struct kv_reader){.src = j->src, .pos = d->at, .limit = j->n, .slots = d->slots};
        for (size_t i = 0; i < KV_LANES; i++) {
                uint32_t x = get32(d->src + d->n + 4 * i);

                bad |= x < KV_LOW || x >= (uint32_t)KV_LOW << 16;
                d->reader.low[i] = (uint16_t)x;
                d->reader.high[i] = (uint16_t)(x >> 16);
        }
        d->class = d->classes;
        return !bad;
}

/* Put the kept bytes up to @to in their place. */
static void copy_kept(struct decoder *d, size_t to) {
        memcpy(d->dst + d->done, d->kept, to - d->done);
        d->kept += to - d->done;
        d->done = to;
}

/* Prepare the next piece, all values of the one before being done. False behind the last one. */
static bool next_piece(struct decoder *d) {
        struct kv_view *v = &d->view;
        size_t n_tiles;

        while (d->next_array == 0 || d->tile == v->n_tiles) {
                if (d->next_array == d->n_arrays) {
                        copy_kept(d, d->dst_size);
                        return false;
                }
                d->tile = v->n_tiles = 0;
                if (!kv_view(&d->arrays[d->next_array++], v) || d->n_tables[v->kind] == 0) {
                        v->n_tiles = 0;
                        continue;
                }
                copy_kept(d, v->offset);
        }
        n_tiles = MIN(v->piece, v->n_tiles - d->tile);
        d->kind = v->kind;
        d->piece = (struct kv_piece){.dst = d->dst + d->done,
                .low = d->kept,
                .tables = d->plane,
                .n = n_tiles * v->tile};
        d->piece.mid = v->kind == KV_F32 ? d->kept + 2 * d->piece.n : NULL;
        d->kernels->spread(
                d->plane, d->class, n_tiles, v->n_channels, v->n_tokens, v->channel_major);
        d->kept += d->piece.n * (v->width - 1);
        d->done += d->piece.n * v->width;
        d->class += n_tiles * v->n_channels;
        d->tile += n_tiles;
        return true;
}

static void finish_piece(struct decoder *d, size_t from) {
        from = d->kernels->decode[d->kind](&d->reader, &d->piece, from);
        kv_decode_rest(&d->reader, &d->piece, d->kind, from);
}

static int decoder_close(const struct decoder *d) {
        uint32_t bad = 0;

        for (size_t i = 0; i < KV_LANES; i++)
                bad |= d->reader.high[i] != 0 || d->reader.low[i] != KV_LOW;
        return bad || d->reader.pos != d->n;
}

static int decode_one(struct decoder *d) {
        while (next_piece(d))
                finish_piece(d, 0);
        return decoder_close(d);
}

/* Side by side as far as their pieces are of the same kind. */
static void decode_two(struct decoder *a, struct decoder *b) {
        struct kv_reader *const readers[2] = {&a->reader, &b->reader};
        const struct kv_piece *const pieces[2] = {&a->piece, &b->piece};
        bool more_a = next_piece(a), more_b = next_piece(b);

        while (more_a && more_b) {
                size_t n = 0;

                if (a->kind == b->kind)
                        n = a->kernels->decode_two[a->kind](readers, pieces);
                finish_piece(a, n);
                finish_piece(b, n);
                more_a = next_piece(a);
                more_b = next_piece(b);
        }
        for (; more_a; more_a = next_piece(a))
                finish_piece(a, 0);
        for (; more_b; more_b = next_piece(b))
                finish_piece(b, 0);
}

void spill_kv_decode_many(struct spill_codec_job *jobs, size_t n, void *scratch) {
        struct spill_codec_job *open = NULL;
        struct decoder d[2];
        struct kv_kernels k;

        kv_kernels_get(&k);
        for (size_t i = 0; i < n; i++) {
                size_t half = open ? kv_decode_scratch(open->dst_size) : 0;

                jobs[i].r = 1;
                if (!decoder_open(&d[open ? 1 : 0], &jobs[i], &k, (uint8_t *)scratch + half))
                        continue;
                if (!open) {
                        open = &jobs[i];
                        continue;
                }
                decode_two(&d[0], &d[1]);
                open->r = decoder_close(&d[0]);
                jobs[i].r = decoder_close(&d[1]);
                open = NULL;
        }
        if (open)
                open->r = decode_one(&d[0]);
}

int spill_kv_decode(void *dst, size_t dst_size, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        struct spill_codec_job j = {.dst = dst,
                .dst_size = dst_size,
                .src = src,
                .n = n,
                .arrays = arrays,
                .n_arrays = n_arrays};

        spill_kv_decode_many(&j, 1, scratch);
        return j.r;
}
