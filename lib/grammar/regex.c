/* SPDX-License-Identifier: MIT */
/*
 * ECMA patterns over the text of JSON strings. A pattern without ^ or $ may match anywhere in the
 * string. What a finite automaton can't do (references back, looking around, word boundaries) and
 * Unicode properties are refused by name. Characters are spelled canonically (json-chars.h).
 */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "grammar/json-chars.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 1024

struct regex {
        struct build *b;
        const uint8_t *text;
        size_t n, at;
        const char *where;
        uint32_t any; /* any characters at all */
        unsigned nesting;
        uint32_t *items; /* a stack, as in gbnf.c */
        uint32_t n_items, items_capacity;
};

struct class {
        struct range ranges[MAX_ITEMS];
        size_t n;
};

static uint32_t refuse(struct regex *x, enum err_code code, const char *what) {
        return build_fail(x->b, code, "%s: at %zu of the pattern: %s", x->where, x->at, what);
}

static int peek(const struct regex *x) {
        return x->at < x->n ? x->text[x->at] : -1;
}

static void add(struct class *c, uint32_t from, uint32_t to) {
        if (c->n < MAX_ITEMS)
                c->ranges[c->n++] = (struct range){from, to};
}

static int compare(const void *a, const void *b) {
        const struct range *x = a, *y = b;

        return x->from < y->from ? -1 : x->from > y->from;
}

static void negate(struct class *c) {
        struct class out = {.n = 0};
        uint32_t from = 1;

        qsort(c->ranges, c->n, sizeof(*c->ranges), compare);
        for (size_t i = 0; i < c->n; i++) {
                if (c->ranges[i].from > from)
                        add(&out, from, c->ranges[i].from - 1);
                if (c->ranges[i].to >= from)
                        from = c->ranges[i].to + 1;
        }
        if (from <= LAST_CHAR)
                add(&out, from, LAST_CHAR);
        *c = out;
}

/* \d \w \s and their opposites. False if @c is none of them. */
static bool add_named(struct class *out, int c) {
        struct class named = {.n = 0};

        switch (c | 0x20) {
        case 'd':
                add(&named, '0', '9');
                break;
        case 'w':
                add(&named, '0', '9');
                add(&named, 'A', 'Z');
                add(&named, '_', '_');
                add(&named, 'a', 'z');
                break;
        case 's':
                add(&named, '\t', '\r');
                add(&named, ' ', ' ');
                add(&named, 0xA0, 0xA0);
                add(&named, 0x1680, 0x1680);
                add(&named, 0x2000, 0x200A);
                add(&named, 0x2028, 0x2029);
                add(&named, 0x202F, 0x202F);
                add(&named, 0x205F, 0x205F);
                add(&named, 0x3000, 0x3000);
                add(&named, 0xFEFF, 0xFEFF);
                break;
        default:
                return false;
        }
        if (c < 'a')
                negate(&named);
        for (size_t i = 0; i < named.n; i++)
                add(out, named.ranges[i].from, named.ranges[i].to);
        return true;
}

static bool take_hex(struct regex *x, unsigned least, unsigned most, uint32_t *ret) {
        unsigned n = 0;

        for (*ret = 0; n < most; n++, x->at++) {
                int c = peek(x);

                if (c >= '0' && c <= '9')
                        *ret = *ret << 4 | (uint32_t)(c - '0');
                else if (c >= 0 && (c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        *ret = *ret << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
                else
                        break;
        }
        return n >= least;
}

/* After the backslash: one character. */
static bool take_escape(struct regex *x, uint32_t *ret) {
        static const char from[] = "nrtfv", to[] = "\n\r\t\f\v";
        int c = peek(x);
        const char *p = c > 0 ? strchr(from, c) : NULL;
        uint8_t bytes[4];
        bool ok = true;

        if (p) {
                x->at++;
                *ret = (uint8_t)to[p - from];
                return true;
        }
        if (c == 'x' || c == 'u') {
                x->at++;
                if (c == 'u' && peek(x) == '{') {
                        x->at++;
                        ok = take_hex(x, 1, 6, ret) && peek(x) == '}';
                        x->at += ok;
                } else {
                        ok = c == 'x' ? take_hex(x, 2, 2, ret) : take_hex(x, 4, 4, ret);
                }
                if (!ok || *ret == 0 || utf8_encode(*ret, bytes) == 0) {
                        refuse(x, ERR_INVALID, "this is no character");
                        return false;
                }
                return true;
        }
        if (c < 0 || c >= 128 || (c >= '0' && c <= '9') ||
                ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
                refuse(x, ERR_UNSUPPORTED,
                        "this escape is not supported (\\d \\w \\s \\n \\r \\t \\f \\v \\xNN "
                        "\\uNNNN "
                        "are)");
                return false;
        }
        x->at++;
        *ret = (uint32_t)c;
        return true;
}

static bool take_char(struct regex *x, uint32_t *ret) {
        int n = utf8_decode(x->text + x->at, x->n - x->at, ret);

        if (n <= 0 || *ret == 0) {
                refuse(x, ERR_INVALID, "this is no character");
                return false;
        }
        x->at += (size_t)n;
        return true;
}

/* A member of a class: one character, or a named class (then *ret is UINT32_MAX). */
static bool take_member(struct regex *x, struct class *c, uint32_t *ret) {
        if (peek(x) != '\\')
                return take_char(x, ret);
        x->at++;
        if (peek(x) == 'b') {
                x->at++;
                *ret = '\b';
                return true;
        }
        if (peek(x) >= 0 && add_named(c, peek(x))) {
                x->at++;
                *ret = UINT32_MAX;
                return true;
        }
        return take_escape(x, ret);
}

static uint32_t take_class(struct regex *x) {
        _cleanup_(freep) struct class *c = calloc(1, sizeof(*c));
        bool negated;

        if (!c)
                return build_fail(x->b, ERR_NOMEM, "no memory for a grammar");
        x->at++;
        negated = peek(x) == '^';
        x->at += negated;
        while (peek(x) != ']') {
                uint32_t from, to;

                if (x->at >= x->n)
                        return refuse(x, ERR_INVALID, "a class without its closing bracket");
                if (c->n > MAX_ITEMS - 32)
                        return refuse(x, ERR_TOO_LARGE, "a class of more than 992 ranges");
                if (!take_member(x, c, &from))
                        return NEVER;
                to = from;
                if (from != UINT32_MAX && peek(x) == '-' && x->at + 1 < x->n &&
                        x->text[x->at + 1] != ']') {
                        x->at++;
                        if (!take_member(x, c, &to))
                                return NEVER;
                        if (to == UINT32_MAX || to < from)
                                return refuse(x, ERR_INVALID, "a range that runs backwards");
                }
                if (from != UINT32_MAX)
                        add(c, from, to);
        }
        x->at++;
        if (negated)
                negate(c);
        return json_chars(x->b, c->ranges, c->n);
}

static uint32_t one_char(struct regex *x, uint32_t c) {
        struct range r = {c, c};

        return json_chars(x->b, &r, 1);
}

static uint32_t dot(struct regex *x) {
        struct range r[] = {{1, 9}, {0xB, 0xC}, {0xE, 0x2027}, {0x202A, LAST_CHAR}};

        return json_chars(x->b, r, 4);
}

static uint32_t take_escaped(struct regex *x) {
        struct class *c;
        uint32_t code, expr;
        bool named;

        x->at++;
        if (peek(x) == 'b' || peek(x) == 'B')
                return refuse(x, ERR_UNSUPPORTED, "word boundaries are not supported");
        if (peek(x) >= '1' && peek(x) <= '9')
                return refuse(x, ERR_UNSUPPORTED, "references back are not supported");
        c = calloc(1, sizeof(*c));
        if (!c)
                return build_fail(x->b, ERR_NOMEM, "no memory for a grammar");
        named = peek(x) >= 0 && add_named(c, peek(x));
        x->at += named;
        expr = named ? json_chars(x->b, c->ranges, c->n) : NEVER;
        free(c);
        return named ? expr : take_escape(x, &code) ? one_char(x, code) : NEVER;
}

/* --- structure --- */

static uint32_t take_alternatives(struct regex *x);

static uint32_t take_group(struct regex *x) {
        uint32_t expr;

        x->at++;
        if (peek(x) == '?') {
                if (x->at + 1 >= x->n || x->text[x->at + 1] != ':')
                        return refuse(x, ERR_UNSUPPORTED,
                                "groups other than (...) and (?:...) are not supported");
                x->at += 2;
        }
        if (++x->nesting > MAX_NESTING)
                return refuse(x, ERR_TOO_LARGE, "groups nested more than 64 deep");
        expr = take_alternatives(x);
        x->nesting--;
        if (peek(x) != ')')
                return refuse(x, ERR_INVALID, "a group without its closing parenthesis");
        x->at++;
        return expr;
}

static bool take_number(struct regex *x, uint32_t *ret) {
        size_t at = x->at;
        uint64_t n = 0;

        for (; peek(x) >= '0' && peek(x) <= '9' && n <= MAX_REPEAT; x->at++)
                n = n * 10 + (uint64_t)(peek(x) - '0');
        if (n > MAX_REPEAT) {
                refuse(x, ERR_TOO_LARGE, "a repetition of more than 1000000 times");
                return false;
        }
        *ret = (uint32_t)n;
        return x->at > at;
}

static uint32_t take_counts(struct regex *x, uint32_t expr) {
        uint32_t min, max;

        x->at++;
        if (!take_number(x, &min))
                return refuse(x, ERR_INVALID, "a repetition is {m}, {m,} or {m,n}");
        max = min;
        if (peek(x) == ',') {
                x->at++;
                max = BUILD_ENDLESS;
                if (peek(x) != '}' && !take_number(x, &max))
                        max = 0;
        }
        if (peek(x) != '}' || min > max)
                return refuse(x, ERR_INVALID, "a repetition is {m}, {m,} or {m,n}");
        x->at++;
        return build_repeat(x->b, expr, min, max);
}

static uint32_t take_repeat(struct regex *x, uint32_t expr) {
        int c = peek(x);

        if (c == '{') {
                expr = take_counts(x, expr);
        } else if (c == '*' || c == '+' || c == '?') {
                x->at++;
                expr = build_repeat(x->b, expr, c == '+' ? 1 : 0, c == '?' ? 1 : BUILD_ENDLESS);
        } else {
                return expr;
        }
        if (peek(x) == '?') /* lazy: the same strings */
                x->at++;
        c = peek(x);
        if (c == '*' || c == '+' || c == '?' || c == '{')
                return refuse(x, ERR_INVALID, "a repetition of a repetition");
        return expr;
}

static uint32_t take_atom(struct regex *x) {
        uint32_t code;

        switch (peek(x)) {
        case '(':
                return take_group(x);
        case '[':
                return take_class(x);
        case '.':
                x->at++;
                return dot(x);
        case '\\':
                return take_escaped(x);
        case '^':
        case '$':
                return refuse(x, ERR_UNSUPPORTED,
                        "^ and $ are supported at the ends of the pattern and of its alternatives");
        case '*':
        case '+':
        case '?':
        case '{':
                return refuse(x, ERR_INVALID, "a repetition of nothing");
        default:
                return take_char(x, &code) ? one_char(x, code) : NEVER;
        }
}

static void push(struct regex *x, uint32_t item) {
        int r;

        if (x->b->failed)
                return;
        r = TABLE_ROOM(&x->b->charge, x->items, x->items_capacity, x->n_items, x->b->e);
        if (r < 0)
                x->b->failed = r;
        else
                x->items[x->n_items++] = item;
}

/* At the outermost level the ends of an alternative may be anchored. */
static uint32_t take_sequence(struct regex *x) {
        uint32_t base = x->n_items, expr;
        bool outer = x->nesting == 0;

        if (outer && peek(x) == '^')
                x->at++;
        else if (outer)
                push(x, x->any);
        while (!x->b->failed && x->at < x->n && peek(x) != '|' && peek(x) != ')') {
                if (outer && peek(x) == '$' && (x->at + 1 == x->n || x->text[x->at + 1] == '|'))
                        break;
                expr = take_atom(x);
                push(x, take_repeat(x, expr));
        }
        if (outer && peek(x) == '$')
                x->at++;
        else if (outer)
                push(x, x->any);
        expr = x->b->failed ? NEVER
                            : build_seq(x->b, x->items ? x->items + base : NULL, x->n_items - base);
        x->n_items = base;
        return expr;
}

static uint32_t take_alternatives(struct regex *x) {
        uint32_t base = x->n_items, expr;

        for (;;) {
                expr = take_sequence(x);
                push(x, expr);
                if (x->b->failed || peek(x) != '|')
                        break;
                x->at++;
        }
        expr = x->b->failed ? NEVER
                            : build_alt(x->b, x->items ? x->items + base : NULL, x->n_items - base);
        x->n_items = base;
        return expr;
}

uint32_t build_regex(struct build *b, const char *text, size_t size, const char *where) {
        struct regex x = {.b = b, .text = (const uint8_t *)text, .n = size, .where = where};
        struct range all = {1, LAST_CHAR};
        uint32_t expr, quote = build_text(b, "\"");

        x.any = build_repeat(b, json_chars(b, &all, 1), 0, BUILD_ENDLESS);
        expr = take_alternatives(&x);
        if (!b->failed && x.at < x.n)
                refuse(&x, ERR_INVALID, "a parenthesis that was not opened");
        free(x.items);
        charge_give(&b->charge, x.items_capacity * sizeof(*x.items));
        return SEQ(b, quote, expr, quote);
}
