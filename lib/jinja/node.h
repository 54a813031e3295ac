/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A parsed template: a tree in an arena. Strings of nodes are trusted, since the template wrote
 * them. Names are interned: within one template the same name is the same pointer.
 */
#include "jinja/value.h"

enum node_kind {
        /* expressions */
        N_CONST,     /* value */
        N_NAME,      /* name */
        N_LIST,      /* items */
        N_TUPLE,     /* items */
        N_DICT,      /* items: key, value, key, value, ... */
        N_UNARY,     /* op, a */
        N_BINARY,    /* op, a, b */
        N_COMPARE,   /* a, items: N_OPERAND */
        N_OPERAND,   /* op, a: of a comparison */
        N_AND,       /* a, b */
        N_OR,        /* a, b */
        N_NOT,       /* a */
        N_IF_ELSE,   /* a if b else c; c may be NULL */
        N_ATTRIBUTE, /* a.name */
        N_ITEM,      /* a[b] */
        N_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
        N_FILTER,    /* a | name(args), a is NULL in a filter block */
        N_TEST,      /* a is name(args) */
        N_CALL,      /* a(args) */
        /* statements */
        N_TEXT,   /* value */
        N_OUTPUT, /* a */
        N_BODY,   /* items */
        N_IF,     /* items: condition, body, condition, body, ...; c: else, or NULL */
        N_FOR,    /* a: target, b: what, c: filter or NULL, body, orelse or NULL, flag: recursive */
        N_BREAK,
        N_CONTINUE,
        N_SET,        /* a: target, b: value */
        N_SET_BLOCK,  /* a: target, b: filters or NULL, body */
        N_WITH,       /* items: target, value, target, value, ...; body */
        N_MACRO,      /* macro */
        N_CALL_BLOCK, /* a: the call, macro: its body */
        N_FILTER_BLOCK /* a: filters; body */,
};

enum op {
        OP_ADD,
        OP_SUB,
        OP_MUL,
        OP_DIV,
        OP_FLOORDIV,
        OP_MOD,
        OP_POW,
        OP_CONCAT,
        OP_EQ,
        OP_NE,
        OP_LT,
        OP_LE,
        OP_GT,
        OP_GE,
        OP_IN,
        OP_NOT_IN,
};

struct function;

/* Arguments as the template writes them. */
struct args {
        struct node **positional; /* [n_positional] */
        size_t n_positional;
        const struct string **names; /* [n_named] */
        struct node **named;         /* [n_named] */
        size_t n_named;
        struct node *star, *star_star; /* or NULL */
};

struct macro_def {
        const struct string *name;    /* NULL: the body of a call block */
        const struct string **params; /* [n_params] */
        struct node **defaults;       /* [n_params], NULL: none */
        size_t n_params;
        bool uses_caller, uses_varargs, uses_kwargs;
        struct node *body;
};

struct node {
        uint8_t kind, op;
        bool flag;
        uint16_t depth;  /* levels of nodes below, itself included */
        uint32_t offset; /* in the template's text */
        struct node *a, *b, *c;
        struct node *body, *orelse;
        struct node **items;
        size_t n_items;
        union {
                struct value value;
                const struct string *name;
        };
        struct args *args;
        union {
                const struct function *function; /* of a filter or test; NULL: there is none */
                struct macro_def *macro;
        };
};

struct jinja {
        struct arena arena;
        const char *text; /* with \n as the only newline */
        size_t n;
        struct dict *names; /* interned */
        struct node *body;
};

/* Line and column of a place in the text, from 1; columns in characters. */
void jinja_place(const struct jinja *t, uint32_t offset, unsigned *ret_line, unsigned *ret_column);

/* What is known by name. NULL if there is none. */
const struct function *filter_find(const struct string *name);
const struct function *test_find(const struct string *name);
