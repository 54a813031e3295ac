/* SPDX-License-Identifier: MIT */
#pragma once
/* The parser: parse.c has the statements, parse-expr.c the expressions. */
#include "jinja/lexer.h"

/* Levels of nodes, and so of calls of the parser and the interpreter. */
#define MAX_DEPTH 500

struct parser {
        struct lexer l;
        unsigned depth;          /* of the parser's calls that an input can nest */
        unsigned n_loops;        /* around the present place, within its macro */
        struct macro_def *macro; /* the innermost around the present place, or NULL */
        struct node none;        /* what is returned after an error */
};

static inline struct arena *parser_arena(struct parser *p) {
        return &p->l.t->arena;
}
static inline bool parser_failed(const struct parser *p) {
        return p->l.error < 0 || p->l.t->arena.error < 0;
}
struct node *node_new(struct parser *p, enum node_kind kind, uint32_t offset);
/* Compute the node's depth from what is below it, and refuse what is too deep. Call it once the node
 * is complete. */
struct node *node_done(struct parser *p, struct node *n);
/* A growing array of nodes. */
struct nodes {
        struct node **items;
        size_t n, capacity;
};
void nodes_add(struct parser *p, struct nodes *list, struct node *n);

/* One more level of nesting; false: too deep. */
bool parser_enter(struct parser *p);
static inline void parser_leave(struct parser *p) {
        p->depth--;
}

bool at_op(const struct parser *p, unsigned op);
bool at_name(const struct parser *p, const char *name);
/* If the present token is this one, go to the next. */
bool skip_op(struct parser *p, unsigned op);
bool skip_name(struct parser *p, const char *name);
void expect_op(struct parser *p, unsigned op, const char *where);
void expect_name(struct parser *p, const char *name, const char *where);
/* "expected WHAT, not TOKEN" */
void unexpected(struct parser *p, const char *what);
const struct string *take_name(struct parser *p, const char *what);

struct node *parse_expression(struct parser *p);
struct node *parse_no_condition(struct parser *p); /* an expression without "a if b else c" */
/* a, b, c: a tuple, or just the one expression. */
struct node *parse_tuple(struct parser *p, bool conditions);
/* Names, a tuple of them, or with @attributes also NAMESPACE.ATTRIBUTE. */
struct node *parse_target(struct parser *p, bool attributes);
/* Behind the name of what is called: ( ... ). */
struct args *parse_args(struct parser *p);
/* name(args) | name ...: at the first name. */
struct node *parse_filters(struct parser *p, struct node *of);
struct node *parse_postfix(struct parser *p, struct node *of);
struct node *parse_primary(struct parser *p);
struct node *parse_unary(struct parser *p, bool filters);
