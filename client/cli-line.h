/* SPDX-License-Identifier: MIT */
#pragma once
/* Lines of text edited on the terminal that is standard input and output. One thread. */

enum line_outcome {
        LINE_DONE,     /* Enter */
        LINE_END,      /* Ctrl-D on an empty line, or the terminal is gone */
        LINE_INTERRUPT /* Ctrl-C: the line was discarded */
};

struct line;

/* An editor that shows @prompt (borrowed until line_free()). NULL without memory, or if standard
 * input and output are no terminal. The locale must be set. */
struct line *line_new(const char *prompt);
/* Returns NULL; @l may be NULL. */
struct line *line_free(struct line *l);
/* Read a line, without the newline at its end. *ret belongs to the editor until the next call, and
 * is "" unless LINE_DONE. Lines with words can be recalled later. On return the terminal is as it
 * was before. */
enum line_outcome line_read(struct line *l, const char **ret);
