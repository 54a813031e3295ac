/* SPDX-License-Identifier: MIT */
/*
 * Methods of lists, dicts, loops and cyclers, as Python's. Those that change a list or a dict work
 * on what the template made itself; what came from the caller stays as it is.
 */
#include "base/util.h"
#include "jinja/run.h"
#include <string.h>

static bool may_change(struct run *r, const struct call *c) {
        if (is_sequence(c->self) ? c->self.list->constant : c->self.dict->constant)
                run_fail(r, "%s() would change what the template was given", c->name);
        return !run_failed(r);
}

static struct value l_append(struct run *r, const struct call *c) {
        struct value v;

        if (bind_args(r, c, "item", 1, &v) && may_change(r, c))
                list_add(&r->arena, c->self.list, v);
        return NONE;
}

static struct value l_extend(struct run *r, const struct call *c) {
        struct list *more;
        struct value v;

        if (!bind_args(r, c, "iterable", 1, &v) || !may_change(r, c))
                return NONE;
        more = to_list(r, v);
        for (size_t i = 0, n = more->n; i < n && run_work(r, 1); i++)
                list_add(&r->arena, c->self.list, more->items[i]);
        return NONE;
}

static struct value l_insert(struct run *r, const struct call *c) {
        struct list *l = c->self.list;
        struct value v[2];
        int64_t i;

        if (!bind_args(r, c, "index item", 2, v) || !may_change(r, c) || !run_items(r, l->n))
                return NONE;
        i = arg_int(r, c, v[0], 0);
        i = i < 0 ? MAX(i + (int64_t)l->n, (int64_t)0) : MIN(i, (int64_t)l->n);
        list_add(&r->arena, l, v[1]);
        if (run_failed(r))
                return NONE;
        memmove(l->items + i + 1, l->items + i, (l->n - 1 - (size_t)i) * sizeof(*l->items));
        l->items[i] = v[1];
        return NONE;
}

static struct value l_pop(struct run *r, const struct call *c) {
        struct list *l = c->self.list;
        struct value v, taken;
        int64_t i;

        if (!bind_args(r, c, "index", 0, &v) || !may_change(r, c) || !run_items(r, l->n))
                return UNDEFINED;
        i = arg_int(r, c, v, -1);
        if (i < 0)
                i += (int64_t)l->n;
        if (i < 0 || i >= (int64_t)l->n)
                return run_fail(r, "pop() of an entry that is not there");
        taken = l->items[i];
        memmove(l->items + i, l->items + i + 1, (l->n - 1 - (size_t)i) * sizeof(*l->items));
        l->n--;
        return taken;
}

static struct value l_remove(struct run *r, const struct call *c) {
        struct list *l = c->self.list;
        struct value v;

        if (!bind_args(r, c, "item", 1, &v) || !may_change(r, c))
                return NONE;
        for (size_t i = 0; i < l->n && run_work(r, 1); i++)
                if (values_equal(r, l->items[i], v)) {
                        memmove(l->items + i, l->items + i + 1, (l->n - 1 - i) * sizeof(*l->items));
                        l->n--;
                        return NONE;
                }
        return run_fail(r, "remove() of an item that is not there");
}

static struct value l_clear(struct run *r, const struct call *c) {
        if (bind_args(r, c, "", 0, NULL) && may_change(r, c))
                c->self.list->n = 0;
        return NONE;
}

static struct value l_reverse(struct run *r, const struct call *c) {
        struct list *l = c->self.list;

        if (!bind_args(r, c, "", 0, NULL) || !may_change(r, c) || !run_items(r, l->n))
                return NONE;
        for (size_t i = 0; i < l->n / 2; i++) {
                struct value v = l->items[i];

                l->items[i] = l->items[l->n - 1 - i];
                l->items[l->n - 1 - i] = v;
        }
        return NONE;
}

static struct value l_copy(struct run *r, const struct call *c) {
        const struct value all[3] = {NONE, NONE, NONE};

        return bind_args(r, c, "", 0, NULL) ? get_slice(r, c->self, all) : UNDEFINED;
}

static struct value l_index(struct run *r, const struct call *c) {
        struct value v;

        if (!bind_args(r, c, "item", 1, &v))
                return UNDEFINED;
        for (size_t i = 0; i < c->self.list->n && run_work(r, 1); i++)
                if (values_equal(r, c->self.list->items[i], v))
                        return v_int((int64_t)i);
        return run_fail(r, "index() of an item that is not there");
}

static struct value l_count(struct run *r, const struct call *c) {
        struct value v;
        int64_t n = 0;

        if (!bind_args(r, c, "item", 1, &v))
                return UNDEFINED;
        for (size_t i = 0; i < c->self.list->n && run_work(r, 1); i++)
                n += values_equal(r, c->self.list->items[i], v);
        return v_int(n);
}

/* Tuples have the last two. */
static const struct function list_methods[] = {{"append", l_append}, {"extend", l_extend},
        {"insert", l_insert}, {"pop", l_pop}, {"remove", l_remove}, {"clear", l_clear},
        {"reverse", l_reverse}, {"copy", l_copy}, {"index", l_index}, {"count", l_count}};

static struct value d_list(struct run *r, const struct call *c, bool keys, bool values) {
        struct list *l = list_new(&r->arena, c->self.dict->n);
        struct entry *e;
        size_t at = 0;

        if (!bind_args(r, c, "", 0, NULL) || !run_items(r, c->self.dict->n * 2))
                return v_list(l);
        while ((e = dict_next(c->self.dict, &at))) {
                struct list *pair = keys && values ? list_new(&r->arena, 2) : l;

                if (keys)
                        list_add(&r->arena, pair, e->key);
                if (values)
                        list_add(&r->arena, pair, e->value);
                if (pair != l)
                        list_add(&r->arena, l, v_tuple(pair));
        }
        return v_list(l);
}

static struct value d_items(struct run *r, const struct call *c) {
        return d_list(r, c, true, true);
}

static struct value d_keys(struct run *r, const struct call *c) {
        return d_list(r, c, true, false);
}

static struct value d_values(struct run *r, const struct call *c) {
        return d_list(r, c, false, true);
}

static struct value d_get(struct run *r, const struct call *c) {
        struct value v[2];
        struct entry *e;

        if (!bind_args(r, c, "key default", 1, v))
                return UNDEFINED;
        e = dict_find(c->self.dict, v[0]);
        if (e)
                return e->value;
        return c->n > 1 || c->n_named > 0 ? v[1] : NONE;
}

static struct value d_update(struct run *r, const struct call *c) {
        struct entry *e;
        size_t at = 0;

        if (!may_change(r, c))
                return NONE;
        if (c->n > 1 || (c->n == 1 && c->args[0].type != T_DICT))
                return run_fail(r, "update() takes a dict");
        while (c->n == 1 && run_work(r, 1) && (e = dict_next(c->args[0].dict, &at)))
                dict_set(&r->arena, c->self.dict, e->key, e->value);
        for (size_t i = 0; i < c->n_named && run_work(r, 1); i++)
                dict_set(&r->arena, c->self.dict, v_string(c->names[i]), c->named[i]);
        return NONE;
}

static struct value d_setdefault(struct run *r, const struct call *c) {
        struct value v[2];
        struct entry *e;

        if (!bind_args(r, c, "key default", 1, v))
                return UNDEFINED;
        e = dict_find(c->self.dict, v[0]);
        if (e)
                return e->value;
        if (!key_possible(v[0]))
                return run_fail(r, "'%s' cannot be a key", type_name(v[0]));
        if (c->n + c->n_named < 2)
                v[1] = NONE;
        if (may_change(r, c))
                dict_set(&r->arena, c->self.dict, v[0], v[1]);
        return v[1];
}

static struct value d_pop(struct run *r, const struct call *c) {
        struct value v[2], taken;
        struct entry *e;

        if (!bind_args(r, c, "key default", 1, v) || !may_change(r, c))
                return UNDEFINED;
        e = dict_find(c->self.dict, v[0]);
        if (!e)
                return c->n + c->n_named > 1 ? v[1]
                                             : run_fail(r, "pop() of a key that is not there");
        taken = e->value;
        dict_remove(c->self.dict, v[0]);
        return taken;
}

static struct value d_copy(struct run *r, const struct call *c) {
        struct dict *d = dict_new(&r->arena);
        struct entry *e;
        size_t at = 0;

        while (run_work(r, 1) && (e = dict_next(c->self.dict, &at)))
                dict_set(&r->arena, d, e->key, e->value);
        return v_dict(d);
}

static struct value d_clear(struct run *r, const struct call *c) {
        struct dict *d = c->self.dict;

        if (!bind_args(r, c, "", 0, NULL) || !may_change(r, c))
                return NONE;
        *d = (struct dict){0};
        return NONE;
}

static const struct function dict_methods[] = {{"items", d_items}, {"keys", d_keys},
        {"values", d_values}, {"get", d_get}, {"update", d_update}, {"setdefault", d_setdefault},
        {"pop", d_pop}, {"copy", d_copy}, {"clear", d_clear}};

static struct value loop_cycle(struct run *r, const struct call *c) {
        if (c->n == 0)
                return run_fail(r, "cycle() of nothing");
        return c->args[c->self.loop->i % c->n];
}

static struct value loop_changed(struct run *r, const struct call *c) {
        struct loop *l = c->self.loop;
        struct list *seen = list_new(&r->arena, c->n);
        struct value v = v_tuple(seen);
        bool same;

        for (size_t i = 0; i < c->n; i++)
                list_add(&r->arena, seen, c->args[i]);
        same = l->seen && values_equal(r, l->last_seen, v);
        l->seen = true;
        l->last_seen = v;
        return v_bool(!same);
}

static const struct function loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

static struct value cycler_next(struct run *r, const struct call *c) {
        struct cycler *cycler = c->self.cycler;
        struct value v = UNDEFINED;

        if (bind_args(r, c, "", 0, NULL) && cycler->items->n > 0) {
                v = cycler->items->items[cycler->i];
                cycler->i = (cycler->i + 1) % cycler->items->n;
        }
        return v;
}

static struct value cycler_reset(struct run *r, const struct call *c) {
        if (bind_args(r, c, "", 0, NULL))
                c->self.cycler->i = 0;
        return NONE;
}

static const struct function cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

const struct function *method_by_name(struct value of, const struct string *name) {
        switch ((enum type)of.type) {
        case T_STRING:
                return string_method_find(name);
        case T_LIST:
                return function_find(list_methods, ARRAY_SIZE(list_methods), name);
        case T_TUPLE:
                return function_find(list_methods + ARRAY_SIZE(list_methods) - 2, 2, name);
        case T_DICT:
                return function_find(dict_methods, ARRAY_SIZE(dict_methods), name);
        case T_LOOP:
                return function_find(loop_methods, ARRAY_SIZE(loop_methods), name);
        case T_CYCLER:
                return function_find(cycler_methods, ARRAY_SIZE(cycler_methods), name);
        default:
                return NULL;
        }
}
