/* SPDX-License-Identifier: MIT */
/* Arrays: first items with schemas of their own (prefixItems), then the rest. */
#include "base/util.h"
#include "grammar/schema.h"

struct array {
        struct schema *s;
        const struct all *a;
        uint32_t min, max, n_first;
        uint32_t comma, close;
};

/* items of drafts before 2020-12 may be what prefixItems is now. */
static uint32_t first_items(const struct schema *s, const struct item *x) {
        uint32_t node = item_get(s, x, "prefixItems"), items = item_get(s, x, "items");

        if (node == DOM_NONE && items != DOM_NONE && s->dom.nodes[items].kind == DOM_ARRAY)
                node = items;
        return node;
}

static uint32_t rest_items(const struct schema *s, const struct item *x) {
        uint32_t items = item_get(s, x, "items");

        if (items != DOM_NONE && s->dom.nodes[items].kind == DOM_ARRAY)
                items = item_get(s, x, "additionalItems");
        if (items == DOM_NONE)
                items = item_get(s, x, "unevaluatedItems"); /* true or false */
        return items;
}

/* The schema for item @i, or for those behind the first ones. */
static uint32_t item_expr(struct array *x, uint32_t i) {
        struct schema *s = x->s;
        struct all all = {.n = 0};

        for (uint32_t k = 0; k < x->a->n; k++) {
                uint32_t list = first_items(s, &x->a->items[k]), node = DOM_NONE;

                if (list != DOM_NONE && i < s->dom.nodes[list].n) {
                        node = s->dom.nodes[list].child;
                        for (uint32_t n = i; n > 0; n--)
                                node = s->dom.nodes[node].next;
                        build_work(s->b, i);
                } else {
                        node = rest_items(s, &x->a->items[k]);
                }
                if (node != DOM_NONE)
                        all_add(s, &all, node, UINT32_MAX);
        }
        return schema_use(s, &all);
}

/* What follows the first ones: any number within the bounds. */
static uint32_t rest_expr(struct array *x) {
        struct build *b = x->s->b;
        uint32_t min = x->min > x->n_first ? x->min - x->n_first : 0, item, expr;
        uint32_t max = x->max == BUILD_ENDLESS ? x->max : x->max - x->n_first;

        if (max == 0)
                return x->close;
        item = item_expr(x, UINT32_MAX);
        if (x->n_first > 0)
                return SEQ(b, build_repeat(b, SEQ(b, x->comma, item), min, max), x->close);
        expr = build_repeat(b, SEQ(b, x->comma, item), min > 0 ? min - 1 : 0,
                max == BUILD_ENDLESS ? max : max - 1);
        expr = SEQ(b, item, expr, x->close);
        return min == 0 ? ALT(b, build_text(b, "]"), expr) : expr;
}

uint32_t schema_array(struct schema *s, const struct all *a) {
        struct array x = {.s = s, .a = a};
        struct build *b = s->b;
        uint32_t node = 0, max_node, tail, rule;

        x.min = schema_bound(s, a, "minItems", false, 0, &node);
        x.max = schema_bound(s, a, "maxItems", true, BUILD_ENDLESS, &max_node);
        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t list = first_items(s, &a->items[i]);

                if (list != DOM_NONE)
                        x.n_first = MAX(x.n_first, s->dom.nodes[list].n);
        }
        if (b->failed)
                return NEVER;
        if (x.min > x.max)
                return schema_never(s, node, "there must be more items than there may be");
        x.n_first = MIN(x.n_first, x.max);
        x.comma = SEQ(b, build_text(b, ","), s->space);
        x.close = SEQ(b, s->space, build_text(b, "]"));
        if (x.min > 0)
                schema_never(s, node, "these items cannot be met, but there must be some");
        tail = rest_expr(&x);
        /* from the last of the first items to the first, a rule each */
        for (uint32_t i = x.n_first; i-- > 0 && !b->failed;) {
                uint32_t item = item_expr(&x, i);

                rule = build_rule(b, true);
                build_define(b, rule, tail);
                tail = build_rule_use(b, rule);
                tail = i > 0 ? SEQ(b, x.comma, item, tail) : SEQ(b, item, tail);
                if (i >= x.min)
                        tail = ALT(b, tail, i > 0 ? x.close : build_text(b, "]"));
        }
        return SEQ(b, build_text(b, "["), s->space, tail);
}
