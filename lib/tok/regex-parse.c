/* SPDX-License-Identifier: MIT */
/*
 * Rules to programs. An atom is found in the text first, then the quantifier behind it; the atom is
 * compiled as often as the quantifier asks for it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/regex.h"

struct parser {
        struct regex_compiler *c;
        const char *rule; /* all of it, for messages */
        struct err *e;
};

static int parse_alternatives(struct parser *p, const char *s, const char *end);

static int wrong(struct parser *p, const char *at) {
        return err_set(p->e, ERR_UNSUPPORTED, "a pre-tokenizer's rule is wrong at byte %zu",
                (size_t)(at - p->rule));
}

static int emit(struct parser *p, enum regex_op op, uint32_t x, uint32_t y) {
        struct regex_compiler *c = p->c;

        if (c->n_code == REGEX_MAX_CODE)
                return err_set(p->e, ERR_UNSUPPORTED, "a pre-tokenizer's rules are too long");
        c->code[c->n_code++] = (struct regex_code){op, x, y};
        return 0;
}

/* --- sets --- */

static const char *const category_names[] = {"Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt",
        "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc",
        "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

#define CATEGORY_ND 13

/* {Name} at @s: a category, the first letter of some, Han, or Word; returns what follows, or NULL. */
static const char *add_property(struct regex_set *set, const char *s, const char *end) {
        const char *close = s < end && *s == '{' ? memchr(s, '}', (size_t)(end - s)) : NULL;
        size_t n = close ? (size_t)(close - s - 1) : 0;
        bool found = true;

        if (n == 3 && memcmp(s + 1, "Han", 3) == 0)
                set->properties |= REGEX_HAN;
        else if (n == 4 && memcmp(s + 1, "Word", 4) == 0)
                set->properties |= REGEX_WORD;
        else {
                found = false;
                for (unsigned i = 0; (n == 1 || n == 2) && i < ARRAY_SIZE(category_names); i++)
                        if (memcmp(s + 1, category_names[i], n) == 0) {
                                set->categories |= 1u << i;
                                found = true;
                        }
        }
        return found ? close + 1 : NULL;
}

static const char *read_number(const char *s, int base, uint32_t *ret) {
        char *end;

        *ret = (uint32_t)strtoul(s, &end, base);
        return end;
}

/* One character, maybe escaped; returns what follows, or NULL. */
static const char *read_char(const char *s, const char *end, uint32_t *ret) {
        int n;

        if (*s != '\\') {
                n = utf8_decode((const uint8_t *)s, (size_t)(end - s), ret);
                return n > 0 ? s + n : NULL;
        }
        if (++s == end)
                return NULL;
        switch (*s) {
        case 'r':
                *ret = '\r';
                return s + 1;
        case 'n':
                *ret = '\n';
                return s + 1;
        case 't':
                *ret = '\t';
                return s + 1;
        case 'x':
                if (end - s < 4 || s[1] != '{')
                        return NULL;
                s = read_number(s + 2, 16, ret);
                return s < end && *s == '}' ? s + 1 : NULL;
        default:
                *ret = (uint8_t)*s;
                return (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ? NULL : s + 1;
        }
}

static const char *add_range(
        struct parser *p, struct regex_set *set, const char *s, const char *end) {
        struct regex_compiler *c = p->c;
        struct regex_range range;

        s = read_char(s, end, &range.from);
        range.to = range.from;
        if (s && end - s >= 2 && s[0] == '-' && s[1] != ']')
                s = read_char(s + 1, end, &range.to);
        if (!s || range.to < range.from || range.to > 0x10ffff || c->n_ranges == REGEX_MAX_RANGES)
                return NULL;
        c->ranges[c->n_ranges++] = range;
        set->n_ranges++;
        return s;
}

/* One item of a class, or an atom outside of one; returns what follows, or NULL. */
static const char *add_item(
        struct parser *p, struct regex_set *set, const char *s, const char *end) {
        if (end - s >= 2 && s[0] == '\\')
                switch (s[1]) {
                case 'p':
                        return add_property(set, s + 2, end);
                case 's':
                        set->properties |= REGEX_SPACE;
                        return s + 2;
                case 'S':
                        set->not_space = true;
                        return s + 2;
                case 'd':
                        set->categories |= 1u << CATEGORY_ND;
                        return s + 2;
                }
        return add_range(p, set, s, end);
}

/* Where the atom at @s ends, or NULL. */
static const char *skip_atom(const char *s, const char *end) {
        uint32_t cp;
        int depth = 0;

        if (*s != '[' && *s != '(') {
                if (end - s >= 2 && s[0] == '\\' && s[1] == 'p') {
                        s = memchr(s, '}', (size_t)(end - s));
                        return s ? s + 1 : NULL;
                }
                if (end - s >= 2 && s[0] == '\\' && strchr("sSd", s[1]))
                        return s + 2;
                return read_char(s, end, &cp);
        }
        for (bool in_class = false; s < end; s++) {
                if (*s == '\\')
                        s++;
                else if (*s == '[' && !in_class)
                        in_class = true;
                else if (*s == ']' && in_class)
                        in_class = false;
                else if (!in_class && *s == '(')
                        depth++;
                else if (!in_class && *s == ')')
                        depth--;
                if (!in_class && depth == 0)
                        return s + 1;
        }
        return NULL;
}

/* The number of the set @s..end, a class or a single atom; a negative error. */
static int parse_set(struct parser *p, const char *s, const char *end) {
        struct regex_compiler *c = p->c;
        struct regex_set set = {
                .text = s, .size = (size_t)(end - s), .first_range = (uint32_t)c->n_ranges};
        bool class = *s == '[';
        const char *at = s + class, *stop = end - class;

        for (size_t i = 0; i < c->n_sets; i++)
                if (c->sets[i].size == set.size && memcmp(c->sets[i].text, s, set.size) == 0)
                        return (int)i;
        if (class && *at == '^') {
                set.negated = true;
                at++;
        }
        while (at && at < stop)
                at = add_item(p, &set, at, stop);
        if (!at || at != stop)
                return wrong(p, s);
        if (c->n_sets == REGEX_MAX_SETS)
                return err_set(p->e, ERR_UNSUPPORTED, "a pre-tokenizer's rules have too many sets");
        c->sets[c->n_sets] = set;
        return (int)c->n_sets++;
}

int regex_parse_set(struct regex_compiler *c, const char *text, struct err *e) {
        struct parser p = {c, text, e};

        return parse_set(&p, text, text + strlen(text));
}

/* --- programs --- */

static int emit_set(struct parser *p, enum regex_op op, const char *s, const char *end) {
        int set = s < end ? parse_set(p, s, end) : wrong(p, s);

        return set < 0 ? set : emit(p, op, (uint32_t)set, 0);
}

static int parse_atom(struct parser *p, const char *s, const char *end) {
        size_t n = (size_t)(end - s);

        if (*s != '(')
                return emit_set(p, REGEX_SET, s, end);
        if (n > 4 && memcmp(s, "(?!", 3) == 0)
                return emit_set(p, REGEX_NOT_NEXT, s + 3, end - 1);
        if (n > 5 && memcmp(s, "(?<!", 4) == 0)
                return emit_set(p, REGEX_NOT_BEFORE, s + 4, end - 1);
        if (n > 3 && memcmp(s, "(?:", 3) == 0)
                return parse_alternatives(p, s + 3, end - 1);
        return n > 2 && s[1] != '?' ? parse_alternatives(p, s + 1, end - 1) : wrong(p, s);
}

struct quantifier {
        uint32_t min, max;
};
#define NO_END UINT32_MAX

/* The quantifier at @s, if there is one; returns what follows, or NULL. */
static const char *read_quantifier(const char *s, const char *end, struct quantifier *q) {
        *q = (struct quantifier){1, 1};
        if (s == end)
                return s;
        switch (*s) {
        case '?':
                q->min = 0;
                return s + 1;
        case '+':
                q->max = NO_END;
                return s + 1;
        case '*':
                *q = (struct quantifier){0, NO_END};
                return s + 1;
        case '{':
                s = read_number(s + 1, 10, &q->min);
                q->max = q->min;
                if (s < end && *s == ',')
                        s = read_number(s + 1, 10, &q->max);
                return s < end && *s == '}' && q->min <= q->max ? s + 1 : NULL;
        default:
                return s;
        }
}

/* The atom s..end, repeated. */
static int parse_repeat(struct parser *p, const char *s, const char *end, struct quantifier q) {
        struct regex_compiler *c = p->c;
        uint32_t splits =
                0; /* the last one + 1; each names the one before in y until it is known */
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < q.min; i++)
                r = parse_atom(p, s, end);
        if (q.max == NO_END) {
                uint32_t split = (uint32_t)c->n_code;

                r = r < 0 ? r : emit(p, REGEX_SPLIT, split + 1, 0);
                r = r < 0 ? r : parse_atom(p, s, end);
                r = r < 0 ? r : emit(p, REGEX_JUMP, split, 0);
                if (r >= 0)
                        c->code[split].y = (uint32_t)c->n_code;
                return r;
        }
        for (unsigned i = q.min; r >= 0 && i < q.max; i++) {
                r = emit(p, REGEX_SPLIT, (uint32_t)c->n_code + 1, splits);
                splits = (uint32_t)c->n_code;
                r = r < 0 ? r : parse_atom(p, s, end);
        }
        while (r >= 0 && splits > 0) {
                struct regex_code *split = &c->code[splits - 1];

                splits = split->y;
                split->y = (uint32_t)c->n_code;
        }
        return r;
}

static int parse_sequence(struct parser *p, const char *s, const char *end) {
        static const char any[] = "[\\s\\S]";
        int r = 0;

        while (r >= 0 && s < end) {
                const char *atom = s, *atom_end;
                struct quantifier q;

                if (*s == '$') { /* no character at all follows */
                        r = emit_set(p, REGEX_NOT_NEXT, any, any + strlen(any));
                        s++;
                        continue;
                }
                atom_end = skip_atom(s, end);
                s = atom_end ? read_quantifier(atom_end, end, &q) : NULL;
                if (!s)
                        return wrong(p, atom);
                r = parse_repeat(p, atom, atom_end, q);
        }
        return r;
}

/* The end of the alternative at @s: a bar outside of groups and classes, or @end; NULL if wrong. */
static const char *skip_alternative(const char *s, const char *end) {
        while (s && s < end && *s != '|')
                s = skip_atom(s, end);
        return s;
}

static int parse_alternatives(struct parser *p, const char *s, const char *end) {
        struct regex_compiler *c = p->c;
        uint32_t jumps = 0; /* as the splits of parse_repeat() */
        int r = 0;

        for (;;) {
                const char *bar = skip_alternative(s, end);
                uint32_t split = (uint32_t)c->n_code;

                if (!bar)
                        return wrong(p, s);
                if (bar == end) {
                        r = parse_sequence(p, s, end);
                        break;
                }
                r = emit(p, REGEX_SPLIT, split + 1, 0);
                r = r < 0 ? r : parse_sequence(p, s, bar);
                r = r < 0 ? r : emit(p, REGEX_JUMP, jumps, 0);
                if (r < 0)
                        return r;
                jumps = (uint32_t)c->n_code;
                c->code[split].y = jumps;
                s = bar + 1;
        }
        while (r >= 0 && jumps > 0) {
                struct regex_code *jump = &c->code[jumps - 1];

                jumps = jump->x;
                jump->x = (uint32_t)c->n_code;
        }
        return r;
}

int regex_parse(struct regex_compiler *c, const char *rule, uint32_t *ret, struct err *e) {
        struct parser p = {c, rule, e};
        int r;

        *ret = (uint32_t)c->n_code;
        r = parse_alternatives(&p, rule, rule + strlen(rule));
        return r < 0 ? r : emit(&p, REGEX_MATCH, 0, 0);
}
