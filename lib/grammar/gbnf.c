/* SPDX-License-Identifier: MIT */
/*
 * GBNF: rules `name ::= alternatives`. A rule ends at the end of its line, except inside
 * parentheses, after `|`, and before a line that begins with `|`. docs/grammar.md has the whole
 * syntax.
 */
#include "base/cleanup.h"
#include "base/map.h"
#include "base/utf8.h"
#include "grammar/build.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 4096 /* of one sequence, alternatives of one group, ranges of one class */

struct gbnf {
        struct build *b;
        const uint8_t *text;
        size_t n, at;
        struct map *rules; /* name → its number + 1 */
        /* Items of the sequences and alternatives that are being read: a stack. */
        uint32_t *items;
        uint32_t n_items, items_capacity;
        unsigned nesting;
        struct {
                size_t at;
                uint32_t line, column;
        } asked; /* the answer of where() */
};

/* The line and column of @at. Counts on from where it was asked last, if that lies before. */
static void where(struct gbnf *p, size_t at, uint32_t *line, uint32_t *column) {
        size_t i = p->asked.at;

        if (at < i || i == 0) {
                p->asked.line = p->asked.column = 1;
                i = 0;
        }
        for (; i < at; i++) {
                if (p->text[i] == '\n') {
                        p->asked.line++;
                        p->asked.column = 1;
                } else if ((p->text[i] & 0xC0) != 0x80) {
                        p->asked.column++;
                }
        }
        p->asked.at = at;
        *line = p->asked.line;
        *column = p->asked.column;
}

static uint32_t fail_at(struct gbnf *p, size_t at, enum err_code code, const char *what) {
        uint32_t line, column;

        where(p, at, &line, &column);
        return build_fail(p->b, code, "grammar, %u:%u: %s", line, column, what);
}

static uint32_t fail(struct gbnf *p, const char *what) {
        return fail_at(p, p->at, ERR_INVALID, what);
}

static int peek(const struct gbnf *p) {
        return p->at < p->n ? p->text[p->at] : -1;
}

static bool is_name(int c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_';
}

/* Skip blanks and comments, and with @lines also ends of lines. */
static void skip(struct gbnf *p, bool lines) {
        for (;;) {
                int c = peek(p);

                if (c == '#') {
                        while (p->at < p->n && p->text[p->at] != '\n')
                                p->at++;
                } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
                        p->at++;
                } else {
                        return;
                }
        }
}

static void push_item(struct gbnf *p, uint32_t item, uint32_t base) {
        int r;

        if (p->b->failed)
                return;
        if (p->n_items - base >= MAX_ITEMS) {
                fail_at(p, p->at, ERR_TOO_LARGE, "more than 4096 parts beside each other");
                return;
        }
        r = TABLE_ROOM(&p->b->charge, p->items, p->items_capacity, p->n_items, p->b->e);
        if (r < 0)
                p->b->failed = r;
        else
                p->items[p->n_items++] = item;
}

static uint32_t find_rule(struct gbnf *p, size_t at, size_t n) {
        struct build *b = p->b;
        uintptr_t known = (uintptr_t)map_get(p->rules, p->text + at, n);
        uint32_t rule;

        if (known)
                return (uint32_t)(known - 1);
        rule = build_rule(b, false);
        if (b->failed)
                return 0;
        b->rules[rule].name = (uint32_t)at;
        b->rules[rule].name_size = (uint32_t)n;
        where(p, at, &b->rules[rule].line, &b->rules[rule].column);
        if (map_add(p->rules, p->text + at, n, (void *)((uintptr_t)rule + 1), b->e) < 0)
                b->failed = -ERR_NOMEM;
        return rule;
}

/* --- characters --- */

static bool take_hex(struct gbnf *p, unsigned n, uint32_t *ret) {
        *ret = 0;
        for (unsigned i = 0; i < n; i++) {
                int c = peek(p);

                if (c >= '0' && c <= '9')
                        c -= '0';
                else if (c >= 'a' && c <= 'f')
                        c -= 'a' - 10;
                else if (c >= 'A' && c <= 'F')
                        c -= 'A' - 10;
                else
                        return false;
                *ret = *ret << 4 | (uint32_t)c;
                p->at++;
        }
        return true;
}

/* After the backslash. */
static bool take_escape(struct gbnf *p, uint32_t *ret) {
        size_t at = p->at - 1;
        int c = peek(p);
        uint8_t bytes[4];

        p->at++;
        switch (c) {
        case 'n':
                *ret = '\n';
                return true;
        case 'r':
                *ret = '\r';
                return true;
        case 't':
                *ret = '\t';
                return true;
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^':
                *ret = (uint32_t)c;
                return true;
        case 'x':
        case 'u':
        case 'U':
                if (!take_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, ret)) {
                        fail(p, "a hexadecimal digit is missing");
                        return false;
                }
                if (*ret != 0 && utf8_encode(*ret, bytes) > 0)
                        return true;
                fail_at(p, at, ERR_INVALID,
                        *ret ? "this is no character of Unicode" : "replies have no NUL");
                return false;
        default:
                fail_at(p, at, ERR_INVALID,
                        "unknown escape: \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN "
                        "\\UNNNNNNNN are known");
                return false;
        }
}

static bool take_char(struct gbnf *p, uint32_t *ret) {
        int n;

        if (peek(p) == '\\') {
                p->at++;
                return take_escape(p, ret);
        }
        n = utf8_decode(p->text + p->at, p->n - p->at, ret);
        if (n <= 0 || *ret == 0) {
                fail(p, n > 0 ? "replies have no NUL" : "this is not UTF-8");
                return false;
        }
        p->at += (size_t)n;
        return true;
}

static uint32_t take_literal(struct gbnf *p) {
        struct build *b = p->b;
        size_t start = p->at++;
        uint32_t parts[2] = {EMPTY, EMPTY}, c;
        uint8_t bytes[256];
        size_t n = 0;

        while (peek(p) != '"') {
                if (p->at >= p->n || peek(p) == '\n')
                        return fail_at(p, start, ERR_INVALID, "this text has no closing quote");
                if (!take_char(p, &c))
                        return NEVER;
                n += (size_t)utf8_encode(c, bytes + n);
                if (n > sizeof(bytes) - 4) {
                        parts[1] = build_bytes(b, bytes, n);
                        parts[0] = build_seq(b, parts, 2);
                        n = 0;
                }
        }
        p->at++;
        parts[1] = build_bytes(b, bytes, n);
        return parts[0] == EMPTY ? parts[1] : build_seq(b, parts, 2);
}

#define LAST_CHAR 0x10FFFFu

/* The ranges' complement, without NUL and surrogates. @r has room for one more. */
static size_t negate(struct range *r, size_t n, struct range *out) {
        uint32_t from = 1;
        size_t m = 0;

        for (size_t i = 0; i < n; i++) { /* sorted and apart */
                if (r[i].from > from)
                        out[m++] = (struct range){from, r[i].from - 1};
                from = r[i].to + 1;
        }
        if (from <= LAST_CHAR)
                out[m++] = (struct range){from, LAST_CHAR};
        return m;
}

static uint32_t take_class(struct gbnf *p) {
        struct build *b = p->b;
        size_t start = p->at++, n = 0;
        _cleanup_(freep) struct range *r = malloc(MAX_ITEMS * sizeof(*r)), *out = NULL;
        bool negated = peek(p) == '^';
        uint32_t expr;

        if (!r)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        if (negated)
                p->at++;
        while (peek(p) != ']') {
                if (p->at >= p->n || peek(p) == '\n')
                        return fail_at(p, start, ERR_INVALID, "this class has no closing bracket");
                if (n == MAX_ITEMS)
                        return fail_at(p, start, ERR_TOO_LARGE, "a class of more than 4096 ranges");
                if (!take_char(p, &r[n].from))
                        return NEVER;
                r[n].to = r[n].from;
                if (peek(p) == '-' && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
                        p->at++;
                        if (!take_char(p, &r[n].to))
                                return NEVER;
                        if (r[n].to < r[n].from)
                                return fail_at(
                                        p, start, ERR_INVALID, "a range that runs backwards");
                }
                n++;
        }
        p->at++;
        expr = build_chars(b, r, n);
        if (!negated || b->failed)
                return expr;
        out = malloc((MAX_ITEMS + 1) * sizeof(*out));
        if (!out)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        n = expr == NEVER ? 0 : b->exprs[expr].b;
        n = negate(n ? b->ranges + b->exprs[expr].a : r, n, out);
        return build_chars(b, out, n);
}

/* --- the structure --- */

static uint32_t take_alternatives(struct gbnf *p, bool nested);

static bool take_count(struct gbnf *p, uint32_t *ret) {
        size_t at = p->at;
        uint64_t n = 0;

        while (peek(p) >= '0' && peek(p) <= '9' && n <= MAX_REPEAT)
                n = n * 10 + (uint64_t)(p->text[p->at++] - '0');
        if (n > MAX_REPEAT) {
                fail_at(p, at, ERR_TOO_LARGE, "a repetition of more than 1000000 times");
                return false;
        }
        *ret = (uint32_t)n;
        return p->at > at;
}

/* {m} {m,} {m,n} {,n} */
static uint32_t take_counts(struct gbnf *p, uint32_t expr) {
        size_t start = p->at++;
        uint32_t min = 0, max;
        bool has_min;

        skip(p, false);
        has_min = take_count(p, &min);
        max = min;
        skip(p, false);
        if (peek(p) == ',') {
                p->at++;
                skip(p, false);
                if (!take_count(p, &max))
                        max = BUILD_ENDLESS;
                else
                        has_min = true;
                skip(p, false);
        }
        if (peek(p) != '}' || !has_min)
                return fail_at(p, start, ERR_INVALID, "a repetition is {m}, {m,}, {m,n} or {,n}");
        p->at++;
        if (min > max)
                return fail_at(p, start, ERR_INVALID, "a repetition with its least above its most");
        return build_repeat(p->b, expr, min, max);
}

static uint32_t take_repeats(struct gbnf *p, uint32_t expr) {
        for (unsigned i = 0; !p->b->failed; i++) {
                int c = peek(p);

                if (c != '*' && c != '+' && c != '?' && c != '{')
                        return expr;
                if (i == MAX_NESTING)
                        return fail_at(
                                p, p->at, ERR_TOO_LARGE, "more than 64 repetitions in a row");
                if (c == '{') {
                        expr = take_counts(p, expr);
                        continue;
                }
                p->at++;
                expr = build_repeat(p->b, expr, c == '+' ? 1 : 0, c == '?' ? 1 : BUILD_ENDLESS);
        }
        return NEVER;
}

/* One item of a sequence; false if there is none. */
static bool take_item(struct gbnf *p, uint32_t *ret) {
        struct range any = {1, LAST_CHAR};
        int c = peek(p);
        size_t at = p->at;

        if (c == '"') {
                *ret = take_literal(p);
        } else if (c == '[') {
                *ret = take_class(p);
        } else if (c == '.') {
                p->at++;
                *ret = build_chars(p->b, &any, 1);
        } else if (c == '(') {
                p->at++;
                if (++p->nesting > MAX_NESTING) {
                        fail_at(p, at, ERR_TOO_LARGE, "groups nested more than 64 deep");
                        return false;
                }
                *ret = take_alternatives(p, true);
                p->nesting--;
                if (!p->b->failed && peek(p) != ')')
                        fail_at(p, at, ERR_INVALID, "this group has no closing parenthesis");
                p->at++;
        } else if (is_name(c)) {
                while (is_name(peek(p)))
                        p->at++;
                *ret = build_rule_use(p->b, find_rule(p, at, p->at - at));
        } else {
                return false;
        }
        return !p->b->failed;
}

/* Does a name with ::= stand here, the beginning of another rule? */
static bool at_rule(const struct gbnf *p) {
        size_t i = p->at;

        while (i < p->n && is_name(p->text[i]))
                i++;
        if (i == p->at)
                return false;
        while (i < p->n && (p->text[i] == ' ' || p->text[i] == '\t'))
                i++;
        return p->n - i >= 3 && memcmp(p->text + i, "::=", 3) == 0;
}

static uint32_t take_sequence(struct gbnf *p, bool nested) {
        uint32_t base = p->n_items, expr, item;

        for (;;) {
                skip(p, nested);
                if (nested && at_rule(p)) {
                        fail(p, "a rule begins inside a group");
                        break;
                }
                if (!take_item(p, &item))
                        break;
                item = take_repeats(p, item);
                push_item(p, item, base);
        }
        expr = p->b->failed ? NEVER
                            : build_seq(p->b, p->items ? p->items + base : NULL, p->n_items - base);
        p->n_items = base;
        return expr;
}

/* The next alternative's bar may stand on the next line. */
static bool take_bar(struct gbnf *p, bool nested) {
        size_t at = p->at;

        skip(p, true);
        if (peek(p) == '|') {
                p->at++;
                skip(p, true);
                return true;
        }
        if (!nested)
                p->at = at;
        return false;
}

static uint32_t take_alternatives(struct gbnf *p, bool nested) {
        uint32_t base = p->n_items, expr;

        do {
                expr = take_sequence(p, nested);
                push_item(p, expr, base);
        } while (!p->b->failed && take_bar(p, nested));
        expr = p->b->failed ? NEVER
                            : build_alt(p->b, p->items ? p->items + base : NULL, p->n_items - base);
        p->n_items = base;
        return expr;
}

static void take_rule(struct gbnf *p) {
        struct build *b = p->b;
        size_t at = p->at;
        uint32_t rule, expr;

        while (is_name(peek(p)))
                p->at++;
        if (p->at == at) {
                fail(p, "a rule begins with its name");
                return;
        }
        rule = find_rule(p, at, p->at - at);
        skip(p, false);
        if (p->n - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0) {
                fail(p, "after the name of a rule comes ::=");
                return;
        }
        p->at += 3;
        skip(p, true);
        if (!b->failed && b->rules[rule].defined) {
                fail_at(p, at, ERR_INVALID, "this rule was defined before");
                return;
        }
        if (!b->failed) {
                where(p, at, &b->rules[rule].line, &b->rules[rule].column);
                b->rules[rule].name = (uint32_t)at;
        }
        /* `a ::=` at the end, before the next rule: empty */
        expr = at_rule(p) ? EMPTY : take_alternatives(p, false);
        if (b->failed)
                return;
        build_define(b, rule, expr);
        skip(p, false);
        if (p->at < p->n && peek(p) != '\n')
                fail(p, "this is no part of a rule");
}

static uint32_t check_rules(struct gbnf *p) {
        struct build *b = p->b;
        uintptr_t root;

        for (uint32_t i = 0; i < b->n_rules; i++)
                if (!b->rules[i].defined)
                        return build_fail(b, ERR_INVALID,
                                "grammar, %u:%u: rule %.*s is not defined", b->rules[i].line,
                                b->rules[i].column,
                                (int)(b->rules[i].name_size < 64 ? b->rules[i].name_size : 64),
                                (const char *)p->text + b->rules[i].name);
        root = (uintptr_t)map_get(p->rules, "root", 4);
        if (!root)
                return build_fail(b, ERR_INVALID, "the grammar has no rule named root");
        return (uint32_t)(root - 1);
}

uint32_t gbnf_parse(struct build *b, const char *text, size_t size) {
        struct gbnf p = {.b = b, .text = (const uint8_t *)text, .n = size};
        /* what the map of names may take: a slot and a copy of the key */
        size_t map_size = (size < 2 * MAX_RULES ? size / 2 : MAX_RULES) * 128 + 1024;
        uint32_t root = 0;
        int r = charge_take(&b->charge, map_size, "a grammar", b->e);

        if (r < 0) {
                b->failed = r;
                return 0;
        }
        if (map_new(&p.rules, b->e) < 0) {
                b->failed = -ERR_NOMEM;
                return 0;
        }
        skip(&p, true);
        while (!b->failed && p.at < p.n) {
                take_rule(&p);
                skip(&p, true);
        }
        if (!b->failed)
                root = check_rules(&p);
        free(p.items);
        charge_give(&b->charge, p.items_capacity * sizeof(*p.items) + map_size);
        map_free(p.rules);
        return root;
}
