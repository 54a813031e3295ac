/* SPDX-License-Identifier: MIT */
/* Expressions. Each node takes a step; r->offset is its place when its operation is carried out. */
#include "jinja/data.h"
#include "jinja/jinja.h"
#include "jinja/run.h"
#include "base/util.h"
#include <string.h>

static struct value eval_name(struct run *r, const struct node *n) {
        const struct function *f;
        struct entry *e = NULL;
        unsigned seen = 0;

        for (struct frame *frame = r->frame; frame; frame = frame->parent)
                for (struct binding *b = frame->vars; b; b = b->next) {
                        if (b->name == n->name)
                                return b->value;
                        if (++seen % 16 == 0)
                                run_work(r, 1);
                }
        if (r->input->data)
                e = dict_find_string(r->input->data->variables, n->name);
        if (e)
                return e->value;
        f = global_find(r, n->name);
        if (f)
                return (struct value){.type = T_FUNCTION, .function = f};
        return undefined_variable(r, n->name);
}

static struct value eval_items(struct run *r, const struct node *n) {
        struct list *l = list_new(&r->arena, n->n_items);

        for (size_t i = 0; i < n->n_items && !run_failed(r); i++)
                list_add(&r->arena, l, eval(r, n->items[i]));
        return n->kind == N_TUPLE ? v_tuple(l) : v_list(l);
}

static struct value eval_dict(struct run *r, const struct node *n) {
        struct dict *d = dict_new(&r->arena);

        for (size_t i = 0; i + 1 < n->n_items && !run_failed(r); i += 2) {
                struct value key = eval(r, n->items[i]), v = eval(r, n->items[i + 1]);

                r->offset = n->items[i]->offset;
                if (!key_possible(key))
                        return run_fail(r, "'%s' cannot be a key", type_name(key));
                dict_set(&r->arena, d, key, v);
        }
        return v_dict(d);
}

static struct value eval_compare(struct run *r, const struct node *n) {
        struct value left = eval(r, n->a);

        for (size_t i = 0; i < n->n_items && !run_failed(r); i++) {
                struct value right = eval(r, n->items[i]->a);

                r->offset = n->items[i]->offset;
                if (!compare_op(r, (enum op)n->items[i]->op, left, right))
                        return v_bool(false);
                left = right;
        }
        return v_bool(true);
}

static struct value eval_slice(struct run *r, const struct node *n) {
        struct value of = eval(r, n->a), bounds[3];

        for (int i = 0; i < 3; i++)
                bounds[i] = n->items[i] ? eval(r, n->items[i]) : NONE;
        r->offset = n->offset;
        return get_slice(r, of, bounds);
}

/* The arguments of a call, in lists of their own. */
struct arguments {
        struct list *positional, *named;
        const struct string **names;
        size_t n_names, capacity;
};

static void add_named(
        struct run *r, struct arguments *a, const struct string *name, struct value v) {
        if (a->n_names == a->capacity) {
                size_t capacity = 2 * a->capacity + 4;
                const struct string **names = arena_grow(&r->arena, a->names,
                        a->n_names * sizeof(*names), capacity * sizeof(*names));

                if (!names)
                        return;
                a->names = names;
                a->capacity = capacity;
        }
        a->names[a->n_names++] = name;
        list_add(&r->arena, a->named, v);
}

static void add_spread(struct run *r, struct arguments *a, const struct args *args) {
        if (args->star) {
                struct list *l = to_list(r, eval(r, args->star));

                for (size_t i = 0; i < l->n && run_work(r, 1); i++)
                        list_add(&r->arena, a->positional, l->items[i]);
        }
        if (args->star_star) {
                struct value v = eval(r, args->star_star);
                struct entry *e;
                size_t at = 0;

                if (v.type != T_DICT)
                        run_fail(r, "the argument behind ** must be a dict, not %s", type_name(v));
                while (!run_failed(r) && (e = dict_next(v.dict, &at)) && run_work(r, 1)) {
                        if (e->key.type != T_STRING)
                                run_fail(r, "names of arguments must be strings");
                        else
                                add_named(r, a, e->key.s, e->value);
                }
        }
}

/* Evaluate @args (may be NULL) and @caller (T_UNDEFINED: none) into a call. */
static struct call make_call(struct run *r, const struct args *args, struct value caller) {
        static const struct string caller_name = {
                .text = "caller", .n = 6, .n_chars = 6, .trusted = true};
        struct arguments a = {0};

        if (!args && caller.type == T_UNDEFINED)
                return (struct call){0};
        a.positional = list_new(&r->arena, args ? args->n_positional : 0);
        a.named = list_new(&r->arena, args ? args->n_named : 0);
        for (size_t i = 0; args && i < args->n_positional && !run_failed(r); i++)
                list_add(&r->arena, a.positional, eval(r, args->positional[i]));
        for (size_t i = 0; args && i < args->n_named && !run_failed(r); i++)
                add_named(r, &a, args->names[i], eval(r, args->named[i]));
        if (args)
                add_spread(r, &a, args);
        if (caller.type != T_UNDEFINED)
                add_named(r, &a, &caller_name, caller);
        if (run_failed(r))
                return (struct call){0};
        return (struct call){.args = a.positional->items,
                .n = a.positional->n,
                .names = a.names,
                .named = a.named->items,
                .n_named = a.n_names};
}

static struct value eval_call(struct run *r, const struct node *n, struct value caller) {
        struct value callee = eval(r, n->a);
        struct call c = make_call(r, n->args, caller);

        r->offset = n->a->offset;
        return run_failed(r) ? UNDEFINED : call_value(r, callee, &c);
}

struct value eval_with_caller(struct run *r, const struct node *n, struct value caller) {
        struct value v = UNDEFINED;

        if (run_enter(r))
                v = eval_call(r, n, caller);
        run_leave(r);
        return v;
}

static struct value apply(struct run *r, const struct node *n, struct value self) {
        struct call c;

        if (!n->function) {
                r->offset = n->offset;
                return run_fail(r, "no %s named '%.*s'", n->kind == N_TEST ? "test" : "filter",
                        (int)MIN(n->name->n, (size_t)80), n->name->text);
        }
        c = make_call(r, n->args, UNDEFINED);
        c.name = n->function->name;
        c.self = self;
        r->offset = n->offset;
        return run_failed(r) ? UNDEFINED : n->function->run(r, &c);
}

/* A chain of filters whose innermost one has no operand of its own. */
struct value eval_filters(struct run *r, const struct node *n, struct value of) {
        struct value v = UNDEFINED;

        if (run_enter(r) && run_work(r, 1))
                v = apply(r, n, n->a ? eval_filters(r, n->a, of) : of);
        run_leave(r);
        return v;
}

static struct value eval_choice(struct run *r, const struct node *n) {
        static const struct missing no_else = {.of = "the expression has no else, and its condition"
                                                     " is false"};

        if (is_true(eval(r, n->b)))
                return eval(r, n->a);
        if (n->c)
                return eval(r, n->c);
        return (struct value){.type = T_UNDEFINED, .missing = &no_else};
}

static struct value eval_operands(struct run *r, const struct node *n) {
        struct value a = eval(r, n->a), b = n->b ? eval(r, n->b) : UNDEFINED;

        r->offset = n->offset;
        if (run_failed(r))
                return UNDEFINED;
        if (n->kind == N_UNARY)
                return unary(r, (enum op)n->op, a);
        if (n->kind == N_BINARY)
                return binary(r, (enum op)n->op, a, b);
        return n->kind == N_ITEM ? get_item(r, a, b) : get_attribute(r, a, n->name);
}

static struct value eval_node(struct run *r, const struct node *n) {
        struct value v;

        switch ((enum node_kind)n->kind) {
        case N_CONST:
                return n->value;
        case N_NAME:
                return eval_name(r, n);
        case N_LIST:
        case N_TUPLE:
                return eval_items(r, n);
        case N_DICT:
                return eval_dict(r, n);
        case N_COMPARE:
                return eval_compare(r, n);
        case N_AND:
                v = eval(r, n->a);
                return is_true(v) ? eval(r, n->b) : v;
        case N_OR:
                v = eval(r, n->a);
                return is_true(v) ? v : eval(r, n->b);
        case N_NOT:
                return v_bool(!is_true(eval(r, n->a)));
        case N_IF_ELSE:
                return eval_choice(r, n);
        case N_SLICE:
                return eval_slice(r, n);
        case N_FILTER:
        case N_TEST:
                return apply(r, n, eval(r, n->a));
        case N_CALL:
                return eval_call(r, n, UNDEFINED);
        default:
                return eval_operands(r, n);
        }
}

struct value eval(struct run *r, const struct node *n) {
        struct value v = UNDEFINED;

        r->offset = n->offset;
        if (run_enter(r) && run_work(r, 1))
                v = eval_node(r, n);
        run_leave(r);
        return run_failed(r) ? UNDEFINED : v;
}
