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
