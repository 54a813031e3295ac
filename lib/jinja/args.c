/* SPDX-License-Identifier: MIT */
/* Arguments of the built-in functions, and what can be iterated over. */
#include "base/util.h"
#include "jinja/run.h"
#include <string.h>

const struct function *function_find(
        const struct function *table, size_t n, const struct string *name) {
        for (size_t i = 0; i < n; i++)
                if (string_is(name, table[i].name, strlen(table[i].name)))
                        return &table[i];
        return NULL;
}

/* Place of @name among the words of @params, or -1. */
static int param_index(const char *params, const struct string *name) {
        int i = 0;

        for (const char *s = params; *s; i++) {
                size_t n = strcspn(s, " ");

                if (string_is(name, s, n))
                        return i;
                s += n + (s[n] == ' ');
        }
        return -1;
}

static unsigned count_params(const char *params) {
        unsigned n = *params ? 1 : 0;

        for (; *params; params++)
                n += *params == ' ';
        return n;
}

bool bind_args(struct run *r, const struct call *c, const char *params, unsigned n_required,
        struct value *ret) {
        unsigned n_params = count_params(params);
        uint64_t given = 0;

        for (unsigned i = 0; i < n_params; i++)
                ret[i] = UNDEFINED;
        if (c->n > n_params) {
                run_fail(r, "%s() takes at most %u arguments (%zu given)", c->name, n_params, c->n);
                return false;
        }
        for (size_t i = 0; i < c->n; i++) {
                ret[i] = c->args[i];
                given |= (uint64_t)1 << i;
        }
        for (size_t k = 0; k < c->n_named; k++) {
                int i = param_index(params, c->names[k]);

                if (i < 0 || given >> i & 1) {
                        run_fail(r,
                                i < 0 ? "%s() has no parameter '%.*s'"
                                      : "%s() is given '%.*s' twice",
                                c->name, (int)MIN(c->names[k]->n, (size_t)80), c->names[k]->text);
                        return false;
                }
                ret[i] = c->named[k];
                given |= (uint64_t)1 << i;
        }
        for (unsigned i = 0; i < n_required; i++)
                if (!(given >> i & 1)) {
                        for (; i > 0; i--)
                                params += strcspn(params, " ") + 1;
                        run_fail(r, "%s() lacks the argument '%.*s'", c->name,
                                (int)strcspn(params, " "), params);
                        return false;
                }
        return !run_failed(r);
}

int64_t arg_int(struct run *r, const struct call *c, struct value v, int64_t preset) {
        if (v.type == T_UNDEFINED && !v.missing)
                return preset;
        if (v.type == T_INT || v.type == T_BOOL)
                return as_int(v);
        if (v.type == T_UNDEFINED)
                run_undefined(r, v);
        run_fail(r, "%s() needs an integer, not %s", c->name, type_name(v));
        return preset;
}

bool arg_bool(struct value v, bool preset) {
        return v.type == T_UNDEFINED && !v.missing ? preset : is_true(v);
}

const struct string *arg_string(
        struct run *r, const struct call *c, struct value v, const struct string *preset) {
        if (v.type == T_STRING)
                return v.s;
        if (v.type == T_UNDEFINED && !v.missing && preset)
                return preset;
        if (v.type == T_UNDEFINED && v.missing)
                run_undefined(r, v);
        run_fail(r, "%s() needs a string, not %s", c->name, type_name(v));
        return NULL;
}

bool is_iterable(struct value v) {
        return is_sequence(v) || v.type == T_DICT || v.type == T_STRING || v.type == T_UNDEFINED;
}

static struct list *characters(struct run *r, const struct string *s) {
        struct list *l = list_new(&r->arena, s->n_chars);

        for (size_t i = 0, k; i < s->n && run_work(r, 1); i += k) {
                char_at(s->text, s->n, i, &k);
                list_add(&r->arena, l, v_string(string_slice(&r->arena, s, i, i + k)));
        }
        return l;
}

struct list *to_list(struct run *r, struct value v) {
        struct list *l;
        size_t at = 0;
        struct entry *e;

        if (is_sequence(v))
                return v.list;
        if (v.type == T_STRING)
                return characters(r, v.s);
        if (v.type != T_DICT && v.type != T_UNDEFINED)
                run_fail(r, "'%s' object is not iterable", type_name(v));
        l = list_new(&r->arena, v.type == T_DICT ? v.dict->n : 0);
        if (v.type == T_DICT && run_items(r, v.dict->n))
                while ((e = dict_next(v.dict, &at)))
                        list_add(&r->arena, l, e->key);
        return l;
}
