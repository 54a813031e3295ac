/* SPDX-License-Identifier: MIT */
/* Attributes, items, slices, and calls of values. */
#include "base/util.h"
#include "jinja/number.h"
#include "jinja/run.h"
#include <string.h>

static struct value missing(struct run *r, const char *of, const struct string *name) {
        struct missing *m = arena_alloc(&r->arena, sizeof(*m));

        if (m)
                *m = (struct missing){.of = of, .name = name};
        return (struct value){.type = T_UNDEFINED, .missing = m};
}

struct value undefined_variable(struct run *r, const struct string *name) {
        return missing(r, NULL, name);
}

struct value run_undefined(struct run *r, struct value v) {
        const struct missing *m = v.missing;
        int n = m && m->name ? (int)MIN(m->name->n, (size_t)80) : 0;

        if (!m || (!m->name && !m->of))
                return run_fail(r, "an undefined value is used");
        if (!m->name)
                return run_fail(r, "undefined: %s", m->of);
        if (!m->of)
                return run_fail(r, "'%.*s' is undefined", n, m->name->text);
        return run_fail(r, "'%s' has no attribute '%.*s'", m->of, n, m->name->text);
}

/* As error messages of Python call it. */
static const char *object_words(struct value v) {
        static const char *const words[] = {[T_NONE] = "None",
                [T_BOOL] = "bool object",
                [T_INT] = "int object",
                [T_BIG] = "int object",
                [T_FLOAT] = "float object",
                [T_STRING] = "str object",
                [T_LIST] = "list object",
                [T_TUPLE] = "tuple object",
                [T_DICT] = "dict object",
                [T_NAMESPACE] = "namespace object",
                [T_LOOP] = "loop",
                [T_MACRO] = "macro"};

        return v.type < ARRAY_SIZE(words) && words[v.type] ? words[v.type] : "function";
}

static struct value loop_item(const struct loop *l, size_t i) {
        return i < l->n && i < l->items->n ? l->items->items[i] : UNDEFINED;
}

static struct value method(struct run *r, struct value of, const struct function *f) {
        struct method *m = arena_alloc(&r->arena, sizeof(*m));

        if (!m)
                return UNDEFINED;
        *m = (struct method){.function = f, .self = of};
        return (struct value){.type = T_METHOD, .method = m};
}

/* Numbers about a loop are the template's own business, and so trusted. */
static bool loop_attribute(const struct loop *l, const struct string *name, struct value *ret) {
        const struct {
                const char *name;
                int64_t value;
        } numbers[] = {{"index", (int64_t)l->i + 1}, {"index0", (int64_t)l->i},
                {"revindex", (int64_t)(l->n - l->i)}, {"revindex0", (int64_t)(l->n - l->i) - 1},
                {"length", (int64_t)l->n}, {"depth", l->depth + 1}, {"depth0", l->depth}};

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                if (string_is(name, numbers[i].name, strlen(numbers[i].name))) {
                        *ret = v_trusted(v_int(numbers[i].value), true);
                        return true;
                }
        if (string_is_lit(name, "first"))
                *ret = v_trusted(v_bool(l->i == 0), true);
        else if (string_is_lit(name, "last"))
                *ret = v_trusted(v_bool(l->i + 1 >= l->n), true);
        else if (string_is_lit(name, "previtem"))
                *ret = l->i > 0 ? loop_item(l, l->i - 1) : UNDEFINED;
        else if (string_is_lit(name, "nextitem"))
                *ret = loop_item(l, l->i + 1);
        else
                return false;
        return true;
}

static bool macro_attribute(
        struct run *r, const struct macro *m, const struct string *name, struct value *ret) {
        if (string_is_lit(name, "name")) {
                *ret = m->def->name ? v_string(m->def->name) : NONE;
                return true;
        }
        if (string_is_lit(name, "arguments")) {
                struct list *l = list_new(&r->arena, m->def->n_params);

                for (size_t i = 0; i < m->def->n_params; i++)
                        list_add(&r->arena, l, v_string(m->def->params[i]));
                *ret = v_tuple(l);
                return true;
        }
        return false;
}

struct value get_attribute(struct run *r, struct value of, const struct string *name) {
        const struct function *f = method_by_name(of, name);
        struct entry *e = NULL;
        struct value v;

        if (of.type == T_UNDEFINED)
                return run_undefined(r, of);
        if (f)
                return method(r, of, f);
        if (of.type == T_DICT || of.type == T_NAMESPACE)
                e = dict_find_string(of.dict, name);
        if (e)
                return e->value;
        if (of.type == T_LOOP && loop_attribute(of.loop, name, &v))
                return v;
        if (of.type == T_MACRO && macro_attribute(r, of.macro, name, &v))
                return v;
        if (of.type == T_TUPLE && of.list->group && of.list->n == 2) {
                if (string_is_lit(name, "grouper"))
                        return of.list->items[0];
                if (string_is_lit(name, "list"))
                        return of.list->items[1];
        }
        if (of.type == T_CYCLER && string_is_lit(name, "current") && of.cycler->items->n > 0)
                return of.cycler->items->items[of.cycler->i];
        return missing(r, object_words(of), name);
}

static struct value character(struct run *r, const struct string *s, size_t i) {
        size_t from, k;

        run_bytes(r, s->n_chars == s->n ? 0 : s->n);
        from = string_offset(s, i);
        char_at(s->text, s->n, from, &k);
        return v_string(string_slice(&r->arena, s, from, from + k));
}

struct value get_item(struct run *r, struct value of, struct value key) {
        size_t n = is_sequence(of) ? of.list->n : of.type == T_STRING ? of.s->n_chars : 0;

        if (of.type == T_UNDEFINED)
                return run_undefined(r, of);
        if (of.type == T_DICT) {
                struct entry *e = dict_find(of.dict, key);

                if (e)
                        return e->value;
        }
        if ((is_sequence(of) || of.type == T_STRING) && (key.type == T_INT || key.type == T_BOOL)) {
                int64_t i = as_int(key);

                if (i < 0)
                        i += (int64_t)n;
                if (i < 0 || i >= (int64_t)n)
                        return missing(r, "the index is outside of the sequence", NULL);
                return is_sequence(of) ? of.list->items[i] : character(r, of.s, (size_t)i);
        }
        if (key.type == T_STRING)
                return get_attribute(r, of, key.s);
        if (key.type == T_UNDEFINED)
                return missing(r, "the index is itself undefined", NULL);
        return missing(r, object_words(of), to_string(r, key));
}

static bool slice_bound(struct run *r, struct value v, int64_t *ret, bool *ret_given) {
        *ret_given = v.type != T_NONE;
        if (v.type == T_NONE)
                return true;
        if (v.type != T_INT && v.type != T_BOOL) {
                if (v.type == T_UNDEFINED && v.missing)
                        run_undefined(r, v);
                run_fail(r, "slice indices must be integers, not %s", type_name(v));
                return false;
        }
        *ret = as_int(v);
        return true;
}

/* Where a bound of a slice with @step lies in a sequence of @n, as Python cuts it. */
static int64_t clip(int64_t i, int64_t n, int64_t step) {
        if (i < 0)
                i = i < -n ? -1 : i + n;
        if (i < 0)
                return step < 0 ? -1 : 0;
        if (i >= n)
                return step < 0 ? n - 1 : n;
        return i;
}

static struct value slice_string(
        struct run *r, const struct string *s, int64_t from, int64_t to, int64_t step) {
        struct list *chars;
        struct text *t;

        if (step == 1) {
                size_t a = string_offset(s, (size_t)from);
                size_t b = from < to ? string_offset(s, (size_t)to) : a;

                return v_string(string_slice(&r->arena, s, a, b));
        }
        t = text_new(&r->arena, 0);
        chars = to_list(r, v_string(s));
        for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
                if (!run_work(r, 1) || i >= (int64_t)chars->n)
                        break;
                text_add_string(t, chars->items[i].s);
        }
        return v_string(text_finish(t));
}

struct value get_slice(struct run *r, struct value of, const struct value bounds[3]) {
        int64_t n = 0, from = 0, to = 0, step = 1;
        bool has_from, has_to, has_step;
        struct list *l;

        if (of.type == T_UNDEFINED)
                return run_undefined(r, of);
        if (!is_sequence(of) && of.type != T_STRING)
                return missing(r, "only strings, lists and tuples can be sliced", NULL);
        n = is_sequence(of) ? (int64_t)of.list->n : (int64_t)of.s->n_chars;
        if (!slice_bound(r, bounds[0], &from, &has_from) ||
                !slice_bound(r, bounds[1], &to, &has_to) ||
                !slice_bound(r, bounds[2], &step, &has_step))
                return UNDEFINED;
        step = has_step ? step : 1;
        if (step == 0)
                return run_fail(r, "the step of a slice is 0");
        /* Larger steps take one item as well, and cannot overflow. */
        step = MIN(MAX(step, -n - 1), n + 1);
        from = has_from ? clip(from, n, step) : step < 0 ? n - 1 : 0;
        to = has_to ? clip(to, n, step) : step < 0 ? -1 : n;
        if (of.type == T_STRING) {
                run_bytes(r, of.s->n);
                return v_string(slice_string(r, of.s, from, to, step).s);
        }
        l = list_new(&r->arena, 0);
        for (int64_t i = from; (step > 0 ? i < to : i > to) && run_work(r, 1); i += step)
                list_add(&r->arena, l, of.list->items[i]);
        return of.type == T_TUPLE ? v_tuple(l) : v_list(l);
}

struct value get_path(struct run *r, struct value of, struct value path) {
        const char *text;
        size_t n;

        if (path.type != T_STRING)
                return get_item(r, of, path);
        text = path.s->text;
        n = path.s->n;
        for (size_t from = 0; from <= n && !run_failed(r);) {
                const char *dot = memchr(text + from, '.', n - from);
                size_t to = dot ? (size_t)(dot - text) : n;
                const struct string *part = string_slice(&r->arena, path.s, from, to);
                int64_t i;

                if (!run_work(r, 1))
                        break;
                if (part->n > 0 && part->text[0] >= '0' && part->text[0] <= '9' &&
                        parse_int(part->text, part->n, 10, &i))
                        of = get_item(r, of, v_int(i));
                else
                        of = get_item(r, of, v_string(part));
                from = to + 1;
        }
        return of;
}

/* The first call gives "", later ones the separator. */
static struct value call_joiner(struct cycler *c) {
        bool first = c->i == 0;

        c->i = 1;
        return first || c->items->n == 0 ? v_string(string_empty()) : c->items->items[0];
}

struct value call_value(struct run *r, struct value callee, struct call *c) {
        switch ((enum type)callee.type) {
        case T_UNDEFINED:
                return run_undefined(r, callee);
        case T_FUNCTION:
                c->name = callee.function->name;
                return callee.function->run(r, c);
        case T_METHOD:
                c->name = callee.method->function->name;
                c->self = callee.method->self;
                return callee.method->function->run(r, c);
        case T_MACRO:
                return call_macro(r, callee.macro, c);
        case T_LOOP:
                return call_loop(r, callee.loop, c);
        case T_JOINER:
                return call_joiner(callee.cycler);
        default:
                return run_fail(r, "'%s' object is not callable", type_name(callee));
        }
}
