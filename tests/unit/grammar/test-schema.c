/* SPDX-License-Identifier: MIT */
/* What schemas allow, keyword by keyword, and what is refused, with its pointer. */
#include "base/err.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING ((const char *const[]){NULL})

/* Schemas are written with ' for ", which makes them readable here; texts as well. */
static char *quoted(const char *text) {
        char *copy = strdup(text);

        for (char *p = copy; *p; p++)
                if (*p == '\'')
                        *p = '"';
        return copy;
}

static void check(const char *schema, const char *const *yes, const char *const *no) {
        char *text = quoted(schema), *lists[2][64] = {{NULL}};
        const char *const *from[2] = {yes, no};

        for (int k = 0; k < 2; k++)
                for (int i = 0; from[k][i]; i++)
                        lists[k][i] = quoted(from[k][i]);
        rig_table(GRAMMAR_JSON_SCHEMA, text, (const char *const *)lists[0],
                (const char *const *)lists[1]);
        for (int k = 0; k < 2; k++)
                for (int i = 0; lists[k][i]; i++)
                        free(lists[k][i]);
        free(text);
}

static void refuse(const char *schema, int code, const char *part) {
        char *text = quoted(schema);

        rig_refused(GRAMMAR_JSON_SCHEMA, text, code, part);
        free(text);
}

static void test_any_value(void **state) {
        check("{}",
                LIST("null", "true", "false", "0", "-1.5e+10", "''", "'a\\n\\u00e9'", "[]", "{}",
                        "[1, 2]", "[1,2]", "{'a': 1}", "{'a':{'b':[null]}}", "{\n  'a': 1\n}",
                        "[\n    1,\n    2\n]"),
                LIST("", "nul", "01", "1.", "+1", "'", "'a", "[1,]", "{'a'}", "{a: 1}", "[1 ,2]",
                        " 1", "1 ", "[1,  2]", "[\n\n1]", "'\t'", "'\\x'", "'\\ud800'", "--1"));
        check("true", LIST("1", "{}"), LIST("x"));
        check("{'title': 'T', 'description': 'D', 'default': 3, 'x-a': [1], '$schema': 's', '$id': "
              "'i', 'examples': []}",
                LIST("1", "'a'"), LIST("x"));
}

static void test_types(void **state) {
        check("{'type': 'null'}", LIST("null"), LIST("true", "0"));
        check("{'type': 'boolean'}", LIST("true", "false"), LIST("null", "'true'"));
        check("{'type': 'integer'}", LIST("0", "-7", "1234567890123456"),
                LIST("1.0", "1e3", "00", "12345678901234567", "'1'"));
        check("{'type': 'number'}", LIST("0", "-7", "1.25", "1e3", "-2.5E-07"),
                LIST(".5", "1.", "1e", "NaN"));
        check("{'type': 'string'}", LIST("''", "'\\ud83d\\ude00'", "'\xf0\x9f\x98\x80'", "'\\/'"),
                LIST("a", "'\\ud83d'", "'\\ude00'", "'\xff'", "'\n'"));
        check("{'type': ['string', 'null']}", LIST("null", "'a'"), LIST("1"));
        check("{'type': 'string', 'nullable': true}", LIST("null", "'a'"), LIST("1"));
        check("{'type': 'array'}", LIST("[]", "[1,'a']"), LIST("{}"));
        check("{'type': 'object'}", LIST("{}", "{'a':1,'b':[]}"), LIST("[]"));
}

static void test_objects(void **state) {
        check("{'type': 'object', 'properties': {'a': {'type': 'integer'}, 'b': {'type': "
              "'boolean'}}, 'required': ['a', 'b']}",
                LIST("{'a':1,'b':true}", "{ 'a': 1, 'b': false }", "{\n  'a': 1,\n  'b': true\n}"),
                LIST("{}", "{'a':1}", "{'b':true,'a':1}", "{'a':1,'b':true,'c':1}", "{'a':'1'}",
                        "{'a':1,'b':true,}"));
        check("{'properties': {'a': {'type': 'integer'}, 'b': {'type': 'integer'}, 'c': {'type': "
              "'integer'}}}",
                LIST("{}", "{'a':1}", "{'b':1}", "{'c':1}", "{'a':1,'c':1}", "{'a':1,'b':2,'c':3}"),
                LIST("{'c':1,'a':1}", "{,'a':1}", "{'a':1,'a':1}", "[]", "{'d':1}"));
        check("{'properties': {'a': {'type': 'integer'}, 'b': {'type': 'integer'}}, 'required': "
              "['b']}",
                LIST("{'b':1}", "{'a':1,'b':1}"), LIST("{}", "{'a':1}"));
        /* an empty object */
        check("{'type': 'object', 'additionalProperties': false}", LIST("{}", "{ }"),
                LIST("{'a':1}"));
        /* names are spelled canonically */
        check("{'properties': {'a\\u0062\\n\\'': {'type': 'null'}}, 'required': ['ab\\n\\'']}",
                NOTHING, LIST("{'a':null}"));
        check("{'properties': {'\\u00e9/~': {'type': 'null'}}, 'required': ['\xc3\xa9/~']}",
                LIST("{'\xc3\xa9/~':null}"), LIST("{'\\u00e9/~':null}", "{}"));
        /* a property that may not be: only where it is not required */
        check("{'properties': {'a': false, 'b': {'type': 'null'}}}", LIST("{}", "{'b':null}"),
                LIST("{'a':1}"));
        /* required without a schema of its own */
        check("{'type': 'object', 'required': ['x']}", LIST("{'x':1}", "{'x':[],'y':2}"),
                LIST("{}", "{'y':2}"));
        check("{'properties': {'a': {}}, 'minProperties': 0, 'maxProperties': 1}", LIST("{'a':1}"),
                LIST("{'a':1,'a':1}"));
}

static void test_additional(void **state) {
        check("{'properties': {'ab': {'type': 'integer'}, 'ac': {'type': 'integer'}}, "
              "'additionalProperties': {'type': 'boolean'}}",
                LIST("{}", "{'ab':1}", "{'x':true}", "{'a':true}", "{'abc':true}", "{'':true}",
                        "{'ab':1,'ac':2,'ad':true,'b':false}", "{'\xc3\xa9':true}", "{'\\n':true}",
                        "{'\\'':true}"),
                LIST("{'ab':true}", "{'ac':true}", "{'x':1}", "{'x':true,'ab':1}",
                        "{'a\\u0062':true}"));
        check("{'type': 'object', 'additionalProperties': {'type': 'integer'}}",
                LIST("{}", "{'a':1}", "{'a':1,'b':2}"), LIST("{'a':'x'}"));
        check("{'properties': {'a': {'type': 'null'}}, 'additionalProperties': true}",
                LIST("{'a':null,'z':[1]}", "{'z':1}"), LIST("{'a':1}"));
        check("{'properties': {'a': {'type': 'null'}}, 'unevaluatedProperties': false}",
                LIST("{'a':null}"), LIST("{'z':1}"));
        /* names that begin with each other, and a character of several bytes */
        check("{'properties': {'a': {'type': 'null'}, 'aa': {'type': 'null'}, '\xc3\xa9': {'type': "
              "'null'}, '': {'type': 'null'}}, 'additionalProperties': {'type': 'integer'}}",
                LIST("{'aaa':1}", "{'a':null,'aa':null}", "{'\xc3\xa8':1}",
                        "{'\xc3\xa9\xc3\xa9':1}", "{'':null}"),
                LIST("{'a':1}", "{'aa':1}", "{'\xc3\xa9':1}", "{'':1}"));
}

static void test_arrays(void **state) {
        check("{'items': {'type': 'integer'}}", LIST("[]", "[1]", "[1, 2,3]"),
                LIST("['a']", "[1 ]x"));
        check("{'items': {'type': 'integer'}, 'minItems': 2, 'maxItems': 3}",
                LIST("[1,2]", "[1,2,3]"), LIST("[]", "[1]", "[1,2,3,4]"));
        check("{'items': {'type': 'integer'}, 'minItems': 1}", LIST("[1]", "[1,2]"), LIST("[]"));
        check("{'type': 'array', 'maxItems': 0}", LIST("[]", "[ ]"), LIST("[1]"));
        check("{'prefixItems': [{'type': 'integer'}, {'type': 'string'}], 'items': false}",
                LIST("[]", "[1]", "[1,'a']"), LIST("['a']", "[1,2]", "[1,'a',3]"));
        check("{'prefixItems': [{'type': 'integer'}, {'type': 'string'}], 'items': {'type': "
              "'null'}, "
              "'minItems': 1, 'maxItems': 4}",
                LIST("[1]", "[1,'a']", "[1,'a',null]", "[1,'a',null,null]"),
                LIST("[]", "[null]", "[1,'a',null,null,null]", "[1,'a',2]"));
        check("{'items': [{'type': 'integer'}], 'additionalItems': {'type': 'null'}}",
                LIST("[]", "[1]", "[1,null]"), LIST("[null]"));
        check("{'prefixItems': [{'type': 'integer'}, {'type': 'string'}], 'maxItems': 1}",
                LIST("[]", "[1]"), LIST("[1,'a']"));
        check("{'items': {'items': {'type': 'null'}}}", LIST("[[],[null]]"), LIST("[null]"));
        /* items that nothing meets: only the empty array */
        check("{'items': false}", LIST("[]"), LIST("[1]"));
}

static void test_strings(void **state) {
        check("{'minLength': 2, 'maxLength': 3}",
                LIST("'ab'", "'abc'", "'\xc3\xa9\xc3\xa9'", "'\\n\\u00e9'", "'\\ud83d\\ude00x'"),
                LIST("'a'", "'abcd'", "''", "'\\ud83d\\ude00'"));
        check("{'type': 'string', 'maxLength': 0}", LIST("''"), LIST("'a'"));
        check("{'pattern': '^[A-Z]{2}\\\\d+$'}", LIST("'AB1'", "'AB123'"),
                LIST("'A1'", "'xAB1'", "'AB1x'", "'AB'"));
        check("{'pattern': 'b+'}", LIST("'b'", "'abc'", "'\\nbb'"), LIST("''", "'ac'"));
        check("{'pattern': '^a|b$'}", LIST("'a'", "'ax'", "'xb'", "'b'"), LIST("'xa'", "'bx'"));
        check("{'pattern': '^(?:a|[^\\\\w\\\\s])*?\\\\.$'}", LIST("'.'", "'aa-.'"),
                LIST("'b.'", "' .'"));
        check("{'pattern': '^\\\\\\\\[\\'x]$'}", LIST("'\\\\\\''", "'\\\\x'"), LIST("'x'"));
        check("{'pattern': '^.$'}", LIST("'a'", "'\xc3\xa9'", "'\\\\'", "'\\t'"),
                LIST("'\\n'", "''"));
        check("{'pattern': '^[\\\\u00e0-\\\\u00ff\\\\x41]{1,2}$'}",
                LIST("'\xc3\xa9'", "'A\xc3\xa0'"), LIST("'a'"));
        check("{'pattern': '^a{2,}b{1}c{0,2}d?$'}", LIST("'aab'", "'aaabccd'"),
                LIST("'ab'", "'aabccc'"));
        check("{'pattern': ''}", LIST("''", "'abc'"), LIST("1"));
}

static void test_formats(void **state) {
        check("{'format': 'date'}", LIST("'2024-02-29'", "'1999-12-31'", "'2000-02-29'"),
                LIST("'2023-02-29'", "'1900-02-29'", "'2024-13-01'", "'2024-04-31'", "'24-01-01'"));
        check("{'format': 'time'}", LIST("'00:00:00Z'", "'23:59:59.5+01:30'"),
                LIST("'24:00:00Z'", "'12:00'", "'12:00:00'"));
        check("{'format': 'date-time'}", LIST("'2024-02-29T12:00:00Z'"),
                LIST("'2024-02-29 12:00:00Z'", "'2024-02-29'"));
        check("{'format': 'uuid'}", LIST("'123e4567-e89b-12d3-a456-426614174000'"),
                LIST("'123e4567e89b12d3a456426614174000'"));
        check("{'format': 'ipv4'}", LIST("'0.0.0.0'", "'255.10.99.1'"),
                LIST("'256.1.1.1'", "'01.1.1.1'"));
        check("{'format': 'email'}", LIST("'a.b+c@example.org'"),
                LIST("'a@b'", "'@b.c'", "'a b@c.d'"));
        /* others are annotations */
        check("{'format': 'uri', 'type': 'string'}", LIST("'anything'"), LIST("1"));
}

static void test_enums(void **state) {
        check("{'enum': ['red', 'green', 1, null, true, 2.50, [1, {'a': 'b'}], {}]}",
                LIST("'red'", "'green'", "1", "null", "true", "2.50", "[1,{'a':'b'}]",
                        "[1, {'a': 'b'}]", "{}"),
                LIST("'blue'", "'re'", "false", "2", "[]", "2.5"));
        check("{'const': 'x'}", LIST("'x'"), LIST("'y'"));
        check("{'const': {'a': [1,2]}}", LIST("{'a':[1,2]}"), LIST("{}"));
        check("{'enum': [1, 'a', 2, 'bb', 3.0], 'type': 'integer', 'minimum': 2}", LIST("2", "3.0"),
                LIST("1", "'a'"));
        check("{'enum': ['a', 'bb', '\xc3\xa9\xc3\xa9\xc3\xa9'], 'type': 'string', 'minLength': 2, "
              "'maxLength': 3}",
                LIST("'bb'", "'\xc3\xa9\xc3\xa9\xc3\xa9'"), LIST("'a'"));
        check("{'allOf': [{'enum': [1, 2, 3]}, {'enum': [2, 3, 4]}, {'const': 3.0}]}", LIST("3"),
                LIST("2", "4"));
        check("{'enum': ['a', null], 'type': ['string', 'null']}", LIST("'a'", "null"),
                LIST("'b'"));
}

static void test_integers(void **state) {
        char schema[100], text[32], *q;

        /* every bound within -120..120 against every number, around zero and carries */
        for (int low = -112; low <= 105; low += 31)
                for (int high = low; high <= 120; high += 37) {
                        struct grammar_rig r;
                        struct grammar *g;

                        snprintf(schema, sizeof(schema),
                                "{'type':'integer','minimum':%d,'maximum':%d}", low, high);
                        q = quoted(schema);
                        rig_init(&r, NULL, 0);
                        g = rig_grammar(&r, GRAMMAR_JSON_SCHEMA, q);
                        for (int i = -1300; i <= 1300; i++) {
                                snprintf(text, sizeof(text), "%d", i);
                                if (rig_meets(g, text, strlen(text)) != (i >= low && i <= high))
                                        fail_msg("%s: %d", schema, i);
                        }
                        assert_false(rig_meets(g, "-0", 2) && low > 0);
                        grammar_free(g);
                        rig_deinit(&r);
                        free(q);
                }
        check("{'type': 'integer', 'minimum': 0}", LIST("0", "9", "1234567890123456"),
                LIST("-1", "12345678901234567"));
        check("{'type': 'integer', 'maximum': -5}", LIST("-5", "-123456"), LIST("-4", "0", "5"));
        check("{'type': 'integer', 'exclusiveMinimum': 3, 'exclusiveMaximum': 6}", LIST("4", "5"),
                LIST("3", "6"));
        check("{'type': 'integer', 'minimum': 1.5, 'maximum': 3.5}", LIST("2", "3"),
                LIST("1", "4"));
        check("{'type': 'integer', 'minimum': -3.5, 'maximum': -1.5}", LIST("-2", "-3"),
                LIST("-1", "-4"));
        check("{'type': 'integer', 'minimum': 1e3, 'maximum': 1e3}", LIST("1000"),
                LIST("999", "1001"));
        check("{'type': 'integer', 'minimum': 99999999999999999999, 'maximum': "
              "100000000000000000001}",
                LIST("99999999999999999999", "100000000000000000000", "100000000000000000001"),
                LIST("99999999999999999998", "100000000000000000002"));
        check("{'type': 'integer', 'minimum': 5, 'exclusiveMinimum': true, 'maximum': 7}",
                LIST("6", "7"), LIST("5", "8"));
        check("{'type': 'number', 'multipleOf': 1, 'minimum': 0, 'maximum': 3}", LIST("0", "3"),
                LIST("0.5", "4"));
}

static void test_numbers(void **state) {
        static const char *const bounds[] = {
                "-12.5", "-1", "-0.05", "0", "0.25", "0.5", "0.505", "1", "9.99", "10", "12.75"};
        static const char *const texts[] = {"-13", "-12.5", "-12.50", "-12.51", "-12.499", "-12",
                "-1.0", "-1", "-0.999", "-0.06", "-0.05", "-0.049", "0", "0.0", "0.2", "0.249",
                "0.25", "0.2500", "0.25001", "0.3", "0.4999", "0.5", "0.50", "0.501", "0.505",
                "0.506", "0.6", "1", "1.0", "1.001", "9", "9.98", "9.99", "9.991", "10", "10.0",
                "10.01", "11.5", "12.74", "12.75", "12.751", "13", "100"};
        char schema[120], *q;

        for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++)
                for (size_t j = i; j < sizeof(bounds) / sizeof(*bounds); j++)
                        for (int open = 0; open < 4; open++) {
                                double low = strtod(bounds[i], NULL),
                                       high = strtod(bounds[j], NULL);
                                struct grammar_rig r;
                                struct grammar *g;

                                if (i == j && open)
                                        continue;
                                snprintf(schema, sizeof(schema),
                                        "{'type':'number','%s':%s,'%s':%s}",
                                        open & 1 ? "exclusiveMinimum" : "minimum", bounds[i],
                                        open & 2 ? "exclusiveMaximum" : "maximum", bounds[j]);
                                q = quoted(schema);
                                rig_init(&r, NULL, 0);
                                g = rig_grammar(&r, GRAMMAR_JSON_SCHEMA, q);
                                for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
                                        double x = strtod(texts[k], NULL);
                                        bool ok = (open & 1 ? x > low : x >= low) &&
                                                  (open & 2 ? x < high : x <= high);

                                        if (rig_meets(g, texts[k], strlen(texts[k])) != ok)
                                                fail_msg("%s: %s", schema, texts[k]);
                                }
                                grammar_free(g);
                                rig_deinit(&r);
                                free(q);
                        }
        check("{'type': 'number', 'minimum': 0.5}", LIST("0.5", "0.50", "7", "123.25"),
                LIST("0.4", "-1", "1e3"));
        check("{'type': 'number', 'exclusiveMaximum': 0}", LIST("-0.5", "-7"), LIST("0", "0.1"));
}

static void test_choices(void **state) {
        check("{'anyOf': [{'type': 'integer'}, {'type': 'string', 'maxLength': 1}]}",
                LIST("1", "'a'"), LIST("'ab'", "null"));
        check("{'oneOf': [{'const': 1}, {'const': 2}]}", LIST("1", "2"), LIST("3"));
        /* keywords beside anyOf hold for each choice */
        check("{'type': 'object', 'properties': {'k': {'enum': ['a', 'b']}}, 'required': ['k'], "
              "'anyOf': [{'properties': {'k': {'const': 'a'}, 'x': {'type': 'integer'}}, "
              "'required': "
              "['x']}, {'properties': {'k': {'const': 'b'}}}]}",
                LIST("{'k':'a','x':1}", "{'k':'b'}"), LIST("{'k':'a'}", "{'k':'c'}"));
        /* a choice that nothing meets is left out */
        check("{'anyOf': [false, {'type': 'null'}]}", LIST("null"), LIST("1"));
        check("{'anyOf': [{'type': 'integer'}, {'type': 'string'}], 'oneOf': [{'minimum': 3, "
              "'type': "
              "'integer'}, {'type': 'boolean'}]}",
                LIST("3"), LIST("2", "true", "'a'"));
}

static void test_all_of(void **state) {
        check("{'allOf': [{'properties': {'a': {'type': 'integer'}}, 'required': ['a']}, "
              "{'properties': "
              "{'b': {'type': 'null'}, 'a': {'minimum': 5}}}]}",
                LIST("{'a':5}", "{'a':6,'b':null}"), LIST("{'a':4}", "{'b':null}", "{}"));
        check("{'allOf': [{'type': ['integer', 'string']}, {'type': ['string', 'null']}]}",
                LIST("'a'"), LIST("1", "null"));
        check("{'allOf': [{'type': 'integer'}, {'type': 'number', 'maximum': 3, 'minimum': 1}]}",
                LIST("1", "3"), LIST("1.5", "4"));
        check("{'$ref': '#/$defs/a', 'maxLength': 2, '$defs': {'a': {'type': 'string', "
              "'minLength': "
              "1}}}",
                LIST("'x'", "'xy'"), LIST("''", "'xyz'"));
        check("{'allOf': [{'properties': {'a': {'type': 'null'}}, 'additionalProperties': false}, "
              "{'properties': {'b': {'type': 'null'}}}]}",
                LIST("{}", "{'a':null}"), LIST("{'b':null}"));
}

static void test_references(void **state) {
        check("{'$ref': '#/$defs/node', '$defs': {'node': {'type': 'object', 'properties': {'v': "
              "{'type': "
              "'integer'}, 'next': {'anyOf': [{'$ref': '#/$defs/node'}, {'type': 'null'}]}}, "
              "'required': "
              "['v', 'next']}}}",
                LIST("{'v':1,'next':null}", "{'v':1,'next':{'v':2,'next':null}}"),
                LIST("{'v':1}", "{'v':1,'next':{}}"));
        check("{'type': 'array', 'items': {'$ref': '#'}}", LIST("[]", "[[],[[]]]"), LIST("[1]"));
        check("{'$ref': '#/definitions/a~1b%20~0', 'definitions': {'a/b ~': {'type': 'null'}}}",
                LIST("null"), LIST("1"));
        check("{'prefixItems': [{'type': 'null'}, {'$ref': '#/prefixItems/0'}], 'minItems': 2, "
              "'items': "
              "false}",
                LIST("[null,null]"), LIST("[null]"));
        /* a long chain */
        {
                char *text = malloc(100000);
                size_t n = (size_t)sprintf(text, "{'$ref':'#/$defs/d0','$defs':{");

                for (int i = 0; i < 100; i++)
                        n += (size_t)sprintf(text + n,
                                "'d%d':{'properties':{'a':{'$ref':'#/$defs/d%d'}}},", i, i + 1);
                sprintf(text + n, "'d100':{'type':'null'}}}");
                check(text, LIST("{'a':{}}", "{'a':{'a':{}}}"), LIST("{'a':null}"));
                free(text);
        }
}

static void test_unmet(void **state) {
        refuse("false", ERR_INVALID, "schema, #: nothing can meet it: the schema false");
        refuse("{'enum': []}", ERR_INVALID, "#/enum: nothing can meet it: no value is left");
        refuse("{'properties': {'a': {'minLength': 3, 'maxLength': 2}}, 'required': ['a']}",
                ERR_INVALID,
                "#/properties/a/minLength: nothing can meet it: the least length is above");
        refuse("{'minimum': 3, 'maximum': 2}", ERR_INVALID, "#/minimum: nothing can meet it");
        refuse("{'type': 'integer', 'minimum': 1.2, 'maximum': 1.8}", ERR_INVALID,
                "#/minimum: nothing can meet it: there is no whole number");
        refuse("{'minItems': 3, 'maxItems': 2}", ERR_INVALID, "#/minItems: nothing can meet it");
        refuse("{'items': false, 'minItems': 1}", ERR_INVALID, "nothing can meet it");
        refuse("{'allOf': [{'type': 'integer'}, {'type': 'string'}]}", ERR_INVALID,
                "#/allOf/1/type: nothing can meet it: no type is left");
        refuse("{'properties': {'a': {'type': 'null'}, 'b': false}, 'required': ['b']}",
                ERR_INVALID, "#/properties/b: nothing can meet it");
        refuse("{'type': 'object', 'required': ['b'], 'additionalProperties': false}", ERR_INVALID,
                "#/additionalProperties: nothing can meet it");
        refuse("{'anyOf': []}", ERR_INVALID, "#/anyOf: nothing can meet it");
        refuse("{'anyOf': [false, {'enum': []}]}", ERR_INVALID, "nothing can meet it");
        refuse("{'properties': {'a': {'$ref': '#'}}, 'required': ['a']}", ERR_INVALID,
                "nothing can meet it: a value would have to go on without end");
        refuse("{'type': 'string', 'const': 3}", ERR_INVALID, "#/const: nothing can meet it");
        refuse("{'$ref': '#'}", ERR_INVALID, "schema, #: this schema refers to itself");
        refuse("{'anyOf': [{'$ref': '#'}, {'type': 'null'}]}", ERR_INVALID, "refers to itself");
        refuse("{'$ref': '#/$defs/a', '$defs': {'a': {'$ref': '#/$defs/b'}, 'b': {'allOf': "
               "[{'$ref': "
               "'#/$defs/a'}]}}}",
                ERR_INVALID, "#/$defs/a: this schema refers to itself");
}

static void test_refused(void **state) {
        static const char *const keywords[] = {"not", "if", "then", "else", "dependentRequired",
                "dependentSchemas", "dependencies", "patternProperties", "propertyNames",
                "contains", "minContains", "$dynamicRef", "maxlength", "requird"};
        char schema[200], where[100];

        for (size_t i = 0; i < sizeof(keywords) / sizeof(*keywords); i++) {
                snprintf(schema, sizeof(schema), "{'properties':{'a/b':{'%s':{}}}}", keywords[i]);
                snprintf(where, sizeof(where),
                        "#/properties/a~1b/%s: this keyword is not supported", keywords[i]);
                refuse(schema, ERR_UNSUPPORTED, where);
        }
        refuse("{'uniqueItems': true}", ERR_UNSUPPORTED, "#/uniqueItems: only false");
        refuse("{'multipleOf': 0.5}", ERR_UNSUPPORTED, "#/multipleOf: only multiples of 1");
        refuse("{'type': 'object', 'minProperties': 2}", ERR_UNSUPPORTED, "#/minProperties");
        refuse("{'type': 'object', 'maxProperties': 2}", ERR_UNSUPPORTED, "#/maxProperties");
        refuse("{'pattern': 'a', 'maxLength': 3}", ERR_UNSUPPORTED, "#/maxLength: a length beside");
        refuse("{'pattern': 'a', 'format': 'date'}", ERR_UNSUPPORTED, "two patterns");
        refuse("{'enum': ['a'], 'pattern': 'b'}", ERR_UNSUPPORTED,
                "#/pattern: not supported beside enum");
        refuse("{'$ref': 'http://x/y'}", ERR_INVALID, "#/$ref: this names nothing");
        refuse("{'$ref': '#/$defs/x'}", ERR_INVALID, "#/$ref: this names nothing");
        refuse("{'unevaluatedItems': {}}", ERR_UNSUPPORTED, "#/unevaluatedItems");
}

static void test_malformed(void **state) {
        refuse("", ERR_INVALID, "1:1: a value of JSON is expected");
        refuse("{'type': 'integer'", ERR_INVALID, "1:19: a comma or a closing brace");
        refuse("{\n  'a' 1}", ERR_INVALID, "2:7: a colon is expected");
        refuse("{'a': 01}", ERR_INVALID, "1:7: this is no number");
        refuse("{'a': 'b}", ERR_INVALID, "1:7: this string has no closing quote");
        refuse("{'a': 1, 'a': 2}", ERR_INVALID, "1:10: this key was there before");
        refuse("{} x", ERR_INVALID, "1:4: something follows the schema");
        refuse("{'a': '\\ud800'}", ERR_INVALID, "half of a surrogate pair");
        refuse("{'a': '\xff'}", ERR_INVALID, "this is not UTF-8");
        refuse("3", ERR_INVALID, "schema, #: a schema is an object");
        refuse("{'type': 'int'}", ERR_INVALID, "#/type: a type is");
        refuse("{'type': ['string', 3]}", ERR_INVALID, "#/type/1: a type is");
        refuse("{'properties': 3}", ERR_INVALID, "#/properties: must be an object");
        refuse("{'required': [3]}", ERR_INVALID, "#/required/0: must be a string");
        refuse("{'type': 'string', 'minLength': -1}", ERR_INVALID,
                "#/minLength: must be a whole number");
        refuse("{'type': 'string', 'minLength': 1.5}", ERR_INVALID, "#/minLength: must be a whole");
        refuse("{'minimum': 'a'}", ERR_INVALID, "#/minimum: must be a number");
        refuse("{'pattern': '^(a$'}", ERR_UNSUPPORTED, "#/pattern: at 3 of the pattern: ^ and $");
        refuse("{'pattern': '(a'}", ERR_INVALID, "without its closing parenthesis");
        refuse("{'pattern': 'a)'}", ERR_INVALID, "at 1 of the pattern: a parenthesis");
        refuse("{'pattern': '[a'}", ERR_INVALID, "without its closing bracket");
        refuse("{'pattern': '*'}", ERR_INVALID, "a repetition of nothing");
        refuse("{'pattern': 'a**'}", ERR_INVALID, "a repetition of a repetition");
        refuse("{'pattern': '(?=a)'}", ERR_UNSUPPORTED, "groups other than");
        refuse("{'pattern': '(a)\\\\1'}", ERR_UNSUPPORTED, "references back");
        refuse("{'pattern': '\\\\bx'}", ERR_UNSUPPORTED, "word boundaries");
        refuse("{'pattern': '\\\\p{L}'}", ERR_UNSUPPORTED, "this escape is not supported");
}

static void test_limits(void **state) {
        char *text = malloc(300000);
        size_t n = 0;

        for (int i = 0; i < 70; i++)
                n += (size_t)sprintf(text + n, "{'items':");
        sprintf(text + n, "{}");
        refuse(text, ERR_TOO_LARGE, "nested more than 64 deep");
        refuse("{'type': 'string', 'maxLength': 1000001}", ERR_TOO_LARGE,
                "#/maxLength: more than 1000000");
        check("{'type': 'string', 'minLength': 999999, 'maxLength': 1000000}", NOTHING, LIST("''"));
        n = (size_t)sprintf(text, "{'enum': [0");
        for (int i = 1; i < 15000; i++)
                n += (size_t)sprintf(text + n, ",'value-%d'", i);
        sprintf(text + n, "]}");
        check(text, LIST("0", "'value-14999'", "'value-7'"), LIST("'value-15000'", "'value-'"));
        n = (size_t)sprintf(text, "{'allOf':[");
        for (int i = 0; i < 40; i++)
                n += (size_t)sprintf(text + n, "%s{'anyOf':[{'minimum':%d},{'maximum':%d}]}",
                        i ? "," : "", i, i + 1000);
        sprintf(text + n, "]}");
        refuse(text, ERR_TOO_LARGE, "more than 16384 rules");
        n = (size_t)sprintf(text, "{'properties':{");
        for (int i = 0; i < 5000; i++)
                n += (size_t)sprintf(text + n, "%s'p%d':{}", i ? "," : "", i);
        sprintf(text + n, "}}");
        refuse(text, ERR_TOO_LARGE, "more than 4096 properties");
        n = (size_t)sprintf(text, "{'allOf':[");
        for (int i = 0; i < 200; i++)
                n += (size_t)sprintf(text + n, "%s{'minimum':%d}", i ? "," : "", i);
        sprintf(text + n, "]}");
        refuse(text, ERR_TOO_LARGE, "more than 128 schemas for one value");
        free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_value),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_objects),
                cmocka_unit_test(test_additional),
                cmocka_unit_test(test_arrays),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_formats),
                cmocka_unit_test(test_enums),
                cmocka_unit_test(test_integers),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_choices),
                cmocka_unit_test(test_all_of),
                cmocka_unit_test(test_references),
                cmocka_unit_test(test_unmet),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_limits),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
