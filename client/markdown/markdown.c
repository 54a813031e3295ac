/* SPDX-License-Identifier: MIT */
/*
 * Lines of Markdown, one after the other.
 *
 * A reply is read while it is written, so a line is shown as soon as its beginning tells what it is: a heading, an item,
 * a quote, a row of a table, code, or words. md4c and lowdown, which Debian has, read whole documents: a paragraph would
 * be seen when it has ended, and a list when all of it is there. What they know beyond the following is rare in
 * replies, and is shown as it came.
 *
 * 1. Nothing is drawn twice, and no line is joined to another: each line of the text begins a line on the terminal.
 * 2. Headings are bold (the first level underlined), items have bullets, quotes a bar, rules are lines. Code blocks
 *    stand between two dimmed lines, exactly as they came, so that they can be copied; so do rows of tables,
 *    and lines that are indented by four columns outside of lists.
 * 3. Within other lines inline.c shows emphasis, code and links, and wrap.c breaks them at words.
 * 4. The writer goes byte by byte, and holds back a bounded number of them. So what it appends is a function of the
 *    text, not of the pieces it comes in.
 * 5. Control characters are shown and never obeyed; what is not UTF-8 is U+FFFD.
 */
#include "client/markdown/markdown.h"
#include "base/utf8.h"
#include "base/util.h"
#include "client/markdown/inline.h"
#include <string.h>

#define RULE_WIDTH 24u /* columns */
#define CODE_INDENT 4

void markdown_init(struct markdown *m, const struct markdown_options *o) {
        *m = (struct markdown){.colours = o->colours};
        m->wrap.columns = o->columns;
        m->wrap.utf8 = o->utf8;
        markdown_begin(m, false, 0);
}

void markdown_begin(struct markdown *m, bool plain, unsigned style) {
        m->plain = plain;
        m->base = m->style = style;
}

void markdown_resize(struct markdown *m, unsigned columns) {
        m->wrap.columns = columns;
        if (columns > 0)
                m->wrap.column %= columns;
}

void markdown_moved(struct markdown *m) {
        m->wrap.column = 0;
}

/* ---- a line's beginning ---- */

static void put_character(struct markdown *m, const char *s, size_t n);

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

/* Columns that the blanks s[0..n) take. */
static unsigned blank_columns(const char *s, size_t n) {
        unsigned columns = 0;

        for (size_t i = 0; i < n; i++)
                columns += s[i] == '\t' ? CODE_INDENT - columns % CODE_INDENT : 1;
        return columns;
}

static void indent(struct markdown *m, unsigned columns) {
        for (; columns > 0; columns--)
                wrap_put_raw(&m->wrap, ' ', m->base);
}

static void end_line(struct markdown *m) {
        wrap_newline(&m->wrap);
        m->where = MARKDOWN_HEAD;
        m->open = m->in_item = false;
        m->style = m->base;
        m->before = ' ';
}

/* The first @n bytes of the head are dealt with; the others are read as what follows them. */
static void take_head(struct markdown *m, size_t n) {
        char rest[MARKDOWN_HEAD_MAX];
        size_t n_rest = m->n_head - n;

        memcpy(rest, m->head + n, n_rest);
        m->n_head = 0;
        for (size_t i = 0; i < n_rest;) {
                int k = utf8_decode((const uint8_t *)rest + i, n_rest - i, NULL);

                put_character(m, rest + i, (size_t)MAX(k, 1));
                i += (size_t)MAX(k, 1);
        }
}

static void begin_raw(struct markdown *m) {
        m->where = MARKDOWN_RAW;
        take_head(m, 0);
}

/* Words, behind @n_blanks blanks. */
static void begin_text(struct markdown *m, size_t n_blanks) {
        if (n_blanks == 0 && !m->in_item)
                m->in_list = false;
        indent(m, blank_columns(m->head, n_blanks));
        m->wrap.hang = m->wrap.column;
        m->where = MARKDOWN_TEXT;
        take_head(m, n_blanks);
}

/* What a line may be. Each look is given the head from its first byte that is no blank. */
enum verdict { NO, YES, MORE };
struct start {
        const char *s;
        size_t n;
        size_t n_blanks; /* in front of it */
        bool ended;      /* s[n - 1] is the newline */
};

static size_t count(const struct start *l, char c) {
        size_t n = 0;

        while (n < l->n && l->s[n] == c)
                n++;
        return n;
}

static enum verdict look_heading(struct markdown *m, const struct start *l) {
        size_t level = count(l, '#');

        if (level == 0 || level > 6)
                return NO;
        if (level == l->n)
                return MORE;
        if (!is_blank(l->s[level]))
                return NO;
        indent(m, blank_columns(m->head, l->n_blanks));
        m->style = m->base | WRAP_BOLD | (level == 1 ? WRAP_UNDERLINE : 0);
        m->wrap.hang = m->wrap.column;
        m->in_list = m->in_item;
        m->where = MARKDOWN_TEXT;
        take_head(m, l->n_blanks + level + 1);
        return YES;
}

static void draw_rule(struct markdown *m, const char *name) {
        unsigned n = m->wrap.columns > 0 ? MIN(m->wrap.columns, RULE_WIDTH) : RULE_WIDTH;

        for (unsigned i = 0; i < (*name ? 3 : n); i++)
                wrap_put_raw(&m->wrap, m->wrap.utf8 ? 0x2500 : '-', WRAP_DIM);
        if (*name)
                wrap_put_raw(&m->wrap, ' ', WRAP_DIM);
        wrap_put_raw_text(&m->wrap, name, WRAP_DIM);
}

/* ```name */
static enum verdict look_fence(struct markdown *m, const struct start *l) {
        char c = l->s[0], name[MARKDOWN_HEAD_MAX];
        size_t size = c == '`' || c == '~' ? count(l, c) : 0, from = size, to = l->n;

        if (size < 3)
                return size > 0 && size == l->n ? MORE : NO;
        if (c == '`' && memchr(l->s + size, c, l->n - size))
                return NO;
        if (!l->ended)
                return MORE;
        while (from < to && is_blank(l->s[from]))
                from++;
        while (to > from && (is_blank(l->s[to - 1]) || l->s[to - 1] == '\n'))
                to--;
        memcpy(name, l->s + from, to - from);
        name[to - from] = 0;
        m->fence = c;
        m->fence_size = (unsigned)size;
        m->fence_quotes = m->wrap.n_quotes;
        indent(m, blank_columns(m->head, l->n_blanks));
        draw_rule(m, name);
        m->n_head = 0;
        end_line(m);
        return YES;
}

static enum verdict look_rule(struct markdown *m, const struct start *l) {
        char c = l->s[0];
        size_t n = 0;

        if (c != '-' && c != '*' && c != '_')
                return NO;
        for (size_t i = 0; i < l->n - l->ended; i++) {
                if (l->s[i] != c && !is_blank(l->s[i]))
                        return NO;
                n += l->s[i] == c;
        }
        if (!l->ended)
                return MORE;
        if (n < 3)
                return NO;
        draw_rule(m, "");
        m->n_head = 0;
        m->in_list = false;
        end_line(m);
        return YES;
}

/* What follows is an item's. Its mark, the first @n bytes from where @l begins, was shown. */
static enum verdict begin_item(struct markdown *m, const struct start *l, size_t n) {
        wrap_put_raw(&m->wrap, ' ', m->base);
        m->wrap.hang = m->wrap.column;
        m->in_list = m->in_item = true;
        take_head(m, l->n_blanks + n + (l->s[n] != '\n'));
        return YES;
}

static enum verdict look_bullet(struct markdown *m, const struct start *l) {
        if (l->s[0] != '-' && l->s[0] != '*' && l->s[0] != '+')
                return NO;
        if (l->n < 2)
                return MORE;
        if (!is_blank(l->s[1]))
                return NO;
        indent(m, blank_columns(m->head, l->n_blanks));
        wrap_put_raw(&m->wrap, m->wrap.utf8 ? 0x2022 : (uint8_t)l->s[0], m->base);
        return begin_item(m, l, 1);
}

static enum verdict look_number(struct markdown *m, const struct start *l) {
        size_t n = 0;

        while (n < l->n && l->s[n] >= '0' && l->s[n] <= '9')
                n++;
        if (n == 0 || n > 9)
                return NO;
        if (n < l->n && l->s[n] != '.' && l->s[n] != ')')
                return NO;
        if (n == l->n || n + 1 == l->n)
                return MORE;
        if (!is_blank(l->s[n + 1]))
                return NO;
        indent(m, blank_columns(m->head, l->n_blanks));
        for (size_t i = 0; i <= n; i++)
                wrap_put_raw(&m->wrap, (uint8_t)l->s[i], m->base);
        return begin_item(m, l, n + 1);
}

/* "> " in front of anything but an item. */
static enum verdict look_quote(struct markdown *m, const struct start *l) {
        if (l->s[0] != '>' || m->in_item)
                return NO;
        if (l->n < 2)
                return MORE;
        wrap_quote(&m->wrap);
        take_head(m, l->n_blanks + 1 + is_blank(l->s[1]));
        return YES;
}

static enum verdict look_raw(struct markdown *m, const struct start *l) {
        bool code = blank_columns(m->head, l->n_blanks) >= CODE_INDENT && !m->in_list;

        if (l->s[0] != '|' && !code)
                return NO;
        begin_raw(m);
        return YES;
}

/* ---- code ---- */

static enum verdict look_closing_fence(struct markdown *m, const struct start *l) {
        size_t size = count(l, m->fence), i = size;

        if (size == l->n)
                return MORE;
        if (size < m->fence_size)
                return NO;
        while (i < l->n && is_blank(l->s[i]))
                i++;
        if (i == l->n)
                return MORE;
        if (l->s[i] != '\n')
                return NO;
        m->fence = 0;
        indent(m, blank_columns(m->head, l->n_blanks));
        draw_rule(m, "");
        m->n_head = 0;
        end_line(m);
        return YES;
}

static enum verdict look_in_code(struct markdown *m, const struct start *l) {
        enum verdict verdict;

        if (m->wrap.n_quotes < m->fence_quotes) {
                verdict = look_quote(m, l);
                if (verdict != NO)
                        return verdict;
                m->fence = 0; /* the quote is over, and its code with it */
                return NO;
        }
        verdict = look_closing_fence(m, l);
        if (verdict == NO)
                begin_raw(m);
        return verdict == NO ? YES : verdict;
}

/* ---- characters ---- */

static enum verdict look_at(struct markdown *m, const struct start *l) {
        static enum verdict (*const looks[])(struct markdown * m, const struct start *l) = {
                look_raw, look_quote, look_heading, look_fence, look_rule, look_bullet,
                look_number};
        enum verdict verdict = m->fence ? look_in_code(m, l) : NO;

        for (size_t i = 0; verdict == NO && !m->plain && i < ARRAY_SIZE(looks); i++)
                verdict = looks[i](m, l);
        return verdict;
}

/* Deal with the head, if it tells enough. */
static void decide(struct markdown *m) {
        struct start l = {.ended = m->head[m->n_head - 1] == '\n'};
        bool no_more = l.ended || m->n_head + 4 > sizeof(m->head);
        enum verdict verdict;

        while (l.n_blanks < m->n_head && is_blank(m->head[l.n_blanks]))
                l.n_blanks++;
        l.s = m->head + l.n_blanks;
        l.n = m->n_head - l.n_blanks;
        if (l.n == 0 && !no_more)
                return;
        if (l.n > 0 && *l.s == '\n' && (!m->fence || m->wrap.n_quotes < m->fence_quotes)) {
                m->n_head = 0;
                end_line(m);
                return;
        }
        verdict = l.n == 0 ? NO : look_at(m, &l);
        if (verdict == YES || (verdict == MORE && !no_more))
                return;
        if (m->fence)
                begin_raw(m);
        else
                begin_text(m, l.n_blanks);
}

/* One character of UTF-8. */
static void put_character(struct markdown *m, const char *s, size_t n) {
        uint32_t cp = 0xfffd;

        m->open = true;
        if (m->where == MARKDOWN_HEAD) {
                memcpy(m->head + m->n_head, s, n);
                m->n_head += n;
                decide(m);
        } else if (*s == '\n') {
                inline_end(m);
                end_line(m);
        } else if (m->where == MARKDOWN_TEXT) {
                inline_put(m, s, n);
        } else {
                utf8_decode((const uint8_t *)s, n, &cp);
                wrap_put_raw(&m->wrap, cp, m->base);
        }
}

static void put_byte(struct markdown *m, uint8_t byte) {
        m->partial[m->n_partial++] = byte;
        while (m->n_partial > 0) {
                int k = utf8_decode(m->partial, m->n_partial, NULL);

                if (k < 0)
                        return;
                if (k == 0)
                        put_character(m, "\xef\xbf\xbd", 3);
                else
                        put_character(m, (const char *)m->partial, (size_t)k);
                k = MAX(k, 1);
                m->n_partial -= (size_t)k;
                memmove(m->partial, m->partial + k, m->n_partial);
        }
}

static int finish(struct markdown *m) {
        int r = m->wrap.error;

        m->wrap.out = NULL;
        m->wrap.error = 0;
        return r;
}

int markdown_write(struct markdown *m, struct buf *out, const void *s, size_t n) {
        m->wrap.out = out;
        for (size_t i = 0; i < n; i++)
                put_byte(m, ((const uint8_t *)s)[i]);
        return finish(m);
}

int markdown_end(struct markdown *m, struct buf *out) {
        m->wrap.out = out;
        for (; m->n_partial > 0; m->n_partial--)
                put_character(m, "\xef\xbf\xbd", 3);
        if (m->open)
                put_character(m, "\n", 1);
        m->fence = 0;
        m->in_list = false;
        return finish(m);
}
