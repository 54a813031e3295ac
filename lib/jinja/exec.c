/* SPDX-License-Identifier: MIT */
/*
 * Statements.
 *
 * Scopes. A for loop (each of its rounds), a macro, a call block, a filter block, a block set and
 * "with" have a frame of their own; what they set is gone behind them. "if" has none. A name is
 * looked for from the innermost frame outwards, then in the caller's variables, then among the
 * functions of the language. Namespaces are how a loop tells something to what follows it.
 */
#include "base/util.h"
#include "jinja/jinja.h"
#include "jinja/run.h"
#include <string.h>

static void bind(struct run *r, const struct string *name, struct value v) {
        struct binding *b;

        for (b = r->frame->vars; b; b = b->next)
                if (b->name == name) {
                        b->value = v;
                        return;
                } else if (!run_work(r, 1)) {
                        return;
                }
        b = r->free_bindings;
        if (b)
                r->free_bindings = b->next;
        else
                b = arena_alloc(&r->arena, sizeof(*b));
        if (!b)
                return;
        *b = (struct binding){.next = r->frame->vars, .name = name, .value = v};
        r->frame->vars = b;
}

/* A new innermost frame; false: no memory. pop_frame() puts the old one back. */
static bool push_frame(struct run *r, struct frame *parent) {
        struct frame *f = r->free_frames;

        if (f)
                r->free_frames = f->parent;
        else
                f = arena_alloc(&r->arena, sizeof(*f));
        if (!f)
                return false;
        *f = (struct frame){.parent = parent};
        r->frame = f;
        return true;
}

/* Leave the innermost scope for @old. Its frame and bindings are used again, so that a loop's rounds
 * take no memory of their own. */
static void pop_frame(struct run *r, struct frame *old) {
        struct frame *f = r->frame;

        r->frame = old;
        if (f == old || f->kept)
                return;
        while (f->vars) {
                struct binding *b = f->vars;

                f->vars = b->next;
                b->next = r->free_bindings;
                r->free_bindings = b;
        }
        f->parent = r->free_frames;
        r->free_frames = f;
}

/* Something refers to the innermost frame that may outlast its scope. */
static void keep_frames(struct run *r) {
        for (struct frame *f = r->frame; f && !f->kept; f = f->parent)
                f->kept = true;
}

static void assign(struct run *r, const struct node *target, struct value v);

static void assign_attribute(struct run *r, const struct node *target, struct value v) {
        struct value of = eval(r, target->a);

        r->offset = target->offset;
        if (of.type == T_UNDEFINED)
                run_undefined(r, of);
        else if (of.type != T_NAMESPACE)
                run_fail(r, "only a namespace's attributes can be set, not those of '%s'",
                        type_name(of));
        if (!run_failed(r))
                dict_set(&r->arena, of.dict, v_string(target->name), v);
}

static void unpack(struct run *r, const struct node *target, struct value v) {
        struct list *l;

        r->offset = target->offset;
        l = to_list(r, v);
        if (!run_failed(r) && l->n != target->n_items)
                run_fail(r, "%zu values for %zu names", l->n, target->n_items);
        for (size_t i = 0; i < target->n_items && !run_failed(r); i++)
                assign(r, target->items[i], l->items[i]);
}

static void assign(struct run *r, const struct node *target, struct value v) {
        if (run_enter(r)) {
                if (target->kind == N_NAME)
                        bind(r, target->name, v);
                else if (target->kind == N_ATTRIBUTE)
                        assign_attribute(r, target, v);
                else
                        unpack(r, target, v);
        }
        run_leave(r);
}

/* What @body writes, as a string. */
static const struct string *capture(struct run *r, const struct node *body) {
        struct text *out = r->out, *t = text_new(&r->arena, 0);

        r->out = t;
        if (!run_failed(r))
                exec(r, body);
        r->out = out;
        return text_finish(t);
}

/* @body in a frame of its own. */
static const struct string *capture_scope(struct run *r, const struct node *body) {
        struct frame *frame = r->frame;
        const struct string *s = string_empty();

        if (push_frame(r, frame))
                s = capture(r, body);
        pop_frame(r, frame);
        return s;
}

static void emit(struct run *r, const struct string *s) {
        if (!run_bytes(r, s->n))
                return;
        if (r->out == r->root && s->n > r->max_output - r->root->used) {
                run_too_large(r, "the rendered text has more than %zu bytes", r->max_output);
                return;
        }
        text_add_string(r->out, s);
}

static void exec_output(struct run *r, const struct node *n) {
        struct value v = eval(r, n->a);

        r->offset = n->offset;
        if (v.type == T_STRING)
                emit(r, v.s);
        else if (v.type != T_UNDEFINED)
                emit(r, to_string(r, v));
}

static void exec_if(struct run *r, const struct node *n) {
        for (size_t i = 0; i + 1 < n->n_items; i += 2) {
                bool chosen = is_true(eval(r, n->items[i]));

                if (run_failed(r))
                        return;
                if (chosen) {
                        exec(r, n->items[i + 1]);
                        return;
                }
        }
        if (n->c)
                exec(r, n->c);
}

/* Those items that the loop's own condition takes. */
static struct list *filter_items(struct run *r, const struct node *n, struct list *items) {
        struct list *taken = list_new(&r->arena, 0);
        struct frame *frame = r->frame;

        for (size_t i = 0; i < items->n && !run_failed(r); i++) {
                if (!push_frame(r, frame))
                        break;
                assign(r, n->a, items->items[i]);
                if (is_true(eval(r, n->c)))
                        list_add(&r->arena, taken, items->items[i]);
                pop_frame(r, frame);
        }
        return taken;
}

/* The name "loop" of a template, if it occurs in it at all. */
static const struct string *loop_name(const struct run *r) {
        static const struct string name = {.text = "loop", .n = 4, .n_chars = 4};
        struct entry *e = dict_find_string(r->t->names, &name);

        return e ? e->key.s : NULL;
}

static void run_loop(struct run *r, struct loop *l) {
        const struct node *n = l->node;
        const struct string *name = loop_name(r);
        struct frame *frame = r->frame;

        for (l->i = 0; l->i < l->n && l->i < l->items->n && !run_failed(r); l->i++) {
                if (!push_frame(r, l->frame))
                        break;
                if (name)
                        bind(r, name, (struct value){.type = T_LOOP, .loop = l});
                assign(r, n->a, l->items->items[l->i]);
                exec(r, n->body);
                pop_frame(r, frame);
                if (r->flow == FLOW_BREAK)
                        break;
                r->flow = FLOW_NEXT;
        }
        r->flow = FLOW_NEXT;
}

static void exec_for(struct run *r, const struct node *n, struct frame *frame, struct value over,
        unsigned depth) {
        struct frame *before = r->frame;
        struct loop *l = arena_alloc(&r->arena, sizeof(*l));
        struct list *items;

        r->offset = n->b->offset;
        items = to_list(r, over);
        if (!l || run_failed(r))
                return;
        r->frame = frame;
        if (n->flag)
                keep_frames(r);
        if (n->c)
                items = filter_items(r, n, items);
        *l = (struct loop){
                .node = n, .frame = frame, .items = items, .n = items->n, .depth = depth};
        if (l->n > 0) {
                run_loop(r, l);
        } else if (n->orelse && push_frame(r, frame)) {
                exec(r, n->orelse);
                pop_frame(r, frame);
        }
        r->frame = before;
}

struct value call_loop(struct run *r, const struct loop *l, const struct call *c) {
        struct text *out = r->out, *t = text_new(&r->arena, 0);
        struct value over = UNDEFINED;
        struct call named = *c;

        named.name = "loop";
        if (!l->node->flag)
                return run_fail(r, "the loop is not recursive: it cannot be called");
        if (!bind_args(r, &named, "iterable", 1, &over))
                return UNDEFINED;
        r->out = t;
        if (run_enter(r))
                exec_for(r, l->node, l->frame, over, l->depth + 1);
        run_leave(r);
        r->out = out;
        return v_string(text_finish(t));
}

static const struct string *name_of(const struct run *r, const char *text) {
        struct string s = {.text = text, .n = strlen(text)};
        struct entry *e = dict_find_string(r->t->names, &s);

        return e ? e->key.s : NULL;
}

/* The named arguments: parameters, "caller", and what goes to kwargs. */
static void bind_named(struct run *r, const struct macro_def *m, const struct call *c,
        bool given[256], struct dict *kwargs) {
        for (size_t k = 0; k < c->n_named && run_work(r, 1 + m->n_params); k++) {
                const struct string *name = c->names[k];
                size_t i = 0;

                while (i < m->n_params && !string_equal(m->params[i], name))
                        i++;
                if (i < m->n_params && given[i]) {
                        run_fail(r, "the macro is given '%.*s' twice",
                                (int)MIN(name->n, (size_t)80), name->text);
                } else if (i < m->n_params) {
                        given[i] = true;
                        bind(r, m->params[i], c->named[k]);
                } else if (string_is_lit(name, "caller") && m->uses_caller) {
                        bind(r, name_of(r, "caller"), c->named[k]);
                } else if (m->uses_kwargs) {
                        dict_set(&r->arena, kwargs, v_string(name), c->named[k]);
                } else {
                        run_fail(r, "the macro has no parameter '%.*s'",
                                (int)MIN(name->n, (size_t)80), name->text);
                }
        }
}

static void bind_macro(struct run *r, const struct macro_def *m, const struct call *c) {
        struct dict *kwargs = dict_new(&r->arena);
        struct list *varargs = list_new(&r->arena, 0);
        bool given[256] = {false};

        if (c->n > m->n_params && !m->uses_varargs)
                run_fail(r, "the macro takes %zu arguments, not %zu", m->n_params, c->n);
        for (size_t i = 0; i < c->n && run_work(r, 1); i++)
                if (i < m->n_params) {
                        given[i] = true;
                        bind(r, m->params[i], c->args[i]);
                } else {
                        list_add(&r->arena, varargs, c->args[i]);
                }
        if (m->uses_caller)
                bind(r, name_of(r, "caller"), undefined_variable(r, name_of(r, "caller")));
        bind_named(r, m, c, given, kwargs);
        for (size_t i = 0; i < m->n_params && !run_failed(r); i++)
                if (!given[i])
                        bind(r, m->params[i],
                                m->defaults[i] ? eval(r, m->defaults[i])
                                               : undefined_variable(r, m->params[i]));
        if (m->uses_varargs)
                bind(r, name_of(r, "varargs"), v_tuple(varargs));
        if (m->uses_kwargs)
                bind(r, name_of(r, "kwargs"), v_dict(kwargs));
}

struct value call_macro(struct run *r, const struct macro *m, const struct call *c) {
        struct frame *frame = r->frame;
        const struct string *s = string_empty();

        if (run_enter(r) && push_frame(r, m->frame)) {
                bind_macro(r, m->def, c);
                if (!run_failed(r))
                        s = capture(r, m->def->body);
        }
        run_leave(r);
        pop_frame(r, frame);
        return v_string(s);
}

static struct value macro_value(struct run *r, const struct macro_def *def) {
        struct macro *m = arena_alloc(&r->arena, sizeof(*m));

        if (!m)
                return UNDEFINED;
        *m = (struct macro){.def = def, .frame = r->frame};
        keep_frames(r);
        return (struct value){.type = T_MACRO, .macro = m};
}

static void exec_call_block(struct run *r, const struct node *n) {
        struct value v = eval_with_caller(r, n->a, macro_value(r, n->macro));

        if (!run_failed(r))
                emit(r, to_string(r, v));
}

static void exec_with(struct run *r, const struct node *n) {
        struct frame *frame = r->frame;
        struct list *values = list_new(&r->arena, n->n_items / 2);

        for (size_t i = 0; i + 1 < n->n_items; i += 2)
                list_add(&r->arena, values, eval(r, n->items[i + 1]));
        if (!run_failed(r) && push_frame(r, frame)) {
                for (size_t i = 0; i + 1 < n->n_items; i += 2)
                        assign(r, n->items[i], values->items[i / 2]);
                exec(r, n->body);
        }
        pop_frame(r, frame);
}

static void exec_body(struct run *r, const struct node *n) {
        for (size_t i = 0; i < n->n_items && r->flow == FLOW_NEXT && !run_failed(r); i++)
                exec(r, n->items[i]);
}

static void exec_node(struct run *r, const struct node *n) {
        struct value v;

        switch ((enum node_kind)n->kind) {
        case N_TEXT:
                emit(r, n->value.s);
                break;
        case N_OUTPUT:
                exec_output(r, n);
                break;
        case N_BODY:
                exec_body(r, n);
                break;
        case N_IF:
                exec_if(r, n);
                break;
        case N_FOR:
                v = eval(r, n->b);
                if (!run_failed(r))
                        exec_for(r, n, r->frame, v, 0);
                break;
        case N_BREAK:
                r->flow = FLOW_BREAK;
                break;
        case N_CONTINUE:
                r->flow = FLOW_CONTINUE;
                break;
        case N_SET:
                v = eval(r, n->b);
                if (!run_failed(r))
                        assign(r, n->a, v);
                break;
        case N_SET_BLOCK:
                v = v_string(capture_scope(r, n->body));
                v = n->b ? eval_filters(r, n->b, v) : v;
                if (!run_failed(r))
                        assign(r, n->a, v);
                break;
        case N_WITH:
                exec_with(r, n);
                break;
        case N_MACRO:
                bind(r, n->macro->name, macro_value(r, n->macro));
                break;
        case N_CALL_BLOCK:
                exec_call_block(r, n);
                break;
        case N_FILTER_BLOCK:
                v = eval_filters(r, n->a, v_string(capture_scope(r, n->body)));
                if (!run_failed(r))
                        emit(r, to_string(r, v));
                break;
        default:
                break;
        }
}

void exec(struct run *r, const struct node *n) {
        r->offset = n->offset;
        if (run_enter(r) && run_work(r, 1))
                exec_node(r, n);
        run_leave(r);
}
