/* SPDX-License-Identifier: MIT */
#include "base/charge.h"
#include "base/err.h"
#include "base/json-canon.h"
#include "base/ledger.h"
#include "util/test.h"
#include <stdlib.h>
#include <string.h>

static void canonical(const char *text, const char *want) {
        struct buf out = BUF_NULL;
        struct err e = {0};

        assert_int_equal(buf_append_str(&out, "x"), 0);
        if (json_canonical(&out, text, strlen(text), &e) < 0)
                fail_msg("%s: %s", text, e.msg);
        assert_string_equal((char *)out.data + 1, want);
        /* It is its own canonical form. */
        out.size = 1;
        assert_int_equal(json_canonical(&out, want, strlen(want), &e), 0);
        assert_string_equal((char *)out.data + 1, want);
        buf_deinit(&out);
}

static void refused(const char *text) {
        struct buf out = BUF_NULL;
        struct err e = {0};

        assert_int_equal(buf_append_str(&out, "x"), 0);
        assert_int_equal(json_canonical(&out, text, strlen(text), &e), -ERR_INVALID);
        assert_string_equal((char *)out.data, "x");
        assert_int_equal(out.size, 1);
        buf_deinit(&out);
}

static void test_space_and_strings(void **state) {
        (void)state;
        canonical(" { \"a\" : [ 1 ,\t2, {} , [] ] }\r\n", "{\"a\":[1,2,{},[]]}");
        canonical("\"\\u0041\\/\\n\\u00e9\"", "\"A/\\n\xc3\xa9\"");
        canonical("\" kept  \"", "\" kept  \"");
        canonical("null", "null");
        canonical("[true,false , null]", "[true,false,null]");
}

static void test_keys(void **state) {
        (void)state;
        canonical("{\"b\":1,\"a\":{\"d\":[{\"z\":1,\"y\":2}],\"c\":3},\"ab\":4}",
                "{\"a\":{\"c\":3,\"d\":[{\"y\":2,\"z\":1}]},\"ab\":4,\"b\":1}");
        canonical("{\"a\":1,\"b\":2,\"\\u0061\":3}", "{\"a\":3,\"b\":2}");
        canonical("{\"a\":{\"x\":1},\"a\":{\"y\":1,\"x\":2},\"a\":0}", "{\"a\":0}");
}

static void test_numbers(void **state) {
        (void)state;
        canonical("[1,1.0,1e0,10e-1,0,-0,-0.0,0.0]", "[1,1,1,1,0,0,0,0]");
        /* As JavaScript writes it anew. */
        canonical("12345678901234567891", "1.2345678901234567e19");
        canonical("12345678901234567000", "1.2345678901234567e19");
        canonical("[0.1,1e400,-1e400,100,1e2]", "[0.1,1e400,-1e400,100,100]");
}

static void test_no_json(void **state) {
        (void)state;
        refused("");
        refused("{\"a\":1");
        refused("{\"a\":1} x");
        refused("{'a':1}");
        refused("[1,]");
        refused("{\"a\":\"\\ud800\"}");
}

/* Many keys in the worst order take no long time, and all memory is charged. */
static void test_many_keys(void **state) {
        struct buf text = BUF_NULL, out = BUF_NULL, other = BUF_NULL;
        struct ledger l = LEDGER_INIT(64 << 20);
        struct charge charge = {.ledger = &l};
        struct err e;

        (void)state;
        for (int way = 0; way < 2; way++) {
                text.size = 0;
                for (int i = 0; i < 50000; i++)
                        assert_int_equal(buf_printf(&text, "%s\"k%05d\":%d", i ? "," : "{",
                                                 way ? 49999 - i : i, way ? 49999 - i : i),
                                0);
                assert_int_equal(buf_append_str(&text, "}"), 0);
                (way ? &other : &out)->charge = &charge;
                assert_int_equal(
                        json_canonical(way ? &other : &out, (char *)text.data, text.size, &e), 0);
        }
        assert_int_equal(out.size, other.size);
        assert_memory_equal(out.data, other.data, out.size);
        assert_int_equal(charge.size, out.capacity + other.capacity);
        buf_deinit(&out);
        buf_deinit(&other);
        assert_int_equal(charge.size, 0);
        /* What does not fit is refused, and nothing stays charged. */
        ledger_set_budget(&l, 4096);
        out.charge = &charge;
        assert_true(json_canonical(&out, (char *)text.data, text.size, &e) < 0);
        buf_deinit(&out);
        assert_int_equal(charge.size, 0);
        buf_deinit(&text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_space_and_strings),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_no_json),
                cmocka_unit_test(test_many_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
