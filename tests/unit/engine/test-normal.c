/* SPDX-License-Identifier: MIT */
/* The normal form of what was said: pairs that say the same, and pairs that don't. */
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/ledger.h"
#include "engine/conv/conv.h"
#include "find-rig.h"
#include "util/test.h"

/* Lists of messages that are built one after the other. */
static struct list_of a, b;

static void both(void) {
        a = b = (struct list_of){.n = 0};
}

static void tell(const struct list_of *l, struct normal *n) {
        struct err e;

        for (size_t i = 0; i < l->n; i++)
                assert_int_equal(normal_put_message(n, &l->m[i], &e), 0);
}

/* Do both lists say the same? Chains and comparison agree. */
static bool same(void) {
        struct normal x, y;
        bool equal, meet;

        normal_init(&x, 7, NULL);
        normal_init(&y, 7, NULL);
        tell(&a, &x);
        tell(&b, &y);
        equal = x.chain == y.chain;
        meet = normal_meet(&x, &y) && x.items.size == 0 && y.items.size == 0;
        assert_int_equal(equal, meet);
        assert_true(x.chain != STORE_CHAIN_UNKNOWN && x.chain != STORE_CHAIN_NEVER);
        equal = equal && normal_same_reasoning(&x, &y);
        normal_deinit(&x);
        normal_deinit(&y);
        return equal;
}

static bool same_texts(enum engine_role role, const char *x, const char *y) {
        both();
        put(&a, role, x);
        put(&b, role, y);
        return same();
}

static void test_texts(void **state) {
        static const struct {
                const char *x, *y;
                bool assistant; /* the same if the assistant says it; never if others do */
        } pairs[] = {
                {"Reply", "Reply ", true},
                {"\n\n  Reply number 1. \n\tTail   \n\n", "Reply number 1. \n\tTail", true},
                {"Reply number 1. \n\tTail", "Reply number 1.\n\tTail", false},
                {"**2**", "*2*", false},
                {"\xc2\xa0Hi\xe3\x80\x80", "Hi", true},
                {"a b", "a  b", false},
                {"Hi", "hi", false},
                {"", " \n", true},
                {"", "x", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
                assert_int_equal(
                        same_texts(ENGINE_ASSISTANT, pairs[i].x, pairs[i].y), pairs[i].assistant);
                assert_false(same_texts(ENGINE_USER, pairs[i].x, pairs[i].y));
                assert_false(same_texts(ENGINE_SYSTEM, pairs[i].x, pairs[i].y));
                assert_true(same_texts(ENGINE_USER, pairs[i].x, pairs[i].x));
        }
}

/* Who speaks counts, and where one message of the user ends. */
static void test_speakers(void **state) {
        static const enum engine_role roles[] = {ENGINE_SYSTEM, ENGINE_USER, ENGINE_ASSISTANT};

        (void)state;
        for (size_t i = 0; i < 3; i++)
                for (size_t k = 0; k < 3; k++) {
                        both();
                        put(&a, roles[i], "x");
                        put(&b, roles[k], "x");
                        assert_int_equal(same(), i == k);
                }
        both();
        put(&a, ENGINE_USER, "x");
        put(&a, ENGINE_USER, "y");
        put(&b, ENGINE_USER, "xy");
        assert_false(same());
        both();
        put(&a, ENGINE_USER, "");
        assert_false(same());
        /* The text of a user is no result. */
        both();
        put(&a, ENGINE_USER, "x");
        put_result(&b, "x");
        assert_false(same());
}

static bool same_arguments(const char *x, const char *y) {
        both();
        put_said(&a, "", NULL, "f", x);
        put_said(&b, "", NULL, "f", y);
        return same();
}

static void test_calls(void **state) {
        (void)state;
        assert_true(same_arguments("{\"a\": 1}", "{\"a\":1}"));
        assert_true(same_arguments("{\"a\":1,\"b\":[{}]}", "{ \"b\": [ {} ], \"a\": 1.0 }"));
        assert_true(same_arguments("{\"a\":\"\\u00e9\"}", "{\"a\":\"\xc3\xa9\"}"));
        assert_true(same_arguments("{}", ""));
        assert_false(same_arguments("{\"a\":1}", "{\"a\":2}"));
        assert_false(same_arguments("{\"a\":1}", "{\"a\":\"1\"}"));
        assert_false(same_arguments("{\"a\":[1,2]}", "{\"a\":[2,1]}"));
        assert_false(same_arguments("{\"a\":null}", "{}"));
        /* What is no JSON counts as it is. */
        assert_true(same_arguments("{\"a\":", "{\"a\":"));
        assert_false(same_arguments("{\"a\":", "{\"a\": "));
        assert_false(same_arguments("\"x\"", "x"));
        /* The name counts; the id does not, and two calls keep their order. */
        both();
        put_said(&a, "", NULL, "f", "{}");
        put_said(&b, "", NULL, "g", "{}");
        assert_false(same());
        both();
        put_said(&a, "", NULL, "f", "{}");
        put_call(&a, "g", "{}");
        put_said(&b, "", NULL, "g", "{}");
        put_call(&b, "f", "{}");
        assert_false(same());
        /* A call without a name was told to nobody. */
        both();
        put_said(&a, "x", NULL, "", "{}");
        put(&b, ENGINE_ASSISTANT, "x");
        assert_true(same());
        /* Text beside calls: null and "" are the same, a text is not. */
        both();
        put_said(&a, "", NULL, "f", "{}");
        put_said(&b, "x", NULL, "f", "{}");
        assert_false(same());
        /* The name and the arguments are apart. */
        both();
        put_said(&a, "", NULL, "fj{}", "{}");
        put_said(&b, "", NULL, "f", "{}");
        assert_false(same());
}

/* How messages are cut makes no difference. */
static void test_cuts(void **state) {
        (void)state;
        both();
        put_said(&a, "x", NULL, "f", "{}");
        put_call(&a, "g", "{}");
        put_result(&a, "1");
        put_one_more(&a, "2");
        put(&b, ENGINE_ASSISTANT, "x");
        put_said(&b, "", NULL, "f", "{}");
        put_said(&b, "", NULL, "g", "{}");
        put(&b, ENGINE_ASSISTANT, "");
        put_result(&b, "1");
        put_result(&b, "2");
        assert_true(same());
        b.results[1].text = "2 ";
        assert_false(same());
        both();
        put(&a, ENGINE_ASSISTANT, "x");
        put(&a, ENGINE_ASSISTANT, "y");
        put(&b, ENGINE_ASSISTANT, "xy");
        assert_false(same());
}

static bool same_reasoning(const char *x, const char *y) {
        both();
        put_said(&a, "t", x, NULL, NULL);
        put_said(&b, "t", y, NULL, NULL);
        return same();
}

static void test_reasoning(void **state) {
        (void)state;
        assert_true(same_reasoning("Let me think: 1.\n", "Let me think: 1."));
        assert_true(same_reasoning("Let me think: 1.\n", NULL));
        assert_true(same_reasoning("Let me think.", " \n"));
        assert_false(same_reasoning("Let me think: 1.", "Let me think: 2."));
        /* Of a message that says nothing else it goes with the message. */
        both();
        put_said(&a, "", "lost", NULL, NULL);
        put_said(&a, "t", "x", NULL, NULL);
        put_said(&b, "t", "x", NULL, NULL);
        assert_true(same());
}

static uint64_t seed(uint64_t owner, const char *tools) {
        uint64_t chain = 0;
        struct err e;

        assert_int_equal(chain_seed(owner, tools, tools ? strlen(tools) : 0, NULL, &chain, &e), 0);
        return chain;
}

static void test_seed(void **state) {
        (void)state;
        assert_true(seed(1, NULL) == seed(1, NULL));
        assert_true(seed(1, NULL) != seed(2, NULL));
        assert_true(seed(1, NULL) != seed(owner_make(1, 1), NULL));
        assert_true(
                seed(1, "[{\"name\":\"f\",\"x\":1}]") == seed(1, "[ {\"x\":1, \"name\":\"f\"} ]"));
        assert_true(seed(1, "[{\"name\":\"f\"}]") != seed(1, "[{\"name\":\"g\"}]"));
        assert_true(seed(1, "[]") != seed(1, NULL));
}

/* Definitions that are told later are items, and in canonical form. */
static void test_tools(void **state) {
        struct normal x, y;
        struct err e;

        (void)state;
        normal_init(&x, 7, NULL);
        normal_init(&y, 7, NULL);
        assert_int_equal(normal_put_tools(&x, "[ {\"name\":\"f\"}]", 15, &e), 0);
        assert_true(x.chain != y.chain);
        assert_int_equal(normal_put_tools(&y, "[{\"name\":\"f\"}]", 14, &e), 0);
        assert_true(x.chain == y.chain);
        assert_true(normal_meet(&x, &y) && x.items.size == 0 && y.items.size == 0);
        normal_deinit(&x);
        normal_deinit(&y);
}

/* Everything that a form holds is charged, and given back. */
static void test_charged(void **state) {
        struct ledger l = LEDGER_INIT(1 << 20);
        struct charge charge = {.ledger = &l};
        struct normal n;
        struct err e;
        static char text[100000];

        (void)state;
        both();
        memset(text, 'x', sizeof(text) - 1);
        put_said(&a, text, "y", "f", "{\"a\":[1,2,3]}");
        normal_init(&n, 7, &charge);
        tell(&a, &n);
        assert_true(charge.size >= 2 * sizeof(text) - 2);
        normal_deinit(&n);
        assert_int_equal(charge.size, 0);
        ledger_set_budget(&l, 1000);
        normal_init(&n, 7, &charge);
        assert_true(normal_put_message(&n, &a.m[0], &e) < 0);
        normal_deinit(&n);
        assert_int_equal(charge.size, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_speakers),
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_cuts),
                cmocka_unit_test(test_reasoning),
                cmocka_unit_test(test_seed),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_charged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
