/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Lines of text edited on the terminal that is standard input and output. One thread, and one editor in a process,
 * since it cares for the terminal's signals (client/line/terminal.h).
 *
 * From line_new() to line_free() the terminal is the editor's: between lines nothing is echoed, and what is typed is
 * kept for the next line. On a terminal that cannot move its cursor (TERM=dumb) lines are read as the terminal
 * gives them, and nothing of it is changed.
 */
#include "base/buf.h"
#include <stdbool.h>

enum line_outcome {
        LINE_DONE,     /* Enter */
        LINE_END,      /* Ctrl-D on an empty line, or the terminal is gone */
        LINE_INTERRUPT /* Ctrl-C: the line was discarded, and what was typed behind it */
};

struct line;

/* What may stand in place of the text before the cursor from byte @from on. */
struct line_words {
        size_t from;
        char **words; /* [n], owned, each to be freed; line_words_add() */
        size_t n;
};
#define LINE_WORDS_MAX 1000
/* Add a copy of @word. At most LINE_WORDS_MAX are kept; what there is no memory for is left out. */
void line_words_add(struct line_words *w, const char *word);
/* Tab: find what may stand in place of the end of @text, which is what stands before the cursor. The words are sorted by
 * the editor. Must not read the terminal, nor write to it. */
typedef void (*line_complete_fn)(void *userdata, const char *text, struct line_words *ret);

struct line_options {
        const char *prompt; /* borrowed until line_free() */
        const char
                *history; /* a file of lines that is read, and gets each new one; or NULL. Copied */
        line_complete_fn complete; /* or NULL */
        void *userdata;
};

/* NULL without memory, or if standard input is no terminal. The locale must be set. A history that cannot be
 * read or written is as if there was none. */
struct line *line_new(const struct line_options *o);
/* The terminal is as it was. Returns NULL; @l may be NULL. */
struct line *line_free(struct line *l);
/* False on a terminal that cannot move its cursor: no control sequence should go there. */
bool line_edits(const struct line *l);

/* Read a line, without the newline at its end. *ret belongs to the editor until the next call, and
 * is "" unless LINE_DONE. Lines can be recalled later, unless they are empty or begin with a space. */
enum line_outcome line_read(struct line *l, const char **ret);
/* The next line begins with @text, to be edited. Nothing happens on a terminal that cannot move its cursor, or
 * without memory. */
void line_begin_with(struct line *l, const char *text);

/* While something else is done: poll this descriptor for reading (-1: not now), and take what was typed. */
int line_typed_fd(const struct line *l);
void line_take_typed(struct line *l);
/* Forget what was typed ahead. */
void line_drop_typed(struct line *l);
