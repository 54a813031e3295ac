/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tokenizers: SPM (scores) and byte-level BPE (merges) as GGUF files carry them, and the streaming
 * detokeniser. Pre-tokenizers are data (a table of names, regexes and flags, run by PCRE2).
 *
 * User text never becomes control tokens: special tokens are recognised only in fragments whose
 * parse_special is set. So are user-defined tokens that structure a conversation (markers: by form
 * <|...|>, or named to tok_protect()); other user-defined tokens (runs of blanks, HTML tags, ...)
 * are recognised in all text. Immutable after tok_new() and tok_protect(): any thread may encode
 * and decode at the same time.
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

/* The gguf must outlive the tokenizer. -ERR_UNSUPPORTED names an unknown model or pre-tokenizer. */
int tok_new(struct tok **ret, const struct gguf *g, struct err *e);
struct tok *tok_free(struct tok *t);
DEFINE_CLEANUP(struct tok *, tok_free);

/* User-defined tokens whose texts occur in @text, which a chat template writes, are never made of
 * user text from now on (partition.c has the rule). To be called before other threads see the
 * tokenizer. 0, -ERR_NOMEM. */
int tok_protect(struct tok *t, const char *text, size_t n, struct err *e);

uint32_t tok_n_vocab(const struct tok *t);
const char *tok_model_name(const struct tok *t); /* "llama", "gpt2" */
const char *tok_pre_name(const struct tok *t);   /* "" for SPM */
/* -1 if there is none. */
int32_t tok_bos(const struct tok *t);
int32_t tok_eos(const struct tok *t);
int32_t tok_eot(const struct tok *t);
bool tok_add_bos(const struct tok *t);
bool tok_add_eos(const struct tok *t);
/* End-of-generation set (TOKENIZER-FACTS section 2). */
bool tok_is_eog(const struct tok *t, int32_t token);
bool tok_is_control(const struct tok *t, int32_t token);
/* Control, unknown or user-defined: text that follows it starts anew (SPM's space). */
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
        bool refused;          /* by the charge: it was not the limit of tokens */
        const atomic_bool
                *stop; /* or NULL: set by any thread, it ends tok_encode(): -ERR_CANCELLED */
};
#define TOK_IDS_NULL ((struct tok_ids){0})
void tok_ids_deinit(struct tok_ids *ids);
int tok_ids_append(struct tok_ids *ids, const int32_t *src, size_t n, struct err *e);

/*
 * Append the tokens of the fragments, each tokenised on its own, to @out. @add_special: put bos in
 * front and eos behind where the model wants it. @at_start: the first fragment begins the text (SPM
 * puts its space there); otherwise it continues after ordinary text. A fragment that follows a
 * special token starts anew. Unchanged @out on failure. -ERR_LIMIT when more than @max tokens come
 * out (0: no limit).
 */
int tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e);

/* Where tokens go, one after the other, as they are found. */
struct tok_sink {
        int (*put)(void *userdata, int32_t token, struct err *e); /* a negative code ends it all */
        void *userdata;
        const atomic_bool *stop; /* or NULL: set by any thread, it ends the work: -ERR_CANCELLED */
};
/* As tok_encode(), with the tokens going to @sink: those of a text's beginning are there long
 * before its end was looked at. On failure some of them have come already. */
int tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e);
/* How many bytes of memory encoding these fragments takes at most while it lasts, without the
 * tokens themselves. That follows from the longest stretch without a place where no token can
 * reach across (a word, in most texts; in "aaaa..." all), 32 bytes for each of its bytes. One look
 * at each byte of the text. */
size_t tok_encode_memory(
        const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments);

/* Bytes of one token when printed; control and unknown tokens give nothing unless @special. Returns
 * the number of bytes; writes at most @size of them. */
size_t tok_piece(const struct tok *t, int32_t token, bool special, char *dst, size_t size);

/*
 * Streaming detokeniser: holds back incomplete UTF-8 characters (at most 3 bytes). What it emits is
 * always well-formed: ill-formed bytes become U+FFFD once they can't be completed any more.
 */
struct tok_stream {
        uint8_t held[4];
        uint8_t n_held;
        bool special;     /* print control tokens' text */
        bool strip_space; /* SPM: drop one leading space of the first piece */
};
void tok_stream_init(struct tok_stream *s, const struct tok *t, bool at_start, bool special);
struct buf;
/* Append what is complete after @token to @out (maybe nothing). 0, -ERR_NOMEM, -ERR_LIMIT. */
int tok_stream_push(struct tok_stream *s, const struct tok *t, int32_t token, struct buf *out);
/* The end: what is held back becomes U+FFFD. */
int tok_stream_finish(struct tok_stream *s, struct buf *out);
