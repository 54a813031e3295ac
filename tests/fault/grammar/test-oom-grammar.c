/* SPDX-License-Identifier: MIT */
/* Every allocation fails once: an error, nothing leaked, nothing left in the ledger. */
#include "base/err.h"
#include "base/ledger.h"
#include "fault/loop.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ALLOCATIONS 5000

static enum grammar_token token_of(
        void *userdata, uint32_t token, char *dst, size_t size, size_t *ret_size) {
        (void)userdata;
        *ret_size = 1;
        if (size > 0)
                *dst = (char)token;
        return token == 256 ? GRAMMAR_TOKEN_END : GRAMMAR_TOKEN_TEXT;
}

static void test_vocab(void **state) {
        struct grammar_vocab_source source = {.n_tokens = 257, .token = token_of};

        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct ledger ledger = LEDGER_INIT(1 << 20);
                struct grammar_vocab *v = NULL;
                int r;

                fault_loop_arm(&loop);
                r = grammar_vocab_new(&v, &source, &ledger, NULL);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                assert_int_equal(!!v, r == 0);
                grammar_vocab_free(v);
                assert_int_equal(ledger_used(&ledger), 0);
        }
}

/* Compile and use a grammar. */
static int use(struct grammar_rig *r, struct ledger *ledger, enum grammar_kind kind,
        const char *text, struct err *e) {
        struct grammar *g = NULL;
        struct grammar_state s = GRAMMAR_STATE_NULL, copy = GRAMMAR_STATE_NULL;
        uint64_t mask[8];
        int k = grammar_new(&g, kind, text, strlen(text), r->vocab, 0, ledger, NULL, e);

        if (k == 0)
                k = grammar_start(g, &s, e);
        if (k == 0)
                k = grammar_mask(g, &s, true, mask, e);
        if (k == 0)
                k = grammar_advance(g, &s, "{\"a", 3, NULL, e);
        if (k == 0)
                k = grammar_mask(g, &s, false, mask, e);
        if (k == 0)
                k = grammar_state_copy(&copy, &s, e);
        grammar_state_deinit(&copy);
        grammar_state_deinit(&s);
        grammar_free(g);
        return k;
}

static void check(enum grammar_kind kind, const char *text) {
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};
        struct grammar_rig r;

        rig_init(&r, NULL, 0);
        while (fault_loop_next(&loop)) {
                struct ledger ledger = LEDGER_INIT(16 << 20);
                struct err e = {0};
                int k;

                fault_loop_arm(&loop);
                k = use(&r, &ledger, kind, text, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, k, &e);
                assert_int_equal(ledger_used(&ledger), 0);
        }
        rig_deinit(&r);
}

static void test_gbnf(void **state) {
        check(GRAMMAR_GBNF, "root ::= \"{\" x | [a-z\\u00e0-\\u00ff]+ x{2,9}\nx ::= \"\\\"\" "
                            "[^a\\\\]? . | (\"b\" "
                            "| \"bc\")* \"\\\"a\" x");
}

static void test_schema(void **state) {
        check(GRAMMAR_JSON_SCHEMA,
                "{\"properties\":{\"a\":{\"pattern\":\"^[a-c\\\\d]+\\\\s(x|y){2}$\"},\"ab\":{"
                "\"enum\":[1,\"x\",[2]]},"
                "\"b\":{\"items\":{\"$ref\":\"#\"},\"prefixItems\":[{\"minimum\":2,\"maximum\":33."
                "5}]}},"
                "\"additionalProperties\":{\"anyOf\":[{\"type\":\"null\"},{\"maxLength\":3}]}}");
}

static void test_parts(void **state) {
        check(GRAMMAR_PARTS, "w(t4:{\"abi2:|m3:<x>|j2:{})t1:.");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_vocab),
                cmocka_unit_test(test_gbnf),
                cmocka_unit_test(test_schema),
                cmocka_unit_test(test_parts),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
