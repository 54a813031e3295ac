/* SPDX-License-Identifier: MIT */
/* Every allocation of parsing, of making data and of rendering fails once: an error, nothing leaked. */
#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "fault/loop.h"
#include "jinja/jinja.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ALLOCATIONS 1000

static const char text[] = "{% macro t(p, d=0) %}{% for k, x in p | dictsort %}{{ k | upper }}{{ x "
                           "| tojson(indent=2) }}{% "
                           "endfor %}{{ caller() }}{% endmacro %}{% call t(v) %}c{% endcall %}{% "
                           "set ns = namespace(s='', "
                           "l=[]) %}{% for i in range(400) %}{% set ns.s = ns.s ~ v ~ i %}{% set "
                           "ns.l = ns.l + [i] %}{% "
                           "endfor %}{{ ns.s | replace('a', 'b') | indent }}{{ ns.l | "
                           "map('string') | sort | unique | join "
                           "}}{{ ns.s.split('0') | map('length') | sum }}{{ '%s' % ns.s }}{{ "
                           "ns.s[::-1].title() }}{% for i "
                           "in range(3000) %}{{ i }}{% set ns.s = 'x' ~ i %}{% endfor %}";
static const char json[] = "{\"b\": [1, \"two\", {\"c\": null}], \"a\": \"text\"}";

/* One whole way; the first error, or 0. What was charged is given back whatever happens. */
static int run(struct ledger *ledger) {
        struct charge of_data = {.ledger = ledger}, of_run = {.ledger = ledger};
        struct jinja_out out = JINJA_OUT_NULL;
        struct jinja_input input = {.charge = &of_run};
        struct jinja_data *d = NULL;
        struct jinja *t = NULL;
        struct err e = {0};
        int r = jinja_parse(&t, text, strlen(text), 0, &e);

        if (r == 0)
                r = jinja_data_new(&d, 1 << 20, &of_data, &e);
        if (r == 0) {
                jinja_data_key(d, "v", false);
                r = jinja_data_json(d, json, strlen(json), &e);
        }
        if (r == 0)
                r = jinja_data_finish(d, &e);
        if (r == 0) {
                input.data = d;
                r = jinja_render(t, &input, &out, &e);
        }
        assert_int_equal((int)e.code, -r);
        if (r < 0)
                assert_null(out.text);
        jinja_out_deinit(&out);
        jinja_data_free(d);
        jinja_free(t);
        assert_int_equal(of_data.size, 0);
        assert_int_equal(of_run.size, 0);
        assert_int_equal(ledger_used(ledger), 0);
        return r;
}

static void allocations(void **state) {
        struct fault_loop loop = {.at_least = 11, .at_most = MAX_ALLOCATIONS};
        struct ledger ledger = LEDGER_INIT((size_t)64 << 20);

        while (fault_loop_next(&loop)) {
                int r;

                fault_loop_arm(&loop);
                r = run(&ledger);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
        }
}

/* The same where the ledger refuses. */
static void budgets(void **state) {
        struct ledger ledger = LEDGER_INIT((size_t)64 << 20);
        size_t peak;

        assert_int_equal(run(&ledger), 0);
        peak = ledger_peak(&ledger);
        for (size_t budget = 0; budget < peak; budget += peak / 60 + 1) {
                int r;

                ledger_set_budget(&ledger, budget);
                r = run(&ledger);
                assert_true(r == -ERR_LIMIT || r == -ERR_TOO_LARGE);
        }
        ledger_set_budget(&ledger, peak);
        assert_int_equal(run(&ledger), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(allocations),
                cmocka_unit_test(budgets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
