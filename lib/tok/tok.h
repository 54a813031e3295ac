/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tokenizers: SPM (scores), BPE (merges), Unigram and RWKV as GGUF files carry them, and the
 * streaming detokeniser. Pre-tokenizers are data (a table of names, regexes and flags).
 *
 * User text never becomes control tokens: special tokens are recognised only in fragments with
 * parse_special. The same holds for markers, which are user-defined tokens that structure a
 * conversation (their form is <|...|>, or tok_protect() was given their text). Other user-defined
 * tokens (runs of blanks, HTML tags, ...) are recognised in all text. Immutable after tok_new() and
 * tok_protect(): any thread may encode and decode at the same time.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct charge;
struct err;
struct gguf;
struct tok;

/* The gguf must outlive the tokenizer. -ERR_UNSUPPORTED names an unknown model, with those that
 * are known, or an unknown pre-tokenizer. */
int tok_new(struct tok **ret, const struct gguf *g, struct err *e);
struct tok *tok_free(struct tok *t);
/* What tok_new() knows: the i-th kind of tokenizer (tokenizer.ggml.model), and the i-th group of
 * pre-tokenizers that cut alike (tokenizer.ggml.pre, names separated by blanks). NULL behind the
 * last. */
const char *tok_supported_model(size_t i);
const char *tok_supported_pre(size_t i);
DEFINE_CLEANUP(struct tok *, tok_free);

/* @text is written by a chat template. From now on, user text never becomes a user-defined token
 * whose text occurs in @text (partition.c has the exact rule). Call this before other threads see
 * the tokenizer. 0, -ERR_NOMEM. */
int tok_protect(struct tok *t, const char *text, size_t n, struct err *e);

uint32_t tok_n_vocab(const struct tok *t);
const char *tok_model_name(const struct tok *t); /* "llama", "gpt2", "gemma4", "t5", "rwkv" */
const char *tok_pre_name(const struct tok *t);   /* "" for kinds without */
/* -1 if there is none. */
int32_t tok_bos(const struct tok *t);
int32_t tok_eos(const struct tok *t);
int32_t tok_eot(const struct tok *t);
bool tok_add_bos(const struct tok *t);
/* Whether @token ends a generation (special.c). */
bool tok_is_eog(const struct tok *t, int32_t token);
bool tok_is_control(const struct tok *t, int32_t token);
/* Control, unknown or user-defined: text after such a token starts anew (SPM's space). */
bool tok_is_special(const struct tok *t, int32_t token);
/* tokenizer.ggml.suppress_tokens: never sampled. Borrowed. */
size_t tok_suppressed(const struct tok *t, const int32_t **ret);
/* The token whose text is exactly @text, or -1. */
int32_t tok_find(const struct tok *t, const char *text, size_t n);
/* The token's text as in the file. Borrowed, not NUL-terminated. */
const char *tok_text(const struct tok *t, int32_t token, size_t *ret_size);

struct tok_fragment {
        const char *text;
        size_t size;
        bool parse_special;
};
/* Tokens of one call: owned array. */
struct tok_ids {
        int32_t *ids;
        size_t n, capacity;
        struct charge *charge; /* or NULL: charged as it grows, given back by tok_ids_deinit() */
        bool refused;          /* the charge refused, not the limit of tokens */
        const atomic_bool
                *stop; /* or NULL: any thread may set it to end tok_encode(): -ERR_CANCELLED */
};
#define TOK_IDS_NULL ((struct tok_ids){0})
void tok_ids_deinit(struct tok_ids *ids);
int tok_ids_append(struct tok_ids *ids, const int32_t *src, size_t n, struct err *e);

/*
 * Append the tokens of the fragments, each tokenised separately, to @out. @add_special: add bos at
 * the front and eos at the end if the model wants them. @at_start: the first fragment begins the
 * text (SPM puts its space there); otherwise it continues after ordinary text. A fragment after a
 * special token starts anew. @out is unchanged on failure. -ERR_LIMIT if there are more than @max
 * tokens (0: no limit).
 */
int tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e);

/* Bytes of a text. */
struct tok_range {
        size_t start, size;
};
/*
 * Append the tokens of one text, parts of which are trusted: special tokens and markers are
 * recognised only where they lie in one trusted range as a whole. Between special tokens the text is
 * ordinary text, cut into tokens without regard to the borders of ranges. @trusted: ascending,
 * without overlap, not empty. @starts: as tok_encode()'s @at_start. Nothing is put in front or
 * behind. Errors, @max and @out as tok_encode().
 */
int tok_encode_trusted(const struct tok *t, const char *text, size_t size,
        const struct tok_range *trusted, size_t n_trusted, bool starts, size_t max,
        struct tok_ids *out, struct err *e);
/* As tok_encode_memory(). */
size_t tok_encode_trusted_memory(
        const struct tok *t, const char *text, size_t size, size_t n_trusted);

/* A special token found in a text. */
struct tok_place {
        size_t start, size; /* bytes */
        int32_t token;
};
/* The special tokens that tok_encode_trusted() finds, in order: an owned array, to be freed. */
int tok_find_special(const struct tok *t, const char *text, size_t size,
        const struct tok_range *trusted, size_t n_trusted, struct tok_place **ret, size_t *ret_n,
        struct err *e);

/* The fewest tokens that a text of @size bytes can have. */
size_t tok_fewest(const struct tok *t, size_t size);

/* Receives tokens one by one, as they are found. */
struct tok_sink {
        int (*put)(void *userdata, int32_t token, struct err *e); /* a negative code ends it all */
        void *userdata;
        const atomic_bool *stop; /* or NULL: any thread may set it to end it: -ERR_CANCELLED */
};
/* As tok_encode(), but the tokens go to @sink: the first tokens of a text arrive long before its
 * end has been read. On failure some tokens have been put already. */
int tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e);
/* The most bytes of memory that encoding these fragments takes while it runs, without the tokens
 * themselves: 32 bytes for each byte of the longest stretch that is merged as a whole, because
 * tokens may reach across every place in it (a word in most texts, all of "aaaa..."). Reads each
 * byte of the text once. */
size_t tok_encode_memory(
        const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments);

/* The bytes that one token prints; control and unknown tokens print nothing unless @special.
 * Returns the number of bytes; writes at most @size of them. */
size_t tok_piece(const struct tok *t, int32_t token, bool special, char *dst, size_t size);

/*
 * Streaming detokeniser: holds back incomplete UTF-8 characters (at most 3 bytes). Its output is
 * always well-formed: bytes that cannot become a character are replaced by U+FFFD.
 */
struct tok_stream {
        uint8_t held[4];
        uint8_t n_held;
        bool special;     /* print control tokens' text */
        bool strip_space; /* SPM: drop one leading space of the first piece */
};
void tok_stream_init(struct tok_stream *s, const struct tok *t, bool at_start, bool special);
struct buf;
/* Append the characters that @token completes to @out (maybe none). 0, -ERR_NOMEM, -ERR_LIMIT. */
int tok_stream_push(struct tok_stream *s, const struct tok *t, int32_t token, struct buf *out);
/* At the end: replace held bytes by U+FFFD. */
int tok_stream_finish(struct tok_stream *s, struct buf *out);
