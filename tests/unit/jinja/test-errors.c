/* SPDX-License-Identifier: MIT */
/* What is no template is refused, with the place and with what was expected. */
#include "base/util.h"
#include "unit/jinja/rig.h"
#include <stdlib.h>
#include <string.h>

static void syntax(void **state) {
        static const struct {
                const char *text, *message;
        } wrong[] = {
                {"{{ 1 + }}", "line 1, column 8: expected an expression, not '}}'"},
                {"abc\nd {{ x y }}",
                        "line 2, column 8: expected '}}' at the end of the expression, not "
                        "'y'"},
                {"{{ ä ", "line 1, column 6: the template ends inside of a tag"},
                {"ä{{ (1 }}", "line 1, column 8: '}' without its opening"},
                {"{{ 'a }}", "line 1, column 4: the string has no end"},
                {"x{# a", "line 1, column 2: the comment has no end"},
                {"{% if 1 %}\nx", "line 1, column 4: 'endif' is missing"},
                {"{% for x in y %}{% endif %}",
                        "line 1, column 20: no tag begins with 'endif' here"},
                {"{% for x of y %}",
                        "line 1, column 10: expected 'in' behind the names of 'for', not "
                        "'of'"},
                {"{% set 1 = 2 %}", "line 1, column 8: expected a name, not a number"},
                {"{% nope %}", "line 1, column 4: no tag begins with 'nope' here"},
                {"{% raw %}x", "line 1, column 10: 'endraw' is missing"},
                {"{% macro m(a=1, b) %}", "expected '=', as the parameter before has a default"},
                {"{{ f(a=1, 2) }}", "expected NAME=VALUE, as the argument before"},
                {"{% break %}", "line 1, column 4: 'break' outside of a loop"},
                {"{% for i in x %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
                        "'break' outside of a loop"},
                {"{{ a ? b }}", "line 1, column 6: a character that means nothing here"},
                {"{{ 99999999999999999999 }}", "line 1, column 4: the number is too large"},
                {"{{ {'a' 1} }}", "expected ':' between key and value, not a number"},
                {"{{ a[] }}", "expected an index, not ']'"},
                {"{{ '\\xzz' }}", "a hexadecimal digit is missing"},
                {"{{ '\\ud800' }}", "there is no such character"},
                {"{% call x %}{% endcall %}", "expected the call of a macro"},
                {"{% if x %}{% else %}{% elif y %}{% endif %}", "no tag begins with 'elif' here"},
                {"{{ }}", "expected an expression, not '}}'"},
                {"{% set x = 1 }}", "line 1, column 14: '}' without its opening"},
                {"{{ 1 %}", "line 1, column 7: '}' without its opening"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                rig_expect_error(wrong[i].text, NULL, ERR_FORMAT, wrong[i].message);
}

static void other_templates(void **state) {
        static const char *const texts[] = {"{% include 'x' %}", "{% import 'x' as y %}",
                "{% from 'x' import y %}", "{% extends 'x' %}", "{% block x %}{% endblock %}"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                rig_expect_error(texts[i], NULL, ERR_UNSUPPORTED,
                        "line 1, column 4: the tag reaches for another template");
}

static void too_long(void **state) {
        struct jinja *t = NULL;
        char *text = calloc(1, (4 << 20) + 1);
        struct err e;

        assert_non_null(text);
        memset(text, 'x', (4 << 20) + 1);
        assert_int_equal(jinja_parse(&t, text, 4 << 20, 0, &e), 0);
        t = jinja_free(t);
        assert_int_equal(jinja_parse(&t, text, (4 << 20) + 1, 0, &e), -ERR_TOO_LARGE);
        assert_null(t);
        free(text);
}

/* Bytes that are no UTF-8, and NUL, are text like any other, and no names. */
static void bytes(void **state) {
        static const char text[] = "\xFF\0{{ '\xFE\0' | length }}\xC3";
        struct jinja_out out = JINJA_OUT_NULL;
        struct jinja_input input = {0};
        struct jinja *t = NULL;
        struct err e;

        assert_int_equal(jinja_parse(&t, text, sizeof(text) - 1, 0, &e), 0);
        assert_int_equal(jinja_render(t, &input, &out, &e), 0);
        assert_int_equal(out.size, 4);
        assert_memory_equal(out.text,
                "\xFF\0"
                "2\xC3",
                4);
        jinja_out_deinit(&out);
        t = jinja_free(t);
        assert_int_equal(jinja_parse(&t, "{{ \xFF }}", 8, 0, &e), -ERR_FORMAT);
        assert_int_equal(jinja_parse(&t, "{{ \0 }}", 8, 0, &e), -ERR_FORMAT);
        assert_null(t);
}

/* Halves of a character, as two characters and as one. */
static void halves(void **state) {
        static const char text[] = "{% set a = '\xC3' %}{% set b = '\xA4' %}{% set c = a ~ b %}{{ "
                                   "c | length }}{{ c[0] }}{{ c[1] "
                                   "is defined }}{{ c[-1:] }}{{ (a ~ 'x')[0] | length }}{{ "
                                   "c.find(b) }}{{ [a, b] | join | "
                                   "length }}{{ (c * 2)[1:] | upper }}";
        struct jinja_out out = JINJA_OUT_NULL;
        struct jinja_input input = {0};
        struct jinja *t = NULL;
        struct err e;

        assert_int_equal(jinja_parse(&t, text, sizeof(text) - 1, 0, &e), 0);
        if (jinja_render(t, &input, &out, &e) < 0)
                fail_msg("%s", e.msg);
        assert_string_equal(out.text, "1äFalseä111Ä");
        jinja_out_deinit(&out);
        jinja_free(t);
}

/* A template may be rendered by several callers, one after another, with the same result. */
static void again(void **state) {
        struct jinja_input input = {0};
        struct jinja *t = NULL;
        static const char text[] =
                "{% set n = namespace(x=[]) %}{% set _ = n.x.append(1) %}{{ n.x }}";

        assert_int_equal(jinja_parse(&t, text, strlen(text), 0, NULL), 0);
        for (int i = 0; i < 3; i++) {
                struct jinja_out out = JINJA_OUT_NULL;

                assert_int_equal(jinja_render(t, &input, &out, NULL), 0);
                assert_string_equal(out.text, "[1]");
                jinja_out_deinit(&out);
        }
        jinja_free(t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(syntax),
                cmocka_unit_test(other_templates),
                cmocka_unit_test(too_long),
                cmocka_unit_test(bytes),
                cmocka_unit_test(halves),
                cmocka_unit_test(again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
