/* SPDX-License-Identifier: MIT */
/* Tests: what stands behind "is". */
#include "base/util.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include <string.h>

#define TYPE_TEST(name, condition)                                                                 \
        static struct value name(struct run *r, const struct call *c) {                            \
                struct value v = c->self;                                                          \
                                                                                                   \
                return bind_args(r, c, "", 0, NULL) ? v_bool(condition) : UNDEFINED;               \
        }

TYPE_TEST(t_defined, v.type != T_UNDEFINED)
TYPE_TEST(t_undefined, v.type == T_UNDEFINED)
TYPE_TEST(t_none, v.type == T_NONE)
TYPE_TEST(t_boolean, v.type == T_BOOL)
TYPE_TEST(t_true, v.type == T_BOOL && v.b)
TYPE_TEST(t_false, v.type == T_BOOL && !v.b)
TYPE_TEST(t_integer, v.type == T_INT || v.type == T_BIG)
TYPE_TEST(t_float, v.type == T_FLOAT)
TYPE_TEST(t_number, is_number(v) || v.type == T_BIG)
TYPE_TEST(t_string, v.type == T_STRING)
TYPE_TEST(t_mapping, v.type == T_DICT)
TYPE_TEST(t_iterable, is_iterable(v))
TYPE_TEST(t_sequence, is_iterable(v))
TYPE_TEST(t_callable, (v.type >= T_LOOP && v.type != T_CYCLER) || v.type == T_UNDEFINED)
TYPE_TEST(t_escaped, v.type != v.type)
TYPE_TEST(t_filter, v.type == T_STRING && filter_find(v.s))
TYPE_TEST(t_test, v.type == T_STRING && test_find(v.s))

/* v % of == what */
static struct value remainder_is(struct run *r, struct value v, struct value of, int64_t what) {
        return v_bool(values_equal(r, binary(r, OP_MOD, v, of), v_int(what)));
}

static struct value t_odd(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? remainder_is(r, c->self, v_int(2), 1) : UNDEFINED;
}

static struct value t_even(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? remainder_is(r, c->self, v_int(2), 0) : UNDEFINED;
}

static struct value t_divisibleby(struct run *r, const struct call *c) {
        struct value v;

        return bind_args(r, c, "num", 1, &v) ? remainder_is(r, c->self, v, 0) : UNDEFINED;
}

static struct value compare(struct run *r, const struct call *c, enum op op) {
        struct value v;

        return bind_args(r, c, "other", 1, &v) ? v_bool(compare_op(r, op, c->self, v)) : UNDEFINED;
}

#define COMPARE_TEST(name, op)                                                                     \
        static struct value name(struct run *r, const struct call *c) {                            \
                return compare(r, c, op);                                                          \
        }

COMPARE_TEST(t_eq, OP_EQ)
COMPARE_TEST(t_ne, OP_NE)
COMPARE_TEST(t_lt, OP_LT)
COMPARE_TEST(t_le, OP_LE)
COMPARE_TEST(t_gt, OP_GT)
COMPARE_TEST(t_ge, OP_GE)
COMPARE_TEST(t_in, OP_IN)

static struct value t_sameas(struct run *r, const struct call *c) {
        struct value v;

        if (!bind_args(r, c, "other", 1, &v))
                return UNDEFINED;
        if (v.type != c->self.type)
                return v_bool(false);
        if (v.type >= T_LIST)
                return v_bool(v.list == c->self.list);
        return v_bool(values_equal(r, c->self, v));
}

/* Cased characters of the one kind and none of the other. */
static struct value is_case(struct run *r, const struct call *c, bool (*wanted)(uint32_t c),
        bool (*other)(uint32_t c)) {
        const struct string *s = to_string(r, c->self);
        bool found = false;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k);

                if (other(ch))
                        return v_bool(false);
                found = found || wanted(ch);
        }
        return v_bool(found);
}

static struct value t_lower(struct run *r, const struct call *c) {
        return is_case(r, c, unicode_is_lower, unicode_is_upper);
}

static struct value t_upper(struct run *r, const struct call *c) {
        return is_case(r, c, unicode_is_upper, unicode_is_lower);
}

static const struct function tests[] = {{"defined", t_defined}, {"undefined", t_undefined},
        {"none", t_none}, {"boolean", t_boolean}, {"true", t_true}, {"false", t_false},
        {"integer", t_integer}, {"float", t_float}, {"number", t_number}, {"string", t_string},
        {"mapping", t_mapping}, {"iterable", t_iterable}, {"sequence", t_sequence},
        {"callable", t_callable}, {"escaped", t_escaped}, {"filter", t_filter}, {"test", t_test},
        {"odd", t_odd}, {"even", t_even}, {"divisibleby", t_divisibleby}, {"eq", t_eq},
        {"equalto", t_eq}, {"==", t_eq}, {"ne", t_ne}, {"!=", t_ne}, {"lt", t_lt},
        {"lessthan", t_lt}, {"<", t_lt}, {"le", t_le}, {"<=", t_le}, {"gt", t_gt},
        {"greaterthan", t_gt}, {">", t_gt}, {"ge", t_ge}, {">=", t_ge}, {"in", t_in},
        {"sameas", t_sameas}, {"lower", t_lower}, {"upper", t_upper}};

const struct function *test_find(const struct string *name) {
        return function_find(tests, ARRAY_SIZE(tests), name);
}
