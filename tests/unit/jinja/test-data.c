/* SPDX-License-Identifier: MIT */
/* Values from the caller, and from JSON. */
#include "base/buf.h"
#include "base/util.h"
#include "unit/jinja/rig.h"
#include <stdlib.h>
#include <string.h>

static void json(void **state) {
        static const char *const same[] = {"{\"b\": 1, \"a\": [true, false, null], \"c\": {}}",
                "[1, -2, 0, 1.5, 1e+20, 123456789012345678901234567890]",
                "\"\\\"\\\\\\n\\t\\b\\f\\r\\u0001 ä😀/\"", "[[[[]]]]", "{\"\": \"\"}"};

        for (size_t i = 0; i < ARRAY_SIZE(same); i++)
                rig_expect("{{ v | tojson }}", same[i], same[i]);
        rig_expect("{{ v }}", " [ 1 , \"\\u00e4\\ud83d\\ude00\\ud800x\\/\" ] ",
                "[1, 'ä😀\xEF\xBF\xBDx/']");
        rig_expect("{{ v.a }}{{ v | length }}", "{\"a\": 1, \"a\": 2}", "21");
        rig_expect("{{ v }}", "[-0.0, 1E3, 12e-1]", "[-0.0, 1000.0, 1.2]");
}

static void bad_json(void **state) {
        static const struct {
                const char *text, *message;
        } bad[] = {{"", "byte 0: no JSON value"}, {"[1,]", "byte 3: no JSON value"},
                {"[1", "byte 2: ']' is missing"}, {"{\"a\" 1}", "byte 5: ':' is missing"},
                {"{a: 1}", "byte 1: a key is missing"}, {"{\"a\": 1", "byte 7: '}' is missing"},
                {"\"a", "byte 2: a string without end"}, {"\"\\q\"", "byte 3: an unknown escape"},
                {"\"\\u12\"", "byte 3: \\u without"}, {"\"\n\"", "byte 1: a control character"},
                {"01", "byte 0: a number that begins with 0"}, {"1.", "byte 2: a digit is missing"},
                {"-", "byte 1: a digit is missing"}, {"1 2", "byte 2: text behind the value"},
                {"nul", "byte 0: no JSON value"}, {"NaN", "byte 0: no JSON value"},
                {"'a'", "byte 0: no JSON value"}};
        struct jinja_data *d = NULL;
        struct buf deep = BUF_NULL;
        struct err e;

        assert_int_equal(jinja_data_new(&d, 1 << 20, NULL, &e), 0);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                jinja_data_key(d, "v", false);
                assert_int_equal(
                        jinja_data_json(d, bad[i].text, strlen(bad[i].text), &e), -ERR_FORMAT);
                if (!strstr(e.msg, bad[i].message))
                        fail_msg("%s\n  got  %s\n  want %s", bad[i].text, e.msg, bad[i].message);
                jinja_data_none(d); /* the key still waits for its value */
        }
        for (int i = 0; i < 65; i++)
                buf_append_str(&deep, "[");
        jinja_data_key(d, "v", false);
        assert_int_equal(jinja_data_json(d, (char *)deep.data, deep.size, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "nested too deeply"));
        jinja_data_none(d);
        assert_int_equal(jinja_data_finish(d, &e), 0);
        jinja_data_free(d);
        buf_deinit(&deep);
}

static void builder(void **state) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = NULL;
        struct jinja_input input = {0};
        struct jinja_out out = JINJA_OUT_NULL;
        _cleanup_(jinja_freep) struct jinja *t = NULL;
        static const char text[] = "{{ l }}{{ d.k }}{{ f }}{{ b }}{{ n }}{{ l is sequence }}";

        assert_int_equal(jinja_data_new(&d, 1 << 20, NULL, NULL), 0);
        jinja_data_key(d, "l", false);
        jinja_data_list_begin(d);
        jinja_data_int(d, INT64_MIN);
        jinja_data_string(d, "a\0b", 3, false);
        jinja_data_list_begin(d);
        jinja_data_list_end(d);
        jinja_data_list_end(d);
        jinja_data_key(d, "d", false);
        jinja_data_dict_begin(d);
        jinja_data_key_n(d, "kk", 1, true);
        jinja_data_string(d, "v", 1, true);
        jinja_data_dict_end(d);
        jinja_data_key(d, "f", false);
        jinja_data_double(d, 0.1);
        jinja_data_key(d, "b", false);
        jinja_data_bool(d, true);
        jinja_data_key(d, "n", false);
        jinja_data_none(d);
        assert_int_equal(jinja_data_finish(d, NULL), 0);
        assert_int_equal(jinja_parse(&t, text, strlen(text), 0, NULL), 0);
        input.data = d;
        assert_int_equal(jinja_render(t, &input, &out, NULL), 0);
        assert_string_equal(out.text, "[-9223372036854775808, 'a\\x00b', []]v0.1TrueNoneTrue");
        jinja_out_deinit(&out);
}

/* Calls that do not fit together. */
static void misuse(void **state) {
        for (int i = 0; i < 8; i++) {
                struct jinja_data *d = NULL;
                struct err e;

                assert_int_equal(jinja_data_new(&d, 1 << 20, NULL, &e), 0);
                if (i == 0)
                        jinja_data_int(d, 1); /* without a key */
                if (i == 1 || i == 2)
                        jinja_data_key(d, "a", false); /* without a value */
                if (i == 2)
                        jinja_data_key(d, "b", false);
                if (i == 3)
                        jinja_data_dict_end(d);
                if (i >= 4) {
                        jinja_data_key(d, "a", false);
                        jinja_data_list_begin(d); /* without an end */
                }
                if (i == 5)
                        jinja_data_dict_end(d);
                if (i == 6)
                        jinja_data_key(d, "a", false);
                for (int k = 0; i == 7 && k < 100; k++)
                        jinja_data_list_begin(d);
                assert_int_equal(jinja_data_finish(d, &e), -ERR_INVALID);
                assert_int_equal(jinja_data_finish(d, &e), -ERR_INVALID);
                jinja_data_free(d);
        }
}

static void too_large(void **state) {
        struct jinja_data *d = NULL;
        struct err e;

        assert_int_equal(jinja_data_new(&d, 20000, NULL, &e), 0);
        jinja_data_key(d, "l", false);
        jinja_data_list_begin(d);
        for (int i = 0; i < 2000; i++)
                jinja_data_string(d, "0123456789", 10, false);
        jinja_data_list_end(d);
        assert_int_equal(jinja_data_finish(d, &e), -ERR_TOO_LARGE);
        assert_non_null(strstr(e.msg, "20000 bytes"));
        jinja_data_free(d);
        assert_int_equal(jinja_data_new(&d, 100, NULL, &e), -ERR_TOO_LARGE);
}

/* A dict finds all its keys, however many, in the order in which they came. */
static void many_keys(void **state) {
        struct buf b = BUF_NULL;

        buf_append_str(&b, "{");
        for (int i = 0; i < 5000; i++)
                buf_printf(&b, "%s\"k%d\": %d", i ? ", " : "", i * 7919 % 5000, i);
        buf_append_str(&b, "}");
        rig_expect("{% set n = namespace(ok=0, i=0) %}{% for k in v %}{% if v[k] == n.i and "
                   "v.get(k) == "
                   "loop.index0 %}{% set n.ok = n.ok + 1 %}{% endif %}{% set n.i = n.i + 1 %}{% "
                   "endfor "
                   "%}{{ n.ok }}{{ 'k5000' in v }}{{ v | length }}",
                (char *)b.data, "5000False5000");
        rig_expect("{% set d = {} %}{% for k in v %}{% set _ = d.update({k: 1}) %}{% endfor %}{% "
                   "for k "
                   "in v %}{% if loop.index is odd %}{% set _ = d.pop(k) %}{% endif %}{% endfor "
                   "%}{{ d "
                   "| length }}{{ v.keys() | select('in', d) | list | length }}{% for k in v %}{% "
                   "set _ "
                   "= d.update({k: 2}) %}{% endfor %}{{ d | length }}{{ d.values() | sum }}",
                (char *)b.data, "25002500500010000");
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(json),
                cmocka_unit_test(bad_json),
                cmocka_unit_test(builder),
                cmocka_unit_test(misuse),
                cmocka_unit_test(too_large),
                cmocka_unit_test(many_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
