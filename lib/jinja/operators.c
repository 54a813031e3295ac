/* SPDX-License-Identifier: MIT */
/* Arithmetic as Python has it, in 64 bits: what does not fit is an error, never another number. */
#include "base/util.h"
#include "jinja/run.h"
#include <math.h>
#include <string.h>

static struct value unsupported(struct run *r, const char *words, struct value a, struct value b) {
        if (a.type == T_UNDEFINED)
                return run_undefined(r, a);
        if (b.type == T_UNDEFINED)
                return run_undefined(r, b);
        if (a.type == T_BIG || b.type == T_BIG)
                return run_fail(r, "%s: an integer of more than 64 bits", words);
        return run_fail(
                r, "%s does not go together with '%s' and '%s'", words, type_name(a), type_name(b));
}

static struct value too_large(struct run *r) {
        return run_fail(r, "the result has more than 64 bits");
}

struct value unary(struct run *r, enum op op, struct value v) {
        bool minus = op == OP_SUB;

        if (v.type == T_FLOAT)
                return v_trusted(v_float(minus ? -v.f : v.f), v.trusted);
        if (v.type == T_INT || v.type == T_BOOL) {
                int64_t i = as_int(v);

                if (minus && i == INT64_MIN)
                        return too_large(r);
                return v_trusted(v_int(minus ? -i : i), v.trusted);
        }
        if (v.type == T_UNDEFINED)
                return run_undefined(r, v);
        return run_fail(r, "'%s' has no sign", type_name(v));
}

/* Rounded towards minus infinity, as // and % are. */
static double floor_mod(double a, double b) {
        double m = fmod(a, b);

        if (m != 0)
                return (m < 0) != (b < 0) ? m + b : m;
        return copysign(0, b);
}

static double floor_div(double a, double b) {
        double m = floor_mod(a, b), d = (a - m) / b, f;

        if (d == 0)
                return copysign(0, a / b);
        f = floor(d);
        return d - f > 0.5 ? f + 1 : f;
}

static struct value int_power(struct run *r, int64_t base, int64_t exponent) {
        int64_t v = 1;

        while (exponent > 0) {
                if (exponent & 1 && __builtin_mul_overflow(v, base, &v))
                        return too_large(r);
                exponent >>= 1;
                if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
                        return too_large(r);
        }
        return v_int(v);
}

/* By squaring: the exponents that templates have are small and whole. */
static struct value power(struct run *r, struct value a, struct value b) {
        double base = as_double(a), v = 1;
        int64_t n;

        if (b.type == T_FLOAT && (b.f != floor(b.f) || fabs(b.f) > 0x1p20))
                return run_fail(r, "** needs a whole exponent");
        n = b.type == T_FLOAT ? (int64_t)b.f : as_int(b);
        if (a.type != T_FLOAT && b.type != T_FLOAT && n >= 0)
                return int_power(r, as_int(a), n);
        if (base == 0 && n < 0)
                return run_fail(r, "0 has no negative power");
        if (n < -(1 << 20) || n > 1 << 20)
                return run_fail(r, "the exponent is too large");
        for (int64_t left = n < 0 ? -n : n; left > 0; left >>= 1) {
                if (left & 1)
                        v *= base;
                base *= base;
        }
        return v_float(n < 0 ? 1 / v : v);
}

static struct value float_op(struct run *r, enum op op, double a, double b) {
        if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && b == 0)
                return run_fail(r, "division by zero");
        switch (op) {
        case OP_ADD:
                return v_float(a + b);
        case OP_SUB:
                return v_float(a - b);
        case OP_MUL:
                return v_float(a * b);
        case OP_DIV:
                return v_float(a / b);
        case OP_FLOORDIV:
                return v_float(floor_div(a, b));
        default:
                return v_float(floor_mod(a, b));
        }
}

static struct value int_op(struct run *r, enum op op, int64_t a, int64_t b) {
        int64_t v;
        bool overflow = false;

        switch (op) {
        case OP_ADD:
                overflow = __builtin_add_overflow(a, b, &v);
                break;
        case OP_SUB:
                overflow = __builtin_sub_overflow(a, b, &v);
                break;
        case OP_MUL:
                overflow = __builtin_mul_overflow(a, b, &v);
                break;
        default:
                if (b == 0)
                        return run_fail(r, "division by zero");
                if (a == INT64_MIN && b == -1) {
                        if (op == OP_FLOORDIV)
                                return too_large(r);
                        return v_int(0);
                }
                v = op == OP_FLOORDIV ? a / b - (a % b != 0 && (a < 0) != (b < 0))
                                      : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
                break;
        }
        return overflow ? too_large(r) : v_int(v);
}

static struct value number_op(struct run *r, enum op op, struct value a, struct value b) {
        struct value v;

        if (op == OP_POW)
                v = power(r, a, b);
        else if (op == OP_DIV || a.type == T_FLOAT || b.type == T_FLOAT)
                v = float_op(r, op, as_double(a), as_double(b));
        else
                v = int_op(r, op, as_int(a), as_int(b));
        return v_trusted(v, a.trusted && b.trusted);
}

static struct value concat_lists(struct run *r, struct value a, struct value b) {
        struct list *l;

        if (!run_items(r, a.list->n + b.list->n))
                return UNDEFINED;
        l = list_new(&r->arena, a.list->n + b.list->n);
        for (size_t i = 0; i < a.list->n; i++)
                list_add(&r->arena, l, a.list->items[i]);
        for (size_t i = 0; i < b.list->n; i++)
                list_add(&r->arena, l, b.list->items[i]);
        return a.type == T_TUPLE ? v_tuple(l) : v_list(l);
}

static struct value concat_strings(struct run *r, const struct string *a, const struct string *b) {
        return run_bytes(r, a->n + b->n) ? v_string(string_concat(&r->arena, a, b)) : UNDEFINED;
}

/* @v, a string or list, @times after itself. */
static struct value repeat(struct run *r, struct value v, int64_t times) {
        size_t one = v.type == T_STRING ? v.s->n : v.list->n, all;
        struct text *t;
        struct list *l;

        if (times <= 0 || one == 0)
                times = one = 0;
        if (mul_overflow(one, (size_t)times, &all))
                all = SIZE_MAX / 2;
        if (!(v.type == T_STRING ? run_bytes(r, all) : run_items(r, all)))
                return UNDEFINED;
        run_work(r, (uint64_t)times);
        if (v.type == T_STRING) {
                t = text_new(&r->arena, all);
                for (int64_t i = 0; i < times && !run_failed(r); i++)
                        text_add_string(t, v.s);
                return v_string(text_finish(t));
        }
        l = list_new(&r->arena, all);
        for (int64_t i = 0; i < times && !run_failed(r); i++)
                for (size_t k = 0; k < one; k++)
                        list_add(&r->arena, l, v.list->items[k]);
        return v.type == T_TUPLE ? v_tuple(l) : v_list(l);
}

static bool repeatable(struct value v, struct value times) {
        return (v.type == T_STRING || is_sequence(v)) &&
               (times.type == T_INT || times.type == T_BOOL);
}

struct value binary(struct run *r, enum op op, struct value a, struct value b) {
        static const char *const words[] = {[OP_ADD] = "'+'",
                [OP_SUB] = "'-'",
                [OP_MUL] = "'*'",
                [OP_DIV] = "'/'",
                [OP_FLOORDIV] = "'//'",
                [OP_MOD] = "'%'",
                [OP_POW] = "'**'"};

        if (op == OP_CONCAT)
                return concat_strings(r, to_string(r, a), to_string(r, b));
        if (is_number(a) && is_number(b))
                return number_op(r, op, a, b);
        if (op == OP_ADD && a.type == T_STRING && b.type == T_STRING)
                return concat_strings(r, a.s, b.s);
        if (op == OP_ADD && is_sequence(a) && a.type == b.type)
                return concat_lists(r, a, b);
        if (op == OP_MUL && repeatable(a, b))
                return repeat(r, a, as_int(b));
        if (op == OP_MUL && repeatable(b, a))
                return repeat(r, b, as_int(a));
        if (op == OP_MOD && a.type == T_STRING)
                return format_percent(r, a.s, b);
        return unsupported(r, words[op], a, b);
}
