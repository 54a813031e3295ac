/* SPDX-License-Identifier: MIT */
/*
 * JSON schema to rules. A rule belongs to a set of schemas that must all hold: allOf and $ref put
 * more schemas into the set, and each choice of anyOf makes a set of its own. Two places with the
 * same set share their rule, which is how recursive schemas end. docs/grammar.md has the keywords.
 *
 * 1. What is generated meets the schema. The reverse is not promised: values that a schema allows
 *    but that have no place here are left out (properties in another order, unusual spellings).
 * 2. A keyword that this does not know is refused by name, unless it is an annotation.
 * 3. White space is bounded: after { [ , and before } ] nothing, one space, or one newline with up
 *    to MAX_INDENT spaces; after a colon nothing or one space. So no reply is white space without
 *    end.
 * 4. Rules are written from a list, not by recursion: chains of $ref may be long.
 */
#include "grammar/schema.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "grammar/json-chars.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INDENT 32
#define MAX_CHOICES 4096

uint32_t schema_fail(struct schema *s, enum err_code code, uint32_t node, const char *what) {
        char pointer[120];

        return build_fail(s->b, code, "schema, %s: %s",
                dom_pointer(&s->dom, node, pointer, sizeof(pointer)), what);
}

uint32_t schema_never(struct schema *s, uint32_t node, const char *why) {
        struct build *b = s->b;
        char pointer[120];

        if (b->failed || b->rules[s->rule].why)
                return NEVER;
        dom_pointer(&s->dom, node, pointer, sizeof(pointer));
        b->rules[s->rule].name = b->n_bytes;
        b->rules[s->rule].name_size = (uint32_t)strlen(pointer);
        b->rules[s->rule].why = why;
        build_bytes(b, pointer, strlen(pointer));
        return NEVER;
}

/* --- keywords --- */

static const char *const known[] = {"type", "properties", "required", "additionalProperties",
        "enum", "const", "items", "prefixItems", "additionalItems", "minItems", "maxItems",
        "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "pattern", "format", "anyOf", "oneOf", "allOf", "$ref", "nullable",
        "uniqueItems", "minProperties", "maxProperties", "unevaluatedProperties",
        "unevaluatedItems"};
static const char *const annotations[] = {"title", "description", "default", "example", "examples",
        "deprecated", "readOnly", "writeOnly", "$schema", "$id", "id", "$comment", "$defs",
        "definitions", "$anchor", "contentEncoding", "contentMediaType", "externalDocs",
        "discriminator"};

static bool is_one_of(const struct schema *s, uint32_t node, const char *const *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (dom_key_is(&s->dom, node, list[i]))
                        return true;
        return false;
}

static bool check_kind(struct schema *s, uint32_t node, const char *key, enum dom_kind kind) {
        if (!dom_key_is(&s->dom, node, key) || s->dom.nodes[node].kind == kind)
                return true;
        schema_fail(s, ERR_INVALID, node,
                kind == DOM_ARRAY    ? "must be an array"
                : kind == DOM_STRING ? "must be a string"
                                     : "must be an object");
        return false;
}

static bool check_key(struct schema *s, uint32_t node) {
        const struct dom *d = &s->dom;
        const struct dom_node *x = &d->nodes[node];

        if (is_one_of(s, node, annotations, ARRAY_SIZE(annotations)))
                return true;
        if (x->key_size > 2 && memcmp(d->bytes + x->key, "x-", 2) == 0)
                return true;
        if (!is_one_of(s, node, known, ARRAY_SIZE(known))) {
                schema_fail(s, ERR_UNSUPPORTED, node, "this keyword is not supported");
                return false;
        }
        if (dom_key_is(d, node, "uniqueItems") && x->kind != DOM_FALSE) {
                schema_fail(s, ERR_UNSUPPORTED, node, "only false is supported");
                return false;
        }
        if ((dom_key_is(d, node, "unevaluatedProperties") ||
                    dom_key_is(d, node, "unevaluatedItems")) &&
                x->kind != DOM_FALSE && x->kind != DOM_TRUE) {
                schema_fail(s, ERR_UNSUPPORTED, node, "only true and false are supported");
                return false;
        }
        return check_kind(s, node, "properties", DOM_OBJECT) &&
               check_kind(s, node, "required", DOM_ARRAY) &&
               check_kind(s, node, "enum", DOM_ARRAY) &&
               check_kind(s, node, "prefixItems", DOM_ARRAY) &&
               check_kind(s, node, "anyOf", DOM_ARRAY) && check_kind(s, node, "oneOf", DOM_ARRAY) &&
               check_kind(s, node, "allOf", DOM_ARRAY) && check_kind(s, node, "$ref", DOM_STRING) &&
               check_kind(s, node, "pattern", DOM_STRING) &&
               check_kind(s, node, "format", DOM_STRING);
}

static bool check_schema(struct schema *s, uint32_t node) {
        const struct dom *d = &s->dom;

        if (s->checked[node])
                return true;
        s->checked[node] = 1;
        if (d->nodes[node].kind == DOM_TRUE || d->nodes[node].kind == DOM_FALSE)
                return true;
        if (d->nodes[node].kind != DOM_OBJECT) {
                schema_fail(s, ERR_INVALID, node, "a schema is an object, true or false");
                return false;
        }
        for (uint32_t k = d->nodes[node].child; k != DOM_NONE; k = d->nodes[k].next)
                if (!check_key(s, k))
                        return false;
        return true;
}

uint32_t schema_count(struct schema *s, uint32_t node) {
        const struct dom *d = &s->dom;
        struct decimal x;
        uint32_t n = 0;

        if (d->nodes[node].kind != DOM_NUMBER ||
                !decimal_parse(&x, dom_text(d, node), d->nodes[node].text_size) || x.negative ||
                x.n_frac > 0) {
                schema_fail(s, ERR_INVALID, node, "must be a whole number, not negative");
                return 0;
        }
        for (unsigned i = 0; i < x.n_int && n <= MAX_REPEAT; i++)
                n = n * 10 + (uint32_t)(x.int_digits[i] - '0');
        if (n > MAX_REPEAT || x.n_int > 9)
                schema_fail(s, ERR_TOO_LARGE, node, "more than 1000000");
        return n;
}

uint32_t schema_bound(struct schema *s, const struct all *a, const char *key, bool most,
        uint32_t none, uint32_t *ret_node) {
        uint32_t best = none;

        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t node = item_get(s, &a->items[i], key), n;

                if (node == DOM_NONE)
                        continue;
                n = schema_count(s, node);
                if (best == none || (most ? n < best : n > best)) {
                        best = n;
                        *ret_node = node;
                }
        }
        return best;
}

/* --- sets of schemas --- */

void all_add(struct schema *s, struct all *a, uint32_t node, uint32_t parent) {
        if (s->b->failed || !check_schema(s, node) || s->dom.nodes[node].kind == DOM_TRUE)
                return;
        for (uint32_t i = 0; i < a->n; i++) {
                if (a->items[i].node != node)
                        continue;
                for (uint32_t p = parent; p != UINT32_MAX; p = a->items[p].parent)
                        if (p == i)
                                schema_fail(s, ERR_INVALID, node,
                                        "this schema refers to itself without end");
                return;
        }
        if (a->n == MAX_ITEMS) {
                schema_fail(s, ERR_TOO_LARGE, node, "more than 128 schemas for one value");
                return;
        }
        a->items[a->n++] = (struct item){node, 0, parent};
}

/* Put in what $ref and allOf name. */
static void flatten(struct schema *s, struct all *a) {
        const struct dom *d = &s->dom;

        for (uint32_t i = 0; i < a->n && !s->b->failed; i++) {
                uint32_t ref = item_get(s, &a->items[i], "$ref"), k, to;

                if (a->items[i].used & ITEM_FLAT)
                        continue;
                a->items[i].used |= ITEM_FLAT;
                if (ref != DOM_NONE) {
                        to = dom_resolve(d, dom_text(d, ref), d->nodes[ref].text_size);
                        if (to == DOM_NONE)
                                schema_fail(s, ERR_INVALID, ref,
                                        "this names nothing (only references inside of the schema, "
                                        "like #/$defs/name, are supported)");
                        else
                                all_add(s, a, to, i);
                }
                k = item_get(s, &a->items[i], "allOf");
                if (k == DOM_NONE)
                        continue;
                for (k = d->nodes[k].child; k != DOM_NONE; k = d->nodes[k].next)
                        all_add(s, a, k, i);
        }
}

static int compare_keys(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

static void remember(struct schema *s, const struct all *a, uint32_t rule) {
        struct build *b = s->b;
        int r = TABLE_ROOM(&b->charge, s->todo, s->todo_capacity, s->n_todo, b->e);

        for (uint32_t i = 0; i < a->n && r == 0; i++) {
                r = TABLE_ROOM(&b->charge, s->items, s->items_capacity, s->n_items + i, b->e);
                if (r == 0)
                        s->items[s->n_items + i] = a->items[i];
        }
        if (r < 0) {
                b->failed = b->failed ? b->failed : r;
                return;
        }
        s->todo[s->n_todo++] = (struct todo_rule){rule, s->n_items, a->n};
        s->n_items += a->n;
}

uint32_t schema_use(struct schema *s, struct all *a) {
        struct build *b = s->b;
        uint32_t keys[MAX_ITEMS + 1], rule;
        uintptr_t known_rule;
        size_t size, cost;
        int r;

        flatten(s, a);
        if (b->failed)
                return NEVER;
        for (uint32_t i = 0; i < a->n; i++)
                keys[i] = a->items[i].node << 2 | (a->items[i].used & 3);
        qsort(keys, a->n, sizeof(*keys), compare_keys);
        keys[a->n] = UINT32_MAX;
        size = (a->n + 1) * sizeof(*keys);
        known_rule = (uintptr_t)map_get(s->rules, keys, size);
        if (known_rule)
                return build_rule_use(b, (uint32_t)(known_rule - 1));
        cost = size + 160; /* a copy of the key, and slots */
        r = charge_take(&b->charge, cost, "a grammar", b->e);
        if (r < 0) {
                b->failed = r;
                return NEVER;
        }
        s->map_size += cost;
        rule = build_rule(b, true);
        if (b->failed)
                return NEVER;
        if (map_add(s->rules, keys, size, (void *)((uintptr_t)rule + 1), b->e) < 0)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        remember(s, a, rule);
        return build_rule_use(b, rule);
}

/* --- one set --- */

/* Each choice of the item's anyOf or oneOf makes a set of its own. */
static uint32_t choices(
        struct schema *s, const struct all *a, uint32_t i, uint32_t list, uint32_t used) {
        const struct dom *d = &s->dom;
        _cleanup_(freep) uint32_t *kids = NULL;
        uint32_t n = 0;

        if (d->nodes[list].n == 0)
                return schema_never(s, list, "there is nothing to choose from");
        if (d->nodes[list].n > MAX_CHOICES)
                return schema_fail(s, ERR_TOO_LARGE, list, "more than 4096 choices");
        kids = malloc(d->nodes[list].n * sizeof(*kids));
        if (!kids)
                return build_fail(s->b, ERR_NOMEM, "no memory for a grammar");
        for (uint32_t k = d->nodes[list].child; k != DOM_NONE && !s->b->failed;
                k = d->nodes[k].next) {
                struct all one = *a;

                one.items[i].used |= used;
                all_add(s, &one, k, i);
                kids[n++] = schema_use(s, &one);
        }
        return build_alt(s->b, kids, n);
}

static unsigned type_named(struct schema *s, uint32_t node) {
        static const struct {
                const char *name;
                unsigned type;
        } names[] = {{"null", TYPE_NULL}, {"boolean", TYPE_BOOL}, {"integer", TYPE_INTEGER},
                {"number", TYPE_NUMBER}, {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                {"object", TYPE_OBJECT}};
        const struct dom_node *x = &s->dom.nodes[node];

        if (x->kind == DOM_STRING)
                for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                        if (x->text_size == strlen(names[i].name) &&
                                memcmp(dom_text(&s->dom, node), names[i].name, x->text_size) == 0)
                                return names[i].type;
        schema_fail(s, ERR_INVALID, node,
                "a type is null, boolean, integer, number, string, array or object");
        return 0;
}

static unsigned types_of(struct schema *s, const struct item *i, uint32_t *ret_node) {
        const struct dom *d = &s->dom;
        uint32_t node = item_get(s, i, "type"), nullable = item_get(s, i, "nullable");
        unsigned types = 0;

        if (node == DOM_NONE)
                return TYPE_ANY;
        *ret_node = node;
        if (d->nodes[node].kind == DOM_ARRAY)
                for (uint32_t k = d->nodes[node].child; k != DOM_NONE; k = d->nodes[k].next)
                        types |= type_named(s, k);
        else
                types = type_named(s, node);
        if (nullable != DOM_NONE && d->nodes[nullable].kind == DOM_TRUE)
                types |= TYPE_NULL;
        return types;
}

/* Without a type, keywords of one type mean it. */
static unsigned guess_types(struct schema *s, const struct all *a) {
        static const struct {
                const char *key;
                unsigned type;
        } keys[] = {{"properties", TYPE_OBJECT}, {"required", TYPE_OBJECT},
                {"additionalProperties", TYPE_OBJECT}, {"items", TYPE_ARRAY},
                {"prefixItems", TYPE_ARRAY}, {"minItems", TYPE_ARRAY}, {"maxItems", TYPE_ARRAY},
                {"minLength", TYPE_STRING}, {"maxLength", TYPE_STRING}, {"pattern", TYPE_STRING},
                {"format", TYPE_STRING}, {"minimum", TYPE_NUMBER}, {"maximum", TYPE_NUMBER},
                {"exclusiveMinimum", TYPE_NUMBER}, {"exclusiveMaximum", TYPE_NUMBER},
                {"multipleOf", TYPE_NUMBER}};
        unsigned types = 0;

        for (uint32_t i = 0; i < a->n; i++)
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        if (item_get(s, &a->items[i], keys[k].key) != DOM_NONE)
                                types |= keys[k].type;
        return types ? types : TYPE_ANY;
}

static bool is_typed(const struct schema *s, const struct item *i) {
        return item_get(s, i, "type") != DOM_NONE || item_get(s, i, "enum") != DOM_NONE ||
               item_get(s, i, "const") != DOM_NONE;
}

/* The types that all schemas of the set allow. */
static unsigned find_types(struct schema *s, const struct all *a, uint32_t *ret_node) {
        unsigned types = TYPE_ANY;
        bool typed = false;

        for (uint32_t i = 0; i < a->n; i++) {
                types &= types_of(s, &a->items[i], ret_node);
                typed = typed || is_typed(s, &a->items[i]);
        }
        return typed ? types : types & guess_types(s, a);
}

static uint32_t write_types(struct schema *s, const struct all *a) {
        struct build *b = s->b;
        uint32_t kids[8], n = 0, node = 0, expr;
        unsigned types = find_types(s, a, &node);
        bool found;

        if (b->failed)
                return NEVER;
        if (types == 0)
                return schema_never(s, node, "no type is left that all its schemas allow");
        expr = schema_enum(s, a, types, &found);
        if (found)
                return expr;
        if (types & TYPE_NULL)
                kids[n++] = build_text(b, "null");
        if (types & TYPE_BOOL) {
                kids[n++] = build_text(b, "true");
                kids[n++] = build_text(b, "false");
        }
        if (types & TYPE_NUMBER)
                kids[n++] = schema_number(s, a, types);
        if (types & TYPE_STRING)
                kids[n++] = schema_string(s, a);
        if (types & TYPE_ARRAY)
                kids[n++] = schema_array(s, a);
        if (types & TYPE_OBJECT)
                kids[n++] = schema_object(s, a);
        return build_alt(b, kids, n);
}

static uint32_t write_all(struct schema *s, const struct all *a) {
        for (uint32_t i = 0; i < a->n; i++) {
                const struct item *x = &a->items[i];
                uint32_t any = item_get(s, x, "anyOf"), one = item_get(s, x, "oneOf");

                if (s->dom.nodes[x->node].kind == DOM_FALSE)
                        return schema_never(s, x->node, "the schema false allows nothing");
                if (any != DOM_NONE && !(x->used & ITEM_ANY_OF))
                        return choices(s, a, i, any, ITEM_ANY_OF);
                if (one != DOM_NONE && !(x->used & ITEM_ONE_OF))
                        return choices(s, a, i, one, ITEM_ONE_OF);
        }
        return write_types(s, a);
}

/* --- the whole --- */

static void make_common(struct schema *s) {
        struct build *b = s->b;
        uint32_t rule, blank = build_text(b, " "), quote = build_text(b, "\"");
        struct range digit = {'0', '9'}, first = {'1', '9'};
        uint32_t digits = build_chars(b, &digit, 1), expr, fraction, exponent, sign;

        rule = build_rule(b, true);
        build_define(b, rule,
                ALT(b, EMPTY, blank,
                        SEQ(b, build_text(b, "\n"), build_repeat(b, blank, 0, MAX_INDENT))));
        s->space = build_rule_use(b, rule);
        s->any_char = json_any_char(b);
        rule = build_rule(b, true);
        build_define(b, rule, SEQ(b, quote, build_repeat(b, s->any_char, 0, BUILD_ENDLESS), quote));
        s->string = build_rule_use(b, rule);
        /* Bounded: 16 digits are what a double keeps. */
        expr = ALT(b, build_text(b, "0"),
                SEQ(b, build_chars(b, &first, 1), build_repeat(b, digits, 0, 15)));
        expr = SEQ(b, build_repeat(b, build_text(b, "-"), 0, 1), expr);
        rule = build_rule(b, true);
        build_define(b, rule, expr);
        s->integer = build_rule_use(b, rule);
        fraction = SEQ(b, build_text(b, "."), build_repeat(b, digits, 1, 16));
        sign = build_repeat(b, ALT(b, build_text(b, "+"), build_text(b, "-")), 0, 1);
        exponent = SEQ(b, ALT(b, build_text(b, "e"), build_text(b, "E")), sign,
                build_repeat(b, digits, 1, 3));
        rule = build_rule(b, true);
        build_define(b, rule,
                SEQ(b, s->integer, build_repeat(b, fraction, 0, 1),
                        build_repeat(b, exponent, 0, 1)));
        s->number = build_rule_use(b, rule);
}

static void write_rules(struct schema *s) {
        for (uint32_t i = 0; i < s->n_todo && !s->b->failed; i++) {
                struct todo_rule t = s->todo[i];
                struct all a = {.n = t.n};

                if (t.n > 0)
                        memcpy(a.items, s->items + t.first, t.n * sizeof(*a.items));
                s->rule = t.rule;
                build_define(s->b, t.rule, write_all(s, &a));
                build_work(s->b, 16);
        }
}

uint32_t schema_parse(struct build *b, const char *text, size_t size) {
        struct schema s = {.b = b};
        struct all a = {.n = 0};
        uint32_t root = 0, expr;
        int r;

        dom_parse(&s.dom, b, text, size);
        r = b->failed ? b->failed : charge_take(&b->charge, s.dom.n_nodes, "a grammar", b->e);
        if (r == 0) {
                s.map_size = s.dom.n_nodes;
                s.checked = calloc(1, s.dom.n_nodes);
                r = s.checked ? map_new(&s.rules, b->e) : err_set(b->e, ERR_NOMEM, "no memory");
        }
        b->failed = r;
        if (r == 0) {
                make_common(&s);
                all_add(&s, &a, 0, UINT32_MAX);
                expr = schema_use(&s, &a);
                root = b->failed ? 0 : b->exprs[expr].a;
                write_rules(&s);
        }
        map_free(s.rules);
        free(s.checked);
        free(s.todo);
        free(s.items);
        charge_give(&b->charge, s.map_size + s.todo_capacity * sizeof(*s.todo) +
                                        s.items_capacity * sizeof(*s.items));
        dom_deinit(&s.dom);
        return root;
}
