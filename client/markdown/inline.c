/* SPDX-License-Identifier: MIT */
/*
 * Emphasis, code and links.
 *
 * A mark that may begin something is held back, with what follows it, until its end is there; then it is shown
 * without its marks. If the line ends before, or more than MARKDOWN_HOLD_MAX bytes would have to be held, the mark is
 * shown as it came and what follows is looked at anew. So nothing that is not understood is lost, and each
 * byte is looked at a bounded number of times.
 *
 * The rules are CommonMark's with three exceptions: what begins in a line ends in it; an emphasis ends at a mark of
 * the length it began with; and stars between letters or digits multiply. Backslashes escape marks that are known
 * here, and nothing else, so formulas keep theirs.
 */
#include "client/markdown/inline.h"
#include "base/utf8.h"
#include <string.h>
#include <sys/types.h>

#define MORE (-1)
#define DEEPEST 8 /* emphasis in emphasis */

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static bool is_word(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (unsigned char)c >= 0x80;
}

/* In "2*3*4" and "a**b**c" nothing is emphasised; scripts without spaces emphasise within what looks like a word. */
static bool is_product(char before, char behind) {
        return (before & 0x80) == 0 && (behind & 0x80) == 0 && is_word(before) && is_word(behind);
}

static bool is_mark(char c) {
        return c && strchr("*_`~[!\\", c);
}

static bool is_escape(const char *s, size_t n) {
        return n >= 2 && s[0] == '\\' && s[1] && strchr("*_`~#|", s[1]);
}

/* How many times s[at] stands there. */
static size_t run_at(const char *s, size_t n, size_t at) {
        size_t i = at;

        while (i < n && s[i] == s[at])
                i++;
        return i - at;
}

static size_t decode(const char *s, size_t n, uint32_t *ret) {
        int k = utf8_decode((const uint8_t *)s, n, ret);

        if (k > 0)
                return (size_t)k;
        *ret = 0xfffd;
        return 1;
}

/* ---- where something ends ---- */

/* What is asked of a text that begins with a mark. */
struct look {
        const char *s;
        size_t n;
        char before; /* the byte in front of it */
        bool ended;  /* nothing more comes in this line */
};

/* Each find_...() gives the length of what stands at the beginning; 0: the mark is no more than itself; MORE: it is
 * not known yet. */
static ssize_t undecided(const struct look *l, size_t max) {
        return l->ended || l->n >= max ? 0 : MORE;
}

static ssize_t find_code(const struct look *l) {
        size_t size = run_at(l->s, l->n, 0);

        for (size_t i = size; i < l->n;) {
                size_t k = l->s[i] == '`' ? run_at(l->s, l->n, i) : 0;

                if (k == size && (i + k < l->n || l->ended))
                        return (ssize_t)(i + k);
                i += k ? k : 1;
        }
        return undecided(l, MARKDOWN_HOLD_MAX);
}

/* Past what hides marks at @i: an escape or code. 0: nothing does. */
static ssize_t skip_hidden(const struct look *l, size_t i) {
        struct look rest = {l->s + i, l->n - i, 0, l->ended};

        if (l->s[i] == '\\')
                return is_escape(rest.s, rest.n) ? 2 : rest.n < 2 && !l->ended ? MORE : 0;
        return l->s[i] == '`' ? find_code(&rest) : 0;
}

/* Whether the run of @k marks at @i ends an emphasis; MORE: what follows it has to be known. */
static ssize_t ends_emphasis(const struct look *l, size_t i, size_t k) {
        if (is_blank(l->s[i - 1]))
                return 0;
        if (i + k == l->n)
                return l->ended ? 1 : MORE;
        return l->s[0] != '_' || !is_word(l->s[i + k]);
}

static ssize_t find_emphasis(const struct look *l) {
        char mark = l->s[0];
        size_t size = run_at(l->s, l->n, 0);

        if (size == l->n)
                return size > 3 ? 0 : undecided(l, MARKDOWN_HOLD_MAX);
        if (size > 3 || (mark == '~' && size != 2) || is_blank(l->s[size]) ||
                (mark == '_' && is_word(l->before)) ||
                (mark == '*' && is_product(l->before, l->s[size])))
                return 0;
        for (size_t i = size; i < l->n;) {
                ssize_t hidden = skip_hidden(l, i), ends;
                size_t k = l->s[i] == mark ? run_at(l->s, l->n, i) : 0;

                if (hidden < 0)
                        return undecided(l, MARKDOWN_HOLD_MAX);
                if (hidden > 0) {
                        i += (size_t)hidden;
                        continue;
                }
                ends = k == size ? ends_emphasis(l, i, k) : 0;
                if (ends < 0)
                        return undecided(l, MARKDOWN_HOLD_MAX);
                if (ends > 0)
                        return (ssize_t)(i + k);
                i += k ? k : l->s[i] == '`' ? run_at(l->s, l->n, i) : 1;
        }
        return undecided(l, MARKDOWN_HOLD_MAX);
}

/* The bracket that closes the one at @from; SIZE_MAX: it is not there. */
static size_t closing(const char *s, size_t n, size_t from, char open, char close) {
        size_t depth = 0;

        for (size_t i = from; i < n; i++) {
                if (s[i] == '\\')
                        i++;
                else if (s[i] == open)
                        depth++;
                else if (s[i] == close && --depth == 0)
                        return i;
        }
        return SIZE_MAX;
}

static ssize_t find_link(const struct look *l) {
        size_t open = l->s[0] == '!', text_end, end;

        if (open && l->n > 1 && l->s[1] != '[')
                return 0;
        if (open == l->n)
                return undecided(l, MARKDOWN_HOLD_MAX);
        text_end = closing(l->s, l->n, open, '[', ']');
        if (text_end == SIZE_MAX)
                return undecided(l, MARKDOWN_HOLD_MAX);
        if (text_end + 1 < l->n && l->s[text_end + 1] != '(')
                return 0;
        if (text_end + 1 == l->n)
                return undecided(l, MARKDOWN_LINK_MAX);
        end = closing(l->s, l->n, text_end + 1, '(', ')');
        return end == SIZE_MAX ? undecided(l, MARKDOWN_LINK_MAX) : (ssize_t)end + 1;
}

static ssize_t find(const struct look *l) {
        switch (l->s[0]) {
        case '`':
                return find_code(l);
        case '[':
        case '!':
                return find_link(l);
        case '\\':
                return is_escape(l->s, l->n) ? 2 : l->n < 2 && !l->ended ? MORE : 0;
        default:
                return find_emphasis(l);
        }
}

/* ---- showing it ---- */

static void show(struct markdown *m, const char *s, size_t n, unsigned style, unsigned depth);

static void show_literally(struct markdown *m, const char *s, size_t n, unsigned style) {
        for (size_t i = 0; i < n;) {
                uint32_t cp;

                i += decode(s + i, n - i, &cp);
                wrap_put(&m->wrap, cp, style);
        }
        if (n > 0)
                m->before = s[n - 1];
}

/* Without colours the marks stay: nothing else would tell code from words. */
static void show_code(struct markdown *m, const char *s, size_t n, unsigned style) {
        size_t k = run_at(s, n, 0);

        if (!m->colours) {
                show_literally(m, s, n, style);
                return;
        }
        s += k;
        n -= 2 * k;
        if (n > 2 && s[0] == ' ' && s[n - 1] == ' ') {
                s++;
                n -= 2;
        }
        show_literally(m, s, n, style | WRAP_CODE);
}

/* The text, and where it leads unless the text says it. */
static void show_link(struct markdown *m, const char *s, size_t n, unsigned style, unsigned depth) {
        size_t open = s[0] == '!', end = closing(s, n, open, '[', ']');
        const char *text = s + open + 1, *address = s + end + 2;
        size_t n_text = end - open - 1, n_address = n - end - 3;

        show(m, text, n_text, style | WRAP_UNDERLINE, depth + 1);
        if (n_text == n_address && memcmp(text, address, n_text) == 0)
                return;
        show_literally(m, n_text ? " (" : "(", n_text ? 2 : 1, style);
        show_literally(m, address, n_address, style);
        show_literally(m, ")", 1, style);
}

static void show_emphasis(
        struct markdown *m, const char *s, size_t n, unsigned style, unsigned depth) {
        static const unsigned styles[] = {WRAP_ITALIC, WRAP_BOLD, WRAP_BOLD | WRAP_ITALIC};
        size_t k = run_at(s, n, 0);

        m->before = s[0];
        show(m, s + k, n - 2 * k, style | (s[0] == '~' ? WRAP_STRIKE : styles[k - 1]), depth + 1);
        m->before = s[0];
}

static void show_construct(
        struct markdown *m, const char *s, size_t n, unsigned style, unsigned depth) {
        switch (s[0]) {
        case '`':
                show_code(m, s, n, style);
                break;
        case '[':
        case '!':
                show_link(m, s, n, style, depth);
                break;
        case '\\':
                show_literally(m, s + 1, 1, style);
                break;
        default:
                show_emphasis(m, s, n, style, depth);
                break;
        }
}

/* Show as much of the text as is decided: how many bytes. */
static size_t show_decided(
        struct markdown *m, const char *s, size_t n, bool ended, unsigned style, unsigned depth) {
        size_t i = 0;

        while (i < n) {
                struct look l = {s + i, n - i, m->before, ended};
                ssize_t size = is_mark(s[i]) && depth < DEEPEST ? find(&l) : 0;
                uint32_t cp;

                if (size < 0)
                        break;
                if (size > 0) {
                        show_construct(m, s + i, (size_t)size, style, depth);
                } else {
                        bool run = strchr("*_`~", s[i]) && s[i];

                        size = (ssize_t)(run ? run_at(s, n, i) : decode(s + i, n - i, &cp));
                        show_literally(m, s + i, (size_t)size, style);
                }
                i += (size_t)size;
        }
        return i;
}

static void show(struct markdown *m, const char *s, size_t n, unsigned style, unsigned depth) {
        show_decided(m, s, n, true, style, depth);
}

static void decide(struct markdown *m, bool ended) {
        size_t n = show_decided(m, m->held, m->n_held, ended, m->style, 0);

        m->n_held -= n;
        memmove(m->held, m->held + n, m->n_held);
}

void inline_put(struct markdown *m, const char *s, size_t n) {
        if (m->plain || (m->n_held == 0 && !is_mark(s[0]))) {
                show_literally(m, s, n, m->style);
                return;
        }
        memcpy(m->held + m->n_held, s, n);
        m->n_held += n;
        decide(m, false);
}

void inline_end(struct markdown *m) {
        decide(m, true);
}
