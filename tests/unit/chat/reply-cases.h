/* SPDX-License-Identifier: MIT */
#pragma once
/* A reply in each format, with reasoning, text and two calls, and what it has. */
#include <stddef.h>

struct reply_case {
        const char *format; /* the row of reply_calls */
        const char *
                template_text; /* what chooses the rows: their literals, not a template that works */
        const char *header;    /* the invitation, or NULL */
        const char *text;
        const char *said; /* as reply_heard says it */
        /* The same reply may be given behind other headers, and formats have several forms. */
};
extern const struct reply_case reply_cases[];
extern const size_t reply_n_cases;
/* Definitions: f has n (a number), s (a string), x (without type), o (an object), b (a bool); g has
 * none. */
extern const char reply_case_tools[];
