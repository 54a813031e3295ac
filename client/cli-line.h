/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A line of text being edited on a terminal: bytes of the keyboard in, bytes for the screen out.
 * Knows no file descriptors, except for line_read(). UTF-8; keys as in Emacs and readline.
 */
#include "base/buf.h"
#include <stdbool.h>

enum line_outcome {
        LINE_MORE,      /* keep feeding */
        LINE_DONE,      /* Enter: the line is in `text` */
        LINE_END,       /* Ctrl-D on an empty line */
        LINE_INTERRUPT, /* Ctrl-C */
        LINE_CLEAR      /* Ctrl-L: clear the screen, then draw */
};

#define LINE_HISTORY 100

struct line {
        struct buf text; /* pasted newlines are in it as they are */
        size_t cursor;   /* bytes before it */
        size_t first;    /* bytes scrolled away at the left */
        uint8_t key[32]; /* of an unfinished key or character */
        size_t n_key;
        bool pasting;
        char *history[LINE_HISTORY]; /* owned, oldest first */
        size_t n_history;
        size_t browsing; /* n_history: the new line itself */
        char *draft;     /* owned: the new line while older ones are shown */
};
#define LINE_NULL ((struct line){0})

/* One byte of input. Running out of memory loses that key, nothing else. */
enum line_outcome line_feed(struct line *l, uint8_t byte);
/* Bytes that draw prompt and line within @columns of the current row. -ERR_NOMEM. */
int line_draw(struct line *l, const char *prompt, unsigned columns, struct buf *out);
/* Put the line into the history and begin a new one. */
void line_reset(struct line *l);
void line_deinit(struct line *l);
/* Edit a line on the terminal (standard input and output): LINE_DONE, LINE_END (also when the
 * terminal is gone) or LINE_INTERRUPT. */
enum line_outcome line_read(struct line *l, const char *prompt);
