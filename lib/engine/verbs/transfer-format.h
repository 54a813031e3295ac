/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Export files, version 6 (docs/spill.md describes them for users). All integers are little-endian.
 *
 *      header       256 bytes, see transfer-format.c
 *      transcript   name, biases, turns, tokens, texts; then u64 XXH64 of these
 *      cells        xfer_n_cells() times: a cell's raw bytes, then u64 XXH64 of these
 *      trailer      u64 XXH64 of all before; 16 bytes MAC of all before, this XXH64 included
 *
 * 1. The header tells every length, and thereby the exact size of the file.
 * 2. Nothing in a file is trusted before it was checked. Checksums show that the file is as it was
 *    written, but not who wrote it. The contents of a transcript are checked separately.
 * 3. Only the MAC, under a key that never leaves its state folder, shows that the memory was
 *    computed by this daemon and belongs to these tokens. Memory without it is foreign.
 *
 * The MAC is BLAKE2b with 16 bytes of output, keyed (RFC 7693; libsodium's generichash). Files of
 * version 1 differ only in their MAC (a chain of SipHash-2-4), which is no longer computed: they
 * can be imported, and their memory is foreign. Version 3 adds the gap of the memory and the
 * overflow, version 4 definitions of tools, turns of tools, and what was given with a message besides
 * its text. Version 5 is for memory of several classes (seq/seq.h). The cells are those that position
 * n_memory_tokens needs, by class and index; before version 5, full blocks of SEQ_ALL. Version 6 adds
 * what is noted about the conversation: title, tags, metadata. A file is written as the oldest version, from 2 on, that has what it needs, so older
 * daemons read it.
 *
 * This code knows nothing of the engine: bytes in, structs out.
 */
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/sampling.h"
#include "seq/seq.h"
#include "store/store.h"

struct err;

enum {
        XFER_VERSION = 6,
        XFER_VERSION_CLASSES = 5, /* without what is noted */
        XFER_VERSION_TOOLS = 4,   /* without classes of memory */
        XFER_VERSION_GAP = 3,     /* without tools */
        XFER_VERSION_PLAIN = 2,   /* without gap and overflow */
        XFER_VERSION_OLDEST = 1,
        XFER_HEADER_SIZE = 256,
        XFER_KEY_SIZE = 32,
        XFER_MAC_SIZE = 16,
        XFER_TRAILER_SIZE = 8 + XFER_MAC_SIZE,
        XFER_MAX_TEXTS = 1 << 30, /* bytes of all texts together */
        XFER_MAX_BLOCK = 1 << 30,
};

struct xfer_header {
        bool is_private; /* the memory was imported before it was exported */
        struct fingerprint model;
        uint64_t vocab;
        uint32_t n_tokens, n_turns;
        struct seq_shape shape; /* of the memory */
        /* The position that the memory is for, in memory tokens; 0: no memory. With SEQ_ALL alone it
         * lies between blocks. */
        uint32_t n_memory_tokens;
        uint32_t name_size;
        uint64_t texts_size; /* of all texts, tools, extras and what is noted together */
        uint64_t created_usec;
        bool with_tools;          /* version 4, and always from version 5 on: */
        uint32_t tools_size;      /* of the definitions that the conversation was opened with */
        struct sampling sampling; /* its biases are in the transcript */
        struct gap gap;           /* tokens that the memory leaves out: no block is of them */
        uint32_t overflow;        /* enum store_overflow */
        uint32_t noted_size;      /* version 6: of what is noted; 0: nothing */
};
/* Whether the memory takes version 5. */
static inline bool xfer_has_classes(const struct xfer_header *h) {
        return h->shape.size[SEQ_ALL] == 0 || h->shape.size[SEQ_WINDOW] > 0 ||
               h->shape.size[SEQ_STATE] > 0;
}
/* The cells in the file, of a header whose fields are within their ranges. */
struct xfer_cell {
        enum seq_class class;
        uint32_t index, n_tokens; /* n_tokens: those of the memory in it */
};
uint32_t xfer_n_cells(const struct xfer_header *h);
struct xfer_cell xfer_cell(const struct xfer_header *h, uint32_t i);
/* Sizes in bytes, computed from a header whose fields are within their ranges. */
uint64_t xfer_transcript_size(const struct xfer_header *h);
uint64_t xfer_file_size(const struct xfer_header *h);

void xfer_header_format(const struct xfer_header *h, uint8_t out[XFER_HEADER_SIZE]);
/* @data has the first @n bytes of a file of @file_size bytes. 0, -ERR_FORMAT (no export file, or
 * impossible), -ERR_UNSUPPORTED (a newer version), -ERR_CORRUPT (checksum, or a truncated file). */
int xfer_header_parse(
        const uint8_t *data, size_t n, uint64_t file_size, struct xfer_header *ret, struct err *e);

struct xfer_transcript {
        char name[STORE_NAME_MAX + 1]; /* any bytes but NUL */
        struct sampling sampling;      /* with biases */
        char *tools;                   /* owned, NUL-terminated; NULL: none */
        struct about *about;           /* owned, one block: title, tags, metadata; NULL: none */
        struct store_turn *turns;      /* owned; texts are borrowed from the data */
        int32_t *tokens;               /* owned */
};
void xfer_transcript_deinit(struct xfer_transcript *t);
/* The bytes that title, tags and metadata of @about take in a file; 0 if none of them is set. */
uint32_t xfer_noted_size(const struct about *about);
/* Append the transcript with its checksum. 0 or -ERR_NOMEM. @h has its sizes; @tools: [tools_size];
 * @about may be NULL if @h has none. */
int xfer_transcript_format(struct buf *out, const struct xfer_header *h, const char *name,
        const char *tools, const struct about *about, const struct store_turn *turns,
        const struct transcript *tokens, struct err *e);
/* @data: xfer_transcript_size() bytes and the checksum. Checks everything: turns are adjacent from
 * 0 to n_tokens, none is empty, roles and finishes are known, tokens are in a vocabulary of
 * @n_vocab, the sizes of the texts add up, tools and extras are UTF-8 without NUL, what is noted is as
 * about_check() has it. What they say, and
 * the texts of turns of tools, is the caller's to check. 0, -ERR_CORRUPT, -ERR_FORMAT, -ERR_NOMEM. */
int xfer_transcript_parse(const struct xfer_header *h, const uint8_t *data, size_t n,
        uint32_t n_vocab, struct xfer_transcript *ret, struct err *e);

/* Checksum and MAC of a file, updated with pieces of any size. */
struct xfer_sum {
        crypto_generichash_state mac;
        struct hash64 total;
};
void xfer_sum_init(struct xfer_sum *s, const uint8_t key[XFER_KEY_SIZE]);
void xfer_sum_update(struct xfer_sum *s, const void *data, size_t n);
/* Ends the sum, and fills the trailer. */
void xfer_sum_final(struct xfer_sum *s, uint8_t out[XFER_TRAILER_SIZE]);
/* Compare with a file's trailer (both [XFER_TRAILER_SIZE]). -ERR_CORRUPT if the checksum differs;
 * *ret_ours: the MAC was made with this key. */
int xfer_trailer_check(const uint8_t *is, const uint8_t *should_be, bool *ret_ours, struct err *e);
