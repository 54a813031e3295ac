/* SPDX-License-Identifier: MIT */
/* Filters of numbers and of values of any kind; JSON. */
#include "jinja/filters.h"
#include "base/utf8.h"
#include "base/util.h"
#include "jinja/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_given(struct value v) {
        return v.type != T_UNDEFINED || v.missing;
}

static struct value f_abs(struct run *r, const struct call *c) {
        struct value v = c->self;

        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        if (v.type == T_FLOAT)
                return v_trusted(v_float(fabs(v.f)), v.trusted);
        if (!is_number(v))
                return v.type == T_UNDEFINED ? run_undefined(r, v)
                                             : run_fail(r, "abs() of '%s'", type_name(v));
        return as_int(v) < 0 ? unary(r, OP_SUB, v) : unary(r, OP_ADD, v);
}

static struct value f_attr(struct run *r, const struct call *c) {
        const struct string *name;
        struct value v;

        if (!bind_args(r, c, "name", 1, &v) || !(name = arg_string(r, c, v, NULL)))
                return UNDEFINED;
        if (c->self.type == T_DICT && !method_by_name(c->self, name))
                return undefined_variable(r, name);
        return get_attribute(r, c->self, name);
}

static struct value f_default(struct run *r, const struct call *c) {
        struct value v[2];

        if (!bind_args(r, c, "default_value boolean", 0, v))
                return UNDEFINED;
        if (c->self.type != T_UNDEFINED && !(arg_bool(v[1], false) && !is_true(c->self)))
                return c->self;
        return is_given(v[0]) ? v[0] : v_string(string_empty());
}

/* The text without blanks around it, and without underscores between digits. */
static size_t clean_number(const struct string *s, char out[NUMBER_SIZE]) {
        const char *text = s->text;
        size_t n = s->n, k = 0;

        utf8_trim(&text, &n);
        for (size_t i = 0; i < n && k < NUMBER_SIZE - 1; i++)
                if (text[i] != '_' || i == 0 || i + 1 == n || text[i - 1] == '_')
                        out[k++] = text[i];
        out[k] = 0;
        return k;
}

static struct value string_to_int(
        struct run *r, const struct string *s, int64_t base, struct value preset) {
        char text[NUMBER_SIZE];
        size_t n = clean_number(s, text), sign = text[0] == '-' || text[0] == '+';
        bool trusted = string_trusted_all(s, 0, s->n);
        int64_t i;
        double d;

        if (n > sign + 2 && text[sign] == '0') {
                int prefix = (text[sign + 1] | 32) == 'x'   ? 16
                             : (text[sign + 1] | 32) == 'o' ? 8
                             : (text[sign + 1] | 32) == 'b' ? 2
                                                            : 0;

                if (prefix && prefix == base) {
                        memmove(text + sign, text + sign + 2, n - sign - 1);
                        n -= 2;
                }
        }
        if (parse_int(text, n, (int)base, &i))
                return v_trusted(v_int(i), trusted);
        if (!looks_like_double(text, n))
                return preset;
        d = parse_double(text, n);
        if (!(fabs(d) < 0x1p63))
                return d - d == 0 ? run_fail(r, "an integer of more than 64 bits") : preset;
        return v_trusted(v_int((int64_t)d), trusted);
}

static struct value f_int(struct run *r, const struct call *c) {
        struct value v[2], preset;
        int64_t base;

        if (!bind_args(r, c, "default base", 0, v))
                return UNDEFINED;
        preset = is_given(v[0]) ? v[0] : v_trusted(v_int(0), true);
        base = arg_int(r, c, v[1], 10);
        if (base < 2 || base > 36)
                return run_fail(r, "int() to the base %lld", (long long)base);
        if (c->self.type == T_INT || c->self.type == T_BIG)
                return c->self;
        if (c->self.type == T_BOOL)
                return v_trusted(v_int(c->self.b), c->self.trusted);
        if (c->self.type == T_FLOAT)
                return fabs(c->self.f) < 0x1p63
                               ? v_trusted(v_int((int64_t)c->self.f), c->self.trusted)
                               : preset;
        if (c->self.type == T_UNDEFINED)
                return run_undefined(r, c->self);
        return c->self.type == T_STRING ? string_to_int(r, c->self.s, base, preset) : preset;
}

static struct value f_float(struct run *r, const struct call *c) {
        char text[NUMBER_SIZE];
        struct value v, preset;
        size_t n;

        if (!bind_args(r, c, "default", 0, &v))
                return UNDEFINED;
        preset = is_given(v) ? v : v_trusted(v_float(0), true);
        if (is_number(c->self))
                return v_trusted(v_float(as_double(c->self)), c->self.trusted);
        if (c->self.type == T_UNDEFINED)
                return run_undefined(r, c->self);
        if (c->self.type != T_STRING && c->self.type != T_BIG)
                return preset;
        n = clean_number(c->self.s, text);
        if (!looks_like_double(text, n))
                return preset;
        return v_trusted(
                v_float(parse_double(text, n)), string_trusted_all(c->self.s, 0, c->self.s->n));
}

/* @v rounded to @precision decimal places as Python's round() does: by its exact value, ties to
 * even. */
static double round_to(double v, int precision) {
        char text[NUMBER_SIZE + 40];
        double scale = 1, d;

        if (v - v != 0)
                return v;
        if (precision >= 0) {
                snprintf(text, sizeof(text), "%.*f", precision, v);
                return parse_double(text, strlen(text));
        }
        for (; precision < 0; precision++)
                scale *= 10;
        d = v / scale;
        return (fabs(d - trunc(d)) == 0.5 ? 2 * round(d / 2) : round(d)) * scale;
}

static double round_up_or_down(double v, int precision, bool up) {
        double scale = 1;

        for (int i = 0; i < abs(precision); i++)
                scale *= 10;
        if (precision < 0)
                scale = 1 / scale;
        return (up ? ceil(v * scale) : floor(v * scale)) / scale + 0.0; /* no -0 */
}

static struct value f_round(struct run *r, const struct call *c) {
        const struct string *method, *common = string_static(&r->arena, "common", true);
        struct value v[2];
        int64_t precision;
        double d;

        if (!bind_args(r, c, "precision method", 0, v) ||
                !(method = arg_string(r, c, v[1], common)))
                return UNDEFINED;
        precision = arg_int(r, c, v[0], 0);
        if (c->self.type == T_UNDEFINED)
                return run_undefined(r, c->self);
        if (!is_number(c->self))
                return run_fail(r, "round() of '%s'", type_name(c->self));
        if (precision < -20 || precision > 300)
                return run_fail(r, "round() to %lld places", (long long)precision);
        d = as_double(c->self);
        if (string_is_lit(method, "common"))
                d = round_to(d, (int)precision);
        else if (string_is_lit(method, "ceil") || string_is_lit(method, "floor"))
                d = round_up_or_down(d, (int)precision, string_is_lit(method, "ceil"));
        else
                return run_fail(r, "round() knows 'common', 'ceil' and 'floor'");
        if (c->self.type == T_FLOAT || !string_is_lit(method, "common"))
                return v_trusted(v_float(d), c->self.trusted);
        if (precision >= 0)
                return v_trusted(v_int(as_int(c->self)), c->self.trusted);
        return v_trusted(v_int((int64_t)d), c->self.trusted);
}

/* The style of tojson's arguments; false: they are wrong. */
static bool json_arguments(
        struct run *r, const struct call *c, const struct value v[4], struct json_style *style) {
        bool lines = is_given(v[1]) && v[1].type != T_NONE;
        struct text *blanks;
        int64_t width;

        *style = (struct json_style){
                .item_separator = string_static(&r->arena, lines ? "," : ", ", false),
                .key_separator = string_static(&r->arena, ": ", false),
                .ascii = arg_bool(v[0], false),
                .sort_keys = arg_bool(v[3], false)};
        if (lines && v[1].type == T_STRING) {
                style->indent = v[1].s;
        } else if (lines) {
                width = arg_int(r, c, v[1], 0);
                if (width > 1000) {
                        run_fail(r, "tojson() indents by at most 1000");
                        return false;
                }
                blanks = text_new(&r->arena, 0);
                for (int64_t i = 0; i < width; i++)
                        text_add_lit(blanks, " ", false);
                style->indent = text_finish(blanks);
        }
        if (is_given(v[2]) && v[2].type != T_NONE) {
                struct list *pair = to_list(r, v[2]);

                if (run_failed(r) || pair->n != 2 || pair->items[0].type != T_STRING ||
                        pair->items[1].type != T_STRING) {
                        run_fail(r, "tojson() takes two separators");
                        return false;
                }
                style->item_separator = pair->items[0].s;
                style->key_separator = pair->items[1].s;
        }
        return !run_failed(r);
}

static struct value f_tojson(struct run *r, const struct call *c) {
        struct json_style style;
        struct value v[4];
        struct text *t = text_new(&r->arena, 0);

        if (!bind_args(r, c, "ensure_ascii indent separators sort_keys", 0, v) ||
                !json_arguments(r, c, v, &style))
                return UNDEFINED;
        write_json(r, t, c->self, &style, 0);
        return v_string(text_finish(t));
}

static struct value f_string(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(to_string(r, c->self)) : UNDEFINED;
}

static const struct function filters[] = {{"abs", f_abs}, {"attr", f_attr}, {"default", f_default},
        {"d", f_default}, {"int", f_int}, {"float", f_float}, {"round", f_round},
        {"tojson", f_tojson}, {"string", f_string}, {"safe", f_string}};

const struct function *filter_find(const struct string *name) {
        const struct function *f = function_find(filters, ARRAY_SIZE(filters), name);

        f = f ? f : text_filter_find(name);
        return f ? f : list_filter_find(name);
}
