/* SPDX-License-Identifier: MIT */
/*
 * Words on lines.
 *
 * 1. A line has at most `columns` columns. A word that does not fit goes to the next line, below the text of its item
 *    or quote; the spaces before it are dropped. A word wider than a line is broken where the line ends.
 * 2. Widths are wcwidth()'s. Wide characters may stand on lines of their own, as scripts without spaces want it, but
 *    closing punctuation stays with what it closes, and nothing is broken before a character without width or behind
 *    a joiner.
 * 3. Of the terminal only SGR sequences are used. The style is none at the end of each line, so nothing that comes
 *    between (a message, a stop) is written in ours.
 */
#include "client/markdown/wrap.h"
#include "base/utf8.h"
#include "base/util.h"
#include "client/cli.h"
#include <string.h>
#include <wchar.h>

#define NARROWEST 8 /* columns; on a narrower terminal nothing is gained by words */
#define TAB 8
#define ZERO_WIDTH_JOINER 0x200d

static void append(struct wrap *w, const void *s, size_t n) {
        int r = buf_append(w->out, s, n);

        if (r < 0 && w->error == 0)
                w->error = r;
}

static void set_style(struct wrap *w, unsigned style) {
        static const char *const codes[] = {";1", ";2", ";3", ";4", ";9", ";36"};

        if (style == w->shown)
                return;
        append(w, "\033[0", 3);
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (style & (1u << i))
                        append(w, codes[i], strlen(codes[i]));
        append(w, "m", 1);
        w->shown = style;
}

/* A control character as it is shown: how many columns, or 0 if @cp is none. */
static unsigned shown_as(uint32_t cp, char text[16]) {
        return (unsigned)safe_char(cp, false, text);
}

static unsigned width_of(uint32_t cp) {
        char text[16];
        unsigned n = shown_as(cp, text);
        int width = n ? (int)n : wcwidth((wchar_t)cp);

        return width < 0 ? 1 : (unsigned)width;
}

static void emit(struct wrap *w, uint32_t cp, unsigned style) {
        char text[16];
        unsigned n = shown_as(cp, text);

        set_style(w, style);
        if (n == 0)
                n = (unsigned)utf8_encode(cp, (uint8_t *)text);
        append(w, text, n);
        w->column += width_of(cp);
}

static void emit_spaces(struct wrap *w, unsigned n, unsigned style) {
        for (; n > 0; n--)
                emit(w, ' ', style);
}

/* ---- lines ---- */

static void bar(struct wrap *w) {
        emit(w, w->utf8 ? 0x2502 : '|', WRAP_DIM);
        emit(w, ' ', 0);
}

static void break_line(struct wrap *w) {
        set_style(w, 0);
        append(w, "\n", 1);
        w->column = 0;
        w->n_spaces = 0;
}

/* Where wrapped lines begin: in the left half, however deep the item is. */
static unsigned hang_of(const struct wrap *w) {
        return MIN(w->hang, w->columns / 2);
}

static void next_line(struct wrap *w) {
        break_line(w);
        for (unsigned i = 0; i < w->n_quotes && w->column + 2 <= hang_of(w); i++)
                bar(w);
        if (w->column < hang_of(w))
                emit_spaces(w, hang_of(w) - w->column, 0);
}

void wrap_newline(struct wrap *w) {
        wrap_flush(w);
        break_line(w);
        w->n_quotes = w->hang = 0;
}

void wrap_quote(struct wrap *w) {
        bar(w);
        w->n_quotes++;
        w->hang = w->column;
}

/* ---- words ---- */

static bool wraps(const struct wrap *w) {
        return w->columns >= NARROWEST;
}

void wrap_flush(struct wrap *w) {
        if (w->n_word == 0)
                return;
        if (wraps(w) && w->column + w->n_spaces + w->word_width > w->columns &&
                w->column > hang_of(w))
                next_line(w);
        emit_spaces(w, w->n_spaces, w->space_style);
        for (size_t i = 0; i < w->n_word; i++)
                emit(w, w->word[i].cp, w->word[i].style);
        w->n_spaces = w->word_width = 0;
        w->n_word = 0;
}

static bool closes(uint32_t cp) {
        static const uint16_t marks[] = {0x3001, 0x3002, 0x3009, 0x300b, 0x300d, 0x300f, 0x3011,
                0xff01, 0xff09, 0xff0c, 0xff0e, 0xff1a, 0xff1b, 0xff1f};

        for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
                if (cp == marks[i])
                        return true;
        return cp < 0x80 && strchr(",.;:!?)]}", (int)cp);
}

/* May a line end between the last character of the word and @cp? */
static bool may_part(const struct wrap *w, uint32_t cp, unsigned width) {
        uint32_t last;

        if (w->n_word == 0 || width == 0 || closes(cp))
                return false;
        last = w->word[w->n_word - 1].cp;
        if (last == ZERO_WIDTH_JOINER)
                return false;
        for (size_t i = w->n_word; i-- > 0 && width_of(last) == 0;)
                last = w->word[i].cp;
        return width == 2 || width_of(last) == 2;
}

static void put_space(struct wrap *w, uint32_t cp, unsigned style) {
        unsigned at;

        wrap_flush(w);
        at = w->column + w->n_spaces;
        w->n_spaces += cp == '\t' ? TAB - at % TAB : 1;
        w->space_style = style;
        if (wraps(w) && w->n_spaces > w->columns) /* as far as they can matter */
                w->n_spaces = w->columns;
}

void wrap_put(struct wrap *w, uint32_t cp, unsigned style) {
        unsigned width;

        if (cp == ' ' || cp == '\t') {
                put_space(w, cp, style);
                return;
        }
        width = width_of(cp);
        if (w->n_word == WRAP_WORD_MAX || may_part(w, cp, width) ||
                (wraps(w) && hang_of(w) + w->word_width + width > w->columns))
                wrap_flush(w);
        w->word[w->n_word++] = (struct wrap_cell){cp, style};
        w->word_width += width;
}

void wrap_put_raw(struct wrap *w, uint32_t cp, unsigned style) {
        wrap_flush(w);
        if (cp != '\t') {
                emit(w, cp, style);
                return;
        }
        set_style(w, style);
        append(w, "\t", 1);
        w->column += TAB - w->column % TAB;
}

void wrap_put_raw_text(struct wrap *w, const char *s, unsigned style) {
        size_t n = strlen(s);
        uint32_t cp;

        while (n > 0) {
                int k = utf8_decode((const uint8_t *)s, n, &cp);

                if (k <= 0) {
                        k = 1;
                        cp = 0xfffd;
                }
                wrap_put_raw(w, cp, style);
                s += k;
                n -= (size_t)k;
        }
}
