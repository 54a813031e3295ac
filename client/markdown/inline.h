/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to client/markdown: what stands within a line. */
#include "client/markdown/markdown.h"

/* The next character of the line's text, @n bytes of UTF-8; no newline. */
void inline_put(struct markdown *m, const char *s, size_t n);
/* The line's text ends here: show what was held back. */
void inline_end(struct markdown *m);
