/* SPDX-License-Identifier: MIT */
/*
 * Objects. Properties come in the order of the schema (of several schemas: one after the other),
 * those that are not required may be left out, and further ones come last. Without
 * additionalProperties there are none further if the schema names any property; an object without
 * any may have all.
 *
 * The rest of an object behind a property is a rule, and so is the rest at its beginning, where no
 * comma comes first. All of them end with the closing brace, so that they are tail calls.
 */
#include "base/util.h"
#include "grammar/json-chars.h"
#include "grammar/schema.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

#define MAX_PROPERTIES 4096u

struct property {
        uint32_t key, key_size; /* in dom.bytes */
        uint32_t required;      /* the node that requires it, or DOM_NONE */
        uint32_t member;        /* expression */
};

struct object {
        struct schema *s;
        const struct all *a;
        struct property *properties;
        struct map *names; /* property + 1 */
        uint32_t n, capacity;
        uint32_t comma, close;
        bool open; /* further properties are allowed */
        size_t map_size;
};

static void add_property(struct object *o, uint32_t key, uint32_t key_size, uint32_t required) {
        struct schema *s = o->s;
        struct build *b = s->b;
        const uint8_t *name = s->dom.bytes + key;
        uintptr_t at = (uintptr_t)map_get(o->names, name, key_size);
        int r;

        if (at) {
                if (required != DOM_NONE)
                        o->properties[at - 1].required = required;
                return;
        }
        if (o->n == MAX_PROPERTIES) {
                build_fail(b, ERR_TOO_LARGE, "schema: an object with more than 4096 properties");
                return;
        }
        r = TABLE_ROOM(&b->charge, o->properties, o->capacity, o->n, b->e);
        if (r == 0)
                r = charge_take(&b->charge, key_size + 160, "a grammar", b->e);
        if (r < 0) {
                b->failed = r;
                return;
        }
        o->map_size += key_size + 160;
        o->properties[o->n++] = (struct property){key, key_size, required, NEVER};
        if (map_add(o->names, name, key_size, (void *)(uintptr_t)o->n, b->e) < 0)
                b->failed = -ERR_NOMEM;
}

static void find_properties(struct object *o) {
        struct schema *s = o->s;
        const struct dom *d = &s->dom;

        for (uint32_t i = 0; i < o->a->n && !s->b->failed; i++) {
                uint32_t list = item_get(s, &o->a->items[i], "properties"), k;

                if (list == DOM_NONE)
                        continue;
                for (k = d->nodes[list].child; k != DOM_NONE && !s->b->failed; k = d->nodes[k].next)
                        add_property(o, d->nodes[k].key, d->nodes[k].key_size, DOM_NONE);
        }
        for (uint32_t i = 0; i < o->a->n && !s->b->failed; i++) {
                uint32_t list = item_get(s, &o->a->items[i], "required"), k;

                if (list == DOM_NONE)
                        continue;
                for (k = d->nodes[list].child; k != DOM_NONE && !s->b->failed;
                        k = d->nodes[k].next) {
                        if (d->nodes[k].kind != DOM_STRING)
                                schema_fail(s, ERR_INVALID, k, "must be a string");
                        else
                                add_property(o, d->nodes[k].text, d->nodes[k].text_size, k);
                }
        }
}

static uint32_t additional(const struct schema *s, const struct item *x) {
        uint32_t node = item_get(s, x, "additionalProperties");

        return node != DOM_NONE ? node : item_get(s, x, "unevaluatedProperties");
}

/* The schema of a property, or (key NULL) of further ones. */
static uint32_t property_schema(struct object *o, const uint8_t *key, uint32_t key_size) {
        struct schema *s = o->s;
        struct all all = {.n = 0};

        for (uint32_t i = 0; i < o->a->n; i++) {
                const struct item *x = &o->a->items[i];
                uint32_t list = item_get(s, x, "properties"), node = DOM_NONE;

                if (key && list != DOM_NONE)
                        node = dom_get_n(&s->dom, list, key, key_size);
                if (node == DOM_NONE)
                        node = item_get(s, x, "additionalProperties");
                if (node != DOM_NONE)
                        all_add(s, &all, node, UINT32_MAX);
        }
        return schema_use(s, &all);
}

static uint32_t colon(struct object *o) {
        struct build *b = o->s->b;

        return SEQ(b, build_text(b, ":"), build_repeat(b, build_text(b, " "), 0, 1));
}

static void make_members(struct object *o) {
        struct build *b = o->s->b;
        uint32_t quote = build_text(b, "\"");

        for (uint32_t i = 0; i < o->n && !b->failed; i++) {
                struct property *p = &o->properties[i];
                uint32_t key = json_literal(b, o->s->dom.bytes + p->key, p->key_size);
                uint32_t value = property_schema(o, o->s->dom.bytes + p->key, p->key_size);

                p->member = SEQ(b, quote, key, quote, colon(o), value);
        }
}

/* --- names of further properties: all but those of the schema --- */

struct name {
        const uint8_t *text;
        uint32_t n;
};

static int compare_names(const void *a, const void *b) {
        const struct name *x = a, *y = b;
        int r = memcmp(x->text, y->text, MIN(x->n, y->n));

        return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

static uint32_t other_char(struct build *b, const struct range * not, size_t n) {
        struct range *r = malloc((n + 1) * sizeof(*r));
        uint32_t from = 1, expr;
        size_t m = 0;

        if (!r)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        for (size_t i = 0; i < n; i++) {
                if (not [i].from > from)
                        r[m++] = (struct range){from, not [i].from - 1};
                from = not [i].to + 1;
        }
        r[m++] = (struct range){from, LAST_CHAR};
        expr = json_chars(b, r, m);
        free(r);
        return expr;
}

/* Texts that are none of the @n sorted ones, which are equal in their first @depth bytes. */
static uint32_t other_names(
        struct object *o, const struct name *names, size_t n, uint32_t depth, uint32_t any) {
        struct build *b = o->s->b;
        struct range *first = malloc(n * sizeof(*first));
        uint32_t *kids = malloc((n + 2) * sizeof(*kids)), expr;
        size_t n_first = 0, n_kids = 0;

        if (!first || !kids)
                build_fail(b, ERR_NOMEM, "no memory for a grammar");
        if (!b->failed && names[0].n > depth)
                kids[n_kids++] = EMPTY; /* none of them ends here */
        for (size_t i = 0, end; i < n && !b->failed && build_work(b, 1); i = end) {
                uint32_t c = 0, size;
                uint8_t spelled[8];

                end = i + 1;
                if (names[i].n == depth)
                        continue;
                size = (uint32_t)MAX(utf8_decode(names[i].text + depth, names[i].n - depth, &c), 1);
                while (end < n && names[end].n >= depth + size &&
                        memcmp(names[end].text + depth, names[i].text + depth, size) == 0)
                        end++;
                first[n_first++] = (struct range){c, c};
                expr = build_bytes(b, spelled, json_spell(c, spelled));
                kids[n_kids++] =
                        SEQ(b, expr, other_names(o, names + i, end - i, depth + size, any));
        }
        if (!b->failed)
                kids[n_kids++] = SEQ(
                        b, n_first ? other_char(b, first, n_first) : other_char(b, NULL, 0), any);
        expr = b->failed ? NEVER : build_alt(b, kids, n_kids);
        free(first);
        free(kids);
        return expr;
}

static uint32_t other_member(struct object *o) {
        struct build *b = o->s->b;
        uint32_t quote = build_text(b, "\""), value = property_schema(o, NULL, 0), any, key;
        struct name *names;

        if (o->n == 0)
                return SEQ(b, o->s->string, colon(o), value);
        any = build_repeat(b, other_char(b, NULL, 0), 0, BUILD_ENDLESS);
        names = malloc(o->n * sizeof(*names));
        if (!names)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        for (uint32_t i = 0; i < o->n; i++) {
                names[i] = (struct name){
                        o->s->dom.bytes + o->properties[i].key, o->properties[i].key_size};
                if (names[i].n > 512)
                        build_fail(b, ERR_TOO_LARGE,
                                "schema: a property's name of more than 512 "
                                "bytes beside additionalProperties");
        }
        qsort(names, o->n, sizeof(*names), compare_names);
        key = b->failed ? NEVER : other_names(o, names, o->n, 0, any);
        free(names);
        return SEQ(b, quote, key, quote, colon(o), value);
}

/* --- the whole --- */

static bool is_open(const struct object *o) {
        bool named = false, open = false;

        for (uint32_t i = 0; i < o->a->n; i++) {
                uint32_t node = additional(o->s, &o->a->items[i]);

                if (node != DOM_NONE && o->s->dom.nodes[node].kind == DOM_FALSE)
                        return false;
                if (item_get(o->s, &o->a->items[i], "additionalProperties") != DOM_NONE)
                        open = true;
                named = named || item_get(o->s, &o->a->items[i], "properties") != DOM_NONE;
        }
        return open || !named;
}

/* minProperties and maxProperties are supported where they say nothing new. */
static void check_counts(struct object *o) {
        struct schema *s = o->s;
        uint32_t node = 0, n_required = 0, n;

        for (uint32_t i = 0; i < o->n; i++)
                n_required += o->properties[i].required != DOM_NONE;
        n = schema_bound(s, o->a, "minProperties", false, 0, &node);
        if (n > n_required)
                schema_fail(s, ERR_UNSUPPORTED, node,
                        "supported only up to the number of required properties");
        n = schema_bound(s, o->a, "maxProperties", true, BUILD_ENDLESS, &node);
        if (n != BUILD_ENDLESS && (o->open || n < o->n))
                schema_fail(s, ERR_UNSUPPORTED, node,
                        "supported only from the number of properties on, without further ones");
}

static uint32_t in_rule(struct build *b, uint32_t expr) {
        uint32_t rule = build_rule(b, true);

        build_define(b, rule, expr);
        return build_rule_use(b, rule);
}

static uint32_t object_expr(struct object *o) {
        struct build *b = o->s->b;
        uint32_t member = o->open ? other_member(o) : NEVER, tail, head;

        tail = o->open ? SEQ(b, build_repeat(b, SEQ(b, o->comma, member), 0, BUILD_ENDLESS),
                                 o->close)
                       : o->close;
        tail = in_rule(b, tail);
        head = build_text(b, "}");
        if (o->open)
                head = in_rule(b, ALT(b, head, SEQ(b, member, tail)));
        for (uint32_t i = o->n; i-- > 0 && !b->failed;) {
                const struct property *p = &o->properties[i];
                uint32_t first = SEQ(b, p->member, tail);
                uint32_t next = SEQ(b, o->comma, p->member, tail);
                bool required = p->required != DOM_NONE;

                head = in_rule(b, required ? first : ALT(b, first, head));
                tail = in_rule(b, required ? next : ALT(b, next, tail));
        }
        return SEQ(b, build_text(b, "{"), o->s->space, head);
}

uint32_t schema_object(struct schema *s, const struct all *a) {
        struct object o = {.s = s, .a = a};
        struct build *b = s->b;
        uint32_t expr = NEVER;

        if (map_new(&o.names, b->e) < 0) {
                b->failed = -ERR_NOMEM;
                return NEVER;
        }
        o.comma = SEQ(b, build_text(b, ","), s->space);
        o.close = SEQ(b, s->space, build_text(b, "}"));
        o.open = is_open(&o);
        find_properties(&o);
        check_counts(&o);
        make_members(&o);
        if (!b->failed)
                expr = object_expr(&o);
        map_free(o.names);
        free(o.properties);
        charge_give(&b->charge, o.map_size + o.capacity * sizeof(*o.properties));
        return expr;
}
