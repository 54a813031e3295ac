/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to client/line: lines that were said before, also by earlier programs and by others at the same time. One
 * thread. */
#include <histedit.h>

#define HISTORY_ENTRIES 1000

struct line_history;

/* With the lines of the file @path, or NULL for none; copied. NULL without memory. */
struct line_history *line_history_new(const char *path);
/* Returns NULL; @h may be NULL. */
struct line_history *line_history_free(struct line_history *h);
/* Borrowed, for EL_HIST. */
History *line_history_entries(struct line_history *h);
/* Add a line, to the file too. */
void line_history_add(struct line_history *h, const char *text);
