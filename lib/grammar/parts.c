/* SPDX-License-Identifier: MIT */
/*
 * GRAMMAR_PARTS: a text that is put together from literals, control tokens and JSON values. lib/chat
 * writes such grammars for replies that must call a function. It is no language for clients.
 *
 *     items = item item ...                 one behind the other
 *     item  = t SIZE : BYTES                these bytes
 *           | m SIZE : BYTES                the control token that has this text
 *           | j SIZE : SCHEMA               a JSON value that meets the schema
 *           | f SIZE : STRING NUL ...       any text in which none of the strings is
 *           | i SIZE :                      SIZE letters or digits
 *           | w                             white space: nothing, a space, or one or two newlines
 *           | o                             the mark that GRAMMAR_OPEN feeds
 *           | ( items | items ... )         one of them
 *
 * 1. A control token is the byte GRAMMAR_CONTROL and its text; GRAMMAR_OPEN is a byte as well. UTF-8
 *    has neither byte. So no schema, no GBNF, and no text here allows a control token by accident.
 * 2. The strings of `f` begin with the same character, which is in none of them a second time. So where one
 *    ends, no other can have begun, and the text is a regular one: pieces without that character,
 *    and between them the character with what does not become a string.
 */
#include "base/utf8.h"
#include "grammar/build.h"
#include "grammar/grammar.h"
#include <string.h>

#define MAX_CHOICES 1024
#define MAX_ITEMS 64  /* one behind the other */
#define MAX_GROUPS 8  /* inside each other */
#define MAX_STRINGS 8 /* of one `f` */
#define MAX_STRING 64 /* characters of one of them */
#define LAST_CHAR 0x10FFFFu

struct parts {
        struct build *b;
        const uint8_t *text;
        size_t n, at;
        unsigned nesting;
};

static uint32_t wrong(struct parts *p, const char *what) {
        return build_fail(p->b, ERR_INVALID, "grammar of parts, byte %zu: %s", p->at, what);
}

/* --- text without strings --- */

/* The strings' characters behind the first one; [n_left] of them have the same beginning so far. */
struct strings {
        uint32_t first;
        uint32_t chars[MAX_STRINGS][MAX_STRING];
        uint32_t size[MAX_STRINGS];
        uint32_t n;
};

/* Any character but those of @not: [n], with room for one more. */
static uint32_t other_than(struct build *b, const uint32_t * not, size_t n) {
        struct range r[2 * MAX_STRINGS + 4];
        size_t m = 0;
        uint32_t from = 1;

        for (;;) {
                uint32_t least = UINT32_MAX;

                for (size_t i = 0; i < n; i++)
                        if (not [i] >= from && not [i] < least)
                                least = not [i];
                if (least == UINT32_MAX)
                        break;
                if (least > from)
                        r[m++] = (struct range){from, least - 1};
                from = least + 1;
        }
        r[m++] = (struct range){from, LAST_CHAR};
        return build_chars(b, r, m);
}

static uint32_t one_char(struct build *b, uint32_t c) {
        struct range r = {c, c};

        return build_chars(b, &r, 1);
}

/* What may stand between one `first` and the next, behind @depth characters that the strings of @set
 * (a bit for each) have there: nothing, or what leaves these strings, or another character of one. */
static uint32_t between(struct parts *p, const struct strings *s, uint32_t set, uint32_t depth) {
        struct build *b = p->b;
        uint32_t seen[MAX_STRINGS + 1], kids[MAX_STRINGS + 2], n_seen = 0, n = 0, any;

        any = build_repeat(b, other_than(b, &s->first, 1), 0, BUILD_ENDLESS);
        seen[n_seen++] = s->first;
        kids[n++] = EMPTY;
        for (uint32_t i = 0; i < s->n; i++) {
                uint32_t same = 0, c;
                bool ends = false, known = false;

                if (!(set >> i & 1))
                        continue;
                c = s->chars[i][depth];
                for (uint32_t k = 0; k < n_seen; k++)
                        known = known || seen[k] == c;
                if (known)
                        continue;
                seen[n_seen++] = c;
                for (uint32_t k = 0; k < s->n; k++)
                        if (set >> k & 1 && s->chars[k][depth] == c) {
                                same |= 1u << k;
                                ends = ends || s->size[k] == depth + 1;
                        }
                if (!ends) /* else the string would be complete */
                        kids[n++] = SEQ(b, one_char(b, c), between(p, s, same, depth + 1));
        }
        kids[n++] = SEQ(b, other_than(b, seen, n_seen), any);
        return b->failed ? NEVER : build_alt(b, kids, n);
}

/* One string, into @s. */
static bool take_string(struct strings *s, const uint8_t *text, size_t n) {
        uint32_t c;
        size_t at = 0;

        if (n == 0 || s->n == MAX_STRINGS)
                return false;
        s->size[s->n] = 0;
        while (at < n) {
                int k = utf8_decode(text + at, n - at, &c);

                if (k <= 0 || (at > 0 && (c == s->first || s->size[s->n] == MAX_STRING)) ||
                        (at == 0 && s->n > 0 && c != s->first))
                        return false;
                if (at == 0)
                        s->first = c;
                else
                        s->chars[s->n][s->size[s->n]++] = c;
                at += (size_t)k;
        }
        return s->size[s->n++] > 0;
}

static uint32_t take_free(struct parts *p, const uint8_t *text, size_t n) {
        struct build *b = p->b;
        struct strings s = {.n = 0};
        uint32_t any;
        size_t at = 0;

        while (at < n) {
                const uint8_t *end = memchr(text + at, 0, n - at);
                size_t size = end ? (size_t)(end - (text + at)) : 0;

                if (!end || !take_string(&s, text + at, size))
                        return wrong(p, "these strings can't be kept out of a text");
                at += size + 1;
        }
        if (s.n == 0)
                return wrong(p, "a string is missing");
        any = build_repeat(b, other_than(b, &s.first, 1), 0, BUILD_ENDLESS);
        return SEQ(b, any,
                build_repeat(b, SEQ(b, one_char(b, s.first), between(p, &s, (1u << s.n) - 1, 0)), 0,
                        BUILD_ENDLESS));
}

/* --- items --- */

static bool take_size(struct parts *p, size_t *ret) {
        size_t at = p->at, n = 0;

        while (p->at < p->n && p->text[p->at] >= '0' && p->text[p->at] <= '9' &&
                n <= GRAMMAR_MAX_TEXT)
                n = n * 10 + (size_t)(p->text[p->at++] - '0');
        if (p->at == at || p->at == p->n || p->text[p->at] != ':' || n > GRAMMAR_MAX_TEXT) {
                wrong(p, "a size is missing");
                return false;
        }
        p->at++;
        *ret = n;
        return true;
}

static uint32_t take_control(struct parts *p, const uint8_t *text, size_t n) {
        const uint8_t mark = GRAMMAR_CONTROL;

        return SEQ(p->b, build_bytes(p->b, &mark, 1), build_bytes(p->b, text, n));
}

static uint32_t take_value(struct parts *p, const uint8_t *text, size_t n) {
        uint32_t rule = schema_parse(p->b, (const char *)text, n);

        return p->b->failed ? NEVER : build_rule_use(p->b, rule);
}

static uint32_t letters(struct build *b, size_t n) {
        struct range r[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};

        return build_repeat(b, build_chars(b, r, 3), (uint32_t)n, (uint32_t)n);
}

static uint32_t take_sized(struct parts *p, uint8_t kind) {
        const uint8_t *text;
        size_t n;

        if (!take_size(p, &n))
                return NEVER;
        if (kind == 'i')
                return n > 0 && n <= 64 ? letters(p->b, n) : wrong(p, "an id of this size");
        if (n > p->n - p->at)
                return wrong(p, "the text ends too early");
        text = p->text + p->at;
        p->at += n;
        if (kind == 't')
                return build_bytes(p->b, text, n);
        if (kind == 'm')
                return take_control(p, text, n);
        return kind == 'j' ? take_value(p, text, n) : take_free(p, text, n);
}

static uint32_t take_items(struct parts *p);

static uint32_t take_choice(struct parts *p) {
        uint32_t kids[MAX_CHOICES], n = 0;

        if (++p->nesting > MAX_GROUPS)
                return build_fail(p->b, ERR_TOO_LARGE, "groups nested more than 8 deep");
        do {
                if (n == MAX_CHOICES)
                        return build_fail(p->b, ERR_TOO_LARGE, "more than 1024 choices");
                kids[n++] = take_items(p);
        } while (!p->b->failed && p->at < p->n && p->text[p->at++] == '|');
        p->nesting--;
        if (!p->b->failed && p->text[p->at - 1] != ')')
                return wrong(p, "a group is not closed");
        return build_alt(p->b, kids, n);
}

static uint32_t take_item(struct parts *p) {
        static const uint8_t open = GRAMMAR_OPEN;
        struct build *b = p->b;
        uint8_t kind = p->text[p->at++];

        switch (kind) {
        case 't':
        case 'm':
        case 'j':
        case 'f':
        case 'i':
                return take_sized(p, kind);
        case 'w':
                return ALT(
                        b, EMPTY, build_text(b, " "), build_text(b, "\n"), build_text(b, "\n\n"));
        case 'o':
                return build_bytes(b, &open, 1);
        case '(':
                return take_choice(p);
        default:
                return wrong(p, "this is no item");
        }
}

static uint32_t take_items(struct parts *p) {
        uint32_t kids[MAX_ITEMS], n = 0;

        while (!p->b->failed && p->at < p->n && p->text[p->at] != '|' && p->text[p->at] != ')') {
                if (n == MAX_ITEMS)
                        return build_fail(p->b, ERR_TOO_LARGE, "more than 64 items");
                kids[n++] = take_item(p);
        }
        return p->b->failed ? NEVER : build_seq(p->b, kids, n);
}

uint32_t parts_parse(struct build *b, const char *text, size_t size) {
        struct parts p = {.b = b, .text = (const uint8_t *)text, .n = size};
        uint32_t rule = build_rule(b, false), expr = take_items(&p);

        if (!b->failed && p.at < p.n)
                wrong(&p, "this is no item");
        if (!b->failed)
                build_define(b, rule, expr);
        return rule;
}
