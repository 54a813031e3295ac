/* SPDX-License-Identifier: MIT */
/*
 * "%s and %d" % (a, b), and "{} and {name}".format(a, name=b), as Python has them. Text of the
 * format and of the arguments keeps its origin; padding counts as data.
 */
#include "base/util.h"
#include "jinja/number.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_WIDTH 100000
#define MAX_PRECISION 60

struct spec {
        bool left, zero, plus, blank, alternate, commas;
        char align; /* '<', '>', '^', '=' or 0 */
        uint32_t fill;
        int64_t width, precision; /* -1: none */
        char conversion;
};

/* Up to @width characters: @s among fill. */
static void put_padded(struct run *r, struct text *t, const struct string *s,
        const struct spec *spec, char align) {
        size_t n = s->n_chars, pad;
        size_t before;

        if (spec->width <= (int64_t)n) {
                text_add_string(t, s);
                return;
        }
        pad = (size_t)spec->width - n;
        before = align == '>' ? pad : align == '^' ? pad / 2 : 0;
        if (!run_work(r, 1 + pad / 4))
                return;
        for (size_t i = 0; i < before; i++)
                text_add_char(t, spec->fill, false);
        text_add_string(t, s);
        for (size_t i = before; i < pad; i++)
                text_add_char(t, spec->fill, false);
}

/* A number: sign, then zeros up to the width if they are wanted, then digits. */
static void put_number(struct run *r, struct text *t, const char *digits, bool negative,
        bool trusted, const struct spec *spec) {
        const char *sign = negative ? "-" : spec->plus ? "+" : spec->blank ? " " : "";
        int64_t pad = spec->width - (int64_t)(strlen(sign) + strlen(digits));
        bool zeros = spec->zero && !spec->left && (spec->align == 0 || spec->align == '=');
        struct text *number = text_new(&r->arena, 0);

        if (!number || !run_work(r, 1 + (uint64_t)MAX(pad, 0) / 4))
                return;
        text_add(number, sign, strlen(sign), trusted);
        for (; zeros && pad > 0; pad--)
                text_add_lit(number, "0", trusted);
        text_add(number, digits, strlen(digits), trusted);
        put_padded(r, t, text_finish(number), spec,
                spec->left                          ? '<'
                : spec->align && spec->align != '=' ? spec->align
                                                    : '>');
}

static void put_integer(struct run *r, struct text *t, struct value v, const struct spec *spec) {
        char digits[80], grouped[120];
        uint64_t u;
        int64_t i;
        size_t n, k = 0;

        if (v.type == T_FLOAT && fabs(v.f) < 0x1p62)
                v = v_trusted(v_int((int64_t)v.f), v.trusted);
        if (v.type != T_INT && v.type != T_BOOL) {
                run_fail(r, "%%%c needs a number, not %s", spec->conversion, type_name(v));
                return;
        }
        i = as_int(v);
        u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
        if (spec->conversion == 'x' || spec->conversion == 'X')
                snprintf(digits, sizeof(digits), spec->conversion == 'x' ? "%s%llx" : "%s%llX",
                        spec->alternate ? (spec->conversion == 'x' ? "0x" : "0X") : "",
                        (unsigned long long)u);
        else if (spec->conversion == 'o')
                snprintf(digits, sizeof(digits), "%s%llo", spec->alternate ? "0o" : "",
                        (unsigned long long)u);
        else
                snprintf(digits, sizeof(digits), "%.*llu",
                        (int)MAX(0, MIN(spec->precision, (int64_t)MAX_PRECISION)),
                        (unsigned long long)u);
        if (u == 0 && spec->precision <= 0 && spec->conversion != 'x' && spec->conversion != 'X' &&
                spec->conversion != 'o')
                snprintf(digits, sizeof(digits), "0");
        n = strlen(digits);
        for (size_t d = 0; d < n; d++) {
                if (spec->commas && d > 0 && (n - d) % 3 == 0)
                        grouped[k++] = ',';
                grouped[k++] = digits[d];
        }
        grouped[k] = 0;
        put_number(r, t, grouped, i < 0, v.trusted, spec);
}

static void put_float(struct run *r, struct text *t, struct value v, const struct spec *spec) {
        char format[16], digits[NUMBER_SIZE + MAX_PRECISION];
        int precision = spec->precision < 0 ? 6 : (int)MIN(spec->precision, (int64_t)MAX_PRECISION);
        double d;

        if (!is_number(v)) {
                run_fail(r, "%%%c needs a number, not %s", spec->conversion, type_name(v));
                return;
        }
        d = as_double(v);
        snprintf(format, sizeof(format), "%%%s.*%c", spec->alternate ? "#" : "", spec->conversion);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        /* The format is one of %.*e %.*f %.*g, in either case, with or without '#'. */
        snprintf(digits, sizeof(digits), format, precision, fabs(d));
#pragma GCC diagnostic pop
        put_number(r, t, digits, signbit(d) && d == d, v.trusted, spec);
}

static void put_value(struct run *r, struct text *t, struct value v, const struct spec *spec) {
        const struct string *s;
        struct text *repr;

        switch (spec->conversion) {
        case 'd':
        case 'i':
        case 'u':
        case 'x':
        case 'X':
        case 'o':
                put_integer(r, t, v, spec);
                return;
        case 'f':
        case 'F':
        case 'e':
        case 'E':
        case 'g':
        case 'G':
                put_float(r, t, v, spec);
                return;
        case 'r':
        case 'a':
                repr = text_new(&r->arena, 0);
                write_repr(r, repr, v);
                s = text_finish(repr);
                break;
        default:
                s = to_string(r, v);
                break;
        }
        if (spec->precision >= 0 && (uint64_t)spec->precision < s->n_chars && run_bytes(r, s->n))
                s = string_slice(&r->arena, s, 0, string_offset(s, (size_t)spec->precision));
        if (run_bytes(r, s->n))
                put_padded(r, t, s, spec, spec->left ? '<' : spec->align ? spec->align : '>');
}

/* The values of a % operator: one after another, or by name. */
struct values {
        struct value all;
        size_t next;
        bool by_name;
};

static struct value next_value(struct run *r, struct values *v) {
        if (v->all.type == T_TUPLE) {
                if (v->next < v->all.list->n)
                        return v->all.list->items[v->next++];
        } else if (v->next++ == 0) {
                return v->all;
        }
        return run_fail(r, "too few values for the format");
}

static struct value named_value(
        struct run *r, struct values *v, const struct string *format, size_t *at) {
        const char *end = memchr(format->text + *at, ')', format->n - *at);
        size_t from = *at + 1;
        struct entry *e;

        v->by_name = true;
        if (!end || v->all.type != T_DICT)
                return run_fail(r, end ? "%%(name) needs a dict" : "%%( without ')'");
        *at = (size_t)(end - format->text) + 1;
        e = dict_find_string(
                v->all.dict, string_slice(&r->arena, format, from, (size_t)(end - format->text)));
        return e ? e->value : run_fail(r, "the dict lacks a name of the format");
}

/* Digits or '*' at *at; -1: there are none. */
static int64_t read_count(
        struct run *r, struct values *v, const struct string *format, size_t *at, int64_t max) {
        int64_t n = 0;

        if (*at < format->n && format->text[*at] == '*' && v) {
                struct value width = next_value(r, v);

                ++*at;
                if (width.type != T_INT)
                        run_fail(r, "* needs an integer");
                n = width.type == T_INT ? width.i : 0;
                if (n < 0 || n > max)
                        run_fail(r, "a width or precision is out of range");
                return MIN(MAX(n, (int64_t)0), max);
        }
        if (*at >= format->n || format->text[*at] < '0' || format->text[*at] > '9')
                return -1;
        for (; *at < format->n && format->text[*at] >= '0' && format->text[*at] <= '9'; ++*at)
                n = MIN(n * 10 + format->text[*at] - '0', max + 1);
        if (n > max)
                run_fail(r, "a width or precision is out of range");
        return MIN(n, max);
}

/* One conversion; *at stands behind its '%'. */
static void put_conversion(struct run *r, struct text *t, const struct string *format, size_t *at,
        struct values *values) {
        struct spec spec = {.width = -1, .precision = -1, .fill = ' '};
        struct value v = UNDEFINED;
        bool named = *at < format->n && format->text[*at] == '(';

        if (named)
                v = named_value(r, values, format, at);
        for (; *at < format->n && format->text[*at] && strchr("-0+ #", format->text[*at]); ++*at) {
                char c = format->text[*at];

                spec.left |= c == '-';
                spec.zero |= c == '0';
                spec.plus |= c == '+';
                spec.blank |= c == ' ';
                spec.alternate |= c == '#';
        }
        spec.width = read_count(r, values, format, at, MAX_WIDTH);
        if (*at < format->n && format->text[*at] == '.') {
                ++*at;
                spec.precision = MAX(read_count(r, values, format, at, MAX_WIDTH), (int64_t)0);
        }
        if (*at >= format->n || !format->text[*at] ||
                !strchr("diuxXofFeEgGsra%", format->text[*at])) {
                run_fail(r, "the format has no such conversion");
                return;
        }
        spec.conversion = format->text[(*at)++];
        if (spec.conversion == '%') {
                text_add_lit(t, "%", false);
                return;
        }
        if (!named && !run_failed(r))
                v = next_value(r, values);
        if (!run_failed(r))
                put_value(r, t, v, &spec);
}

struct value format_percent(struct run *r, const struct string *format, struct value args) {
        struct values values = {.all = args};
        struct text *t = text_new(&r->arena, format->n);
        size_t at = 0;

        if (!run_bytes(r, format->n))
                return UNDEFINED;
        while (at < format->n && run_work(r, 1)) {
                const char *p = memchr(format->text + at, '%', format->n - at);
                size_t to = p ? (size_t)(p - format->text) : format->n;

                text_add_part(t, format, at, to);
                at = to + 1;
                if (p)
                        put_conversion(r, t, format, &at, &values);
        }
        if (args.type == T_TUPLE ? values.next < args.list->n
                                 : values.next == 0 && !values.by_name && args.type != T_DICT &&
                                           args.type != T_LIST && args.type != T_UNDEFINED)
                return run_fail(r, "not all values are used by the format");
        return v_string(text_finish(t));
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static void read_braces_spec(struct run *r, const struct string *s, size_t at, struct spec *spec) {
        size_t k = 0;
        uint32_t fill = at < s->n ? char_at(s->text, s->n, at, &k) : ' ';

        *spec = (struct spec){.width = -1, .precision = -1, .fill = ' ', .conversion = 's'};
        if (at + k < s->n && k > 0 && s->text[at + k] && strchr("<>^=", s->text[at + k])) {
                spec->fill = fill;
                spec->align = s->text[at + k];
                at += k + 1;
        } else if (at < s->n && s->text[at] && strchr("<>^=", s->text[at])) {
                spec->align = s->text[at++];
        }
        for (; at < s->n && s->text[at] && strchr("+- #0", s->text[at]); at++) {
                spec->plus |= s->text[at] == '+';
                spec->blank |= s->text[at] == ' ';
                spec->alternate |= s->text[at] == '#';
                spec->zero |= s->text[at] == '0';
        }
        spec->width = read_count(r, NULL, s, &at, MAX_WIDTH);
        if (at < s->n && s->text[at] == ',') {
                spec->commas = true;
                at++;
        }
        if (at < s->n && s->text[at] == '.') {
                at++;
                spec->precision = read_count(r, NULL, s, &at, MAX_WIDTH);
        }
        if (at < s->n && s->text[at] && strchr("dxXofFeEgGs", s->text[at]))
                spec->conversion = s->text[at++];
        else
                spec->conversion = 0;
        if (at < s->n)
                run_fail(r, "format() does not know '%.*s'", (int)MIN(s->n - at, (size_t)20),
                        s->text + at);
}

static void put_formatted(
        struct run *r, struct text *t, struct value v, const struct string *spec_text) {
        struct spec spec;

        read_braces_spec(r, spec_text, 0, &spec);
        if (!spec.conversion && is_number(v) && v.type != T_BOOL && spec_text->n > 0) {
                if (v.type == T_INT)
                        spec.conversion = 'd';
                else if (spec.precision >= 0)
                        spec.conversion = 'g';
                else
                        spec.align = spec.align ? spec.align : '>';
        }
        if (!spec.conversion || spec.conversion == 's') {
                spec.conversion = 's';
                spec.align = spec.align ? spec.align : '<';
        }
        if (!run_failed(r))
                put_value(r, t, v, &spec);
}

/* The value of a field "0.name", "name" or "" (the next one). */
static struct value field_value(
        struct run *r, const struct call *c, const struct string *field, size_t *next) {
        size_t n = 0;
        int64_t i;
        const struct string *first;
        struct value v = UNDEFINED;
        bool found = false;

        while (n < field->n && field->text[n] != '.' && field->text[n] != '[')
                n++;
        first = string_slice(&r->arena, field, 0, n);
        if (n == 0 || parse_int(first->text, first->n, 10, &i)) {
                i = n == 0 ? (int64_t)(*next)++ : i;
                found = i >= 0 && i < (int64_t)c->n;
                if (found)
                        v = c->args[i];
        } else {
                for (size_t k = 0; k < c->n_named && !found; k++)
                        if (string_equal(c->names[k], first)) {
                                v = c->named[k];
                                found = true;
                        }
        }
        if (!found)
                return run_fail(r, "format() lacks a value for '{%.*s}'",
                        (int)MIN(field->n, (size_t)40), field->text);
        if (n < field->n && field->text[n] == '.')
                return get_path(r, v, v_string(string_slice(&r->arena, field, n + 1, field->n)));
        if (n < field->n)
                return run_fail(r, "format() knows no brackets");
        return v;
}

static void put_field(
        struct run *r, const struct call *c, struct text *t, size_t from, size_t to, size_t *next) {
        const struct string *format = c->self.s;
        const char *colon = memchr(format->text + from, ':', to - from);
        size_t end = colon ? (size_t)(colon - format->text) : to;
        const struct string *spec = string_slice(&r->arena, format, colon ? end + 1 : to, to);
        struct text *repr = NULL;
        struct value v;

        if (end - from >= 2 && format->text[end - 2] == '!') {
                repr = format->text[end - 1] == 'r' ? text_new(&r->arena, 0) : NULL;
                end -= 2;
        }
        v = field_value(r, c, string_slice(&r->arena, format, from, end), next);
        if (repr && !run_failed(r)) {
                write_repr(r, repr, v);
                v = v_string(text_finish(repr));
        }
        if (!run_failed(r))
                put_formatted(r, t, v, spec);
}

struct value format_braces(struct run *r, const struct call *c) {
        const struct string *s = c->self.s;
        struct text *t = text_new(&r->arena, s->n);
        size_t next = 0, start = 0, i = 0;

        if (!run_bytes(r, s->n))
                return UNDEFINED;
        while (i < s->n && !run_failed(r)) {
                char ch = s->text[i];
                const char *end;

                if (ch != '{' && ch != '}') {
                        i++;
                        continue;
                }
                text_add_part(t, s, start, i);
                if (i + 1 < s->n && s->text[i + 1] == ch) {
                        text_add_part(t, s, i, i + 1);
                        start = i += 2;
                        continue;
                }
                end = ch == '{' ? memchr(s->text + i, '}', s->n - i) : NULL;
                if (!end || !run_work(r, 4 + c->n_named))
                        return run_fail(r, "format() has a '%c' alone", ch);
                put_field(r, c, t, i + 1, (size_t)(end - s->text), &next);
                start = i = (size_t)(end - s->text) + 1;
        }
        if (start < s->n)
                text_add_part(t, s, start, s->n);
        return v_string(text_finish(t));
}
