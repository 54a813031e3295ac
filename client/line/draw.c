/* SPDX-License-Identifier: MIT */
/*
 * A line drawn as a whole.
 *
 * libedit draws what a key has changed, and moves to the right by writing what stands there. Both go wrong where a
 * character does not have one column: half of a wide one is written over, and a combining one is not shown. And what it
 * puts into a row that is full may clear the next one. So where a line has such characters or several rows, it is drawn anew
 * behind what libedit has drawn:
 *
 * 1. libedit knows nothing of it. So each character stands, and the cursor ends, where libedit has them: a wide
 *    character that does not fit goes to the next row, and behind a full row the cursor is on the next one, at once.
 * 2. What libedit shows otherwise than as itself (control characters) is left to libedit, and so is a line that has
 *    more rows than the terminal.
 * 3. Rows are wrapped by the terminal, not by a newline, so that what is copied from it has none. A row without room for
 *    a wide character is filled with a blank before, since not all terminals wrap there.
 */
#include "base/util.h"
#include "client/line/editor.h"
#include "client/line/terminal.h"
#include <wchar.h>

struct place {
        unsigned row, column;
};

/* The column that @c takes from: that of @p, or the first one of the next row, where @c does not fit. */
static struct place fit(struct place p, wchar_t c, unsigned columns) {
        return p.column + (unsigned)MAX(wcwidth(c), 0) > columns ? (struct place){p.row + 1, 0} : p;
}

/* Behind @n columns from @p. */
static struct place behind(struct place p, unsigned n, unsigned columns) {
        p.column += n;
        return p.column >= columns ? (struct place){p.row + 1, 0} : p;
}

/* Behind @c, which stands at @p. */
static struct place pass(struct place p, wchar_t c, unsigned columns) {
        if (c == L'\n')
                return (struct place){p.row + 1, 0};
        if (c != L'\t')
                return behind(fit(p, c, columns), (unsigned)MAX(wcwidth(c), 0), columns);
        do
                p = behind(p, 1, columns);
        while (p.column % 8 != 0);
        return p;
}

static struct place place_of(const struct line *l, const wchar_t *at, unsigned columns) {
        const LineInfoW *info = el_wline(l->el);
        struct place p = {0, (unsigned)strlen(l->prompt)};

        for (const wchar_t *s = info->buffer; s < at; s++)
                p = pass(p, *s, columns);
        return at < info->lastchar && *at != L'\n' && *at != L'\t' ? fit(p, *at, columns) : p;
}

static void up(unsigned rows) {
        if (rows > 0)
                printf("\x1b[%uA", rows);
}

void line_clear(const struct line *l) {
        unsigned columns = terminal_columns();

        if (columns > 0)
                up(place_of(l, el_wline(l->el)->cursor, columns).row);
        fputs("\r\x1b[J", stdout);
}

/* Is it one that libedit may draw wrongly, and has it nothing that is drawn here as libedit would not? */
static bool concerns_us(const struct line *l, bool several_rows) {
        const LineInfoW *info = el_wline(l->el);
        bool found = several_rows;

        for (const wchar_t *s = info->buffer; s < info->lastchar; s++) {
                int width = *s == L'\n' || *s == L'\t' ? 1 : wcwidth(*s);

                if (width < 0)
                        return false;
                found = found || width != 1;
        }
        return found;
}

/* @full: the character before filled its row, and the terminal's cursor waits there until it is known what follows. */
static struct place draw(struct place p, wchar_t c, bool full, unsigned columns) {
        struct place next = pass(p, c, columns);

        if (full && c == L'\n')
                fputs(" \r", stdout);
        if (c == L'\n')
                fputs("\r\n", stdout);
        else if (c == L'\t')
                printf("%*s", (int)(next.row > p.row ? columns - p.column : next.column - p.column),
                        "");
        else
                printf("%s%lc", fit(p, c, columns).row > p.row ? " " : "", (wint_t)c);
        return next;
}

void line_draw(const struct line *l) {
        const LineInfoW *info = el_wline(l->el);
        unsigned columns = terminal_columns(), rows = terminal_rows();
        struct place p = {0, (unsigned)strlen(l->prompt)}, end, cursor;
        bool full = false;

        if (columns < 2)
                return;
        end = place_of(l, info->lastchar, columns);
        cursor = place_of(l, info->cursor, columns);
        if (end.row >= rows || !concerns_us(l, end.row > 0))
                return;
        line_clear(l);
        fputs(l->prompt, stdout);
        for (const wchar_t *s = info->buffer; s < info->lastchar; s++) {
                p = draw(p, *s, full, columns);
                if (wcwidth(*s) != 0) /* else it belongs to the one before */
                        full = *s != L'\n' && p.column == 0 && p.row > 0;
        }
        if (full)
                fputs(" \r", stdout);
        up(end.row - cursor.row);
        printf("\x1b[%uG", cursor.column + 1);
        fflush(stdout);
}
