/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to lib/store: the search index. words.c begins with what is promised. */
#include "store/store-private.h"

#define WORDS_CREATE                                                                               \
        "CREATE VIRTUAL TABLE search USING fts5 (words, content = '', tokenize = 'confab');"
#define WORDS_DROP "DROP TABLE IF EXISTS search;"

/* A word, in its form for comparing, which is at text[from, to). 0, or a result to end with. */
typedef int words_fn(void *arg, const char *word, size_t n, size_t from, size_t to);
/* Call @fn for the words of a text. A word has 64 bytes at most. The result
 * is that of @fn, if it is not 0. -ERR_NOMEM. */
int words_split(
        struct store *s, const char *text, size_t n, words_fn *fn, void *arg, struct err *e);
/* Append a word with its owner before it, quoted as PostgreSQL's tsvector and tsquery have it. -ERR_NOMEM. */
struct buf;
int words_put(struct buf *out, uint64_t owner, const char *word, size_t n);
/* The number of a row: @n is 1 + the turn, or 0 for what the conversation is called. false: there is no
 * number for it, and it is not in the index. */
bool words_row(uint64_t id, uint64_t n, int64_t *ret);
void words_place(int64_t row, uint64_t *ret_id, uint32_t *ret_n);

/* In a transaction. What is taken out must be as it was put in: before the text changes. */
int words_add(struct store *s, uint64_t owner, uint64_t id, uint32_t turn, const char *text,
        size_t size, struct err *e);
/* Turns [from, past), with the texts of their rows. */
int words_add_turns(
        struct store *s, uint64_t owner, uint64_t id, uint32_t from, uint32_t past, struct err *e);
int words_take_out_turns(
        struct store *s, uint64_t owner, uint64_t id, uint32_t from, uint32_t past, struct err *e);
/* What the conversation is called: name, title, tags. */
int words_add_names(struct store *s, uint64_t owner, uint64_t id, struct err *e);
int words_take_out_names(struct store *s, uint64_t owner, uint64_t id, struct err *e);

/* In a transaction: write nothing more to the index, and have it made again at the next start. */
int words_give_up(struct store *s, struct err *e);

/* A connection is made, before anything of the index is used. -ERR_UNSUPPORTED: SQLite has no FTS5. */
int words_connect(struct store *s, struct err *e);
/* When the register is opened for writing: make the index, if it is not as this library makes it. */
int words_open(struct store *s, struct err *e);
/* 1: the index is made as this library makes it, and is not known to be damaged; 0: it is made again at the
 * next start. */
int words_current(struct store *s, struct err *e);
/* For the check: 1 if the turn's first word is found in the index, or there is nothing to find. */
int words_look(struct store *s, uint64_t owner, uint64_t id, uint32_t turn, struct err *e);
/* Some steps of merging what was removed away. Without the lock. 1: call again later. */
int words_merge(struct store *s, struct err *e);
struct words *words_free(struct words *w);
