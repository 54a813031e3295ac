/* SPDX-License-Identifier: MIT */
/* Filters of sequences and dicts. */
#include "base/util.h"
#include "jinja/filters.h"
#include <string.h>

static bool is_given(struct value v) {
        return v.type != T_UNDEFINED || v.missing;
}

static struct value f_length(struct run *r, const struct call *c) {
        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        switch ((enum type)c->self.type) {
        case T_UNDEFINED:
                return v_int(0);
        case T_STRING:
                return v_int((int64_t)c->self.s->n_chars);
        case T_LIST:
        case T_TUPLE:
                return v_int((int64_t)c->self.list->n);
        case T_DICT:
                return v_int((int64_t)c->self.dict->n);
        default:
                return run_fail(r, "'%s' object has no length", type_name(c->self));
        }
}

static struct value f_first(struct run *r, const struct call *c) {
        struct entry *e;
        size_t at = 0;

        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        if (c->self.type == T_DICT) {
                e = dict_next(c->self.dict, &at);
                return e ? e->key : UNDEFINED;
        }
        if (is_sequence(c->self) || c->self.type == T_STRING)
                return get_item(r, c->self, v_int(0));
        to_list(r, c->self);
        return UNDEFINED;
}

static struct value f_last(struct run *r, const struct call *c) {
        struct list *l;

        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        if (is_sequence(c->self) || c->self.type == T_STRING)
                return get_item(r, c->self, v_int(-1));
        l = to_list(r, c->self);
        return l->n > 0 ? l->items[l->n - 1] : UNDEFINED;
}

/* A list of its own, with the same items. */
static struct list *copy_list(struct run *r, struct value v) {
        struct list *from = to_list(r, v), *l;

        if (!run_items(r, from->n))
                return from;
        l = list_new(&r->arena, from->n);
        for (size_t i = 0; i < from->n; i++)
                list_add(&r->arena, l, from->items[i]);
        return l;
}

static struct value f_list(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_list(copy_list(r, c->self)) : UNDEFINED;
}

static struct value f_reverse(struct run *r, const struct call *c) {
        const struct value back[3] = {NONE, NONE, v_int(-1)};

        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        if (c->self.type == T_STRING)
                return get_slice(r, c->self, back);
        return get_slice(r, v_list(to_list(r, c->self)), back);
}

static struct value f_items(struct run *r, const struct call *c) {
        static const struct string items = {.text = "items", .n = 5, .n_chars = 5};

        if (c->self.type == T_UNDEFINED)
                return v_list(list_new(&r->arena, 0));
        if (c->self.type != T_DICT)
                return run_fail(r, "items of '%s', which is no dict", type_name(c->self));
        return method_by_name(c->self, &items)->run(r, c);
}

static struct value f_join(struct run *r, const struct call *c) {
        struct text *t = text_new(&r->arena, 0);
        const struct string *separator;
        struct value v[2];
        struct list *l;

        if (!bind_args(r, c, "d attribute", 0, v))
                return UNDEFINED;
        separator = to_string(r, v[0]);
        l = to_list(r, c->self);
        for (size_t i = 0; i < l->n && run_bytes(r, separator->n); i++) {
                struct value item = l->items[i];

                if (is_given(v[1]) && v[1].type != T_NONE)
                        item = get_path(r, item, v[1]);
                if (i > 0)
                        text_add_string(t, separator);
                write_str(r, t, item);
        }
        return v_string(text_finish(t));
}

/* What an item is compared by: its @attribute ("a", "a.b", or several with commas between them),
 * without regard to case unless that is wanted. */
static struct value item_key(
        struct run *r, struct value item, struct value attribute, bool case_sensitive) {
        struct value v = item;
        const char *comma;

        if (is_given(attribute) && attribute.type != T_NONE) {
                const struct string *names =
                        attribute.type == T_STRING ? attribute.s : string_empty();

                comma = names->n ? memchr(names->text, ',', names->n) : NULL;
                if (comma) {
                        struct list *l = list_new(&r->arena, 0);

                        for (size_t from = 0; from <= names->n && !run_failed(r);) {
                                const char *end = memchr(names->text + from, ',', names->n - from);
                                size_t to = end ? (size_t)(end - names->text) : names->n;
                                struct value one =
                                        v_string(string_slice(&r->arena, names, from, to));

                                list_add(&r->arena, l, item_key(r, item, one, case_sensitive));
                                from = to + 1;
                        }
                        return v_tuple(l);
                }
                v = get_path(r, item, attribute);
        }
        return v.type == T_STRING && !case_sensitive ? v_string(string_lower(r, v.s)) : v;
}

static struct list *item_keys(
        struct run *r, const struct list *l, struct value attribute, bool case_sensitive) {
        struct list *keys = list_new(&r->arena, l->n);

        for (size_t i = 0; i < l->n && run_work(r, 1); i++)
                list_add(&r->arena, keys, item_key(r, l->items[i], attribute, case_sensitive));
        return keys;
}

static struct value f_sort(struct run *r, const struct call *c) {
        struct value v[3];
        struct list *l;

        if (!bind_args(r, c, "reverse case_sensitive attribute", 0, v))
                return UNDEFINED;
        l = copy_list(r, c->self);
        if (!run_failed(r))
                sort_list(
                        r, l, item_keys(r, l, v[2], arg_bool(v[1], false)), arg_bool(v[0], false));
        return v_list(l);
}

static struct value f_dictsort(struct run *r, const struct call *c) {
        const struct string *by, *key = string_static(&r->arena, "key", true);
        struct value v[3], pairs;
        struct list *l;

        if (!bind_args(r, c, "case_sensitive by reverse", 0, v) ||
                !(by = arg_string(r, c, v[1], key)))
                return UNDEFINED;
        if (!string_is_lit(by, "key") && !string_is_lit(by, "value"))
                return run_fail(r, "dictsort() is by 'key' or 'value'");
        if (c->self.type == T_UNDEFINED)
                return run_undefined(r, c->self);
        pairs = f_items(r, &(struct call){.name = c->name, .self = c->self});
        if (run_failed(r))
                return UNDEFINED;
        l = pairs.list;
        sort_list(r, l, item_keys(r, l, v_int(string_is_lit(by, "value")), arg_bool(v[0], false)),
                arg_bool(v[2], false));
        return v_list(l);
}

static struct value extreme(struct run *r, const struct call *c, bool max) {
        struct value v[2], best = UNDEFINED, best_key = UNDEFINED;
        struct list *l;

        if (!bind_args(r, c, "case_sensitive attribute", 0, v))
                return UNDEFINED;
        l = to_list(r, c->self);
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                struct value key = item_key(r, l->items[i], v[1], arg_bool(v[0], false));
                int order = i == 0 ? 0 : values_order(r, key, best_key);

                if (i == 0 || (max ? order > 0 : order < 0)) {
                        best = l->items[i];
                        best_key = key;
                }
        }
        return best;
}

static struct value f_max(struct run *r, const struct call *c) {
        return extreme(r, c, true);
}

static struct value f_min(struct run *r, const struct call *c) {
        return extreme(r, c, false);
}

static struct value f_sum(struct run *r, const struct call *c) {
        struct value v[2], sum;
        struct list *l;

        if (!bind_args(r, c, "attribute start", 0, v))
                return UNDEFINED;
        sum = is_given(v[1]) ? v[1] : v_trusted(v_int(0), true);
        l = to_list(r, c->self);
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                bool by = is_given(v[0]) && v[0].type != T_NONE;

                sum = binary(r, OP_ADD, sum, by ? get_path(r, l->items[i], v[0]) : l->items[i]);
        }
        return sum;
}

static struct value f_unique(struct run *r, const struct call *c) {
        struct list *l, *keys, *taken = list_new(&r->arena, 0);
        struct dict *seen = dict_new(&r->arena);
        struct value v[2];

        if (!bind_args(r, c, "case_sensitive attribute", 0, v))
                return UNDEFINED;
        l = to_list(r, c->self);
        keys = item_keys(r, l, v[1], arg_bool(v[0], false));
        for (size_t i = 0; i < keys->n && run_work(r, 1); i++) {
                if (!key_possible(keys->items[i]))
                        return run_fail(r, "unique() of '%s'", type_name(keys->items[i]));
                if (dict_find(seen, keys->items[i]))
                        continue;
                dict_set(&r->arena, seen, keys->items[i], NONE);
                list_add(&r->arena, taken, l->items[i]);
        }
        return v_list(taken);
}

static struct value f_groupby(struct run *r, const struct call *c) {
        struct list *l, *keys, *groups = list_new(&r->arena, 0), *members = NULL;
        struct value v[3], last = UNDEFINED;

        if (!bind_args(r, c, "attribute default case_sensitive", 1, v))
                return UNDEFINED;
        l = copy_list(r, c->self);
        keys = item_keys(r, l, v[0], arg_bool(v[2], false));
        for (size_t i = 0; i < keys->n; i++)
                if (keys->items[i].type == T_UNDEFINED && is_given(v[1]))
                        keys->items[i] = v[1];
        if (!run_failed(r))
                sort_list(r, l, keys, false);
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                struct value key = item_key(r, l->items[i], v[0], arg_bool(v[2], false));

                if (key.type == T_UNDEFINED && is_given(v[1]))
                        key = v[1];
                if (!members || !values_equal(r, key, last)) {
                        struct list *pair = list_new(&r->arena, 2);
                        struct value name = get_path(r, l->items[i], v[0]);

                        members = list_new(&r->arena, 0);
                        list_add(&r->arena, pair, name.type == T_UNDEFINED ? key : name);
                        list_add(&r->arena, pair, v_list(members));
                        if (run_failed(r))
                                break;
                        pair->group = true;
                        list_add(&r->arena, groups, v_tuple(pair));
                        last = key;
                }
                list_add(&r->arena, members, l->items[i]);
        }
        return v_list(groups);
}

static struct value f_batch(struct run *r, const struct call *c) {
        struct list *l, *batches = list_new(&r->arena, 0), *batch = NULL;
        struct value v[2];
        int64_t n;

        if (!bind_args(r, c, "linecount fill_with", 1, v))
                return UNDEFINED;
        n = arg_int(r, c, v[0], 1);
        if (n < 1)
                return run_fail(r, "batch() of %lld", (long long)n);
        l = to_list(r, c->self);
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                if (i % (size_t)n == 0) {
                        batch = list_new(&r->arena, 0);
                        list_add(&r->arena, batches, v_list(batch));
                }
                list_add(&r->arena, batch, l->items[i]);
        }
        while (batch && is_given(v[1]) && v[1].type != T_NONE && batch->n < (size_t)n &&
                run_work(r, 1))
                list_add(&r->arena, batch, v[1]);
        return v_list(batches);
}

static struct value f_slice(struct run *r, const struct call *c) {
        struct list *l, *slices = list_new(&r->arena, 0);
        struct value v[2];
        size_t n, at = 0;
        int64_t wanted;

        if (!bind_args(r, c, "slices fill_with", 1, v))
                return UNDEFINED;
        wanted = arg_int(r, c, v[0], 1);
        if (wanted < 1)
                return run_fail(r, "slice() into %lld", (long long)wanted);
        l = to_list(r, c->self);
        n = (size_t)wanted;
        for (size_t i = 0; i < n && run_work(r, 2); i++) {
                size_t size = l->n / n + (i < l->n % n);
                struct list *slice = list_new(&r->arena, 0);

                for (size_t k = 0; k < size && run_work(r, 1); k++)
                        list_add(&r->arena, slice, l->items[at++]);
                if (is_given(v[1]) && v[1].type != T_NONE && i >= l->n % n)
                        list_add(&r->arena, slice, v[1]);
                list_add(&r->arena, slices, v_list(slice));
        }
        return v_list(slices);
}

/* ---- map, select, reject ---- */

/* The arguments of @c behind the first @n, for what it applies to each item. */
static struct call rest_of(const struct call *c, size_t n) {
        struct call rest = *c;

        rest.args = n < c->n ? c->args + n : NULL;
        rest.n = c->n - n;
        return rest;
}

/* These filters take what counts as false for an empty sequence, none too. */
static struct list *items_of(struct run *r, struct value v) {
        return is_true(v) ? to_list(r, v) : list_new(&r->arena, 0);
}

static struct value map_attribute(struct run *r, const struct call *c) {
        struct list *l = items_of(r, c->self), *out = list_new(&r->arena, l->n);
        struct value v[2];

        if (!bind_args(r, c, "attribute default", 0, v))
                return UNDEFINED;
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                struct value item = get_path(r, l->items[i], v[0]);

                if (item.type == T_UNDEFINED && is_given(v[1]))
                        item = v[1];
                list_add(&r->arena, out, item);
        }
        return v_list(out);
}

static struct value f_map(struct run *r, const struct call *c) {
        const struct function *f;
        struct list *l, *out;
        struct call one;

        if (c->n == 0)
                return map_attribute(r, c);
        if (c->args[0].type != T_STRING || !(f = filter_find(c->args[0].s)))
                return run_fail(r, "map() needs the name of a filter");
        l = items_of(r, c->self);
        out = list_new(&r->arena, l->n);
        one = rest_of(c, 1);
        one.name = f->name;
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                one.self = l->items[i];
                if (run_enter(r))
                        list_add(&r->arena, out, f->run(r, &one));
                run_leave(r);
        }
        return v_list(out);
}

/* Items for which the test of the arguments has the result @wanted; @by_attribute: applied to an
 * attribute, which is the first argument. */
static struct value choose(struct run *r, const struct call *c, bool wanted, bool by_attribute) {
        struct list *l, *out = list_new(&r->arena, 0);
        const struct function *test = NULL;
        size_t n = by_attribute ? 1 : 0;
        struct call one;

        if (c->n < n)
                return run_fail(r, "%s() needs the name of an attribute", c->name);
        if (c->n > n && (c->args[n].type != T_STRING || !(test = test_find(c->args[n].s))))
                return run_fail(r, "%s() needs the name of a test", c->name);
        l = items_of(r, c->self);
        one = rest_of(c, n + (test ? 1 : 0));
        one.name = test ? test->name : c->name;
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                struct value result;

                one.self = by_attribute ? get_path(r, l->items[i], c->args[0]) : l->items[i];
                result = test ? test->run(r, &one) : one.self;
                if (is_true(result) == wanted)
                        list_add(&r->arena, out, l->items[i]);
        }
        return v_list(out);
}

static struct value f_select(struct run *r, const struct call *c) {
        return choose(r, c, true, false);
}

static struct value f_reject(struct run *r, const struct call *c) {
        return choose(r, c, false, false);
}

static struct value f_selectattr(struct run *r, const struct call *c) {
        return choose(r, c, true, true);
}

static struct value f_rejectattr(struct run *r, const struct call *c) {
        return choose(r, c, false, true);
}

static const struct function filters[] = {{"length", f_length}, {"count", f_length},
        {"first", f_first}, {"last", f_last}, {"list", f_list}, {"reverse", f_reverse},
        {"items", f_items}, {"join", f_join}, {"sort", f_sort}, {"dictsort", f_dictsort},
        {"max", f_max}, {"min", f_min}, {"sum", f_sum}, {"unique", f_unique},
        {"groupby", f_groupby}, {"batch", f_batch}, {"slice", f_slice}, {"map", f_map},
        {"select", f_select}, {"reject", f_reject}, {"selectattr", f_selectattr},
        {"rejectattr", f_rejectattr}};

const struct function *list_filter_find(const struct string *name) {
        return function_find(filters, ARRAY_SIZE(filters), name);
}
