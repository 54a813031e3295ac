/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the two kinds of BPE share: byte-level (bpe.c) and over characters (bpe-raw.c). bpe-load.c
 * fills the tables.
 */
#include "tok/tok-internal.h"

struct map;

struct bpe_merge {
        uint64_t key; /* left << 32 | right; BPE_FREE: free */
        uint32_t rank, result;
};

/*
 * Symbols are numbers: a token's id, or a number past the vocabulary for texts that occur only in
 * merges. So merging compares and hashes integers.
 */
struct tok_bpe {
        struct tok_pretok *pretok;
        bool ignore_merges;
        bool raw;                  /* over characters */
        bool escape;               /* raw: a space is written U+2581 */
        uint32_t byte_symbol[256]; /* byte-level */
        int32_t byte_token[256];   /* or -1 */
        struct map *extra;         /* the numbers past the vocabulary, by text */
        struct bpe_merge *merges;  /* open addressing */
        uint32_t mask;
        uint64_t seed;
};
#define BPE_FREE UINT64_MAX
#define BPE_NO_SYMBOL (UINT32_MAX - 1) /* a character that is in no token and no merge */

int bpe_load(struct tok *t, const struct gguf *g, struct err *e);
void bpe_unload(struct tok *t);
/* Byte-level BPE writes each byte as a character. */
uint32_t bpe_char_of_byte(uint8_t byte);
/* The byte that a character of a token's text stands for, or -1. */
int bpe_byte_of_char(uint32_t cp);

/* The symbol with this text, or BPE_NO_SYMBOL. */
uint32_t bpe_find_symbol(const struct tok *t, const char *text, size_t n);
tok_pair_fn bpe_pair;
/* The symbol @id is a token that ordinary text may become. */
static inline bool bpe_may_emit(const struct tok *t, uint32_t id) {
        return id < t->vocab.n && tok_may_emit(t, id);
}
/* Emit the merged symbols; those without a token byte by byte. */
int bpe_emit_symbols(
        const struct tok *t, const struct tok_work *w, struct tok_out *out, struct err *e);
