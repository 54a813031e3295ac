/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the files of lib/tok share. The parts, in the order in which text passes through them:
 *
 *   encode.c     fragments -> ordinary text and special tokens (partition.c), bos, eos, limits
 *   spm.c bpe.c bpe-raw.c  one kind of tokenizer each, behind struct tok_ops; all merge through
 *                merge.c (chars.c: text as characters; bpe-load.c: tables of BPE)
 *   unigram.c    the best tokens of a text (charsmap.c: its normal form); rwkv.c: the longest ones;
 *                both find tokens in a trie (trie.c)
 *   pretok.c     the rules that cut text into pieces before BPE (pretok-table.c has the data, regex.h
 *                what runs the rules)
 *   detok.c      tokens -> text
 *   vocab.c      the tables of the file, validated; special.c: which tokens are special
 *
 * A further kind (WordPiece, ...) is one more file and one more row in tok.c.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"
#include "tok/tok.h"

struct err;
struct tok_out;
struct tok_work;

/* Bounds on what a file may ask for; real vocabularies stay far below. */
#define TOK_MAX_VOCAB (1u << 24)
#define TOK_MAX_MERGES (1u << 24)
#define TOK_MAX_TEXT_SIZE 65535u   /* bytes of one token */
#define TOK_MAX_SPECIAL_SIZE 1024u /* bytes of a token that is searched for in the input */
#define TOK_MAX_INPUT (1u << 26)   /* bytes of one fragment */

enum tok_type {
        TOK_UNDEFINED,
        TOK_NORMAL,
        TOK_UNKNOWN,
        TOK_CONTROL,
        TOK_USER_DEFINED,
        TOK_UNUSED,
        TOK_BYTE,
        TOK_N_TYPES
};

/* The token table. Texts are borrowed from the file. */
struct tok_vocab {
        uint32_t n;
        struct gguf_str *text; /* [n] */
        uint8_t *type;         /* [n] enum tok_type */
        float *score;          /* [n], NULL if the file has none */
        size_t max_size;       /* of the texts */
        /* Text -> id: open addressing, id + 1 or 0; seeded, so that a file can't choose
         * collisions. */
        uint32_t *slots;
        uint32_t mask;
        uint64_t seed;
};
int tok_vocab_load(struct tok_vocab *v, const struct gguf *g, struct err *e);
void tok_vocab_deinit(struct tok_vocab *v);
/* The id, or -1. If several tokens have the text, the last one. Empty texts are never found. */
int32_t tok_vocab_find(const struct tok_vocab *v, const void *text, size_t n);
uint64_t tok_random_seed(void);

/* A set of token texts to search for in the input (partition.c). */
struct tok_specials {
        struct tok_special_slot {
                uint64_t hash;
                uint32_t id_plus_1; /* 0: free */
        } * slots;
        uint32_t mask;
        uint32_t *sizes; /* distinct text sizes in bytes, descending */
        size_t n_sizes;
        uint64_t base; /* of the rolling hash; odd, random */
};

/*
 * The pairs of bytes that may be adjacent inside a symbol made by merging. Text may be cut between
 * two bytes that are not such a pair, because no symbols are ever joined there. Extra pairs do no
 * harm but cost memory.
 */
struct tok_joins {
        uint8_t bits[256 * 256 / 8];
};
static inline void tok_joins_add(struct tok_joins *j, uint8_t left, uint8_t right) {
        unsigned at = (unsigned)left << 8 | right;

        j->bits[at / 8] |= (uint8_t)(1u << at % 8);
}
static inline bool tok_may_join(const struct tok_joins *j, uint8_t left, uint8_t right) {
        unsigned at = (unsigned)left << 8 | right;

        return j->bits[at / 8] >> at % 8 & 1;
}

struct tok_pretok;  /* pretok.c */
struct tok_bpe;     /* bpe.c */
struct tok_spm;     /* spm.c */
struct tok_unigram; /* unigram.c */
struct tok_rwkv;    /* rwkv.c */

struct tok {
        const struct tok_ops *ops;
        struct tok_vocab vocab;
        char pre[64];
        int32_t bos, eos, eot, unk;
        bool add_bos, add_eos;
        bool add_space_prefix;
        uint8_t *flags; /* [n] TOK_FLAG_* */
        int32_t *suppressed;
        size_t n_suppressed;
        struct tok_specials always; /* user-defined, without markers */
        struct tok_specials parsed; /* user-defined, control, unknown */
        struct tok_joins joins;     /* filled by the kind */
        atomic_uchar *merged;       /* [n] TOK_MERGED_*, of kinds that merge */
        union {
                struct tok_bpe *bpe;
                struct tok_spm *spm;
                struct tok_unigram *unigram;
                struct tok_rwkv *rwkv;
        };
};
#define TOK_FLAG_EOG 1
#define TOK_FLAG_RSTRIP 2 /* swallows the whitespace after it in the input */
#define TOK_FLAG_LSTRIP 4 /* before it */
#define TOK_FLAG_MARKER 8 /* user-defined, but made only by templates, never from user text */

struct tok_ops {
        const char *model; /* tokenizer.ggml.model */
        int32_t default_bos, default_eos, default_unk;
        /* The defaults apply only if the file says that they are control tokens. */
        bool defaults_if_control;
        bool default_add_bos, default_add_eos;
        bool forced_add_bos; /* whatever the file says */
        /* Load what this kind needs besides the vocabulary: pre, add_bos, add_space_prefix. */
        int (*load)(struct tok *t, const struct gguf *g, struct err *e);
        void (*unload)(struct tok *t);
        /* Tokens of ordinary text, n >= 1. @starts: it begins the text or follows a special
         * token. */
        int (*encode)(const struct tok *t, struct tok_work *w, const char *text, size_t n,
                bool starts, struct tok_out *out, struct err *e);
        /* The most scratch memory that encode() takes for ordinary text. */
        size_t (*memory)(const struct tok *t, const char *text, size_t n);
        /* Bytes that a normal or byte token stands for, as tok_piece(). */
        size_t (*piece)(const struct tok *t, int32_t token, char *dst, size_t size);
};
extern const struct tok_ops tok_ops_spm, tok_ops_bpe, tok_ops_bpe_raw, tok_ops_gemma4,
        tok_ops_unigram, tok_ops_rwkv;

/* special.c: fills bos..unk, add_* and flags, and changes types; call after loading the kind. */
int tok_special_load(struct tok *t, const struct gguf *g, struct err *e);

/* partition.c */
/* The texts to search for: with @parsed in a template's own strings, without it in user text. */
int tok_specials_build(struct tok_specials *s, const struct tok *t, bool parsed, struct err *e);
void tok_specials_deinit(struct tok_specials *s);
/* Sets TOK_FLAG_MARKER on user-defined tokens that are markers by their form. */
void tok_markers_by_form(struct tok *t);

/* A stretch of the input: ordinary text, or one special token. */
struct tok_span {
        uint32_t start, size;
        int32_t id; /* -1: text */
};
struct tok_spans {
        struct tok_span *v;
        size_t n, capacity;
};
int tok_spans_push(struct tok_spans *s, uint32_t start, uint32_t size, int32_t id);
/* Cut text[0..n) at special tokens; @ret is overwritten, in order of the text. */
int tok_partition(const struct tok *t, const struct tok_specials *s, struct tok_work *w,
        const char *text, size_t n, struct tok_spans *ret, struct err *e);
/* The same for a text with trusted ranges: t->parsed is searched in each of these, t->always
 * everywhere. */
int tok_partition_trusted(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        const struct tok_range *trusted, size_t n_trusted, struct tok_spans *ret, struct err *e);

/* Whether ordinary text may become this token (of the vocabulary). */
static inline bool tok_may_emit(const struct tok *t, uint32_t id) {
        return t->vocab.type[id] != TOK_CONTROL && t->vocab.type[id] != TOK_UNKNOWN &&
               !(t->flags[id] & TOK_FLAG_MARKER);
}

/* Counts the tokens on their way to the sink. */
struct tok_out {
        const struct tok_sink *sink;
        size_t n, n_max; /* tokens so far, and the most allowed */
};
int tok_out_push(struct tok_out *out, int32_t id, struct err *e);

/* A part of the text being merged. It ends where the next symbol begins. */
struct tok_symbol {
        uint32_t start;      /* byte in the text being merged */
        uint32_t prev, next; /* TOK_SYMBOL_NONE: none; next is itself: was joined to the left */
        uint32_t id;         /* its meaning is up to the kind */
};
#define TOK_SYMBOL_NONE UINT32_MAX
#define TOK_MIN_SYMBOLS 64
#define TOK_MIN_BUFFER 256

#define TOK_PRETOK_MAX_RULES 8

/* Scratch of one tok_encode(): grows to the longest merged stretch, freed at the end. */
struct tok_work {
        struct tok_symbol *symbols;
        size_t n_symbols, symbols_capacity;
        uint64_t *heap; /* rank << 32 | left symbol */
        size_t n_heap;
        const char *text; /* the text that symbols point into */
        size_t text_size;
        char *buffer; /* the kind's own copy of the text */
        size_t buffer_capacity;
        struct tok_best *best; /* unigram.c */
        size_t best_capacity;
        struct tok_spans spans, raw, raw_next, hits;
        uint64_t n_read;         /* bytes that the rules of a pre-tokenizer have read, for tests */
        const atomic_bool *stop; /* of the sink, or NULL */
};
void tok_work_deinit(struct tok_work *w);
int tok_work_reserve_symbols(struct tok_work *w, size_t n, struct err *e);
int tok_work_reserve_buffer(struct tok_work *w, size_t n, struct err *e);
/* The bytes that tok_work_reserve_symbols() allocates for @n symbols. */
size_t tok_symbols_memory(size_t n);
static inline size_t tok_symbol_size(const struct tok_work *w, uint32_t at) {
        const struct tok_symbol *s = &w->symbols[at];

        return (s->next == TOK_SYMBOL_NONE ? w->text_size : w->symbols[s->next].start) - s->start;
}
/* Whether the tokens are no longer wanted. */
static inline bool tok_stopped(const struct tok_work *w) {
        return w->stop && atomic_load_explicit(w->stop, memory_order_relaxed);
}
int tok_stop(struct err *e); /* -ERR_CANCELLED */

/* Whether the adjacent symbols @left and @right may be joined; if so, fills in the rank (lower goes
 * first) and the joined symbol's id. */
typedef bool tok_pair_fn(const struct tok *t, const struct tok_work *w, uint32_t left,
        uint32_t right, uint32_t *ret_rank, uint32_t *ret_id);
/* Join w->symbols, lowest rank first, then leftmost first, until no pair is left. O(n log n). 0 or
 * -ERR_CANCELLED. */
int tok_merge(const struct tok *t, struct tok_work *w, tok_pair_fn *pair, struct err *e);

/*
 * Most stretches of most texts are a token, and merging nearly always makes that token of them. The
 * tokenizer remembers for each token whether it does (tok->merged): it depends on the token's text
 * alone. Any thread may learn it at any time, and all learn the same.
 */
int tok_merged_new(struct tok *t, struct err *e);
enum { TOK_MERGED_NOT_KNOWN, TOK_MERGED_WHOLE, TOK_MERGED_OTHERWISE };
/* Whether it is known that merging the text of @token (or -1) makes @token. */
static inline bool tok_merges_to(const struct tok *t, int32_t token) {
        return token >= 0 && tok_may_emit(t, (uint32_t)token) &&
               atomic_load_explicit(&t->merged[token], memory_order_relaxed) == TOK_MERGED_WHOLE;
}
/* The text of @token (or -1) was merged. */
void tok_note_merged(const struct tok *t, const struct tok_work *w, int32_t token);

/* chars.c */
#define TOK_SPACE "\xe2\x96\x81"
#define TOK_SPACE_SIZE 3
/* How a kind merges characters. */
struct tok_chars {
        bool escape; /* a space is written U+2581 */
        uint32_t (*symbol)(const struct tok *t, const char *text, size_t n);
        tok_pair_fn *pair;
        int (*emit)(
                const struct tok *t, const struct tok_work *w, struct tok_out *out, struct err *e);
};
/* A beginning of the text that is merged by itself: its bytes, its characters, and its bytes with
 * U+2581 for spaces, a prefix included. */
struct tok_stretch {
        size_t size, n_chars, n_bytes;
};
/* @prefix: a space is put in front. n > 0, or a prefix. */
struct tok_stretch tok_stretch_next(const struct tok *t, const char *text, size_t n,
        const struct tok_chars *chars, bool prefix);
int tok_stretch_encode(const struct tok *t, struct tok_work *w, const char *text,
        struct tok_stretch s, const struct tok_chars *chars, bool prefix, struct tok_out *out,
        struct err *e);
size_t tok_stretches_memory(const struct tok *t, const char *text, size_t n,
        const struct tok_chars *chars, bool prefix);
/* Size of the character at text[0..n), n >= 1; 1 for a byte that begins no character. */
size_t tok_char_size(const char *text, size_t n);
/* The tokens of bytes, <0xXX> or the byte itself, or -1. */
void tok_load_bytes(const struct tok *t, int32_t byte[256]);
/* tok_ops.piece of kinds that write bytes as <0xXX>, and a space as U+2581 if @escape. */
size_t tok_chars_piece(const struct tok *t, int32_t token, bool escape, char *dst, size_t size);

/* trie.c */
struct tok_trie {
        uint32_t n;      /* nodes; 0 is the root */
        uint8_t *label;  /* [n] the byte that leads to the node */
        uint32_t *first; /* [n + 1] its first child */
        int32_t *id;     /* [n] the token that ends there, or -1 */
};
struct tok_trie_entry {
        const char *text;
        uint32_t size; /* > 0 */
        int32_t id;
};
/* Sorts the entries. Of equal texts the last id counts. tok_trie_deinit() also after a failure. */
int tok_trie_build(struct tok_trie *t, struct tok_trie_entry *entries, uint32_t n, struct err *e);
void tok_trie_deinit(struct tok_trie *t);
/* The node that @byte leads to, or 0. */
uint32_t tok_trie_child(const struct tok_trie *t, uint32_t node, uint8_t byte);

/* charsmap.c. Borrowed from the file; all zero: nothing is replaced. */
struct tok_charsmap {
        const uint8_t *units;
        uint32_t n_units;
        const char *texts;
        size_t texts_size;
};
int tok_charsmap_load(struct tok_charsmap *m, const struct gguf *g, struct err *e);
/* The size of the longest beginning of text[0..n) that is replaced, and its replacement
 * (NUL-terminated); 0 if none is. */
size_t tok_charsmap_find(
        const struct tok_charsmap *m, const char *text, size_t n, const char **ret);

/* Pre-tokenizers: data (pretok-table.c) and the code that runs it (pretok.c). */
enum {
        TOK_PRETOK_IGNORE_MERGES = 1, /* a piece that is a token is that token */
        TOK_PRETOK_ADD_BOS = 2,
        TOK_PRETOK_RAW = 4,    /* over characters: bytes are not written as characters */
        TOK_PRETOK_ESCAPE = 8, /* raw, and a space is written U+2581 */
};
struct tok_pretok_row {
        const char *names; /* separated by blanks */
        unsigned flags;
        const char *rules[TOK_PRETOK_MAX_RULES]; /* regexes, or "@rule" of pretok.c */
};
extern const struct tok_pretok_row tok_pretok_table[];
extern const size_t tok_pretok_table_size;
const struct tok_pretok_row *tok_pretok_find(const char *name, size_t n);

int tok_pretok_new(struct tok_pretok **ret, const struct tok_pretok_row *row, struct err *e);
struct tok_pretok *tok_pretok_free(struct tok_pretok *p);
/* Cut well-formed text[0..n) into pieces and pass each to @put, which may end the cutting with a
 * negative code. 0 or @put's code. */
typedef int tok_piece_fn(void *userdata, const char *text, size_t n, struct err *e);
int tok_pretok_each(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e);
/* The same for any bytes: a run of bytes that are not UTF-8 is a piece. */
int tok_pretok_any(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e);

/* A name from the file, cut and made printable for messages. */
struct tok_quoted {
        char s[48];
};
struct tok_quoted tok_quote(const char *s, size_t n);
