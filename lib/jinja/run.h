/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One rendering.
 *
 * 1. Errors are sticky: after the first, nothing is emitted, no step is granted, and every function
 *    returns soon with some value that nobody looks at. Loops ask run_failed() or take steps.
 * 2. An operation takes the steps for its work before it does it (run_work()).
 * 3. Functions that values can nest (printing, comparing) and those that templates can (expressions,
 *    macros) count their depth (run_enter()).
 */
#include "jinja/node.h"

struct jinja_input;

struct binding {
        struct binding *next;
        const struct string *name; /* interned */
        struct value value;
};
/* The variables of one scope; a macro keeps the frame that it was defined in. */
struct frame {
        struct frame *parent;
        struct binding *vars;
        bool kept; /* a macro or a recursive loop may still refer to it when its scope is left */
};

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

struct run {
        const struct jinja *t;
        const struct jinja_input *input;
        struct arena arena;
        struct err *e;
        int error;
        uint64_t n_steps; /* that are left */
        uint64_t max_steps;
        unsigned depth, max_depth;
        uint32_t offset; /* what is being done, for messages */
        struct text *out, *root;
        size_t max_output;
        struct frame *frame;
        struct frame *free_frames; /* of scopes that were left, to be used again; by parent */
        struct binding *free_bindings;
        enum flow flow;
};

struct macro {
        const struct macro_def *def;
        struct frame *frame;
};
struct loop {
        const struct node *node;
        struct frame *frame; /* around the loop */
        struct list *items;
        size_t i, n;
        unsigned depth;         /* of recursion, from 0 */
        struct value last_seen; /* loop.changed() */
        bool seen;
};
struct cycler {
        struct list *items;
        size_t i;
};

/* The arguments of a call; @self: what a filter, test or method is applied to. */
struct call {
        const char *name; /* of what is called */
        struct value self;
        const struct value *args; /* [n] */
        size_t n;
        const struct string *const *names; /* [n_named] */
        const struct value *named;         /* [n_named] */
        size_t n_named;
};
struct function {
        const char *name;
        struct value (*run)(struct run *r, const struct call *c);
};
struct method {
        const struct function *function;
        struct value self;
};

/* Sets the error unless there is one; UNDEFINED, for the caller to return. */
struct value run_fail(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, for what is past a limit. */
void run_too_large(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool run_failed(struct run *r);
/* Take @n steps; false: there are not that many, or there was an error before. */
bool run_work(struct run *r, uint64_t n);
static inline bool run_bytes(struct run *r, size_t n) {
        return run_work(r, 1 + n / 32);
}
static inline bool run_items(struct run *r, size_t n) {
        return run_work(r, 1 + n / 4);
}
bool run_enter(struct run *r);
static inline void run_leave(struct run *r) {
        r->depth--;
}

/* eval.c */
struct value eval(struct run *r, const struct node *n);
/* A call of a macro by a call block. */
struct value eval_with_caller(struct run *r, const struct node *n, struct value caller);
struct value eval_filters(struct run *r, const struct node *n, struct value of);
/* exec.c */
void exec(struct run *r, const struct node *n);
struct value call_macro(struct run *r, const struct macro *m, const struct call *c);
struct value call_loop(struct run *r, const struct loop *l, const struct call *c);
/* access.c */
struct value get_attribute(struct run *r, struct value of, const struct string *name);
struct value get_item(struct run *r, struct value of, struct value key);
struct value get_slice(struct run *r, struct value of, const struct value bounds[3]);
/* "a.b.0", as filters take attributes. */
struct value get_path(struct run *r, struct value of, struct value path);
struct value call_value(struct run *r, struct value callee, struct call *c);
/* The error of using @v, which is undefined. */
struct value run_undefined(struct run *r, struct value v);
struct value undefined_variable(struct run *r, const struct string *name);

/* operators.c */
struct value unary(struct run *r, enum op op, struct value v);
struct value binary(struct run *r, enum op op, struct value a, struct value b);
/* compare.c */
bool values_equal(struct run *r, struct value a, struct value b);
/* < 0, 0, > 0; an error if the values have no order. */
int values_order(struct run *r, struct value a, struct value b);
bool contains(struct run *r, struct value container, struct value item);
bool compare_op(struct run *r, enum op op, struct value a, struct value b);
/* Stable, by @keys, which are sorted along; the two have the same length. */
void sort_list(struct run *r, struct list *l, struct list *keys, bool reverse);

/* write.c: @v as str(), repr() or json.dumps() has it */
void write_str(struct run *r, struct text *t, struct value v);
void write_repr(struct run *r, struct text *t, struct value v);
struct json_style {
        const struct string *item_separator, *key_separator;
        const struct string *indent; /* NULL: all on one line */
        bool ascii, sort_keys;
};
void write_json(struct run *r, struct text *t, struct value v, const struct json_style *style,
        unsigned level);
const struct string *to_string(struct run *r, struct value v);

/* format.c */
struct value format_percent(struct run *r, const struct string *format, struct value args);
struct value format_braces(struct run *r, const struct call *c);

/* args.c */
/* The values of the parameters that @params names ("a b c"), UNDEFINED for those that are not given;
 * false: a wrong call. The first @n_required must be given. */
bool bind_args(struct run *r, const struct call *c, const char *params, unsigned n_required,
        struct value *ret);
int64_t arg_int(struct run *r, const struct call *c, struct value v, int64_t preset);
bool arg_bool(struct value v, bool preset);
/* NULL: it is no string, and the error is set. @preset for what is not given. */
const struct string *arg_string(
        struct run *r, const struct call *c, struct value v, const struct string *preset);
/* What iterating over @v gives: a list itself, the keys of a dict, the characters of a string. */
struct list *to_list(struct run *r, struct value v);
/* Whether to_list() can. */
bool is_iterable(struct value v);

/* By name, or NULL. */
const struct function *global_find(struct run *r, const struct string *name);
const struct function *string_method_find(const struct string *name);
const struct function *method_by_name(struct value of, const struct string *name);
const struct function *function_find(
        const struct function *table, size_t n, const struct string *name);

/* text functions that filters and methods share: text-functions.c */
const struct string *string_trim(
        struct run *r, const struct string *s, const struct string *set, bool left, bool right);
const struct string *string_upper(struct run *r, const struct string *s);
const struct string *string_lower(struct run *r, const struct string *s);
const struct string *string_capitalize(struct run *r, const struct string *s);
const struct string *string_replace(struct run *r, const struct string *s,
        const struct string *from, const struct string *to, int64_t count);
const struct string *string_center(struct run *r, const struct string *s, int64_t width,
        const struct string *fill, double left_share);
/* Bytes from @at on where @what begins; SIZE_MAX: nowhere. */
size_t string_find(const struct string *s, size_t at, const struct string *what);
struct list *string_splitlines(struct run *r, const struct string *s, bool keep);
