/* SPDX-License-Identifier: MIT */
/* Equality and order, as Python has them; the origin of text plays no part in either. */
#include "base/util.h"
#include "jinja/run.h"
#include <string.h>

static bool dicts_equal(struct run *r, const struct dict *a, const struct dict *b) {
        struct entry *x, *y;
        size_t at = 0;

        if (a->n != b->n)
                return false;
        while ((x = dict_next(a, &at)) && run_work(r, 1)) {
                y = dict_find(b, x->key);
                if (!y || !values_equal(r, x->value, y->value))
                        return false;
        }
        return true;
}

static bool lists_equal(struct run *r, const struct list *a, const struct list *b) {
        if (a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n && run_work(r, 1); i++)
                if (!values_equal(r, a->items[i], b->items[i]))
                        return false;
        return true;
}

bool values_equal(struct run *r, struct value a, struct value b) {
        bool equal = false;

        if (a.type == T_STRING && b.type == T_STRING)
                return a.s->n == b.s->n && run_bytes(r, a.s->n) && string_equal(a.s, b.s);
        if (!run_enter(r))
                equal = false;
        else if (a.type == T_DICT && b.type == T_DICT)
                equal = a.dict == b.dict || dicts_equal(r, a.dict, b.dict);
        else if (is_sequence(a) && a.type == b.type)
                equal = a.list == b.list || lists_equal(r, a.list, b.list);
        else if (a.type >= T_LIST && a.type == b.type)
                equal = a.list == b.list; /* the same object */
        else
                equal = scalar_equal(a, b);
        run_leave(r);
        return equal;
}

static int order_lists(struct run *r, const struct list *a, const struct list *b) {
        for (size_t i = 0; i < a->n && i < b->n && run_work(r, 1); i++)
                if (!values_equal(r, a->items[i], b->items[i]))
                        return values_order(r, a->items[i], b->items[i]);
        return (a->n > b->n) - (a->n < b->n);
}

static int order_numbers(struct value a, struct value b) {
        if (a.type == T_FLOAT || b.type == T_FLOAT)
                return (as_double(a) > as_double(b)) - (as_double(a) < as_double(b));
        return (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
}

int values_order(struct run *r, struct value a, struct value b) {
        int order = 0;

        if (a.type == T_STRING && b.type == T_STRING)
                return run_bytes(r, MIN(a.s->n, b.s->n)) ? string_order(a.s, b.s) : 0;
        if (!run_enter(r))
                order = 0;
        else if (is_number(a) && is_number(b))
                order = order_numbers(a, b);
        else if (is_sequence(a) && a.type == b.type)
                order = order_lists(r, a.list, b.list);
        else if (a.type == T_UNDEFINED || b.type == T_UNDEFINED)
                run_undefined(r, a.type == T_UNDEFINED ? a : b);
        else
                run_fail(r, "'%s' and '%s' have no order", type_name(a), type_name(b));
        run_leave(r);
        return order;
}

bool contains(struct run *r, struct value container, struct value item) {
        struct list *l;

        if (container.type == T_STRING) {
                if (item.type != T_STRING) {
                        run_fail(r, "'in' a string needs a string, not '%s'", type_name(item));
                        return false;
                }
                return run_bytes(r, container.s->n) &&
                       string_find(container.s, 0, item.s) != SIZE_MAX;
        }
        if (container.type == T_DICT) {
                if (item.type == T_LIST || item.type == T_DICT)
                        run_fail(r, "'%s' cannot be a key", type_name(item));
                return dict_find(container.dict, item) != NULL;
        }
        l = to_list(r, container);
        for (size_t i = 0; i < l->n && run_work(r, 1); i++)
                if (values_equal(r, l->items[i], item))
                        return true;
        return false;
}

/* NaN is neither less nor greater. */
static bool is_nan(struct value v) {
        return v.type == T_FLOAT && v.f != v.f;
}

bool compare_op(struct run *r, enum op op, struct value a, struct value b) {
        int order;

        switch (op) {
        case OP_EQ:
                return values_equal(r, a, b);
        case OP_NE:
                return !values_equal(r, a, b);
        case OP_IN:
                return contains(r, b, a);
        case OP_NOT_IN:
                return !contains(r, b, a);
        default:
                break;
        }
        order = values_order(r, a, b);
        if (is_nan(a) || is_nan(b))
                return false;
        return op == OP_LT   ? order < 0
               : op == OP_LE ? order <= 0
               : op == OP_GT ? order > 0
                             : order >= 0;
}

/* What has no order may be sorted as long as it is equal. */
static int sort_order(struct run *r, struct value a, struct value b) {
        bool same = a.type == b.type && (a.type == T_UNDEFINED || a.type == T_NONE);

        return same ? 0 : values_order(r, a, b);
}

/* Merge the sorted parts [from, middle) and [middle, to) of places in @keys. */
static void merge(struct run *r, const struct list *keys, bool reverse, uint32_t *places,
        uint32_t *other, const size_t bounds[3]) {
        size_t i = bounds[0], k = bounds[1];

        for (size_t out = bounds[0]; out < bounds[2] && run_work(r, 1); out++) {
                bool right = i >= bounds[1];

                if (!right && k < bounds[2]) {
                        int order = sort_order(r, keys->items[places[i]], keys->items[places[k]]);

                        right = reverse ? order < 0 : order > 0;
                }
                other[out] = places[right ? k++ : i++];
        }
        for (size_t out = bounds[0]; out < bounds[2] && !run_failed(r); out++)
                places[out] = other[out];
}

void sort_list(struct run *r, struct list *l, struct list *keys, bool reverse) {
        uint32_t *places = arena_array(&r->arena, l->n, sizeof(*places));
        uint32_t *other = arena_array(&r->arena, l->n, sizeof(*other));
        struct value *old;

        if (run_failed(r))
                return;
        for (size_t i = 0; i < l->n; i++)
                places[i] = (uint32_t)i;
        for (size_t width = 1; width < l->n && !run_failed(r); width *= 2)
                for (size_t from = 0; from + width < l->n && !run_failed(r); from += 2 * width) {
                        const size_t bounds[3] = {from, from + width, MIN(from + 2 * width, l->n)};

                        merge(r, keys, reverse, places, other, bounds);
                }
        old = arena_grow(&r->arena, l->items, l->n * sizeof(*old), l->n * sizeof(*old));
        for (size_t i = 0; old && i < l->n; i++)
                l->items[i] = old[places[i]];
}
