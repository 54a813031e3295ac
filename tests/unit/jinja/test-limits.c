/* SPDX-License-Identifier: MIT */
/* Nothing that a template says or is given takes more than its limits. */
#include "base/buf.h"
#include "base/charge.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "unit/jinja/rig.h"
#include <stdlib.h>
#include <string.h>

/* The rendering ends with an error that has @words, and soon. */
static void ends(const char *text, const struct jinja_limits *limits, const char *words) {
        struct rig r = {.limits = limits};
        uint64_t start = clock_monotonic_usec();
        char *got = rig_render(&r, text, "{\"l\": [[[[[[1]]]]]]}", false);
        uint64_t took = clock_monotonic_usec() - start;

        if (got)
                fail_msg("%s: rendered", text);
        if (r.e.code != ERR_TOO_LARGE || !strstr(r.e.msg, words))
                fail_msg("%s\n  got  %d %s\n  want %s", text, (int)r.e.code, r.e.msg, words);
        if (took > 20000000)
                fail_msg("%s: took %llu us", text, (unsigned long long)took);
}

static void steps(void **state) {
        static const struct jinja_limits limits = {.n_steps = 100000};

        ends("{% for i in range(1000000) %}{% endfor %}", &limits, "100000 steps");
        ends("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
                &limits, "line 1, column");
        ends("{% set l = [1] %}{% for i in l %}{% set _ = l.extend(l) %}{% endfor %}{% for a in "
             "range(99) %}{% set _ = l.extend(l) %}{% endfor %}",
                &limits, "steps");
        ends("{{ 'a' * 1000000000 }}", &limits, "steps");
        ends("{{ [0] * 1000000000 }}", &limits, "steps");
        ends("{{ '' * 9000000000000000000 }}{{ 'ab' * 9000000000000000000 }}", &limits, "steps");
        ends("{% set s = 'abcdefgh' %}{% for i in range(60) %}{% set n = namespace(s=s) %}{% "
             "endfor "
             "%}{% set n = namespace(s=s) %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% "
             "endfor %}",
                &limits, "steps");
        ends("{{ 'x' | center(1000000000) }}", &limits, "steps");
        ends("{{ range(9000000000000000000) | length }}", &limits, "steps");
        ends("{% for i in range(300) %}{{ range(300) | map('string') | sort | join }}{% endfor %}",
                &limits, "steps");
        ends("{% set s = 'a' * 1000 * 100 %}{% for i in range(2000) %}{% if 'b' in s %}{% endif "
             "%}{% "
             "endfor %}",
                &limits, "steps");
        ends("{% set s = 'ä' * 1000 * 100 %}{% for i in range(2000) %}{% set c = s[99999] %}{% "
             "endfor "
             "%}",
                &limits, "steps");
        ends("{% set s = 'a' * 1000 * 50 %}{{ s.rsplit('b' ~ s[:25000]) | length }}{{ s.rfind('b' "
             "~ "
             "s[:25000]) }}",
                &limits, "steps");
}

/* The same with the default limits: still over in a moment. */
static void defaults(void **state) {
        ends("{% for i in range(1000000000) %}{% endfor %}", NULL, "steps");
        ends("{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}", NULL,
                "steps");
        ends("{{ 'a' * 1000000000000 }}", NULL, "steps");
        ends("{% set n = namespace(s='a') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% "
             "endfor %}",
                NULL, "line 1, column");
}

static void depth(void **state) {
        static const struct jinja_limits limits = {.depth = 50};

        ends("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", &limits, "50 levels");
        ends("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", NULL, "500 levels");
        ends("{% macro m() %}{{ caller() }}{% call m() %}x{% endcall %}{% endmacro %}{% call m() "
             "%}x{% endcall %}",
                NULL, "500 levels");
        ends("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", NULL, "500 levels");
        ends("{% set n = namespace(l=[]) %}{% for i in range(10000) %}{% set n.l = [n.l] %}{% "
             "endfor "
             "%}{{ n.l }}",
                NULL, "500 levels");
        ends("{% set n = namespace(l=[], m=[]) %}{% for i in range(10000) %}{% set n.l = [n.l] "
             "%}{% "
             "set n.m = [n.m] %}{% endfor %}{{ n.l == n.m }}",
                NULL, "500 levels");
        ends("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", NULL, "500 levels");
        ends("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", NULL, "500 levels");
}

/* @n times @open, then @middle, then @n times @close: too deep for the parser. */
static void nested(const char *open, const char *middle, const char *close, size_t n) {
        struct buf b = BUF_NULL;
        struct rig r = {0};
        char *got;

        for (size_t i = 0; i < n; i++)
                buf_append_str(&b, open);
        buf_append_str(&b, middle);
        for (size_t i = 0; i < n; i++)
                buf_append_str(&b, close);
        got = rig_render(&r, (char *)b.data, NULL, false);
        if (got || (r.e.code != ERR_TOO_LARGE && r.e.code != ERR_FORMAT))
                fail_msg("%s: %s", open, got ? "rendered" : r.e.msg);
        buf_deinit(&b);
}

static void nesting(void **state) {
        nested("{{ (", "1", ") }}", 100000);
        nested("{% if 1 %}", "", "{% endif %}", 100000);
        nested("{% for i in [1] %}", "", "{% endfor %}", 10000);
        nested("{% filter upper %}", "", "{% endfilter %}", 10000);
        nested("{% macro m() %}", "", "{% endmacro %}", 10000);
        nested("{{ (((((((((((((((((((((((((((((((((((((", "1", "", 100);
        nested("{% set x = -", "1", "", 1);
        nested("{{ [", "", "", 100000);
        nested("{{ ", "", "", 1);
        nested("{% for a, (", "", "", 1000);
        nested("{% if not ", "1", "", 1);
}

/* Chains that are long without being bracketed. */
static void chains(void **state) {
        static const char *const links[][3] = {{"{{ 1", " + 1", " }}"}, {"{{ 'a'", " ~ 'b'", " }}"},
                {"{{ x", ".a", " }}"}, {"{{ 1", "|abs", " }}"}, {"{{ ", "not ", "1 }}"},
                {"{{ ", "- ", "1 }}"}, {"{{ 1", " if 1", " }}"}, {"{{ 1", " and 1", " }}"},
                {"{{ 1", "()", " }}"}, {"{{ 1", " if 1 else 1", " }}"}};

        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
                struct buf b = BUF_NULL;
                struct rig r = {0};
                char *got;

                buf_append_str(&b, links[i][0]);
                for (int k = 0; k < 100000; k++)
                        buf_append_str(&b, links[i][1]);
                buf_append_str(&b, links[i][2]);
                got = rig_render(&r, (char *)b.data, NULL, false);
                if (got || r.e.code != ERR_TOO_LARGE)
                        fail_msg("%s: %s", links[i][1], got ? "rendered" : r.e.msg);
                buf_deinit(&b);
        }
}

static void output(void **state) {
        static const struct jinja_limits limits = {.output_size = 100};
        struct rig r = {.limits = &limits};
        char *got = rig_render(&r, "{{ 'a' * 100 }}", NULL, false);

        assert_non_null(got);
        free(got);
        ends("{{ 'a' * 101 }}", &limits, "line 1, column 1: the rendered text has more than 100");
        ends("{% for i in range(101) %}x{% endfor %}", &limits, "more than 100");
}

static void memory(void **state) {
        static const struct jinja_limits limits = {.memory_size = 1 << 20};
        struct rig r = {.limits = &limits};
        char *got;

        ends("{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% set n.l = n.l + [i] %}{% "
             "endfor %}",
                &limits, "memory");
        ends("{% set n = namespace(s='') %}{% for i in range(100000) %}{% set n.s = "
             "'xxxxxxxxxxxxxxx' "
             "~ n.s %}{% endfor %}",
                &limits, "memory");
        /* A text that grows at its end does not leave a copy behind each time. */
        got = rig_render(&r,
                "{% set n = namespace(s='') %}{% for i in range(1500) %}{% set n.s = n.s ~ "
                "'0123456789012345678901234567890123456789' %}{% endfor %}{{ n.s | length }}",
                NULL, false);
        if (!got)
                fail_msg("%s", r.e.msg);
        assert_string_equal(got, "60000");
        free(got);
}

/* What a rendering takes is reserved, and given back. */
static void charged(void **state) {
        struct ledger ledger = LEDGER_INIT(1 << 20);
        struct charge charge = {.ledger = &ledger};
        struct rig r = {.charge = &charge};
        char *got;

        got = rig_render(&r, "{{ 'a' * 10000 }}", NULL, false);
        assert_non_null(got);
        free(got);
        assert_int_equal(charge.size, 0);
        got = rig_render(&r, "{{ 'a' * 10000000 }}", NULL, false);
        assert_null(got);
        assert_int_equal(r.e.code, ERR_TOO_LARGE);
        assert_int_equal(charge.size, 0);
        charge_deinit(&charge);
        assert_int_equal(ledger_used(&ledger), 0);
        assert_true(ledger_peak(&ledger) > 10000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(steps),
                cmocka_unit_test(defaults),
                cmocka_unit_test(depth),
                cmocka_unit_test(nesting),
                cmocka_unit_test(chains),
                cmocka_unit_test(output),
                cmocka_unit_test(memory),
                cmocka_unit_test(charged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
