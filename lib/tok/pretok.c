/* SPDX-License-Identifier: MIT */
/*
 * A pre-tokenizer is a list of rules. Each rule is applied inside every piece that the earlier
 * rules left; its matches and the text between them become pieces. The text is known to be
 * well-formed.
 *
 * Rules are regexes (regex.h), or one of the following, which find runs of digits and cut them by
 * counting from the right:
 *
 *   @digits     \d{1,3}(?=(?:\d{3})*\b)   groups of three, if no word character follows the run
 *   @groups     groups of three of \p{N}
 *   @thousands  (?=(\d{3})+(?!\d))        cuts only: before every third digit
 *
 * No text may stall a pre-tokenizer (I7). Matching reads each character once, but a match may turn
 * out to have ended long before the last character read, and the next one reads on from its end. A
 * rule that did so at each match would be quadratic. The table has no such rule, so each rule reads
 * a text a few times at most (tests/unit/tok/test-pretok.c counts):
 *
 * 1. What reads far ahead and may fail is a run of spaces that looks for its last newline, and a
 *    run of capitals that looks for a small letter. Both runs then become pieces nearly whole.
 * 2. Where a rule would cut such a run into many pieces, a look-behind lets it look ahead only at
 *    the start of the run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/regex.h"
#include "tok/tok-internal.h"

enum rule_kind { RULE_REGEX, RULE_DIGITS, RULE_GROUPS, RULE_THOUSANDS };

static const struct {
        const char *name;
        enum rule_kind kind;
        const char *digit, *unless; /* what a run consists of, and what must not follow it */
} digit_rules[] = {
        {"@digits", RULE_DIGITS, "\\d", "\\p{Word}"},
        {"@groups", RULE_GROUPS, "\\p{N}", NULL},
        {"@thousands", RULE_THOUSANDS, "\\d", NULL},
};

struct tok_pretok {
        struct regex_classes classes;
        size_t n_rules;
        struct tok_rule {
                enum rule_kind kind;
                uint32_t program;
                struct regex_table table;
                int digit, unless;                  /* sets, while it is compiled */
                bool is_digit[256], is_unless[256]; /* by class */
        } rules[TOK_PRETOK_MAX_RULES];
};

const struct tok_pretok_row *tok_pretok_find(const char *name, size_t n) {
        if (n == 0 || memchr(name, ' ', n))
                return NULL;
        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                const char *p = tok_pretok_table[i].names;

                while (*p) {
                        size_t len = strcspn(p, " ");

                        if (len == n && memcmp(p, name, n) == 0)
                                return &tok_pretok_table[i];
                        p += len + strspn(p + len, " ");
                }
        }
        return NULL;
}

/* --- load --- */

static int rule_parse(
        struct regex_compiler *c, struct tok_rule *rule, const char *text, struct err *e) {
        rule->digit = rule->unless = -1;
        for (size_t i = 0; i < ARRAY_SIZE(digit_rules); i++) {
                if (strcmp(text, digit_rules[i].name) != 0)
                        continue;
                rule->kind = digit_rules[i].kind;
                rule->digit = regex_parse_set(c, digit_rules[i].digit, e);
                if (rule->digit < 0 || !digit_rules[i].unless)
                        return rule->digit;
                rule->unless = regex_parse_set(c, digit_rules[i].unless, e);
                return rule->unless;
        }
        rule->kind = RULE_REGEX;
        return regex_parse(c, text, &rule->program, e);
}

static int rule_build(const struct regex_compiler *c, const struct regex_classes *k,
        struct tok_rule *rule, struct err *e) {
        if (rule->kind == RULE_REGEX)
                return regex_table_build(&rule->table, c, k, rule->program, e);
        for (unsigned i = 0; i < k->n; i++) {
                rule->is_digit[i] = c->members[i] >> rule->digit & 1;
                rule->is_unless[i] = rule->unless >= 0 && c->members[i] >> rule->unless & 1;
        }
        return 0;
}

static void tok_pretok_freep(struct tok_pretok **p) {
        tok_pretok_free(*p);
}

int tok_pretok_new(struct tok_pretok **ret, const struct tok_pretok_row *row, struct err *e) {
        _cleanup_(tok_pretok_freep) struct tok_pretok *p = calloc(1, sizeof(*p));
        _cleanup_(freep) struct regex_compiler *c = calloc(1, sizeof(*c));
        int r = 0;

        if (!p || !c)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        for (; r >= 0 && p->n_rules < TOK_PRETOK_MAX_RULES && row->rules[p->n_rules]; p->n_rules++)
                r = rule_parse(c, &p->rules[p->n_rules], row->rules[p->n_rules], e);
        if (r >= 0)
                r = regex_classes_build(&p->classes, c, e);
        for (size_t i = 0; r >= 0 && i < p->n_rules; i++)
                r = rule_build(c, &p->classes, &p->rules[i], e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

struct tok_pretok *tok_pretok_free(struct tok_pretok *p) {
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_rules; i++)
                regex_table_deinit(&p->rules[i].table);
        free(p->classes.pages);
        free(p);
        return NULL;
}

/* --- run --- */

/*
 * One text on its way through the rules. As soon as a rule finds a piece, the piece goes through
 * the later rules and then to its receiver: no list of pieces is kept.
 */
struct split {
        const struct tok_pretok *p;
        struct tok_work *w;
        const char *text;
        tok_piece_fn *put;
        void *userdata;
        struct err *e;
};

static int apply_rules(struct split *s, size_t rule, uint32_t start, uint32_t size);

/* Receives the pieces of one rule. */
struct rule_sink {
        struct split *split;
        size_t next;   /* the rule that they go through next */
        uint32_t base; /* of the piece that is cut */
        uint32_t done; /* so far, relative to it */
        int r;
};

static void rule_cut(struct rule_sink *s, uint32_t at) {
        uint32_t from = s->done;

        if (s->r < 0 || at <= from)
                return;
        s->done = at;
        s->r = apply_rules(s->split, s->next, s->base + from, at - from);
}

/* Cut before every third digit from the right; digits have 1 to 4 bytes. */
static void rule_cut_digits(
        struct rule_sink *s, const char *text, uint32_t from, uint32_t to, bool whole) {
        uint32_t n = 0, k = 0;

        for (uint32_t i = from; i < to; i++)
                n += ((uint8_t)text[i] & 0xc0) != 0x80;
        if (whole)
                rule_cut(s, from);
        for (uint32_t i = from; s->r >= 0 && i < to; i++)
                if (((uint8_t)text[i] & 0xc0) != 0x80 && (n - k++) % 3 == 0)
                        rule_cut(s, i);
        if (whole)
                rule_cut(s, to);
}

static void apply_digits(
        struct rule_sink *sink, const struct tok_rule *rule, const char *text, uint32_t size) {
        const struct regex_classes *k = &sink->split->p->classes;
        uint32_t at = 0;

        while (sink->r >= 0 && at < size) {
                uint32_t from = at;
                unsigned class = 0;
                size_t len = 0;

                for (; at < size; at += (uint32_t)len) {
                        class = regex_class(k, text + at, &len);
                        if (!rule->is_digit[class])
                                break;
                }
                sink->split->w->n_read += at - from;
                if (at > from && (at == size || !rule->is_unless[class]))
                        rule_cut_digits(sink, text, from, at, rule->kind != RULE_THOUSANDS);
                if (at < size)
                        at += (uint32_t)len;
        }
}

/* The end of the match at text[at], @at if there is none. @before: the class of the character
 * before, or the last column. */
static uint32_t match(struct split *s, const struct tok_rule *rule, const char *text, uint32_t size,
        uint32_t at, unsigned before) {
        const struct regex_classes *k = &s->p->classes;
        const struct regex_table *t = &rule->table;
        unsigned state = t->start[before], next;
        uint32_t end = at, i = at;

        while (i < size) {
                size_t len;

                next = t->next[state * t->n_columns + regex_class(k, text + i, &len)];
                if (next & REGEX_MATCHED)
                        end = i;
                state = next & ~REGEX_MATCHED;
                if (state == REGEX_DEAD)
                        break;
                i += (uint32_t)len;
        }
        if (i == size && t->next[state * t->n_columns + k->n] & REGEX_MATCHED)
                end = size;
        s->w->n_read += i - at;
        return end;
}

static uint32_t char_before(const char *text, uint32_t at) {
        do
                at--;
        while (((uint8_t)text[at] & 0xc0) == 0x80);
        return at;
}

static void apply_regex(
        struct rule_sink *sink, const struct tok_rule *rule, const char *text, uint32_t size) {
        const struct regex_classes *k = &sink->split->p->classes;
        unsigned before = k->n;
        uint32_t at = 0;

        while (sink->r >= 0 && at < size) {
                uint32_t end = match(sink->split, rule, text, size, at, before);
                size_t len;

                if (end > at) {
                        rule_cut(sink, at);
                        rule_cut(sink, end);
                        at = end;
                        before = regex_class(k, text + char_before(text, at), &len);
                } else {
                        before = regex_class(k, text + at, &len);
                        at += (uint32_t)len;
                }
        }
}

static int apply_rules(struct split *s, size_t rule, uint32_t start, uint32_t size) {
        struct rule_sink sink = {.split = s, .next = rule + 1, .base = start};
        const struct tok_rule *now;

        if (rule == s->p->n_rules)
                return s->put(s->userdata, s->text + start, size, s->e);
        now = &s->p->rules[rule];
        if (now->kind == RULE_REGEX)
                apply_regex(&sink, now, s->text + start, size);
        else
                apply_digits(&sink, now, s->text + start, size);
        rule_cut(&sink, size);
        return sink.r;
}

int tok_pretok_each(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e) {
        struct split s = {p, w, text, put, userdata, e};

        return apply_rules(&s, 0, 0, (uint32_t)n);
}

/* Size of the run at text[0..n) that is all well-formed, or all not. */
static size_t text_run(const char *text, size_t n, bool *ret_well_formed) {
        size_t at = 0;

        while (at < n) {
                int len = (uint8_t)text[at] < 0x80
                                  ? 1
                                  : utf8_decode((const uint8_t *)text + at, n - at, NULL);

                if (at == 0)
                        *ret_well_formed = len > 0;
                else if (*ret_well_formed != (len > 0))
                        break;
                at += len > 0 ? (size_t)len : 1;
        }
        return at;
}

int tok_pretok_any(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e) {
        while (n > 0) {
                bool well_formed;
                size_t run = text_run(text, n, &well_formed);
                int r = well_formed ? tok_pretok_each(p, w, text, run, put, userdata, e)
                                    : put(userdata, text, run, e);

                if (r < 0)
                        return r;
                text += run;
                n -= run;
        }
        return 0;
}
