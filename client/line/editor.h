/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to client/line. */
#include "base/buf.h"
#include "client/line/history.h"
#include "client/line/line.h"
#include <histedit.h>
#include <stdio.h>

#define TYPED_MAX ((size_t)64 << 10) /* bytes typed ahead; more wait in the terminal */

/* Keys that typed.c makes of sequences: characters that nobody types, since terminals have other uses for them. */
#define KEY_PASTE 0x80   /* what follows, up to the end mark, is pasted */
#define KEY_NEWLINE 0x81 /* Alt-Enter; with vi's keys these are Escape and Enter */

struct line {
        EditLine *el;
        struct line_history *history;
        const char *prompt;
        line_complete_fn complete;
        void *userdata;
        char *text;       /* owned: the last line */
        struct buf typed; /* bytes of keys that were not looked at yet */
        bool gone;        /* the terminal has no more */
        bool vi;          /* has vi's keys */
        bool edits;       /* else the terminal is read as it is */
        bool noted;       /* terminal_note() was called in this line */
        bool interrupted;
};

void line_put(const char *s);
struct line *line_of(EditLine *el);
/* Give up the line: it ends now. */
void line_interrupt(struct line *l);

/* Bind what libedit lacks to keys (keys.c), and Tab (complete.c). */
void line_bind_keys(struct line *l);
unsigned char line_complete_key(EditLine *el, int key);
/* Draw the line where libedit has not drawn it right; clear what is shown of it, with the cursor at its beginning (draw.c). */
void line_draw(const struct line *l);
void line_clear(const struct line *l);
/* What libedit reads keys by (typed.c): 1, 0 at the end of the terminal. */
int line_next_key(EditLine *el, wchar_t *ret);
/* What stands in the line, up to the cursor or all of it: to be freed, or NULL. */
char *line_text_of(EditLine *el, bool all);
/* Make it another text. */
void line_replace(EditLine *el, const char *text);
