/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to client/markdown: styled characters to lines of words, no wider than the terminal. Nothing that was written
 * is written again: a word is held back until it is known on which line it belongs. */
#include "base/buf.h"
#include <stdbool.h>

enum wrap_style {
        WRAP_BOLD = 1 << 0,
        WRAP_DIM = 1 << 1,
        WRAP_ITALIC = 1 << 2,
        WRAP_UNDERLINE = 1 << 3,
        WRAP_STRIKE = 1 << 4,
        WRAP_CODE = 1 << 5 /* a colour */
};

#define WRAP_WORD_MAX 512 /* characters; a longer word may be broken anywhere */

struct wrap_cell {
        uint32_t cp;
        unsigned style;
};
struct wrap {
        struct buf *out;  /* borrowed, during a call of the writer's */
        int error;        /* the first failure to append */
        unsigned columns; /* 0: lines are not wrapped */
        bool utf8;
        unsigned column;                /* where the cursor is */
        unsigned n_quotes, hang;        /* bars in front of each line; where wrapped lines begin */
        unsigned shown;                 /* the style that the terminal has */
        unsigned n_spaces, space_style; /* before the word */
        size_t n_word;
        unsigned word_width;
        struct wrap_cell word[WRAP_WORD_MAX];
};

/* A character of a word, or a space or tab between words. Control characters are shown and not obeyed. */
void wrap_put(struct wrap *w, uint32_t cp, unsigned style);
/* The same where it stands, without wrapping: of code, of tables, in front of a line. */
void wrap_put_raw(struct wrap *w, uint32_t cp, unsigned style);
void wrap_put_raw_text(struct wrap *w, const char *s, unsigned style);
/* Write the word that is held back. */
void wrap_flush(struct wrap *w);
/* End the line; the next one has no quotes and no hang. */
void wrap_newline(struct wrap *w);
/* The bar of one more quote, at the beginning of a line. */
void wrap_quote(struct wrap *w);
