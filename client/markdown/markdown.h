/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Markdown made readable on a terminal, while it comes.
 *
 * A writer takes a reply in pieces and appends to a buffer what the terminal is to get. It allocates nothing else, and
 * what it appends for a text does not depend on the pieces. One thread; no errors but that the buffer cannot grow.
 */
#include "base/buf.h"
#include "client/markdown/wrap.h"

struct markdown_options {
        unsigned columns; /* of the terminal; 0: not known, lines are not wrapped */
        bool colours;     /* else structure is told by weight, lines and marks alone */
        bool utf8;        /* bullets, bars and rules may be drawn with characters beyond ASCII */
};

/* Longest construct that is held back until its end is there, in bytes. A longer one is shown as it came. */
#define MARKDOWN_HOLD_MAX 320  /* emphasis, code */
#define MARKDOWN_LINK_MAX 1000 /* a link with its address */
#define MARKDOWN_HEAD_MAX 128  /* what a line begins with */

struct markdown {
        struct wrap wrap;
        bool colours;
        bool plain;           /* words are wrapped, and nothing else is done to them */
        unsigned base, style; /* enum wrap_style: of all text; of the line that is read */
        enum { MARKDOWN_HEAD, MARKDOWN_TEXT, MARKDOWN_RAW } where; /* in the line */
        bool open;                                                 /* the line has begun */
        bool in_list, in_item;
        char fence; /* of the code block that is open, or 0 */
        unsigned fence_size, fence_quotes;
        char before;        /* the last byte that was shown of the line's text */
        uint8_t partial[4]; /* of a character */
        size_t n_partial, n_head, n_held;
        char head[MARKDOWN_HEAD_MAX];
        char held[MARKDOWN_LINK_MAX + 8];
};

void markdown_init(struct markdown *m, const struct markdown_options *o);
/* What comes next is not Markdown but @plain text, or it is again; all of it has @style (enum wrap_style). At the
 * beginning of a line only, as markdown_end() leaves it. */
void markdown_begin(struct markdown *m, bool plain, unsigned style);
/* Append to @out what the next @n bytes lead to. -ERR_NOMEM: something is missing in @out. */
int markdown_write(struct markdown *m, struct buf *out, const void *s, size_t n);
/* The text ends here: what was held back is appended, and a newline unless the text ended with one. The writer is
 * ready for another text. -ERR_NOMEM as above. */
int markdown_end(struct markdown *m, struct buf *out);
/* The terminal has this many columns now; what was written stays as it is. */
void markdown_resize(struct markdown *m, unsigned columns);
/* Others wrote to the terminal: the cursor is at the beginning of a line. */
void markdown_moved(struct markdown *m);
