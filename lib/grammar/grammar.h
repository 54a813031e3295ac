/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Grammars: a JSON schema or GBNF becomes an automaton over bytes that tells which tokens may come
 * next. docs/grammar.md is the reference of what both languages may contain.
 *
 * A grammar is compiled once. Its program never changes; its caches (states met so far, masks) are
 * bounded and change nothing but the time that a call takes. A state is a value: it is a function
 * of the grammar and of the bytes so far, and of nothing else. So a state can be made again at any
 * time from the text of a reply.
 *
 * Threads: a vocabulary is immutable and may be shared. A grammar and its states are used by one
 * thread at a time.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct grammar;
struct grammar_vocab;
struct ledger;

/* --- the vocabulary --- */

/* What a token is for a grammar. */
enum grammar_token {
        GRAMMAR_TOKEN_NONE, /* never allowed: prints nothing, or must not be chosen */
        GRAMMAR_TOKEN_TEXT, /* prints bytes */
        GRAMMAR_TOKEN_END   /* ends a reply: allowed where the text may end */
};
struct grammar_vocab_source {
        uint32_t n_tokens;
        /* Tells what @token is; TEXT: *ret_size is the number of its bytes, and up to @size of them
         * are written to @dst. Texts longer than 255 bytes are never allowed. */
        enum grammar_token (*token)(
                void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size);
        void *userdata;
};
/* A trie of all tokens' texts. @ledger (or NULL) is charged for its memory as long as it lives.
 * -ERR_NOMEM, -ERR_LIMIT, -ERR_TOO_LARGE. */
int grammar_vocab_new(struct grammar_vocab **ret, const struct grammar_vocab_source *source,
        struct ledger *ledger, struct err *e);
struct grammar_vocab *grammar_vocab_free(struct grammar_vocab *v);
DEFINE_CLEANUP(struct grammar_vocab *, grammar_vocab_free);
/* Bytes that the vocabulary holds. */
size_t grammar_vocab_size(const struct grammar_vocab *v);
/* 64-bit words of a mask: one bit for each token, bit (t % 64) of word t / 64. */
size_t grammar_mask_words(const struct grammar_vocab *v);

/* --- grammars --- */

/* PARTS: see parts.c; written by lib/chat for replies that must call a function. */
enum grammar_kind { GRAMMAR_JSON_SCHEMA = 1, GRAMMAR_GBNF = 2, GRAMMAR_PARTS = 3 };

/* Bytes that are in no UTF-8, and so in no text that a grammar allows. In PARTS the first one stands
 * in front of a control token's text: a vocabulary spells control tokens so, and no other token has
 * these bytes. The second one is fed before the reply where its reasoning is open already. */
#define GRAMMAR_CONTROL 0xFFu
#define GRAMMAR_OPEN 0xFEu

#define GRAMMAR_MAX_TEXT ((size_t)256 << 10) /* bytes of a schema or of GBNF */
#define GRAMMAR_MIN_CACHE ((size_t)256 << 10)

/* Compile. @vocab outlives the grammar. @cache_size: bytes for the caches, at least
 * GRAMMAR_MIN_CACHE. @ledger (or NULL) is charged for all memory: of compiling while it runs, of
 * the grammar and its caches as long as it lives. @stop (or NULL) may be set by any thread:
 * -ERR_CANCELLED. -ERR_INVALID: the text is wrong, or nothing can meet it; the message tells
 * where (line:column of GBNF and of broken JSON, a JSON pointer into a schema).
 * -ERR_UNSUPPORTED: a keyword or form that is not supported, by name. -ERR_TOO_LARGE: one of the
 * limits, by name, or the budget. -ERR_LIMIT: the budget is full now. -ERR_NOMEM. */
int grammar_new(struct grammar **ret, enum grammar_kind kind, const char *text, size_t size,
        const struct grammar_vocab *vocab, size_t cache_size, struct ledger *ledger,
        const atomic_bool *stop, struct err *e);
struct grammar *grammar_free(struct grammar *g);
DEFINE_CLEANUP(struct grammar *, grammar_free);
/* Bytes that the grammar and its caches may come to hold. */
size_t grammar_size(const struct grammar *g);

/* --- states --- */

#define GRAMMAR_STATE_SIZE ((size_t)48 << 10) /* bytes that a state takes at most */

struct grammar_state {
        uint32_t *words; /* owned: GRAMMAR_STATE_SIZE bytes */
        uint32_t n_words;
        uint32_t hint, epoch; /* where the grammar's cache has it, if it is still there */
};
#define GRAMMAR_STATE_NULL ((struct grammar_state){0})

/* The state before the first byte. -ERR_NOMEM. */
int grammar_start(struct grammar *g, struct grammar_state *ret, struct err *e);
void grammar_state_deinit(struct grammar_state *s);
/* @to becomes a copy of @from. -ERR_NOMEM. */
int grammar_state_copy(struct grammar_state *to, const struct grammar_state *from, struct err *e);
/* Take @n bytes. 0, or 1: the grammar does not allow them, and *ret_taken (may be NULL) tells how
 * many of them it does; the state is unchanged then. -ERR_NOMEM, -ERR_TOO_LARGE: too many parses at
 * once. */
int grammar_advance(struct grammar *g, struct grammar_state *s, const void *bytes, size_t n,
        size_t *ret_taken, struct err *e);
/* May the text end here? */
bool grammar_accepts(const struct grammar_state *s);
/* Which tokens may come next: sets @mask [grammar_mask_words()] and returns 0, or 1 if there is
 * none (the mask is empty then). @skip_space: one space at the beginning of the next token is
 * not printed, so it does not count. -ERR_NOMEM, -ERR_TOO_LARGE: too many parses at once. */
int grammar_mask(
        struct grammar *g, struct grammar_state *s, bool skip_space, uint64_t *mask, struct err *e);

struct grammar_figures {
        uint32_t n_nodes, n_states, n_masks; /* of the program; in the caches now */
        uint64_t masks_made, masks_found;    /* parts of masks that were computed, or were cached */
        uint64_t compactions;                /* how often the cache of states was full */
};
void grammar_figures(const struct grammar *g, struct grammar_figures *ret);
