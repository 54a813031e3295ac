/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inner loops of the KV codec (codec-kv.c has the format): one table of functions per
 * instruction set. Private to lib/spill. For any input all of them produce the same bytes and
 * consume the same words, so that all machines refuse the same input.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        KV_LANES = 64, /* coders side by side; value i of a piece belongs to lane i % 64 */
        KV_BITS = 11,  /* of a probability */
        KV_SLOTS = 1 << KV_BITS,
        KV_LOW = 1 << 15, /* a coder's state is in [KV_LOW, KV_LOW << 16) */
        KV_SLOTS_SLACK = 64,
        KV_GROUP_WORDS = 128, /* bytes of words that one value per lane takes at most */
        KV_SUM_TOKENS = 32,   /* of a channel, that decide on its class */
};

/* The symbols of one class and their probabilities, by rising symbol. */
struct kv_table {
        unsigned n;                                /* 1 .. 256 */
        uint8_t symbol[256 + 16], level[256 + 16]; /* and room to write a few more */
        uint16_t freq[256];                        /* sum KV_SLOTS, each at least 1 */
};

/* How one value lies in memory, by bytes: f16 = low, symbol; f32 = low, low, mid, symbol. */
enum kv_kind { KV_F16, KV_F32, KV_I8, KV_N_KINDS };

/* A slot of a decoding table: symbol << 24 | (slot - start of the symbol) << 12 | frequency. */
struct kv_reader {
        uint16_t low[KV_LANES], high[KV_LANES]; /* halves of the states */
        const uint8_t *src;                     /* of the section's encoding */
        size_t pos;            /* of the next word; may run past @limit on damaged input */
        size_t limit;          /* bytes of src */
        const uint32_t *slots; /* [table][KV_SLOTS] */
};
struct kv_piece {
        uint8_t *dst;          /* n values */
        const uint8_t *low;    /* f16: n bytes; f32: 2 * n bytes */
        const uint8_t *mid;    /* f32: n bytes */
        const uint8_t *tables; /* n table numbers */
        size_t n;
};

/* Values as the encoder sees them: the number of a table << 8 | symbol. */
typedef uint16_t kv_place;
enum { KV_CLASSES = 8 /* tables per kind, at most */ };

struct kv_writer {
        uint32_t state[KV_LANES];
        uint8_t *words; /* buffer with room for 2 bytes per value */
        size_t pos;     /* words[pos ..) are written; going down */
        /* By place: start << 16 | shift << 12 | frequency, and ceil(2^(31 + shift) / frequency), by
         * which a division is a multiplication. */
        const uint32_t *info, *rcp;
};

/* A tile's symbols, as the encoder collects them. */
struct kv_tile {
        const uint8_t *symbols;
        size_t n_channels, n_tokens;
        bool channel_major;
};

struct kv_kernels {
        /* Decode whole groups of KV_LANES values from value @from on, a multiple of KV_LANES, while
         * there are surely enough words; returns where it stopped. */
        size_t (*decode[KV_N_KINDS])(struct kv_reader *r, const struct kv_piece *p, size_t from);
        /* The same of two pieces of different readers side by side, from their start, until one of
         * them has to stop: the same number of values of each, maybe none. */
        size_t (*decode_two[KV_N_KINDS])(
                struct kv_reader *const r[2], const struct kv_piece *const p[2]);
        /* The symbols of n values to dst[0..n). */
        void (*symbols)(enum kv_kind kind, const uint8_t *src, size_t n, uint8_t *dst);
        /* Their other bytes: f16: n; f32: 2 * n low ones, then n. */
        void (*keep)(enum kv_kind kind, const uint8_t *src, size_t n, uint8_t *dst);
        /* For each channel the class that codes its tokens in the fewest bits, the first of equals;
         * @cost (16-aligned) and all sums are below 2^16. At most KV_SUM_TOKENS are looked at. */
        void (*choose)(
                const uint16_t cost[256][KV_CLASSES], const struct kv_tile *tile, uint8_t *classes);
        /* The places of a tile's values: @base | class << 8 | symbol. */
        void (*places)(
                const struct kv_tile *tile, const uint8_t *classes, unsigned base, kv_place *ret);
        /* Encode places[0..n) backwards, n a multiple of KV_LANES. */
        void (*encode)(struct kv_writer *w, const kv_place *places, size_t n);
        /* The tables of all values of some tiles, from the classes of their channels. */
        void (*spread)(uint8_t *tables, const uint8_t *classes, size_t n_tiles, size_t n_channels,
                size_t n_tokens, bool channel_major);
        /* Fill slots[0 .. KV_SLOTS + KV_SLOTS_SLACK), 64-aligned, for a table whose symbols and
         * levels are known; the slack is ignored. May also fill in the frequencies. */
        void (*slots)(struct kv_table *t, uint32_t *slots);
};

void kv_kernels_generic(struct kv_kernels *k);
void kv_kernels_avx2(struct kv_kernels *k);
void kv_kernels_avx512(struct kv_kernels *k);

/* The rest of a piece from value @from on, with every bound checked. */
void kv_decode_rest(struct kv_reader *r, const struct kv_piece *p, enum kv_kind kind, size_t from);
/* The incomplete group at the end of a piece: n < KV_LANES. */
void kv_encode_rest(struct kv_writer *w, const kv_place *places, size_t n);

/* The kernels to use now; codec/cpu.c. */
void kv_kernels_get(struct kv_kernels *ret);
