/* SPDX-License-Identifier: MIT */
#pragma once
/* The codec of key/value memory, SPILL_CODEC_KV: what its files share. The format is described in
 * codec-kv.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spill/codec/kernels.h"

struct spill_array;
struct spill_codec_job;

/* The functions of the codec's row; decode_many as spill_codec_decode_many(), of jobs of this
 * codec. */
size_t spill_kv_encode(void *dst, size_t max, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch);
int spill_kv_decode(void *dst, size_t dst_size, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch);

void spill_kv_decode_many(struct spill_codec_job *jobs, size_t n, void *scratch);

/* Bytes of scratch to decode one section; multiple of 64. */
size_t kv_decode_scratch(size_t section_size);

enum {
        KV_TABLES = KV_N_KINDS * KV_CLASSES,
        KV_PIECE = 4096, /* values that are coded at a time, unless a tile has more */
        KV_HEADER = 12,
        KV_STATES_SIZE = 4 * KV_LANES,
        KV_WORDS_SLACK = 64,          /* bytes before the words that the encoder may overwrite */
        KV_TABLE_MAX = 192,           /* bytes of a written table, at most */
        KV_SAMPLE_CHANNELS = 128,     /* that the classes are learnt from, at most ... */
        KV_SAMPLE_TOKENS = 32,        /* ... and tokens of each */
        KV_SCRATCH_FIXED = 256 << 10, /* bytes of scratch for tables */
};

/* Counts are not all zero. Every symbol that occurs gets a place. */
void kv_table_from_counts(struct kv_table *t, const uint32_t counts[256]);
/* At most KV_TABLE_MAX bytes; returns how many. */
size_t kv_table_write(const struct kv_table *t, uint8_t *dst);
/* Read symbols and levels only. Returns the bytes used, or 0 if this is no table. 200 bytes of src
 * are read, but those after src[0..n) are ignored. */
size_t kv_table_read(struct kv_table *t, const uint8_t *src, size_t n);
/* What struct kv_writer has of the table's symbols. */
void kv_table_codes(const struct kv_table *t, uint32_t info[256], uint32_t rcp[256]);

/* An array as the codec sees it. */
struct kv_view {
        enum kv_kind kind;
        size_t offset, size; /* bytes */
        size_t width;        /* bytes of a value */
        size_t n_tiles, n_channels, n_tokens;
        size_t tile;  /* values of a tile */
        size_t piece; /* tiles that are coded at a time */
        bool channel_major;
};
/* False for plain bytes. */
bool kv_view(const struct spill_array *a, struct kv_view *ret);

/* The sizes of a section's parts, from its layout. */
struct kv_plan {
        size_t n_values, n_channels; /* of coded kinds */
        size_t n_kept;
        size_t class_bits;
};
struct kv_plan kv_plan(const struct spill_array *arrays, size_t n_arrays, size_t n,
        const unsigned n_tables[KV_N_KINDS]);
/* Bits per channel that name its class. */
unsigned kv_class_width(unsigned n_tables);

struct kv_encoder {
        const struct spill_array *arrays;
        size_t n_arrays;
        const struct kv_kernels *kernels;
        uint8_t *symbols; /* of all views, in their order */
        uint8_t *classes; /* of all channels of all views: 0 .. KV_CLASSES - 1 of their kind */
        kv_place *places; /* of all symbols; table kind * KV_CLASSES + class */
        unsigned n_tables[KV_N_KINDS];          /* 0: the kind is stored as it is */
        uint8_t number[KV_N_KINDS][KV_CLASSES]; /* of a class that is used: its table's, from 0 */
        bool used[KV_N_KINDS][KV_CLASSES];
        struct kv_encoder_tables *tables;
};
struct kv_encoder_tables {
        struct kv_table table[KV_TABLES];
        uint32_t info[KV_TABLES][256], rcp[KV_TABLES][256];
        uint32_t counts[KV_TABLES][256], more_counts[KV_TABLES][256]; /* of all values */
        uint16_t cost[256][KV_CLASSES] __attribute__((aligned(16)));
        uint32_t sample_counts[256][KV_CLASSES];
        uint8_t sample[KV_SAMPLE_CHANNELS][KV_SAMPLE_TOKENS];
        uint8_t sample_tokens[KV_SAMPLE_CHANNELS], sample_class[KV_SAMPLE_CHANNELS];
};
/* Fill classes, places and tables of @kind. codec-kv-class.c. */
void kv_classify(struct kv_encoder *e, enum kv_kind kind);
