/* SPDX-License-Identifier: MIT */
/*
 * Sets of schemas that must all hold: what is put into one, which keywords are known, and the rule
 * that belongs to it. The rules are written later, from a list (schema.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "grammar/schema.h"

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
