/* SPDX-License-Identifier: MIT */
/* What templates render to. compare-python.py compares far more, where Python's Jinja2 is. */
#include "base/util.h"
#include "unit/jinja/rig.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct example {
        const char *text, *want;
};

static void check(const struct example *examples, size_t n) {
        for (size_t i = 0; i < n; i++)
                rig_expect(examples[i].text,
                        "{\"s\": \"text\", \"l\": [1, \"two\", null, 2.5, true], \"d\": {\"b\": 1, "
                        "\"a\": [2]}, \"none\": null, \"big\": 123456789012345678901234567890}",
                        examples[i].want);
}
#define CHECK(examples) check(examples, ARRAY_SIZE(examples))

static void literals(void **state) {
        static const struct example examples[] = {
                {"{{ 1 }} {{ 1_000 }} {{ 0x1f }} {{ 1.5e3 }} {{ 0.5 }}", "1 1000 31 1500.0 0.5"},
                {"{{ true }} {{ False }} {{ none }} {{ None }}", "True False None None"},
                {"{{ 'a\\n\\x41\\u00e4\\q' 'b' }}{{ \"it's\" }}", "a\nAä\\qbit's"},
                {"{{ [1, 'a', none, [2.0]] }}", "[1, 'a', None, [2.0]]"},
                {"{{ (1,) }}{{ () }}{{ (1, 2) }}", "(1,)()(1, 2)"},
                {"{{ {'a': 1, 2: \"it's\"} }}", "{'a': 1, 2: \"it's\"}"},
        };

        CHECK(examples);
        rig_expect_error("{{ .5 }}", NULL, ERR_FORMAT, "line 1, column 4: expected an expression");
}

static void numbers(void **state) {
        static const struct example examples[] = {
                {"{{ 0.1 + 0.2 }}|{{ 1e16 }}|{{ 1e15 }}|{{ 1e-5 }}|{{ -0.0 }}|{{ 100.0 }}",
                        "0.30000000000000004|1e+16|1000000000000000.0|1e-05|-0.0|100.0"},
                {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 3 / 2 }} {{ 4 / 2 }}",
                        "3 -4 2 -2 1.5 2.0"},
                {"{{ 5.5 // 2 }} {{ -5.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}",
                        "2.0 0.5 1024 0.5 64"},
                {"{{ -2 ** 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ -1 | abs }}", "4 7 9 1"},
                {"{{ v.big }} {{ v.big | tojson }} {{ v.big is integer }} {{ v.big == v.big }}",
                        "123456789012345678901234567890 123456789012345678901234567890 True True"},
                {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 1.21 | round(1, "
                 "'ceil') }}",
                        "2.0 4.0 2.67 1.3"},
                {"{{ '42' | int + 1 }} {{ 'x' | int(7) }} {{ '0x1f' | int(base=16) }} {{ '3.9' | "
                 "int }} {{ '1.5' | float }}",
                        "43 7 31 3 1.5"},
        };

        CHECK(examples);
        rig_expect_error("{{ 9223372036854775807 + 1 }}", NULL, ERR_INVALID, "64 bits");
        rig_expect_error("{{ 1 - v.big }}", "{\"big\": 12345678901234567890}", ERR_INVALID,
                "line 1, column 6: '-': an integer of more than 64 bits");
        rig_expect_error("{{ 1 // 0 }}", NULL, ERR_INVALID, "division by zero");
}

static void comparisons(void **state) {
        static const struct example examples[] = {
                {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ '1' == 1 }}",
                        "True False True False"},
                {"{{ [1, [2]] == [1, [2.0]] }} {{ {'a': 1} == {'a': 1} }} {{ 'Z' < 'a' }}",
                        "True True True"},
                {"{{ not 1 == 2 }} {{ 1 in [1] }} {{ 'b' not in 'abc' }} {{ 'a' in {'a': 1} }}",
                        "True True False True"},
                {"{{ 'a' and 'b' }} {{ '' or 'c' }} {{ 1 if 0 else 2 if 0 else 3 }}", "b c 3"},
                {"{{ x is defined }} {{ x is undefined }} {{ none is none }} {{ 3 is odd }}",
                        "False True True True"},
                {"{{ 4 is divisibleby 2 }} {{ 'a' is string }} {{ {} is mapping }} {{ 1 is not "
                 "number }}",
                        "True True True False"},
        };

        CHECK(examples);
        rig_expect_error("{{ 1 < 'a' }}", NULL, ERR_INVALID, "'int' and 'str' have no order");
}

static void attributes(void **state) {
        static const struct example examples[] = {
                {"{{ v.d.b }}{{ v['d']['a'][0] }}{{ v.l[-1] }}{{ v.l[1] }}", "12Truetwo"},
                {"{{ v.l[1:3] }}{{ v.l[::-2] }}{{ 'hello'[1:-1] }}{{ 'hello'[::-1] }}",
                        "['two', None][True, None, 1]ellolleh"},
                {"{{ 'äöü'[1] }}{{ '日本語'[1:] }}{{ '日本語' | length }}{{ 'äöü'.find('ü') }}",
                        "ö本語32"},
                {"{{ v.nope }}{{ v.l[9] }}{{ none.x }}{{ 'ab'[7] }}|", "|"},
                {"{{ v.d.items() }}{{ v.d.get('z', 5) }}{{ v.d.get('z') }}",
                        "[('b', 1), ('a', [2])]5None"},
                {"{% set l = [1] %}{% set _ = l.append(2) %}{{ l + [3] }}{{ l.pop() }}{{ l }}",
                        "[1, 2, 3]2[1]"},
                {"{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{{ d }}{{ d.pop('a') }}",
                        "{'a': 1, 'b': 2}1"},
        };

        CHECK(examples);
        /* Several strings may begin with the same one. */
        rig_expect(
                "{% set a = 'x' * 300 %}{% set b = a ~ '1' %}{% set c = b ~ '2' %}{% set d = b ~ "
                "'3' "
                "%}{{ b[-2:] }} {{ c[-2:] }} {{ d[-2:] }} {{ (c ~ d)[298:303] }} {{ c | length }}",
                NULL, "x1 12 13 xx12x 302");
        rig_expect_error("{{ v.x.y }}", "{}", ERR_INVALID,
                "line 1, column 7: 'dict object' has no attribute 'x'");
        rig_expect_error(
                "\n  {{ nope.y }}", NULL, ERR_INVALID, "line 2, column 10: 'nope' is undefined");
        rig_expect_error("{% set _ = v.l.append(1) %}", "{\"l\": []}", ERR_INVALID,
                "would change what the template was given");
        rig_expect_error("{% set _ = v.pop('l') %}", "{\"l\": []}", ERR_INVALID,
                "would change what the template was given");
}

static void loops(void **state) {
        static const struct example examples[] = {
                {"{% for i in 'ab' %}{{ loop.index }}{{ i }}{{ loop.last }}{{ loop.revindex0 }} {% "
                 "endfor %}",
                        "1aFalse1 2bTrue0 "},
                {"{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
                {"{% for i in [1,2,3,4] if i is even %}{{ i }}/{{ loop.length }} {% endfor %}",
                        "2/2 4/2 "},
                {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
                {"{% for i in [1,2,3,4] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 "
                 "%}{% break %}{% endif %}{{ i }}{% endfor %}",
                        "13"},
                {"{% for n in [[1, [[2, []]]]] recursive %}{{ n[0] }}({{ loop(n[1]) }}){{ "
                 "loop.depth }}{% endfor %}",
                        "1(2()2)1"},
                {"{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x "
                 "}}",
                        "120"},
                {"{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% "
                 "endfor %}{{ n.x }}",
                        "3"},
                {"{% for i in range(6, 0, -2) %}{{ i }}{{ loop.previtem }}{{ loop.nextitem }}{{ "
                 "loop.cycle('a', 'b') }} {% endfor %}",
                        "64a 462b 24a "},
        };

        CHECK(examples);
        rig_expect_error("{% for i in none %}{% endfor %}", NULL, ERR_INVALID,
                "'NoneType' object is not iterable");
        rig_expect_error(
                "{% for a, b in [[1]] %}{% endfor %}", NULL, ERR_INVALID, "1 values for 2 names");
}

static void statements(void **state) {
        static const struct example examples[] = {
                {"{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }} {% endmacro %}{{ m(1) }}{{ "
                 "m(1, "
                 "c=2) }}",
                        "1B1 1B2 "},
                {"{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(x) m() %}in{{ x }}{% "
                 "endcall "
                 "%}",
                        "[in1]"},
                {"{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
                        "(2,){'k': 3}"},
                {"{% set x %}a{{ 1 }}{% endset %}{{ x }}{% set y | upper %}b{% endset %}{{ y }}",
                        "a1B"},
                {"{% filter upper | trim %} abc {% endfilter %}", "ABC"},
                {"{% set ns = namespace() %}{% for i in [1, 2] %}{% set x = i %}{% macro f() %}{{ "
                 "x }}{% "
                 "endmacro %}{% set ns.f = f %}{% endfor %}{% for j in 'ab' %}{% set x = j %}{{ "
                 "ns.f() "
                 "}}{% endfor %}",
                        "22"},
                {"{% with a = 1 %}{{ a }}{% endwith %}{{ a }}", "1"},
                {"{% raw %}{{ x }}{% endraw %}{# no #}{% generation %}y{% endgeneration %}",
                        "{{ x }}y"},
                {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
                {"{% if v.s %}a{% elif x %}b{% else %}c{% endif %}{% if x %}a{% elif not x %}b{% "
                 "endif %}",
                        "ab"},
        };

        CHECK(examples);
        rig_expect_error("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL, ERR_INVALID,
                "the macro takes 1 arguments, not 2");
}

static void white_space(void **state) {
        static const struct example examples[] = {
                {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
                {"a\n  {%+ if true %}\n  b\n  {% endif +%}\nc", "a\n    b\n\nc"},
                {"a {{- 1 -}} b {%- if true -%} c {%- endif -%} d", "a1bcd"},
                {"  {# x #}\nb {# y #} c", "b  c"},
                {"x {#- y -#} z", "xz"},
                {"a\r\nb\rc\n\n", "a\nb\nc\n"},
                {"  {{ 1 }}\n", "  1"},
                {"{{ 1 }}  {% if true %}x{% endif %}  {# y #}z", "1  x  z"},
        };
        struct rig r = {.flags = JINJA_KEEP_SPACE};
        char *got;

        CHECK(examples);
        got = rig_render(&r, "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", NULL, false);
        assert_string_equal(got, "a\n  \n  b\n  \nc");
        free(got);
}

static void filters(void **state) {
        static const struct example examples[] = {
                {"{{ ' x ' | trim }}{{ 'ab' | upper }}{{ 'hello world' | title | capitalize }}",
                        "xABHello world"},
                {"{{ [3, 1, 2] | sort }}{{ ['b', 'A'] | sort | join(',') }}{{ [1, 2] | sum }}",
                        "[1, 2, 3]A,b3"},
                {"{{ [{'n': 2}, {'n': 1}] | map(attribute='n') | list }}{{ [1, 2, 3] | "
                 "select('odd') | list }}",
                        "[2, 1][1, 3]"},
                {"{{ [{'r': 'a'}, {'r': 'b'}] | selectattr('r', 'equalto', 'b') | list | length }}",
                        "1"},
                {"{{ none | selectattr('r') | list }}{{ x | default('d') }}{{ '' | d('e', true) }}",
                        "[]de"},
                {"{{ 'a\nb\n\nc' | indent(2) }}|{{ 'aXbX' | replace('X', '-', 1) }}",
                        "a\n  b\n\n  c|a-bX"},
                {"{{ v.d | tojson }}{{ v.d | tojson(indent=2) }}",
                        "{\"b\": 1, \"a\": [2]}{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}"},
                {"{{ 'ä\"\\n<' | tojson }}{{ 'ä' | tojson(ensure_ascii=true) }}{{ 1.0 | tojson }}",
                        "\"ä\\\"\\n<\"\"\\u00e4\"1.0"},
                {"{{ v.d | dictsort }}{{ v.d | items | list }}{{ [1, 1.0, 2] | unique | list }}",
                        "[('a', [2]), ('b', 1)][('b', 1), ('a', [2])][1, 2]"},
                {"{% for k, l in [{'k': 2}, {'k': 1}, {'k': 2}] | groupby('k') %}{{ k }}{{ l | "
                 "length }}{% endfor %}",
                        "1122"},
                {"{{ '%s-%03d-%.1f' % ('a', 7, 1.25) }}{{ '{} {x:>4}'.format(1, x='b') }}",
                        "a-007-1.21    b"},
                {"{{ 'straße'.upper() }}{{ 'ÀÉ' | lower }}{{ 'a,b'.split(',') }}{{ '-'.join(['x', "
                 "'y']) }}",
                        "STRASSEàé['a', 'b']x-y"},
                {"{{ 'abc'.startswith(('x', 'a')) }}{{ '</think>x'.split('</think>')[-1] }}{{ "
                 "'--a'.lstrip('-') }}",
                        "Truexa"},
        };

        CHECK(examples);
        rig_expect_error(
                "\n{{ 1 | nope }}", NULL, ERR_INVALID, "line 2, column 8: no filter named 'nope'");
        rig_expect_error("{{ x | tojson }}", NULL, ERR_INVALID, "'x' is undefined");
        rig_expect("{% if false %}{{ 1 | nope }}{% endif %}ok", NULL, "ok");
}

static void functions(void **state) {
        static const struct tm now = {.tm_year = 126,
                .tm_mon = 6,
                .tm_mday = 4,
                .tm_hour = 15,
                .tm_wday = 6,
                .tm_yday = 184};
        struct rig r = {.now = &now};
        char *got = rig_render(&r, "{{ strftime_now('%d %b %Y %-d %H:%M %A %j') }}", NULL, false);

        assert_non_null(got);
        assert_string_equal(got, "04 Jul 2026 4 15:00 Saturday 185");
        free(got);
        rig_expect("{{ strftime_now is defined }}", NULL, "False");
        rig_expect("{{ dict(a=1) }}{{ namespace(b=2).b }}{{ range(3) | list }}", NULL,
                "{'a': 1}2[0, 1, 2]");
        rig_expect("{% set j = joiner() %}{{ j() }}a{{ j() }}b", NULL, "a, b");
        rig_expect_error("{% if true %}\n {{ raise_exception('Roles: ' ~ 'x') }}{% endif %}", NULL,
                ERR_INVALID, "line 2, column 5: the template refuses this: Roles: x");
        rig_expect_error("{{ f(1) }}", NULL, ERR_INVALID, "line 1, column 4: 'f' is undefined");
}

static void undefined(void **state) {
        static const char *const errors[] = {"{{ x + 1 }}", "{{ 'a' + x }}", "{{ x.y }}",
                "{{ x[0] }}", "{{ x() }}", "{{ -x }}", "{{ x < 1 }}", "{{ x | int }}",
                "{{ x.y is defined }}", "{{ x | tojson }}"};

        rig_expect(
                "{{ x }}|{{ x ~ 'a' }}|{{ x | length }}|{{ x | upper }}|{{ x == y }}|{{ 1 in x }}",
                NULL, "|a|0||True|False");
        rig_expect("{% if x %}a{% else %}b{% endif %}{% for i in x %}c{% endfor %}", NULL, "b");
        for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
                rig_expect_error(errors[i], NULL, ERR_INVALID, "'x' is undefined");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(literals),
                cmocka_unit_test(numbers),
                cmocka_unit_test(comparisons),
                cmocka_unit_test(attributes),
                cmocka_unit_test(loops),
                cmocka_unit_test(statements),
                cmocka_unit_test(white_space),
                cmocka_unit_test(filters),
                cmocka_unit_test(functions),
                cmocka_unit_test(undefined),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
